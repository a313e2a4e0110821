//! Traces in and out of a SQLite store, by the real binary.

use super::Desk;
use hone_store::{Options, Place};
use hone_trace::store::{Put, Write};
use hone_trace::{Message, NextTurn, Role, Time, Turn, V1};

const CHAT: &str = r#"{"messages":[{"role":"system","content":"You are a desk agent."},{"role":"user","content":"Where is order 7?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"find_order","arguments":"{\"id\":7}"}}]},{"role":"tool","tool_call_id":"c1","content":"shipped"},{"role":"assistant","content":"It is on its way."}]}
{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}
"#;

const ART: &str = r#"{"trajectories":[{"messages_and_choices":[{"role":"user","content":"2+2?"},{"finish_reason":"stop","index":0,"logprobs":null,"message":{"role":"assistant","content":"4"}}],"reward":1.0,"metrics":{"ok":true},"metadata":{"customer":"acme"}},{"messages_and_choices":[{"role":"user","content":"2+2?"},{"finish_reason":"stop","index":0,"logprobs":null,"message":{"role":"assistant","content":"5"}}],"reward":0.0,"metrics":{"ok":false},"metadata":{"customer":"acme"}}]}
"#;

const OTLP: &str = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"chat m","startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000001000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.conversation.id","value":{"stringValue":"c-1"}},{"key":"gen_ai.request.model","value":{"stringValue":"m"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"12"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":"3"}},{"key":"gen_ai.input.messages","value":{"stringValue":"[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"Hi\"}]}]"}},{"key":"gen_ai.output.messages","value":{"stringValue":"[{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"content\":\"Hello\"}],\"finish_reason\":\"stop\"}]"}}]}]}]}]}
"#;

fn ids(desk: &Desk, line: &str) -> Vec<String> {
    desk.hone(line).json().iter().map(|head| head["id"].as_str().expect("a head has an id").to_owned()).collect()
}

