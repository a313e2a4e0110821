//! Worlds over HTTP: the example server in Python, and a server that misbehaves in every way that was thought of.

use hone_env::Player;
use hone_env::external::{External, ExternalOptions};
use hone_env::rollout::{Limits, Plan, traces};
use hone_trace::env::{Env, Split};
use hone_trace::{Scenario, Trace, TraceOutcome};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn play(env: &dyn Env, player: Player<'_>, scenarios: &[Scenario], n_samples: usize, n_concurrent: usize) -> Vec<Trace> {
    traces(env, player, &Plan { n_samples, n_concurrent, ..Plan::new("external", scenarios, 3) })
}

/// The example, which ends with the test.
struct Example {
    process: Child,
    url: String,
}

impl Example {
    #[expect(clippy::print_stderr, reason = "says why a test did nothing")]
    fn start() -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/external_env.py");
        let mut command = Command::new("python3");
        let Ok(mut process) = command.arg(script).args(["--port", "0"]).stdout(Stdio::piped()).spawn() else {
            eprintln!("skipped: there is no python3 here to run the example server");
            return None;
        };
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Some(Self { process, url: url.trim().to_owned() })
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_example_is_a_whole_world() {
    let Some(example) = Example::start() else { return };
    let world = External::connect(&example.url, ExternalOptions::default()).unwrap();
    assert_eq!(world.name(), "shop");
    let [train, validation, test] = Split::ALL.map(|split| world.scenarios(split, 1, 100).unwrap());
    assert_eq!((train.len(), validation.len(), test.len()), (100, 100, 100));
    let families = |scenarios: &[Scenario]| scenarios.iter().map(|one| one.family.clone()).collect::<BTreeSet<_>>();
    assert!(families(&train).is_disjoint(&families(&validation)) && families(&train).is_disjoint(&families(&test)));
    assert!(families(&validation).is_disjoint(&families(&world.scenarios(Split::Test, 2, 100).unwrap())));
    assert_eq!(world.scenarios(Split::Train, 1, 20).unwrap(), train[..20]);

    for trace in play(&world, Player::Gold, &train, 2, 8) {
        assert_eq!(trace.outcome, TraceOutcome::Success);
        let last = trace.turns().last().unwrap();
        assert!(world.best(&train[0]).0.iter().all(|(name, best)| last.signals[&**name] == *best));
        assert!(trace.turns().all(|turn| turn.errors.is_empty()));
    }
    let outcomes =
        |player| play(&world, player, &test, 1, 8).iter().filter(|trace| trace.outcome == TraceOutcome::Success).count();
    assert_eq!(outcomes(Player::Empty), 0);
    assert!(outcomes(Player::Random) < 10);
    for player in [Player::Gold, Player::Random, Player::Empty] {
        let bytes = |n_concurrent| serde_json::to_string(&play(&world, player, &test, 1, n_concurrent)).unwrap();
        assert!(bytes(1) == bytes(64));
    }
}

/// What the bad server does with the steps of an episode, by the name of its scenario.
const MISDEEDS: &[(&str, &str)] = &[
    ("status 500", "status 500 Internal Server Error: out of order"),
    ("hang", "no answer in 300 ms"),
    ("drip", "not complete in 300 ms"),
    ("broken json", "the answer is not JSON"),
    ("huge", "the answer is longer than 65536 bytes"),
    ("nan", "the answer is not JSON"),
    ("infinite", "number out of range"),
    ("word as signal", "signal \"correct\" is not a finite number"),
    ("nameless signal", "a name has 1 to 64 printable bytes"),
    ("missing field", "the answer does not follow the protocol: missing field `messages`"),
    ("unknown field", "the answer does not follow the protocol: unknown field `reward`"),
    ("unknown outcome", "unknown variant `won`"),
    ("redirect", "status 302 Found"),
    ("cut off", "/step: "),
];

/// Answers one request; returns status and body, or nothing to hang up.
fn misbehave(path: &str, body: &Value, n_steps: &AtomicUsize) -> Option<(&'static str, String)> {
    let ok = |value: Value| Some(("200 OK", value.to_string()));
    let step = || json!({"messages": [], "signals": {"correct": 1}, "done": "success"});
    let with = |change: &dyn Fn(&mut Value)| {
        let mut step = step();
        change(&mut step);
        ok(step)
    };
    match path {
        "/world" => ok(json!({"name": "bad", "protocol": 1})),
        "/scenarios" => {
            let names = MISDEEDS.iter().map(|(name, _)| *name).chain(["good", "lost once", "no reset"]);
            let scenario = |name| json!({"id": name, "category": "c", "input": {}, "family": name});
            ok(names.map(scenario).collect())
        }
        "/reset" if body["scenario"]["id"] == "no reset" => Some(("400 Bad Request", "no such customer".into())),
        "/reset" => ok(json!({"episode": body["scenario"]["id"], "messages": [{"role": "user", "content": "go"}]})),
        "/step" => match body["episode"].as_str().unwrap() {
            "good" => ok(step()),
            "lost once" => (n_steps.fetch_add(1, Ordering::SeqCst) > 0).then(|| ("200 OK", step().to_string())),
            "status 500" => Some(("500 Internal Server Error", "out of order".into())),
            "hang" => {
                std::thread::sleep(Duration::from_millis(900));
                None
            }
            "broken json" => Some(("200 OK", "{\"messages\": [".into())),
            "huge" => ok(json!({"messages": [{"role": "user", "content": "x".repeat(1 << 20)}], "done": null})),
            "nan" => Some(("200 OK", r#"{"messages": [], "signals": {"correct": NaN}, "done": null}"#.into())),
            "infinite" => Some(("200 OK", r#"{"messages": [], "signals": {"correct": 1e999}, "done": null}"#.into())),
            "word as signal" => with(&|step| step["signals"]["correct"] = json!("yes")),
            "nameless signal" => with(&|step| step["signals"][""] = json!(1)),
            "missing field" => ok(json!({"done": null})),
            "unknown field" => with(&|step| step["reward"] = json!(1)),
            "unknown outcome" => with(&|step| step["done"] = json!("won")),
            "redirect" => Some(("302 Found\r\nlocation: /world", String::new())),
            _ => None,
        },
        _ => Some(("404 Not Found", String::new())),
    }
}

fn serve(mut stream: TcpStream, n_steps: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut n_body) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(length) = line.to_lowercase().strip_prefix("content-length:") {
            n_body = length.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; n_body];
    reader.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if body["episode"] == "drip" {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(40));
        }
    } else if let Some((status, text)) = misbehave(head.split(' ').nth(1).unwrap(), &body, n_steps) {
        let length = text.len();
        let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}");
    }
}

/// The address of the bad server, and how often a step of `lost once` was asked for.
fn bad_server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let n_steps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_steps);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || serve(stream.unwrap(), &counted));
        }
    });
    (url, n_steps)
}

