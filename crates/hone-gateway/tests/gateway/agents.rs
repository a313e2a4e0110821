//! Agents, canaries and routes through HTTP: what the log says is what happens, without a restart and after one.

use crate::world::{World, tenant};
use hone_arbiter::canary::{Command, Rule, Settings};
use hone_arbiter::log::{Line, STREAM, Start};
use hone_gateway::{Limits, registry};
use hone_trace::store::{Event, Kind, Write};
use hone_trace::{AdapterId, Agent, AgentName, Config, EventId, Time};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const NOW: Time = Time::from_unix_nanos(1_800_000_000_000_000_000);

fn name(agent: &str) -> AgentName {
    AgentName::new(agent).unwrap()
}

pub(crate) async fn add(world: &World, agent: &str, version: &str, model: &str) {
    let config = Config { model: Some(model.into()), prompt: Some(format!("you are {version}")), ..Config::default() };
    assert!(registry::add(&*world.store, &name(agent), version, &config, &tenant(), NOW).await.unwrap());
}

/// Begins a canary, and gives its id.
pub(crate) async fn start(world: &World, agent: &str, from: &str, to: &str) -> EventId {
    start_waiting(world, agent, [from, to], 60_000).await
}

/// Begins a canary that waits so long for outcomes.
async fn start_waiting(world: &World, agent: &str, [from, to]: [&str; 2], wait_ms: u64) -> EventId {
    let settings = Settings { rule: Rule::NonInferior { margin: 0.03 }, ..Settings::default() };
    let start = Start { agent: name(agent), from: from.into(), to: to.into(), settings, wait_ms };
    write(world, &Line::Started(Box::new(start)), to).await
}

async fn write(world: &World, line: &Line, id: &str) -> EventId {
    let id = EventId::derived(&["test", id]);
    world.store.put(vec![Write::Event(line.event(id, NOW, tenant()))]).await.unwrap();
    id
}

