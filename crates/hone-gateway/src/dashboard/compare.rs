//! Two runs in the same pictures, with what they were told apart and what came of it.

use super::figure::known;
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned};
use super::query::Query;
use super::run::{FIRST, Seen, curves, seen};
use super::runs::{address, badge};
use super::session::Reader;
use super::table::Table;
use crate::error::Refused;
use crate::server::Gateway;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) async fn compare(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Turned> {
    let query = Query::read(query.as_deref().unwrap_or_default());
    let names = query.all("run");
    let [one, two] = &names[..] else {
        let message =
            format!("two runs are compared, and {} {} marked", names.len(), if names.len() == 1 { "is" } else { "are" });
        return Err(Refused::param("run", message)).seen_by(&viewer);
    };
    let (one, two) = (seen(&gateway, &viewer, one).await?, seen(&gateway, &viewer, two).await?);
    let now = gateway.now();
    let mut main = html!("<p class=\"crumbs\"><a href=\"/dashboard/runs\">Runs</a></p><h1>Two runs</h1><ul class=\"plain\">");
    for (idx, seen) in [&one, &two].into_iter().enumerate() {
        let name = &seen.named.name;
        html!(
            main,
            "<li><span class=\"key c{}\"></span> <a href=\"{}\">{}</a> {}",
            idx,
            address(name),
            name,
            badge(&seen.named, &seen.curve, now)
        );
        html!(main, " <span class=\"quiet\">step {}</span></li>", seen.curve.last_step().unwrap_or(0));
    }
    html!(main, "</ul>{}{}", differences(&one, &two), ends(&one, &two));
    html!(main, "<section aria-labelledby=\"curves\"><h2 id=\"curves\">Curves</h2>{}</section>", curves(&[&one, &two]));
    let line = format!("steps {} and {}", one.curve.last_step().unwrap_or(0), two.curve.last_step().unwrap_or(0));
    let page = Page::new(Place::Runs, format!("{} and {}", one.named.name, two.named.name), main);
    let is_open = one.named.is_open() || two.named.is_open();
    Ok(if is_open { page.moving(line) } else { page }.shown(Some(&viewer)))
}

/// What they were told apart.
fn differences(one: &Seen, two: &Seen) -> Html {
    let (of_one, of_two) = (one.named.facts(), two.named.facts());
    let keys: BTreeSet<&String> = of_one.keys().chain(of_two.keys()).collect();
    let mut table = Table::new("Settings that differ", &["Setting", &one.named.name, &two.named.name]).slim();
    let mut n_differ = 0;
    for key in keys.into_iter().filter(|key| of_one.get(*key) != of_two.get(*key)) {
        let value = |facts: &BTreeMap<String, String>| facts.get(key).cloned().unwrap_or_else(|| "–".to_owned());
        table.row(&[key, &value(&of_one), &value(&of_two)]);
        n_differ += 1;
    }
    let none = || html!("<p>Both were started with the same settings.</p>");
    let shown = if n_differ == 0 { none() } else { table.shown() };
    html!("<section aria-labelledby=\"differ\"><h2 id=\"differ\">What differs</h2>{}</section>", shown)
}

/// What came of it.
fn ends(one: &Seen, two: &Seen) -> Html {
    let columns = [format!("#{}", one.named.name), format!("#{}", two.named.name)];
    let mut table = Table::new("Figures", &["Figure", &columns[0], &columns[1]]).slim();
    for (name, title) in FIRST {
        let last = |seen: &Seen| known(seen.curve.last(name));
        if one.curve.last(name).is_some() || two.curve.last(name).is_some() {
            table.row(&[&format_args!("{title}, last"), &last(one), &last(two)]);
        }
    }
    let best = |seen: &Seen| {
        let best = seen.curve.highest("validation").or_else(|| seen.curve.highest("reward"));
        best.map_or_else(|| "–".to_owned(), |(step, value)| format!("{} at step {step}", known(Some(value))))
    };
    table.row(&[&"Best", &best(one), &best(two)]);
    table.row(&[&"Alarms", &one.curve.alarms().count(), &two.curve.alarms().count()]);
    html!("<section aria-labelledby=\"came\"><h2 id=\"came\">What came of it</h2>{}</section>", table.shown())
}
