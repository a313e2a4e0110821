//! `hone serve` as a process: what it says, what it records, and what is left of that when it is killed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::{Desk, is_slow};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A process that listens.
pub(super) struct Listening {
    pub(super) child: Child,
    pub(super) port: u16,
}

impl Listening {
    /// Starts `hone` with the words of this line; the first line that it prints says its port.
    pub(super) fn start(desk: &Desk, line: &str) -> Self {
        let mut child = desk.command(line).stderr(Stdio::null()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        let digits = first.rsplit("0.0.1:").next().and_then(|rest| rest.rsplit("0.0.0:").next()).unwrap_or_default();
        let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
        let port = digits.parse().unwrap_or_else(|_| panic!("`hone {line}` says no port: {first}"));
        Self { child, port }
    }

    pub(super) fn provider(desk: &Desk) -> Self {
        Self::start(desk, "bench gateway-mock")
    }

    pub(super) fn serve(desk: &Desk, provider: &Self) -> Self {
        Self::start(desk, &format!("serve --address 127.0.0.1:0 --model m=http://127.0.0.1:{}/v1#m", provider.port))
    }

    /// A signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks for an answer; the id of one that came whole.
fn ask(port: u16, model: &str, text: &str) -> Option<String> {
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let json: serde_json::Value = serde_json::from_str(body).ok()?;
    let is_whole = head.starts_with("HTTP/1.1 200") && json["choices"][0]["finish_reason"] == "stop";
    is_whole.then(|| json["id"].as_str().map(str::to_owned))?
}

#[test]
fn what_was_answered_is_on_the_record_at_once() {
    let desk = Desk::new();
    let provider = Listening::provider(&desk);
    let mut served = Listening::serve(&desk, &provider);
    let id = ask(served.port, "m", "hello").unwrap();
    assert!(desk.hone("trace export").out.contains(&id));
    served.signal("-TERM");
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    assert_eq!(desk.hone("store verify").code, 0);
}

#[test]
fn an_episode_is_found_by_the_name_that_its_client_gave_it() {
    let desk = Desk::new();
    let provider = Listening::provider(&desk);
    let served = Listening::serve(&desk, &provider);
    post_to(served.port, Some("ticket-4711"), r#"{"model":"m","messages":[{"role":"user","content":"my order"}]}"#);
    desk.hone("trace show ticket-4711").expect(0, "my order", "").expect(0, r#""episode_name":"ticket-4711""#, "");
    desk.hone("trace show ticket-4712").expect(1, "", "there is no trace ticket-4712");
    let said = r#"{"model":"m","messages":[{"role":"user","content":"by metadata"}],"metadata":{"episode_name":"ticket-4713"}}"#;
    post_to(served.port, None, said);
    desk.hone("trace show ticket-4713").expect(0, "by metadata", "");
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    let path = "/dashboard/traces?q=ticket-4711";
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let id = desk.hone("trace show ticket-4711 --json").json()[0]["id"].as_str().unwrap().to_owned();
    assert!(answer.contains(&format!("location: /dashboard/traces/{id}")), "{answer}");
}

#[test]
fn a_model_of_a_flag_wins_over_the_one_of_its_name_in_the_file() {
    let desk = Desk::with(&[("hone.toml", "[serve]\nmodels = ['m=http://127.0.0.1:1/v1#m', 'other=http://127.0.0.1:1/v1#m']\n")]);
    let provider = Listening::provider(&desk);
    let served = Listening::serve(&desk, &provider);
    assert!(ask(served.port, "m", "hello").is_some(), "the one of the flag answers");
    assert!(get(served.port, "/v1/models").contains("other"), "what has another name stays");
    let line = format!("serve --address 127.0.0.1:0 --model m=http://127.0.0.1:{}/v1#m", provider.port);
    let filed = "[serve]\nmodels = ['m=http://127.0.0.1:1/v1#x', 'o=http://127.0.0.1:1/v1#x']\nprices = ['m=1,2', 'o=1,2']\n";
    std::fs::write(desk.path("hone.toml"), filed).unwrap();
    desk.hone(&format!("{line} --budget 1")).expect(2, "", "--price m=IN,OUT");
    let served = Listening::start(&desk, &line);
    let page = get(served.port, "/dashboard/configuration");
    assert!(page.contains("o=1,2") && !page.contains("m=1,2"), "a price is that of the model that it was given for: {page}");
    let twice = "serve --address 127.0.0.1:0 --model a=http://127.0.0.1:1/v1#m --model a=http://127.0.0.1:1/v1#n";
    desk.hone(twice).expect(2, "", "the model `a` is named twice");
}

#[test]
fn a_budget_asks_for_the_price_by_the_name_that_takes_it() {
    let desk = Desk::new();
    let line = "serve --address 127.0.0.1:0 --model gpt=http://127.0.0.1:1/v1#unknown-mini --budget 1";
    desk.hone(line).expect(2, "", "needs the price of `unknown-mini`").expect(2, "", "--price gpt=IN,OUT");
}

/// A question in these words in one and the same episode, and the body of the response.
fn post(port: u16, body: &str) -> String {
    post_to(port, Some("one"), body)
}

/// A question in these words, in an episode of its own unless one is named.
fn post_to(port: u16, episode: Option<&str>, body: &str) -> String {
    let episode = episode.map_or_else(String::new, |name| format!("x-hone-episode: {name}\r\n"));
    send(port, "/v1/chat/completions", &episode, body)
}

/// Sends this body to a path, with these lines in the head, and gives the body of the response.
pub(super) fn send(port: u16, path: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The body of what is at a path.
pub(super) fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Gives all weights of a file values of about this size.
fn fill(path: &std::path::Path, scale: f32) {
    let mut bytes = std::fs::read(path).unwrap();
    let begin = 8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    for (idx, place) in bytes[begin..].chunks_exact_mut(4).enumerate() {
        place.copy_from_slice(&(scale * (idx as f32 * scale).sin()).to_le_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn adapters_are_swapped_while_the_server_runs() {
    let desk = Desk::new();
    assert_eq!(desk.hone("model add tiny:d32,l1,h2,kv1,ff48,v320,ctx256 --name small").code, 0);
    let line = "train grpo --env math:sums --model small --run r --steps 1 --answer-tokens 8 --scenarios 2 --samples 4";
    assert_eq!(desk.hone(line).code, 0);
    for (version, scale) in [("v1", 0.3), ("v2", 0.7)] {
        fill(&desk.path(".hone/runs/r/adapter/adapter_model.safetensors"), scale);
        let added = desk.hone(&format!("deploy add desk {version} --model m --base small --adapter .hone/runs/r/adapter"));
        assert_eq!(added.code, 0, "{}", added.err);
    }
    let served = Listening::start(&desk, "serve --address 127.0.0.1:0 --model m=local:small --context 256 --threads 1");
    let said = |model: &str| {
        let body = format!(r#"{{"model":"{model}","max_tokens":12,"seed":3,"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let told: serde_json::Value = serde_json::from_str(&post_to(served.port, None, &body)).unwrap();
        told["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()
    };
    let (bare, first) = (said("m"), said("desk"));
    assert_eq!(desk.hone("deploy start desk v2").code, 0);
    for _ in 0..2 {
        assert_eq!(desk.hone("deploy promote desk").code, 0);
    }
    let began = std::time::Instant::now();
    while said("desk") == first {
        assert!(began.elapsed() < Duration::from_secs(20), "the new version does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_ne!(said("desk"), bare);
    let exported = desk.hone("trace export");
    assert!(exported.out.contains(r#""version":"v1""#) && exported.out.contains(r#""version":"v2""#));
}

#[test]
fn a_model_of_this_machine_answers_and_its_tokens_are_on_the_record() {
    let desk = Desk::new();
    assert_eq!(desk.hone("model add tiny:d32,l1,h2,kv1,ff48,v320,ctx256 --name small").code, 0);
    let served = Listening::start(&desk, "serve --address 127.0.0.1:0 --model m=local:small --context 256 --threads 1");
    let ask = |messages: &str, rest: &str| {
        post(served.port, &format!(r#"{{"model":"m","max_tokens":12,"seed":3,"messages":[{messages}]{rest}}}"#))
    };
    let hi = r#"{"role":"user","content":"hi"}"#;
    let whole: serde_json::Value = serde_json::from_str(&ask(hi, "")).unwrap();
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
    assert!(whole["usage"]["completion_tokens"].as_u64().is_some_and(|n| (1..=12).contains(&n)), "{whole}");

    // The same words anew, told piece by piece: a conversation of its own, with the same seed.
    let told = ask(hi, r#","stream":true"#);
    let pieces = told.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line.strip_prefix("data: ")?).ok());
    let joined: String = pieces.filter_map(|piece| piece["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect();
    assert_eq!(joined, text, "{told}");
    assert!(told.contains("data: [DONE]"), "{told}");

    let answer = serde_json::json!({"role": "assistant", "content": text});
    ask(&format!(r#"{hi},{answer},{{"role":"user","content":"on"}}"#), "");
    let refused: serde_json::Value = serde_json::from_str(&ask(hi, r#","top_k":2"#)).unwrap();
    assert!(refused["error"]["message"].as_str().is_some_and(|message| message.contains("`top_k`")), "{refused}");

    let exported: serde_json::Value = serde_json::from_str(desk.hone("trace export").out.trim()).unwrap();
    let segments = exported["segments"].as_array().unwrap();
    let turns: Vec<&serde_json::Value> = segments.iter().flat_map(|segment| segment["turns"].as_array().unwrap()).collect();
    assert_eq!(turns.len(), 4, "{exported}");
    for turn in &turns[..3] {
        let (ids, logprobs) = (&turn["sampled"]["ids"], &turn["sampled"]["logprobs"]);
        assert!(ids.as_array().is_some_and(|ids| !ids.is_empty() && ids.len() == logprobs.as_array().unwrap().len()), "{turn}");
    }
    let inputs: Vec<usize> = turns.iter().map(|turn| turn["input"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(inputs[2], 1, "the third question went on with the second: {exported}");
}

#[test]
fn a_server_without_a_model_has_its_pages() {
    let desk = Desk::new();
    let served = Listening::start(&desk, "serve --address 127.0.0.1:0 --task refund=money");
    assert_eq!(ask(served.port, "m", "hello"), None);
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    write!(stream, "GET /dashboard/configuration HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("refund=money") && page.contains("--task"), "the page tells what is in effect: {page}");
}

#[test]
fn what_cannot_be_served_is_said_before_anything_listens() {
    let desk = Desk::new();
    desk.hone("serve --model gpt").expect(2, "", "`gpt` names no model");
    desk.hone("serve --model gpt=nobody:x").expect(2, "", "there is no provider `nobody`");
    desk.hone("serve --model gpt=openai:x").expect(2, "", "OPENAI_API_KEY");
    desk.hone("serve --address 0.0.0.0:0 --model m=http://127.0.0.1:1/v1#m").expect(2, "", "from other machines");
    desk.hone("serve --model m=http://127.0.0.1:1/v1#m --model m=http://127.0.0.1:2/v1#m").expect(2, "", "named twice");
    desk.hone("serve --threads 1 --model m=http://127.0.0.1:1/v1#m").expect(2, "", "--threads is for local models");
    desk.hone("serve --context 64 --model m=http://127.0.0.1:1/v1#m").expect(2, "", "--context is for local models");
    desk.hone("serve --budget 1 --model m=local:small").expect(2, "", "--budget is for providers");
    desk.hone("serve --budget 1 --model m=http://127.0.0.1:1/v1#m").expect(2, "", "--price m=IN,OUT");
    desk.hone("serve --price m=1,2 --model m=local:small").expect(
        2,
        "",
        "is the price of `m`, which is no provider's model here",
    );
    desk.hone("serve --price m=1 --model m=http://127.0.0.1:1/v1#m").expect(2, "", "`m=1` two or three prices are given");
    let desk = Desk::with(&[("hone.toml", "[serve]\naddress = 'here'\n")]);
    desk.hone("serve").expect(2, "", "`serve.address`");
}

#[test]
fn what_a_client_saw_whole_survives_the_server() {
    // One canary in a hundred may end early because one side happened to be drawn far more often; three in a row do not.
    assert!((0..3).any(|_| canary_of_killed_servers_runs_on()), "three canaries ended");
}

/// Kills a server again and again and looks at what is left. False when the canary has ended, so that not all of its episodes count.
fn canary_of_killed_servers_runs_on() -> bool {
    let desk = Desk::new();
    let provider = Listening::provider(&desk);
    desk.hone("deploy add desk v1 --model m").expect(0, "desk v1 is added", "it serves");
    desk.hone("deploy add desk v2 --model m --temperature 0.5").expect(0, "desk v2 is added", "hone deploy start desk v2");
    let started = desk.hone("deploy start desk v2 --rule non_inferior --shares 0.5");
    assert_eq!(started.code, 0, "{}", started.err);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let n_kills: u64 = if is_slow() { 50 } else { 4 };
    for kill in 0..n_kills {
        let n_before = seen.lock().unwrap().len();
        let served = Listening::serve(&desk, &provider);
        let number = Arc::new(AtomicU64::new(0));
        let clients: Vec<_> = (0..8)
            .map(|idx| {
                let (seen, number, port) = (Arc::clone(&seen), Arc::clone(&number), served.port);
                let model = if idx % 2 == 0 { "m" } else { "desk" };
                std::thread::spawn(move || {
                    while let Some(id) = ask(port, model, &format!("{kill} {}", number.fetch_add(1, Ordering::Relaxed))) {
                        seen.lock().unwrap().push(id);
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(100 + 37 * (kill % 9)));
        // On a busy machine the first answers take longer than that.
        for _ in 0..2_000 {
            if seen.lock().unwrap().len() >= n_before + 10 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        served.signal("-KILL");
        for client in clients {
            client.join().unwrap();
        }
    }
    let exported = desk.hone("trace export");
    let mut recorded: Vec<&str> = exported.out.lines().filter_map(|line| line.split(r#""id":"chatcmpl-"#).nth(1)).collect();
    recorded.iter_mut().for_each(|rest| *rest = rest.split('"').next().unwrap_or_default());
    let seen = seen.lock().unwrap();
    assert!(seen.len() > 20, "{} answers came", seen.len());
    let lost = seen.iter().filter(|id| !recorded.contains(&id.trim_start_matches("chatcmpl-"))).count();
    assert_eq!(lost, 0, "of {} answers that clients saw whole", seen.len());

    // The canary stands where its record says: every episode of it counts once, and whoever reads the log comes to the same.
    let n_of_canary = exported.out.lines().filter(|line| line.contains(r#""canary":{"#)).count() as u64;
    let status: serde_json::Value = serde_json::from_str(&desk.hone("deploy status desk --json").out).unwrap();
    let numbers = &status["canary"]["report"]["numbers"];
    let n_answered = |arm: &str| numbers[arm]["n_answered"].as_u64().unwrap();
    let decisions = status["canary"]["decisions"].as_array().unwrap();
    if decisions.iter().any(|told| told["decision"]["reason"] == "sample_ratio") {
        return false;
    }
    assert_eq!(n_answered("canary") + n_answered("control"), n_of_canary, "{status}");
    assert!(n_answered("canary") > 0 && n_answered("control") > 0, "{status}");
    let served = Listening::serve(&desk, &provider);
    let told: serde_json::Value = serde_json::from_str(&get(served.port, "/v1/agents/desk")).unwrap();
    assert_eq!(told["canary"]["report"], status["canary"]["report"]);
    drop(served);
    assert_eq!(desk.hone("store verify").code, 0);
    true
}

#[test]
fn the_first_line_names_agents_and_routes() {
    let desk = Desk::new();
    for agent in ["desk v1", "m v1", "elsewhere v1 --tenant other"] {
        assert_eq!(desk.hone(&format!("deploy add {agent} --model m")).code, 0);
    }
    let said = |flags: &str| {
        let line =
            format!("serve --address 127.0.0.1:0 --model m=http://127.0.0.1:1/v1#m --route best=desk,elsewhere,clerk {flags}");
        let mut child = desk.command(&line).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        child.kill().unwrap();
        let complained = child.wait_with_output().unwrap().stderr;
        (first, String::from_utf8(complained).unwrap())
    };
    let (first, complained) = said("");
    assert!(first.ends_with("/v1 answers as m, desk (agent), best (route)\n"), "{first}");
    assert!(complained.contains("route best: there is no agent clerk"), "{complained}");
    assert_eq!(complained.matches("there is no agent").count(), 1, "{complained}");
    let told: serde_json::Value = serde_json::from_str(&said("--json").0).unwrap();
    assert_eq!((&told["agents"], &told["routes"]), (&serde_json::json!(["desk"]), &serde_json::json!(["best"])), "{told}");
}

#[test]
fn a_route_tells_what_each_of_its_agents_alone_would_have_reached() {
    let desk = Desk::new();
    let provider = Listening::provider(&desk);
    for agent in ["desk", "clerk"] {
        assert_eq!(desk.hone(&format!("deploy add {agent} v1 --model m")).code, 0);
    }
    desk.hone("deploy estimate best").expect(2, "", "no episode of a route `best` has an outcome yet");
    let line = format!("serve --address 127.0.0.1:0 --model m=http://127.0.0.1:{}/v1#m --route best=desk,clerk", provider.port);
    let served = Listening::start(&desk, &line);
    for n in 0..60 {
        let asked = r#"{"model":"best","messages":[{"role":"user","content":"hello"}]}"#;
        assert!(post_to(served.port, Some(&format!("e{n}")), asked).contains("choices"));
        let value = n % 2;
        let feedback = format!(r#"{{"episode_id":"e{n}","metric_name":"solved","value":{value}}}"#);
        send(served.port, "/v1/feedback", "", &feedback);
    }
    desk.hone("deploy estimate best --min-effective 5").expect(0, "over 60 episodes; with one agent alone", "");
    let told = desk.hone("deploy estimate best --min-effective 5 --json").out;
    let told: Vec<serde_json::Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.iter().map(|row| row["agent"].as_str().unwrap()).collect::<Vec<_>>(), ["clerk", "desk"]);
    let n_chosen: u64 = told.iter().map(|row| row["chosen"].as_u64().unwrap()).sum();
    assert_eq!((n_chosen, told[0]["reached"]["value"].as_f64()), (60, Some(0.5)));
    assert!(told.iter().all(|row| (row["estimate"]["snips"]["value"].as_f64().unwrap() - 0.5).abs() < 0.4), "{told:?}");
    desk.hone("deploy estimate best --min-effective 1000").expect(0, "clerk", "an estimate needs 1000");
}

#[test]
fn an_answer_may_take_as_long_as_was_said_and_is_asked_for_once() {
    let desk = Desk::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, n_asked) = (silent.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&n_asked);
    // Who is asked holds the connection, and says nothing.
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in silent.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            held.push(stream);
        }
    });
    let line = format!("serve --address 127.0.0.1:0 --max-answer-seconds 2 --model m=http://{address}/v1#m");
    let served = Listening::start(&desk, &line);
    for (n, is_stream) in [false, true].into_iter().enumerate() {
        let body = format!(r#"{{"model":"m","stream":{is_stream},"messages":[{{"role":"user","content":"hello"}}]}}"#);
        let told = send(served.port, "/v1/chat/completions", "", &body);
        assert!(told.contains("not complete within 2 s, the time allowed (--max-answer-seconds)"), "{told}");
        assert_eq!(n_asked.load(Ordering::SeqCst), n as u64 + 1);
    }
}
