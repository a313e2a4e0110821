//! Arithmetic on sixteen f32 at a time, in plain Rust that the compiler turns into vectors.
//!
//! Every sum in the fast backend is held in sixteen lanes and folded by one fixed tree, so its order never depends on
//! the vector width of the machine. `FMA` says whether multiply-adds are fused.

/// Sixteen f32 in registers, for the loops where the compiler's own choice is not good enough. The operations are the
/// same on every level, so the choice of type changes no bit among levels that fuse.
pub(crate) trait Lane: Copy {
    /// Multiply-adds are fused.
    const FMA: bool;
    fn load(from: &[f32]) -> Self;
    fn store(self, to: &mut [f32]);
    /// `a·b + self` with one `a` for all lanes.
    fn fma_splat(self, a: f32, b: Self) -> Self;
    /// `self·a`.
    fn scale(self, a: f32) -> Self;
    /// `self + other`.
    fn add(self, other: Self) -> Self;

    #[inline(always)]
    fn zero() -> Self {
        Self::load(&ZERO)
    }

    #[inline(always)]
    fn array(self) -> V {
        let mut v = ZERO;
        self.store(&mut v);
        v
    }
}

/// Whatever the compiler's baseline is.
#[derive(Clone, Copy)]
pub(crate) struct Plain(V);

impl Lane for Plain {
    const FMA: bool = cfg!(target_arch = "aarch64");

    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        Self(load(from))
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        to[..LANES].copy_from_slice(&self.0);
    }

    #[inline(always)]
    fn fma_splat(self, a: f32, b: Self) -> Self {
        let mut out = self;
        for i in 0..LANES {
            out.0[i] = if Self::FMA { a.mul_add(b.0[i], out.0[i]) } else { a * b.0[i] + out.0[i] };
        }
        out
    }

    #[inline(always)]
    fn scale(self, a: f32) -> Self {
        let mut out = self;
        out.0.iter_mut().for_each(|x| *x *= a);
        out
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let mut out = self;
        out.0.iter_mut().zip(other.0).for_each(|(x, y)| *x += y);
        out
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use wide::{Ymm, Zmm};

/// The vector registers of AVX2 and AVX-512.
///
/// Methods may only be called where the processor has the instructions. They are private to the kernels, which are
/// reached through `versions_by_lane`, and that macro picks the type by `Isa`.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "intrinsics; the kernels' dispatch proves the instructions")]
mod wide {
    use std::arch::x86_64::*;

    use super::{LANES, Lane};

    #[derive(Clone, Copy)]
    pub(crate) struct Zmm(__m512);

    impl Lane for Zmm {
        const FMA: bool = true;

        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            let from = &from[..LANES];
            // SAFETY: sixteen readable floats; AVX-512 is proved by the dispatch.
            unsafe { Self(_mm512_loadu_ps(from.as_ptr())) }
        }

        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            let to = &mut to[..LANES];
            // SAFETY: sixteen writable floats; AVX-512 is proved by the dispatch.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
        }

        #[inline(always)]
        fn fma_splat(self, a: f32, b: Self) -> Self {
            // SAFETY: AVX-512 is proved by the dispatch.
            unsafe { Self(_mm512_fmadd_ps(_mm512_set1_ps(a), b.0, self.0)) }
        }

        #[inline(always)]
        fn scale(self, a: f32) -> Self {
            // SAFETY: AVX-512 is proved by the dispatch.
            unsafe { Self(_mm512_mul_ps(self.0, _mm512_set1_ps(a))) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: AVX-512 is proved by the dispatch.
            unsafe { Self(_mm512_add_ps(self.0, other.0)) }
        }
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Ymm(__m256, __m256);

    impl Lane for Ymm {
        const FMA: bool = true;

        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            let from = &from[..LANES];
            // SAFETY: sixteen readable floats; AVX2 is proved by the dispatch.
            unsafe { Self(_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))) }
        }

        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            let to = &mut to[..LANES];
            // SAFETY: sixteen writable floats; AVX2 is proved by the dispatch.
            unsafe {
                _mm256_storeu_ps(to.as_mut_ptr(), self.0);
                _mm256_storeu_ps(to.as_mut_ptr().add(8), self.1);
            }
        }

        #[inline(always)]
        fn fma_splat(self, a: f32, b: Self) -> Self {
            // SAFETY: AVX2 and FMA are proved by the dispatch.
            unsafe {
                let a = _mm256_set1_ps(a);
                Self(_mm256_fmadd_ps(a, b.0, self.0), _mm256_fmadd_ps(a, b.1, self.1))
            }
        }

        #[inline(always)]
        fn scale(self, a: f32) -> Self {
            // SAFETY: AVX2 is proved by the dispatch.
            unsafe {
                let a = _mm256_set1_ps(a);
                Self(_mm256_mul_ps(self.0, a), _mm256_mul_ps(self.1, a))
            }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: AVX2 is proved by the dispatch.
            unsafe { Self(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
        }
    }
}

