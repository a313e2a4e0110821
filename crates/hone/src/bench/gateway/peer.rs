//! The processes of the measurement: the mock provider, `hone serve`, and the gateways of others.

use super::MODEL;
use crate::failure::{Failure, at_path};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Sets the gateways of others up and starts one.
const SCRIPT: &str = include_str!("../../../../../bench/python/gateway_peers.py");

/// How often a process that should end is looked at before it is killed.
const N_WAITS: usize = 5;

/// A gateway of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    LiteLlm,
    TensorZero,
}

impl Peer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LiteLlm => "litellm",
            Self::TensorZero => "tensorzero",
        }
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::LiteLlm => "/v1/chat/completions",
            Self::TensorZero => "/openai/v1/chat/completions",
        }
    }

    pub(super) fn model(self) -> String {
        match self {
            Self::LiteLlm => MODEL.into(),
            Self::TensorZero => format!("tensorzero::model_name::{MODEL}"),
        }
    }

    pub(super) fn key(self) -> Option<String> {
        (self == Self::LiteLlm).then(|| "sk-bench".into())
    }
}

/// A process that listens at a port, and ends when this is dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) port: u16,
}

impl Process {
    /// A provider that answers after so long.
    pub(super) fn mock(latency_ms: u64, fail_every: u64) -> Result<Self, Failure> {
        let mut command = own()?;
        command.args(["bench", "gateway-mock", "--latency-ms", &latency_ms.to_string(), "--fail-every", &fail_every.to_string()]);
        Self::start(command, |line| line.trim().parse().ok())
    }

    /// The gateway before the provider at this port, with its records in this folder.
    pub(super) fn serve(folder: &Path, provider: u16, n_requests_max: Option<u32>) -> Result<Self, Failure> {
        let mut args = vec![format!("--model={MODEL}=http://127.0.0.1:{provider}/v1#{MODEL}")];
        args.extend(n_requests_max.map(|n_requests_max| format!("--max-requests={n_requests_max}")));
        Self::serve_with(folder, &args)
    }

    /// The gateway with these arguments and its records in this folder.
    pub(crate) fn serve_with(folder: &Path, args: &[String]) -> Result<Self, Failure> {
        let mut command = own()?;
        command.arg("--folder").arg(folder).args(["serve", "--quiet", "--address", "127.0.0.1:0"]).args(args);
        Self::start(command, |line| line.split("127.0.0.1:").nth(1)?.split('/').next()?.parse().ok())
    }

    /// The gateway of others before the provider at this port.
    pub(super) fn peer(peer: Peer, provider: u16, folder: &Path) -> Result<Self, Failure> {
        let script = folder.join("gateway_peers.py");
        std::fs::write(&script, SCRIPT).map_err(at_path(&script))?;
        let mut command = Command::new("python3");
        command.arg(&script).args([peer.name(), &provider.to_string(), MODEL]).arg(folder);
        Self::start(command, |line| line.trim().parse().ok())
    }

    fn start(mut command: Command, port: impl Fn(&str) -> Option<u16>) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(Failure::world)?;
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(|| Failure::bug("stdout is a pipe"))?);
        let mut line = String::new();
        loop {
            line.clear();
            let n_read = lines.read_line(&mut line).map_err(Failure::world)?;
            if n_read == 0 {
                drop(child.kill());
                drop(child.wait());
                return Err(Failure::user("a process of the measurement ended before it listened"));
            }
            if let Some(port) = port(&line) {
                // What it says later must not fill the pipe.
                std::thread::spawn(move || drop(lines.read_to_end(&mut Vec::new())));
                return Ok(Self { child, port });
            }
        }
    }

    /// Megabytes of memory that it holds now.
    pub(super) fn rss_mb(&self) -> f64 {
        rss_mb(self.child.id())
    }

    /// Looks at its memory until asked for the most.
    pub(super) fn watch_rss(&self) -> Watch {
        let (most_kb, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (pid, kept, over) = (self.child.id(), Arc::clone(&most_kb), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                kept.fetch_max((rss_mb(pid) * 1e3) as u64, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Watch { most_kb, is_over }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Who has started somebody else ends them when its stdin is closed.
        drop(self.child.stdin.take());
        for _ in 0..N_WAITS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The memory of a process over time.
pub(super) struct Watch {
    most_kb: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Watch {
    pub(super) fn most(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.most_kb.load(Ordering::Relaxed) as f64 / 1e3
    }
}

pub(crate) fn own() -> Result<Command, Failure> {
    Ok(Command::new(std::env::current_exe().map_err(Failure::world)?))
}

fn rss_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1e3
}
