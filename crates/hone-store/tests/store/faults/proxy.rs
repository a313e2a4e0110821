//! A connection to the server that breaks once, at the n-th message of the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Whether the server still gets the message at which the connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Before,
    After,
}

pub(crate) struct Proxy {
    /// The URL of the server, through this proxy.
    pub(crate) url: String,
    left: Arc<AtomicI64>,
    n_carried: Arc<AtomicUsize>,
    n_hushed: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) async fn start(url: &str, cut: Cut, nth: i64) -> Self {
        let (before, rest) = url.rsplit_once('@').expect("a URL with a user");
        let (server, database) = rest.split_once('/').expect("a URL with a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("the port").port();
        let left = Arc::new(AtomicI64::new(nth));
        let (server, shared) = (server.to_owned(), Arc::clone(&left));
        let (n_carried, n_hushed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, hushed) = (Arc::clone(&n_carried), Arc::clone(&n_hushed));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { return };
                let hush = Hush { idx: count.fetch_add(1, Ordering::SeqCst), n_hushed: Arc::clone(&hushed) };
                tokio::spawn(carry(client, server, cut, Arc::clone(&shared), hush));
            }
        });
        Self { url: format!("{before}@127.0.0.1:{port}/{database}"), left, n_carried, n_hushed }
    }

    /// From now on nobody answers on the connections that there are, and nobody closes them.
    pub(crate) fn hush(&self) {
        self.n_hushed.store(self.n_carried.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    pub(crate) fn has_cut(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}

/// Which connection this is, and how many of the first are silent.
struct Hush {
    idx: usize,
    n_hushed: Arc<AtomicUsize>,
}

async fn carry(client: TcpStream, server: TcpStream, cut: Cut, left: Arc<AtomicI64>, hush: Hush) {
    // Small messages go at once: the test is about those that are cut, and waits for all others.
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(n) = from_client.read(&mut buffer).await {
        if n > 0 && hush.idx < hush.n_hushed.load(Ordering::SeqCst) {
            continue;
        }
        let breaks = n > 0 && left.fetch_sub(1, Ordering::SeqCst) == 0;
        if n == 0 || (breaks && cut == Cut::Before) {
            break;
        }
        if breaks {
            // The answer must not come through any more, the message must.
            answers.abort();
            let _ = to_server.write_all(&buffer[..n]).await;
            let _ = to_server.flush().await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            break;
        }
        if to_server.write_all(&buffer[..n]).await.is_err() {
            break;
        }
    }
    answers.abort();
}
