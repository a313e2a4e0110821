//! TLS, with a client that trusts the certificate of this test.

use crate::world::World;
use hone_gateway::{Limits, Tls, TlsError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CERTIFICATE: &[u8] = include_bytes!("../tls/server.pem");
const KEY: &[u8] = include_bytes!("../tls/server.key.pem");
const OTHER_KEY: &[u8] = include_bytes!("../tls/other.key.pem");

async fn encrypted(limits: Limits) -> World {
    World::encrypted(Tls::new(CERTIFICATE, KEY).unwrap(), CERTIFICATE, limits).await
}

#[tokio::test]
async fn answers_come_through_and_are_recorded() {
    let world = encrypted(Limits::default()).await;
    let told = world.chat("well", &[("user", "hi")], &[]).await;
    assert_eq!(told.status, 200, "{}", told.body);
    world.trace_of(1).await;
    let streamed = serde_json::json!({"model": "well", "stream": true, "messages": [{"role": "user", "content": "on"}]});
    assert!(world.post("/v1/chat/completions", &streamed, &[]).await.body.contains("[DONE]"));
}

#[tokio::test]
async fn nobody_else_is_trusted_and_nothing_is_said_in_the_open() {
    let world = encrypted(Limits::default()).await;
    let stranger = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(stranger.get(format!("{}/healthz", world.url)).send().await.is_err(), "the certificate is not one that is known");
    let mut stream = TcpStream::connect(world.url.trim_start_matches("https://")).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1 200"));
}

#[tokio::test]
async fn who_does_not_agree_in_time_is_closed_and_nobody_waits_for_it() {
    let mut world = encrypted(Limits { head_ms: 300, ..Limits::default() }).await;
    let address = world.url.trim_start_matches("https://").to_owned();
    let began = Instant::now();
    let mut silent = TcpStream::connect(&address).await.unwrap();
    assert_eq!(world.get("/healthz", &[]).await.status, 200, "others are served meanwhile");
    let n_read = tokio::time::timeout(Duration::from_secs(10), silent.read(&mut [0; 16])).await.unwrap().unwrap_or(0);
    assert!(n_read == 0 && began.elapsed() >= Duration::from_millis(250), "{n_read} bytes after {:?}", began.elapsed());

    let mut world_of_patience = encrypted(Limits { head_ms: 60_000, ..Limits::default() }).await;
    let mut silent = TcpStream::connect(world_of_patience.url.trim_start_matches("https://")).await.unwrap();
    assert_eq!(world_of_patience.get("/healthz", &[]).await.status, 200);
    world_of_patience.stop();
    let closed = tokio::time::timeout(Duration::from_secs(10), silent.read(&mut [0; 16])).await;
    assert!(closed.is_ok(), "a server that stops does not wait for a handshake");
    world.stop();
}

#[test]
fn what_is_wrong_with_the_texts_is_said_without_quoting_them() {
    let check = |certificate: &[u8], key: &[u8], expected: TlsError| {
        let error = Tls::new(certificate, key).err().unwrap();
        assert_eq!(error, expected);
        let secret = std::str::from_utf8(KEY).unwrap().lines().nth(1).unwrap();
        assert!(!format!("{error} {error:?}").contains(&secret[..16]));
    };
    let broken = |pem: &[u8]| String::from_utf8(pem.to_vec()).unwrap().replacen("\nM", "\n*M", 1).into_bytes();
    check(b"", KEY, TlsError::NoCertificate);
    check(KEY, KEY, TlsError::NoCertificate);
    check(&broken(CERTIFICATE), KEY, TlsError::Certificate);
    check(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", KEY, TlsError::Certificate);
    check(CERTIFICATE, b"", TlsError::NoKey);
    check(CERTIFICATE, CERTIFICATE, TlsError::NoKey);
    check(CERTIFICATE, &broken(KEY), TlsError::Key);
    check(CERTIFICATE, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", TlsError::Key);
    check(CERTIFICATE, OTHER_KEY, TlsError::Mismatch);
}
