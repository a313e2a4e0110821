//! A provider that answers after a fixed time, as fast as a provider could: the same for every gateway that is measured.
//!
//! Asked for a stream it sends a word at a time. Every n-th request fails, where that is wanted. Speaks as much HTTP as its clients do.

use super::load::{Incoming, read_request};
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// Words of a stream.
const N_WORDS: usize = 20;

/// Answer every request after a fixed time
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Milliseconds until an answer begins, and between the words of a stream
    #[arg(long, default_value_t = 0, value_name = "MS")]
    latency_ms: u64,
    /// Fail every n-th request; 0 fails none
    #[arg(long, default_value_t = 0, value_name = "N")]
    fail_every: u64,
}

/// Listens at any port, and says which.
pub(crate) async fn run(args: &Args, printer: &crate::Printer) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Failure::world)?;
    printer.plain(&listener.local_addr().map_err(Failure::world)?.port().to_string())?;
    printer.flush()?;
    let (latency, fail_every) = (Duration::from_millis(args.latency_ms), args.fail_every);
    let n_asked = Arc::new(AtomicU64::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let n_asked = Arc::clone(&n_asked);
        tokio::spawn(async move {
            // Who breaks the connection ends it.
            drop(serve(stream, latency, fail_every, &n_asked).await);
        });
    }
}

async fn serve(mut stream: TcpStream, latency: Duration, fail_every: u64, n_asked: &AtomicU64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 << 10);
    while let Some(Incoming { is_stream }) = read_request(&mut stream, &mut buffer).await? {
        let number = n_asked.fetch_add(1, Ordering::Relaxed) + 1;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        if fail_every > 0 && number.is_multiple_of(fail_every) {
            stream.write_all(&whole("500 Internal Server Error", r#"{"error":{"message":"out of order"}}"#)).await?;
        } else if is_stream {
            tell(&mut stream, latency).await?;
        } else {
            stream.write_all(&whole("200 OK", ANSWER)).await?;
        }
    }
    Ok(())
}

const ANSWER: &str = r#"{"id":"m","object":"chat.completion","created":1,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"The answer to this question is forty-two, as far as anybody can tell."},"finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":42,"completion_tokens":17,"total_tokens":59}}"#;

fn whole(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn tell(stream: &mut TcpStream, latency: Duration) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    for _ in 0..N_WORDS {
        let choice = r#"{"index":0,"delta":{"role":"assistant","content":"word "},"finish_reason":null}"#;
        piece(stream, choice, "null").await?;
        tokio::time::sleep(latency).await;
    }
    piece(stream, r#"{"index":0,"delta":{},"finish_reason":"stop"}"#, "null").await?;
    piece(stream, "", r#"{"prompt_tokens":42,"completion_tokens":20,"total_tokens":62}"#).await?;
    chunk(stream, "data: [DONE]\n\n").await?;
    stream.write_all(b"0\r\n\r\n").await
}

async fn piece(stream: &mut TcpStream, choice: &str, usage: &str) -> std::io::Result<()> {
    let head = r#""id":"m","object":"chat.completion.chunk","created":1,"model":"mock""#;
    chunk(stream, &format!("data: {{{head},\"choices\":[{choice}],\"usage\":{usage}}}\n\n")).await
}

async fn chunk(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await
}
