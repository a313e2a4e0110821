//! What every store does, whichever database is behind it: one suite, both databases.

use crate::common::{self, event, on_each, rewarded, time, trace, write};
use hone_store::{backup, restore, verify};
use hone_trace::store::{Cursor, Document, Field, Kind, Link, Put, Store, StoreError, TraceQuery, Write};
use hone_trace::{
    Agent, AgentName, AgentState, BlobHash, Category, Config, Group, GroupId, Reward, RunId, Tenant, TraceId, TraceOutcome, V1,
};
use serde_json::json;

async fn put_one(store: &dyn Store, write: Write) -> Put {
    store.put(vec![write]).await.expect("the store takes it")[0]
}

async fn ids(store: &dyn Store, query: &TraceQuery) -> Vec<TraceId> {
    store.heads(query, None, 1000).await.expect("a list").items.iter().map(|head| head.id).collect()
}

fn samples(ns: impl IntoIterator<Item = u32>) -> Vec<TraceId> {
    ns.into_iter().map(|n| trace(n).id).collect()
}

#[test]
fn a_trace_comes_back_as_it_was_written() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        assert_eq!(put_one(&*store, write(1)).await, Put::New);
        assert_eq!(store.trace(trace(1).id).await.unwrap(), Some(trace(1)));
        assert_eq!(store.trace(trace(2).id).await.unwrap(), None);
    });
}

#[test]
fn what_json_databases_tend_to_change_comes_back_unchanged() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let mut odd = trace(1);
        odd.metadata = json!({
            "nul": "a\u{0}b", "key\u{0}": 1, "huge": 1e300, "tiny": 5e-324, "large": 1e16, "negative_zero": -0.0, "one": 1.0,
            "int": u64::MAX, "least": i64::MIN, "emoji": "🦀", "quote": "\"\\\u{7f}\u{2028}", "deep": [[[[[]]]]], "empty": {},
        })
        .as_object()
        .cloned()
        .unwrap();
        let turn = &mut odd.segments[0].turns[0];
        turn.sampled = Some(hone_trace::Sampled {
            input_ids: vec![1, 2],
            ids: vec![3, 4, u32::MAX],
            logprobs: vec![-0.0, -1.192_092_9e-7, -17.25],
            forced: vec![1],
            temperature: Some(0.7),
            narrowed: true,
        });
        assert_eq!(put_one(&*store, Write::Trace(Box::new(odd.clone()))).await, Put::New);
        let back = store.trace(odd.id).await.unwrap().unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), serde_json::to_string(&odd).unwrap());
        assert!(verify(&*store, |_| ()).await.unwrap().complaints.is_empty());
    });
}

#[test]
fn a_write_sent_twice_is_written_once() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let link = || Write::Link(Link { from: "config:a".into(), rel: "produced".into(), to: "outcome:b".into() });
        let writes = || vec![write(1), Write::Reward(trace(1).id, common::reward("r", 0.5)), link(), Write::Event(event(1, "s"))];
        assert_eq!(store.put(writes()).await.unwrap(), vec![Put::New; 4]);
        assert_eq!(store.put(writes()).await.unwrap(), vec![Put::Same; 4]);
        assert_eq!(store.put(vec![write(2), write(2)]).await.unwrap(), vec![Put::New, Put::Same]);
        assert_eq!(common::count(&*store).await, 2);
        assert_eq!(store.trace(trace(1).id).await.unwrap().unwrap().rewards.len(), 1);
    });
}

#[test]
fn other_content_under_the_same_id_is_a_conflict_and_changes_nothing() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let mut other = trace(1);
        other.outcome = TraceOutcome::Unknown;
        let writes = vec![write(1), Write::Trace(Box::new(other)), write(2)];
        assert_eq!(store.put(writes).await.unwrap(), vec![Put::New, Put::Conflict, Put::New]);
        assert_eq!(store.trace(trace(1).id).await.unwrap(), Some(trace(1)));
        let nobodys = Write::Reward(trace(9).id, common::reward("r", 1.0));
        assert_eq!(put_one(&*store, nobodys).await, Put::Conflict, "a reward needs its trace");
    });
}

