//! The Debian packages that tests need, and how to get them.
//!
//! A tool is looked for by what it brings, not by the package's name: a PostgreSQL from elsewhere is as good.
//! As root a missing one is installed, otherwise the caller gets the exact command that would. Knows nothing of
//! what the tools are used for.

use crate::cargo::find_program;
use crate::postgres;
use std::path::Path;
use std::process::{Command, Stdio};

/// Something that tests need and that a distribution has.
pub(crate) struct Tool {
    name: &'static str,
    packages: &'static [&'static str],
    found: fn() -> bool,
    /// Files that must stand while the packages are installed, as (path, content).
    while_installing: &'static [(&'static str, &'static str)],
}

pub(crate) const POSTGRES: Tool = Tool {
    name: "PostgreSQL",
    packages: &["postgresql"],
    found: || postgres::binaries().is_some(),
    // Debian would otherwise create a cluster for the whole machine and start it. The folder is read by
    // postgresql-common after its own settings, so the file is ours alone and leaves no trace.
    while_installing: &[("/etc/postgresql-common/createcluster.d/hone-xtask.conf", "create_main_cluster = false\n")],
};

/// Fetches the model that tests speak with.
const PIP: Tool = Tool {
    name: "pip",
    packages: &["python3-pip"],
    found: || Command::new("python3").args(["-m", "pip", "--version"]).output().is_ok_and(|output| output.status.success()),
    while_installing: &[],
};

/// Shows the dashboard to the tests that use it as a person would.
const CHROMIUM: Tool = Tool {
    name: "Chromium with its driver",
    packages: &["chromium", "chromium-driver"],
    found: || find_program("chromedriver").is_some(),
    while_installing: &[],
};

/// All that the whole suite needs.
pub(crate) const TOOLS: &[Tool] = &[POSTGRES, PIP, CHROMIUM];

/// Why a tool is not there.
#[derive(Debug)]
pub(crate) enum Missing {
    /// The user can install it: `how` is the command.
    NotRoot { names: String, how: String },
    /// We tried and could not.
    Failed { why: String },
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRoot { names, how } => write!(f, "{names} missing, to be installed with: {how}"),
            Self::Failed { why } => f.write_str(why),
        }
    }
}

/// Makes sure that these tools are there.
pub(crate) fn provide(tools: &[Tool]) -> Result<(), Missing> {
    let missing: Vec<&Tool> = tools.iter().filter(|tool| !(tool.found)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = names(&missing);
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.packages).copied().collect();
    let how = format!("apt-get update && apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !is_root() {
        return Err(Missing::NotRoot { names, how: format!("sudo sh -c '{how}'") });
    }
    if find_program("apt-get").is_none() {
        let why = format!("{names} missing, to be installed by hand, because there is no apt-get");
        return Err(Missing::Failed { why });
    }
    eprintln!("{names} missing: {how}");
    let scaffolds = missing.iter().flat_map(|tool| tool.while_installing);
    let _standing: Vec<Scaffold> = scaffolds.filter_map(|&(path, text)| Scaffold::put(path, text)).collect();
    apt_get(&["update"])?;
    apt_get(&[&["install", "-y", "--no-install-recommends"], packages.as_slice()].concat())?;
    match missing.into_iter().find(|tool| !(tool.found)()) {
        Some(tool) => Err(Missing::Failed { why: format!("{} installed, but not found", tool.name) }),
        None => Ok(()),
    }
}

fn names(tools: &[&Tool]) -> String {
    tools.iter().map(|tool| tool.name).collect::<Vec<_>>().join(" and ")
}

/// Whether we may install packages, and must not run a PostgreSQL ourselves.
pub(crate) fn is_root() -> bool {
    id(&["-u"]) == Some(0)
}

/// A number that `id` prints, such as a user's.
pub(crate) fn id(args: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(args).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn apt_get(args: &[&str]) -> Result<(), Missing> {
    let line = format!("apt-get {}", args.join(" "));
    // Not on a leash: dpkg killed in the middle leaves a half-configured system.
    let status = Command::new("apt-get")
        .args(["-q", "-o", "Dpkg::Use-Pty=0"])
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Missing::Failed { why: format!("`{line}` ended with {status}") }),
        Err(error) => Err(Missing::Failed { why: format!("`{line}` did not start: {error}") }),
    }
}

/// A file that stands as long as this value lives; one that was there before is left alone.
struct Scaffold {
    path: &'static Path,
    /// The folders that had to be made for it, the innermost first.
    folders: Vec<&'static Path>,
}

impl Scaffold {
    fn put(path: &'static str, text: &str) -> Option<Self> {
        let path = Path::new(path);
        if path.exists() {
            return None;
        }
        let folders = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        std::fs::create_dir_all(path.parent()?).ok()?;
        std::fs::write(path, text).ok()?;
        Some(Self { path, folders })
    }
}

impl Drop for Scaffold {
    fn drop(&mut self) {
        // Nothing useful can be done about a file that does not go, and it does no harm.
        let _ = std::fs::remove_file(self.path);
        for folder in &self.folders {
            // Refused, rightly, when a package has put something of its own there.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaffold_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("hone-xtask-{}", std::process::id()));
        let path: &'static str = folder.join("a/b.conf").display().to_string().leak();
        let scaffold = Scaffold::put(path, "x").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "x");
        assert!(Scaffold::put(path, "y").is_none(), "what is there is left alone");
        drop(scaffold);
        assert!(!folder.exists());
    }

    #[test]
    fn nothing_is_installed_when_everything_is_there() {
        let there = Tool { name: "a", packages: &["no-such-package"], found: || true, while_installing: &[] };
        assert!(provide(&[there]).is_ok());
    }
}