#[test]
fn every_format_is_recognised_and_importing_twice_is_importing_once() {
    let files = [("chat.jsonl", CHAT, 2, "openai"), ("art.jsonl", ART, 2, "art"), ("spans.jsonl", OTLP, 1, "otlp")];
    for (name, text, n_traces, format) in files {
        let desk = Desk::with(&[(name, text)]);
        let counts = |new, same| format!("{new} new, {same} already there, 0 conflicting, 0 bad");
        desk.hone(&format!("trace import {name}")).expect(0, "", &counts(n_traces, 0));
        desk.hone(&format!("trace import {name}")).expect(0, "", &counts(0, n_traces));
        desk.hone(&format!("trace import {name} --quiet")).expect(0, "", "");
        let summary = &desk.hone(&format!("trace import {name} --json")).expect(0, "{", "").json()[0];
        assert_eq!((&summary["same"], &summary["new"]), (&n_traces.into(), &0.into()));
        assert_eq!(summary["files"][0]["format"], format);
        // Our own format gives everything back, into another store.
        desk.hone("trace export -o all.jsonl").expect(
            0,
            "",
            "traces in all.jsonl".trim_start_matches(if n_traces == 1 { "traces" } else { "" }),
        );
        desk.hone("trace import all.jsonl --folder other").expect(0, "", &counts(n_traces, 0));
        desk.hone("trace export --folder other -o again.jsonl");
        assert_eq!(sorted(&desk.read("all.jsonl")), sorted(&desk.read("again.jsonl")), "{format}");
        assert!(!desk.path("all.jsonl.partial").exists());
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn bad_lines_are_named_and_good_ones_kept() {
    let bad = format!("{CHAT}not json\n\n{{\"messages\":[{{\"role\":\"narrator\"}}]}}\n");
    let desk = Desk::with(&[("chat.jsonl", &bad)]);
    let ended = desk.hone("trace import chat.jsonl").expect(1, "", "chat.jsonl:3: ").expect(
        1,
        "",
        "2 new, 0 already there, 0 conflicting, 2 bad",
    );
    assert!(ended.err.contains("chat.jsonl:5: messages[0].role: "), "{}", ended.err);
    let summary = desk.hone("trace import chat.jsonl --json").json().remove(0);
    assert_eq!((&summary["bad"], &summary["same"]), (&2.into(), &2.into()));
    assert_eq!((&summary["bad_lines"][1]["file"], &summary["bad_lines"][1]["line"]), (&"chat.jsonl".into(), &5.into()));
}

#[test]
fn only_the_first_bad_lines_are_told() {
    let desk = Desk::with(&[("chat.jsonl", &format!("{CHAT}{}", "x\n".repeat(1500)))]);
    let ended = desk.hone("trace import chat.jsonl").expect(1, "", "… and 1480 more bad lines");
    assert_eq!(ended.err.lines().filter(|line| line.starts_with("chat.jsonl:")).count(), 20);
    let summary = desk.hone("trace import chat.jsonl --json").json().remove(0);
    assert_eq!((summary["bad"].as_u64(), summary["bad_lines"].as_array().unwrap().len()), (Some(1500), 1000));
}

#[test]
fn strict_writes_all_or_nothing() {
    let bad = format!("{CHAT}not json\n");
    let desk = Desk::with(&[("good.jsonl", CHAT), ("bad.jsonl", &bad)]);
    desk.hone("trace import --strict good.jsonl bad.jsonl").expect(1, "", "1 bad line: nothing was written");
    desk.hone_reading("trace import --strict -", bad.as_bytes()).expect(1, "", "stdin:3: ");
    assert!(!desk.path(".hone").exists());
    desk.hone("trace import --strict good.jsonl").expect(0, "", "2 new");
    desk.hone_reading("trace import --strict -", ART.as_bytes()).expect(0, "", "2 new");
    desk.hone_reading("trace import -", OTLP.as_bytes()).expect(0, "", "1 new");
}

#[test]
fn odd_files_are_understood_or_refused_with_a_reason() {
    let one = r#"{"messages":[{"role":"user","content":"Hi"}]}"#;
    for (name, bytes, code, err) in [
        ("empty", Vec::new(), 0, "0 new, 0 already there, 0 conflicting, 0 bad"),
        ("blank", b"\n \r\n\n".to_vec(), 0, "0 new"),
        ("no line break at the end", one.as_bytes().to_vec(), 0, "1 new"),
        ("CRLF", format!("{one}\r\n\r\n").into_bytes(), 0, "1 new"),
        ("BOM", format!("\u{feff}{one}\n").into_bytes(), 0, "1 new"),
        ("not UTF-8", [one.as_bytes(), b"\n{\"messages\":\"\xff\"}\n"].concat(), 1, "file:2: this is not UTF-8 (column 14)"),
        ("no format", b"a,b,c\n1,2,3\n".to_vec(), 1, "file:1: this is none of the formats"),
        ("UTF-16", b"\xff\xfe{\0}\0\n\0".to_vec(), 1, "file:1: this is none of the formats"),
        ("escapes", b"\x1b[31mred\n".to_vec(), 1, "file:1: this is none"),
    ] {
        let desk = Desk::new();
        std::fs::write(desk.path("file"), bytes).unwrap();
        let ended = desk.hone("trace import file").expect(code, "", err);
        assert!(!ended.err.contains('\u{1b}'), "{name}: {}", ended.err);
    }
    let desk = Desk::with(&[("chat.jsonl", CHAT)]);
    desk.hone("trace import chat.jsonl nowhere").expect(2, "", "error: nowhere: No such file");
    desk.hone("trace import chat.jsonl .").expect(2, "", "error: . is a folder");
    assert!(!desk.path(".hone").exists(), "nothing is written when a file cannot be read");
}

#[test]
fn an_id_with_other_content_is_a_conflict() {
    let desk = Desk::with(&[("art.jsonl", ART)]);
    desk.hone("trace import art.jsonl").expect(0, "", "2 new");
    desk.hone("trace export -o all.jsonl");
    let changed = desk.read("all.jsonl").replace("acme", "other");
    std::fs::write(desk.path("changed.jsonl"), changed).unwrap();
    desk.hone("trace import changed.jsonl").expect(1, "", "0 new, 0 already there, 2 conflicting, 0 bad").expect(
        1,
        "",
        "is already there with other content",
    );
    desk.hone("trace import art.jsonl --category sums").expect(1, "", "2 conflicting");
}

#[test]
fn lists_are_filtered_and_paged() {
    let desk = Desk::with(&[("chat.jsonl", CHAT), ("art.jsonl", ART), ("spans.jsonl", OTLP)]);
    desk.hone("trace import chat.jsonl --category desk").expect(0, "", "2 new");
    desk.hone("trace import art.jsonl --category sums --tenant acme").expect(0, "", "2 new");
    desk.hone("trace import spans.jsonl").expect(0, "", "1 new");
    for (filter, n_traces) in [
        ("", 3),
        ("--all-tenants", 5),
        ("--category desk", 2),
        ("--category sums", 0),
        ("--category sums --tenant acme", 2),
        ("--reward-min 0.5 --all-tenants", 1),
        ("--reward-max 0.5 --all-tenants", 1),
        ("--outcome success", 0),
        ("--until 2023-11-15", 1),
        ("--since 2023-11-15", 2),
        ("--field metadata.customer=acme --all-tenants", 2),
        ("--field metadata.customer=acme", 0),
    ] {
        assert_eq!(ids(&desk, &format!("trace list --json {filter}")).len(), n_traces, "{filter}");
        let exported = desk.hone(&format!("trace export {filter}"));
        assert_eq!(exported.json().len(), n_traces, "{filter}");
    }
    let all = ids(&desk, "trace list --json --all-tenants");
    let first = desk.hone("trace list --json --all-tenants --limit 2").expect(0, "{", "more with --after ");
    let cursor = first.err.trim().rsplit(' ').next().unwrap().to_owned();
    let rest = ids(&desk, &format!("trace list --json --all-tenants --after {cursor}"));
    assert_eq!([ids(&desk, "trace list --json --all-tenants --limit 2"), rest].concat(), all);
    desk.hone("trace list --category none").expect(0, "", "no trace fits");
    desk.hone("trace list --category desk").expect(0, "category", "");
    desk.hone("trace list --plan --category desk").expect(0, "INDEX", "");
    desk.hone("trace list --plan --json").expect(0, "{\"plan\":", "");
}

#[test]
fn a_trace_is_shown_from_its_first_message_to_its_reward() {
    let escape = r#"{"messages":[{"role":"user","content":"a\u001b[2Jb\u202ec"},{"role":"assistant","content":"x"}]}"#;
    let desk = Desk::with(&[("chat.jsonl", CHAT), ("art.jsonl", ART), ("escape.jsonl", escape)]);
    desk.hone("trace import chat.jsonl").expect(0, "", "2 new");
    let ids_of = |filter: &str| ids(&desk, &format!("trace list --json {filter}"));
    let chat = ids_of("").pop().unwrap();
    for words in [
        "trace ",
        "system\n    You are a desk agent.",
        "calls find_order({\"id\":7})",
        "\nturn 1\n  system\n",
        "\nturn 2\n  tool (to c1)\n    shipped",
        "2 turns",
    ] {
        desk.hone(&format!("trace show {chat}")).expect(0, words, "");
    }
    desk.hone("trace import art.jsonl").expect(0, "", "2 new");
    let scored = ids_of("--reward-min 0.5").pop().unwrap();
    desk.hone(&format!("trace show {scored}")).expect(0, "reward 1 by import art", "").expect(0, "{\"customer\":\"acme\"}", "");
    let record = desk.hone(&format!("trace show {scored} --json")).json().remove(0);
    assert_eq!((&record["v"], &record["id"]), (&1.into(), &scored.as_str().into()));
    desk.hone("trace import escape.jsonl --category escape").expect(0, "", "1 new");
    let escape = ids_of("--category escape").pop().unwrap();
    for line in [format!("trace show {escape}"), format!("trace show {escape} --json"), "trace export".to_owned()] {
        let ended = desk.hone(&line);
        assert!(!ended.out.contains(['\u{1b}', '\u{202e}']), "{}", ended.out);
    }
    desk.hone(&format!("trace show {escape}")).expect(0, "a\\u{1b}[2Jb\\u{202e}c", "");
    desk.hone("trace show 01890000-0000-7000-8000-000000000000").expect(1, "", "there is no trace 01890000");
}

#[test]
fn what_formats_note_for_themselves_is_in_the_record_and_not_shown() {
    let desk = Desk::with(&[("spans.jsonl", OTLP)]);
    desk.hone("trace import spans.jsonl").expect(0, "", "1 new");
    let id = ids(&desk, "trace list --json").remove(0);
    let shown = desk.hone(&format!("trace show {id}")).expect(0, "Hello", "").out;
    assert!(shown.contains("conversation_id") && !shown.contains("hone."), "{shown}");
    desk.hone(&format!("trace show {id} --json")).expect(0, "hone.places", "");
}

#[test]
fn a_turn_that_came_later_is_seen_at_once() {
    let desk = Desk::with(&[("chat.jsonl", CHAT)]);
    desk.hone("trace import chat.jsonl --category chat").expect(0, "", "2 new");
    let id = ids(&desk, "trace list --json").remove(0);
    let n_turns = || desk.hone("trace list --json").json()[0]["n_turns"].as_u64().unwrap();
    let n_before = n_turns();
    let turn = Turn::new(vec![Message::text(Role::User, "And order 8?")], Message::text(Role::Assistant, "It is lost."));
    let (turn_idx, ended) = (u32::try_from(n_before).unwrap(), Time::from_unix_nanos(0));
    let next = NextTurn { v: V1, turn_idx, segment: None, turn, ended };
    let puts = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let place = Place::Folder(desk.path(".hone"));
        let store = hone_store::open(&place, &Options::default()).await.unwrap();
        store.put(vec![Write::Turn(id.parse().unwrap(), Box::new(next))]).await.unwrap()
    });
    assert_eq!((puts, n_turns()), (vec![Put::New], n_before + 1));
    for line in [format!("trace show {id}"), "trace export".to_owned(), "trace export --format openai".to_owned()] {
        let out = desk.hone(&line).out;
        assert!(out.contains("And order 8?") && out.contains("It is lost."), "hone {line}\n{out}");
    }
    desk.hone("store info").expect(0, "turns      4\n", "");
}

