//! `hone key`, and `hone serve` where there are keys: who is let in, also where other machines can reach it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::serve::Listening;
use super::{Desk, server};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Where the certificate of the gateway's own tests is.
const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hone-gateway/tests/tls");

/// A key that was just made.
fn add(desk: &Desk, rest: &str) -> String {
    let added = desk.hone(&format!("key add {rest}")).expect(0, "hone-", "it is not shown again");
    added.out.trim().to_owned()
}

/// A request with these further lines in its head: the status and the body.
fn send(port: u16, line: &str, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}content-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn get(port: u16, path: &str, key: &str) -> u16 {
    send(port, &format!("GET {path}"), &format!("authorization: Bearer {key}\r\n"), "").0
}

fn chat(port: u16, key: &str, text: &str) -> u16 {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    send(port, "POST /v1/chat/completions", &format!("authorization: Bearer {key}\r\n"), &body).0
}

/// Waits until a request with this key is answered so; about a second is promised, and the machine may be busy.
fn until(port: u16, key: &str, status: u16) {
    let began = Instant::now();
    while get(port, "/v1/models", key) != status {
        assert!(began.elapsed() < Duration::from_secs(30), "the key is not answered with {status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_key_is_shown_once_and_its_hash_is_kept() {
    let desk = Desk::new();
    desk.hone("key list").expect(0, "", "tenant `default` has no keys");
    desk.hone("key add ci").expect(2, "", "--role");
    desk.hone("key add ci --role owner").expect(2, "", "possible values: report, call, read, admin");
    desk.hone("key add ci --role call --requests-per-minute 0").expect(2, "", "--requests-per-minute");
    let first = add(&desk, "ci --role call --requests-per-minute 30");
    desk.hone("key add ci --role admin").expect(2, "", "tenant `default` has a key `ci`");
    desk.hone("key add ci --role admin --tenant other").expect(2, "", "tenant `default` has a key `ci`");
    desk.hone("key list --tenant other").expect(0, "", "other tenants have 1 live key");
    desk.hone("key revoke ci --tenant other").expect(2, "", "there is no key `ci`");
    let second = desk.hone("key add deputy --role admin --json").json().remove(0);
    let second = second["key"].as_str().unwrap().to_owned();
    assert!(second.len() == first.len() && second != first);
    let listed = desk.hone("key list").expect(0, "ci      call   30 ", "");
    let told = desk.hone("key list --json").json();
    assert_eq!((told[0]["name"].as_str(), told[0]["requests_per_minute"].as_u64()), (Some("ci"), Some(30)));
    assert_eq!((told[1]["role"].as_str(), told[1]["revoked_at"].is_null()), (Some("admin"), true));

    desk.hone("key revoke ci").expect(0, "key `ci` is revoked for ever", "within a second");
    desk.hone("key revoke ci").expect(2, "", "key `ci` is revoked already");
    desk.hone("key revoke nobody").expect(2, "", "there is no key `nobody`");
    let revoked = desk.hone("key list").expect(0, "revoked 20", "");
    let third = add(&desk, "ci --role report");

    // Neither the keys nor what is kept of them come out anywhere, and a back-up has the keys with all else.
    desk.hone("store verify").expect(0, "", "are what was written");
    desk.hone("store backup copy").expect(0, "", "backed up 8 records");
    desk.hone("store restore copy --folder other").expect(0, "", "restored 8 records");
    assert_eq!(desk.hone("key list --folder other").out, desk.hone("key list").out);
    let kept = desk.read("copy/records.jsonl");
    for secret in [&first, &second, &third] {
        let hash = hone_gateway::Token::of(secret).to_hex();
        assert!(kept.contains(&hash) && !kept.contains(secret.as_str()));
        assert!(!listed.out.contains(&hash) && !revoked.out.contains(&hash) && !format!("{told:?}").contains(&hash));
    }
}

#[test]
fn a_running_server_follows_the_keys() {
    let desk = Desk::new();
    let provider = Listening::provider(&desk);
    let served = Listening::serve(&desk, &provider);
    assert_eq!(chat(served.port, "unused", "hello"), 200, "without keys, this machine is let in");
    let call = add(&desk, "app --role call --tenant shop");
    until(served.port, "unused", 401);
    assert_eq!(chat(served.port, &call, "hello"), 200);
    let admin = add(&desk, "boss --role admin");
    until(served.port, &admin, 200);
    let report = add(&desk, "watch --role report");
    until(served.port, &report, 403);
    for (key, path, expected) in [
        (&call, "/v1/agents", 403),
        (&call, "/v1/agents/desk", 403),
        (&call, "/metrics", 200),
        (&report, "/metrics", 200),
        (&report, "/v1/models", 403),
        (&admin, "/v1/agents", 200),
        (&admin, "/openapi.json", 200),
    ] {
        assert_eq!(get(served.port, path, key), expected, "{path}");
    }
    let (status, body) = send(served.port, "POST /v1/chat/completions", "authorization: Bearer hone-0\r\n", "{}");
    assert!(status == 401 && body.contains(r#""code":"invalid_api_key""#), "{body}");
    let (status, body) = send(served.port, "POST /v1/messages", "x-api-key: hone-0\r\n", "{}");
    assert!(status == 401 && body.contains(r#""type":"authentication_error""#) && body.contains(r#""type":"error""#), "{body}");

    // What was said with a key is its tenant's, and nobody else's.
    assert_eq!(chat(served.port, &admin, "secret of the boss"), 200);
    assert_eq!(chat(served.port, &call, "secret of the shop"), 200);
    let (ours, theirs) = (desk.hone("trace export").out, desk.hone("trace export --tenant shop").out);
    assert!(ours.contains("secret of the boss") && !ours.contains("secret of the shop"));
    assert!(theirs.contains("secret of the shop") && !theirs.contains("secret of the boss"));
    let shop: Value = serde_json::from_str(theirs.lines().next().unwrap()).unwrap();
    let feedback = format!(r#"{{"episode_id":{},"metric_name":"good","value":true}}"#, shop["id"]);
    let rate = |key: &str| send(served.port, "POST /v1/feedback", &format!("x-api-key: {key}\r\n"), &feedback).0;
    assert_eq!((rate(&admin), rate(&call)), (404, 200));

    desk.hone("key revoke app --tenant shop").expect(0, "is revoked for ever", "within a second");
    until(served.port, &call, 401);
    assert_eq!(chat(served.port, &call, "still there?"), 401);
    desk.hone("key revoke boss").expect(0, "revoked", "within");
    desk.hone("key revoke watch").expect(0, "revoked", "within");
    until(served.port, &report, 401);
    assert_eq!(chat(served.port, "unused", "open again?"), 401, "a server that has asked for keys does not open again");
    drop(served);
    assert_eq!(desk.hone("store verify").code, 0);
}

#[test]
fn a_key_asks_as_often_as_it_may() {
    let desk = Desk::new();
    let provider = Listening::provider(&desk);
    let (own, other) = (add(&desk, "own --role call --requests-per-minute 2"), add(&desk, "other --role call"));
    let line = format!("serve --requests-per-minute 3 --address 127.0.0.1:0 --model m=http://127.0.0.1:{}/v1#m", provider.port);
    let served = Listening::start(&desk, &line);
    assert_eq!([(); 3].map(|()| get(served.port, "/v1/models", &own)), [200, 200, 429]);
    assert_eq!([(); 4].map(|()| get(served.port, "/v1/models", &other)), [200, 200, 200, 429]);
}

#[test]
fn what_other_machines_could_reach_needs_a_key_and_tls() {
    let desk = Desk::with(&[("empty.pem", ""), ("toml", "[serve]\nhosts = ['a:1']\n")]);
    for name in ["server.pem", "server.key.pem", "other.key.pem"] {
        std::fs::copy(format!("{TLS}/{name}"), desk.path(name)).unwrap();
    }
    let serve = |rest: &str| desk.hone(&format!("serve --model m=http://127.0.0.1:1/v1#m {rest}"));
    let (out, tls) = ("--address 0.0.0.0:0 --host hone.test", "--tls-cert server.pem --tls-key server.key.pem");
    serve(out).expect(2, "", "keys would cross the wire in the open");
    serve(&format!("{out} {tls}")).expect(2, "", "from other machines, and there is no key");
    serve(&format!("{out} --behind-tls-proxy")).expect(2, "", "there is no key");
    add(&desk, "one --role call");
    serve(&format!("--address 0.0.0.0:0 {tls}")).expect(2, "", "no host name is given");
    serve(&format!("{out} {tls} --behind-tls-proxy")).expect(2, "", "cannot be used with");
    serve("--behind-tls-proxy").expect(2, "", "127.0.0.1:8321 is none");
    serve("--host https://hone.test").expect(2, "", "`https://hone.test` is not a host name");
    serve("--config toml").expect(2, "", "`a:1` is not a host name");
    serve("--tls-cert server.pem").expect(2, "", "--tls-key");
    serve("--tls-key server.key.pem").expect(2, "", "--tls-cert");
    for (cert, key, complaint) in [
        ("nowhere.pem", "server.key.pem", "nowhere.pem: No such file"),
        ("server.pem", "nowhere.pem", "nowhere.pem: No such file"),
        ("empty.pem", "server.key.pem", "empty.pem: there is no certificate in it"),
        ("server.key.pem", "server.pem", "server.key.pem: there is no certificate in it"),
        ("server.pem", "empty.pem", "empty.pem: there is no private key in it"),
        ("server.pem", "other.key.pem", "other.key.pem: it is not the private key of the certificate"),
    ] {
        serve(&format!("--tls-cert {cert} --tls-key {key}")).expect(2, "", complaint);
    }
    desk.hone("key revoke one").expect(0, "revoked", "within");
    serve(&format!("{out} {tls}")).expect(2, "", "there is no key");
}

#[test]
fn a_server_with_tls_answers_who_has_a_key_under_the_names_it_is_known_by() {
    let desk = Desk::new();
    let provider = Listening::provider(&desk);
    let key = add(&desk, "far --role call");
    let line = format!(
        "serve --address 0.0.0.0:0 --host hone.test --tls-cert {TLS}/server.pem --tls-key {TLS}/server.key.pem \
         --model m=http://127.0.0.1:{}/v1#m",
        provider.port
    );
    let served = Listening::start(&desk, &line);
    let url = format!("https://127.0.0.1:{}/v1/models", served.port);
    let certificate = reqwest::Certificate::from_pem(&std::fs::read(format!("{TLS}/server.pem")).unwrap()).unwrap();
    let client = reqwest::Client::builder().no_proxy().add_root_certificate(certificate).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ask = |key: &str, host: &str| {
        let request = client.get(&url).bearer_auth(key).header("host", host);
        runtime.block_on(async { request.send().await.unwrap().status().as_u16() })
    };
    assert_eq!((ask(&key, "hone.test"), ask(&key, "HONE.test:443"), ask(&key, "127.0.0.1")), (200, 200, 200));
    assert_eq!((ask("hone-0", "hone.test"), ask(&key, "evil.example")), (401, 421));
}

#[test]
fn the_first_line_says_whether_keys_are_needed() {
    let desk = Desk::new();
    let first = |flags: &str| {
        let line = format!("serve --address 127.0.0.1:0 --model m=http://127.0.0.1:1/v1#m {flags}");
        let mut child = desk.command(&line).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        first
    };
    assert!(first("").ends_with("/v1 answers as m\n"));
    add(&desk, "one --role call");
    add(&desk, "two --role call --tenant other");
    let said = first("");
    assert!(said.starts_with("http://") && said.ends_with("/v1 answers as m to who has a key (2 keys)\n"), "{said}");
    let told: Value =
        serde_json::from_str(&first(&format!("--json --tls-cert {TLS}/server.pem --tls-key {TLS}/server.key.pem"))).unwrap();
    assert!(told["keys"] == 2 && told["url"].as_str().unwrap().starts_with("https://"), "{told}");
}

/// V10 of the security page: a template in a request was run.
#[test]
fn no_request_brings_a_template_along() {
    let desk = Desk::new();
    assert_eq!(desk.hone("model add tiny:d32,l1,h2,kv1,ff48,v320,ctx256 --name small").code, 0);
    let served = Listening::start(&desk, "serve --address 127.0.0.1:0 --model m=local:small --context 256 --threads 1");
    let said = |further: &str| {
        let body = format!(r#"{{"model":"m","max_tokens":8,"seed":3,"messages":[{{"role":"user","content":"hi"}}]{further}}}"#);
        let (status, body) = send(served.port, "POST /v1/chat/completions", "", &body);
        let told: Value = serde_json::from_str(&body).unwrap();
        (status, told["usage"]["prompt_tokens"].as_u64(), told["choices"][0]["message"]["content"].as_str().map(str::to_owned))
    };
    let template = r#"{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}"#;
    let (bare, with) = (said(""), said(&format!(r#","chat_template":"{template}","chat_template_kwargs":{{"x":"{template}"}}"#)));
    assert!(bare.0 == 200 && (with == bare || with.0 == 400), "{bare:?} {with:?}");
}

#[test]
fn keys_are_kept_on_postgres_as_well() {
    let Some(url) = server() else {
        println!("skipped: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)");
        return;
    };
    let desk = Desk::new();
    // Other tests may use the same database: this one works on a tenant and under a name of its own.
    let tenant = desk.folder.path().file_name().unwrap().to_string_lossy().into_owned();
    let desk = desk.set("HONE_DATABASE_URL", &url).set("HONE_STORE_TENANT", &tenant);
    let key = add(&desk, &format!("{tenant} --role call"));
    desk.hone(&format!("key add {tenant} --role call")).expect(2, "", "has a key");
    desk.hone("key list --json").expect(0, &tenant, "");
    let provider = Listening::provider(&desk);
    let served = Listening::serve(&desk, &provider);
    assert_eq!((chat(served.port, &key, "hello"), chat(served.port, "hone-0", "hello")), (200, 401));
    desk.hone(&format!("key revoke {tenant}")).expect(0, "is revoked for ever", "within a second");
    until(served.port, &key, 401);
}

#[test]
fn a_damaged_key_opens_nothing_and_keeps_nobody_out() {
    let desk = Desk::new();
    let (broken, good) = (add(&desk, "broken --role admin"), add(&desk, "good --role call"));
    let damage = |name: &str| {
        let database = rusqlite::Connection::open(desk.path(".hone/hone.db")).unwrap();
        database.execute("UPDATE documents SET body = '{' WHERE kind = 'key' AND id = ?1", [name]).unwrap();
    };
    damage("broken");
    let says = "the key `broken` in the store cannot be read and opens nothing";
    desk.hone("key list").expect(0, "good", says);
    let provider = Listening::provider(&desk);
    let served = Listening::serve(&desk, &provider);
    assert_eq!((get(served.port, "/v1/models", &good), get(served.port, "/v1/models", &broken)), (200, 401));
    drop(served);
    damage("good");
    desk.hone("serve --address 127.0.0.1:0 --model m=http://127.0.0.1:1/v1#m").expect(
        2,
        "",
        "no key can be read, so nobody would be let in",
    );
}
