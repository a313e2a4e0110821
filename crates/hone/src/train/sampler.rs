//! Samples from a server: every version of the adapter is loaded into it under a name of its own.
//!
//! The server must be able to read the folder of the run. It tells its tokens and their log-probs; how far those are from the
//! trainer's is measured in every step, and corrected.

use crate::failure::{Failure, at_path};
use crate::learner::Learner;
use hone_policy::upstream::{Client, Sampling, Upstream};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Versions that the server holds at once: the present one, and the one before, whose samples may be under way.
const N_LOADED_MAX: usize = 2;

/// A server that samples.
pub(super) struct Sampler {
    client: Client,
    runtime: Handle,
    run: String,
    folder: PathBuf,
    temperature: f64,
    /// Names and folders of the versions that the server holds, oldest first.
    loaded: VecDeque<(String, PathBuf)>,
}

impl Sampler {
    pub(super) fn new(client: Client, runtime: Handle, run: &str, folder: &Path, temperature: f64) -> Result<Self, Failure> {
        let folder = folder.join("versions");
        fs::create_dir_all(&folder).map_err(at_path(&folder))?;
        // The server has another working folder.
        let folder = folder.canonicalize().map_err(at_path(&folder))?;
        Ok(Self { client, runtime, run: run.to_owned(), folder, temperature, loaded: VecDeque::new() })
    }

    /// The adapter as it is now, as a policy.
    pub(super) fn policy(&mut self, learner: &mut Learner, step: u64) -> Result<Upstream, Failure> {
        let folder = self.folder.join(step.to_string());
        let hash = learner.save_adapter(&folder)?;
        let name = format!("{}@{step}-{}", self.run, &hash[..8]);
        if self.loaded.back().is_none_or(|(last, _)| *last != name) {
            self.load(&name, &folder)?;
            self.loaded.push_back((name.clone(), folder));
        }
        while self.loaded.len() > N_LOADED_MAX {
            let Some((old, folder)) = self.loaded.pop_front() else { break };
            self.runtime.block_on(self.client.unload_adapter(&old)).map_err(Failure::world)?;
            // What cannot be removed only takes room.
            let _ = fs::remove_dir_all(folder);
        }
        let sampling = Sampling { temperature: Some(self.temperature), token_ids: true, ..Sampling::default() };
        Upstream::new(Arc::new(self.client.for_model(name)), sampling, self.runtime.clone()).map_err(Failure::user)
    }

    fn load(&self, name: &str, folder: &Path) -> Result<(), Failure> {
        match self.runtime.block_on(self.client.load_adapter(name, folder)) {
            // A run that goes on finds what it had loaded: the name has the hash of the weights.
            Err(error) if error.to_string().contains("already") => Ok(()),
            Err(error) => Err(Failure::world(error)
                .hint("vLLM loads adapters when it is started with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True")),
            Ok(()) => Ok(()),
        }
    }
}