#[test]
fn an_imported_episode_is_found_by_the_name_that_its_client_gave_it() {
    let line = |told: &str| format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"Hi\"}}],{told}}}\n");
    let lines = line("\"metadata\":{\"episode_name\":\"ticket-1\"}") + &line("\"episode_name\":\"ticket-2\"");
    let desk = Desk::with(&[("chat.jsonl", &lines)]);
    desk.hone("trace import chat.jsonl").expect(0, "", "2 new");
    for name in ["ticket-1", "ticket-2"] {
        desk.hone(&format!("trace show {name}")).expect(0, &format!("\"episode_name\":\"{name}\""), "");
    }
    desk.hone("trace show ticket-3").expect(1, "", "there is no trace ticket-3");
}

#[test]
fn what_a_format_cannot_hold_is_said() {
    let desk = Desk::with(&[("art.jsonl", ART), ("chat.jsonl", CHAT)]);
    desk.hone("trace import art.jsonl chat.jsonl").expect(0, "", "4 new");
    let art = desk.hone("trace export --format art");
    assert_eq!(art.json().iter().filter(|line| line["trajectories"].as_array().is_some_and(|all| all.len() == 2)).count(), 1);
    assert_eq!(art.json().len(), 3);
    desk.hone("trace export --format openai").expect(
        0,
        "{\"messages\":",
        "left out for 2 traces: who gave the reward, which the format openai cannot hold",
    );
    desk.hone("trace export --format openai -o out.jsonl --json").expect(0, "\"left_out\":{", "left out");
    assert_eq!(desk.read("out.jsonl").lines().count(), 4);
    desk.hone("trace export -o .").expect(2, "", "error: . is a folder");
}

