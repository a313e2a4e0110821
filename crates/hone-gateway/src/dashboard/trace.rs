//! One trace, turn by turn: what was said and done, what it cost, what it earned and why.

use super::feedback::{self, Words};
use super::figure::{count, dollars, duration, figure, known, to_second};
use super::html::{Html, html, segment};
use super::page::{For, Page, Place, Turned};
use super::query::Query;
use super::say;
use super::session::{Reader, Viewer};
use super::table::Table;
use super::traces::{outcome, tail};
use super::turn;
use crate::documents;
use crate::error::Refused;
use crate::server::Gateway;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use hone_trace::format::is_note;
use hone_trace::store::{Store, StoreError};
use hone_trace::{Config, GiverKind, Metric, Reward, Time, Trace, TraceId};

/// Turns of one page.
const N_TURNS: usize = 50;

/// Messages of one page, besides the answers.
const N_MESSAGES: usize = 500;

/// Rewards of one page.
const N_REWARDS: usize = 50;

/// An episode of which nothing is known for so long does not go on.
const GOING_ON_MS: f64 = 600_000.0;

/// Where a trace is shown.
pub(super) fn address(id: TraceId) -> String {
    format!("/dashboard/traces/{id}")
}

pub(crate) async fn trace(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Turned> {
    let (store, query) = (gateway.record().store(), Query::read(query.as_deref().unwrap_or_default()));
    let trace = found(store, &id, &viewer).await?;
    if let Some(number) = query.get("say") {
        return say::asking(&trace, number, &gateway.new_trace().to_string(), &viewer);
    }
    let id = trace.id;
    let config = config(store, &trace).await.seen_by(&viewer)?;
    let said = feedback::of_trace(store, &trace).await.seen_by(&viewer)?;
    let n_turns = trace.turns().count();
    let from: Option<usize> = query.get("from").and_then(|text| text.parse().ok());
    let first = from.unwrap_or(0).min(n_turns.saturating_sub(1));
    let mut main = html!("<p class=\"crumbs\"><a href=\"/dashboard/traces\">Traces</a></p>");
    html!(
        main,
        "<h1>Trace <code>{}</code> {}</h1>{}",
        tail(&id.to_string()),
        outcome(trace.outcome),
        facts(&trace, config.as_ref())
    );
    if !trace.rewards.is_empty() {
        html!(main, "{}", rewards(&trace.rewards));
    }
    html!(main, "{}", feedback::of_whole(&said));
    html!(main, "<section aria-labelledby=\"turns\"><h2 id=\"turns\">What was said and done</h2>{}", part(&trace, &said, first));
    html!(main, "{}</section>{}", steps(id, first, n_turns), notes(&trace));
    let (n_turns, n_tokens) = (count(n_turns as u64), count(trace.head().n_tokens));
    let page = Page::new(Place::Traces, format!("Trace {}", tail(&id.to_string())), main);
    // An episode that goes on grows before the reader's eyes.
    let is_going_on = gateway.now().millis_since(last_known(&trace)).abs() < GOING_ON_MS;
    let moving = |page: Page| page.moving(format!("{n_turns} turns, {n_tokens} tokens"));
    Ok(if is_going_on { moving(page) } else { page }.shown(Some(&viewer)))
}

/// The trace of an address, where who looks may see it.
pub(super) async fn found(store: &dyn Store, id: &str, viewer: &Viewer) -> Result<Trace, Turned> {
    let missing = || Refused::NotFound("there is no such trace".into());
    let id: TraceId = id.parse().map_err(|_| missing()).seen_by(viewer)?;
    let trace = store.trace(id).await.seen_by(viewer)?;
    trace.filter(|trace| trace.tenant == viewer.identity.tenant).ok_or_else(missing).seen_by(viewer)
}

/// Where the page of a trace begins on which this turn stands.
pub(super) fn first_with(turn_idx: usize) -> usize {
    turn_idx - turn_idx % N_TURNS
}

/// When something was heard of a trace last.
fn last_known(trace: &Trace) -> Time {
    let turn = || trace.turns().filter_map(|turn| turn.started).last();
    trace.ended.or_else(turn).unwrap_or(trace.started)
}

/// The config that produced a trace, where it is on the record and can be read.
pub(super) async fn config(store: &dyn Store, trace: &Trace) -> Result<Option<Config>, StoreError> {
    documents::sound(store, &trace.config.to_string()).await
}

fn facts(trace: &Trace, config: Option<&Config>) -> Html {
    let head = trace.head();
    let mut page = html!("<dl class=\"facts\">");
    let mut fact = |name: &'static str, value: Html| html!(page, "<div><dt>{}</dt><dd>{}</dd></div>", name, value);
    fact("Reward", html!("<b class=\"n\">{}</b>", known(head.reward)));
    fact("Began", html!("<time datetime=\"{}\">{}</time>", trace.started, to_second(trace.started)));
    // Clocks of two machines may disagree, and then nobody knows.
    if let Some(took_ms) = trace.ended.map(|ended| ended.millis_since(trace.started)).filter(|ms| *ms >= 0.0) {
        fact("Took", html!("{}", duration(took_ms)));
    }
    fact("Turns", html!("{}", head.n_turns));
    fact("Tokens", html!("{}", count(head.n_tokens)));
    fact("Cost", html!("{}", dollars(head.cost_usd)));
    if let Some(task) = &trace.category {
        fact("Task", html!("<a href=\"/dashboard/traces?task={}\">{}</a>", segment(task.as_str()), task));
    }
    if let Some(scenario) = &trace.scenario {
        fact("Scenario", html!("{}", scenario));
    }
    if let Some(group) = &trace.group {
        fact("Group", html!("<a href=\"/dashboard/groups/{}\"><code>{}</code></a>", group, tail(&group.to_string())));
    }
    let model = config.and_then(|config| config.model.clone()).unwrap_or_else(|| "config".to_owned());
    let hash = trace.config.to_string();
    fact("Config", html!("<a href=\"/dashboard/traces?config={}\">{} <code>{}</code></a>", hash, model, tail(&hash)));
    html!(page, "</dl>");
    page
}

/// What it earned, by whom, in which parts and words.
fn rewards(rewards: &[Reward]) -> Html {
    let mut page = html!("<section aria-labelledby=\"rewards\"><h2 id=\"rewards\">What it earned</h2>");
    for reward in rewards.iter().rev().take(N_REWARDS) {
        let place = reward.turn_idx.map_or_else(|| "the whole trace".to_owned(), |idx| format!("turn {}", idx + 1));
        html!(page, "<article class=\"reward\"><h3><b class=\"n\">{}</b> for {} ", figure(reward.total), place);
        html!(
            page,
            "<span class=\"quiet\">by {} {}, {}</span></h3>",
            giver(reward.by.kind),
            reward.by.name,
            to_second(reward.at)
        );
        if !reward.components.is_empty() {
            let mut table = Table::new("Parts of this reward", &["Part", "#Value", "#Weight"]).slim();
            reward.components.iter().for_each(|part| table.row(&[&part.name, &figure(part.value), &figure(part.weight)]));
            html!(page, "{}", table.shown());
        }
        if let Some(words) = &reward.explanation {
            html!(page, "<blockquote>{}</blockquote>", turn::text(words));
        }
        html!(page, "</article>");
    }
    if rewards.len() > N_REWARDS {
        let n_more = turn::counted(rewards.len() - N_REWARDS, "earlier reward");
        html!(page, "<p class=\"quiet\">… and {}; <code>hone trace show</code> prints them all.</p>", n_more);
    }
    html!(page, "</section>");
    page
}

fn giver(kind: GiverKind) -> &'static str {
    match kind {
        GiverKind::Check => "the check",
        GiverKind::Rubric => "the rubric",
        GiverKind::Judge => "the judge",
        GiverKind::Human => "a person,",
        GiverKind::Import => "the import,",
    }
}

