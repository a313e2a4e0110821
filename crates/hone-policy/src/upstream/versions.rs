//! A server whose model changes while it serves: adapters are loaded into it by name, as vLLM does it.
//!
//! Every version has a name of its own. A name that is used again would meet what the server remembers of the old weights.

use super::client::Client;
use super::reply::shortened;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The most of a server's words that are read.
const WORDS_BYTES_MAX: usize = 4 << 10;
/// Loading an adapter reads it from a disk.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Why a server did not change its model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url} did not {what}: {why}")]
pub struct VersionError {
    url: String,
    what: String,
    why: String,
}

impl Client {
    /// The same server and limits, asked for another model.
    pub fn for_model(&self, model: impl Into<String>) -> Self {
        let mut other = self.clone();
        other.spec.model = model.into();
        other
    }

    /// Has the server load a PEFT folder, which it must be able to read, as a model of this name.
    pub async fn load_adapter(&self, name: &str, folder: &Path) -> Result<(), VersionError> {
        let body = json!({"lora_name": name, "lora_path": folder.to_string_lossy()});
        self.change("load_lora_adapter", &format!("load the adapter `{name}`"), &body).await
    }

    /// Has the server forget an adapter.
    pub async fn unload_adapter(&self, name: &str) -> Result<(), VersionError> {
        self.change("unload_lora_adapter", &format!("unload the adapter `{name}`"), &json!({"lora_name": name})).await
    }

    async fn change(&self, endpoint: &str, what: &str, body: &Value) -> Result<(), VersionError> {
        let url = self.endpoint(endpoint);
        let failed = |why: String| VersionError { url: url.to_string(), what: what.to_owned(), why: self.redact(&why) };
        let body = body.to_string();
        let headers = self.headers(&url, body.as_bytes()).map_err(|error| failed(error.to_string()))?;
        let request = self.http.post(url.clone()).headers(headers).header(CONTENT_TYPE, "application/json");
        let sent = request.timeout(TIME_MAX).body(body).send().await;
        let mut response = sent.map_err(|error| failed(error.without_url().to_string()))?;
        if response.status().is_success() {
            return Ok(());
        }
        let mut words = Vec::new();
        while let Ok(Some(part)) = response.chunk().await {
            words.extend_from_slice(&part);
            if words.len() > WORDS_BYTES_MAX {
                break;
            }
        }
        Err(failed(format!("{} {}", response.status().as_u16(), shortened(&String::from_utf8_lossy(&words)))))
    }

    fn endpoint(&self, name: &str) -> Url {
        let mut url = self.spec.base_url.clone();
        let path = format!("{}/{name}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }
}
