//! Streams, exit codes and what happens when nobody listens.

use super::Desk;
use std::io::{BufRead, BufReader};

#[test]
fn help_and_version_are_data_and_mistakes_are_not() {
    let desk = Desk::new();
    for (line, code, out, err) in [
        ("--version", 0, "hone 0.1.0", ""),
        ("--help", 0, "served by the new adapter", ""),
        ("trace import --help", 0, "Read traces from files into the store", ""),
        ("trac", 2, "", "unrecognized subcommand"),
        ("trace list --limit 0", 2, "", "--limit"),
        ("trace list --since yesterday", 2, "", "is not a time"),
        ("trace list --reward-min NaN", 2, "", "finite"),
        ("trace list --field customer", 2, "", "metadata.customer=acme"),
        ("trace list --all-tenants --tenant x", 2, "", "cannot be used with"),
        ("trace show 7", 1, "", "there is no trace 7"),
        ("trace import", 2, "", "required"),
        ("trace import x --format csv", 2, "", "possible values: auto, hone, openai, art, otlp"),
    ] {
        desk.hone(line).expect(code, out, err);
    }
}

#[test]
fn a_look_around_leaves_nothing_behind() {
    let desk = Desk::new();
    // Who works on records needs some.
    for line in ["trace export", "data gate", "reward alarms", "store verify"] {
        desk.hone(line).expect(2, "", "error: there are no records in ").expect(2, "", "\n\nhint: import some with");
    }
    let id = "01890000-0000-7000-8000-000000000000";
    desk.hone(&format!("trace show {id}")).expect(1, "", &format!("there is no trace {id}, and there are no records in "));
    for (line, says) in [
        ("trace list", "there are no records in "),
        ("trace list --json", "yet: import some with `hone trace import FILE`"),
        ("trace list --plan", "there are no records in "),
        ("train list", "no run is recorded here yet"),
        ("train list --json", "no run is recorded here yet"),
        ("key list", "tenant `default` has no keys"),
        ("key list --json", "tenant `default` has no keys"),
        ("deploy status", "there are no agents yet"),
        ("deploy status --json", "there are no agents yet"),
        ("store info", "there are no records in "),
        ("store info --json", "there are no records in "),
        ("model list", "no model was added yet"),
        ("model list --json", "no model was added yet"),
    ] {
        desk.hone(line).expect(0, "", says);
    }
    desk.hone("doctor --quiet");
    assert_eq!(std::fs::read_dir(desk.folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_is_no_folder() {
    let desk = Desk::with(&[("notes.txt", "hello\n")]);
    for line in ["key list", "trace list", "trace import notes.txt", "model list"] {
        desk.hone(&format!("{line} --folder notes.txt")).expect(2, "", "--folder: `store.folder`: ").expect(
            2,
            "",
            "notes.txt is not a folder",
        );
    }
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    let lines: String = (0..3000).map(|n| format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{n}\"}}]}}\n")).collect();
    let desk = Desk::with(&[("chat.jsonl", &lines)]);
    desk.hone("trace import chat.jsonl").expect(0, "", "3000 new");
    for line in ["trace export", "trace list --limit 3000 --json", "trace list --limit 3000"] {
        let mut child = desk.command(line).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""), "{line}");
    }
}