/// Waits until what is told of an agent is so.
pub(crate) async fn until(world: &World, agent: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let told = world.get(&format!("/v1/agents/{agent}"), &[]).await;
        if told.status == 200 && is_so(&told.json()) {
            return told.json();
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{}", told.body);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn share(told: &Value, version: &str) -> f64 {
    let versions = told["versions"].as_array().unwrap();
    versions.iter().find(|one| one["version"] == version).map_or(0.0, |one| one["share"].as_f64().unwrap())
}

/// The version that answers a new episode.
async fn version_of(world: &World, agent: &str, episode: &str) -> String {
    let told = world.chat(agent, &[("user", "hello")], &[("x-hone-episode", episode)]).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let trace = world.store.trace(told.episode.unwrap().parse().unwrap()).await.unwrap().unwrap();
    let said = |key: &str| trace.metadata["agent"][key].as_str().unwrap().to_owned();
    assert_eq!(told.by, Some((said("agent"), said("version"))), "the response says who answered");
    said("version")
}

/// The log, once a decision stands in it: it is written down after it holds.
async fn decided_log(world: &World) -> Vec<Event> {
    let began = Instant::now();
    loop {
        let lines: Vec<Event> =
            world.store.events(Some(STREAM), 0, 1000).await.unwrap().into_iter().map(|(_, event)| event).collect();
        if lines.iter().any(|event| event.kind == "decided") {
            return lines;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "no decision is written down");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_agent_answers_under_its_name_with_what_its_version_brings_along() {
    let world = World::open().await;
    assert_eq!(world.chat("desk", &[("user", "one")], &[]).await.status, 404);
    add(&world, "desk", "v1", "well").await;
    until(&world, "desk", |told| told["live"] == "v1").await;
    let told = world.chat("desk", &[("user", "I want my money back")], &[]).await;
    assert_eq!((told.status, told.json()["model"].clone()), (200, json!("desk")), "{}", told.body);
    assert_eq!(world.heard.last()["messages"][0], json!({"role": "system", "content": "you are v1"}));
    assert_eq!(world.heard.last()["model"], "well");
    let trace = world.trace_of(1).await;
    assert_eq!(trace.metadata["agent"]["version"], "v1");
    assert_eq!(trace.category.unwrap().as_str(), "refund");
    let config: Config = world.store.document(Kind::Config, &trace.config.to_string()).await.unwrap().unwrap().word().unwrap();
    assert_eq!(config.prompt.as_deref(), Some("you are v1"));
    assert_eq!(trace.segments[0].turns[0].input.len(), 1, "the instructions are the config's, not the client's");
    // The conversation goes on with the same version, and Anthropic's words do as well.
    let answer = told.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let said = [("user", "I want my money back"), ("assistant", &answer), ("user", "two")];
    assert_eq!(world.chat("desk", &said, &[]).await.status, 200);
    world.trace_of(2).await;
    let body = json!({"model": "desk", "max_tokens": 9, "system": "short", "messages": [{"role": "user", "content": "one"}]});
    assert_eq!(world.post("/v1/messages", &body, &[]).await.status, 200);
    let models = world.get("/v1/models", &[]).await.json();
    assert!(models["data"].as_array().unwrap().iter().any(|model| model["id"] == "desk"), "{models}");
}

#[tokio::test]
async fn a_server_follows_the_agents_of_a_store_that_was_restored_under_it() {
    let world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    until(&world, "desk", |told| told["live"] == "v1").await;
    version_of(&world, "desk", "before").await;
    let backup = world.back_up().await;
    add(&world, "desk", "v2", "broken").await;
    start(&world, "desk", "v1", "v2").await;
    until(&world, "desk", |told| share(told, "v2") == 0.1).await;
    let said = [("user", "hello"), ("assistant", "answer 1"), ("user", "and?")];
    assert_eq!(world.chat("well", &said[..1], &[("x-hone-episode", "lost")]).await.status, 200);
    world.restore(backup.path()).await;
    until(&world, "desk", |told| told["versions"].as_array().unwrap().len() == 1).await;
    add(&world, "desk", "v3", "fine").await;
    start(&world, "desk", "v1", "v3").await;
    until(&world, "desk", |told| share(told, "v3") == 0.1).await;
    assert_eq!(version_of(&world, "desk", "before").await, "v1");
    // What was only here goes on as what it is now: an episode that begins.
    let told = world.chat("well", &said, &[("x-hone-episode", "lost")]).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let trace = world.store.trace(told.episode.unwrap().parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((trace.turns().count(), trace.segments[0].turns[0].input.len()), (1, 3));
    assert!(world.store.document(Kind::Config, &trace.config.to_string()).await.unwrap().is_some(), "and so does its config");
}

/// Begins a canary of a version with an adapter that the store does not give so often.
async fn start_dressed(world: &World, n_failing: u64) {
    add(world, "desk", "v1", "own/tiny").await;
    until(world, "desk", |told| told["live"] == "v1").await;
    let adapter = Some(AdapterId::of(b"an adapter"));
    let config = Config { model: Some("own/tiny".into()), adapter, ..Config::default() };
    world.wardrobe.n_failing.store(n_failing, Ordering::Release);
    assert!(registry::add(&*world.store, &name("desk"), "v2", &config, &tenant(), NOW).await.unwrap());
    start(world, "desk", "v1", "v2").await;
}

#[tokio::test]
async fn an_adapter_that_the_store_does_not_give_at_once_is_no_fault_of_the_canary() {
    let world = World::open().await;
    start_dressed(&world, 3).await;
    let told = until(&world, "desk", |told| share(told, "v2") == 0.1).await;
    assert_eq!(told["versions"][1]["problem"], json!(null), "nobody is sent there before it can answer");
}

#[tokio::test]
async fn an_adapter_that_the_store_does_not_give_holds_up_no_other_agent_and_is_asked_for_again() {
    let world = World::open().await;
    start_dressed(&world, 21).await;
    add(&world, "clerk", "v1", "well").await;
    until(&world, "clerk", |told| told["live"] == "v1").await;
    let told = until(&world, "desk", |told| share(told, "v2") == 0.1).await;
    assert_eq!(told["versions"][1]["problem"], "the store: it does not answer");
    until(&world, "desk", |told| told["versions"][1]["problem"].is_null()).await;
}

#[tokio::test]
async fn a_dead_canary_is_off_within_a_second_of_the_row_that_shows_it() {
    let world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    add(&world, "desk", "v2", "broken").await;
    let canary = start(&world, "desk", "v1", "v2").await;
    until(&world, "desk", |told| share(told, "v2") == 0.1).await;
    let mut n_asked = 0;
    let mut n_failed = 0;
    let mut is_off = false;
    while n_asked < 400 && !is_off {
        let told = world.chat("desk", &[("user", &format!("question {n_asked}"))], &[]).await;
        (n_asked, n_failed) = (n_asked + 1, n_failed + usize::from(told.status != 200));
        let now = world.get("/v1/agents/desk", &[]).await.json();
        is_off = share(&now, "v2") == 0.0;
    }
    assert!(is_off && (1..=20).contains(&n_failed), "{n_failed} of {n_asked} failed");
    let lines = decided_log(&world).await;
    let mut deciding = lines.iter().filter(|event| event.kind == "row" && event.body["row"]["arm"] == "canary");
    let decided: Vec<_> = lines.iter().filter(|event| event.kind == "decided").collect();
    assert_eq!((decided.len(), &decided[0].body["canary"]), (1, &json!(canary)));
    assert_eq!(decided[0].body["decision"]["reason"], "more_errors");
    let waited = decided[0].at.unix_nanos() - deciding.next_back().unwrap().at.unix_nanos();
    assert!(waited < 1_000_000_000, "{waited} ns");
    // Nobody is sent there any more, the registry says so, and a server that starts now knows it.
    for n in 0..30 {
        assert_eq!(version_of(&world, "desk", &format!("later {n}")).await, "v1");
    }
    let agent: Agent = world.store.document(Kind::Agent, "desk").await.unwrap().unwrap().word().unwrap();
    assert_eq!(agent.versions.iter().map(|one| one.share).collect::<Vec<_>>(), [1.0, 0.0]);
    let again = world.again().await;
    let told = until(&again, "desk", |told| told["live"] == "v1").await;
    assert_eq!(told["canary"]["state"], "rolled_back");
    assert_eq!(version_of(&again, "desk", "after all").await, "v1");
}

#[tokio::test]
async fn outcomes_that_may_still_come_are_counted() {
    let world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    add(&world, "desk", "v2", "fine").await;
    start(&world, "desk", "v1", "v2").await;
    until(&world, "desk", |told| share(told, "v2") == 0.1).await;
    for episode in ["one", "two", "three"] {
        version_of(&world, "desk", episode).await;
    }
    let n_awaited = |told: &Value| ["canary", "control"].map(|arm| told["canary"]["n_awaited"][arm].as_u64().unwrap_or(0));
    until(&world, "desk", |told| n_awaited(told).iter().sum::<u64>() == 3).await;
    let page = world.get("/dashboard/agents/desk", &[]).await;
    assert!(page.body.contains("Awaited"), "{}", page.body);
}

#[tokio::test]
async fn a_promotion_changes_shares_and_the_performance_table_without_a_restart() {
    let world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    add(&world, "desk", "v2", "fine").await;
    add(&world, "clerk", "v1", "well").await;
    until(&world, "clerk", |told| told["live"] == "v1").await;
    let good = async |agent: &str, n: usize, value: f64| {
        for n in 0..n {
            let episode = format!("{agent} {n} {value}");
            let told = world.chat(agent, &[("user", "hello")], &[("x-hone-episode", &episode), ("x-hone-task", "greet")]).await;
            assert_eq!(told.status, 200);
            let body = json!({"episode_id": episode, "metric_name": "solved", "value": value});
            assert_eq!(world.post("/v1/feedback", &body, &[]).await.status, 200);
        }
    };
    // The clerk is better than the desk's first version, so most go to it.
    good("desk", 20, 0.0).await;
    good("clerk", 20, 1.0).await;
    let shares = async || world.get("/v1/agents", &[]).await.json()["routes"][0]["shares"]["greet"].clone();
    until(&world, "clerk", |told| told["performance"][0]["n_episodes"] == 20).await;
    let before = shares().await;
    assert!(before[1].as_f64().unwrap() > 0.9, "{before}");
    let first = version_of(&world, "desk", "kept").await;
    assert_eq!(first, "v1");

    let canary = start(&world, "desk", "v1", "v2").await;
    until(&world, "desk", |told| share(told, "v2") == 0.1).await;
    for step in ["first", "second"] {
        let asked = Line::Asked { agent: name("desk"), canary, command: Command::Promote };
        write(&world, &asked, step).await;
    }
    let told = until(&world, "desk", |told| told["live"] == "v2").await;
    assert_eq!((share(&told, "v1"), share(&told, "v2")), (0.0, 1.0));
    assert_eq!(version_of(&world, "desk", "new").await, "v2");
    // An episode keeps the version that it began with.
    let said = [("user", "hello"), ("assistant", "answer 1"), ("user", "more")];
    assert_eq!(world.chat("desk", &said, &[("x-hone-episode", "kept")]).await.status, 200);
    assert_eq!(world.heard.last()["model"], "well");
    // Also while the next canary runs.
    add(&world, "desk", "v3", "fine").await;
    let next = start(&world, "desk", "v2", "v3").await;
    until(&world, "desk", |told| share(told, "v3") == 0.1).await;
    let more = [("user", "hello"), ("assistant", "answer 1"), ("user", "more"), ("assistant", "answer 2"), ("user", "and more")];
    assert_eq!(world.chat("desk", &more, &[("x-hone-episode", "kept")]).await.status, 200);
    assert_eq!(world.heard.last()["model"], "well");
    write(&world, &Line::Asked { agent: name("desk"), canary: next, command: Command::Abort }, "aborted").await;
    until(&world, "desk", |told| share(told, "v3") == 0.0).await;
    // The new version begins with what its peers reached, and earns its own place.
    let after = shares().await;
    assert!(after[0].as_f64().unwrap() > 2.0 * before[0].as_f64().unwrap(), "{before} {after}");
    good("desk", 30, 1.0).await;
    let told = until(&world, "desk", |told| told["performance"].as_array().unwrap().len() == 2).await;
    let rows: Vec<&Value> = told["performance"].as_array().unwrap().iter().collect();
    assert_eq!((rows[0]["version"].clone(), rows[1]["version"].clone()), (json!("v1"), json!("v2")));
    until(&world, "desk", |told| told["performance"][1]["success"].as_f64().unwrap() > 0.9).await;
    let again = world.again().await;
    let told = until(&again, "desk", |told| told["live"] == "v2").await;
    assert_eq!(told["performance"].as_array().unwrap().len(), 2, "what was learned survives a restart");
}

#[tokio::test]
async fn a_route_draws_an_agent_and_writes_down_how_likely_that_was() {
    let world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    add(&world, "clerk", "v1", "fine").await;
    until(&world, "clerk", |told| told["live"] == "v1").await;
    for route in ["best", "fit"] {
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..40 {
            let episode = format!("{route} {n}");
            let told = world.chat(route, &[("user", "hello")], &[("x-hone-episode", &episode)]).await;
            assert_eq!(told.status, 200, "{}", told.body);
            let trace = world.store.trace(told.episode.unwrap().parse().unwrap()).await.unwrap().unwrap();
            let agent = &trace.metadata["agent"];
            let chosen = &agent["chosen"];
            assert_eq!((chosen["route"].as_str(), chosen["features"].as_array().unwrap().len()), (Some(route), 32));
            assert!((chosen["propensity"].as_f64().unwrap() - 0.5).abs() < 1e-9, "{chosen}");
            seen.insert(agent["agent"].as_str().unwrap().to_owned());
        }
        assert_eq!(seen.len(), 2, "both were asked");
    }
}

#[tokio::test]
async fn a_route_by_features_learns_who_is_good_for_whom_and_tells_it_in_hindsight() {
    let world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    add(&world, "clerk", "v1", "fine").await;
    until(&world, "clerk", |told| told["live"] == "v1").await;
    let segments = ["old customers", "new customers"];
    let chosen = async |n: usize, segment: &str| {
        let episode = format!("{segment} {n}");
        let headers = [("x-hone-episode", episode.as_str()), ("x-hone-segment", segment)];
        let told = world.chat("fit", &[("user", "hello")], &headers).await;
        let trace = world.store.trace(told.episode.unwrap().parse().unwrap()).await.unwrap().unwrap();
        let agent = trace.metadata["agent"]["agent"].as_str().unwrap().to_owned();
        // The desk is good for old customers and the clerk for new ones.
        let is_good = (agent == "desk") == (segment == segments[0]);
        let body = json!({"episode_id": episode, "metric_name": "solved", "value": f64::from(u8::from(is_good))});
        assert_eq!(world.post("/v1/feedback", &body, &[]).await.status, 200);
        is_good
    };
    let mut n_good = 0;
    for n in 0..150 {
        for segment in segments {
            let is_good = chosen(n, segment).await;
            n_good += usize::from(n >= 100 && is_good);
        }
    }
    assert!(n_good >= 85, "{n_good} of the last 100 went to who is good for them");
    let ended = registry::ended(&*world.store, &tenant(), "fit").await.unwrap();
    assert_eq!((ended.len(), registry::ended(&*world.store, &tenant(), "best").await.unwrap().len()), (300, 0));
    // Each alone is good for half of them; the few choices that were not made weigh much, so the interval is wide.
    for (agent, found) in hone_arbiter::hindsight(&ended, 5.0) {
        let found = found.unwrap_or_else(|error| panic!("{agent}: {error}"));
        assert!(
            (found.snips.value - 0.5).abs() < found.snips.half_width + 0.2 && found.n_effective < 250.0,
            "{agent}: {found:?}"
        );
    }
}

/// Begins a canary and promotes it until all traffic is its.
async fn hand_over(world: &World, to: &str) {
    let canary = start(world, "desk", "v1", to).await;
    for step in ["first", "second"] {
        let asked = Line::Asked { agent: name("desk"), canary, command: Command::Promote };
        write(world, &asked, &format!("{to} {step}")).await;
    }
    until(world, "desk", |told| told["live"] == to && share(told, to) == 1.0).await;
}

#[tokio::test]
async fn a_merge_moves_no_traffic_of_an_agent_that_was_deployed_here_meanwhile() {
    let there = World::open().await;
    for version in ["v1", "v2", "v3"] {
        add(&there, "desk", version, "well").await;
    }
    until(&there, "desk", |told| told["live"] == "v1").await;
    let sunday = there.back_up().await;
    hand_over(&there, "v2").await;
    let monday = there.back_up().await;

    let mut world = World::open().await;
    hone_store::restore(&*world.store, sunday.path(), |_| ()).await.unwrap();
    hand_over(&world, "v3").await;
    let merged = hone_store::restore(&*world.store, monday.path(), |_| ()).await.unwrap();
    assert!(merged.differing[0].starts_with("agent desk has gone on here"), "{merged:?}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let told = until(&world, "desk", |told| told["live"] == "v3").await;
    assert_eq!((share(&told, "v2"), share(&told, "v3")), (0.0, 1.0));
    let again = world.restarted(Limits { stop_ms: 5_000, ..Limits::default() }).await;
    let told = until(&again, "desk", |told| told["live"] == "v3").await;
    assert_eq!((share(&told, "v2"), share(&told, "v3")), (0.0, 1.0));
}

#[tokio::test]
async fn a_damaged_episode_counts_as_one_without_an_outcome_and_holds_up_no_other() {
    let world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    add(&world, "desk", "v2", "fine").await;
    start_waiting(&world, "desk", ["v1", "v2"], 3_000).await;
    until(&world, "desk", |told| share(told, "v2") == 0.1).await;
    for n in 0..6 {
        assert_eq!(world.chat("desk", &[("user", &format!("question {n}"))], &[]).await.status, 200);
    }
    world.change("UPDATE bodies SET body = '{' WHERE seq = (SELECT min(seq) FROM bodies)");
    let n_missing = |told: &Value| {
        let numbers = &told["canary"]["report"]["numbers"];
        ["control", "canary"].iter().filter_map(|arm| numbers[arm]["n_missing"].as_u64()).sum::<u64>()
    };
    let told = until(&world, "desk", |told| n_missing(told) == 6).await;
    assert_eq!(told["canary"]["state"], "running");
    let said = world.said.lock().unwrap().clone();
    assert_eq!(said.iter().filter(|text| text.contains("counts as missing: trace ")).count(), 1, "{said:?}");
}

#[tokio::test]
async fn a_damaged_line_of_the_log_is_named_and_the_others_are_followed() {
    let mut world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    add(&world, "clerk", "v1", "well").await;
    until(&world, "clerk", |told| told["live"] == "v1").await;
    world.change("UPDATE events SET body = '{' WHERE seq = 1");
    let damaged = EventId::derived(&["registered", "desk", "0", "v1"]);
    let world = world.restarted(Limits { stop_ms: 5_000, ..Limits::default() }).await;
    until(&world, "clerk", |told| told["live"] == "v1").await;
    let said = world.said.lock().unwrap().clone();
    assert_eq!(said.iter().filter(|text| text.contains(&format!("event {damaged} is damaged"))).count(), 1, "{said:?}");
    assert!(registry::history(&*world.store).await.is_ok());
}

#[tokio::test]
async fn a_damaged_agent_is_named_and_the_others_answer() {
    let mut world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    add(&world, "clerk", "v1", "well").await;
    until(&world, "clerk", |told| told["live"] == "v1").await;
    world.change("CREATE TABLE kept AS SELECT id, body FROM documents; UPDATE documents SET body = '{' WHERE id = 'desk'");
    let world = world.restarted(Limits { stop_ms: 5_000, ..Limits::default() }).await;
    until(&world, "clerk", |told| told["live"] == "v1").await;
    assert_eq!(world.chat("clerk", &[("user", "one")], &[]).await.status, 200);
    let told = world.chat("desk", &[("user", "one")], &[]).await;
    assert!(
        told.status == 503 && told.body.contains("agent `desk` cannot answer: its entry in the store is damaged"),
        "{}",
        told.body
    );
    let said = world.said.lock().unwrap().clone();
    assert_eq!(said.iter().filter(|text| text.starts_with("agent desk cannot answer, ")).count(), 1, "{said:?}");
    let entries = registry::agents(&*world.store).await.unwrap();
    assert_eq!(entries.sound.iter().map(|agent| &agent.name).collect::<Vec<_>>(), [&name("clerk")]);
    assert_eq!(entries.damaged.iter().map(|(damaged, _)| damaged).collect::<Vec<_>>(), [&name("desk")]);
    // One that is put back answers again.
    world.change("UPDATE documents SET body = (SELECT body FROM kept WHERE kept.id = documents.id) WHERE id = 'desk'");
    until(&world, "desk", |told| told["live"] == "v1").await;
    assert_eq!(world.chat("desk", &[("user", "two")], &[]).await.status, 200);
}

#[tokio::test]
async fn a_version_whose_model_is_not_here_says_so() {
    let world = World::open().await;
    add(&world, "desk", "v1", "nobody").await;
    let told = until(&world, "desk", |told| told["live"] == "v1").await;
    assert!(told["versions"][0]["problem"].as_str().unwrap().contains("no model `nobody`"), "{told}");
    let told = world.chat("desk", &[("user", "one")], &[]).await;
    assert_eq!(told.status, 503);
    assert!(told.body.contains("the server has no model `nobody`"), "{}", told.body);
    assert_eq!(world.get("/v1/agents/nobody", &[]).await.status, 404);
    let error = world.trace_of(1).await.segments[0].turns[0].errors[0].clone();
    assert!(error.kind == "policy_provider" && error.message.contains("version v1 of agent `desk`"), "{error:?}");
    let counted = world.get("/metrics", &[]).await.body;
    assert!(counted.contains("hone_requests_total{model=\"desk\",status=\"policy_provider\"} 1"), "{counted}");
}

#[tokio::test]
async fn a_canary_whose_model_is_not_here_fails_on_the_record() {
    let world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    add(&world, "desk", "v2", "nobody").await;
    start(&world, "desk", "v1", "v2").await;
    until(&world, "desk", |told| share(told, "v2") == 0.1).await;
    let mut n_failed = 0;
    for n in 0..400 {
        let told = world.chat("desk", &[("user", &format!("question {n}"))], &[]).await;
        let trace = world.store.trace(told.episode.expect("an episode").parse().unwrap()).await.unwrap().unwrap();
        let version = if told.status == 200 { "v1" } else { "v2" };
        assert_eq!(trace.metadata["agent"]["version"], version, "{}", told.body);
        n_failed += usize::from(told.status == 503);
        if share(&world.get("/v1/agents/desk", &[]).await.json(), "v2") == 0.0 {
            break;
        }
    }
    let lines = decided_log(&world).await;
    let decision = &lines.iter().find(|event| event.kind == "decided").unwrap().body["decision"];
    assert_eq!((&decision["action"], &decision["reason"]), (&json!("roll_back"), &json!("more_errors")));
    let of_canary = lines.iter().filter(|event| event.kind == "row" && event.body["row"]["arm"] == "canary");
    let failed = of_canary.filter(|event| event.body["row"]["fact"]["answered"]["is_error"] == true);
    assert!(n_failed > 0 && failed.count() == n_failed, "{lines:?}");
}

#[tokio::test]
async fn an_agent_answers_in_every_format_that_has_a_place_for_its_instructions() {
    let world = World::open().await;
    add(&world, "desk", "v1", "well").await;
    until(&world, "desk", |told| told["live"] == "v1").await;
    let first = world.post("/v1/responses", &json!({"model": "desk", "input": "hi", "instructions": "be kind"}), &[]).await;
    assert_eq!((first.status, first.json()["model"].clone()), (200, json!("desk")), "{}", first.body);
    let said = |world: &World| -> Vec<Value> {
        world.heard.last()["messages"].as_array().unwrap().iter().map(|message| message["content"].clone()).collect()
    };
    assert_eq!(said(&world), ["you are v1", "be kind", "hi"]);
    let next = json!({"model": "best", "input": "on", "previous_response_id": first.json()["id"]});
    assert_eq!(world.post("/v1/responses", &next, &[]).await.status, 200);
    assert_eq!(said(&world), ["you are v1", "hi", "answer 3", "on"]);
    assert_eq!(world.trace_of(2).await.metadata["agent"]["version"], "v1");
    let told = world.post("/v1/completions", &json!({"model": "desk", "prompt": "hi"}), &[]).await;
    assert!(told.status == 400 && told.body.contains("standing instructions"), "{}", told.body);
}

#[tokio::test]
async fn an_agent_with_the_name_of_a_model_is_not_asked_and_that_is_said() {
    let world = World::open().await;
    add(&world, "fine", "v1", "well").await;
    until(&world, "fine", |told| share(told, "v1") == 1.0).await;
    let told = world.chat("fine", &[("user", "hello")], &[]).await;
    let trace = world.store.trace(told.episode.unwrap().parse().unwrap()).await.unwrap().unwrap();
    assert!(!trace.metadata.contains_key("agent"), "the model has answered: {:?}", trace.metadata);
    let listed = world.get("/v1/models", &[]).await.json();
    assert_eq!(listed["data"].as_array().unwrap().iter().filter(|model| model["id"] == "fine").count(), 1);
    // Both who sees it come and who starts with it there says so, once.
    for world in [&world, &world.again().await] {
        until(world, "fine", |told| share(told, "v1") == 1.0).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let said = world.said.lock().unwrap().clone();
        let n_told = said.iter().filter(|text| text.contains("who asks for fine gets the model")).count();
        assert_eq!(n_told, 1, "{said:?}");
    }
}
