//! Where a request comes from, as far as a browser says it.
//!
//! A browser lets any page send requests to any server, this machine's too, and only says from where. Programs that are no browser say
//! nothing of it.

use axum::http::HeaderMap;

/// Whether the browser says that a page of this very server sent the request. A page that tells nobody where it is, as ours, is
/// an origin without a name: then what the browser itself says of the two sites decides.
pub(crate) fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_ours = |origin: &str| {
        let place = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        place.is_some() && place == text("host")
    };
    let origin = text("origin").filter(|origin| *origin != "null");
    match text("sec-fetch-site") {
        Some(site) => site == "same-origin" && origin.is_none_or(is_ours),
        None => origin.is_some_and(is_ours),
    }
}

/// Whether a browser says that it was not a page of this server that sent the request.
pub(crate) fn is_foreign(headers: &HeaderMap) -> bool {
    let is_told = headers.contains_key("origin") || headers.contains_key("sec-fetch-site");
    is_told && !is_same_origin(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_our_own_pages_change_something() {
        for (origin, host, site, expected) in [
            ("http://localhost:1", "localhost:1", Some("same-origin"), true),
            ("https://hone.test", "hone.test", None, true),
            ("http://localhost:2", "localhost:1", Some("same-site"), false),
            ("http://evil.example", "localhost:1", Some("cross-site"), false),
            ("http://localhost:1", "localhost:1", Some("cross-site"), false),
            ("null", "localhost:1", Some("same-origin"), true),
            ("null", "localhost:1", Some("cross-site"), false),
            ("http://evil.example", "localhost:1", Some("same-origin"), false),
            ("null", "localhost:1", None, false),
            ("localhost:1", "localhost:1", None, false),
        ] {
            let mut sent = headers(&[("origin", origin), ("host", host)]);
            sent.extend(headers(&site.map(|site| ("sec-fetch-site", site)).into_iter().collect::<Vec<_>>()));
            assert_eq!(is_same_origin(&sent), expected, "{origin} to {host}, {site:?}");
            assert_eq!(is_foreign(&sent), !expected, "{origin} to {host}, {site:?}");
        }
        assert!(!is_same_origin(&headers(&[("host", "localhost:1")])), "who does not say where it comes from is not ours");
    }

    #[test]
    fn a_program_that_is_no_browser_is_not_foreign() {
        assert!(!is_foreign(&headers(&[("host", "localhost:1")])));
        assert!(is_foreign(&headers(&[("host", "localhost:1"), ("sec-fetch-site", "cross-site")])));
    }
}