#[test]
fn an_inconsistent_record_is_refused_and_its_neighbours_with_it() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let mut bad = trace(2);
        bad.segments.clear();
        let error = store.put(vec![write(1), Write::Trace(Box::new(bad))]).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
        assert_eq!(common::count(&*store).await, 0);
    });
}

#[test]
fn a_reward_given_later_belongs_to_the_trace_and_finds_it() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        store.put(vec![rewarded(1, 0.2), write(2)]).await.unwrap();
        store.put(vec![Write::Reward(trace(1).id, common::reward("later", 0.9))]).await.unwrap();
        let mut of_a_turn = common::reward("turn", -5.0);
        of_a_turn.turn_idx = Some(0);
        store.put(vec![Write::Reward(trace(1).id, of_a_turn)]).await.unwrap();
        let totals: Vec<f64> =
            store.trace(trace(1).id).await.unwrap().unwrap().rewards.iter().map(|reward| reward.total).collect();
        assert_eq!(totals, [0.2, 0.9, -5.0]);
        let above = |reward_min| TraceQuery { reward_min: Some(reward_min), ..TraceQuery::default() };
        assert_eq!(ids(&*store, &above(0.9)).await, samples([1]));
        assert_eq!(ids(&*store, &above(0.91)).await, samples([]));
        let page = store.traces(&above(0.5), None, 10).await.unwrap();
        assert_eq!(page.items[0].rewards.len(), 3);
    });
}

/// A reward that was given at this second.
fn given(second: i64, total: f64) -> Write {
    let reward = common::reward(&format!("{second} {total}"), total);
    Write::Reward(trace(1).id, Reward { at: time(second), ..reward })
}

#[test]
fn the_reward_that_was_given_last_counts_whenever_it_was_written() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let counts = async |total: f64| {
            let found = store.trace(trace(1).id).await.unwrap().unwrap();
            let head = store.heads(&TraceQuery::default(), None, 1).await.unwrap().items.remove(0);
            assert_eq!((found.reward().unwrap().total, head.reward), (total, Some(total)), "on {}", fresh.name);
            let exactly = TraceQuery { reward_min: Some(total), reward_max: Some(total), ..TraceQuery::default() };
            assert_eq!(ids(&*store, &exactly).await, samples([1]));
        };
        // Its own is of second 0.
        store.put(vec![rewarded(1, 0.2)]).await.unwrap();
        store.put(vec![given(-5, 0.3)]).await.unwrap();
        counts(0.2).await;
        store.put(vec![given(20, 0.9)]).await.unwrap();
        store.put(vec![given(10, 0.1)]).await.unwrap();
        counts(0.9).await;
        store.put(vec![given(40, 0.6), given(30, 0.4)]).await.unwrap();
        counts(0.6).await;
        store.put(vec![given(40, 0.7)]).await.unwrap();
        counts(0.7).await;
        store.put(vec![given(40, 0.6), given(5, 0.0)]).await.unwrap();
        counts(0.7).await;
        let all = &store;
        join_all((50..80).rev().map(|second| async move {
            all.put(vec![given(second, second as f64 / 100.0)]).await.unwrap();
        }))
        .await;
        counts(0.79).await;
    });
}

