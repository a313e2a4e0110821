//! One connection with its prepared statements, and what its errors mean.

use hone_trace::store::StoreError;
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, Statement, Transaction};

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After this long a connection counts as broken: it may be one that nobody answers on, and nobody closes.
pub(crate) const PROMPT: Duration = Duration::from_secs(30);
/// The same for what may rightly take long: many bytes, or all records of a table.
pub(crate) const PATIENT: Duration = Duration::from_secs(600);

/// A connection that remembers what it has prepared.
pub(crate) struct Connection {
    pub(crate) client: Client,
    statements: HashMap<&'static str, Statement>,
    place: String,
}

/// Why there is no connection.
pub(crate) struct Refused {
    pub(crate) error: StoreError,
    /// The server, or this role, has as many connections as it may have.
    pub(crate) no_slot: bool,
}

impl From<Refused> for StoreError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

impl Connection {
    pub(crate) async fn open(config: &Config) -> Result<Self, Refused> {
        let place = place(config);
        match tokio::time::timeout(CONNECT_TIMEOUT, Self::connect(config)).await {
            Ok(Ok(client)) => Ok(Self { client, statements: HashMap::new(), place }),
            Ok(Err(error)) => {
                let no_slot = error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS);
                Err(Refused { error: failure(&error, &place), no_slot })
            }
            Err(_) => Err(Refused { error: silent(&place, CONNECT_TIMEOUT), no_slot: false }),
        }
    }

    async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        // Ends with the client; what goes wrong on the wire is told to whoever waits for an answer.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        // A server may be set to acknowledge before it has written; ours must not. Transactions here are written for READ
        // COMMITTED, whatever the database's default. And every query here is written for
        // an index: right after a large import the statistics are of an almost empty table, and the planner would scan.
        // It also overrates how much there is to do, and compiling these small queries takes longer than running them.
        client
            .batch_execute(
                "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
                 SET default_transaction_isolation = 'read committed';
                 SET enable_seqscan = off;
                 SET enable_bitmapscan = off;
                 SET jit = off;",
            )
            .await?;
        Ok(client)
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

/// The answer, unless it does not come in time.
pub(crate) async fn within<T>(
    place: &str,
    limit: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(silent(place, limit)))
}

pub(crate) fn silent(place: &str, limit: Duration) -> StoreError {
    StoreError::Unavailable { place: place.to_owned(), reason: format!("no answer within {} seconds", limit.as_secs()) }
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
pub(crate) fn words(error: &tokio_postgres::Error) -> String {
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
