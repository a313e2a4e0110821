//! `hone doctor`: what it says of this machine, whatever machine this is.

use super::Desk;

#[test]
fn every_part_has_a_verdict() {
    let desk = Desk::new();
    let ended = desk.hone("doctor --json").expect(0, "\"works\":true", "");
    let report = &ended.json()[0];
    let parts: Vec<&str> = report["parts"].as_array().unwrap().iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!(parts, ["cores", "instructions", "memory", "gpu", "database", "disk"]);
    desk.hone("doctor").expect(0, "not there yet, the first import makes it", "hone can work here");
}

#[test]
fn the_store_is_opened_when_it_is_there() {
    let desk = Desk::with(&[("chat.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}\n")]);
    desk.hone("trace import chat.jsonl").expect(0, "", "1 new");
    desk.hone("doctor").expect(0, "holds 1 trace\n", "hone can work here");
    let parts = desk.hone("doctor --json").json()[0]["parts"].clone();
    assert_eq!(parts[4]["records"]["traces"], 1);
}

#[test]
fn a_database_that_does_not_answer_is_a_clear_no() {
    let desk = Desk::new();
    desk.hone("doctor --database-url postgres://user:canary@127.0.0.1:1/db").expect(1, "missing  database", "cannot work here");
}

#[test]
fn a_gpu_that_is_asked_for_and_not_there_is_a_clear_no() {
    if std::path::Path::new("/dev/nvidia0").exists() {
        println!("skipped: this machine has a GPU");
        return;
    }
    let desk = Desk::with(&[("hone.toml", "[model]\ndevice = \"cuda\"\n")]);
    desk.hone("doctor").expect(1, "`model.device` is cuda", "hone cannot work here");
    desk.hone("doctor --device auto").expect(0, "hone works on the CPU", "hone can work here");
}