#[test]
fn queries_find_what_fits_newest_first() {
    on_each(async |fresh| {
        let store = fresh.open_with(&["metadata.customer"]).await;
        let mut other_tenant = trace(30);
        other_tenant.tenant = Tenant::new("other").unwrap();
        let mut other_config = trace(31);
        other_config.config = Config { model: Some("m".into()), ..Config::default() }.hash();
        other_config.category = None;
        let mut writes: Vec<Write> = (0..20).map(|n| rewarded(n, f64::from(n) / 10.0 - 0.5)).collect();
        writes.extend([other_tenant.clone(), other_config.clone()].map(|trace| Write::Trace(Box::new(trace))));
        store.put(writes).await.unwrap();

        let check = async |what: &str, query: TraceQuery, expected: &[u32]| {
            assert_eq!(ids(&*store, &query).await, samples(expected.iter().copied()), "{what} on {}", fresh.name);
        };
        let all = || TraceQuery { tenant: Some(Tenant::default()), ..TraceQuery::default() };
        let field = |path: &str, value: &str| Some(Field { path: path.into(), value: value.into() });
        let even = || Some(Category::new("even").unwrap());
        check("tenant", TraceQuery { tenant: Some(other_tenant.tenant.clone()), ..all() }, &[30]).await;
        check("no such tenant", TraceQuery { tenant: Some(Tenant::new("nobody").unwrap()), ..all() }, &[]).await;
        check("config", TraceQuery { config: Some(other_config.config), ..all() }, &[31]).await;
        check("config of all tenants", TraceQuery { config: Some(other_config.config), ..TraceQuery::default() }, &[31]).await;
        check("category", TraceQuery { category: even(), ..all() }, &[18, 16, 14, 12, 10, 8, 6, 4, 2, 0]).await;
        check("all tenants", TraceQuery { category: even(), since: Some(time(18)), ..TraceQuery::default() }, &[30, 18]).await;
        check(
            "category and reward",
            TraceQuery { category: even(), reward_min: Some(-0.1), reward_max: Some(0.5), ..all() },
            &[10, 8, 6, 4],
        )
        .await;
        check("reward", TraceQuery { reward_min: Some(1.0), ..all() }, &[19, 18, 17, 16, 15]).await;
        check("reward below", TraceQuery { reward_max: Some(-0.4), ..all() }, &[1, 0]).await;
        check("outcome", TraceQuery { outcome: Some(TraceOutcome::Failure), since: Some(time(6)), ..all() }, &[18, 15, 12, 9, 6])
            .await;
        check("time", TraceQuery { since: Some(time(3)), until: Some(time(6)), ..all() }, &[5, 4, 3]).await;
        check("indexed field", TraceQuery { field: field("metadata.customer", "c3"), ..all() }, &[18, 13, 8, 3]).await;
        check(
            "indexed field and category",
            TraceQuery { field: field("metadata.customer", "c3"), category: even(), ..all() },
            &[18, 8],
        )
        .await;
        check("other field", TraceQuery { field: field("metadata.n", "7"), ..all() }, &[7]).await;
        check("other field, as text", TraceQuery { field: field("category", "even"), reward_min: Some(1.2), ..all() }, &[18])
            .await;
        check("no such field", TraceQuery { field: field("metadata.x.y", "7"), ..all() }, &[]).await;
        let everything = TraceQuery {
            category: even(),
            config: Some(trace(8).config),
            outcome: Some(TraceOutcome::Success),
            reward_min: Some(0.0),
            field: field("metadata.customer", "c3"),
            since: Some(time(1)),
            until: Some(time(100)),
            ..all()
        };
        check("everything", everything, &[8]).await;
        let error = store.heads(&TraceQuery { field: field("a..b", ""), ..all() }, None, 1).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
    });
}

#[test]
fn pages_follow_each_other_without_gap_or_overlap() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        // Several traces of one moment: the cursor must tell them apart.
        let writes = (0..37).map(|n| {
            let mut trace = trace(n);
            trace.started = time(i64::from(n / 5));
            trace.rewards.push(common::reward(&format!("{n}"), f64::from(n % 3) / 2.0));
            Write::Trace(Box::new(trace))
        });
        store.put(writes.collect()).await.unwrap();
        let category = Some(Category::new("odd").unwrap());
        let of_category = TraceQuery { category, ..TraceQuery::default() };
        let of_reward = TraceQuery { reward_min: Some(0.5), ..TraceQuery::default() };
        for query in [TraceQuery::default(), of_category, of_reward] {
            let whole = ids(&*store, &query).await;
            let (mut heads, mut traces, mut cursor) = (Vec::new(), Vec::new(), None::<Cursor>);
            loop {
                let page = store.heads(&query, cursor, 4).await.unwrap();
                let full = store.traces(&query, cursor, 4).await.unwrap();
                assert_eq!(page.next, full.next);
                heads.extend(page.items.iter().map(|head| head.id));
                traces.extend(full.items.iter().map(|trace| trace.id));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(heads, whole);
            assert_eq!(traces, whole);
        }
    });
}

#[test]
fn traces_of_one_moment_are_listed_in_the_order_in_which_they_were_given() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let given = [7, 3, 19, 1, 12, 5];
        let writes = given.map(|n| {
            let mut trace = trace(n);
            trace.started = time(0);
            trace.outcome = TraceOutcome::Success;
            Write::Trace(Box::new(trace))
        });
        store.put(writes.to_vec()).await.unwrap();
        let newest_first = samples(given.into_iter().rev());
        assert_eq!(ids(&*store, &TraceQuery::default()).await, newest_first, "on {}", fresh.name);
    });
}

