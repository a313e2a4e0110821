//! A back-up that is merged into a store that has gone on: one suite, both databases.

use crate::common::{self, event, on_each, time, trace, write};
use hone_store::{Database, backup, restore};
use hone_trace::store::{Document, Event, Kind, Store, Write};
use hone_trace::{Reward, Tenant};
use serde_json::json;

/// A line of an agent's log.
fn line(agent: &str, what: &str) -> Write {
    let body = json!({"agent": agent, "what": what});
    Write::Event(Event { id: hone_trace::EventId::derived(&[agent, what]), body, ..event(0, "agents") })
}

/// An entry of the registry, at this revision.
fn entry(agent: &str, revision: u32, live: &str) -> Write {
    let (kind, id, tenant) = (Kind::Agent, agent.to_owned(), Tenant::default());
    Write::Document(Document { kind, id, revision, tenant, at: time(i64::from(revision)), body: json!({"live": live}) })
}

fn given(second: i64, total: f64) -> Write {
    Write::Reward(trace(0).id, Reward { at: time(second), ..common::reward(&second.to_string(), total) })
}

async fn backed_up(store: &dyn Database) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    backup(store, folder.path(), |_| ()).await.expect("a back-up");
    folder
}

/// What the agents' log says, line by line.
async fn log(store: &dyn Store) -> Vec<String> {
    let lines = store.events(Some("agents"), 0, 100).await.expect("the log");
    let told = |event: &Event| [&event.body["agent"], &event.body["what"]].map(|word| word.as_str().unwrap_or("?")).join(" ");
    lines.iter().map(|(_, event)| told(event)).collect()
}

#[test]
fn an_agent_that_has_gone_on_keeps_its_deployment_and_all_else_is_merged() {
    on_each(async |fresh| {
        let source = common::sqlite();
        let source = source.open().await;
        source.put(vec![write(0), line("desk", "v1"), entry("desk", 0, "v1"), line("clerk", "v1")]).await.unwrap();
        let sunday = backed_up(&*source).await;
        let since =
            [line("desk", "v2"), entry("desk", 1, "v2"), entry("desk", 2, "v2"), line("clerk", "v2"), write(1), given(10, 0.0)];
        source.put(since.to_vec()).await.unwrap();
        let monday = backed_up(&*source).await;

        let store = fresh.open().await;
        restore(&*store, sunday.path(), |_| ()).await.unwrap();
        store.put(vec![line("desk", "v3"), entry("desk", 1, "v3"), given(20, 1.0)]).await.unwrap();
        for n_times in 0..2 {
            let merged = restore(&*store, monday.path(), |_| ()).await.unwrap();
            assert_eq!(log(&*store).await, ["desk v1", "clerk v1", "desk v3", "clerk v2"], "on {}", fresh.name);
            let live = store.document(Kind::Agent, "desk").await.unwrap().unwrap().body["live"].clone();
            assert_eq!((live, store.trace(trace(0).id).await.unwrap().unwrap().reward().unwrap().total), (json!("v3"), 1.0));
            assert!(store.trace(trace(1).id).await.unwrap().is_some());
            // A line and a revision of the entry stay out, and another revision is there with other content.
            assert_eq!(merged.n_differing, 3, "{merged:?}");
            let told = &merged.differing[0];
            assert!(told.starts_with("agent desk has gone on here") && told.contains("2 of its records stay out"), "{told}");
            assert_eq!(merged.records.total(), if n_times == 0 { 3 } else { 0 }, "{merged:?}");
        }
    });
}

#[test]
fn an_agent_that_has_not_gone_on_goes_on_with_the_back_up() {
    on_each(async |fresh| {
        let source = common::sqlite();
        let source = source.open().await;
        source.put(vec![line("desk", "v1"), entry("desk", 0, "v1")]).await.unwrap();
        let sunday = backed_up(&*source).await;
        source.put(vec![line("desk", "v2"), entry("desk", 1, "v2")]).await.unwrap();
        let monday = backed_up(&*source).await;
        let store = fresh.open().await;
        restore(&*store, sunday.path(), |_| ()).await.unwrap();
        store.put(vec![line("clerk", "v1")]).await.unwrap();
        let merged = restore(&*store, monday.path(), |_| ()).await.unwrap();
        assert_eq!((log(&*store).await, merged.n_differing), (vec!["desk v1".into(), "clerk v1".into(), "desk v2".into()], 0));
        assert_eq!(store.document(Kind::Agent, "desk").await.unwrap().unwrap().body["live"], "v2");
    });
}

#[test]
fn marks_of_spans_are_taken_over_whole_and_never_merged() {
    on_each(async |fresh| {
        let source = common::sqlite();
        let source = source.open().await;
        source.put((0..3).map(|n| Write::Event(event(n, "otlp.written"))).collect()).await.unwrap();
        let folder = backed_up(&*source).await;
        let store = fresh.open().await;
        restore(&*store, folder.path(), |_| ()).await.unwrap();
        assert_eq!(store.events(Some("otlp.written"), 0, 10).await.unwrap().len(), 3, "on {}", fresh.name);
        source.put(vec![Write::Event(event(3, "otlp.written"))]).await.unwrap();
        restore(&*store, backed_up(&*source).await.path(), |_| ()).await.unwrap();
        assert_eq!(store.events(Some("otlp.written"), 0, 10).await.unwrap().len(), 3);
    });
}