/// Turns from this one on, segment by segment.
fn part(trace: &Trace, said: &[Words], first: usize) -> Html {
    let (mut page, mut idx, mut room) = (Html::default(), 0_usize, N_MESSAGES);
    let shown = first..first + N_TURNS;
    for (segment_idx, segment) in trace.segments.iter().enumerate() {
        // A segment without turns stands with the turn before it.
        let begins = if segment.turns.is_empty() { idx.saturating_sub(1) } else { idx };
        if segment_idx > 0 && shown.contains(&begins) {
            html!(page, "<p class=\"cut\">Here the history was rewritten, and a new segment begins.</p>");
        }
        if !segment.tools.is_empty() && shown.contains(&begins) {
            html!(page, "{}", turn::tools(&segment.tools));
        }
        for one in &segment.turns {
            if shown.contains(&idx) {
                html!(page, "{}", turn::shown(idx, one, &trace.rewards, said, &address(trace.id), &mut room));
            }
            idx += 1;
        }
        if !segment.tail.is_empty() && shown.contains(&idx.saturating_sub(1)) {
            html!(page, "<article class=\"turn\">{}</article>", turn::messages(&segment.tail, &mut room));
        }
    }
    page
}

/// The way to further turns.
fn steps(id: TraceId, first: usize, n_turns: usize) -> Html {
    let mut page = Html::default();
    if first > 0 || n_turns > first + N_TURNS {
        html!(page, "<nav class=\"pages\" aria-label=\"Turns\">");
        if first > 0 {
            html!(page, "<a rel=\"prev\" href=\"{}?from={}\">Earlier turns</a>", address(id), first.saturating_sub(N_TURNS));
        }
        if n_turns > first + N_TURNS {
            html!(page, "<a rel=\"next\" href=\"{}?from={}\">Later turns</a>", address(id), first + N_TURNS);
        }
        html!(page, "</nav>");
    }
    page
}

