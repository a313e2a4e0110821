//! Adapters as records: a PEFT folder goes into the store as one blob under the hash of its weights, and comes out as a folder again.
//!
//! The blob is a line with the adapter's config and then its weights, byte for byte.

use crate::failure::{Failure, at_path};
use crate::model::Opened;
use hone_engine::config::ModelConfig;
use hone_engine::load::WeightSource;
use hone_engine::machine::Machine;
use hone_engine::peft;
use hone_gateway::{Adapters, VoiceMade};
use hone_policy::local::{Local, Voice};
use hone_trace::store::{Document, Kind, Store, Write};
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

/// The folder of an adapter, written below `cache` unless it is there.
pub(crate) async fn fetch(id: AdapterId, store: &dyn Store, cache: &Path) -> Result<PathBuf, String> {
    let folder = cache.join(id.to_string());
    if folder.join(CONFIG).is_file() {
        return Ok(folder);
    }
    let missing = || format!("adapter {id} is not on the record");
    let document = store.document(Kind::Adapter, &id.to_string()).await.map_err(|error| error.to_string())?;
    let adapter: Adapter = document.ok_or_else(missing)?.word().map_err(|error| error.to_string())?;
    let bytes = store.blob(adapter.blob).await.map_err(|error| error.to_string())?.ok_or_else(missing)?;
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| format!("the blob of adapter {id} is damaged"))?;
    let (config, weights) = (&bytes[..end], &bytes[end + 1..]);
    if AdapterId::of(weights) != id {
        return Err(format!("the blob of adapter {id} is damaged"));
    }
    // The config comes last: a folder that has one is whole.
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join(WEIGHTS), weights))
        .and_then(|()| fs::write(folder.join("partial"), config))
        .and_then(|()| fs::rename(folder.join("partial"), folder.join(CONFIG)));
    written.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
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
            let dressed = tokio::task::spawn_blocking(move || {
                let weights = peft::load(&folder, &config).map_err(|error| error.to_string())?;
                local.with_adapter(weights, adapter).map_err(|error| error.to_string())
            });
            let dressed = dressed.await.map_err(|error| error.to_string())??;
            Ok(Arc::new(dressed) as Arc<dyn Voice>)
        })
    }
}
