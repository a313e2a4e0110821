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

/// It can work when the store answers, and takes what it is given.
pub(crate) async fn ready(State(gateway): State<Gateway>) -> (StatusCode, &'static str) {
    let works = async {
        let answers = gateway.record().store().events(Some("ready"), 0, 1).await.is_ok();
        (answers, answers && gateway.can_record().await.is_ok())
    };
    match tokio::time::timeout(STORE_TIME_MAX, works).await {
        Ok((_, true)) => (StatusCode::OK, "ready"),
        Ok((true, false)) => (StatusCode::SERVICE_UNAVAILABLE, "the store takes nothing: is its disk full?"),
        Ok((false, _)) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer"),
    }
}
