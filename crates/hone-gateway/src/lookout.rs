//! Noticing that the store was put in another's place, by a restore for instance, whatever else is followed.
//!
//! Every server says on the record that it starts, so that there is a line in any store that a server has written to. Where the last
//! such line no longer stands where it stood, what is remembered of the store is forgotten, and spans are read anew.
//!
//! A back-up that was made after the last start has that line at the same number; of such a one nothing is noticed here.

use crate::events::{News, Place};
use crate::server::Gateway;
use hone_trace::store::StoreError;
use std::time::Duration;

/// The stream of the store's events in which servers tell of themselves.
pub const STREAM: &str = "gateway";

/// How long nobody looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Whatever went wrong with the store is tried again after this.
const RETRY: Duration = Duration::from_millis(500);
/// Lines that are read at once.
const N_LINES: u32 = 1000;

/// Who looks out.
pub(crate) struct Lookout {
    gateway: Gateway,
    place: Place,
}

impl Lookout {
    pub(crate) fn new(gateway: Gateway) -> Self {
        Self { gateway, place: Place::default() }
    }

    /// Looks out for ever.
    pub(crate) async fn run(mut self) {
        loop {
            if let Err(error) = self.look().await {
                self.gateway.log(format!("it cannot be seen whether the store was replaced: {error}"));
                tokio::time::sleep(RETRY).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn look(&mut self) -> Result<(), StoreError> {
        let gateway = &self.gateway;
        loop {
            match self.place.news(gateway.record().store(), STREAM, N_LINES, |text| gateway.log(text)).await? {
                News::Events(lines) if lines.is_empty() => return Ok(()),
                News::Events(_) => {}
                News::Replaced => {
                    gateway.log("the store was replaced: nothing that was known of it is relied on".into());
                    gateway.record().forget();
                    gateway.spans().begin_anew();
                }
            }
        }
    }
}
