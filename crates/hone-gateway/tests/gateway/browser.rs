//! The dashboard in a real Chromium, used as a person would: by clicks and keys, light and dark, on a screen and on a phone.
//!
//! Needs chromedriver and Chromium, which `cargo xtask test` installs; says so and passes where they are not. What was seen is
//! kept under `target/screenshots`.

mod driver;

use crate::sample::{self, Sample};
use crate::world::{World, tenant};
use driver::Browser;
use hone_gateway::{Access, Identity, Limits, Role, Token, registry};
use hone_trace::store::{Document, Write};
use hone_trace::{AgentName, Category, Config, Draws, ErrorEvent, ScenarioId, Time, TraceId};

/// What is wrong with a page for who uses no mouse, sees little, or uses a program that reads it aloud.
const CHECKS: &str = include_str!("browser/checks.js");
const TAB: char = '\u{e004}';

/// A server with a record, and a browser; nothing where there is no browser.
async fn opened(access: Access) -> Option<(World, Sample, Browser)> {
    let browser = Browser::start().await?;
    let world = World::with(access, Limits { stop_ms: 1_000, ..Limits::default() }).await;
    let sample = sample::write(&*world.store).await;
    // The record is whole when its last canary is known.
    let (agent, began) = (format!("{}/v1/agents/desk", world.url), std::time::Instant::now());
    while !world.http.get(&agent).bearer_auth("sk-admin").send().await.unwrap().text().await.unwrap().contains("\"share\":0.5") {
        assert!(began.elapsed() < std::time::Duration::from_secs(30));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    Some((world, sample, browser))
}

/// Nothing was wrong while the browser showed pages.
async fn is_content(browser: &Browser) {
    assert_eq!(browser.complaints().await, [] as [String; 0]);
}

#[tokio::test]
async fn a_trace_is_opened_from_the_list_and_read() {
    let Some((world, _, browser)) = opened(Access::open(tenant())).await else { return };
    browser.open(&world.url).await;
    browser.until("Newest traces").await;
    assert_eq!(browser.place().await, "/dashboard");
    browser.link("Traces").await.click().await;
    browser.find("input[name=task]").await.write("refund").await;
    browser.find("select[name=outcome] option:nth-child(3)").await.click().await;
    browser.find(".filters button").await.click().await;
    browser.until_at("task=refund").await;
    browser.until("Traces, newest first").await;
    assert!(!browser.text().await.contains("late delivery"));
    let first = browser.find("tbody th a").await;
    first.click().await;
    browser.until("What was said and done").await;
    for says in ["order_lookup", "Sends the customer away", "The customer is upset", "48 tokens sampled", "policy_refusal"] {
        if says == "The customer is upset" {
            browser.find("details.thought summary").await.click().await;
        }
        browser.until(says).await;
    }
    // What stands in a trace is text, whatever it looks like.
    assert!(browser.text().await.contains("document.title='taken'"));
    assert!(browser.script("return document.title").await.as_str().unwrap().starts_with("Trace "));
    is_content(&browser).await;
}

#[tokio::test]
async fn a_person_says_what_an_answer_should_have_been() {
    let Some((world, sample, browser)) = opened(Access::open(tenant())).await else { return };
    browser.open(&format!("{}/dashboard/traces/{}", world.url, sample.traces[0])).await;
    browser.link("Say what it should have been").await.click().await;
    browser.until("What should turn 1 have said?").await;
    let given = browser.script("return document.querySelector('textarea').value").await;
    assert!(given.is_string(), "the answer that was given stands there to be mended: {given}");
    browser.script("document.querySelector('textarea').value = ''").await;
    browser.find("textarea").await.write("It left on Monday.").await;
    browser.find("form.say button.strong").await.click().await;
    browser.until("demonstration by local").await;
    browser.until("It left on Monday.").await;
    assert!(browser.script("return location.hash").await == "#turn-1");
    is_content(&browser).await;
}

#[tokio::test]
async fn two_runs_are_compared_and_a_live_one_moves() {
    let Some((world, _, browser)) = opened(Access::open(tenant())).await else { return };
    browser.open(&format!("{}/dashboard/runs", world.url)).await;
    browser.find("input[value=desk-grpo-1]").await.click().await;
    browser.find("input[value=desk-grpo-2]").await.click().await;
    // The list asks for itself again meanwhile, and what is marked stays marked.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    browser.find("form button").await.click().await;
    browser.until("What differs").await;
    let text = browser.text().await;
    assert!(text.contains("0.00002") && text.contains("plateau") && text.contains("running"), "{text}");
    assert_eq!(browser.script("return document.querySelectorAll('.chart .line.c1').length >= 8").await, true);
    browser.link("desk-grpo-2").await.click().await;
    browser.until("Alarms").await;
    let drawn = "return document.querySelector('.chart .line').getAttribute('d')";
    let before = browser.script(drawn).await;
    assert_eq!(browser.find("#step").await.text().await, "40");
    browser.script("document.getElementById('step').isKept = true").await;
    let mut draws = Draws::new(9, &["live"]);
    for step in 41..=43 {
        sample::write_step(&*world.store, "desk-grpo-2", step, 0.75, &mut draws).await;
    }
    browser.until("43").await;
    assert_eq!(browser.find("#step").await.text().await, "43");
    assert_ne!(browser.script(drawn).await, before, "the curve has grown");
    assert_eq!(
        browser.script("return document.getElementById('step').isKept").await,
        true,
        "what has changed stays in its place"
    );
    let said = browser.script("return document.getElementById('moves').textContent").await;
    assert!(said.as_str().unwrap().contains("step 43"), "{said}");
    // An alarm leads to the trace behind it.
    browser.find(".alarms a").await.click().await;
    browser.until("What was said and done").await;
    is_content(&browser).await;
}

#[tokio::test]
async fn a_canary_is_rolled_back_after_a_question() {
    let key = |name: &str, role| {
        (Token::of(&format!("sk-{name}")), Identity { tenant: tenant(), role, name: name.into(), requests_per_minute: None })
    };
    let keys = [key("read", Role::Read), key("admin", Role::Admin)];
    let Some((world, _, browser)) = opened(Access::keys(keys).unwrap()).await else { return };
    browser.open(&format!("{}/dashboard/agents", world.url)).await;
    browser.find("input[name=key]").await.write("sk-nobody\n").await;
    browser.until("not known here").await;
    browser.keep("sign-in").await;
    browser.find("input[name=key]").await.write("sk-read\n").await;
    browser.link("desk").await.click().await;
    browser.until("Canary v1").await;
    assert!(!browser.text().await.contains("Roll back"), "who may only read sees no buttons");
    browser.find(".who button").await.click().await;
    browser.find("input[name=key]").await.write("sk-admin\n").await;
    browser.link("Agents").await.click().await;
    browser.link("desk").await.click().await;
    browser.link("Roll back").await.click().await;
    browser.until("Roll back v2 of desk?").await;
    browser.keep("roll-back").await;
    browser.link("No, leave it").await.click().await;
    browser.until("has 50 % of new episodes").await;
    browser.link("Roll back").await.click().await;
    browser.find("form.ask button").await.click().await;
    browser.until("v2 was taken back; v1 has all of the traffic").await;
    browser.until("somebody asked for it").await;
    assert!(browser.place().await.starts_with("/dashboard/agents/desk"));
    is_content(&browser).await;
}

#[tokio::test]
async fn advice_is_taken_after_a_question() {
    let key = |name: &str, role| {
        (Token::of(&format!("sk-{name}")), Identity { tenant: tenant(), role, name: name.into(), requests_per_minute: None })
    };
    let keys = [key("read", Role::Read), key("admin", Role::Admin)];
    let Some((world, _, browser)) = opened(Access::keys(keys).unwrap()).await else { return };
    let rivals = sample::write_rivals(&*world.store, &tenant()).await;
    browser.open(&format!("{}/dashboard/agents", world.url)).await;
    browser.find("input[name=key]").await.write("sk-read\n").await;
    browser.link("shop").await.click().await;
    browser.link("Advice on shop").await.click().await;
    browser.until("In use: shop v1").await;
    let text = browser.text().await;
    assert!(text.contains("declines to do it") && text.contains("Who may decide takes it here"), "{text}");
    assert!(!text.contains("Turn it down"), "who may only read sees no buttons: {text}");
    // A failure leads to its trace.
    browser.find(&format!("main a[href$='{}']", rivals.newest_failure)).await.click().await;
    browser.until("I'm sorry, but I cannot help with that.").await;
    browser.find(".who button").await.click().await;
    browser.find("input[name=key]").await.write("sk-admin\n").await;
    browser.link("Advice").await.click().await;
    browser.until("In use: shop v1").await;
    browser.find("select[name=agent] option:last-child").await.click().await;
    browser.find(".filters button").await.click().await;
    browser.until_at("agent=shop").await;
    browser.link("Take it").await.click().await;
    browser.until("becomes a version of shop").await;
    browser.keep("take-advice").await;
    browser.link("No, leave it").await.click().await;
    browser.link("Take it").await.click().await;
    browser.find("form.ask button").await.click().await;
    browser.until("hone deploy start shop v2").await;
    assert!(browser.place().await.starts_with("/dashboard/advice?agent=shop"));
    assert_eq!(browser.script("return document.title").await, "Advice · hone", "what stands in a config is text");
    is_content(&browser).await;
}

/// A page that moves goes on doing so around what somebody has clicked, and keeps what was selected.
#[tokio::test]
async fn a_click_does_not_stop_a_page_that_moves() {
    let Some((world, sample, browser)) = opened(Access::open(tenant())).await else { return };
    browser.open(&format!("{}/dashboard", world.url)).await;
    let newest = sample.traces[0].to_string();
    let link = format!("main a[href$='{newest}']");
    browser.script(&format!("document.querySelector(\"{link}\").focus()")).await;
    let come = async |name: &str| {
        let (id, at) = (TraceId::derived(&[name]), Time::from_unix_nanos(1_800_000_001_000_000_000));
        let config = Config { model: Some("desk-8b".into()), ..Config::default() };
        let trace = sample::episode(id, tenant(), at, &config, &mut Draws::new(5, &[name]));
        world.store.put(vec![Write::Trace(Box::new(trace))]).await.unwrap();
        browser.find(&format!("main a[href$='{id}']")).await;
    };
    come("around the focus").await;
    let at = browser.script("return document.activeElement.getAttribute('href')").await;
    assert_eq!(at, format!("/dashboard/traces/{newest}"), "the focus stays where it was");
    browser.script("document.activeElement.blur(); getSelection().selectAllChildren(document.getElementById('newest'))").await;
    come("around the selection").await;
    assert_eq!(browser.script("return getSelection().toString()").await, "Newest traces");
    let n_rows = browser.script("return document.querySelectorAll('main tbody tr').length").await;
    assert_eq!(n_rows, 12, "no row is there twice");
    is_content(&browser).await;
}

/// A session that has ended leads an open page to the door.
#[tokio::test]
async fn an_open_page_whose_session_ends_asks_for_a_key() {
    let identity = Identity { tenant: tenant(), role: Role::Admin, name: "admin".into(), requests_per_minute: None };
    let Some((world, _, browser)) = opened(Access::keys([(Token::of("sk-admin"), identity)]).unwrap()).await else { return };
    browser.open(&format!("{}/dashboard/agents", world.url)).await;
    browser.find("input[name=key]").await.write("sk-admin\n").await;
    browser.link("desk").await;
    // Somewhere else in this browser, somebody signs out.
    let sign_out = "const token = document.querySelector('.who input[name=token]').value; \
                    fetch('/dashboard/sign-out', { method: 'POST', body: new URLSearchParams({ token }) })";
    browser.script(sign_out).await;
    browser.until("Sign in with an API key").await;
    assert_eq!(browser.place().await, "/dashboard/sign-in?back=%2Fdashboard%2Fagents");
}

#[tokio::test]
async fn pages_are_readable_for_everybody() {
    let Some((world, sample, browser)) = opened(Access::open(tenant())).await else { return };
    sample::write_rivals(&*world.store, &tenant()).await;
    browser.open(&format!("{}/dashboard/agents", world.url)).await;
    browser.until("shop").await;
    browser.open(&format!("{}/dashboard/advice", world.url)).await;
    browser.until("In use: shop v1").await;
    let taking = browser.script("return document.querySelector('.advice .button').getAttribute('href')").await;
    let taking = taking.as_str().unwrap().to_owned();
    let trace = format!("traces/{}", sample.traces[1]);
    let say = format!("{trace}?say=1");
    let group = format!("groups/{}", sample.group);
    let pages = [
        ("overview", ""),
        ("traces", "traces"),
        ("trace", trace.as_str()),
        ("say", say.as_str()),
        ("groups", "groups"),
        ("group", group.as_str()),
        ("data", "data"),
        ("runs", "runs"),
        ("run", "runs/desk-grpo-2"),
        ("compare", "compare?run=desk-grpo-1&run=desk-grpo-2"),
        ("evaluations", "evaluations"),
        ("agents", "agents"),
        ("agent", "agents/desk"),
        ("ask", "agents/desk?ask=promote"),
        ("advice", "advice?agent=shop"),
        ("take", taking.trim_start_matches("/dashboard/")),
        ("configuration", "configuration"),
    ];
    for (scheme, width) in [("light", 1360), ("dark", 1360), ("light", 800), ("light", 360)] {
        browser.resize(width, 900).await;
        browser.prefer(scheme).await;
        for (name, path) in pages {
            browser.open(format!("{}/dashboard/{path}", world.url).trim_end_matches('/')).await;
            browser.find("main h1").await;
            let wrong = browser.script(CHECKS).await;
            let look = match width {
                360 => "phone",
                800 => "narrow",
                _ => scheme,
            };
            browser.keep(&format!("{name}-{look}")).await;
            assert_eq!(wrong.as_array().map(Vec::len), Some(0), "{name}, {look}: {wrong:#}");
        }
    }
    is_content(&browser).await;
}

/// Words without a place to break them do not make a page wider than a phone.
#[tokio::test]
async fn long_words_fit_a_phone() {
    let Some(browser) = Browser::start().await else { return };
    let world = World::with(Access::open(tenant()), Limits { stop_ms: 1_000, ..Limits::default() }).await;
    browser.resize(380, 800).await;
    let long = "w".repeat(120);
    let id = TraceId::derived(&["long"]);
    let look = async |path: &str| {
        browser.open(&format!("{}{path}", world.url)).await;
        browser.find("main h1").await;
        assert_eq!(browser.script(CHECKS).await, serde_json::json!([]), "{path}");
    };
    for path in ["", "/traces", "/groups", "/data", "/runs", "/evaluations", "/agents", "/advice", "/nowhere"] {
        look(&format!("/dashboard{path}")).await;
    }
    let config = Config { model: Some(long.clone()), ..Config::default() };
    let mut trace = sample::episode(id, tenant(), Time::from_unix_nanos(0), &config, &mut Draws::new(5, &["long"]));
    (trace.category, trace.scenario) = (Some(Category::new(&*long).unwrap()), Some(ScenarioId::new(&*long).unwrap()));
    trace.metadata.insert(long.clone(), long.clone().into());
    trace.rewards[0].by.name = long.clone();
    let turn = &mut trace.segments[0].turns[0];
    turn.signals.insert(long.clone(), 1.0);
    turn.llm_calls[0].model = long.clone();
    turn.tool_calls[0].name = long.clone();
    turn.answer.tool_calls[0].name = long.clone();
    turn.errors = vec![ErrorEvent { kind: long.clone(), recovered: true, message: long.clone() }];
    let document = Document::of(&config, 0, tenant(), Time::from_unix_nanos(0));
    world.store.put(vec![Write::Trace(Box::new(trace)), Write::Document(document)]).await.unwrap();
    let agent = AgentName::new(&*long).unwrap();
    registry::add(&*world.store, &agent, &long, &config, &tenant(), Time::from_unix_nanos(0)).await.unwrap();
    for path in ["", "/traces", &format!("/traces/{id}"), "/agents", "/advice", &format!("/traces?reward_min={long}")] {
        look(&format!("/dashboard{path}")).await;
    }
    browser.open(&format!("{}/dashboard/agents/{long}", world.url)).await;
    browser.find("main .wide").await;
    look(&format!("/dashboard/agents/{long}")).await;
}

#[tokio::test]
async fn keys_are_enough_to_get_around() {
    let Some((world, _, browser)) = opened(Access::open(tenant())).await else { return };
    browser.open(&format!("{}/dashboard/traces", world.url)).await;
    let focused = "const at = document.activeElement; const style = getComputedStyle(at); \
                   return [at.textContent.trim(), style.outlineStyle, parseFloat(style.outlineWidth)]";
    browser.press(TAB).await;
    let skip = browser.script(focused).await;
    assert_eq!(skip[0], "Skip to the content");
    browser.press('\u{e007}').await;
    browser.press(TAB).await;
    assert_eq!(browser.script("return document.activeElement.name").await, "q", "the way around was skipped");
    for _ in 0..12 {
        let at = browser.script(focused).await;
        assert!(at[1] != "none" && at[2].as_f64().unwrap() >= 1.0, "nobody sees where the focus is: {at}");
        browser.press(TAB).await;
    }
    browser.script("document.activeElement.blur()").await;
    browser.press('j').await;
    browser.press('j').await;
    let second = browser.script("return document.activeElement.getAttribute('href')").await;
    browser.press('\u{e007}').await;
    browser.until("What was said and done").await;
    assert_eq!(browser.place().await, second.as_str().unwrap());
    is_content(&browser).await;
}
