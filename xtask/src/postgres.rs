//! A private PostgreSQL: in a temporary folder, on a free port of 127.0.0.1, with a random password.
//!
//! A shell script, the watcher, owns the server and the folder from before they exist. It holds the read end of a
//! pipe from us and cleans up when the pipe closes, so the server cannot outlive us: not after a failure, not after
//! Ctrl-C (the watcher is in a process group of its own), not after kill -9. All settings that durability hangs on
//! keep PostgreSQL's safe defaults.
//!
//! Knows nothing of schemas or of what is stored.

use crate::Exit;
use crate::cargo::{find_program, leashed};
use crate::packages;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const WATCHER: &str = include_str!("postgres.sh");

/// Another process may take the free port between our look and the server's start.
const START_ATTEMPTS_MAX: usize = 3;

/// A running server, stopped and removed when dropped.
pub(crate) struct Postgres {
    watcher: Child,
    port: u16,
    password: String,
}

/// Runs a command with the server up: for benches and for a developer's own look.
pub(crate) fn lend(program: &str, args: &[&str]) -> Exit {
    let provided = packages::provide(&[packages::POSTGRES]).map_err(|missing| missing.to_string());
    let server = provided.and_then(|()| Postgres::start());
    let server = match server {
        Ok(server) => server,
        Err(error) => {
            eprintln!("error: {error}");
            return Exit::Broken;
        }
    };
    let mut command = leashed(program);
    command.args(args).env("HONE_TEST_POSTGRES", server.url()).env("HONE_DATABASE_URL", server.url());
    // The command belongs to the user's folder, unlike the parts of `test`.
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    match command.status() {
        Ok(status) => {
            let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
            Exit::Of(u8::try_from(code).unwrap_or(1))
        }
        Err(error) => {
            eprintln!("error: `{program}` did not start: {error}");
            Exit::Broken
        }
    }
}

/// The folder with the newest installed server.
pub(crate) fn binaries() -> Option<PathBuf> {
    let complete = |folder: &PathBuf| ["initdb", "pg_ctl", "postgres"].iter().all(|name| folder.join(name).is_file());
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = debian
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<f64>().ok()?, entry.path().join("bin"))))
        .filter(|(_, folder)| complete(folder))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    match newest {
        Some((_, folder)) => Some(folder),
        None => find_program("initdb").and_then(|file| Some(file.parent()?.to_owned())).filter(complete),
    }
}

impl Postgres {
    /// Starts a server and waits until it takes connections.
    pub(crate) fn start() -> Result<Self, String> {
        let bin = binaries().ok_or("no PostgreSQL found")?;
        let mut attempt = 1;
        loop {
            match Self::try_start(&bin) {
                Err(why) if attempt < START_ATTEMPTS_MAX && why.contains("Address already in use") => attempt += 1,
                result => return result,
            }
        }
    }

    /// The address of the server's default database, with user and password.
    pub(crate) fn url(&self) -> String {
        format!("postgres://hone:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn try_start(bin: &Path) -> Result<Self, String> {
        let port = free_port().map_err(|error| format!("no free port on 127.0.0.1: {error}"))?;
        let password = random_hex(16).map_err(|error| format!("no randomness: {error}"))?;
        let name = random_hex(8).map_err(|error| format!("no randomness: {error}"))?;
        let folder = std::env::temp_dir().join(format!("hone-postgres-{name}"));
        let mut command = Command::new("sh");
        command
            .args(["-c", WATCHER, "hone-postgres-watcher"])
            .args([&folder, bin])
            .arg(settings(port, &folder))
            // The settings of a user's own PostgreSQL (PGDATA, PGHOST and so on) must not leak in.
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("LC_ALL", "C.UTF-8")])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if packages::is_root() {
            // PostgreSQL refuses to run as root; its package made a user for it.
            let ids = packages::id(&["-u", "postgres"]).zip(packages::id(&["-g", "postgres"]));
            let (uid, gid) = ids.ok_or("there is no user `postgres`, and PostgreSQL does not run as root")?;
            command.uid(uid).gid(gid);
        }
        let mut watcher = command.spawn().map_err(|error| format!("sh did not start: {error}"))?;
        // The password travels through the pipe, so that no process list shows it.
        let mut pipe = watcher.stdin.take().expect("stdin is piped");
        let told = writeln!(pipe, "{password}");
        watcher.stdin = Some(pipe);
        let mut server = Self { watcher, port, password };
        told.map_err(|error| format!("the watcher of PostgreSQL did not listen: {error}"))?;
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let mut stdout = self.watcher.stdout.take().expect("stdout is piped");
        let mut said = Vec::new();
        let mut byte = [0];
        // The watcher says `ready`, or what went wrong and ends.
        while said != b"ready\n" {
            match stdout.read(&mut byte) {
                Ok(1) => said.push(byte[0]),
                _ => return Err(format!("PostgreSQL did not start: {}", String::from_utf8_lossy(&said).trim_end())),
            }
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        // The folder is gone when the watcher is.
        if let Err(error) = self.watcher.wait() {
            eprintln!("warning: the watcher of PostgreSQL was lost: {error}");
        }
    }
}

/// What differs from PostgreSQL's defaults. fsync, full_page_writes and synchronous_commit are on by default and stay
/// on, because the tests prove durability.
fn settings(port: u16, folder: &Path) -> String {
    let folder = folder.display().to_string().replace('\'', "''");
    format!(
        "listen_addresses = '127.0.0.1'\n\
         port = {port}\n\
         unix_socket_directories = '{folder}'\n\
         max_connections = 200\n\
         shared_buffers = 128MB\n"
    )
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn random_hex(n_bytes: usize) -> std::io::Result<String> {
    let mut bytes = vec![0; n_bytes];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_in_the_folder_does_not_end_the_setting() {
        let settings = settings(5, Path::new("/tmp/it's"));
        assert!(settings.contains("unix_socket_directories = '/tmp/it''s'\n"), "{settings}");
    }

    #[test]
    fn durability_is_left_at_its_safe_defaults() {
        let settings = settings(5, Path::new("/tmp/x"));
        for name in ["fsync", "full_page_writes", "synchronous_commit", "wal_sync_method"] {
            assert!(!settings.contains(name), "{name}");
        }
    }

    #[test]
    fn random_names_have_the_asked_length_and_differ() {
        let (a, b) = (random_hex(8).unwrap(), random_hex(8).unwrap());
        assert_eq!(a.len(), 16);
        assert_ne!(a, b);
    }
}
