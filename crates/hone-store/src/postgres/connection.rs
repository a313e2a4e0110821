//! One connection with its prepared statements, and the pool that readers take theirs from.

use hone_trace::store::StoreError;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, Statement, Transaction};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READERS_MAX: usize = 8;

/// A connection that remembers what it has prepared.
pub(crate) struct Connection {
    pub(crate) client: Client,
    statements: HashMap<&'static str, Statement>,
    place: String,
}

impl Connection {
    pub(crate) async fn open(config: &Config) -> Result<Self, StoreError> {
        let place = place(config);
        let failed = |error: tokio_postgres::Error| failure(&error, &place);
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, config.connect(NoTls)).await;
        let (client, connection) = connecting
            .map_err(|_| StoreError::Unavailable { place: place.clone(), reason: "no answer within 10 seconds".to_owned() })?
            .map_err(failed)?;
        // Ends with the client; what goes wrong on the wire is told to whoever waits for an answer.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        // A server may be set to acknowledge before it has written; ours must not. And every query here is written for
        // an index: right after a large import the statistics are of an almost empty table, and the planner would scan.
        // It also overrates how much there is to do, and compiling these small queries takes longer than running them.
        client
            .batch_execute(
                "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
                 SET enable_seqscan = off;
                 SET enable_bitmapscan = off;
                 SET jit = off;",
            )
            .await
            .map_err(failed)?;
        Ok(Self { client, statements: HashMap::new(), place })
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The statement for this text, prepared once per connection.
    pub(crate) async fn prepare(&mut self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) async fn begin(&mut self) -> Result<Transaction<'_>, StoreError> {
        let place = self.place.clone();
        self.client.transaction().await.map_err(|error| failure(&error, &place))
    }
}

/// Connections for reading, at most [`READERS_MAX`] at a time.
pub(crate) struct Pool {
    config: Config,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

/// A connection on loan, which goes back to the pool when it is dropped.
pub(crate) struct Loan<'p> {
    connection: Option<Connection>,
    pool: &'p Pool,
    _permit: SemaphorePermit<'p>,
}

impl Deref for Loan<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("a loan has its connection until it is dropped")
    }
}

impl DerefMut for Loan<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a loan has its connection until it is dropped")
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.pool.idle().extend(self.connection.take());
    }
}

impl Pool {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, idle: Mutex::default(), permits: Semaphore::new(READERS_MAX) }
    }

    pub(crate) async fn take(&self) -> Result<Loan<'_>, StoreError> {
        let permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| StoreError::Unavailable { place: place(&self.config), reason: "the pool is closed".to_owned() })?;
        let alive = std::iter::from_fn(|| self.idle().pop()).find(|connection| !connection.client.is_closed());
        let connection = match alive {
            Some(connection) => connection,
            None => Connection::open(&self.config).await?,
        };
        Ok(Loan { connection: Some(connection), pool: self, _permit: permit })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a database is, without its password.
pub(crate) fn place(config: &Config) -> String {
    use tokio_postgres::config::Host;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or("postgres");
    format!("postgres://{user}@{host}:{port}/{}", config.get_dbname().unwrap_or(user))
}

/// An error of the server in the words of the seam.
pub(crate) fn failure(error: &tokio_postgres::Error, place: &str) -> StoreError {
    match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => StoreError::Full(place.to_owned()),
        Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::Damaged { what: place.to_owned(), reason: words(error) }
        }
        _ => StoreError::Unavailable { place: place.to_owned(), reason: words(error) },
    }
}

/// The server's own sentence where there is one: the library's says little more than `db error`.
fn words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => {
            use std::error::Error as _;
            error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        }
    }
}

/// Whether the same thing may well succeed when tried again.
pub(crate) fn passing(error: &tokio_postgres::Error) -> bool {
    let retryable = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
    ];
    error.is_closed() || error.code().is_none() || error.code().is_some_and(|code| retryable.contains(code))
}
