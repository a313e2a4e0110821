//! What every command works with: the settings, the printer, and the store when it is asked for.

use crate::cli::Cli;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::{Settings, Variables};
use hone_store::{Database, Place};
use std::path::Path;
use std::sync::Arc;

/// The database inside the folder of a store.
pub(crate) const DATABASE_FILE: &str = "hone.db";

/// How records come into a store.
pub(crate) const TO_BEGIN: &str = "import some with `hone trace import FILE`, or name another folder with `--folder`";

/// What every command works with.
pub(crate) struct Context<'a> {
    pub(crate) settings: Settings,
    pub(crate) printer: &'a Printer,
    pub(crate) variables: &'a Variables,
}

impl<'a> Context<'a> {
    pub(crate) fn load(cli: &Cli, variables: &'a Variables, printer: &'a Printer) -> Result<Self, Failure> {
        let here = std::env::current_dir().map_err(|error| Failure::world(error).context("the current folder"))?;
        let settings = Settings::load(&cli.everywhere.flags(), variables, &here)?;
        Ok(Self { settings, printer, variables })
    }

    /// Runs what has to wait for a database or another machine.
    pub(crate) fn wait<T>(&self, command: impl AsyncFnOnce(&Self) -> Result<T, Failure>) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.map_err(Failure::world)?.block_on(command(self))
    }

    /// The store, made if it is not there: for commands that write.
    pub(crate) async fn store(&self) -> Result<Arc<dyn Database>, Failure> {
        Ok(hone_store::open(&self.settings.place, &self.settings.options).await?)
    }

    /// The store, or the way to records where there are none yet.
    pub(crate) async fn store_to_read(&self) -> Result<Arc<dyn Database>, Failure> {
        self.store_if_there().await?.ok_or_else(|| Failure::user(self.no_records()).hint(TO_BEGIN))
    }

    /// What is said where there is no store yet.
    pub(crate) fn no_records(&self) -> String {
        format!("there are no records in {} yet", self.settings.folder.display())
    }

    /// The store, if it is there: a look around leaves no database behind.
    pub(crate) async fn store_if_there(&self) -> Result<Option<Arc<dyn Database>>, Failure> {
        match &self.settings.place {
            Place::Folder(folder) if !has_database(folder) => Ok(None),
            _ => self.store().await.map(Some),
        }
    }
}

/// Whether a store was opened in this folder before.
pub(crate) fn has_database(folder: &Path) -> bool {
    folder.join(DATABASE_FILE).exists()
}
