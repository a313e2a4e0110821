//! Places for a benchmark to work in that are gone afterwards: a folder on the disk of the store, and a
//! database of its own on the configured server.

use crate::context::Context;
use crate::failure::{Failure, at_path};
use hone_store::Place;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::{Client, NoTls};

/// A folder on the disk on which the store is, removed when this is dropped.
pub(super) fn folder(context: &Context<'_>) -> Result<tempfile::TempDir, Failure> {
    let beside = context.settings.folder.parent().filter(|parent| parent.is_dir()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".hone-bench-").tempdir_in(beside).map_err(at_path(beside))
}

/// A database on the configured server; call [`Database::remove`] in the end.
pub(super) struct Database {
    client: Client,
    name: String,
    pub(super) url: String,
}

impl Database {
    /// `None` when no server is configured.
    pub(super) async fn create(context: &Context<'_>) -> Result<Option<Self>, Failure> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Place::Postgres(url) = &context.settings.place else { return Ok(None) };
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(Failure::world)?;
        tokio::spawn(connection);
        let name = format!("hone_bench_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.map_err(Failure::world)?;
        let Some(url) = with_database(url, &name) else {
            return Err(Failure::config("the database URL names no host"));
        };
        Ok(Some(Self { client, name, url }))
    }

    pub(super) fn place(&self) -> Place {
        Place::Postgres(self.url.clone())
    }

    pub(super) async fn remove(self) -> Result<(), Failure> {
        self.client.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await.map_err(Failure::world)
    }
}

/// The same server, another database.
fn with_database(url: &str, name: &str) -> Option<String> {
    let (server, options) = url.split_once('?').map_or((url, None), |(server, options)| (server, Some(options)));
    let host = server.find("://")? + 3;
    let end = server[host..].find('/').map_or(server.len(), |slash| host + slash);
    let options = options.map_or(String::new(), |options| format!("?{options}"));
    Some(format!("{}/{name}{options}", &server[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_a_url_is_replaced() {
        let check = |url: &str, expected: &str| assert_eq!(with_database(url, "b").as_deref(), Some(expected));
        check("postgres://u:p@h:1/a", "postgres://u:p@h:1/b");
        check("postgres://u:p@h:1", "postgres://u:p@h:1/b");
        check("postgres://u@h/a?sslmode=disable", "postgres://u@h/b?sslmode=disable");
    }
}
