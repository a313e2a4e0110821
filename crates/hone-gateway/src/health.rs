//! Whether the server lives, and whether it can work.

use crate::server::Gateway;
use axum::extract::State;
use axum::http::StatusCode;
use std::time::Duration;

/// How long the store may take to say that it is there.
const STORE_TIME_MAX: Duration = Duration::from_secs(2);

/// It lives when it says so.
pub(crate) async fn alive() -> &'static str {
    "ok"
}

/// It can work when the store answers.
pub(crate) async fn ready(State(gateway): State<Gateway>) -> (StatusCode, &'static str) {
    match tokio::time::timeout(STORE_TIME_MAX, gateway.record().store().events(Some("ready"), 0, 1)).await {
        Ok(Ok(_)) => (StatusCode::OK, "ready"),
        Ok(Err(_)) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer"),
    }
}