/// Asks for a stretch of memory ahead of its use; changes no value.
#[inline(always)]
#[expect(clippy::allow_attributes, reason = "only x86-64 has the instruction here")]
#[allow(unsafe_code, reason = "a prefetch takes a pointer")]
pub(crate) fn prefetch(ahead: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in ahead.chunks(LANES) {
        // SAFETY: a prefetch never faults, and the address is that of a live slice.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.as_ptr().cast());
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = ahead;
}

/// Width of every vector in this backend.
pub(crate) const LANES: usize = 16;
/// Sixteen floats.
pub(crate) type V = [f32; LANES];

pub(crate) const ZERO: V = [0.0; LANES];

#[inline(always)]
pub(crate) fn load(from: &[f32]) -> V {
    let mut v = ZERO;
    v.copy_from_slice(&from[..LANES]);
    v
}

/// Loads up to sixteen floats; missing lanes are zero.
#[inline(always)]
pub(crate) fn load_part(from: &[f32]) -> V {
    let mut v = ZERO;
    v[..from.len()].copy_from_slice(from);
    v
}

#[inline(always)]
pub(crate) fn store(v: &V, to: &mut [f32]) {
    to[..LANES].copy_from_slice(v);
}

#[inline(always)]
pub(crate) fn fma1<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `a·b + c` per lane.
#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: &V, b: &V, c: &V) -> V {
    let mut out = ZERO;
    for i in 0..LANES {
        out[i] = fma1::<FMA>(a[i], b[i], c[i]);
    }
    out
}

/// Folds the lanes by halves: a fixed tree.
#[inline(always)]
pub(crate) fn sum(v: &V) -> f32 {
    let mut eight = [0.0; 8];
    for i in 0..8 {
        eight[i] = v[i] + v[i + 8];
    }
    let mut four = [0.0; 4];
    for i in 0..4 {
        four[i] = eight[i] + eight[i + 4];
    }
    (four[0] + four[2]) + (four[1] + four[3])
}

#[inline(always)]
pub(crate) fn max(v: &V) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut eight = [0.0; 8];
    for i in 0..8 {
        eight[i] = larger(v[i], v[i + 8]);
    }
    let mut four = [0.0; 4];
    for i in 0..4 {
        four[i] = larger(eight[i], eight[i + 4]);
    }
    larger(larger(four[0], four[2]), larger(four[1], four[3]))
}

/// Sum of products over slices of equal length.
#[inline(always)]
pub(crate) fn dot<const FMA: bool>(a: &[f32], b: &[f32]) -> f32 {
    let (a_full, a_rest) = a.split_at(a.len() / LANES * LANES);
    let (b_full, b_rest) = b.split_at(a_full.len());
    let mut acc = ZERO;
    for (a, b) in a_full.chunks_exact(LANES).zip(b_full.chunks_exact(LANES)) {
        acc = fma::<FMA>(&load(a), &load(b), &acc);
    }
    if !a_rest.is_empty() {
        acc = fma::<FMA>(&load_part(a_rest), &load_part(b_rest), &acc);
    }
    sum(&acc)
}

/// `e^x`, relative error below 2e-7 between -87 and 88, clamped outside.
///
/// `x = n·ln 2 + r` with `n` found by adding and removing 1.5·2²³, then a polynomial in `r` and `n` put into the exponent.
#[inline(always)]
pub(crate) fn exp1<const FMA: bool>(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = fma1::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma1::<FMA>(n, -0.693_359_4, x);
    let r = fma1::<FMA>(n, 2.121_944_4e-4, r);
    let mut p = 1.987_569_1e-4;
    p = fma1::<FMA>(p, r, 1.398_2e-3);
    p = fma1::<FMA>(p, r, 8.333_452e-3);
    p = fma1::<FMA>(p, r, 4.166_579_6e-2);
    p = fma1::<FMA>(p, r, 1.666_666_5e-1);
    p = fma1::<FMA>(p, r, 5e-1);
    let y = fma1::<FMA>(p, r * r, r) + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    y * f32::from_bits(exponent)
}

/// `e^x` per lane.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: &V) -> V {
    let mut out = ZERO;
    for i in 0..LANES {
        out[i] = exp1::<FMA>(x[i]);
    }
    out
}

/// `e^x` per lane, fused as the lane type says.
#[inline(always)]
pub(crate) fn exp_like<L: Lane>(x: &V) -> V {
    if L::FMA { exp::<true>(x) } else { exp::<false>(x) }
}

/// `e^x`, fused as the lane type says.
#[inline(always)]
pub(crate) fn exp1_like<L: Lane>(x: f32) -> f32 {
    if L::FMA { exp1::<true>(x) } else { exp1::<false>(x) }
}

/// Rounds to bf16, ties to even. NaN stays NaN.
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if x.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded as u16 }
}

#[inline(always)]
pub(crate) fn from_bf16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_everywhere() {
        for i in -8700..=8800 {
            let x = i as f32 / 100.0;
            let exact = f64::from(x).exp();
            for fast in [exp1::<true>(x), exp1::<false>(x)] {
                assert!((f64::from(fast) - exact).abs() <= 3e-7 * exact, "{x}: {fast} {exact}");
            }
        }
        assert_eq!(exp1::<true>(0.0), 1.0);
    }

    #[test]
    fn bf16_rounding_is_that_of_half() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let x = f32::from_bits(bits);
            assert_eq!(to_bf16(x), half::bf16::from_f32(x).to_bits(), "{x}");
        }
    }
}
