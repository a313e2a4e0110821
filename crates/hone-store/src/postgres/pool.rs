//! The connections that readers share, and a question that outlives the connection it was first asked on.

use super::connection::{CONNECT_TIMEOUT, Connection, PROMPT, Refused, place, silent};
use hone_trace::store::StoreError;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::error::Elapsed;
use tokio_postgres::Config;

const READERS_MAX: usize = 8;
/// After this long a server without room is asked again, though no reader is done.
const SLOT_PAUSE: Duration = Duration::from_secs(1);

/// Connections for reading, at most [`READERS_MAX`] at a time.
pub(crate) struct Pool {
    config: Config,
    idle: Mutex<Vec<(Connection, Slot)>>,
    permits: Semaphore,
    /// How many connections there are: idle, on loan, or being opened.
    n_slots: Arc<AtomicUsize>,
    returned: Notify,
}

/// Counts a connection of the pool for as long as it lives.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn new(n_slots: &Arc<AtomicUsize>) -> Self {
        n_slots.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(n_slots))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection on loan, which goes back to the pool when it is dropped.
pub(crate) struct Loan<'p> {
    connection: Option<(Connection, Slot)>,
    pool: &'p Pool,
    _permit: SemaphorePermit<'p>,
}

impl Deref for Loan<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection.as_ref().map(|(connection, _)| connection).expect("a loan has its connection until it is dropped")
    }
}

impl DerefMut for Loan<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().map(|(connection, _)| connection).expect("a loan has its connection until it is dropped")
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.pool.idle().extend(self.connection.take());
        self.pool.returned.notify_one();
    }
}

impl Loan<'_> {
    /// Closes the connection instead of giving it back.
    pub(crate) fn discard(mut self) {
        self.connection = None;
    }

    /// Whether somebody still answers on it.
    async fn is_alive(&self) -> bool {
        matches!(tokio::time::timeout(CONNECT_TIMEOUT, self.client.check_connection()).await, Ok(Ok(())))
    }
}

impl Pool {
    pub(crate) fn new(config: Config) -> Self {
        let permits = Semaphore::new(READERS_MAX);
        Self { config, idle: Mutex::default(), permits, n_slots: Arc::default(), returned: Notify::new() }
    }

    pub(crate) async fn take(&self) -> Result<Loan<'_>, StoreError> {
        let permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| StoreError::Unavailable { place: place(&self.config), reason: "the pool is closed".to_owned() })?;
        let began = tokio::time::Instant::now();
        loop {
            let alive = std::iter::from_fn(|| self.idle().pop()).find(|(connection, _)| !connection.client.is_closed());
            let opened = match alive {
                Some(connection) => Ok(connection),
                None => self.open().await,
            };
            match opened {
                Ok(connection) => return Ok(Loan { connection: Some(connection), pool: self, _permit: permit }),
                // The server gives no further one: whoever has one of ours, or is about to, will bring it back.
                Err(refused) if refused.no_slot && self.n_slots.load(Ordering::SeqCst) > 0 && began.elapsed() < PROMPT => {
                    let _ = tokio::time::timeout(SLOT_PAUSE, self.returned.notified()).await;
                }
                Err(refused) => return Err(refused.error),
            }
        }
    }

    async fn open(&self) -> Result<(Connection, Slot), Refused> {
        let slot = Slot::new(&self.n_slots);
        Ok((Connection::open(&self.config).await?, slot))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Connection, Slot)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks on a connection of the pool. Where that breaks the question is asked once more, on a fresh one; where no answer
/// comes in time the connection is dropped. A macro, because a closure cannot promise that what it returns may change threads.
macro_rules! ask {
    ($pool:expr, $limit:expr, |$connection:ident| $question:expr) => {{
        let mut attempt = $crate::postgres::pool::Attempt::new(&$pool, $limit);
        loop {
            let mut loan = attempt.take().await?;
            let $connection = &mut *loan;
            let answer = tokio::time::timeout($limit, async { $question }).await;
            if let Some(answer) = attempt.settle(loan, answer).await {
                break answer;
            }
        }
    }};
}
pub(crate) use ask;

/// A question on its way through [`ask`].
pub(crate) struct Attempt<'p> {
    pool: &'p Pool,
    limit: Duration,
    is_last: bool,
}

impl<'p> Attempt<'p> {
    pub(crate) fn new(pool: &'p Pool, limit: Duration) -> Self {
        Self { pool, limit, is_last: false }
    }

    pub(crate) async fn take(&self) -> Result<Loan<'p>, StoreError> {
        self.pool.take().await
    }

    /// The answer, unless the question is to be asked again.
    pub(crate) async fn settle<T>(
        &mut self,
        loan: Loan<'p>,
        answer: Result<Result<T, StoreError>, Elapsed>,
    ) -> Option<Result<T, StoreError>> {
        let (error, is_last) = match answer {
            Ok(Err(error @ StoreError::Unavailable { .. })) if !loan.is_alive().await => (error, self.is_last),
            Ok(answer) => return Some(answer),
            Err(_) => (silent(&place(&self.pool.config), self.limit), true),
        };
        // Those that nobody uses are no better than the one that broke.
        loan.discard();
        self.pool.idle().clear();
        self.is_last = true;
        is_last.then_some(Err(error))
    }
}
