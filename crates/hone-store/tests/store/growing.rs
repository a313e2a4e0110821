//! What every store does with traces that grow, whichever database is behind it: one suite, both databases.

use crate::common::{self, grown, next, on_each, reward, rewarded, time, trace, turn, write};
use hone_store::{backup, restore, verify};
use hone_trace::store::{Field, Put, Store, StoreError, TraceQuery, Write};
use hone_trace::{NextTurn, Sampled, TURNS_MAX, ToolSpec, TraceHead};
use serde_json::json;

fn of(n: u32, next: NextTurn) -> Write {
    Write::Turn(trace(n).id, Box::new(next))
}

/// The turn under this number, with another answer.
fn other(n: u32, turn_idx: u32, answer: &str) -> Write {
    let mut next = next(n, turn_idx);
    next.turn.answer.content = hone_trace::Content::Text(answer.to_owned());
    of(n, next)
}

async fn head(store: &dyn Store, n: u32) -> TraceHead {
    let heads = store.heads(&TraceQuery::default(), None, 1000).await.expect("a list").items;
    heads.into_iter().find(|head| head.id == trace(n).id).expect("the trace is in the list")
}

/// The trace has so many turns, whichever way one looks at it.
async fn check(store: &dyn Store, n: u32, n_turns: u32) {
    let expected = grown(n, n_turns);
    assert_eq!(store.trace(expected.id).await.expect("a trace").as_ref(), Some(&expected));
    let page = store.traces(&TraceQuery::default(), None, 1000).await.expect("a page");
    assert_eq!(page.items.iter().find(|trace| trace.id == expected.id), Some(&expected));
    assert_eq!(head(store, n).await, expected.head());
}

#[test]
fn a_trace_grows_turn_by_turn_and_is_seen_at_once() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        store.put(vec![write(1), write(2)]).await.unwrap();
        for turn_idx in 1..5 {
            assert_eq!(store.put(vec![turn(1, turn_idx)]).await.unwrap(), [Put::New]);
            check(&*store, 1, turn_idx + 1).await;
        }
        check(&*store, 2, 1).await;
        assert_eq!(store.put(vec![write(1)]).await.unwrap(), [Put::Same], "its own body is what was first written");
        drop(store);
        let store = fresh.open().await;
        check(&*store, 1, 5).await;
        let info = store.info().await.unwrap();
        assert_eq!((info.counts.turns, info.n_turns), (4, 6), "four were added to the two that the traces came with");
        assert_eq!(info.n_rewarded, 0);
        store.put(vec![rewarded(3, 1.0), Write::Reward(trace(1).id, reward("later", 0.5))]).await.unwrap();
        assert_eq!(store.info().await.unwrap().n_rewarded, 2, "one came with its reward, the other was given it later");
    });
}

#[test]
fn a_turn_is_taken_once_and_only_when_it_is_the_next() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        store.put(vec![write(1), write(2), turn(1, 1), turn(1, 2), turn(2, 1)]).await.unwrap();
        let cases = [
            ("sent again", turn(1, 1), Put::Same),
            ("the last one, sent again", turn(1, 2), Put::Same),
            ("another under its number", other(1, 2, "no"), Put::Conflict),
            ("a gap", turn(1, 4), Put::Conflict),
            ("a turn that stands in the trace's own body", turn(1, 0), Put::Conflict),
            ("a turn of another trace", of(2, next(1, 1)), Put::Conflict),
            ("no such trace", turn(9, 1), Put::Conflict),
        ];
        for (what, write, put) in cases {
            assert_eq!(store.put(vec![write]).await.unwrap(), [put], "{what} on {}", fresh.name);
            check(&*store, 1, 3).await;
            check(&*store, 2, 2).await;
        }
        assert_eq!(store.info().await.unwrap().counts.turns, 3);
    });
}

#[test]
fn one_put_holds_a_trace_and_the_turns_that_it_goes_on_with() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        // Traces are written first, wherever they stand; turns in the order in which they stand.
        let writes = vec![turn(1, 1), turn(2, 1), turn(1, 2), write(2), write(1), turn(1, 2), other(1, 1, "no"), turn(1, 3)];
        use Put::{Conflict, New, Same};
        assert_eq!(store.put(writes).await.unwrap(), [New, New, New, New, New, Same, Conflict, New]);
        check(&*store, 1, 4).await;
        check(&*store, 2, 2).await;
        let backwards = vec![turn(2, 3), turn(2, 2)];
        assert_eq!(store.put(backwards).await.unwrap(), [Conflict, New], "turns are not put in order for the sender");
        check(&*store, 2, 3).await;
    });
}

