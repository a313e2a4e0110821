//! Public failures of servers in this field, each as a test that it cannot happen here. The numbers are those of the security page;
//! V1, V5, V11 and V12 are in `access.rs`, V15 for keys to the server in `keys.rs`.

use crate::world::{CANARY, World, messages, tenant};
use hone_gateway::{Access, Limits};
use hone_trace::ErrorEvent;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const HI: &[(&str, &str)] = &[("user", "hi")];

/// V2: an address in the request drew requests, and the provider's key with them, to a server of the attacker.
#[tokio::test]
async fn v2_no_request_says_where_its_answer_comes_from() {
    let world = World::open().await;
    let trap = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", trap.local_addr().unwrap());
    let body = json!({"model": "well", "messages": messages(HI), "api_base": url, "base_url": url, "api_key": "x", "custom_llm_provider": url});
    for header in ["x-request-id", "x-upstream", "x-forwarded-host", "openai-organization"] {
        assert_eq!(world.post("/v1/chat/completions", &body, &[(header, &url)]).await.status, 200);
    }
    let named = world.chat(&format!("{url}#well"), HI, &[]).await;
    assert_eq!(named.status, 404, "a name is looked up, and never taken for an address");
    let caught = tokio::time::timeout(Duration::from_millis(300), trap.accept()).await;
    assert!(caught.is_err(), "somebody came to the trap");
}

/// V3: a path in a request was read from the disk.
#[tokio::test]
async fn v3_no_path_comes_from_a_request() {
    let world = World::open().await;
    for path in ["/v1/models/..%2F..%2Fproc%2Fself%2Fenviron", "/v1/../../proc/self/environ", "/v1/models/%2Fetc%2Fpasswd"] {
        let told = world.get(path, &[]).await;
        assert_eq!(told.status, 404, "{path}: {}", told.body);
        assert!(!told.body.contains("root:"));
    }
    let body = json!({"episode_id": "/proc/self/environ", "metric_name": "m", "value": 1, "file": "/etc/passwd"});
    assert_eq!(world.post("/v1/feedback", &body, &[]).await.status, 400, "what is not known is refused");
}

