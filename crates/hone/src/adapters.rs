//! Adapters as records: a PEFT folder goes into the store as one blob under the hash of its weights, and comes out as a folder again.
//!
//! The blob is a line with the adapter's config and then its weights, byte for byte.

use crate::durable;
use crate::failure::{Failure, at_path};
use crate::model::Opened;
use hone_engine::config::ModelConfig;
use hone_engine::load::WeightSource;
use hone_engine::machine::Machine;
use hone_engine::peft;
use hone_gateway::{Adapters, NoVoice, VoiceMade};
use hone_policy::local::{Local, Voice};
use hone_trace::store::{Document, Kind, Store, StoreError, Write};
use hone_trace::{Adapter, AdapterId, Tenant, Time, V1};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
/// The largest adapter.
const BYTES_MAX: u64 = 2 << 30;

/// Keeps the adapter of a PEFT folder, and says what it is called from now on.
pub(crate) async fn keep(
    folder: &Path,
    base: &Opened,
    store: &dyn Store,
    tenant: &Tenant,
    now: Time,
) -> Result<AdapterId, Failure> {
    // What cannot be loaded must not be deployed.
    peft::load(folder, base.weights.config())
        .map_err(|error| Failure::user(error).hint("--adapter is a PEFT folder, such as .hone/runs/RUN/best"))?;
    let (config, weights) = (folder.join(CONFIG), folder.join(WEIGHTS));
    if fs::metadata(&weights).map_err(at_path(&weights))?.len() > BYTES_MAX {
        return Err(Failure::user(format_args!("{} is larger than 2 GiB", weights.display())));
    }
    let config = fs::read(&config).map_err(at_path(&config))?;
    let config: serde_json::Value = serde_json::from_slice(&config).map_err(Failure::world)?;
    let weights = fs::read(&weights).map_err(at_path(&weights))?;
    let id = AdapterId::of(&weights);
    let mut bytes = config.to_string().into_bytes();
    bytes.push(b'\n');
    bytes.extend(weights);
    let blob = store.put_blob(bytes).await?;
    let adapter = Adapter { v: V1, id, tenant: tenant.clone(), at: now, base: base.name.clone(), run: None, data: None, blob };
    // The same adapter again is another time and nothing else: what was written first stands.
    store.put(vec![Write::Document(Document::of(&adapter, 0, tenant.clone(), now))]).await?;
    Ok(id)
}

/// The folder of an adapter, written below `cache` unless it is there and whole.
pub(crate) async fn fetch(id: AdapterId, store: &dyn Store, cache: &Path) -> Result<PathBuf, NoVoice> {
    let folder = cache.join(id.to_string());
    let there = folder.clone();
    if off_thread(move || is_whole(&there, id)).await? {
        return Ok(folder);
    }
    let missing = || format!("adapter {id} is not on the record");
    let document = store.document(Kind::Adapter, &id.to_string()).await?;
    let adapter: Adapter = document.ok_or_else(missing)?.word()?;
    let bytes = store.blob(adapter.blob).await?.ok_or_else(missing)?;
    let laid_down = off_thread(move || -> Result<PathBuf, NoVoice> {
        let damaged = || format!("the blob of adapter {id} is damaged");
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let (config, weights) = (&bytes[..end], &bytes[end + 1..]);
        if AdapterId::of(weights) != id {
            return Err(damaged().into());
        }
        lay_down(&folder, id, config, weights).map_err(|failure| match failure.is_full_disk() {
            // There may be room the next time.
            true => NoVoice::Store(StoreError::Full(folder.display().to_string())),
            false => NoVoice::Unable(format!("{:#}", failure.cause)),
        })?;
        Ok(folder)
    });
    laid_down.await?
}

/// Files are large, and whoever waits for them must not keep others from being answered.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

/// Whether the weights are those that the folder is named after, beside a config that can be read.
fn is_whole(folder: &Path, id: AdapterId) -> bool {
    let is_config = |bytes: Vec<u8>| serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&bytes).is_ok();
    fs::read(folder.join(CONFIG)).is_ok_and(is_config)
        && fs::read(folder.join(WEIGHTS)).is_ok_and(|weights| AdapterId::of(&weights) == id)
}