#[test]
fn writers_with_the_same_traces_in_other_orders_all_come_through() {
    on_each(async |fresh| {
        let (one, two) = (fresh.open().await, fresh.open().await);
        for round in 0..4 {
            let forwards: Vec<Write> = (0..200).map(|n| write(round * 200 + n)).collect();
            let backwards: Vec<Write> = forwards.iter().rev().cloned().collect();
            let (forwards, backwards) = tokio::join!(one.put(forwards), two.put(backwards));
            let puts = [forwards.unwrap(), backwards.unwrap()].concat();
            assert_eq!(puts.iter().filter(|put| **put == Put::New).count(), 200, "on {}", fresh.name);
            assert!(!puts.contains(&Put::Conflict), "on {}", fresh.name);
        }
    });
}

#[test]
fn a_page_of_large_traces_ends_early() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        for n in 0..6 {
            let mut large = trace(n);
            large.metadata.insert("text".into(), "x".repeat(3 << 20).into());
            store.put(vec![Write::Trace(Box::new(large))]).await.unwrap();
        }
        let (mut n_traces, mut cursor, mut n_pages) = (0, None, 0);
        loop {
            let page = store.traces(&TraceQuery::default(), cursor, 1000).await.unwrap();
            n_traces += page.items.len();
            n_pages += 1;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(n_traces, 6, "on {}", fresh.name);
        assert!(n_pages > 1, "{n_pages} pages on {}", fresh.name);
    });
}

#[test]
fn an_index_answers_the_list_of_a_category_and_reward_range() {
    on_each(async |fresh| {
        let store = fresh.open_with(&["metadata.customer"]).await;
        let writes = (0..5000).map(|n| rewarded(n, f64::from(n % 100) / 100.0));
        store.put(writes.collect()).await.unwrap();
        let category = Some(Category::new("odd").unwrap());
        let query = TraceQuery { category, reward_min: Some(0.5), reward_max: Some(0.9), ..TraceQuery::default() };
        let plan = store.explain(&query).await.unwrap();
        let no_scan = |plan: &str| !plan.contains("SCAN") && !plan.contains("Seq Scan on traces");
        assert!(plan.contains("traces_by_category") && no_scan(&plan), "{plan}");
        let field = Some(Field { path: "metadata.customer".into(), value: "c1".into() });
        let plan = store.explain(&TraceQuery { field, ..TraceQuery::default() }).await.unwrap();
        assert!((plan.contains("trace_fields_pkey") || plan.contains("SEARCH f USING PRIMARY KEY")) && no_scan(&plan), "{plan}");
    });
}

