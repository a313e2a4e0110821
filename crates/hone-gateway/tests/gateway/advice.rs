//! The page of advice over HTTP: what it says, to whom, of how much, and what comes of an answer.

use crate::dashboard::{guarded, send, sign_in, until};
use crate::sample::{self, HOSTILE, Rivals};
use crate::world::{World, tenant};
use hone_gateway::advice::{self, Asked};
use hone_gateway::registry;
use hone_trace::store::{Document, Kind, Write};
use hone_trace::{
    AgentName, Answer, Config, Message, Outcome, Recommendation, RecommendationKind, Role, Segment, Tenant, Time, Trace, TraceId,
    TraceOutcome, Turn,
};

const PAGE: &str = "/dashboard/advice";

async fn filled() -> (World, Rivals) {
    let world = World::open().await;
    let rivals = sample::write_rivals(&*world.store, &tenant()).await;
    until(&world, PAGE, "In use: shop v1").await;
    (world, rivals)
}

/// All advice that is on the record, whoever's.
async fn kept(world: &World) -> Vec<Recommendation> {
    let documents = world.store.documents(Kind::Recommendation, None, 100).await.unwrap().items;
    documents.iter().map(|document| document.word().unwrap()).collect()
}

/// The versions of the agent `shop`.
async fn versions(world: &World) -> Vec<(String, Config)> {
    let (entry, _) = registry::agent(&*world.store, &AgentName::new("shop").unwrap()).await.unwrap().unwrap();
    let mut found = Vec::new();
    for version in entry.versions {
        let config = world.store.document(Kind::Config, &version.config.to_string()).await.unwrap().unwrap();
        found.push((version.version, config.word().unwrap()));
    }
    found
}

