//! Signing in with a key, and out again.

use super::html::{Html, html};
use super::page::{For, Page, Place, Turned, elsewhere};
use super::query::Query;
use super::session;
use crate::access::Access;
use crate::error::Refused;
use crate::origin::is_same_origin;
use crate::route::read_up_to;
use crate::server::Gateway;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;

/// Bytes of a form.
pub(super) const FORM_BYTES_MAX: usize = 16 << 10;

pub(crate) async fn sign_in(State(gateway): State<Gateway>, RawQuery(query): RawQuery) -> Response {
    let query = Query::read(query.as_deref().unwrap_or_default());
    let back = back(query.get("back"));
    if matches!(*gateway.access(), Access::Open(_)) {
        return elsewhere(&back);
    }
    Page::new(Place::Outside, "Sign in", form(&back, query.get("wrong").is_some())).shown(None)
}

fn form(back: &str, is_wrong: bool) -> Html {
    let mut page = html!("<form class=\"door\" method=\"post\" action=\"/dashboard/sign-in\"><h1>hone</h1>");
    html!(page, "<p>Sign in with an API key that may read: <code>hone key add NAME --role read</code> makes one.</p>");
    if is_wrong {
        html!(page, "<p class=\"error\" role=\"alert\">This key is not known here, or may not look.</p>");
    }
    html!(page, "<input type=\"hidden\" name=\"back\" value=\"{}\"><label>API key", back);
    html!(
        page,
        "<input type=\"password\" name=\"key\" autocomplete=\"off\" required autofocus></label><button class=\"strong\">Sign in</button></form>"
    );
    page
}

pub(crate) async fn signed_in(State(gateway): State<Gateway>, headers: HeaderMap, body: Body) -> Result<Response, Turned> {
    if !is_same_origin(&headers) {
        return Err(Refused::Elsewhere.into());
    }
    let sent = form_of(&gateway, body).await?;
    let back = back(sent.get("back"));
    let begun = session::begin(&gateway, sent.get("key").unwrap_or_default());
    let cookie = match begun {
        Ok(cookie) => cookie,
        Err(refused @ (Refused::Key | Refused::Role)) => {
            gateway.metrics().refused(&refused);
            let query = Query::default().with("back", Some(&back)).with("wrong", Some("1"));
            return Ok(elsewhere(&format!("/dashboard/sign-in{query}")));
        }
        Err(refused) => return Err(refused.into()),
    };
    let mut response = elsewhere(&back);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

pub(crate) async fn sign_out(State(gateway): State<Gateway>, headers: HeaderMap, body: Body) -> Result<Response, Turned> {
    let sent = form_of(&gateway, body).await?;
    if let Ok(viewer) = session::viewer(&gateway, &headers) {
        viewer.confirm(&headers, sent.get("token")).seen_by(&viewer)?;
    }
    let mut response = elsewhere("/dashboard/sign-in");
    response.headers_mut().insert(header::SET_COOKIE, session::end(&gateway, &headers));
    Ok(response)
}

/// What a form has sent.
pub(super) async fn form_of(gateway: &Gateway, body: Body) -> Result<Query, Refused> {
    long_form_of(FORM_BYTES_MAX, gateway, body).await
}

/// What a form has sent on which much can be written.
pub(super) async fn long_form_of(bytes_max: usize, gateway: &Gateway, body: Body) -> Result<Query, Refused> {
    let bytes = read_up_to(bytes_max, gateway, body).await?;
    Ok(Query::read(&String::from_utf8_lossy(&bytes)))
}

/// Where to go afterwards: a page of ours, and nothing else.
fn back(asked: Option<&str>) -> String {
    let is_ours = |place: &&str| {
        let is_plain = place.bytes().all(|byte| (0x21..0x7f).contains(&byte) && byte != b'\\');
        is_plain && (*place == "/dashboard" || place.starts_with("/dashboard/") || place.starts_with("/dashboard?"))
    };
    asked.filter(is_ours).unwrap_or("/dashboard").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        for (asked, expected) in [
            ("/dashboard/traces?q=a%20b", "/dashboard/traces?q=a%20b"),
            ("/dashboard", "/dashboard"),
            ("//evil.example", "/dashboard"),
            ("https://evil.example/dashboard", "/dashboard"),
            ("/dashboardish", "/dashboard"),
            ("/dashboard/\\evil", "/dashboard"),
            ("/dashboard/\r\nset-cookie: x", "/dashboard"),
        ] {
            assert_eq!(back(Some(asked)), expected, "{asked}");
        }
    }
}