#[test]
fn a_field_is_found_by_its_json_form_with_and_without_an_index() {
    let values = [
        json!(1e-7),
        json!(-0.0),
        json!(0.0),
        json!(1e21),
        json!(1),
        json!(1.0),
        json!(null),
        json!("null"),
        json!(["acme"]),
        json!({"a": 1}),
        json!({"0": "acme"}),
        json!(true),
        json!("true"),
        json!("acme"),
        json!("1e-7"),
        json!("\u{0}x"),
        json!("x".repeat(300)),
        json!(10_000_000_000_000_000_u64),
        json!(1e16),
    ];
    let long = "x".repeat(300);
    let cases: &[(&str, &str, &[u32])] = &[
        ("metadata.customer", "1e-7", &[14, 0]),
        ("metadata.customer", "0.0000001", &[]),
        ("metadata.customer", "-0.0", &[1]),
        ("metadata.customer", "0.0", &[2]),
        ("metadata.customer", "0", &[]),
        ("metadata.customer", "1e+21", &[3]),
        ("metadata.customer", "1e21", &[]),
        ("metadata.customer", "1000000000000000000000", &[]),
        ("metadata.customer", "1", &[4]),
        ("metadata.customer", "1.0", &[5]),
        ("metadata.customer", "null", &[7]),
        ("metadata.customer", r#"["acme"]"#, &[]),
        ("metadata.customer", r#"{"a":1}"#, &[]),
        ("metadata.customer", r#"{"a": 1}"#, &[]),
        ("metadata.customer.a", "1", &[9]),
        ("metadata.customer", "true", &[12, 11]),
        ("metadata.customer", "acme", &[13]),
        ("metadata.customer", r#""acme""#, &[]),
        ("metadata.customer.0", "acme", &[10]),
        ("metadata.customer", "\0x", &[15]),
        ("metadata.customer", &long, &[16]),
        ("metadata.customer", "10000000000000000", &[17]),
        ("metadata.customer", "1e+16", &[18]),
    ];
    on_each(async |fresh| {
        for indexed in [&[][..], &["metadata.customer", "metadata.customer.0", "metadata.customer.a"]] {
            let store = fresh.open_with(indexed).await;
            let writes = (0..).zip(&values).map(|(n, value)| {
                let mut trace = trace(n);
                trace.metadata.insert("customer".into(), value.clone());
                Write::Trace(Box::new(trace))
            });
            store.put(writes.collect()).await.unwrap();
            for (path, value, expected) in cases {
                let field = Some(Field { path: (*path).into(), value: (*value).into() });
                let query = TraceQuery { field, ..TraceQuery::default() };
                let what = format!("{path}={value} on {}, indexed: {indexed:?}", fresh.name);
                assert_eq!(ids(&*store, &query).await, samples(expected.iter().copied()), "{what}");
                // Page by page, where a preselected trace that does not fit must not end the list.
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let page = store.heads(&query, after, 1).await.unwrap();
                    found.extend(page.items.iter().map(|head| head.id));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                assert_eq!(found, samples(expected.iter().copied()), "{what}, page by page");
            }
        }
    });
}

#[test]
fn declaring_a_field_later_indexes_what_is_there() {
    on_each(async |fresh| {
        let query =
            TraceQuery { field: Some(Field { path: "metadata.customer".into(), value: "c2".into() }), ..TraceQuery::default() };
        let store = fresh.open().await;
        store.put((0..12).map(write).collect()).await.unwrap();
        assert_eq!(ids(&*store, &query).await, samples([7, 2]));
        drop(store);
        let store = fresh.open_with(&["metadata.customer"]).await;
        assert_eq!(ids(&*store, &query).await, samples([7, 2]));
        store.put(vec![write(12)]).await.unwrap();
        assert_eq!(ids(&*store, &query).await, samples([12, 7, 2]));
        drop(store);
        let store = fresh.open().await;
        store.put(vec![write(17)]).await.unwrap();
        drop(store);
        let store = fresh.open_with(&["metadata.customer"]).await;
        assert_eq!(ids(&*store, &query).await, samples([17, 12, 7, 2]), "what came while it was not declared is found too");
    });
}

#[test]
fn a_field_that_one_process_declares_is_indexed_by_all() {
    on_each(async |fresh| {
        let of = |customer: &str| TraceQuery {
            field: Some(Field { path: "metadata.customer".into(), value: customer.into() }),
            ..TraceQuery::default()
        };
        // One is open before the field is declared, one opens later without declaring it.
        let before = fresh.open().await;
        before.put(vec![write(2)]).await.unwrap();
        let declaring = fresh.open_with(&["metadata.customer"]).await;
        let after = fresh.open().await;
        before.put(vec![write(7)]).await.unwrap();
        after.put(vec![write(12)]).await.unwrap();
        declaring.put(vec![write(17), write(3)]).await.unwrap();
        let encoded = hone_store::Encoded::of(&write(22), &hone_store::Options::default()).unwrap();
        declaring.put_encoded(vec![encoded]).await.unwrap();
        for store in [&before, &declaring, &after] {
            assert_eq!(ids(&**store, &of("c2")).await, samples([22, 17, 12, 7, 2]), "on {}", fresh.name);
            assert_eq!(ids(&**store, &of("c3")).await, samples([3]), "on {}", fresh.name);
        }
        let plan = after.explain(&of("c2")).await.unwrap();
        assert!(plan.contains("trace_fields_pkey") || plan.contains("SEARCH f USING PRIMARY KEY"), "it stays declared: {plan}");
    });
}

#[test]
fn documents_have_revisions_that_follow_each_other() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let agent = |share| Agent {
            v: V1,
            name: AgentName::new("desk").unwrap(),
            tenant: Tenant::default(),
            at: time(1),
            state: AgentState::Active,
            versions: vec![hone_trace::AgentVersion { version: "v1".into(), config: Config::default().hash(), share }],
        };
        let revision = |n, share| Write::Document(Document::of(&agent(share), n, Tenant::default(), time(i64::from(n))));
        assert_eq!(put_one(&*store, revision(1, 0.1)).await, Put::Conflict, "revision 1 needs revision 0");
        assert_eq!(put_one(&*store, revision(0, 0.1)).await, Put::New);
        assert_eq!(put_one(&*store, revision(0, 0.1)).await, Put::Same);
        assert_eq!(put_one(&*store, revision(0, 0.2)).await, Put::Conflict);
        assert_eq!(put_one(&*store, revision(1, 0.5)).await, Put::New);
        let found = store.document(Kind::Agent, "desk").await.unwrap().unwrap();
        assert_eq!((found.revision, found.word::<Agent>().unwrap()), (1, agent(0.5)));
        assert_eq!(store.document(Kind::Agent, "nobody").await.unwrap(), None);

        let group = |n: u32| Group {
            v: V1,
            id: GroupId::derived(&[&n.to_string()]),
            tenant: Tenant::default(),
            at: time(i64::from(n)),
            scenario: None,
            policy: None,
            traces: vec![trace(n).id],
        };
        let writes = (0..5).map(|n| Write::Document(Document::of(&group(n), 0, Tenant::default(), time(i64::from(n)))));
        store.put(writes.collect()).await.unwrap();
        let first = store.documents(Kind::Group, None, 3).await.unwrap();
        let second = store.documents(Kind::Group, first.next, 3).await.unwrap();
        let found: Vec<String> = first.items.iter().chain(&second.items).map(|document| document.id.clone()).collect();
        assert_eq!(found, [4, 3, 2, 1, 0].map(|n| group(n).id.to_string()));
        assert_eq!(second.next, None);
        assert_eq!(store.documents(Kind::Agent, None, 10).await.unwrap().items.len(), 1, "only the latest revision is listed");
    });
}

#[test]
fn links_are_walked_both_ways() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let link = |from: &str, rel: &str, to: &str| Link { from: from.into(), rel: rel.into(), to: to.into() };
        let run = format!("run:{}", RunId::derived(&["1"]));
        let links = [
            link("config:a", "produced", "outcome:1"),
            link("config:a", "produced", "outcome:2"),
            link("config:b", "used_by", &run),
        ];
        store.put(links.iter().cloned().map(Write::Link).collect()).await.unwrap();
        assert_eq!(store.links_from("config:a").await.unwrap(), links[..2]);
        assert_eq!(store.links_to(&run).await.unwrap(), links[2..]);
        assert!(store.links_to("config:a").await.unwrap().is_empty());
        let bad = store.put(vec![Write::Link(link("", "x", "y"))]).await;
        assert!(matches!(bad, Err(StoreError::Invalid { .. })));
    });
}