/// A file that were moved to `/dev/null` would take its place, for everybody on the machine.
#[test]
fn a_device_or_a_pipe_is_written_to_as_it_stands() {
    let desk = Desk::with(&[("chat.jsonl", CHAT)]);
    desk.hone("trace import chat.jsonl").expect(0, "", "2 new");
    let pipe = desk.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    desk.hone("trace export -o pipe").expect(0, "", "2 traces in pipe");
    assert_eq!(reader.join().unwrap().lines().count(), 2);
    assert!(!std::fs::metadata(&pipe).unwrap().is_file() && !desk.path("pipe.partial").exists());
}

#[test]
fn a_trace_of_another_tenant_is_refused_and_two_tenants_may_play_the_same() {
    let desk = Desk::new();
    let play = "rollout --env desk --policy gold -n 2 --samples 1 --quiet";
    desk.hone(play).expect(0, "2 traces", "");
    desk.hone(&format!("{play} --tenant acme")).expect(0, "2 traces", "");
    assert_eq!(desk.hone("trace list --tenant acme --json").json().len(), 2);
    desk.hone("trace export -o own.jsonl").expect(0, "", "2 traces in own.jsonl");
    let says = "this is a trace of the tenant default, and acme imports: take it with --tenant default";
    desk.hone("trace import own.jsonl --tenant acme").expect(1, "", says);
    assert_eq!(desk.hone("trace list --tenant acme --json").json().len(), 2);
}

#[test]
fn words_of_feedback_are_shown_with_the_trace() {
    let desk = Desk::with(&[(
        "chat.jsonl",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Ho\"}]}\n",
    )]);
    desk.hone("trace import chat.jsonl").expect(0, "", "1 new");
    let id = desk.hone("trace list --json").json()[0]["id"].as_str().unwrap().to_owned();
    let database = rusqlite::Connection::open(desk.path(".hone/hone.db")).unwrap();
    for (n, kind, turn) in [(1_u8, "comment", "0"), (2, "demonstration", "null")] {
        let body = format!(r#"{{"by":"ann","trace":"{id}","turn_idx":{turn},"words":"said {n}"}}"#);
        let sql =
            "INSERT INTO events (id, at, tenant, stream, kind, hash, body) VALUES (?1, 0, 'default', ?2, ?3, zeroblob(16), ?4)";
        database.execute(sql, rusqlite::params![[n; 16], format!("feedback:{id}"), kind, body]).unwrap();
    }
    drop(database);
    let shown = desk.hone(&format!("trace show {id}")).expect(0, "  comment by ann at 1970", "").out;
    assert!(
        shown.contains("said 1") && shown.contains("\nfeedback\n  demonstration by ann") && shown.contains("said 2"),
        "{shown}"
    );
    let told = &desk.hone(&format!("trace show {id} --json")).json()[0];
    assert_eq!(
        (told["feedback"][0]["words"].as_str(), told["feedback"][1]["kind"].as_str()),
        (Some("said 1"), Some("demonstration"))
    );
    assert_eq!(told["id"].as_str(), Some(id.as_str()));
}