/// Writes the folder of an adapter, in the place of a damaged one.
fn lay_down(folder: &Path, id: AdapterId, config: &[u8], weights: &[u8]) -> Result<(), Failure> {
    let write = || {
        durable::folder(folder, |partial| {
            durable::write(&partial.join(WEIGHTS), weights)?;
            durable::write(&partial.join(CONFIG), config)
        })
    };
    match write() {
        // Another process may have brought the same adapter meanwhile.
        Err(_) if is_whole(folder, id) => Ok(()),
        Err(_) if folder.exists() => {
            fs::remove_dir_all(folder).map_err(at_path(folder))?;
            write()
        }
        written => written,
    }
}

/// Models of this process that take adapters.
pub(crate) struct Wardrobe {
    pub(crate) models: BTreeMap<String, (Arc<Local<Machine>>, ModelConfig)>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cache: PathBuf,
}

impl Adapters for Wardrobe {
    fn voice<'a>(&'a self, model: &'a str, adapter: AdapterId) -> VoiceMade<'a> {
        Box::pin(async move {
            let found = self.models.get(model);
            let (local, config) =
                found.ok_or_else(|| format!("`{model}` is not a model of this machine, and takes no adapter"))?;
            let folder = fetch(adapter, &*self.store, &self.cache).await?;
            let (local, config) = (Arc::clone(local), config.clone());
            let dressed = off_thread(move || {
                let weights = peft::load(&folder, &config).map_err(|error| error.to_string())?;
                local.with_adapter(weights, adapter).map_err(|error| error.to_string())
            });
            let dressed = dressed.await??;
            Ok(Arc::new(dressed) as Arc<dyn Voice>)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_store::{Options, Place};

    const CONFIG_TEXT: &[u8] = b"{\"r\":8}";
    const WEIGHTS_TEXT: &[u8] = b"not really weights";

    /// A store in this folder, with an adapter.
    async fn stored(folder: &Path) -> (Arc<dyn hone_store::Database>, Adapter) {
        let store = hone_store::open(&Place::Folder(folder.join("store")), &Options::default()).await.expect("a store");
        let (config, weights) = (CONFIG_TEXT, WEIGHTS_TEXT);
        let (id, tenant, now) = (AdapterId::of(weights), Tenant::default(), crate::clock::now());
        let blob = store.put_blob([config, b"\n", weights].concat()).await.expect("a blob");
        let adapter =
            Adapter { v: V1, id, tenant: tenant.clone(), at: now, base: "small".to_owned(), run: None, data: None, blob };
        store.put(vec![Write::Document(Document::of(&adapter, 0, tenant, now))]).await.expect("a record");
        (store, adapter)
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_told_from_an_adapter_that_is_not_there() {
        let desk = tempfile::tempdir().expect("a folder");
        let (store, adapter) = stored(desk.path()).await;
        let hex = adapter.blob.to_string();
        let blob = desk.path().join("store/blobs").join(&hex[..2]).join(&hex[2..]);
        let cache = desk.path().join("adapters");
        let fetched = async || fetch(adapter.id, &*store, &cache).await;
        fs::remove_file(&blob).expect("no blob");
        assert!(matches!(fetched().await, Err(NoVoice::Unable(why)) if why.ends_with("is not on the record")));
        fs::create_dir(&blob).expect("a folder that cannot be read like a file");
        assert!(matches!(fetched().await, Err(NoVoice::Store(_))));
        fs::remove_dir(&blob).expect("no folder");
        fs::write(&blob, b"something else").expect("a damaged blob");
        assert!(matches!(fetched().await, Err(NoVoice::Unable(why)) if why.ends_with("is damaged")));
        fs::write(&blob, [CONFIG_TEXT, b"\n", WEIGHTS_TEXT].concat()).expect("the blob");
        assert!(fetched().await.is_ok());
    }

    #[tokio::test]
    async fn a_damaged_folder_is_fetched_again() {
        let desk = tempfile::tempdir().expect("a folder");
        let (store, adapter) = stored(desk.path()).await;
        let (id, config, weights) = (adapter.id, CONFIG_TEXT, WEIGHTS_TEXT);
        let cache = desk.path().join("adapters");
        let check = async || {
            let folder = fetch(id, &*store, &cache).await.expect("an adapter");
            assert_eq!(fs::read(folder.join(WEIGHTS)).expect("weights"), weights);
            assert_eq!(fs::read(folder.join(CONFIG)).expect("a config"), config);
            assert_eq!(fs::read_dir(&cache).expect("folders").count(), 1, "nothing else stays");
            folder
        };
        let folder = check().await;
        for name in [WEIGHTS, CONFIG] {
            fs::write(folder.join(name), "").expect("an emptied file");
            check().await;
            fs::remove_file(folder.join(name)).expect("no file");
            check().await;
        }
    }
}
