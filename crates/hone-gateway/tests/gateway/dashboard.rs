//! The dashboard over HTTP: every page with a record to show, who sees what, and what may be decided.

use crate::sample::{self, HOSTILE, Sample};
use crate::world::{CANARY, Told, World, tenant};
use hone_arbiter::log::STREAM;
use hone_gateway::demonstrations::Demonstrations;
use hone_gateway::{Access, Identity, Limits, Role, Token, registry};
use hone_trace::store::{Document, Event, Kind, Write};
use hone_trace::{AgentName, Config, Draws, EventId, Group, GroupId, RunId, ScenarioId, Tenant, Time, TraceId, V1};
use serde_json::json;
use std::time::{Duration, Instant};

async fn filled() -> (World, Sample) {
    let world = World::open().await;
    let sample = sample::write(&*world.store).await;
    until(&world, "/dashboard/agents/desk", "Canary v1").await;
    (world, sample)
}

/// A page, as soon as it says this.
pub(crate) async fn until(world: &World, path: &str, says: &str) -> Told {
    let began = Instant::now();
    loop {
        let told = world.get(path, &[]).await;
        if told.status == 200 && told.body.contains(says) {
            return told;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{path} does not say {says}: {}", told.body);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// All pages that there are, with something that each must say.
fn pages(sample: &Sample) -> Vec<(String, &'static str)> {
    let page = |path: &str, says| (path.to_owned(), says);
    vec![
        page("/dashboard", "Newest traces"),
        page("/dashboard/traces", "Traces, newest first"),
        page("/dashboard/traces?task=refund&outcome=success&reward_min=0.5", "refund"),
        page("/dashboard/traces?q=written+twice", "Looked for these words"),
        (format!("/dashboard/traces/{}", sample.traces[0]), "order_lookup"),
        (format!("/dashboard/traces/{}?say=1", sample.traces[0]), "Learn this answer"),
        page("/dashboard/groups", "refund-17"),
        (format!("/dashboard/groups/{}", sample.group), "Mean reward"),
        page("/dashboard/data", "an e-mail address"),
        page("/dashboard/runs", "desk-grpo-2"),
        page("/dashboard/runs/desk-grpo-2", "add a length penalty"),
        page("/dashboard/compare?run=desk-grpo-1&run=desk-grpo-2", "What differs"),
        page("/dashboard/evaluations", "95 % interval"),
        page("/dashboard/agents", "clerk"),
        page("/dashboard/agents/desk", "Share of new episodes"),
        page("/dashboard/agents/desk", "cost beyond what is allowed"),
        page("/dashboard/agents/desk", "Estimated success"),
        page("/dashboard/agents/desk?ask=rollback", "Yes, roll back"),
        page("/dashboard/advice", "How they fail"),
        page("/dashboard/advice?task=refund&metric=ruler", "In use: the config with the most episodes"),
        page("/dashboard/configuration", "store.folder"),
    ]
}

#[tokio::test]
async fn every_page_shows_what_is_on_the_record() {
    let (world, sample) = filled().await;
    for (path, says) in pages(&sample) {
        let response = world.http.get(format!("{}{path}", world.url)).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!((header("x-content-type-options").as_str(), header("referrer-policy").as_str()), ("nosniff", "no-referrer"));
        assert_eq!(header("cache-control"), "no-store");
        let body = response.text().await.unwrap();
        assert!(body.contains(says), "{path} does not say {says}: {body}");
        assert!(
            !body.contains("<script>") && !body.contains("<img") && !body.contains(" style=") && !body.contains(" onerror=\""),
            "{path}"
        );
        assert!(!body.contains(CANARY) && !body.contains(HOSTILE), "{path}");
        assert_eq!(body.matches("<h1").count(), 1, "{path}: a page has one heading of the first level");
    }
    let door = world.http.get(&world.url).send().await.unwrap();
    assert_eq!((door.status().as_u16(), door.headers()["location"].to_str().unwrap()), (303, "/dashboard"));
}

#[tokio::test]
async fn what_is_not_there_is_said_on_a_page() {
    let (world, _) = filled().await;
    for (path, status, says) in [
        ("/dashboard/traces/nothing", 404, "There is no such trace"),
        ("/dashboard/traces/00000000-0000-0000-0000-000000000000", 404, "There is no such trace"),
        ("/dashboard/traces?since=yesterday", 400, "is not a time"),
        ("/dashboard/groups/nothing", 404, "There is no such group"),
        ("/dashboard/runs/..%2F..%2Fetc%2Fpasswd", 404, "There is no run"),
        ("/dashboard/compare?run=desk-grpo-1", 400, "1 is marked"),
        ("/dashboard/compare?run=desk-grpo-1&run=%3Cscript%3E", 404, "&lt;script&gt;"),
        ("/dashboard/agents/nobody", 404, "There is no such agent"),
        ("/dashboard/agents/desk?ask=explode", 400, "cannot be asked for"),
        ("/dashboard/agents/clerk?ask=rollback", 404, "No canary of `clerk` runs"),
        ("/dashboard/agents/desk?ask=resume", 400, "The canary of `desk` is running"),
        ("/dashboard/traces?reward_min=NaN", 400, "is not a number"),
        ("/dashboard/traces?after=garbage", 400, "is no place in this list"),
        ("/dashboard/groups?after=1.x", 400, "is no place in this list"),
        ("/dashboard/advice?agent=nobody", 404, "There is no agent `nobody`"),
        ("/dashboard/advice?since=yesterday", 400, "is not a time"),
        ("/dashboard/advice?ask=explode", 400, "`explode` cannot be asked for"),
        ("/dashboard/advice?ask=accept&id=x", 400, "It does not say which advice is meant"),
        ("/dashboard/advice?ask=accept&id=00000000-0000-0000-0000-000000000000", 404, "This is not proposed any more"),
        ("/dashboard/nowhere", 404, "There is nothing at this path"),
        ("/dashboard/sign-out", 405, "This path does not take this method"),
        ("/dashboard/runs/%FF", 404, "There is nothing at this path"),
    ] {
        let told = world.get(path, &[]).await;
        assert_eq!(told.status, status, "{path}: {}", told.body);
        assert!(told.body.contains(says), "{path} does not say {says}: {}", told.body);
        assert!(told.body.contains("href=\"/dashboard\""), "{path} has no way back: {}", told.body);
    }
    for path in ["/v1/nowhere", "/dashboardish"] {
        assert!(world.get(path, &[]).await.json()["error"]["message"].is_string(), "{path}: programs are told as ever");
    }
}

#[tokio::test]
async fn a_slash_too_many_is_taken_away() {
    let world = World::open().await;
    for (path, expected) in [
        ("/dashboard/", "/dashboard"),
        ("/dashboard/traces/?task=refund", "/dashboard/traces?task=refund"),
        ("/dashboard/agents/desk/", "/dashboard/agents/desk"),
        ("/dashboard//", "/dashboard"),
    ] {
        let led = world.http.get(format!("{}{path}", world.url)).send().await.unwrap();
        assert_eq!(led.headers()["location"].to_str().unwrap(), expected, "{path}");
    }
}

#[tokio::test]
async fn an_address_beyond_the_last_turn_shows_the_last() {
    let (world, sample) = filled().await;
    let path = format!("/dashboard/traces/{}?from=18446744073709551615", sample.traces[0]);
    let told = world.get(&path, &[]).await;
    assert!(told.status == 200 && told.body.contains("class=\"answer\""), "{}", told.body);
}

#[tokio::test]
async fn words_of_people_stand_with_their_trace() {
    let (world, sample) = filled().await;
    let trace = sample.traces[0];
    let said = |name: &str, whose: Tenant, turn_idx: Option<u32>, words: &str| {
        Write::Event(Event {
            id: EventId::derived(&[name]),
            at: Time::from_unix_nanos(1_800_000_000_000_000_000),
            tenant: whose,
            stream: format!("feedback:{trace}"),
            kind: "comment".into(),
            body: json!({"trace": trace, "turn_idx": turn_idx, "words": words, "by": "sam"}),
        })
    };
    let writes = vec![
        said("whole", tenant(), None, "Rude from first to last"),
        said("turn", tenant(), Some(1), &format!("This answer is wrong {HOSTILE}")),
        said("other", Tenant::new("other").unwrap(), None, "Not for you"),
    ];
    world.store.put(writes).await.unwrap();
    let body = world.get(&format!("/dashboard/traces/{trace}"), &[]).await.body;
    let place = |text: &str| body.find(text).unwrap_or_else(|| panic!("no {text}: {body}"));
    assert!(place("What people said of it") < place("Rude from first to last"));
    assert!(place("Rude from first to last") < place("id=\"turn-1\""));
    assert!(place("id=\"turn-2\"") < place("This answer is wrong &lt;/div&gt;"));
    assert!(body.contains("comment by sam, 2027-01-15") && !body.contains("Not for you") && !body.contains(HOSTILE), "{body}");
}

#[tokio::test]
async fn what_an_answer_should_have_been_is_written_on_a_page_of_its_own() {
    let (world, sample) = filled().await;
    let path = format!("/dashboard/traces/{}", sample.traces[0]);
    let shown = world.get(&path, &[]).await.body;
    assert!(shown.contains(&format!("{path}?say=2")), "every answer leads there: {shown}");
    let asking = world.get(&format!("{path}?say=2"), &[]).await.body;
    assert!(asking.contains("What should turn 2 have said?") && asking.contains("Learn this answer"), "{asking}");
    assert!(!asking.contains(HOSTILE), "{asking}");
    for wrong in ["0", "99", "x", "-1"] {
        assert_eq!(world.get(&format!("{path}?say={wrong}"), &[]).await.status, 400, "{wrong}");
    }
    let form = "as=demonstration&turn=2&id=once&words=It+left%0D%0Aon+Monday.";
    assert_eq!(send(&world, &path, form, &[]).await.status(), 403);
    assert_eq!(send(&world, &path, form, &[("origin", "http://evil.example")]).await.status(), 403);
    let ours = [("origin", world.url.as_str())];
    for wrong in ["as=demonstration&turn=2", "as=praise&turn=2&words=a", "as=comment&words=a", "as=comment&turn=99&words=a"] {
        assert_eq!(send(&world, &path, wrong, &ours).await.status(), 400, "{wrong}");
    }
    let long = format!("as=demonstration&turn=2&words={}", "%C3%A9".repeat(40_000));
    assert_eq!(send(&world, &path, &long, &ours).await.status(), 413, "more than is taken");
    let less = format!("as=demonstration&turn=2&words={}", "a".repeat(70_000));
    assert_eq!(send(&world, &path, &less, &ours).await.status(), 400, "more than is kept");
    let nowhere = "/dashboard/traces/00000000-0000-0000-0000-000000000000";
    assert_eq!(send(&world, nowhere, form, &ours).await.status(), 404);
    let read = async || {
        let trace = world.store.trace(sample.traces[0]).await.unwrap().unwrap();
        let said = Demonstrations::read(&*world.store).await.unwrap().of(&*world.store, &trace).await.unwrap();
        said.into_iter().map(|said| (said.turn_idx, said.answer.content.text())).collect::<Vec<_>>()
    };
    assert_eq!(read().await, []);
    // Sent twice it is said once.
    for _ in 0..2 {
        let done = send(&world, &path, form, &ours).await;
        assert_eq!(done.headers()["location"].to_str().unwrap(), format!("{path}?from=0#turn-2"));
    }
    assert_eq!(send(&world, &path, "as=comment&turn=1&words=Rude", &ours).await.status(), 303);
    assert_eq!(read().await, [(Some(1), "It left\non Monday.".to_owned())]);
    let shown = world.get(&path, &[]).await.body;
    assert!(shown.contains("demonstration by local") && shown.contains("on Monday.") && shown.contains("Rude"), "{shown}");
}

#[tokio::test]
async fn an_answer_that_calls_a_tool_is_corrected_with_its_call() {
    let (world, sample) = filled().await;
    let path = format!("/dashboard/traces/{}", sample.traces[0]);
    let asking = world.get(&format!("{path}?say=1"), &[]).await.body;
    assert!(asking.contains("name=\"calls\"") && asking.contains("order_lookup {&quot;order&quot;"), "{asking}");
    let ours = [("origin", world.url.as_str())];
    let form = |words: &str, calls: &str| format!("as=demonstration&turn=1&words={words}&calls={calls}");
    for (calls, says) in [
        ("order_lookup+%7B%22order%22%3A+1%7D%0D%0A%0D%0Aorder_lookup+now", "Line 3 of the calls"),
        ("nothing_like_it", "`nothing_like_it` was not on offer there, but `order_lookup`"),
        ("", "says nothing and calls no tool"),
    ] {
        let refused = send(&world, &path, &form("", calls), &ours).await;
        let (status, body) = (refused.status(), refused.text().await.unwrap());
        assert!(status == 400 && body.contains(says), "{calls}: {body}");
    }
    let call = "order_lookup+%7B%22order%22%3A+%22A-2%22%7D%0D%0A";
    assert_eq!(send(&world, &path, &form("", call), &ours).await.status(), 303);
    assert_eq!(send(&world, &path, "as=comment&turn=1&words=Late&calls=order_lookup", &ours).await.status(), 303);
    let trace = world.store.trace(sample.traces[0]).await.unwrap().unwrap();
    let said = Demonstrations::read(&*world.store).await.unwrap().of(&*world.store, &trace).await.unwrap();
    let calls: Vec<_> = said.iter().flat_map(|said| &said.answer.tool_calls).collect();
    assert_eq!((said.len(), calls[0].name.as_str(), calls[0].arguments.as_str()), (1, "order_lookup", r#"{"order": "A-2"}"#));
    let shown = world.get(&path, &[]).await.body;
    assert!(shown.contains("demonstration by local") && shown.contains("A-2") && shown.contains("Late"), "{shown}");
}

#[tokio::test]
async fn many_records_of_others_hide_none_of_ours() {
    let world = World::open().await;
    let scenario = |name: &str| Some(ScenarioId::new(name).unwrap());
    let group = |name: String, whose: &Tenant, s: i64| {
        let (id, at) = (GroupId::derived(&[&name]), Time::from_unix_nanos(1_799_000_000_000_000_000 + s * 1_000_000_000));
        let group = Group { v: V1, id, tenant: whose.clone(), at, scenario: scenario(&name), policy: None, traces: Vec::new() };
        Write::Document(Document::of(&group, 0, whose.clone(), at))
    };
    let other = Tenant::new("other").unwrap();
    // Of sixty of ours, half are older than five hundred of another's, and half are among them.
    let old = (0..30).map(|idx| group(format!("ours-{idx}."), &tenant(), idx));
    let new = (0..30).map(|idx| group(format!("ours-{}.", idx + 30), &tenant(), 100 + idx * 20));
    let theirs = (0..500).map(|idx| group(format!("theirs-{idx}."), &other, 100 + idx));
    world.store.put(old.chain(new).chain(theirs).collect()).await.unwrap();
    let first = world.get("/dashboard/groups", &[]).await.body;
    let next = first.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let second = world.get(next, &[]).await.body;
    for idx in 0..60 {
        let (here, there) = (first.contains(&format!("ours-{idx}.")), second.contains(&format!("ours-{idx}.")));
        assert_eq!((here, there), (idx >= 10, idx < 10), "ours-{idx}: fifty on the first page, ten on the second");
    }
    assert!(!first.contains("theirs") && !second.contains("theirs"));
    // The overview wants the newest run alone, and that is behind a hundred of theirs.
    sample::write_run(&*world.store, "our-run", 3, 0.5, None, &[]).await;
    let ours = world.store.documents(Kind::Run, None, 1).await.unwrap().items.remove(0);
    let theirs = |idx: i64| {
        let (id, at) = (RunId::derived(&[&idx.to_string()]).to_string(), ours.at.plus_nanos(idx * 1_000_000));
        Write::Document(Document { id, at, tenant: other.clone(), ..ours.clone() })
    };
    world.store.put((1..=100).map(theirs).collect()).await.unwrap();
    let overview = world.get("/dashboard", &[]).await.body;
    assert!(overview.contains("href=\"/dashboard/runs/our-run\""), "{overview}");
}

#[tokio::test]
async fn a_group_by_a_config_leads_to_its_traces() {
    let world = World::open().await;
    let hash = Config::default().hash().to_string();
    let (id, at) = (GroupId::derived(&["by config"]), Time::from_unix_nanos(1_799_000_000_000_000_000));
    let mut draws = Draws::new(8, &["large"]);
    let traces: Vec<TraceId> = (0..40).map(|idx: u32| TraceId::derived(&["large", &idx.to_string()])).collect();
    let trace = |id: &TraceId| Write::Trace(Box::new(sample::episode(*id, tenant(), at, &Config::default(), &mut draws)));
    let writes: Vec<Write> = traces.iter().map(trace).collect();
    let group = Group { v: V1, id, tenant: tenant(), at, scenario: None, policy: Some(hash.clone()), traces };
    world.store.put(writes).await.unwrap();
    world.store.put(vec![Write::Document(Document::of(&group, 0, tenant(), at))]).await.unwrap();
    for path in ["/dashboard/groups".to_owned(), format!("/dashboard/groups/{id}")] {
        let body = world.get(&path, &[]).await.body;
        assert!(body.contains(&format!("href=\"/dashboard/traces?config={hash}\"")), "{path}: {body}");
        assert!(!body.contains(&format!(">{hash}<")) && !body.contains(&format!(" {hash}")), "{path} has the hash bare");
        assert!(path.ends_with("groups") || body.contains("of the 32 shown") && body.contains("8 further members"), "{body}");
    }
}

#[tokio::test]
async fn an_empty_record_says_how_to_begin() {
    let world = World::open().await;
    for (path, says) in [
        ("/dashboard", "Nothing is on the record yet"),
        ("/dashboard", &format!("OPENAI_BASE_URL={}/v1", world.url)),
        ("/dashboard/traces", "hone trace import"),
        ("/dashboard/groups", "hone rollout"),
        ("/dashboard/data", "hone data gate"),
        ("/dashboard/runs", "hone train grpo --env desk --model MODEL --run first"),
        ("/dashboard/evaluations", "hone eval baseline --record"),
        ("/dashboard/agents", "hone deploy add"),
        ("/dashboard/advice", "No episodes to look at yet"),
    ] {
        let told = world.get(path, &[]).await;
        assert_eq!(told.status, 200, "{path}: {}", told.body);
        assert!(told.body.contains(says), "{path}: {}", told.body);
    }
}

#[tokio::test]
async fn the_overview_names_what_is_handed_over_first() {
    let (world, _) = filled().await;
    for idx in 0..5 {
        let (name, at) = (AgentName::new(format!("aide-{idx}")).unwrap(), Time::from_unix_nanos(0));
        registry::add(&*world.store, &name, "v1", &Config::default(), &tenant(), at).await.unwrap();
    }
    let body = until(&world, "/dashboard", "and 3 more").await.body;
    let place = |agent: &str| body.find(&format!("href=\"/dashboard/agents/{agent}\""));
    assert!(place("desk").is_some() && place("desk") < place("aide-0") && place("clerk").is_none(), "{body}");
}

#[tokio::test]
async fn a_trace_of_the_future_does_not_come_in() {
    let world = World::open().await;
    for (s, expected) in [(1_800_000_000, "coming in"), (1_900_000_000, "on the record")] {
        let (id, at) = (TraceId::derived(&[&s.to_string()]), Time::from_unix_nanos(s * 1_000_000_000));
        let trace = sample::episode(id, tenant(), at, &Config::default(), &mut Draws::new(7, &[expected]));
        world.store.put(vec![Write::Trace(Box::new(trace))]).await.unwrap();
        let body = world.get("/dashboard", &[]).await.body;
        assert!(body.contains(&format!("<p class=\"state\">{expected}</p>")), "{body}");
    }
}

#[tokio::test]
async fn lists_are_paged_by_key() {
    let (world, sample) = filled().await;
    let mut seen: Vec<TraceId> = Vec::new();
    let mut path = "/dashboard/traces".to_owned();
    loop {
        let body = world.get(&path, &[]).await.body;
        let links = body.split("href=\"/dashboard/traces/").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok());
        seen.extend(links.collect::<Vec<TraceId>>());
        let next = body.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
        let Some(next) = next else { break };
        path = next.replace("&amp;", "&");
    }
    assert_eq!(seen, sample.traces, "each once, newest first");
    // An id leads to its trace.
    let found = world.http.get(format!("{}/dashboard/traces?q={}", world.url, sample.traces[9])).send().await.unwrap();
    assert_eq!(found.headers()["location"].to_str().unwrap(), format!("/dashboard/traces/{}", sample.traces[9]));
}

#[tokio::test]
async fn the_name_of_an_episode_leads_to_it_where_nothing_else_is_found() {
    let world = World::open().await;
    let said = |words: &str| json!({"model": "well", "messages": [{"role": "user", "content": words}]});
    let uuid = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
    let mut episodes = Vec::new();
    for name in [uuid, "ticket-7"] {
        let told = world.post("/v1/chat/completions", &said("hi"), &[("x-hone-episode", name)]).await;
        episodes.push(told.episode.unwrap());
    }
    let looked = async |words: &str| world.http.get(format!("{}/dashboard/traces?q={words}", world.url)).send().await.unwrap();
    for (name, id) in [uuid, "ticket-7"].into_iter().zip(&episodes) {
        let found = looked(name).await;
        assert_eq!(found.headers()["location"].to_str().unwrap(), format!("/dashboard/traces/{id}"), "{name}");
    }
    let nobody = looked("00000000-0000-8000-8000-000000000045").await;
    assert_eq!(nobody.status(), 200, "an id that no trace has is looked for like any words");
    world.post("/v1/chat/completions", &said("what became of ticket-7?"), &[]).await;
    let found = looked("ticket-7").await;
    assert_eq!(found.status(), 200);
    let page = found.text().await.unwrap();
    assert_eq!(page.matches("href=\"/dashboard/traces/").count(), 2, "{page}");
    assert!(page.contains(&format!("/dashboard/traces/{}", episodes[1])), "{page}");
}

/// A form that is sent as a browser sends it.
pub(crate) async fn send(world: &World, path: &str, form: &str, headers: &[(&str, &str)]) -> reqwest::Response {
    let mut request = world.http.post(format!("{}{path}", world.url)).body(form.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap()
}

#[tokio::test]
async fn a_canary_is_taken_back_with_a_form_of_ours_alone() {
    let (world, sample) = filled().await;
    let (origin, form) = (world.url.clone(), format!("ask=rollback&canary={}", sample.canary));
    let asked = async || {
        world.store.events(Some(STREAM), 0, 10_000).await.unwrap().iter().filter(|(_, event)| event.kind == "asked").count()
    };
    for headers in
        [vec![], vec![("origin", "http://evil.example")], vec![("origin", origin.as_str()), ("sec-fetch-site", "cross-site")]]
    {
        let status = send(&world, "/dashboard/agents/desk", &form, &headers).await.status();
        assert_eq!(status, 403, "{headers:?}");
    }
    let ours = [("origin", origin.as_str()), ("sec-fetch-site", "same-origin")];
    let other = format!("ask=rollback&canary={}", EventId::derived(&["other"]));
    assert_eq!(send(&world, "/dashboard/agents/desk", &other, &ours).await.status(), 404, "a canary that nobody looked at");
    let resume = format!("ask=resume&canary={}", sample.canary);
    assert_eq!(send(&world, "/dashboard/agents/desk", &resume, &ours).await.status(), 400, "it is not paused");
    assert_eq!(asked().await, 0);
    let done = send(&world, "/dashboard/agents/desk", &form, &ours).await;
    assert_eq!(done.headers()["location"].to_str().unwrap(), "/dashboard/agents/desk?done=rollback");
    until(&world, "/dashboard/agents/desk", "rolled back").await;
    assert_eq!(asked().await, 1);
    // What has ended stays as it ended.
    assert_eq!(send(&world, "/dashboard/agents/desk", &form, &ours).await.status(), 404);
    assert!(!world.get("/dashboard/agents/desk", &[]).await.body.contains("?ask="), "there is nothing to ask for any more");
}

pub(crate) async fn guarded() -> World {
    let key = |name: &str, tenant: Tenant, role| {
        (Token::of(&format!("sk-{name}")), Identity { tenant, role, name: name.into(), requests_per_minute: None })
    };
    let other = Tenant::new("other").unwrap();
    let keys = [
        key("call", tenant(), Role::Call),
        key("read", tenant(), Role::Read),
        key("admin", tenant(), Role::Admin),
        key("stranger", other, Role::Admin),
    ];
    World::with(Access::keys(keys).unwrap(), Limits::default()).await
}

/// Signs in, and gives the cookie.
pub(crate) async fn sign_in(world: &World, key: &str) -> Option<String> {
    let origin = world.url.clone();
    let response = send(world, "/dashboard/sign-in", &format!("key={key}&back=/dashboard/agents"), &[("origin", &origin)]).await;
    assert_eq!(response.status(), 303);
    let cookie = response.headers().get("set-cookie")?.to_str().unwrap().to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains(key), "{cookie}");
    assert_eq!(response.headers()["location"], "/dashboard/agents");
    Some(cookie.split(';').next().unwrap().to_owned())
}

#[tokio::test]
async fn a_session_stands_for_its_key() {
    let world = guarded().await;
    let sample = sample::write(&*world.store).await;
    // A person is led to the door, a program is told.
    let led = world.http.get(format!("{}/dashboard/traces?q=a", world.url)).header("accept", "text/html").send().await.unwrap();
    let place = led.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(place, "/dashboard/sign-in?back=%2Fdashboard%2Ftraces%3Fq%3Da");
    assert!(world.get(&place, &[]).await.body.contains("type=\"password\""));
    assert_eq!(world.get("/dashboard/traces", &[]).await.status, 401);
    for wrong in ["sk-call", "sk-nobody", ""] {
        assert_eq!(sign_in(&world, wrong).await, None, "{wrong}");
    }
    let elsewhere = send(&world, "/dashboard/sign-in", "key=sk-admin", &[("origin", "http://evil.example")]).await;
    assert_eq!(elsewhere.status(), 403, "nobody signs somebody else in");

    let reader = sign_in(&world, "sk-read").await.unwrap();
    let cookie = [("cookie", reader.as_str())];
    let agent = "/dashboard/agents/desk";
    let began = Instant::now();
    while !world.get(agent, &cookie).await.body.contains("Canary v1") {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let page = world.get(agent, &cookie).await.body;
    assert!(page.contains("Sign out") && !page.contains("?ask="), "who may only read sees no buttons: {page}");
    assert_eq!(world.get(&format!("{agent}?ask=rollback"), &cookie).await.status, 403);
    let form = format!("ask=rollback&canary={}", sample.canary);
    let from_us = [("cookie", reader.as_str()), ("origin", &world.url)];
    assert_eq!(send(&world, agent, &form, &from_us).await.status(), 403);

    let admin = sign_in(&world, "sk-admin").await.unwrap();
    assert_ne!(admin, reader);
    let asking = world.get(&format!("{agent}?ask=rollback"), &[("cookie", &admin)]).await.body;
    let token = asking.split("name=\"token\" value=\"").nth(2).unwrap().split('"').next().unwrap().to_owned();
    assert!(token.len() == 64 && !admin.contains(&token));
    let from_us = [("cookie", admin.as_str()), ("origin", &world.url)];
    assert_eq!(send(&world, agent, &form, &from_us).await.status(), 403, "without what its forms name");
    let named = format!("{form}&token={token}");
    assert_eq!(send(&world, agent, &named, &[("cookie", &admin)]).await.status(), 403, "and without an origin");
    assert_eq!(send(&world, agent, &named, &from_us).await.status(), 303);

    assert_eq!(send(&world, "/dashboard/sign-out", &format!("token={token}"), &from_us).await.status(), 303);
    assert_eq!(world.get("/dashboard", &[("cookie", &admin)]).await.status, 401, "what has ended opens nothing");
    assert_eq!(world.get("/dashboard", &cookie).await.status, 200, "the other one goes on");
}

/// V12, V13: who was let in saw what is another's.
#[tokio::test]
async fn pages_show_their_tenant_alone() {
    let world = guarded().await;
    let sample = sample::write(&*world.store).await;
    let cookie = sign_in(&world, "sk-stranger").await.unwrap();
    let cookie = [("cookie", cookie.as_str())];
    for (path, _) in pages(&sample) {
        let body = world.get(&path, &cookie).await.body;
        for theirs in ["refund-17", "desk-grpo", "desk-8b", "order_lookup", "clerk", "store.folder", "an e-mail address", "v2"] {
            assert!(!body.contains(theirs) || path.contains(theirs), "{path} tells {theirs}: {body}");
        }
    }
    for path in [format!("/dashboard/traces/{}", sample.traces[0]), format!("/dashboard/groups/{}", sample.group)] {
        assert_eq!(world.get(&path, &cookie).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_page_grows_with_what_it_shows() {
    let (world, sample) = filled().await;
    let path = "/dashboard/runs/desk-grpo-2";
    assert!(world.get(path, &[]).await.body.contains("id=\"step\">40</b>"));
    sample::write_step(&*world.store, "desk-grpo-2", 41, 0.75, &mut Draws::new(4, &["live"])).await;
    assert!(world.get(path, &[]).await.body.contains("id=\"step\">41</b>"));
    // The first page of a list has what came a moment ago.
    let id = TraceId::derived(&["new"]);
    let config = Config { model: Some("desk-8b".into()), ..Config::default() };
    let trace =
        sample::episode(id, tenant(), Time::from_unix_nanos(1_800_000_001_000_000_000), &config, &mut Draws::new(5, &["new"]));
    world.store.put(vec![Write::Trace(Box::new(trace))]).await.unwrap();
    let body = world.get("/dashboard", &[]).await.body;
    let (new, old) = (body.find(&id.to_string()), body.find(&sample.traces[0].to_string()));
    assert!(new.is_some() && new < old, "{body}");
    assert_eq!(json!(world.get("/dashboard/style.css", &[]).await.status), 200);
}

/// One document of every kind is damaged, and a trace: lists name it and show the others.
#[tokio::test]
async fn what_is_damaged_is_named_and_hides_no_other() {
    let (world, sample) = filled().await;
    let id = |name: &str| RunId::derived(&["run", tenant().as_str(), name]).to_string();
    let newest = |kind: &str| {
        format!("UPDATE documents SET body = '{{' WHERE seq = (SELECT max(seq) FROM documents WHERE kind = '{kind}');")
    };
    world.change(&format!("UPDATE documents SET body = '{{' WHERE kind = 'run' AND id = '{}';", id("desk-grpo-1")));
    world.change("UPDATE documents SET body = '{' WHERE kind = 'config'");
    world.change("UPDATE bodies SET body = '{' WHERE seq = (SELECT max(seq) FROM bodies)");
    let runs = world.get("/dashboard/runs", &[]).await;
    assert!(runs.status == 200 && runs.body.contains("desk-grpo-2") && runs.body.contains(&id("desk-grpo-1")), "{}", runs.body);
    for (path, says) in pages(&sample) {
        if !path.contains("desk-grpo-1") {
            // Episodes of configs that nobody can read compare nothing.
            let says = if path.starts_with("/dashboard/advice") { "of configs among them" } else { says };
            let told = world.get(&path, &[]).await;
            assert!(told.status == 200 && told.body.contains(says), "{path}: {} {}", told.status, told.body);
        }
    }
    for (kind, path) in [("outcome", "/dashboard/evaluations"), ("group", "/dashboard/groups"), ("run", "/dashboard/runs")] {
        world.change(&newest(kind));
        let told = world.get(path, &[]).await;
        assert!(told.status == 200 && told.body.contains("cannot be read and is not shown"), "{path}: {}", told.body);
        assert_eq!(world.get("/dashboard", &[]).await.status, 200, "{kind}");
    }
    let other = Tenant::new("other").unwrap();
    world.change(&format!("UPDATE documents SET tenant = '{other}' WHERE kind = 'run'"));
    let told = world.get("/dashboard/runs", &[]).await.body;
    assert!(!told.contains("cannot be read"), "what another tenant has is not told: {told}");
}
