//! The address of a database as it may be shown: without its password.

/// The address with `***` for the password. What does not look like an address is hidden altogether.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.is_empty() { String::new() } else { "***".to_owned() };
    };
    // The last `@` ends the password, even one that holds `/` or `@` and should have been written as `%2F` or `%40`.
    let (user, place) = match rest.rsplit_once('@') {
        Some((secret, place)) => match secret.split_once(':') {
            Some((user, _)) => (format!("{user}:***@"), place),
            None => (format!("{secret}@"), place),
        },
        None => (String::new(), rest),
    };
    let (place, options) = place.split_once('?').map_or((place, None), |(place, options)| (place, Some(options)));
    let options = options.map_or(String::new(), |options| {
        let shown = options.split('&').map(|option| match option.split_once('=') {
            Some((key, _)) if key.contains("pass") => format!("{key}=***"),
            _ => option.to_owned(),
        });
        format!("?{}", shown.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{user}{place}{options}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_hidden() {
        for (url, shown) in [
            ("", ""),
            ("postgres://host/db", "postgres://host/db"),
            ("postgres://user@host/db", "postgres://user@host/db"),
            ("postgres://user:canary@host:5432/db", "postgres://user:***@host:5432/db"),
            ("postgres://user:canary/with@signs:@host/db", "postgres://user:***@host/db"),
            ("postgres://host/db?user=u&password=canary&x=1", "postgres://host/db?user=u&password=***&x=1"),
            ("host=h password=canary", "***"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
