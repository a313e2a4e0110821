//! Following the keys of the store: one that is added opens the server, and one that is revoked opens nothing, without a restart.
//!
//! The log says that something has changed, and the documents say what there is. A server that asks for keys never stops asking: when the
//! last one is revoked, nobody gets in.

use super::{Damaged, N_PAGE, STREAM, read};
use crate::access::Access;
use crate::events::{News, Place};
use crate::lookout::Grown;
use crate::server::Gateway;
use hone_trace::store::StoreError;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Whatever went wrong with the store is tried again after this.
const RETRY: Duration = Duration::from_millis(500);

/// Who follows the keys.
pub(crate) struct Follower {
    gateway: Gateway,
    place: Place,
    /// Whether something has changed that was not acted on yet.
    is_due: bool,
}

impl Follower {
    pub(crate) fn new(gateway: Gateway) -> Self {
        Self { gateway, place: Place::default(), is_due: false }
    }

    /// Reads all that was written so far.
    pub(crate) async fn catch_up(&mut self) {
        while let Err(error) = self.look().await {
            self.gateway.log(format!("the keys cannot be read: {error}"));
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Follows the keys for ever.
    pub(crate) async fn run(mut self, mut grown: Grown) {
        loop {
            grown.wait().await;
            self.catch_up().await;
        }
    }

    /// Reads the lines that are new, and the keys where there were any.
    async fn look(&mut self) -> Result<(), StoreError> {
        let store = self.gateway.record().shared_store();
        loop {
            let before = self.place.clone();
            if let News::Replaced = self.place.news(&*store, STREAM, N_PAGE, |text| self.gateway.log(text)).await? {
                self.gateway.log("the store was replaced: its keys are read anew".into());
            }
            if self.place == before {
                break;
            }
            self.is_due = true;
        }
        if self.is_due {
            let keys = read(&*store).await?;
            self.act(keys);
            self.is_due = false;
        }
        Ok(())
    }

    /// Lets those in who have a live key. One that cannot be read opens nothing, but there is one.
    fn act(&self, keys: Vec<Result<super::Key, Damaged>>) {
        let n_keys = keys.len();
        let (mut live, mut n_revoked) = (HashMap::new(), 0);
        for key in keys {
            match key {
                Ok(key) if key.is_live() => drop(live.insert(key.hash, key.identity())),
                Ok(_) => n_revoked += 1,
                Err(damaged) => self.gateway.log(damaged.to_string()),
            }
        }
        let is_open = matches!(*self.gateway.access(), Access::Open(_));
        if is_open && n_revoked == n_keys {
            return;
        }
        match (is_open, live.is_empty()) {
            (_, true) => self.gateway.log("no key is left: nobody is let in until one is added".into()),
            (true, false) => self.gateway.log("there is a key: from now on requests need one".into()),
            (false, false) => {}
        }
        let names: HashSet<String> = live.values().map(|identity| identity.name.clone()).collect();
        self.gateway.let_in(Access::Keys(live));
        self.gateway.rates().keep(|name| names.contains(name));
    }
}
