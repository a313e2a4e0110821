//! The same commands on PostgreSQL, where the run of the tests has a server.

use super::{Desk, server};

#[test]
fn traces_go_in_and_come_out() {
    let Some(url) = server() else {
        println!("skipped: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)");
        return;
    };
    let chat = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"customer\":\"acme\"}\nnot json\n";
    let desk = Desk::with(&[("chat.jsonl", chat)]);
    // Other tests may use the same database: this one works on a tenant of its own.
    let tenant = desk.folder.path().file_name().unwrap().to_string_lossy().into_owned();
    let desk = desk.set("HONE_DATABASE_URL", &url).set("HONE_STORE_TENANT", &tenant);
    desk.hone("trace import chat.jsonl").expect(1, "", "1 new, 0 already there, 0 conflicting, 1 bad");
    desk.hone("trace import chat.jsonl").expect(1, "", "0 new, 1 already there, 0 conflicting, 1 bad");
    desk.hone("trace list --json --field metadata.customer=acme").expect(0, &tenant, "");
    desk.hone("trace list --field metadata.customer=other").expect(0, "", "no trace fits");
    desk.hone("trace list --plan").expect(0, "Scan", "");
    desk.hone("trace export").expect(0, "\"Hi\"", "1 trace");
    desk.hone("doctor").expect(0, "PostgreSQL", "hone can work here");
    desk.hone("store info").expect(0, "PostgreSQL", "");
    assert!(!desk.path(".hone").exists());
}

#[test]
fn a_server_that_may_only_read_does_not_start() {
    let Some(url) = server() else {
        println!("skipped: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)");
        return;
    };
    let desk = Desk::new().set("HONE_DATABASE_URL", &url);
    desk.hone("store info").expect(0, "PostgreSQL", "");
    let sign = if url.contains('?') { '&' } else { '?' };
    let only_read = format!("{sign}options=-cdefault_transaction_read_only%3Don");
    let desk = desk.set("HONE_DATABASE_URL", &format!("{url}{only_read}"));
    desk.hone("serve --address 127.0.0.1:0").expect(2, "", "its role needs the right to");
}
