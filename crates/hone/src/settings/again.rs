//! A command that finds the same records and machine as the one at hand: with the flags that this one was given.

use super::{Flags, Settings, without_password};

/// The variable that keeps the password of a database off the command line.
const DATABASE_URL: &str = "HONE_DATABASE_URL";

impl Settings {
    /// The command with the flags that every command understands, as they were given to this one. An address with a password is not
    /// told: its variable is.
    pub(crate) fn again(&self, command: &str) -> String {
        let Flags { config, folder, database_url, tenant, device } = &self.flags;
        let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let secret = database_url.as_ref().filter(|url| without_password(url) != **url);
        let given = [
            ("--config", path(config)),
            ("--folder", path(folder)),
            ("--database-url", database_url.clone().filter(|_| secret.is_none())),
            ("--tenant", tenant.clone()),
            ("--device", device.clone()),
        ];
        let variable = secret.map(|_| format!("{DATABASE_URL}=URL ")).unwrap_or_default();
        let flags = given.into_iter().filter_map(|(flag, value)| Some(format!(" {flag} {}", word(&value?))));
        format!("{variable}{command}{}", flags.collect::<String>())
    }
}

/// The text as one word of a shell.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Variables;

    fn check(flags: &Flags, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::load(flags, &Variables::default(), folder.path()).unwrap();
        assert_eq!(settings.again("hone train list"), expected);
    }

    #[test]
    fn flags_are_given_again_and_passwords_are_not_told() {
        check(&Flags::default(), "hone train list");
        let (folder, tenant) = (Some("it's here".into()), Some("acme".to_owned()));
        let flags = Flags { folder, tenant, device: Some("cpu".to_owned()), ..Flags::default() };
        check(&flags, r"hone train list --folder 'it'\''s here' --tenant acme --device cpu");
        let url = |url: &str| Flags { database_url: Some(url.to_owned()), ..Flags::default() };
        check(&url(""), "hone train list --database-url ''");
        check(&url("postgres://u@h/d"), "hone train list --database-url postgres://u@h/d");
        check(&url("postgres://u:canary@h/d"), "HONE_DATABASE_URL=URL hone train list");
    }
}