#[test]
fn an_inconsistent_turn_is_refused_and_its_neighbours_with_it() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        store.put(vec![write(1)]).await.unwrap();
        let mut bad = next(1, 2);
        bad.turn.signals.insert("score".into(), f64::INFINITY);
        let too_long = NextTurn { turn_idx: TURNS_MAX, ..next(1, 2) };
        for (next, words) in [(bad, "signal score of turn 3"), (too_long, "go on in a new trace")] {
            let error = store.put(vec![turn(1, 1), of(1, next)]).await.unwrap_err();
            assert!(matches!(error, StoreError::Invalid { .. }) && error.to_string().contains(words), "{error}");
        }
        check(&*store, 1, 1).await;
    });
}

#[test]
fn of_many_writers_with_the_same_next_turn_one_comes_first() {
    on_each(async |fresh| {
        // Two stores on one place, as two processes would have them.
        let (one, two) = (fresh.open().await, fresh.open().await);
        one.put(vec![write(1)]).await.unwrap();
        for turn_idx in 1..20 {
            let mut writers = tokio::task::JoinSet::new();
            for writer in 0..8 {
                let store = if writer % 2 == 0 { one.clone() } else { two.clone() };
                // In every second round all say the same, in the others each something else.
                let write = if turn_idx % 2 == 0 { turn(1, turn_idx) } else { other(1, turn_idx, &writer.to_string()) };
                writers.spawn(async move { store.put(vec![write]).await.unwrap()[0] });
            }
            let puts = writers.join_all().await;
            let lost = if turn_idx % 2 == 0 { Put::Same } else { Put::Conflict };
            let count = |kind: Put| puts.iter().filter(|put| **put == kind).count();
            assert_eq!((count(Put::New), count(lost)), (1, 7), "turn {turn_idx} on {}: {puts:?}", fresh.name);
        }
        let found = one.trace(trace(1).id).await.unwrap().unwrap();
        assert_eq!((found.turns().count(), head(&*two, 1).await), (20, found.head()));
    });
}

#[test]
fn many_traces_grow_beside_each_other() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let mut agents = tokio::task::JoinSet::new();
        for n in 0..16 {
            let store = store.clone();
            agents.spawn(async move {
                store.put(vec![write(n), turn(n, 1)]).await.unwrap();
                for turn_idx in 2..12 {
                    let given = Write::Reward(trace((n + 5) % 16).id, reward(&format!("{n} {turn_idx}"), 0.5));
                    // The other's trace may not be there yet; the turn is always the next.
                    assert_eq!(store.put(vec![turn(n, turn_idx), given]).await.unwrap()[0], Put::New);
                }
            });
        }
        agents.join_all().await;
        for n in 0..16 {
            assert_eq!(store.trace(trace(n).id).await.unwrap().unwrap().segments, grown(n, 12).segments);
            assert_eq!(head(&*store, n).await.n_turns, 12);
        }
        assert!(verify(&*store, |_| ()).await.unwrap().complaints.is_empty());
    });
}

#[test]
fn rewritten_history_begins_a_segment() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let tool = ToolSpec { name: "search".into(), description: None, parameters: json!({}), extra: serde_json::Map::new() };
        let rewritten = NextTurn { segment: Some(vec![tool.clone()]), ..next(1, 2) };
        store.put(vec![write(1), turn(1, 1), of(1, rewritten), turn(1, 3)]).await.unwrap();
        let segments = store.trace(trace(1).id).await.unwrap().unwrap().segments;
        let shape: Vec<(usize, usize)> = segments.iter().map(|segment| (segment.tools.len(), segment.turns.len())).collect();
        assert_eq!(shape, [(0, 2), (1, 2)]);
        assert_eq!(segments[1].tools, [tool]);
    });
}

#[test]
fn what_json_databases_tend_to_change_comes_back_unchanged() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let mut odd = next(1, 1);
        odd.turn.extra = json!({"nul": "a\u{0}b", "huge": 1e300, "negative_zero": -0.0, "int": u64::MAX, "emoji": "🦀"})
            .as_object()
            .cloned()
            .unwrap();
        odd.turn.sampled = Some(Sampled { ids: vec![3, u32::MAX], logprobs: vec![-0.0, -1.192_092_9e-7], ..Sampled::default() });
        store.put(vec![write(1), of(1, odd.clone())]).await.unwrap();
        let found = store.trace(trace(1).id).await.unwrap().unwrap();
        let json = |turn| serde_json::to_string(turn).unwrap();
        assert_eq!(json(found.turns().last().unwrap()), json(&odd.turn));
        assert_eq!(store.put(vec![of(1, odd)]).await.unwrap(), [Put::Same]);
        assert!(verify(&*store, |_| ()).await.unwrap().complaints.is_empty());
    });
}

#[test]
fn more_tokens_than_can_be_counted_are_counted_as_many() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let huge = |turn_idx| {
            let mut next = next(1, turn_idx);
            next.turn.llm_calls[0].tokens_in = u64::MAX;
            of(1, next)
        };
        assert_eq!(store.put(vec![write(1), huge(1), huge(2)]).await.unwrap(), [Put::New; 3]);
        assert_eq!(head(&*store, 1).await.n_tokens, i64::MAX.unsigned_abs());
    });
}

