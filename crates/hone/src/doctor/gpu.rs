//! The GPU: is there an NVIDIA driver, and are the libraries there that are loaded at run time. Nothing is loaded here. It is needed where
//! the settings ask for it and nothing else.

use super::{Finding, Verdict};
use crate::settings::Variables;
use hone_engine::machine::Choice;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What must be found, and which package brings it.
const LIBRARIES: &[(&str, &str)] = &[
    ("libcuda.so.1", "it comes with the NVIDIA driver"),
    ("libnvrtc.so", "it comes with the CUDA toolkit (cuda-nvrtc)"),
    ("libcublasLt.so", "it comes with the CUDA toolkit (libcublas)"),
];

/// Folders in which CUDA is installed by hand or by a container runtime. A `*` stands for one level.
const FOLDERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/*/lib",
    "/usr/local/*/lib64",
    "/opt/cuda/lib64",
    "/run/opengl-driver/lib",
];

/// What was found of the driver and its libraries.
#[derive(Debug, Default)]
struct Found {
    /// The first line of the driver's own description.
    driver: Option<String>,
    device: bool,
    /// In the order of [`LIBRARIES`].
    libraries: Vec<Option<PathBuf>>,
}

pub(super) fn look(variables: &Variables, device: Choice) -> Finding {
    let driver = fs::read_to_string("/proc/driver/nvidia/version").ok();
    let cache = fs::read("/etc/ld.so.cache").unwrap_or_default();
    let folders = folders(variables);
    let libraries = LIBRARIES.iter().map(|(name, _)| {
        let in_folder = folders.iter().find_map(|folder| library_in(folder, name));
        in_folder.or_else(|| in_cache(&cache, name).into_iter().find(|path| path.exists()))
    });
    let found = Found {
        driver: driver.and_then(|text| text.lines().next().map(str::to_owned)),
        device: Path::new("/dev/nvidia0").exists() || Path::new("/dev/dxg").exists(),
        libraries: libraries.collect(),
    };
    describe(&found, device)
}

/// Where the loader and CUDA programs look, in that order.
pub(crate) fn folders(variables: &Variables) -> Vec<PathBuf> {
    let named = variables.get("LD_LIBRARY_PATH").map(|paths| env::split_paths(paths).collect::<Vec<_>>()).unwrap_or_default();
    let toolkit =
        ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|name| variables.get(name)).map(|root| Path::new(root).join("lib64"));
    let mut all: Vec<PathBuf> = named.into_iter().filter(|path| path.is_absolute()).chain(toolkit).collect();
    for pattern in FOLDERS {
        match pattern.split_once('*') {
            None => all.push(PathBuf::from(pattern)),
            Some((parent, below)) => {
                let entries = fs::read_dir(parent).into_iter().flatten().flatten();
                let matches: BTreeSet<PathBuf> = entries.map(|entry| entry.path().join(below.trim_start_matches('/'))).collect();
                all.extend(matches);
            }
        }
    }
    all
}

/// `libnvrtc.so` is there as itself or with a version behind it; `libcuda.so.1` as itself.
fn library_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let exact = folder.join(name);
    if exact.exists() {
        return Some(exact);
    }
    if !name.ends_with(".so") {
        return None;
    }
    let names = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let versions: BTreeSet<String> = names.filter(|other| is_version_of(other, name)).collect();
    versions.first().map(|version| folder.join(version))
}

fn is_version_of(file: &str, name: &str) -> bool {
    file.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || (rest.starts_with('.') && rest[1..].starts_with(|c: char| c.is_ascii_digit())))
}