/// Free measurements and facts.
fn notes(trace: &Trace) -> Html {
    let mut metadata = trace.metadata.iter().filter(|(name, _)| !is_note(name)).peekable();
    if trace.metrics.is_empty() && metadata.peek().is_none() {
        return Html::default();
    }
    let mut page = html!("<section aria-labelledby=\"notes\"><h2 id=\"notes\">What else is known</h2><dl class=\"notes\">");
    for (name, metric) in &trace.metrics {
        let value = match metric {
            Metric::Flag(flag) => flag.to_string(),
            Metric::Value(number) => number.to_string(),
        };
        html!(page, "<div><dt>{}</dt><dd class=\"n\">{}</dd></div>", name, value);
    }
    for (name, value) in metadata {
        html!(page, "<div><dt>{}</dt><dd>{}</dd></div>", name, turn::value(value));
    }
    html!(page, "</dl></section>");
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{Giver, Message, RewardId, Role, Segment, Tenant, Turn};

    /// A trace with a segment for each number: so many turns, and a tail that says which segment it ends.
    fn trace(n_turns: &[usize]) -> Trace {
        let mut trace =
            Trace::new(TraceId::derived(&["t"]), Tenant::default(), Time::from_unix_nanos(0), Config::default().hash());
        let turn = || Turn::new(vec![Message::text(Role::User, "and?")], Message::text(Role::Assistant, "so"));
        let segment = |(idx, n_turns): (usize, &usize)| Segment {
            turns: std::iter::repeat_with(turn).take(*n_turns).collect(),
            tail: vec![Message::text(Role::User, format!("tail {idx}."))],
            ..Segment::default()
        };
        trace.segments = n_turns.iter().enumerate().map(segment).collect();
        trace
    }

    #[test]
    fn notes_of_formats_are_shown_to_nobody() {
        let mut trace = trace(&[1]);
        trace.metadata.insert("hone.spans".into(), serde_json::json!([{"name": "inner"}]));
        assert_eq!(notes(&trace), Html::default());
        trace.metadata.insert("customer".into(), "Acme".into());
        let page = notes(&trace);
        assert!(page.has("Acme") && !page.has("hone.spans") && !page.has("inner"), "{page:?}");
    }

    #[test]
    fn every_turn_and_every_tail_is_on_one_page() {
        for n_turns in [vec![50], vec![0], vec![3, 60, 0, 37], vec![49, 1, 0, 50, 1], vec![1]] {
            let (trace, n_all) = (trace(&n_turns), n_turns.iter().sum::<usize>());
            let pages: Vec<Html> = (0..n_all.max(1)).step_by(N_TURNS).map(|first| part(&trace, &[], first)).collect();
            let n_shown = |text: &str| pages.iter().map(|page| page.as_str().matches(text).count()).sum::<usize>();
            assert_eq!(n_shown("class=\"answer\""), n_all, "{n_turns:?}");
            assert_eq!(n_shown("Here the history"), n_turns.len() - 1, "{n_turns:?}");
            (0..n_turns.len()).for_each(|idx| assert_eq!(n_shown(&format!("tail {idx}.")), 1, "{n_turns:?}: {idx}"));
        }
    }

    #[test]
    fn what_a_page_leaves_out_is_counted() {
        let mut long = trace(&[1]);
        long.segments[0].turns[0].input = vec![Message::text(Role::User, "and?"); N_MESSAGES + 7];
        let page = part(&long, &[], 0);
        assert_eq!(page.as_str().matches("said user").count(), N_MESSAGES);
        assert!(
            page.as_str().contains("7 earlier messages") && page.as_str().contains("1 earlier message "),
            "{}",
            page.as_str()
        );
    }

    #[test]
    fn rewards_that_are_left_out_are_counted() {
        let giver = Giver { kind: GiverKind::Human, name: "sam".into(), config: None };
        let reward = Reward::sum(RewardId::derived(&["r"]), Time::from_unix_nanos(0), giver, Vec::new());
        assert!(!rewards(&vec![reward.clone(); N_REWARDS]).as_str().contains("earlier"));
        assert!(rewards(&vec![reward; N_REWARDS + 10]).as_str().contains("… and 10 earlier rewards;"));
    }

    #[test]
    fn an_end_before_the_beginning_says_nothing_of_how_long_it_took() {
        let mut one = trace(&[1]);
        one.ended = Some(Time::from_unix_nanos(2_000_000_000));
        assert!(facts(&one, None).as_str().contains("<dt>Took</dt><dd>2.0 s</dd>"));
        one.ended = Some(Time::from_unix_nanos(-2_000_000_000));
        assert!(!facts(&one, None).as_str().contains("Took"));
    }

    #[test]
    fn a_trace_without_an_end_is_as_old_as_what_is_known_of_it() {
        let mut one = trace(&[2]);
        let at = |s: i64| Time::from_unix_nanos(s * 1_000_000_000);
        assert_eq!(last_known(&one), at(0));
        one.segments[0].turns[1].started = Some(at(9));
        assert_eq!(last_known(&one), at(9));
        one.ended = Some(at(12));
        assert_eq!(last_known(&one), at(12));
    }
}
