//! Memory: what the machine has, what is free, and what a container lets us use of it.

use super::{Finding, Verdict, size};
use std::fs;
use std::path::{Path, PathBuf};

/// Below this an import of large traces may not fit.
const COMFORTABLE: u64 = 1 << 30;

pub(super) fn look() -> Finding {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    describe(field(&meminfo, "MemTotal:"), field(&meminfo, "MemAvailable:"), own_container())
}

/// Bytes that are free for this process; `None` where the system does not say.
pub(crate) fn usable() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let available = field(&meminfo, "MemAvailable:")?;
    usize::try_from(available.min(own_container().map_or(u64::MAX, |container| container.free))).ok()
}

/// Bytes that this process has taken and that nobody else can have, unlike files that it reads; 0 where the system does not say.
pub(crate) fn taken() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "RssAnon:").and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

/// What a container lets us use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Container {
    /// The most of all that run in it together.
    limit: u64,
    /// What of that is free, or can be freed.
    free: u64,
}

fn own_container() -> Option<Container> {
    container(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default(), Path::new("/sys/fs/cgroup"))
}

/// The least of what the groups around a process let it use, where one has a limit.
fn container(cgroup: &str, root: &Path) -> Option<Container> {
    let groups = groups(cgroup, root);
    let limited: Vec<Container> = groups.iter().filter_map(|(folder, version)| version.container(folder)).collect();
    let least = |of: fn(&Container) -> u64| limited.iter().map(of).min();
    Some(Container { limit: least(|container| container.limit)?, free: least(|container| container.free)? })
}

/// The two versions of control groups, by the names of their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    limit: &'static str,
    used: &'static str,
    /// The line of `memory.stat` that counts files which were read and are given up first.
    cached: &'static str,
}

const FIRST: Version = Version { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", cached: "total_inactive_file" };
const SECOND: Version = Version { limit: "memory.max", used: "memory.current", cached: "inactive_file" };

impl Version {
    /// What the group of this folder lets its processes use; a use that it does not tell counts as none.
    fn container(self, folder: &Path) -> Option<Container> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let limit = limit(&read(self.limit))?;
        let used: u64 = read(self.used).trim().parse().unwrap_or(0);
        let stat = read("memory.stat");
        let cached = stat.lines().find_map(|line| line.strip_prefix(self.cached)?.trim().parse().ok()).unwrap_or(0);
        Some(Container { limit, free: limit.saturating_sub(used.saturating_sub(cached)) })
    }
}

/// A line such as `MemTotal:       16384 kB`, in bytes.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The groups that may have a limit for a process in this cgroup: its own and all groups around it.
fn groups(cgroup: &str, root: &Path) -> Vec<(PathBuf, Version)> {
    let mut groups = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (mut folder, version) = match controllers {
            "" => (root.to_path_buf(), SECOND),
            controllers if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), FIRST),
            _ => continue,
        };
        // A path with `..` leads out of what is mounted here.
        let inside = path.split('/').filter(|part| !part.is_empty()).take_while(|part| *part != "..");
        groups.push((folder.clone(), version));
        for part in inside {
            folder.push(part);
            groups.push((folder.clone(), version));
        }
    }
    groups
}

/// The limit in such a file; `max` and the huge numbers of the first version mean that there is none.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < 1 << 60)
}

fn describe(total: Option<u64>, available: Option<u64>, container: Option<Container>) -> Finding {
    let Some(total) = total else {
        return Finding::new("memory", Verdict::Ok, "how much memory there is is not known");
    };
    let container = container.filter(|container| container.limit < total);
    let usable = available.unwrap_or(total).min(container.map_or(u64::MAX, |container| container.free));
    let mut says = size(total);
    if let Some(available) = available {
        says += &format!(", {} of it free", size(available));
    }
    if let Some(Container { limit, free }) = container {
        says += &format!(", but at most {} for this container, {} of it free", size(limit), size(free));
    }
    let verdict = if usable >= COMFORTABLE { Verdict::Good } else { Verdict::Ok };
    says += match verdict {
        Verdict::Good => ": enough for the store and for imports of any length",
        _ => ": enough for the store; set `trace.import_batch` lower if an import of large traces runs out",
    };
    let (limit, free) = container.map(|container| (container.limit, container.free)).unzip();
    let facts =
        [("total_bytes", Some(total)), ("available_bytes", available), ("limit_bytes", limit), ("limit_free_bytes", free)];
    facts.into_iter().fold(Finding::new("memory", verdict, says), |finding, (name, value)| finding.fact(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn limits_are_found_in_both_versions_of_cgroups() {
        let files = |cgroup| -> Vec<String> {
            let file = |(folder, version): &(PathBuf, Version)| folder.join(version.limit).display().to_string();
            groups(cgroup, Path::new("/c")).iter().map(file).collect()
        };
        assert_eq!(files("0::/a/b\n"), ["/c/memory.max", "/c/a/memory.max", "/c/a/b/memory.max"]);
        assert_eq!(files("5:devices:/\n4:memory:/x\n"), ["/c/memory/memory.limit_in_bytes", "/c/memory/x/memory.limit_in_bytes"]);
        assert_eq!(files("0::/../outside\n"), ["/c/memory.max"]);
        assert_eq!(files("nonsense"), Vec::<String>::new());
    }

    #[test]
    fn what_a_container_has_taken_is_not_free() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |folder: &str, files: &[(&str, &str)]| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).expect("a file"));
        };
        // A group with room, in one that others fill: files that were read do not count, those in use do.
        write(
            "outer",
            &[("memory.max", "1000\n"), ("memory.current", "900\n"), ("memory.stat", "inactive_file 150\nfile 400\n")],
        );
        write("outer/inner", &[("memory.max", "600\n"), ("memory.current", "100\n")]);
        write("outer/free", &[("memory.max", "max\n"), ("memory.current", "100\n")]);
        let found = |cgroup| container(cgroup, root.path()).map(|container| (container.limit, container.free));
        assert_eq!(found("0::/outer/inner\n"), Some((600, 250)));
        assert_eq!(found("0::/outer/free\n"), Some((1000, 250)));
        assert_eq!(found("0::/elsewhere\n"), None);
        let stat = "inactive_file 1\ntotal_inactive_file 20\n";
        write("memory/old", &[("memory.limit_in_bytes", "500\n"), ("memory.usage_in_bytes", "120\n"), ("memory.stat", stat)]);
        assert_eq!(found("4:memory:/old\n0::/\n"), Some((500, 400)));
        write("memory/old", &[("memory.usage_in_bytes", "900\n")]);
        assert_eq!(found("4:memory:/old\n0::/\n"), Some((500, 0)));
        assert!(taken() > 0 || !Path::new("/proc/self/status").exists());
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
        let half = Some(Container { limit: GIB / 2, free: GIB / 4 });
        check(Some(16 * GIB), Some(8 * GIB), half, Verdict::Ok, "at most 512.0 MiB for this container, 256.0 MiB of it free");
        let full = Some(Container { limit: 4 * GIB, free: GIB / 4 });
        check(Some(16 * GIB), Some(8 * GIB), full, Verdict::Ok, "set `trace.import_batch` lower");
        check(None, None, None, Verdict::Ok, "not known");
    }
}
