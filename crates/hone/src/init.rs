//! `hone init`: a `hone.toml` to start from. All values are commented out, so that it changes nothing by itself.

use crate::failure::{Exit, Failure, at_path};
use crate::printer::Printer;
use crate::settings::{FILE_NAME, Flags, schema::DEFAULTS};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Write a commented hone.toml into the current folder
///
/// Every key is there with its meaning and its default, commented out. With --config FILE it is written there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replace a file that is already there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, flags: &Flags, printer: &Printer) -> Result<Exit, Failure> {
    let path = flags.config.clone().unwrap_or_else(|| PathBuf::from(FILE_NAME));
    match create(&path) {
        Ok(()) => {}
        // The old file stays whole until the new one is.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && args.force => crate::durable::write(&path, &template())?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            printer.complain(&format!("{} is already there; `hone init --force` replaces it", path.display()));
            return Ok(Exit::No);
        }
        Err(error) => return Err(at_path(&path)(error)),
    }
    if printer.wants_json() {
        printer.json(&serde_json::json!({ "file": path }))?;
    } else {
        printer.say(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Yes)
}

fn create(path: &Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(template().as_bytes())?;
    file.sync_all()
}

/// The defaults with every value commented out: where the user says nothing, a newer hone may know better.
fn template() -> String {
    let line = |line: &str| {
        let is_value = line.starts_with(|c: char| c.is_ascii_alphabetic());
        format!("{}{line}\n", if is_value { "# " } else { "" })
    };
    DEFAULTS.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Settings, Variables};

    #[test]
    fn a_new_file_means_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let load = || Settings::load(&Flags::default(), &Variables::default(), folder.path()).unwrap();
        let shown = |settings: &Settings| format!("{:?}", settings.shown);
        let before = load();
        create(&folder.path().join(FILE_NAME)).unwrap();
        let after = load();
        assert!(after.file.is_some());
        assert_eq!(shown(&before), shown(&after));
        assert!(template().contains("\n# folder = \".hone\"\n"));
    }
}
