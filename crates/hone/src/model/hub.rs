//! A model hub over HTTP: which files a repository has, and their bytes, resumed where they broke off and checked by hash.
//!
//! The hub says the size and the hash of every file before it is fetched (SHA-256 for large files, git's SHA-1 for small
//! ones). A file appears under its name only when both agree. Knows nothing of models.

use super::opened::TEMPLATES;
use crate::failure::{Failure, at_path};
use crate::printer::Printer;
use crate::settings::Variables;
use reqwest::{Client, RequestBuilder, Response, StatusCode, header};
use serde::Deserialize;
use sha1::Digest;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The way out when the disk is full.
const ROOM: &str = "free some space and run the same command again: it goes on where it stopped";
const ENDPOINT: &str = "https://huggingface.co";
/// How often a broken transfer is taken up again before we give up.
const TRIES_MAX: u32 = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// A transfer that brings nothing for this long is broken.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest answer about a repository that is read.
const ABOUT_BYTES_MAX: usize = 16 << 20;

/// A hub.
pub(super) struct Hub {
    endpoint: String,
    token: Option<String>,
    client: Client,
}

/// A repository at one commit.
#[derive(Debug)]
pub(super) struct Repository {
    pub(super) id: String,
    pub(super) commit: String,
    pub(super) files: Vec<RemoteFile>,
}

/// A file as the hub describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemoteFile {
    pub(super) name: String,
    pub(super) n_bytes: u64,
    hash: Hash,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hash {
    Sha256(String),
    /// SHA-1 of the bytes behind git's header.
    Git(String),
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    size: u64,
    oid: String,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

impl Hub {
    /// The hub that the variables name: `HF_ENDPOINT`, with the token of `HF_TOKEN`.
    pub(super) fn of(variables: &Variables) -> Result<Self, Failure> {
        let variable = |name: &str| variables.get(name).map(|value| value.to_string_lossy().into_owned());
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned()).trim_end_matches('/').to_owned();
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .user_agent(concat!("hone/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(Failure::world)?;
        Ok(Self { endpoint, token: variable("HF_TOKEN"), client })
    }

    /// What the repository has at this revision (a branch, a tag or a commit).
    pub(super) async fn repository(&self, id: &str, revision: &str) -> Result<Repository, Failure> {
        let about: Revision = self.about(id, &format!("revision/{revision}")).await?;
        if about.sha.len() != 40 || !about.sha.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Failure::world(anyhow::anyhow!("{}: `{}` is not a commit", self.endpoint, about.sha)));
        }
        let mut entries: Vec<Entry> = self.about(id, &format!("tree/{}", about.sha)).await?;
        if entries.iter().any(|entry| entry.kind == "directory" && entry.path == TEMPLATES) {
            entries.extend(self.about::<Vec<Entry>>(id, &format!("tree/{}/{TEMPLATES}", about.sha)).await?);
        }
        // Only files at the top, and templates: a name is a path on this machine later, and must not lead elsewhere.
        let files =
            entries.into_iter().filter(|entry| entry.kind == "file" && (is_plain(&entry.path) || is_template(&entry.path)));
        let file = |entry: Entry| match entry.lfs {
            Some(lfs) => RemoteFile { name: entry.path, n_bytes: lfs.size, hash: Hash::Sha256(lfs.oid.to_lowercase()) },
            None => RemoteFile { name: entry.path, n_bytes: entry.size, hash: Hash::Git(entry.oid.to_lowercase()) },
        };
        Ok(Repository { id: id.to_owned(), commit: about.sha, files: files.map(file).collect() })
    }

    /// Brings a file into the folder, unless the same file is there already.
    pub(super) async fn fetch(
        &self,
        repository: &Repository,
        file: &RemoteFile,
        folder: &Path,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let to = folder.join(&file.name);
        if to.metadata().is_ok_and(|about| about.len() == file.n_bytes) && file.hash_of(&to)? == *file.hash.text() {
            return Ok(());
        }
        let around = to.parent().unwrap_or(folder);
        fs::create_dir_all(around).map_err(at_path(around))?;
        let part = folder.join(format!("{}.part", file.name));
        let bar = printer.bytes_bar(Some(file.n_bytes), &file.name);
        let mut n_tries = 0;
        let fetched = loop {
            n_tries += 1;
            match self.transfer(repository, file, &part, &bar).await {
                // A full disk is not waited for: who frees it runs the command again, which goes on where it stopped.
                Err(failure) if failure.is_full_disk() => break Err(failure.hint(ROOM)),
                Err(failure) if n_tries < TRIES_MAX && part_len(&part) < file.n_bytes && failure.kind == crate::Kind::World => {
                    tokio::time::sleep(Duration::from_millis(100 << (2 * n_tries))).await;
                }
                outcome => break outcome,
            }
        };
        bar.finish_and_clear();
        fetched?;
        check(file, &part)?;
        fs::rename(&part, &to).map_err(at_path(&to))
    }

    /// Appends what is missing of a file to its part.
    async fn transfer(
        &self,
        repository: &Repository,
        file: &RemoteFile,
        part: &Path,
        bar: &indicatif::ProgressBar,
    ) -> Result<(), Failure> {
        let n_there = usable_len(part, file.n_bytes)?;
        if n_there == file.n_bytes {
            return Ok(());
        }
        let address = format!("{}/{}/resolve/{}/{}", self.endpoint, repository.id, repository.commit, file.name);
        let request = self.client.get(&address).header(header::RANGE, format!("bytes={n_there}-"));
        let mut response = self.send(request, &address).await?;
        let resumes = response.status() == StatusCode::PARTIAL_CONTENT;
        let mut out = if resumes {
            OpenOptions::new().append(true).create(true).open(part).map_err(at_path(part))?
        } else {
            File::create(part).map_err(at_path(part))?
        };
        let mut n_bytes = if resumes { n_there } else { 0 };
        bar.set_position(n_bytes);
        while let Some(bytes) = response.chunk().await.map_err(|error| unreachable_hub(&address, error))? {
            n_bytes += bytes.len() as u64;
            if n_bytes > file.n_bytes {
                drop(out);
                let _ = fs::remove_file(part);
                return Err(Failure::user(format_args!(
                    "{}: the hub sends more than the {} bytes it announced",
                    file.name, file.n_bytes
                )));
            }
            out.write_all(&bytes).map_err(at_path(part))?;
            bar.set_position(n_bytes);
        }
        out.sync_all().map_err(at_path(part))?;
        if n_bytes < file.n_bytes {
            let text = format!("{}: the transfer ended after {n_bytes} of {} bytes", file.name, file.n_bytes);
            return Err(Failure::world(anyhow::Error::msg(text)).hint("run the same command again: it goes on where it stopped"));
        }
        Ok(())
    }

    /// One question about a repository.
    async fn about<T: serde::de::DeserializeOwned>(&self, id: &str, what: &str) -> Result<T, Failure> {
        let address = format!("{}/api/models/{id}/{what}", self.endpoint);
        let mut response = self.send(self.client.get(&address), &address).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable_hub(&address, error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ABOUT_BYTES_MAX {
                return Err(Failure::user(format_args!("{address}: the answer is longer than {ABOUT_BYTES_MAX} bytes")));
            }
        }
        serde_json::from_slice(&bytes).map_err(|error| Failure::user(format_args!("{address}: not the answer of a hub: {error}")))
    }

    async fn send(&self, request: RequestBuilder, address: &str) -> Result<Response, Failure> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request.send().await.map_err(|error| unreachable_hub(address, error))?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => Err(Failure::user(format_args!("{address}: the hub has nothing there"))
                .hint("an id looks like `organisation/model`; a path on this machine begins with `./` or `/`")),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(Failure::user(format_args!("{address}: the hub refuses this without a token that may read it"))
                    .hint("accept the model's terms on its page, and set HF_TOKEN"))
            }
            status => Err(Failure::world(anyhow::anyhow!("{address}: the hub answers {status}"))),
        }
    }
}

