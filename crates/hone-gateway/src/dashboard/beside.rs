//! Configs beside one in use: how they compare on equal tasks, as pictures of intervals and in numbers.

use super::chart::interval;
use super::figure::count;
use super::html::{Html, Show, html};
use super::proposals::named;
use super::table::Table;
use crate::advice::{Advised, Look};
use hone_advise::{Candidate, Compared, Difference, Equal, Scope, Verdict};

/// Configs beside one in use that are shown, and those that cannot be compared.
const N_BESIDE: usize = 25;
const N_UNLIKE: usize = 5;
/// Comparisons within types of task that are shown.
const N_TYPES: usize = 50;

/// The other configs on equal tasks.
pub(super) fn beside(look: &Look, one: &Advised) -> Html {
    let (all, n_compared) = one.beside();
    if all.is_empty() {
        let mut page = html!("<p class=\"empty\">No other config has episodes: try one beside it, by a canary, a route or ");
        html!(page, "<code>hone rollout</code>.</p>");
        return page;
    }
    let n_shown = if n_compared > N_BESIDE { N_BESIDE } else { all.len().min(n_compared + N_UNLIKE) };
    let shown = &all[..n_shown];
    let columns = ["Beside it", "Quality", "#Points", "#Cost, $", "#Tasks", "Verdict"];
    let caption = "Other configs on equal tasks, with 95 % intervals of how much more they have";
    let mut table = Table::new(caption, &columns).titled(caption);
    let reach = reach(shown);
    for candidate in shown {
        row(&mut table, &[&named(candidate.config, look)], candidate, reach);
    }
    let mut page = table.shown();
    if all.len() > shown.len() {
        let n_more = count((all.len() - shown.len()) as u64);
        html!(page, "<p class=\"quiet\">{} more configs: <code>hone advise --json</code> has all.</p>", n_more);
    }
    page
}

/// The same within types of task, where both had enough of one.
pub(super) fn of_types(look: &Look, one: &Advised) -> Html {
    let all = one.advice.candidates.iter().filter(|candidate| candidate.compared.is_ok() && candidate.scope != Scope::All);
    let all: Vec<&Candidate> = all.collect();
    if all.is_empty() {
        return Html::default();
    }
    let columns = ["Beside it", "Task", "Quality", "#Points", "#Cost, $", "#Tasks", "Verdict"];
    let mut table = Table::new("The same within types of task", &columns);
    let shown = &all[..all.len().min(N_TYPES)];
    let reach = reach(shown);
    for candidate in shown {
        let task = candidate.scope.category().map(ToString::to_string).unwrap_or_default();
        row(&mut table, &[&named(candidate.config, look), &task], candidate, reach);
    }
    let mut page = html!("<details class=\"more\"><summary>By type of task</summary>{}", table.shown());
    if all.len() > shown.len() {
        html!(page, "<p class=\"quiet\">And {} more.</p>", count((all.len() - shown.len()) as u64));
    }
    html!(page, "</details>");
    page
}

/// How far pictures of these reach to either side.
fn reach(shown: &[&Candidate]) -> f64 {
    let known = shown.iter().filter_map(|candidate| candidate.compared.as_ref().ok());
    known.map(|compared| compared.quality.low.abs().max(compared.quality.high.abs())).fold(0.01, f64::max)
}

/// A row that begins with these cells.
fn row(table: &mut Table, first: &[&dyn Show], candidate: &Candidate, reach: f64) {
    let none = || html!("–");
    let (picture, points, cost, tasks) = match &candidate.compared {
        Ok(compared) => {
            let cost = compared.priced().map_or_else(none, |cost| more(&cost, |usd| format!("{usd:+.5}")));
            let points = more(&compared.quality, |share| format!("{:+.1}", 100.0 * share));
            (picture(&compared.quality, reach), points, cost, pairs(compared))
        }
        Err(_) => (Html::default(), none(), none(), none()),
    };
    let verdict = match candidate.verdict {
        Verdict::Better | Verdict::Cheaper => html!("<span class=\"tag good\">{}</span>", candidate.judged()),
        Verdict::Worse => html!("<span class=\"tag bad\">{}</span>", candidate.judged()),
        Verdict::Open => html!("<span class=\"tag\">{}</span>", candidate.judged()),
        Verdict::Unlike => html!("<span class=\"quiet\">{}</span>", candidate.judged()),
    };
    let own: [&dyn Show; 5] = [&picture, &points, &cost, &tasks, &verdict];
    table.row(&[first, &own].concat());
}

fn picture(quality: &Difference, reach: f64) -> Html {
    interval(quality.to - quality.from, (quality.low, quality.high), (-reach, reach))
}

/// How much more the other has, with the ends of its interval.
fn more(difference: &Difference, text: impl Fn(f64) -> String) -> Html {
    let [low, high] = [difference.low, difference.high].map(&text);
    html!("{}<br><span class=\"quiet\">{} to {}</span>", text(difference.to - difference.from), low, high)
}

/// How many tasks two were compared on: those that both had, or those of each.
fn pairs(compared: &Compared) -> Html {
    match compared.on {
        Equal::Tasks => html!("{}", count(compared.n_from as u64)),
        Equal::Types => html!("{} / {}", count(compared.n_from as u64), count(compared.n_to as u64)),
    }
}
