//! A model hub on this machine: real HTTP, the files of a folder, and whatever can go wrong on the way.

use sha1::Digest;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What goes wrong with the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// Every transfer that is longer ends after so many bytes.
    CutsAfter(usize),
    /// One byte is another.
    Changes,
    /// There is more than was announced.
    Lengthens,
}

pub(super) struct Hub {
    port: u16,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    ranges: Mutex<Vec<String>>,
    n_bytes: AtomicU64,
}

impl Hub {
    /// Serves the files of a folder as the repositories `org/small` and `org/Small-1` until the test ends.
    pub(super) fn serve(folder: &Path, trouble: Trouble) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Seen::default());
        let (folder, shared) = (folder.to_owned(), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                answer(stream, &folder, trouble, &shared);
            }
        });
        Self { port, seen }
    }

    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn ranges(&self) -> Vec<String> {
        self.seen.ranges.lock().expect("no panic").clone()
    }

    pub(super) fn n_bytes_sent(&self) -> u64 {
        self.seen.n_bytes.load(Ordering::SeqCst)
    }
}

/// One request per connection.
fn answer(mut stream: TcpStream, folder: &Path, trouble: Trouble, seen: &Seen) {
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    let path = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let range = headers.iter().find_map(|line| line.to_lowercase().strip_prefix("range: ").map(str::to_owned));
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let body = match parts[..] {
        ["api", "models", "org", "small" | "Small-1", "revision", "main"] => format!("{{\"sha\":\"{COMMIT}\"}}").into_bytes(),
        ["api", "models", "org", "small" | "Small-1", "tree", COMMIT] => tree(folder).into_bytes(),
        ["org", "small" | "Small-1", "resolve", COMMIT, name] => {
            return file(&mut stream, &folder.join(name), range, trouble, seen);
        }
        _ => {
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            return;
        }
    };
    send(&mut stream, "200 OK", body.len(), &body, seen);
}

fn tree(folder: &Path) -> String {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder).expect("files").map(|file| file.expect("a file").path()).collect();
    names.sort();
    let entry = |path: &PathBuf| {
        let bytes = std::fs::read(path).expect("a file");
        let hex = |digest: &[u8]| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let git = hex(&sha1::Sha1::new_with_prefix(format!("blob {}\0", bytes.len())).chain_update(&bytes).finalize());
        let mut entry = serde_json::json!({"type": "file", "path": path.file_name().expect("a name").to_string_lossy(),
                                           "size": bytes.len(), "oid": git});
        // As on a real hub: large files are known by another hash.
        if path.extension().is_some_and(|end| end == "safetensors") {
            entry["oid"] = "0".repeat(40).into();
            entry["lfs"] = serde_json::json!({"oid": hex(&sha2::Sha256::digest(&bytes)), "size": bytes.len()});
        }
        entry
    };
    let mut entries: Vec<_> = names.iter().map(entry).collect();
    entries.push(serde_json::json!({"type": "file", "path": "README.md", "size": 3, "oid": "0".repeat(40)}));
    entries.push(serde_json::json!({"type": "file", "path": "../up.safetensors", "size": 3, "oid": "0".repeat(40)}));
    entries.push(serde_json::json!({"type": "directory", "path": "onnx", "size": 0, "oid": "0".repeat(40)}));
    serde_json::Value::from(entries).to_string()
}

fn file(stream: &mut TcpStream, path: &Path, range: Option<String>, trouble: Trouble, seen: &Seen) {
    let mut bytes = std::fs::read(path).expect("a file that was listed");
    let is_large = path.extension().is_some_and(|end| end == "safetensors");
    let begin = range.as_ref().and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    seen.ranges.lock().expect("no panic").extend(range);
    if is_large && trouble == Trouble::Changes {
        *bytes.last_mut().expect("weights") ^= 1;
    }
    if is_large && trouble == Trouble::Lengthens {
        bytes.extend([0; 100]);
    }
    if begin.is_some_and(|begin| begin >= bytes.len()) {
        return send(stream, "416 Range Not Satisfiable", 0, &[], seen);
    }
    let rest = &bytes[begin.unwrap_or(0)..];
    let status = if begin.is_some_and(|begin| begin > 0) { "206 Partial Content" } else { "200 OK" };
    let n_sent = match trouble {
        // A little more every time, as on a bad line.
        Trouble::CutsAfter(n) if is_large => rest.len().min(if begin == Some(0) { n } else { 40_000 }),
        _ => rest.len(),
    };
    send(stream, status, rest.len(), &rest[..n_sent], seen);
}

fn send(stream: &mut TcpStream, status: &str, n_announced: usize, bytes: &[u8], seen: &Seen) {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {n_announced}\r\nconnection: close\r\n\r\n");
    seen.n_bytes.fetch_add(bytes.len() as u64, Ordering::SeqCst);
    // A client that has seen enough may be gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(bytes));
}