fn unreachable_hub(address: &str, error: reqwest::Error) -> Failure {
    Failure::world(error.without_url())
        .context(address)
        .hint("HF_ENDPOINT names another hub; run the same command again to go on where it stopped")
}

fn is_plain(name: &str) -> bool {
    !name.starts_with('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}

/// Whether this is one of several templates.
fn is_template(name: &str) -> bool {
    let inside = name.strip_prefix(TEMPLATES).and_then(|rest| rest.strip_prefix('/'));
    inside.is_some_and(|name| is_plain(name) && name.ends_with(".jinja"))
}

fn part_len(part: &Path) -> u64 {
    part.metadata().map_or(0, |about| about.len())
}

/// How much of a part can be gone on from. One that is longer than its file is of another file, such as before a branch moved: it
/// goes, because a hub has nothing to send beyond the end.
fn usable_len(part: &Path, n_bytes: u64) -> Result<u64, Failure> {
    let n_there = part_len(part);
    if n_there <= n_bytes {
        return Ok(n_there);
    }
    fs::remove_file(part).map_err(at_path(part))?;
    Ok(0)
}

impl RemoteFile {
    /// The hash of these bytes, of the kind that the hub gave.
    fn hash_of(&self, path: &Path) -> Result<String, Failure> {
        match &self.hash {
            Hash::Sha256(_) => digest(sha2::Sha256::new(), path),
            Hash::Git(_) => digest(sha1::Sha1::new_with_prefix(format!("blob {}\0", self.n_bytes)), path),
        }
    }
}

impl Hash {
    fn text(&self) -> &String {
        let (Self::Sha256(text) | Self::Git(text)) = self;
        text
    }
}

/// Compares the bytes with what the hub said they are. A part that fails is of no use, and goes.
fn check(file: &RemoteFile, part: &Path) -> Result<(), Failure> {
    let (expected, found) = (file.hash.text(), file.hash_of(part)?);
    if *expected == found {
        return Ok(());
    }
    fs::remove_file(part).map_err(at_path(part))?;
    Err(Failure::user(format_args!("{}: its hash is {found}, and the hub says {expected}", file.name))
        .hint("the file was changed on its way, or while it was fetched; run the same command again"))
}

fn digest<D: Digest>(mut digest: D, path: &Path) -> Result<String, Failure> {
    let mut file = File::open(path).map_err(at_path(path))?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(at_path(path))? {
            0 => return Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            n => digest.update(&buffer[..n]),
        }
    }
}

/// The files that make a model: weights, their description, the tokenizer and the chat template.
pub(super) fn model_files(repository: &Repository, gguf: Option<&str>) -> Result<Vec<RemoteFile>, Failure> {
    let names: Vec<&str> = repository.files.iter().map(|file| file.name.as_str()).collect();
    if let Some(gguf) = gguf {
        let file = repository.files.iter().find(|file| file.name == gguf).cloned();
        let known: Vec<&str> = names.into_iter().filter(|name| name.ends_with(".gguf")).collect();
        return file.map(|file| vec![file]).ok_or_else(|| {
            Failure::user(format_args!("{} has no file `{gguf}`", repository.id)).hint(format!("it has {}", known.join(", ")))
        });
    }
    let wanted = |name: &str| {
        const NAMES: [&str; 6] = [
            "config.json",
            "generation_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "chat_template.jinja",
            "model.safetensors.index.json",
        ];
        NAMES.contains(&name) || name.ends_with(".safetensors") || is_template(name)
    };
    if !names.iter().any(|name| name.ends_with(".safetensors")) {
        let failure = Failure::user(format_args!("{} has no safetensors weights", repository.id));
        return Err(if let Some(gguf) = names.iter().find(|name| name.ends_with(".gguf")) {
            failure.hint(format!("it has GGUF files: choose one, as with `--file {gguf}`"))
        } else {
            failure.hint("hone opens no pickle files (.bin, .pt): they can run code; look for a safetensors or GGUF version")
        });
    }
    Ok(repository.files.iter().filter(|file| wanted(&file.name)).cloned().collect())
}

/// Whether this is the id of a repository rather than a path.
pub(super) fn is_id(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    parts.len() == 2 && parts.iter().all(|part| !part.is_empty() && is_plain(part)) && !PathBuf::from(text).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(names: &[&str]) -> Repository {
        let file = |name: &&str| RemoteFile { name: (*name).to_owned(), n_bytes: 1, hash: Hash::Git(String::new()) };
        Repository { id: "o/m".to_owned(), commit: String::new(), files: names.iter().map(file).collect() }
    }

    fn check_files(names: &[&str], gguf: Option<&str>, expected: Result<&[&str], &str>) {
        match (model_files(&repository(names), gguf), expected) {
            (Ok(files), Ok(expected)) => assert_eq!(files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), expected),
            (Err(failure), Err(hint)) => assert!(failure.hint.clone().unwrap_or_default().contains(hint), "{failure:?}"),
            (found, _) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn only_what_makes_a_model_is_fetched() {
        let all = ["README.md", "config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json", "q4.gguf"];
        check_files(&all, None, Ok(&["config.json", "model.safetensors", "tokenizer.json"]));
        check_files(&all, Some("q4.gguf"), Ok(&["q4.gguf"]));
        let named = ["additional_chat_templates/rag.jinja", "additional_chat_templates/../x.jinja", "x/y.jinja", "m.safetensors"];
        check_files(&named, None, Ok(&["additional_chat_templates/rag.jinja", "m.safetensors"]));
        check_files(&all, Some("q8.gguf"), Err("it has q4.gguf"));
        check_files(&["config.json", "q4.gguf"], None, Err("--file q4.gguf"));
        check_files(&["config.json", "pytorch_model.bin"], None, Err("pickle"));
    }

    #[test]
    fn ids_are_told_from_paths() {
        for (text, expected) in
            [("org/model-1.5B", true), ("./model", false), ("/a/b", false), ("a/b/c", false), ("model", false)]
        {
            assert_eq!(is_id(text), expected, "{text}");
        }
        assert!(!is_plain("../x") && !is_plain("a/b") && !is_plain(".hidden") && is_plain("model-00001-of-00002.safetensors"));
    }
}
