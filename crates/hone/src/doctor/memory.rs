//! Memory: what the machine has, what is free, and what a container lets us use of it.

use super::{Finding, Verdict, size};
use std::fs;
use std::path::{Path, PathBuf};

/// Below this an import of large traces may not fit.
const COMFORTABLE: u64 = 1 << 30;

pub(super) fn look() -> Finding {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    describe(field(&meminfo, "MemTotal:"), field(&meminfo, "MemAvailable:"), container_limit())
}

/// Bytes that are free for this process; `None` where the system does not say.
pub(crate) fn usable() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let available = field(&meminfo, "MemAvailable:")?;
    usize::try_from(available.min(container_limit().unwrap_or(u64::MAX))).ok()
}

/// The most that a container lets us use, where there is one.
fn container_limit() -> Option<u64> {
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = limit_files(&cgroup, Path::new("/sys/fs/cgroup"));
    files.iter().filter_map(|path| limit(&fs::read_to_string(path).ok()?)).min()
}

/// A line such as `MemTotal:       16384 kB`, in bytes.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The files that may hold a limit for a process in this cgroup: its own and those of all groups around it.
fn limit_files(cgroup: &str, root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (base, name) = match controllers {
            "" => (root.to_path_buf(), "memory.max"),
            controllers if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        // A path with `..` leads out of what is mounted here.
        let inside = path.split('/').filter(|part| !part.is_empty()).take_while(|part| *part != "..");
        let mut folder = base;
        files.push(folder.join(name));
        for part in inside {
            folder.push(part);
            files.push(folder.join(name));
        }
    }
    files
}

/// The limit in such a file; `max` and the huge numbers of the first version mean that there is none.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < 1 << 60)
}

fn describe(total: Option<u64>, available: Option<u64>, limit: Option<u64>) -> Finding {
    let Some(total) = total else {
        return Finding::new("memory", Verdict::Ok, "how much memory there is is not known");
    };
    let limit = limit.filter(|&limit| limit < total);
    let usable = available.unwrap_or(total).min(limit.unwrap_or(u64::MAX));
    let mut says = size(total);
    if let Some(available) = available {
        says += &format!(", {} of it free", size(available));
    }
    if let Some(limit) = limit {
        says += &format!(", but at most {} for this container", size(limit));
    }
    let verdict = if usable >= COMFORTABLE { Verdict::Good } else { Verdict::Ok };
    says += match verdict {
        Verdict::Good => ": enough for the store and for imports of any length",
        _ => ": enough for the store; set `trace.import_batch` lower if an import of large traces runs out",
    };
    let facts = [("total_bytes", Some(total)), ("available_bytes", available), ("limit_bytes", limit)];
    facts.into_iter().fold(Finding::new("memory", verdict, says), |finding, (name, value)| finding.fact(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn limits_are_found_in_both_versions_of_cgroups() {
        let files = |cgroup| -> Vec<String> {
            limit_files(cgroup, Path::new("/c")).iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(files("0::/a/b\n"), ["/c/memory.max", "/c/a/memory.max", "/c/a/b/memory.max"]);
        assert_eq!(files("5:devices:/\n4:memory:/x\n"), ["/c/memory/memory.limit_in_bytes", "/c/memory/x/memory.limit_in_bytes"]);
        assert_eq!(files("0::/../outside\n"), ["/c/memory.max"]);
        assert_eq!(files("nonsense"), Vec::<String>::new());
    }

    #[test]
    fn the_smallest_number_counts() {
        assert_eq!(field("MemFree: 1 kB\nMemTotal:       16384 kB\n", "MemTotal:"), Some(16 << 20));
        assert_eq!(limit("max\n"), None);
        assert_eq!(limit("9223372036854771712\n"), None);
        assert_eq!(limit("1073741824\n"), Some(GIB));
        let check = |total, available, limit, verdict, says: &str| {
            let finding = describe(total, available, limit);
            assert_eq!(finding.verdict, verdict);
            assert!(finding.says.contains(says), "{}", finding.says);
        };
        check(Some(16 * GIB), Some(8 * GIB), None, Verdict::Good, "16.0 GiB, 8.0 GiB of it free");
        check(Some(16 * GIB), Some(8 * GIB), Some(GIB / 2), Verdict::Ok, "at most 512.0 MiB for this container");
        check(None, None, None, Verdict::Ok, "not known");
    }
}
