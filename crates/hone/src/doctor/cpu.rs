//! The processor: how many cores this process may use, and which instruction sets they have.

use super::{Finding, Verdict};

/// The cores that are ours, after affinity and cgroup limits.
pub(super) fn cores() -> Finding {
    let Ok(n_cores) = std::thread::available_parallelism() else {
        return Finding::new("cores", Verdict::Ok, "how many cores there are is not known; hone uses one").fact("cores", 1);
    };
    let n_cores = n_cores.get();
    let (verdict, says) = match n_cores {
        1 => (Verdict::Ok, "1 core: enough for everything, but reading and writing take turns".to_owned()),
        n => (Verdict::Good, format!("{n} cores for this process: an import parses and writes at the same time")),
    };
    Finding::new("cores", verdict, says).fact("cores", n_cores)
}

/// What the cores can do at once.
pub(super) fn instructions() -> Finding {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut sets = sets(&cpuinfo);
    if sets.is_empty() {
        sets = detected();
    }
    describe(std::env::consts::ARCH, &sets)
}

/// The instruction sets that matter to matrix products, best first: the name in /proc/cpuinfo and ours.
const KNOWN: &[(&str, &str)] = &[
    ("amx_bf16", "AMX-bf16"),
    ("avx512_bf16", "AVX-512 bf16"),
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("sve", "SVE"),
    ("bf16", "Arm bf16"),
    ("asimd", "NEON"),
];

/// Reads `flags` (x86) or `Features` (Arm) of the first core.
fn sets(cpuinfo: &str) -> Vec<&'static str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let flags: Vec<&str> =
        line.and_then(|line| line.split_once(':')).map_or(Vec::new(), |(_, flags)| flags.split_whitespace().collect());
    KNOWN.iter().filter(|(flag, _)| flags.contains(flag)).map(|(_, name)| *name).collect()
}

/// What the processor itself says, where there is no /proc/cpuinfo. It cannot be asked about AMX in stable Rust.
#[cfg(target_arch = "x86_64")]
fn detected() -> Vec<&'static str> {
    let found = [
        ("AVX-512 bf16", std::is_x86_feature_detected!("avx512bf16")),
        ("AVX-512", std::is_x86_feature_detected!("avx512f")),
        ("AVX2", std::is_x86_feature_detected!("avx2")),
    ];
    found.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn detected() -> Vec<&'static str> {
    Vec::new()
}

fn describe(arch: &str, sets: &[&str]) -> Finding {
    let (verdict, means) = match sets.first() {
        Some(&"AMX-bf16") => (Verdict::Good, "matrix products run in the tile units, the fastest there is without a GPU"),
        Some(&"AVX-512 bf16") => (Verdict::Good, "bf16 matrix products run in wide registers"),
        Some(&("AVX-512" | "AVX2")) => (Verdict::Ok, "matrix products run in wide registers, in f32"),
        Some(_) => (Verdict::Ok, "matrix products take the portable path"),
        None => (Verdict::Missing, "no wide instructions: matrix products will be slow"),
    };
    let says = if sets.is_empty() { format!("{arch}: {means}") } else { format!("{arch} with {}: {means}", sets.join(", ")) };
    Finding::new("instructions", verdict, says).fact("arch", arch).fact("sets", sets.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_set_decides() {
        for (cpuinfo, expected, verdict) in [
            ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16 amx_bf16 amx_tile\n", "AMX-bf16", Verdict::Good),
            ("flags\t\t: fpu avx2 avx512f avx512_bf16\n", "AVX-512 bf16", Verdict::Good),
            ("flags\t\t: fpu avx2\n", "AVX2", Verdict::Ok),
            ("processor\t: 0\nFeatures\t: fp asimd bf16 sve\n", "SVE", Verdict::Ok),
            ("flags\t\t: fpu\n", "no wide instructions", Verdict::Missing),
            ("", "no wide instructions", Verdict::Missing),
        ] {
            let finding = describe("some", &sets(cpuinfo));
            assert!(finding.says.contains(expected), "{}", finding.says);
            assert_eq!(finding.verdict, verdict);
        }
    }
}