#[test]
fn events_are_numbered_in_the_order_in_which_readers_see_them() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let store = &*store;
        let writers = (0..8).map(|writer: u32| async move {
            for n in 0..25 {
                let stream = format!("s{writer}");
                store.put(vec![Write::Event(event(n, &stream))]).await.unwrap();
            }
        });
        let mut seen: Vec<u64> = Vec::new();
        let reader = async {
            while seen.len() < 200 {
                let after = seen.last().copied().unwrap_or(0);
                seen.extend(store.events(None, after, 7).await.unwrap().iter().map(|(seq, _)| *seq));
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(join_all(writers), reader);
        assert_eq!(store.events(None, 0, 1000).await.unwrap().len(), 200);
        assert_eq!(seen.len(), 200, "a reader that follows the log misses nothing");
        let of_one = store.events(Some("s3"), 0, 1000).await.unwrap();
        let order: Vec<u64> = of_one.iter().map(|(_, event)| event.body["n"].as_u64().unwrap()).collect();
        assert_eq!(order, (0..25).collect::<Vec<_>>());
        for (stream, after, limit) in [(None, 0, 1000), (None, 90, 7), (Some("s3"), 0, 1000), (Some("s3"), 100, 2)] {
            let events = store.events(stream, after, limit).await.unwrap();
            let ids: Vec<_> = events.iter().map(|(number, event)| (*number, event.id)).collect();
            assert_eq!(store.event_ids(stream, after, limit).await.unwrap(), ids, "{stream:?} after {after}");
        }
    });
}

