//! A provider in OpenAI's format that says what a test wants it to.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An answer, with the tokens that are charged for it.
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
}

/// An answer that costs next to nothing.
pub(crate) fn said(text: String) -> Reply {
    Reply { text, tokens_in: 9, tokens_out: 9 }
}

/// Starts one that answers a request, given how many came before it; without an answer it says nothing until the other side gives
/// up. Returns its name as a policy, and the count of requests.
pub(crate) fn start(answer: impl Fn(&Value, usize) -> Option<Reply> + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    serve(move |mut stream, n_before| match answer(&request(&stream), n_before) {
        Some(reply) => stream.write_all(response(&reply).as_bytes()),
        None => stream.read(&mut [0]).map(|_| ()),
    })
}

/// The same, but it refuses requests that it has no answer to.
pub(crate) fn refusing(answer: impl Fn(usize) -> Option<Reply> + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    serve(move |mut stream, n_before| {
        request(&stream);
        let refusal = "HTTP/1.1 400 Bad Request\r\ncontent-length: 9\r\nconnection: close\r\n\r\nnot today";
        let reply = answer(n_before).map_or_else(|| refusal.to_owned(), |reply| response(&reply));
        stream.write_all(reply.as_bytes())
    })
}

fn serve(answer: impl Fn(TcpStream, usize) -> std::io::Result<()> + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (n_calls, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
    let counted = Arc::clone(&n_calls);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (n_before, answer) = (counted.fetch_add(1, Ordering::SeqCst), Arc::clone(&answer));
            std::thread::spawn(move || answer(stream, n_before));
        }
    });
    (format!("http://{address}/v1#model"), n_calls)
}

fn request(stream: &TcpStream) -> Value {
    serde_json::from_slice(&received(stream).1).unwrap()
}

/// The head and the body of a request.
pub(crate) fn received(stream: &TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {
        let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

fn response(Reply { text, tokens_in, tokens_out }: &Reply) -> String {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({"id": "1", "object": "chat.completion.chunk", "model": "model",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let piece = chunk(json!({"role": "assistant", "content": text}), None);
    let mut end = chunk(json!({}), Some("stop"));
    end["usage"] = json!({"prompt_tokens": tokens_in, "completion_tokens": tokens_out});
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    format!("{head}data: {piece}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}