/// V14: a body was read whole before its limit was looked at.
#[tokio::test]
async fn v14_the_limit_ends_the_reading() {
    let world = World::with(Access::open(tenant()), Limits { body_bytes_max: 10_000, ..Limits::default() }).await;
    let address = world.url.trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    // A body without an end: the answer comes while it is being sent.
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let mut n_sent = 0;
    let mut answer = vec![0; 1024];
    let told = loop {
        tokio::select! {
            biased;
            read = stream.read(&mut answer) => break String::from_utf8_lossy(&answer[..read.unwrap()]).into_owned(),
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
        if stream.write_all(chunk.as_bytes()).await.is_ok() {
            n_sent += 1;
        }
        assert!(n_sent < 1000, "four megabytes were taken");
    };
    assert!(told.starts_with("HTTP/1.1 413"), "{told}");
}

/// V15: an error told a secret.
#[tokio::test]
async fn v15_no_error_tells_a_key() {
    let world = World::open().await;
    for is_stream in [false, true] {
        let body = json!({"model": "leaky", "messages": messages(HI), "stream": is_stream});
        let told = world.post("/v1/chat/completions", &body, &[]).await;
        assert!(told.status >= 400 && told.body.contains("wrong key"), "{}", told.body);
        assert!(!told.body.contains(CANARY), "{}", told.body);
    }
    let recorded = serde_json::to_string(&world.traces().await).unwrap();
    assert!(recorded.contains("wrong key") && !recorded.contains(CANARY));
    assert!(!world.get("/metrics", &[]).await.body.contains(CANARY));
}

/// Asks for a stream on a connection of its own, whose client keeps hardly anything.
async fn streaming(world: &World, model: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(world.url.trim_start_matches("http://").parse().unwrap()).await.unwrap();
    let body = json!({"model": model, "messages": messages(HI), "stream": true}).to_string();
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    stream
}

/// What went wrong in the only turn of the trace of this model, when it is there.
async fn failure_of(world: &World, model: &str) -> ErrorEvent {
    for _ in 0..400 {
        let trace = world.traces().await.into_iter().find(|trace| trace.metadata["asked_for"] == model);
        if let Some(trace) = trace {
            return trace.turns().next().unwrap().errors[0].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nothing of {model} was recorded");
}

#[tokio::test]
async fn a_client_that_stops_reading_gives_its_place_back() {
    let limits = Limits { answer_ms: 5_000, n_requests_max: 1, refusal_ms: 20_000, ..Limits::default() };
    let world = World::with(Access::open(tenant()), limits).await;
    let mut stream = streaming(&world, "flood").await;
    assert!(stream.read_u8().await.is_ok(), "the answer has begun");
    let told = world.chat("well", HI, &[]).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let failure = failure_of(&world, "flood").await;
    assert_eq!(failure.kind, "policy_abandoned", "{failure:?}");
    assert!(failure.message.contains("had not read"), "{failure:?}");
}

/// How slowly a client reads says nothing of who answers it.
#[tokio::test]
async fn a_call_ends_when_its_answer_does_and_not_when_its_client_has_read_it() {
    let limits = Limits { n_requests_max: 1, refusal_ms: 20_000, ..Limits::default() };
    let world = World::with(Access::open(tenant()), limits).await;
    let mut stream = streaming(&world, "long").await;
    assert!(stream.read_u8().await.is_ok(), "the answer has begun");
    let turn = world.trace_of(1).await.turns().next().unwrap().clone();
    assert_eq!((turn.answer.content.text().len(), turn.errors.len()), (301 * 6_000, 0));
    assert_eq!(world.chat("well", HI, &[]).await.status, 200, "its place was given back");
    let mut rest = String::new();
    loop {
        let mut bytes = vec![0; 64 << 10];
        let n_read = stream.read(&mut bytes).await.unwrap();
        rest += &String::from_utf8_lossy(&bytes[..n_read]);
        if rest.contains("[DONE]") {
            break;
        }
        assert!(n_read > 0, "the connection was closed");
        rest.replace_range(..rest.len().saturating_sub(100), "");
    }
}

#[tokio::test]
async fn nor_does_it_keep_its_connection() {
    let world = World::with(Access::open(tenant()), Limits { answer_ms: 1_000, n_connections_max: 1, ..Limits::default() }).await;
    let mut stream = streaming(&world, "flood").await;
    assert!(stream.read_u8().await.is_ok(), "the answer has begun");
    let next = tokio::time::timeout(Duration::from_secs(30), world.get("/healthz", &[])).await;
    assert_eq!(next.expect("the connection stays open").status, 200);
}

#[tokio::test]
async fn who_stops_cuts_off_what_does_not_end() {
    let limits = Limits { stop_ms: 200, ..Limits::default() };
    let mut world = World::with(Access::open(tenant()), limits).await;
    let mut stream = streaming(&world, "endless").await;
    assert!(stream.read_u8().await.is_ok(), "the answer has begun");
    world.stop();
    let told = rest(stream).await;
    assert!(told.contains("well"), "{told}");
    assert_eq!(failure_of(&world, "endless").await.kind, "policy_abandoned");
}

/// Sends the head of a question and a part of its body.
async fn stalled(world: &World) -> TcpStream {
    let mut stream = TcpStream::connect(world.url.trim_start_matches("http://")).await.unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{\"model\"";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// All that comes until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut told = String::new();
    let read = tokio::time::timeout(Duration::from_secs(8), stream.read_to_string(&mut told)).await;
    read.expect("the connection stays open").unwrap();
    told
}

#[tokio::test]
async fn a_body_that_stops_coming_gives_its_place_back() {
    let limits = Limits { body_ms: 300, n_requests_max: 1, refusal_ms: 5_000, ..Limits::default() };
    let world = World::with(Access::open(tenant()), limits).await;
    let stream = stalled(&world).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.chat("well", HI, &[]).await.status, 200);
    let told = rest(stream).await;
    assert!(told.starts_with("HTTP/1.1 408") && told.contains("did not come in time"), "{told}");
}

#[tokio::test]
async fn nobody_who_stops_waits_for_a_body_that_does_not_come() {
    let mut world = World::open().await;
    let stream = stalled(&world).await;
    // Connections are taken in turn: when this one is answered, the one before was taken.
    assert_eq!(world.get("/healthz", &[]).await.status, 200);
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.stop();
    let told = rest(stream).await;
    assert!(told.starts_with("HTTP/1.1 408"), "{told}");
}

/// One byte now and then kept a place for ever, and the server from everybody else.
#[tokio::test]
async fn who_sends_slowly_takes_no_place() {
    let limits = Limits { n_requests_max: 1, refusal_ms: 0, ..Limits::default() };
    let world = World::with(Access::open(tenant()), limits).await;
    let _slow = [stalled(&world).await, stalled(&world).await];
    // Connections are taken in turn, and each has a moment to be read.
    assert_eq!(world.get("/healthz", &[]).await.status, 200);
    tokio::time::sleep(Duration::from_millis(50)).await;
    for _ in 0..3 {
        assert_eq!(world.chat("well", HI, &[]).await.status, 200);
        assert_eq!(world.post("/v1/embeddings", &json!({"model": "embed", "input": "hi"}), &[]).await.status, 200);
    }
}

#[tokio::test]
async fn bodies_on_their_way_share_a_limit_but_for_the_first_of_each() {
    let limits = Limits { bodies_bytes_max: 100_000, refusal_ms: 0, ..Limits::default() };
    let world = World::with(Access::open(tenant()), limits).await;
    let mut statuses = Vec::new();
    for n_bytes in [60_000, 300_000, 60_000, 90_000, 90_000, 90_000] {
        statuses.push(world.chat("well", &[("user", &"x".repeat(n_bytes))], &[]).await.status);
    }
    assert_eq!(statuses, [200, 503, 200, 200, 200, 200], "what was read is given back");
}

#[tokio::test]
async fn a_body_that_trickles_is_given_up() {
    let limits = Limits { body_ms: 300, ..Limits::default() };
    let world = World::with(Access::open(tenant()), limits).await;
    let (mut told, mut sends) = stalled(&world).await.into_split();
    let mut answer = String::new();
    let told = told.read_to_string(&mut answer);
    tokio::pin!(told);
    let mut n_sent = 0;
    loop {
        tokio::select! {
            read = &mut told => break drop(read),
            () = tokio::time::sleep(Duration::from_millis(20)) => n_sent += usize::from(sends.write_all(b" ").await.is_ok()),
        }
        assert!(n_sent < 90, "all of it was waited for");
    }
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}