#[test]
fn a_step_is_waited_for_no_longer_than_the_episode_has_left() {
    let world = External::connect(&bad_server().0, ExternalOptions::default()).unwrap();
    let scenarios = world.scenarios(Split::Train, 1, 100).unwrap();
    let slow: Vec<Scenario> = scenarios.into_iter().filter(|one| ["hang", "drip"].contains(&one.id.as_str())).collect();
    let limits = Limits { time_max_ms: Some(300), ..Limits::default() };
    let traces = traces(&world, Player::Empty, &Plan { limits, ..Plan::new("external", &slow, 3) });
    for (trace, expected) in traces.iter().zip(["no answer in ", "the answer was not complete in "]) {
        let error = &trace.turns().last().unwrap().errors[0];
        assert_eq!(error.kind, "time_limit", "{}", error.message);
        assert!(error.message.starts_with("the episode was cut short at its limit of 300 ms: "), "{}", error.message);
        assert!(error.message.contains(expected), "{}", error.message);
        assert_eq!(trace.outcome, TraceOutcome::Failure);
    }
    assert_eq!(traces.len(), 2);
}

#[test]
fn a_server_that_misbehaves_breaks_its_own_episodes_only() {
    let (url, n_steps) = bad_server();
    let options = ExternalOptions { timeout_ms: 300, retries: 1, body_bytes_max: 1 << 16 };
    let world = External::connect(&url, options).unwrap();
    let scenarios = world.scenarios(Split::Train, 1, 100).unwrap();
    let traces = play(&world, Player::Empty, &scenarios, 1, 8);
    assert_eq!(traces.len(), MISDEEDS.len() + 3);
    for trace in &traces {
        let name = trace.scenario.as_ref().unwrap().as_str();
        let error = trace.turns().flat_map(|turn| &turn.errors).map(|error| format!("{}: {}", error.kind, error.message)).next();
        match MISDEEDS.iter().find(|(misdeed, _)| *misdeed == name) {
            Some((_, expected)) => {
                let error = error.unwrap();
                assert!(error.starts_with("env_error: ") && error.contains(expected), "{name}: {error}");
                assert_eq!(trace.outcome, TraceOutcome::Unknown);
            }
            None if name == "no reset" => {
                assert_eq!(error.unwrap(), format!("env_error: {url}/reset: status 400 Bad Request: no such customer"));
            }
            None => assert_eq!((trace.outcome, error), (TraceOutcome::Success, None), "{name}"),
        }
    }
    // The lost step was sent twice, and the second answer counted.
    assert_eq!(n_steps.load(Ordering::SeqCst), 2);
    // A world without gold says so.
    let good = scenarios.iter().find(|scenario| scenario.id.as_str() == "good").unwrap();
    let gold = play(&world, Player::Gold, std::slice::from_ref(good), 1, 1);
    let error = &gold[0].turns().last().unwrap().errors[0];
    assert_eq!(
        (error.kind.as_str(), error.message.as_str()),
        ("policy_refused", format!("{url}/gold: this world has no gold").as_str())
    );
    assert!(world.scenarios(Split::Train, 1, 3).is_err(), "more scenarios than asked for are refused");
}

#[test]
fn only_plain_web_addresses_are_spoken_to() {
    let check = |url: &str, expected: &str| {
        let options = ExternalOptions { timeout_ms: 500, retries: 0, ..ExternalOptions::default() };
        let error = External::connect(url, options).err().unwrap().to_string();
        assert!(error.contains(expected), "{url}: {error}");
    };
    check("file:///etc/passwd", "a world is reached by http or https, not by file");
    check("shop", "this is no URL");
    check("http://me:secret@127.0.0.1:1/", "a URL with a user name or password is refused");
    check("http://127.0.0.1:1/?a=1", "no query");
    check("http://127.0.0.1:1/", "http://127.0.0.1:1/world: the request failed");
    let refused = External::connect("http://me:secret@127.0.0.1:1/", ExternalOptions::default()).err().unwrap();
    assert!(!refused.to_string().contains("secret"));
}