#[test]
fn a_page_ends_early_by_the_turns_of_its_traces() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        for n in 0..6 {
            store.put(vec![write(n)]).await.unwrap();
            for turn_idx in 1..4 {
                store.put(vec![other(n, turn_idx, &"x".repeat(1 << 20))]).await.unwrap();
            }
        }
        let (mut n_items, mut found, mut cursor) = (Vec::new(), Vec::new(), None);
        loop {
            let page = store.traces(&TraceQuery::default(), cursor, 1000).await.unwrap();
            n_items.push(page.items.len());
            found.extend(page.items.iter().map(|trace| (trace.id, trace.turns().count())));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(n_items, [3, 3, 0], "three traces of 3 MiB fill a page on {}", fresh.name);
        assert_eq!(found, [5, 4, 3, 2, 1, 0].map(|n| (trace(n).id, 4)));
    });
}

#[test]
fn rewards_are_given_to_turns_that_came_later() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let mut of_turn = reward("turn", 0.25);
        of_turn.turn_idx = Some(2);
        let rewards = [of_turn, reward("whole", 0.75)];
        let given = rewards.clone().map(|reward| Write::Reward(trace(1).id, reward));
        let writes = given.into_iter().chain([write(1), turn(1, 1), turn(1, 2)]).collect();
        assert_eq!(store.put(writes).await.unwrap(), [Put::New; 5]);
        store.put(vec![turn(1, 3)]).await.unwrap();
        let found = store.trace(trace(1).id).await.unwrap().unwrap();
        assert_eq!((found.rewards.as_slice(), found.check()), (&rewards[..], Ok(())));
        assert_eq!(head(&*store, 1).await, found.head());
        let above = TraceQuery { reward_min: Some(0.7), ..TraceQuery::default() };
        assert_eq!(store.traces(&above, None, 10).await.unwrap().items, [found]);
    });
}

#[test]
fn a_field_speaks_of_the_trace_as_it_was_first_written() {
    on_each(async |fresh| {
        let store = fresh.open_with(&["metadata.customer"]).await;
        store.put(vec![write(1), turn(1, 1)]).await.unwrap();
        let count = async |path: &str, value: &str| {
            let field = Some(Field { path: path.into(), value: value.into() });
            store.heads(&TraceQuery { field, ..TraceQuery::default() }, None, 10).await.unwrap().items.len()
        };
        assert_eq!(count("metadata.customer", "c1").await, 1);
        assert_eq!(count("metadata.n", "1").await, 1);
        assert_eq!(count("ended", &time(2).to_string()).await, 0, "the end came with a turn");
    });
}

#[test]
fn a_back_up_holds_the_turns_and_restores_into_either_database() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        store.put((0..300).map(write).collect()).await.unwrap();
        // Traces that grow in turns: those of one do not lie beside each other.
        for turn_idx in 1..4 {
            store.put((0..300).map(|n| turn(n, turn_idx)).collect()).await.unwrap();
        }
        let mut of_turn = reward("turn", 0.5);
        of_turn.turn_idx = Some(3);
        store.put(vec![Write::Reward(trace(3).id, of_turn)]).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let manifest = backup(&*store, folder.path(), |_| ()).await.unwrap();
        assert_eq!((manifest.records, manifest.records.turns), (store.info().await.unwrap().counts, 900));

        let mut targets = vec![common::sqlite()];
        targets.extend(common::postgres().await);
        for target in &targets {
            let restored = target.open().await;
            for _ in 0..2 {
                restore(&*restored, folder.path(), |_| ()).await.unwrap();
                assert_eq!(restored.info().await.unwrap().counts, manifest.records, "{} to {}", fresh.name, target.name);
            }
            assert_eq!(restored.trace(trace(3).id).await.unwrap(), store.trace(trace(3).id).await.unwrap());
            assert_eq!(head(&*restored, 7).await, grown(7, 4).head());
            assert_eq!(restored.put(vec![turn(7, 4)]).await.unwrap(), [Put::New], "it goes on where it was");
            assert!(verify(&*restored, |_| ()).await.unwrap().complaints.is_empty());
        }
    });
}

#[test]
fn a_back_up_from_before_traces_grew_is_restored() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        store.put(vec![write(1)]).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        backup(&*store, folder.path(), |_| ()).await.unwrap();
        let path = folder.path().join("manifest.json");
        let mut manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(manifest["records"].as_object_mut().unwrap().remove("turns"), Some(json!(0)));
        std::fs::write(&path, manifest.to_string()).unwrap();
        let restored = common::sqlite();
        let restored = restored.open().await;
        assert_eq!(restore(&*restored, folder.path(), |_| ()).await.unwrap().records.traces, 1);
        check(&*restored, 1, 1).await;
    });
}