/// The paths of a library in the loader's cache: a table of numbers, followed by texts that end with a zero byte.
fn in_cache(cache: &[u8], name: &str) -> Vec<PathBuf> {
    let texts = cache.split(|&byte| byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let paths = texts.filter(|text| {
        let file = text.rsplit('/').next().unwrap_or_default();
        text.starts_with('/') && (file == name || (name.ends_with(".so") && is_version_of(file, name)))
    });
    paths.map(PathBuf::from).collect()
}

fn describe(found: &Found, device: Choice) -> Finding {
    let paths: Vec<String> = found.libraries.iter().flatten().map(|path| path.display().to_string()).collect();
    let absent = || LIBRARIES.iter().zip(&found.libraries).filter(|(_, path)| path.is_none()).map(|(library, _)| library);
    let missing: Vec<&str> = absent().map(|(name, _)| *name).collect();
    let finding = if !found.device && found.driver.is_none() {
        Finding::new("gpu", Verdict::Missing, "no NVIDIA GPU (no /proc/driver/nvidia, no /dev/nvidia0)")
    } else if !found.device {
        Finding::new(
            "gpu",
            Verdict::Missing,
            "the NVIDIA driver is loaded, but /dev/nvidia0 is missing: hand the device to this container",
        )
    } else if let Some((name, from)) = absent().next() {
        let others = if missing.len() > 1 { format!(" (and {})", missing[1..].join(", ")) } else { String::new() };
        Finding::new("gpu", Verdict::Missing, format!("there is an NVIDIA GPU, but {name}{others} is missing: {from}"))
    } else {
        let version = found.driver.as_deref().and_then(driver_version);
        let driver = version.map(|version| format!(" with driver {version}")).unwrap_or_default();
        Finding::new("gpu", Verdict::Good, format!("an NVIDIA GPU{driver}, libcuda, NVRTC and cuBLASLt: the GPU can be used"))
    };
    let finding = match (finding.verdict, device) {
        (Verdict::Missing, Choice::Cuda) => {
            let says = format!("{}; `model.device` is cuda, where cpu and auto do without", finding.says);
            Finding { says, ..finding }.needed()
        }
        (Verdict::Missing, _) => Finding { says: format!("{}; hone works on the CPU", finding.says), ..finding },
        _ => finding,
    };
    finding
        .fact("device", found.device)
        .fact("driver", found.driver.clone())
        .fact("libraries", paths)
        .fact("libraries_missing", missing)
}

/// The `580.159.04` in `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build`.
fn driver_version(description: &str) -> Option<&str> {
    description.split_whitespace().find(|word| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(driver: Option<&str>, device: bool, libraries: [Option<&str>; 3], verdict: Verdict, says: &str) {
        let libraries = libraries.map(|path| path.map(PathBuf::from)).to_vec();
        let found = Found { driver: driver.map(str::to_owned), device, libraries };
        let finding = describe(&found, Choice::Auto);
        assert_eq!(finding.verdict, verdict, "{}", finding.says);
        assert!(finding.says.contains(says), "{}", finding.says);
        let is_missing = verdict == Verdict::Missing;
        let asked_for = describe(&found, Choice::Cuda);
        assert_eq!((finding.stops_hone(), asked_for.stops_hone()), (false, is_missing), "{}", asked_for.says);
        assert_eq!(asked_for.says.contains("`model.device` is cuda"), is_missing, "{}", asked_for.says);
    }

    #[test]
    fn the_missing_file_is_named() {
        let all = [Some("/l/libcuda.so.1"), Some("/l/libnvrtc.so.12"), Some("/l/libcublasLt.so.12")];
        check(None, false, [None; 3], Verdict::Missing, "no NVIDIA GPU");
        check(Some("NVRM version: 570"), false, [None; 3], Verdict::Missing, "/dev/nvidia0 is missing");
        check(Some("NVRM version: 570"), true, [all[0], None, all[2]], Verdict::Missing, "libnvrtc.so is missing: it comes with");
        check(
            Some("NVRM version: 570"),
            true,
            [None; 3],
            Verdict::Missing,
            "libcuda.so.1 (and libnvrtc.so, libcublasLt.so) is missing",
        );
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  ";
        check(Some(open), true, all, Verdict::Good, "an NVIDIA GPU with driver 580.159.04, libcuda");
        check(None, true, all, Verdict::Good, "an NVIDIA GPU, libcuda");
    }

    #[test]
    fn libraries_are_found_with_their_versions() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["libnvrtc.so.12", "libnvrtc-builtins.so.12.4", "libcuda.so.570.1", "libcublasLt.so"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let find = |name| library_in(folder.path(), name).map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        assert_eq!(find("libnvrtc.so").as_deref(), Some("libnvrtc.so.12"));
        assert_eq!(find("libcublasLt.so").as_deref(), Some("libcublasLt.so"));
        assert_eq!(find("libcuda.so.1"), None);
    }

    #[test]
    fn the_cache_of_the_loader_is_read() {
        let cache = b"glibc-ld.so.cache1.1\0\x01\xff\0libcuda.so.1\0/usr/lib/libcuda.so.1\0/usr/lib/libnvrtc.so.12\0/x/libnvrtc-builtins.so.12\0";
        assert_eq!(in_cache(cache, "libcuda.so.1"), [PathBuf::from("/usr/lib/libcuda.so.1")]);
        assert_eq!(in_cache(cache, "libnvrtc.so"), [PathBuf::from("/usr/lib/libnvrtc.so.12")]);
        assert!(in_cache(b"", "libcuda.so.1").is_empty());
    }
}