/// The page as who has this cookie sees it, as soon as the agent is known.
async fn known(world: &World, cookie: &str) -> String {
    loop {
        let body = world.get(PAGE, &[("cookie", cookie)]).await.body;
        if body.contains("In use: shop v1") {
            return body;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// An episode of one turn, of which nobody said how it went.
fn silent(name: &str, idx: u32, whose: Tenant) -> Trace {
    let at = Time::from_unix_nanos(1_700_000_000_000_000_000 + i64::from(idx));
    let mut trace = Trace::new(TraceId::derived(&[name, &idx.to_string()]), whose, at, Config::default().hash());
    let turn = Turn::new(vec![Message::text(Role::User, "why?")], Message::text(Role::Assistant, "So."));
    trace.segments = vec![Segment { turns: vec![turn], ..Segment::default() }];
    trace
}

/// 40 episodes of a model, half of them solved, in a world or live.
fn half_solved(model: &str, world: Option<&str>) -> Vec<Write> {
    let config = Config { model: Some(model.into()), ..Config::default() };
    let at = Time::from_unix_nanos(1_700_000_000_000_000_000);
    let mut writes = vec![Write::Document(Document::of(&config, 0, tenant(), at))];
    for idx in 0..40 {
        let outcome = if u32::is_multiple_of(idx, 2) { TraceOutcome::Success } else { TraceOutcome::Failure };
        let mut trace = Trace { config: config.hash(), outcome, ..silent(model, idx, tenant()) };
        trace.metadata.extend(world.map(|world| ("env".to_owned(), world.into())));
        writes.push(Write::Trace(Box::new(trace)));
    }
    writes
}

/// The id of the first advice that a page offers.
fn offered(body: &str) -> String {
    let rest = body.split("ask=accept&amp;id=").nth(1).unwrap_or_else(|| panic!("nothing is offered: {body}"));
    rest.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn failures_comparisons_and_proposals_stand_on_the_page() {
    let (world, rivals) = filled().await;
    let body = world.get(PAGE, &[]).await.body;
    let hash = rivals.new.hash().to_string();
    for says in [
        "Looked at <b class=\"n\">240 episodes</b> of 2 configs",
        "240 with an outcome, <b class=\"n\">62.5 %</b> solved",
        "90 failures",
        "declines to do it",
        "ends with lookup",
        "“parcel * is * known”",
        "/dashboard/traces?task=returns&amp;outcome=failure",
        &format!("/dashboard/traces/{}", rivals.newest_failure),
        "40.0 % (31.7 % to 48.9 %) over 120 episodes",
        "<b>better for what it costs</b>",
        "40.0 % → 85.0 % on 120 tasks that both had, +45.0 (",
        "<th scope=\"row\">model</th><td>shop-old</td>",
        "<span class=\"tag good\">better</span>",
        &format!("<a href=\"/dashboard/traces?config={hash}\">{}", &hash[..8]),
        "role=\"img\"",
        "By type of task",
        "Turn it down",
    ] {
        assert!(body.contains(says), "it does not say {says}: {body}");
    }
    assert!(!body.contains(HOSTILE) && !body.contains("<script>") && !body.contains("<b>not</b>"), "{body}");
    assert_eq!(kept(&world).await, [], "who looks writes nothing");
    assert_eq!(versions(&world).await.len(), 1);
    // Filters are followed.
    let body = world.get("/dashboard/advice?agent=shop&task=returns", &[]).await.body;
    assert!(body.contains("<b class=\"n\">120 episodes</b>") && body.contains("<option selected>shop</option>"), "{body}");
    let body = world.get("/dashboard/advice?agent=shop", &[]).await.body;
    assert!(body.contains("72 failures"), "the other config is none of the agent's: {body}");
    let body = world.get("/dashboard/advice?metric=nobody", &[]).await.body;
    assert!(body.contains("none with an outcome") && body.contains("POST /v1/feedback"), "{body}");
    let body = world.get("/dashboard/advice?since=2030-01-01", &[]).await.body;
    assert!(body.contains("No episode fits"), "{body}");
}

#[tokio::test]
async fn advice_is_taken_with_a_form_of_ours_alone() {
    let (world, rivals) = filled().await;
    let id = offered(&world.get(PAGE, &[]).await.body);
    let asking = world.get(&format!("{PAGE}?ask=accept&id={id}"), &[]).await.body;
    assert!(asking.contains("becomes a version of shop") && asking.contains("Yes, take it"), "{asking}");
    let (origin, form) = (world.url.clone(), format!("ask=accept&id={id}"));
    for headers in
        [vec![], vec![("origin", "http://evil.example")], vec![("origin", origin.as_str()), ("sec-fetch-site", "cross-site")]]
    {
        assert_eq!(send(&world, PAGE, &form, &headers).await.status(), 403, "{headers:?}");
    }
    let ours = [("origin", origin.as_str()), ("sec-fetch-site", "same-origin")];
    for wrong in ["ask=accept", &format!("id={id}"), &format!("ask=explode&id={id}"), "ask=accept&id=1"] {
        assert_eq!(send(&world, PAGE, wrong, &ours).await.status(), 400, "{wrong}");
    }
    let nobody = "ask=accept&id=00000000-0000-0000-0000-000000000000";
    assert_eq!(send(&world, PAGE, nobody, &ours).await.status(), 404, "what nobody proposes cannot be taken");
    assert_eq!((kept(&world).await.len(), versions(&world).await.len()), (0, 1));

    let done = send(&world, &format!("{PAGE}?agent=shop"), &form, &ours).await;
    assert_eq!(done.headers()["location"].to_str().unwrap(), "/dashboard/advice?agent=shop&done=accept");
    let written = kept(&world).await.remove(0);
    assert_eq!((written.id.to_string(), written.answer), (id.clone(), Some(Answer::Accepted)));
    assert_eq!((written.kind, written.from, written.to), (RecommendationKind::Balanced, rivals.old.hash(), rivals.new.hash()));
    let mut reached = Vec::new();
    for evidence in &written.evidence {
        let outcome = world.store.document(Kind::Outcome, &evidence.to_string()).await.unwrap().unwrap();
        reached.push(outcome.word::<Outcome>().unwrap().success);
    }
    assert_eq!(reached, [0.4, 0.85], "the evidence is on the record");
    assert_eq!(versions(&world).await, [("v1".to_owned(), rivals.old), ("v2".to_owned(), rivals.new)]);
    let page = world.get("/dashboard/advice?agent=shop&done=accept", &[]).await.body;
    for says in
        ["Taken: written down", "<code>hone deploy start shop v2 --gain 0.10</code>", "<span class=\"tag good\">taken</span>"]
    {
        assert!(page.contains(says), "it does not say {says}: {page}");
    }
    assert!(!page.contains("ask=accept"), "there is nothing to decide any more: {page}");
    let said = world.said.lock().unwrap().clone();
    assert!(said.iter().any(|text| *text == format!("advice {} was taken at the dashboard by local", &id[..8])), "{said:?}");

    // Sent twice it is done once, and who comes later does not undo it.
    assert_eq!(send(&world, PAGE, &form, &ours).await.status(), 303);
    assert_eq!(send(&world, PAGE, &format!("ask=reject&id={id}"), &ours).await.status(), 400);
    assert_eq!((kept(&world).await, versions(&world).await.len()), (vec![written], 2));
}

#[tokio::test]
async fn advice_that_was_turned_down_is_not_offered_again() {
    let (world, _) = filled().await;
    let id = offered(&world.get(PAGE, &[]).await.body);
    let ours = [("origin", world.url.as_str()), ("sec-fetch-site", "same-origin")];
    let asking = world.get(&format!("{PAGE}?ask=reject&id={id}"), &[]).await.body;
    assert!(asking.contains("It is not proposed again"), "{asking}");
    assert_eq!(send(&world, PAGE, &format!("ask=reject&id={id}"), &ours).await.status(), 303);
    assert_eq!(kept(&world).await.iter().map(|one| one.answer).collect::<Vec<_>>(), [Some(Answer::Rejected)]);
    let page = world.get(&format!("{PAGE}?done=reject"), &[]).await.body;
    for says in ["Turned down: written down", "1 proposal was turned down before", "<span class=\"tag\">turned down</span>"] {
        assert!(page.contains(says), "it does not say {says}: {page}");
    }
    assert!(!page.contains("ask=accept") && !page.contains("<article class=\"advice\""), "{page}");
    assert_eq!(world.get(&format!("{PAGE}?ask=accept&id={id}"), &[]).await.status, 400, "it was answered");
    assert_eq!(versions(&world).await.len(), 1);
}

/// What `hone advise` wrote down can be decided here, though a look of today would not find it.
#[tokio::test]
async fn advice_of_the_command_line_is_decided_as_it_stands() {
    let (world, _) = filled().await;
    let asked = Asked { tenant: tenant(), n_max: 100_000, n_used_max: 10, ..Asked::default() };
    let serving = advice::serving(&*world.store, &tenant()).await.unwrap();
    let look = advice::look(&*world.store, &asked, &serving, |_| true).await.unwrap();
    let given = advice::keep(&*world.store, &look, &tenant()).await.unwrap();
    assert_eq!(kept(&world).await, given.iter().map(|one| one.recommendation.clone()).collect::<Vec<_>>());
    let body = world.get("/dashboard/advice?since=2030-01-01", &[]).await.body;
    let id = offered(&body);
    assert_eq!(id, given[0].recommendation.id.to_string());
    let ours = [("origin", world.url.as_str()), ("sec-fetch-site", "same-origin")];
    let answered = send(&world, "/dashboard/advice?since=2030-01-01", &format!("ask=reject&id={id}"), &ours).await;
    assert_eq!(answered.status(), 303);
    let expected = Recommendation { answer: Some(Answer::Rejected), ..given[0].recommendation.clone() };
    assert_eq!(kept(&world).await, [expected], "nothing else of it has changed");
}

#[tokio::test]
async fn who_may_read_sees_advice_and_who_may_deploy_decides() {
    let world = guarded().await;
    sample::write_rivals(&*world.store, &tenant()).await;
    let (reader, admin) = (sign_in(&world, "sk-read").await.unwrap(), sign_in(&world, "sk-admin").await.unwrap());
    let id = offered(&known(&world, &admin).await);
    let seen = world.get(PAGE, &[("cookie", &reader)]).await.body;
    assert!(
        seen.contains("In use: shop v1") && !seen.contains("ask=accept") && !seen.contains("ask=reject"),
        "who may only read sees no buttons: {seen}"
    );
    assert!(seen.contains(&format!("hone advise accept {}", &id[..8])), "and how it is taken: {seen}");
    assert_eq!(world.get(&format!("{PAGE}?ask=accept&id={id}"), &[("cookie", &reader)]).await.status, 403);
    let form = format!("ask=accept&id={id}");
    let asking = world.get(&format!("{PAGE}?ask=accept&id={id}"), &[("cookie", &admin)]).await.body;
    let token = asking.split("name=\"token\" value=\"").nth(2).unwrap().split('"').next().unwrap().to_owned();
    let named = format!("{form}&token={token}");
    assert_eq!(send(&world, PAGE, &named, &[("cookie", &reader), ("origin", &world.url)]).await.status(), 403);
    let from_us = [("cookie", admin.as_str()), ("origin", world.url.as_str())];
    assert_eq!(send(&world, PAGE, &form, &from_us).await.status(), 403, "without what its forms name");
    assert_eq!(send(&world, PAGE, &named, &[("cookie", &admin)]).await.status(), 403, "and without an origin");
    assert_eq!(kept(&world).await, []);
    assert_eq!(send(&world, PAGE, &named, &from_us).await.status(), 303);
    assert_eq!(kept(&world).await.len(), 1);
    let said = world.said.lock().unwrap().clone();
    assert!(said.iter().any(|text| text.contains("was taken at the dashboard by admin")), "{said:?}");
}

/// V12, V13: who was let in saw what is another's, or changed it.
#[tokio::test]
async fn nothing_of_another_tenant_is_seen_or_decided() {
    let world = guarded().await;
    sample::write_rivals(&*world.store, &tenant()).await;
    let (admin, stranger) = (sign_in(&world, "sk-admin").await.unwrap(), sign_in(&world, "sk-stranger").await.unwrap());
    let token = async |cookie: &str, path: &str| {
        let page = world.get(path, &[("cookie", cookie)]).await.body;
        page.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let id = offered(&known(&world, &admin).await);
    let theirs = [("cookie", stranger.as_str()), ("origin", world.url.as_str())];
    let form = format!("ask=reject&id={id}&token={}", token(&stranger, PAGE).await);
    let is_hidden = async || {
        let page = world.get(PAGE, &theirs).await.body;
        for ours in ["shop", "returns", "declines", &id[..8]] {
            assert!(!page.contains(ours), "it tells {ours}: {page}");
        }
        assert!(page.contains("No episodes to look at yet"), "{page}");
        assert_eq!(world.get(&format!("{PAGE}?ask=reject&id={id}"), &theirs).await.status, 404);
        assert_eq!(world.get(&format!("{PAGE}?agent=shop"), &theirs).await.status, 404);
        assert_eq!(send(&world, PAGE, &form, &theirs).await.status(), 404);
    };
    is_hidden().await;
    assert_eq!(kept(&world).await, []);
    // Nor when it is on the record.
    let from_us = [("cookie", admin.as_str()), ("origin", world.url.as_str())];
    let taken = format!("ask=accept&id={id}&token={}", token(&admin, PAGE).await);
    assert_eq!(send(&world, PAGE, &taken, &from_us).await.status(), 303);
    is_hidden().await;
    assert_eq!(kept(&world).await.iter().map(|one| one.answer).collect::<Vec<_>>(), [Some(Answer::Accepted)]);
    // Of its own it sees everything.
    let other = Tenant::new("other").unwrap();
    world.store.put(vec![Write::Trace(Box::new(silent("theirs", 0, other)))]).await.unwrap();
    let page = world.get(PAGE, &theirs).await.body;
    assert!(page.contains("<b class=\"n\">1 episode</b> of 1 config; none with an outcome"), "{page}");
}

#[tokio::test]
async fn episodes_that_nobody_weighed_are_counted_and_compare_nothing() {
    let world = World::open().await;
    world.store.put((0..30).map(|idx| Write::Trace(Box::new(silent("silent", idx, tenant())))).collect()).await.unwrap();
    let told = world.get(PAGE, &[]).await;
    assert_eq!(told.status, 200);
    for says in [
        "<b class=\"n\">30 episodes</b> of 1 config; none with an outcome",
        "30 episodes without an outcome: say how they went with",
        "No episode failed, as far as anybody said",
        "nobody said how its episodes went",
        "No other config has episodes",
    ] {
        assert!(told.body.contains(says), "it does not say {says}: {}", told.body);
    }
}

#[tokio::test]
async fn scripts_and_practice_in_a_world_are_not_held_against_live_traffic() {
    let world = World::open().await;
    for (model, played_in) in [("live", None), ("rival", None), ("practice", Some("desk")), ("script:gold", Some("desk"))] {
        world.store.put(half_solved(model, played_in)).await.unwrap();
    }
    world.store.put(half_solved("script:random", None)).await.unwrap();
    let hash = |model: &str| Config { model: Some(model.into()), ..Config::default() }.hash();
    let asked = Asked { tenant: tenant(), n_max: 1_000, n_used_max: 1, ..Asked::default() };
    let look = advice::look(&*world.store, &Asked { from: Some(hash("live")), ..asked.clone() }, &[], |_| true).await.unwrap();
    let (others, n_compared) = look.advised[0].beside();
    assert_eq!(others.iter().map(|one| one.config).collect::<Vec<_>>(), [hash("rival"), hash("practice")]);
    assert_eq!(n_compared, 1);
    // Nor is a script in use, though it has more episodes.
    let more = (40..80).map(|idx| Trace { config: hash("script:gold"), ..silent("more", idx, tenant()) });
    world.store.put(more.map(|trace| Write::Trace(Box::new(trace))).collect()).await.unwrap();
    let look = advice::look(&*world.store, &asked, &[], |_| true).await.unwrap();
    assert!(![hash("script:gold"), hash("script:random")].contains(&look.advised[0].from), "{:?}", look.advised[0]);
}

#[tokio::test]
async fn what_is_damaged_is_passed_by_and_said() {
    let (world, rivals) = filled().await;
    let id = offered(&world.get(PAGE, &[]).await.body);
    let look = async |says: &[&str]| {
        let told = world.get(PAGE, &[]).await;
        assert_eq!(told.status, 200, "{}", told.body);
        for says in says {
            assert!(told.body.contains(says), "it does not say {says}: {}", told.body);
        }
    };
    world.change("UPDATE bodies SET body = '{' WHERE seq = (SELECT max(seq) FROM bodies)");
    look(&["<b class=\"n\">239 episodes</b>", "1 record is passed by", "Turn it down", "hone store verify"]).await;
    // What became of advice is not guessed.
    let ours = [("origin", world.url.as_str()), ("sec-fetch-site", "same-origin")];
    assert_eq!(send(&world, PAGE, &format!("ask=reject&id={id}"), &ours).await.status(), 303);
    world.change(&format!("UPDATE documents SET body = '{{' WHERE id = '{id}'"));
    look(&["What became of it cannot be read", &format!("<code>recommendation {id}</code> cannot be read")]).await;
    let told = world.get(&format!("{PAGE}?ask=accept&id={id}"), &[]).await;
    assert!(told.status == 503 && told.body.contains("`hone store verify` names it"), "{}", told.body);
    // Nobody knows what such a config is, so its episodes compare nothing.
    let config = rivals.new.hash();
    world.change(&format!("UPDATE documents SET body = '{{' WHERE id = '{config}'"));
    look(&["<b class=\"n\">120 episodes</b>", "2 records are passed by, and 119 episodes of configs among them"]).await;
}

#[tokio::test]
async fn a_page_looks_at_the_newest_and_says_so() {
    let world = World::open().await;
    let trace = |idx: u32| Write::Trace(Box::new(Trace { outcome: TraceOutcome::Failure, ..silent("many", idx, tenant()) }));
    for batch in (0..10_050).collect::<Vec<_>>().chunks(2_010) {
        world.store.put(batch.iter().map(|idx| trace(*idx)).collect()).await.unwrap();
    }
    let body = world.get(PAGE, &[]).await.body;
    assert!(body.contains("Looked at the newest <b") && body.contains("There are older ones"), "{body}");
    let newest = TraceId::derived(&["many", "10049"]);
    assert!(body.contains(&newest.to_string()) && !body.contains("10,050 episodes"), "{body}");
    // By number, and by time.
    let asked = Asked { tenant: tenant(), n_max: 2_500, n_used_max: 1, ..Asked::default() };
    let mut reads = Vec::new();
    let look = advice::look(&*world.store, &asked, &[], |n| {
        reads.push(n);
        true
    });
    assert_eq!(look.await.unwrap().seen.n_episodes(), 2_500);
    assert_eq!(reads, [1000, 1000, 500]);
    let look = advice::look(&*world.store, &asked, &[], |_| false).await.unwrap();
    assert_eq!((look.seen.n_episodes(), look.seen.has_older), (1000, true));
}
