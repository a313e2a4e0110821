//! The URL of a database, read so that no part of a password can enter a message.
//!
//! A password with an `@` in it ends at that `@` for a parser, and what follows looks like the name of a host. Such a URL is
//! refused as a whole.

use hone_trace::store::StoreError;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// How long what was sent may stay without a sign that it has arrived.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);
/// After how much silence the other side is asked whether it is still there, and how often.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVES_MAX: u32 = 3;

const AMBIGUOUS: &str = "it has an @ where none can be: in a user name or a password write @ as %40, : as %3A, / as %2F, ? as %3F, \
                         # as %23 and % as %25";
const NO_TLS: &str = "its sslmode asks for TLS, and hone does not speak TLS to PostgreSQL: leave sslmode out, and use a private \
                      network or a local tunnel";

/// How to reach the database of this URL, or what is wrong with the URL: without a word of it, but for the names of options.
pub(crate) fn read(url: &str) -> Result<Config, StoreError> {
    if is_ambiguous(url) {
        return Err(refused(AMBIGUOUS.to_owned()));
    }
    let mut config: Config = url.parse().map_err(|error| refused(complaint(url, &error)))?;
    let has_at = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
    if config.get_hosts().iter().any(has_at) || config.get_dbname().is_some_and(|name| name.contains('@')) {
        return Err(refused(AMBIGUOUS.to_owned()));
    }
    if config.get_ssl_mode() == SslMode::Require {
        return Err(refused(NO_TLS.to_owned()));
    }
    config
        .application_name("hone")
        .tcp_user_timeout(UNACKNOWLEDGED)
        .keepalives(true)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVES_MAX);
    Ok(config)
}

/// Whether more than one `@` stands in it, or one behind a question mark: an option with one can be written with %40 as well.
fn is_ambiguous(url: &str) -> bool {
    let in_options = || url.split_once('?').is_some_and(|(_, options)| options.contains('@'));
    is_url(url) && (url.matches('@').count() > 1 || in_options())
}

fn is_url(text: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme))
}

fn complaint(url: &str, error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    // The parser's own words name an option, and never a value.
    let said = error.source().map(ToString::to_string).unwrap_or_default();
    if said.contains("`sslmode`") {
        NO_TLS.to_owned()
    } else if said.starts_with("invalid value for option") {
        said
    } else if said.starts_with("unknown option") && is_url(url) {
        // In the form with spaces it may be the second word of a password.
        said
    } else {
        "it does not read as postgres://user:password@host:port/database".to_owned()
    }
}

fn refused(reason: String) -> StoreError {
    StoreError::Invalid { what: "the database URL".to_owned(), reason }
}
