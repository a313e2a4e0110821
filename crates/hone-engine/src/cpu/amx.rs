//! The tile kernel: up to 32 rows by 32 columns of a bf16 product, summed over k in the tile registers.
//!
//! A tile of A is 16 rows of 32 bf16, a tile of B is 16 pairs of k by 16 columns, a tile of C is 16 by 16 f32. For each
//! step of 32 in k: load two tiles of A and two of B, do four `tdpbf16ps`. A C element is summed over k in ascending
//! order whatever surrounds it, so padding rows and columns changes nothing.
//! Stable Rust has no AMX intrinsics; the loops are inline assembly.
#![expect(unsafe_code, reason = "AMX is inline assembly over raw pointers")]
#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::cell::Cell;

/// Layout of the eight tiles: palette 1, 16 rows of 64 bytes each.
#[repr(C, align(64))]
struct TileConfig([u8; 64]);

const CONFIG: TileConfig = {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    TileConfig(bytes)
};

thread_local! {
    static CONFIGURED: Cell<bool> = const { Cell::new(false) };
}

/// Gives this thread its tiles. The configuration is thread state that the kernel saves and restores, so once is enough.
///
/// # Safety
/// The process holds the AMX permission (an `Isa` of level `Amx` exists).
pub(crate) unsafe fn configure() {
    CONFIGURED.with(|configured| {
        if !configured.replace(true) {
            // SAFETY: the operand is a valid 64-byte tile configuration and AMX is permitted, as the caller promises.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIG, options(nostack, readonly)) };
        }
    });
}

/// Where one call reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// First bf16 of the first row of A.
    pub(crate) a: *const u16,
    /// Bytes between rows of A.
    pub(crate) a_stride: usize,
    /// First tile of the first panel of B.
    pub(crate) b: *const u16,
    /// Bytes between panels of B.
    pub(crate) b_panel: usize,
    /// Steps of 32 in k; at least one.
    pub(crate) k_steps: usize,
    /// First f32 of C.
    pub(crate) c: *mut f32,
    /// Bytes between rows of C.
    pub(crate) c_stride: usize,
    /// C is added to rather than replaced.
    pub(crate) add: bool,
    /// B comes from memory and is used once.
    pub(crate) stream: bool,
}

/// Asks for the sixteen lines of a tile, four tiles ahead of `{$b}`; weights that are read once come from memory.
macro_rules! prefetch_tile {
    ($b:literal) => {
        concat!(
            ".irp ahead, 4096, 4160, 4224, 4288, 4352, 4416, 4480, 4544, 4608, 4672, 4736, 4800, 4864, 4928, 4992, 5056\n",
            "prefetcht0 [{",
            $b,
            "} + \\ahead]\n",
            ".endr"
        )
    };
}

/// The four products of a 32x32 block, all of k; `$first` comes before each step.
macro_rules! sum_32x32 {
    ($block:ident $(, $first:expr)*) => {
        asm!(
            "2:",
            $($first,)*
            "tileloadd tmm6, [{b0} + {bs}]",
            "tileloadd tmm4, [{a0} + {s}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b1} + {bs}]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a1} + {s}]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a0}, 64",
            "add {a1}, 64",
            "add {b0}, 1024",
            "add {b1}, 1024",
            "dec {k}",
            "jnz 2b",
            a0 = inout(reg) $block.a => _,
            a1 = inout(reg) $block.a.byte_add(16 * $block.a_stride) => _,
            b0 = inout(reg) $block.b => _,
            b1 = inout(reg) $block.b.byte_add($block.b_panel) => _,
            s = in(reg) $block.a_stride,
            bs = in(reg) 64usize,
            k = inout(reg) $block.k_steps => _,
            options(nostack, readonly)
        )
    };
}

/// 32 rows by 32 columns.
///
/// # Safety
/// AMX is permitted and configured on this thread. `a` has 32 readable rows of `k_steps`·64 bytes, `b` two panels of
/// `k_steps` tiles of 1 KiB, `c` 32 rows of 32 writable f32 that nobody else touches.
pub(crate) unsafe fn tile_32x32(block: Block) {
    // SAFETY: the assembly reads and writes exactly the ranges that the caller vouches for, uses only tile registers
    // (which compiled Rust never holds values in) and declared general registers, and leaves the stack alone.
    unsafe {
        if block.add {
            asm!(
                "tileloadd tmm0, [{c0} + {cs}]",
                "tileloadd tmm1, [{c0} + {cs} + 64]",
                "tileloadd tmm2, [{c1} + {cs}]",
                "tileloadd tmm3, [{c1} + {cs} + 64]",
                c0 = in(reg) block.c,
                c1 = in(reg) block.c.byte_add(16 * block.c_stride),
                cs = in(reg) block.c_stride,
                options(nostack, readonly)
            );
        } else {
            asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
        }
        if block.stream {
            sum_32x32!(block, prefetch_tile!("b0"), prefetch_tile!("b1"));
        } else {
            sum_32x32!(block);
        }
        asm!(
            "tilestored [{c0} + {cs}], tmm0",
            "tilestored [{c0} + {cs} + 64], tmm1",
            "tilestored [{c1} + {cs}], tmm2",
            "tilestored [{c1} + {cs} + 64], tmm3",
            c0 = in(reg) block.c,
            c1 = in(reg) block.c.byte_add(16 * block.c_stride),
            cs = in(reg) block.c_stride,
            options(nostack)
        );
    }
}

/// 16 rows by 32 columns, for what is left of few rows.
///
/// # Safety
/// As for [`tile_32x32`] with 16 rows of A and C.
pub(crate) unsafe fn tile_16x32(block: Block) {
    // SAFETY: as in `tile_32x32`.
    unsafe {
        if block.add {
            asm!(
                "tileloadd tmm0, [{c0} + {cs}]",
                "tileloadd tmm1, [{c0} + {cs} + 64]",
                c0 = in(reg) block.c,
                cs = in(reg) block.c_stride,
                options(nostack, readonly)
            );
        } else {
            asm!("tilezero tmm0", "tilezero tmm1", options(nostack, nomem));
        }
        asm!(
            "2:",
            prefetch_tile!("b0"),
            prefetch_tile!("b1"),
            "tileloadd tmm4, [{a0} + {s}]",
            "tileloadd tmm6, [{b0} + {bs}]",
            "tileloadd tmm7, [{b1} + {bs}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "add {a0}, 64",
            "add {b0}, 1024",
            "add {b1}, 1024",
            "dec {k}",
            "jnz 2b",
            a0 = inout(reg) block.a => _,
            b0 = inout(reg) block.b => _,
            b1 = inout(reg) block.b.byte_add(block.b_panel) => _,
            s = in(reg) block.a_stride,
            bs = in(reg) 64usize,
            k = inout(reg) block.k_steps => _,
            options(nostack, readonly)
        );
        asm!(
            "tilestored [{c0} + {cs}], tmm0",
            "tilestored [{c0} + {cs} + 64], tmm1",
            c0 = in(reg) block.c,
            cs = in(reg) block.c_stride,
            options(nostack)
        );
    }
}
