//! Noticing that the log has grown, or that the store was put in another's place, by a restore for instance, whatever else is followed.
//!
//! One question at a time, ten in a second, asks for the last line and for what stands behind it. Whoever follows a stream is told when
//! there is something, so that a server to which nothing happens asks for nothing else.
//!
//! Every server says on the record that it starts, so that there is a line in any store that a server has written to. Where the last
//! line no longer stands where it stood, what is remembered of the store is forgotten, and spans are read anew.
//!
//! A back-up that was made after the last line has it at the same number; of such a one nothing is noticed here.

use crate::events::Line;
use crate::server::Gateway;
use hone_trace::store::StoreError;
use std::time::Duration;
use tokio::sync::watch;

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
    /// The last line of the log, as far as it was read.
    last: Option<Line>,
    /// Whether what servers said of themselves was read, which stands near the end of a log that may be long.
    has_begun: bool,
    tell: watch::Sender<()>,
}

/// Who is told that the log has grown.
#[derive(Clone)]
pub(crate) struct Grown(watch::Receiver<()>);

impl Grown {
    /// Waits until there may be something new.
    pub(crate) async fn wait(&mut self) {
        // Should nobody look out any more, everybody looks alone.
        if self.0.changed().await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Lookout {
    /// Who looks out, and how others are told.
    pub(crate) fn new(gateway: Gateway) -> (Self, Grown) {
        let (tell, told) = watch::channel(());
        (Self { gateway, last: None, has_begun: false, tell }, Grown(told))
    }

    /// Looks out for ever.
    pub(crate) async fn run(mut self) {
        loop {
            let looked = self.look().await;
            // Where nothing can be read, the others find out for themselves.
            if !matches!(looked, Ok(false)) {
                self.tell.send_replace(());
            }
            if let Err(error) = looked {
                self.gateway.log(format!("it cannot be seen whether the store was replaced: {error}"));
                tokio::time::sleep(RETRY).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether there is anything that was not there before.
    async fn look(&mut self) -> Result<bool, StoreError> {
        let gateway = self.gateway.clone();
        let store = gateway.record().store();
        let mut is_new = false;
        loop {
            if !self.has_begun {
                self.last = store.event_ids(Some(STREAM), 0, N_LINES).await?.last().copied();
                (self.has_begun, is_new) = (true, true);
            }
            let before = self.last.map_or(0, |(number, _)| number.saturating_sub(1));
            let lines = store.event_ids(None, before, N_LINES).await?;
            if self.last.is_some() && lines.first() != self.last.as_ref() {
                gateway.log("the store was replaced: nothing that was known of it is relied on".into());
                gateway.record().forget();
                gateway.spans().begin_anew();
                (self.last, self.has_begun) = (None, false);
                continue;
            }
            let last = lines.last().copied();
            if last == self.last {
                return Ok(is_new);
            }
            (self.last, is_new) = (last, true);
        }
    }
}