async fn join_all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[test]
fn blobs_are_kept_by_their_hash() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let large: Vec<u8> = (0..9_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        for bytes in [Vec::new(), b"weights".to_vec(), large] {
            let hash = store.put_blob(bytes.clone()).await.unwrap();
            assert_eq!(store.put_blob(bytes.clone()).await.unwrap(), hash);
            assert_eq!(store.blob(hash).await.unwrap(), Some(bytes));
        }
        assert_eq!(store.blob_hashes().await.unwrap().len(), 3);
        assert_eq!(store.blob(BlobHash::of(b"other")).await.unwrap(), None);
    });
}

#[test]
fn everything_is_there_after_opening_again() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        store.put((0..10).map(write).collect()).await.unwrap();
        drop(store);
        let store = fresh.open().await;
        assert_eq!(common::count(&*store).await, 10);
        assert_eq!(store.info().await.unwrap().counts.traces, 10);
    });
}

#[test]
fn a_back_up_restores_into_either_database() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let mut writes: Vec<Write> = (0..1200).map(|n| rewarded(n, 0.5)).collect();
        writes.push(Write::Reward(trace(3).id, common::reward("later", 0.75)));
        writes.push(Write::Document(Document::of(&Config::default(), 0, Tenant::default(), time(0))));
        writes.push(Write::Link(Link { from: "a".into(), rel: "b".into(), to: "c".into() }));
        writes.extend((0..3).map(|n| Write::Event(event(n, "s"))));
        store.put(writes).await.unwrap();
        store.put_blob(b"weights".to_vec()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let manifest = backup(&*store, folder.path(), |_| ()).await.unwrap();
        assert_eq!(manifest.records, store.info().await.unwrap().counts);
        assert!(backup(&*store, folder.path(), |_| ()).await.is_err(), "a back-up is not written over");

        let mut targets = vec![common::sqlite()];
        targets.extend(common::postgres().await);
        for target in &targets {
            let restored = target.open().await;
            restore(&*restored, folder.path(), |_| ()).await.unwrap();
            restore(&*restored, folder.path(), |_| ()).await.unwrap();
            assert_eq!(restored.info().await.unwrap().counts, manifest.records, "{} to {}", fresh.name, target.name);
            assert_eq!(restored.trace(trace(3).id).await.unwrap(), store.trace(trace(3).id).await.unwrap());
            assert_eq!(restored.blob(BlobHash::of(b"weights")).await.unwrap().as_deref(), Some(&b"weights"[..]));
            let verdict = verify(&*restored, |_| ()).await.unwrap();
            assert_eq!((verdict.complaints, verdict.blobs), (Vec::new(), 1));
        }

        let records = folder.path().join("records.jsonl");
        let text = std::fs::read_to_string(&records).unwrap().replace("calculator", "calculatox");
        std::fs::write(&records, text).unwrap();
        let target = common::sqlite();
        let restored = target.open().await;
        let error = restore(&*restored, folder.path(), |_| ()).await.unwrap_err().to_string();
        assert!(error.contains("records.jsonl"), "{error}");
        assert_eq!(common::count(&*restored).await, 0, "nothing is written from a damaged back-up");
        std::fs::remove_file(folder.path().join("manifest.json")).unwrap();
        let error = restore(&*restored, folder.path(), |_| ()).await.unwrap_err().to_string();
        assert!(error.contains("cut short"), "{error}");
    });
}

#[test]
fn a_schema_newer_than_the_binary_is_refused() {
    on_each(async |fresh| {
        drop(fresh.open().await);
        match &fresh.place {
            hone_store::Place::Folder(folder) => {
                let database = rusqlite::Connection::open(folder.join("hone.db")).unwrap();
                database.execute_batch("PRAGMA user_version = 99").unwrap();
            }
            hone_store::Place::Postgres(url) => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                client.batch_execute("UPDATE hone.meta SET value = '99' WHERE key = 'schema'").await.unwrap();
            }
        }
        let error = hone_store::open(&fresh.place, &hone_store::Options::default()).await.err().unwrap();
        assert!(matches!(error, StoreError::TooNew { found: 99, .. }), "{error}");
    });
}
