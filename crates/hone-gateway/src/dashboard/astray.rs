//! Addresses under `/dashboard` that lead nowhere: a page says so and shows the way back, and a slash too many is taken away.

use super::page::{Turned, elsewhere};
use super::query::is_text;
use super::session;
use crate::access::Role;
use crate::error::Refused;
use crate::server::Gateway;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Leads a browser to the address that was meant, before anything looks at it.
pub(crate) async fn led(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let uri = request.uri();
    if !is_ours(uri) || !request.method().is_safe() {
        return next.run(request).await;
    }
    match uri.path().trim_end_matches('/') {
        meant if meant.len() < uri.path().len() => {
            let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            elsewhere(&format!("{meant}{query}"))
        }
        path if !is_text(path) => refused(&gateway, request.headers(), Refused::NoPath),
        _ => next.run(request).await,
    }
}

/// What somebody is told who asks for something that is not there: people a page, programs what is theirs.
pub(crate) fn lost(gateway: &Gateway, uri: &Uri, headers: &HeaderMap, why: Refused) -> Response {
    if is_ours(uri) { refused(gateway, headers, why) } else { why.into_response() }
}

fn is_ours(uri: &Uri) -> bool {
    uri.path().strip_prefix("/dashboard").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The page that says why, with the way around for who may look.
fn refused(gateway: &Gateway, headers: &HeaderMap, why: Refused) -> Response {
    let viewer = session::viewer(gateway, headers).ok().filter(|viewer| viewer.identity.role >= Role::Read);
    match viewer {
        Some(viewer) => Turned::Known(Box::new(viewer), why).into_response(),
        None => Turned::Refused(why).into_response(),
    }
}
