//! Which instructions this processor has, and the macro that compiles one kernel for each level.
//!
//! A kernel is written once in plain Rust over 16-wide arrays, generic over "is there a fused multiply-add", and
//! compiled three times. An [`Isa`] of a level exists only on a processor that has it, which is the safety argument of
//! every call made through [`versions`]. AMX is asked of the kernel once per process.
#![expect(unsafe_code, reason = "asking Linux for AMX is a system call")]

use std::sync::OnceLock;

/// A level of instructions, best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Whatever the compiler's baseline is.
    Portable,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
    /// AVX-512 with bf16 dot products.
    Avx512Bf16,
    /// AMX tiles for bf16 products, AVX-512 for the rest.
    Amx,
}

/// Proof that the processor has a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Level);

impl Isa {
    /// The best level here.
    pub fn best() -> Self {
        Self(*best_level())
    }

    /// This level, when the processor has it.
    pub fn at(level: Level) -> Option<Self> {
        (level <= *best_level()).then_some(Self(level))
    }

    /// All levels here, the plainest first.
    pub fn available() -> Vec<Self> {
        let all = [Level::Portable, Level::Avx2, Level::Avx512, Level::Avx512Bf16, Level::Amx];
        all.into_iter().filter_map(Self::at).collect()
    }

    /// The level.
    pub fn level(self) -> Level {
        self.0
    }

    /// Name for the record of a run.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Avx512Bf16 => "avx512bf16",
            Level::Amx => "amx",
        }
    }
}

fn best_level() -> &'static Level {
    static BEST: OnceLock<Level> = OnceLock::new();
    BEST.get_or_init(detect)
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    use std::arch::is_x86_feature_detected as has;
    if !(has!("avx2") && has!("fma")) {
        return Level::Portable;
    }
    if !(has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl")) {
        return Level::Avx2;
    }
    if !has!("avx512bf16") {
        return Level::Avx512;
    }
    if has_amx() { Level::Amx } else { Level::Avx512Bf16 }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Portable
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn has_amx() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    let leaf = std::arch::x86_64::__cpuid_count(7, 0);
    let (bf16, tile) = (leaf.edx >> 22 & 1, leaf.edx >> 24 & 1);
    if bf16 == 0 || tile == 0 {
        return false;
    }
    // SAFETY: the call takes two integers, touches no memory of ours and at worst returns an error. Permission is per
    // process and inherited by threads started later.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn has_amx() -> bool {
    false
}

/// Compiles `imp::<FMA>(args)` for each level and gives a function that picks by [`Isa`].
macro_rules! versions {
    ($(#[$doc:meta])* $vis:vis fn $name:ident = $imp:ident ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)?) => {
        $(#[$doc])*
        #[expect(clippy::allow_attributes, reason = "not every kernel has many arguments")]
        #[allow(clippy::too_many_arguments, reason = "kernels take what they take")]
        $vis fn $name(isa: $crate::cpu::isa::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn avx512($($arg: $ty),*) $(-> $ret)? { $imp::<true>($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) $(-> $ret)? { $imp::<true>($($arg),*) }
                use $crate::cpu::isa::Level;
                match isa.level() {
                    Level::Portable => $imp::<false>($($arg),*),
                    // SAFETY: an `Isa` of this level exists only where the processor reported its features.
                    Level::Avx2 => unsafe { avx2($($arg),*) },
                    // SAFETY: as above; the levels from here on include AVX-512 F, BW, DQ and VL.
                    Level::Avx512 | Level::Avx512Bf16 | Level::Amx => unsafe { avx512($($arg),*) },
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                let _ = isa;
                $imp::<{ cfg!(target_arch = "aarch64") }>($($arg),*)
            }
        }
    };
}
pub(crate) use versions;

/// As [`versions`], for kernels written over a [`super::lanes::Lane`] type.
macro_rules! versions_by_lane {
    ($(#[$doc:meta])* $vis:vis fn $name:ident = $imp:ident ($($arg:ident : $ty:ty),* $(,)?)) => {
        $(#[$doc])*
        #[expect(clippy::allow_attributes, reason = "not every kernel has many arguments")]
        #[allow(clippy::too_many_arguments, reason = "kernels take what they take")]
        $vis fn $name(isa: $crate::cpu::isa::Isa, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn avx512($($arg: $ty),*) { $imp::<$crate::cpu::lanes::Zmm>($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) { $imp::<$crate::cpu::lanes::Ymm>($($arg),*) }
                use $crate::cpu::isa::Level;
                match isa.level() {
                    Level::Portable => $imp::<$crate::cpu::lanes::Plain>($($arg),*),
                    // SAFETY: an `Isa` of this level exists only where the processor reported its features.
                    Level::Avx2 => unsafe { avx2($($arg),*) },
                    // SAFETY: as above; the levels from here on include AVX-512 F, BW, DQ and VL.
                    Level::Avx512 | Level::Avx512Bf16 | Level::Amx => unsafe { avx512($($arg),*) },
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                let _ = isa;
                $imp::<$crate::cpu::lanes::Plain>($($arg),*)
            }
        }
    };
}
pub(crate) use versions_by_lane;
