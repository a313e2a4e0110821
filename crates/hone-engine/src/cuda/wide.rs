//! Our products by groups of warps, for GPUs that have them (compute capability 9.0): see `kernels/wide.cu`.
//!
//! There is a kernel for each tile that may pay somewhere; which one does is found by timing. They are compiled in families, when one
//! of a family is first asked for.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::compile::Code;
use super::device::{Device, Grid};
use super::few::{Few, Then};
use super::library::Map;

/// Inner steps of a chunk, as in the kernels: 128 bytes.
const STEP: usize = 64;
/// Most stages, as in the kernels.
const STAGES_MAX: usize = 32;
/// Widest input that is normed with the product: as much as a warp may hold of a row. And most rows of it.
const NORMED_MAX: usize = 1024;
const NORMED_ROWS_MAX: usize = 16;
/// Of a multiprocessor's memory, the parts that the stages of a block may take.
const SHARES: [usize; 3] = [4, 2, 1];
/// The rank of adapters that are computed with the product.
const RANK: usize = 16;
/// Most rows of the right operand whose parts are added: what is there is held beside the sums, as in the kernels. And most chunks of a stage:
/// a run has no more.
const PARTS_RIGHT_MAX: usize = 64;
const PARTS_EACH_MAX: usize = 2;

/// Rows of the left operand, 64 for a group of four warps, and of the right one. Turned, outputs are the left one, and there may be fewer.
#[derive(Clone, Copy, Debug)]
struct Tile {
    left: usize,
    right: usize,
    turned: bool,
}

const fn tile(left: usize, right: usize) -> Tile {
    Tile { left, right, turned: false }
}

const fn turned(left: usize, right: usize) -> Tile {
    Tile { left, right, turned: true }
}

/// The tiles that the kernels have, and how many chunks a stage of each may have.
const TILES: [(Tile, &[usize]); 14] = [
    (tile(64, 24), &[3, 4]),
    (tile(64, 32), &[1, 2, 3, 4]),
    (tile(64, 48), &[2, 3, 4]),
    (tile(64, 64), &[1, 2, 3, 4]),
    (tile(128, 32), &[1, 2, 3]),
    (tile(128, 48), &[1, 2, 3]),
    (tile(128, 64), &[1, 2, 3]),
    (tile(128, 80), &[1, 2]),
    (tile(128, 160), &[1]),
    (turned(16, 8), &[1, 2, 3, 4]),
    (turned(64, 8), &[1, 2, 3, 4]),
    (turned(64, 16), &[1, 2, 3]),
    (turned(64, 32), &[1, 2, 3]),
    (turned(64, 64), &[1, 2, 3]),
];

/// Those that take an adapter.
const ADAPTED: [(Tile, &[usize]); 3] = [(tile(64, 32), &[1, 2, 3]), (tile(64, 64), &[1, 2, 3]), (tile(128, 64), &[1, 2])];

/// Kernels that are compiled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Family {
    /// Rows are the left operand.
    Many,
    /// Rows are the right operand.
    Few,
    /// With an adapter.
    Adapted,
    /// As the three above, of inputs that are summed in parts: few models have such products.
    ManyParts,
    FewParts,
    AdaptedParts,
}

impl Family {
    /// Every family.
    pub(super) const ALL: [Self; 6] = [Self::Many, Self::Few, Self::Adapted, Self::ManyParts, Self::FewParts, Self::AdaptedParts];
}

/// How a product is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    tile: Tile,
    /// Chunks of a stage.
    n_each: usize,
    /// Whether the input's norm is computed with it.
    pub(super) normed: bool,
    /// Columns of the low-rank part.
    n_low: usize,
    /// Whether inputs are summed in parts.
    in_parts: bool,
    /// Stages take at most one of so many parts of a multiprocessor's memory: the kernel behind starts beside those that leave it room.
    share: usize,
}

/// The adapters of stretches of the outputs, as the kernels read them.
#[repr(C)]
struct Behind {
    b: [u64; 3],
    ends: [i32; 3],
    scale: f32,
}

/// A product, as the kernels read it.
#[repr(C, align(64))]
struct Wide {
    x: Map,
    w: Map,
    a: Map,
    behind: Behind,
    stream: u64,
    gain: u64,
    y: u64,
    act: u64,
    rows: i32,
    n: i32,
    k: i32,
    y_stride: i32,
    mode: i32,
    n_stages: i32,
    eps: f32,
    /// Stages of a part and of a run of it.
    part: i32,
    run: i32,
}

/// All ways that the kernels of a family have.
fn all(family: Family) -> Vec<Way> {
    let each = |(tile, each): &(Tile, &'static [usize])| {
        let tile = *tile;
        each.iter()
            .map(move |&n_each| Way { tile, n_each, normed: false, n_low: 0, in_parts: false, share: SHARES[0] })
            .collect::<Vec<_>>()
    };
    let of_tiles = |turned: bool| TILES.iter().filter(|(tile, _)| tile.turned == turned).flat_map(each).collect::<Vec<_>>();
    match family {
        Family::Many => of_tiles(false),
        Family::Few => {
            let normed = |way: Way| (way.tile.right <= NORMED_ROWS_MAX).then_some(Way { normed: true, ..way });
            of_tiles(true).into_iter().flat_map(|way| [Some(way), normed(way)]).flatten().collect()
        }
        Family::Adapted => {
            ADAPTED.iter().flat_map(each).flat_map(|way| [RANK, 2 * RANK].map(|n_low| Way { n_low, ..way })).collect()
        }
        Family::ManyParts => in_parts(Family::Many),
        Family::FewParts => in_parts(Family::Few),
        Family::AdaptedParts => in_parts(Family::Adapted),
    }
}

/// Those of a family that there are for parts too: what these are added to has room, and is neither a norm's product nor a gate.
fn in_parts(family: Family) -> Vec<Way> {
    let has_room = |way: &Way| way.tile.right <= PARTS_RIGHT_MAX && way.n_each <= PARTS_EACH_MAX;
    let takes = |way: &Way| has_room(way) && !way.normed && way.n_low <= RANK;
    all(family).into_iter().filter(takes).map(|way| Way { in_parts: true, ..way }).collect()
}

/// The ways in which a product can be computed on this GPU.
pub(super) fn ways(few: &Few, device: &Device, then: Then) -> Vec<Way> {
    if !device.has_groups() {
        return vec![];
    }
    let families: &[Family] = match (few.rank, few.part) {
        (0, 0) => &[Family::Many, Family::Few],
        (0, _) => &[Family::ManyParts, Family::FewParts],
        (_, 0) => &[Family::Adapted],
        _ => &[Family::AdaptedParts],
    };
    // Each with another number of stages.
    let each = |way: Way| {
        let mut ways = SHARES.map(|share| Way { share, ..way }).to_vec();
        ways.dedup_by_key(|way| way.n_stages(few, device));
        ways
    };
    // A compiler that is too old for a family costs time, not the run.
    let compiled = families.iter().filter(|&&family| device.has(Code::Wide(family)));
    let ways = compiled.flat_map(|&family| all(family)).flat_map(each);
    ways.filter(|way| way.fits(few, device, then)).collect()
}

/// The way that should take the least time, which is not measured. Of more blocks than multiprocessors, two share one where it has registers for
/// them, so that one multiplies while the other begins or ends. Beyond that, what is asked for early is there early.
pub(super) fn quickest(few: &Few, device: &Device, then: Then) -> Option<Way> {
    let n_blocks = |way: &Way| {
        let (along_rows, along_outputs) = way.blocks(few, then);
        along_rows * along_outputs
    };
    let shares = |way: &Way| n_blocks(way) > device.n_processors && way.tile.left <= 64;
    // What a multiprocessor has to fetch, as for few.
    let time = |way: &Way| (n_blocks(way) as f32 / device.n_processors as f32).max(1.0) * (way.tile.left + way.tile.right) as f32;
    let depth = |way: &Way| (way.n_stages(few, device) * way.n_each, way.n_each);
    let sooner = |a: &Way, b: &Way| time(a).total_cmp(&time(b)).then_with(|| depth(b).cmp(&depth(a)));
    ways(few, device, then).into_iter().filter(|way| way.share > 1 || !shares(way)).min_by(sooner)
}

/// The source of a family's kernels: an instruction for each width, what all share, a kernel for each way.
pub(super) fn source(family: Family) -> String {
    let ways = all(family);
    let mut widths: Vec<usize> = ways.iter().flat_map(|way| [way.tile.right, way.n_low]).filter(|&n| n > 0).collect();
    widths.sort_unstable();
    widths.dedup();
    let mut text = String::from(
        "template <int N> __device__ __forceinline__ void group_multiply(float *d, u64 left, u64 right, int more);\n",
    );
    for n in widths {
        let list = |one: &dyn Fn(usize) -> String| (0..n / 2).map(one).collect::<Vec<_>>().join(",");
        let (places, operands) = (list(&|i| format!("%{i}")), list(&|i| format!("\"+f\"(d[{i}])")));
        let (left, right, more) = (n / 2, n / 2 + 1, n / 2 + 2);
        let _ = writeln!(
            text,
            "template <> __device__ __forceinline__ void group_multiply<{n}>(float *d, u64 left, u64 right, int more) {{ asm volatile(\
             \"{{ .reg .pred p; setp.ne.b32 p, %{more}, 0; wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{places}}}, %{left}, %{right}, p, 1, 1, 0, 0; }}\"\
             : {operands} : \"l\"(left), \"l\"(right), \"r\"(more)); }}"
        );
    }
    text.push_str(include_str!("kernels/wide.cu"));
    for way in ways {
        let Way { tile: Tile { left, right, turned }, n_each, normed, n_low, in_parts, .. } = way;
        let n_groups = left.div_ceil(64);
        let sizes = format!("{n_groups}, {left}, {right}, {n_each}");
        let _ = writeln!(text, "WIDE({}, {sizes}, {turned}, {normed}, {n_low}, {in_parts})", way.name());
    }
    text
}

impl Tile {
    /// Rows and outputs, a pair counted as two.
    fn sides(&self) -> (usize, usize) {
        if self.turned { (self.right, self.left) } else { (self.left, self.right) }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name(), self.share)
    }
}

impl Way {
    /// Computes the product.
    pub(super) fn run(self, few: &Few, device: &Arc<Device>, then: Then) {
        let (stage, beside) = self.sizes(few);
        let n_stages = self.n_stages(few, device);
        let (x, w, a) = self.axes(few, then);
        let mut wide = Wide {
            x: device.map(few.x, x),
            w: device.map(few.w, w),
            a: if few.a == 0 { Map::default() } else { device.map(few.a, a) },
            behind: Behind {
                b: few.stretches.map(|stretch| stretch.b),
                ends: few.stretches.map(|stretch| stretch.end),
                scale: few.scale,
            },
            stream: few.stream,
            gain: few.gain,
            y: few.y,
            act: few.act,
            rows: few.rows,
            n: few.n,
            k: few.k,
            y_stride: few.y_stride,
            mode: then as i32,
            n_stages: n_stages as i32,
            eps: few.eps,
            part: few.part / self.n_each as i32,
            run: few.run / self.n_each as i32,
        };
        let shared = n_stages * stage + beside + self.slack();
        let threads = 2 * self.tile.left.next_multiple_of(64) + 32;
        let grid = Grid { blocks: self.blocks(few, then), threads, shared, early: true };
        device.launch_with(Code::Wide(self.family()), &self.name(), grid, &mut wide);
    }

    fn fits(&self, few: &Few, device: &Device, then: Then) -> bool {
        let Tile { right, turned, .. } = self.tile;
        let (rows, n, k, n_outs) = (few.rows as usize, few.n as usize, few.k as usize, self.tile.sides().1);
        let normed = !self.normed || few.stream != 0 && k <= NORMED_MAX && k.is_multiple_of(4);
        let sized = if turned { rows <= right && (right == 8 || rows > right / 2) } else { rows > 16 };
        let gated = then != Then::Gate || n_outs.is_multiple_of(16);
        let within = |end: usize| end == n || end.is_multiple_of(n_outs) || then == Then::Gate;
        let adapted = self.n_low == 0
            || few.rank as usize == RANK
                && few.a != 0
                && few.stretches.iter().all(|stretch| within(stretch.end as usize))
                && self.n_low == if then == Then::Gate { 2 * RANK } else { RANK };
        let aligned = few.x.is_multiple_of(16) && few.w.is_multiple_of(16) && k.is_multiple_of(STEP * self.n_each);
        let staged = self.n_stages(few, device) >= 2.min(k / (STEP * self.n_each));
        normed && sized && gated && adapted && aligned && staged && self.takes_parts(few, then)
    }

    /// Whether this is a way for the parts of a product: runs have whole stages.
    fn takes_parts(&self, few: &Few, then: Then) -> bool {
        let (k, part, run) = (few.k as usize, few.part as usize, few.run as usize);
        let whole = run.is_multiple_of(self.n_each) && part.is_multiple_of(run.max(1)) && k.is_multiple_of(STEP * part.max(1));
        if self.in_parts { part > 0 && whole && then == Then::Add } else { part == 0 }
    }

    /// The axes of the input, the weights and the adapter's first matrix as the copy engine sees them: rows of a piece, pieces that belong
    /// together, parts of them, chunks. Of each, how many there are, bytes from one to the next, and how many come at once.
    fn axes(&self, few: &Few, then: Then) -> ([Axis; 4], [Axis; 4], [Axis; 4]) {
        let (n_rows, n_outs) = self.tile.sides();
        let (n, row, x_row) = (few.n as usize, few.w_stride as usize * 2, few.x_stride as usize * 2);
        let chunks = (few.k as usize / STEP, STEP * 2, self.n_each);
        let plain = |n: usize, row: usize, at_once: usize| [(n, row, at_once), (1, row, 1), (1, row, 1), chunks];
        let w = match then {
            Then::Gate if self.tile.turned && n_outs > 16 => {
                [(8, row, 8), (2, n / 2 * row, 2), (n / 16, 8 * row, n_outs / 16), chunks]
            }
            Then::Gate => [(n / 2, row, n_outs / 2), (2, n / 2 * row, 2), (1, row, 1), chunks],
            Then::Set | Then::Add | Then::Round => plain(n, row, n_outs),
        };
        let n_adapters = few.stretches.iter().filter(|stretch| stretch.b != 0).count();
        (plain(few.rows as usize, x_row, n_rows), w, plain(n_adapters * RANK, row, self.n_low))
    }

    /// Tiles along the rows and along the outputs: those that need the same weights start one after the other.
    fn blocks(&self, few: &Few, then: Then) -> (usize, usize) {
        let (n_rows, n_outs) = self.tile.sides();
        let n_each = if then == Then::Gate { 2 } else { 1 };
        ((few.rows as usize).div_ceil(n_rows), (few.n as usize / n_each).div_ceil(n_outs / n_each))
    }

    /// Bytes of a stage, and of what lies beside all stages.
    fn sizes(&self, few: &Few) -> (usize, usize) {
        let (n_rows, n_outs) = self.tile.sides();
        let (streamed, beside) = if self.normed { (0, few.k as usize / STEP * n_rows * 128) } else { (n_rows, 0) };
        (self.n_each * (streamed + n_outs + self.n_low) * 128, beside)
    }

    /// Bytes to align the stages, and those that are read of rows that are not there.
    fn slack(&self) -> usize {
        1024 + if self.tile.turned { (64 - self.tile.left) * 128 } else { 0 }
    }

    fn n_stages(&self, few: &Few, device: &Device) -> usize {
        let (stage, beside) = self.sizes(few);
        let room = (device.shared_max / self.share).saturating_sub(beside + self.slack() + 1024);
        (room / stage).min(STAGES_MAX).min(few.k as usize / (STEP * self.n_each))
    }

    fn family(&self) -> Family {
        match (self.n_low, self.tile.turned, self.in_parts) {
            (0, false, false) => Family::Many,
            (0, true, false) => Family::Few,
            (_, _, false) => Family::Adapted,
            (0, false, true) => Family::ManyParts,
            (0, true, true) => Family::FewParts,
            (_, _, true) => Family::AdaptedParts,
        }
    }

    fn name(&self) -> String {
        let Tile { left, right, turned } = self.tile;
        let mark = |is: bool, mark: &'static str| if is { mark } else { "" };
        let low = if self.n_low > 0 { format!("_low{}", self.n_low) } else { String::new() };
        let (turned, normed, parts) = (mark(turned, "_turned"), mark(self.normed, "_normed"), mark(self.in_parts, "_parts"));
        format!("wide_{left}_{right}_{}{turned}{normed}{low}{parts}", self.n_each)
    }
}

/// Of an axis: how many there are, bytes from one to the next, how many come at once.
type Axis = (usize, usize, usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_kernel_of_its_own() {
        for family in Family::ALL {
            let (source, ways) = (source(family), all(family));
            for way in &ways {
                assert_eq!(way.family(), family, "{way}");
                assert_eq!(source.matches(&format!("WIDE({},", way.name())).count(), 1, "{way}");
            }
            // The macro itself is one more.
            assert_eq!(source.matches("WIDE(").count(), ways.len() + 1);
        }
    }

    #[test]
    fn stages_hold_what_comes_at_once() {
        let few = Few { rows: 256, n: 3072, k: 576, x_stride: 576, w_stride: 576, ..Few::default() };
        for way in Family::ALL.into_iter().flat_map(all) {
            let brought = |axes: [Axis; 4]| 128 * axes.iter().map(|&(_, _, at_once)| at_once).product::<usize>();
            for then in [Then::Set, Then::Gate] {
                let (x, w, a) = way.axes(&few, then);
                let x_bytes = if way.normed { 0 } else { brought(x) };
                assert_eq!(way.sizes(&few).0, x_bytes + brought(w) + brought(a), "{way} {then:?}");
            }
        }
    }

    #[test]
    fn parts_have_ways_of_their_own() {
        // Which of all ways are taken for parts and runs of so many chunks.
        let check = |[part, run]: [i32; 2], k: i32, then: Then, is_taken: &dyn Fn(&Way) -> bool| {
            let few = Few { k, part, run, ..Few::default() };
            for way in Family::ALL.into_iter().flat_map(all) {
                assert_eq!(way.takes_parts(&few, then), is_taken(&way), "{way}: parts of {part}, runs of {run} of {k}, {then:?}");
            }
        };
        check([0, 0], 576, Then::Add, &|way| !way.in_parts);
        check([0, 0], 576, Then::Gate, &|way| !way.in_parts);
        check([3, 1], 576, Then::Add, &|way| way.in_parts && way.n_each == 1);
        check([4, 2], 1536, Then::Add, &|way| way.in_parts);
        check([4, 2], 256, Then::Add, &|way| way.in_parts);
        check([3, 2], 576, Then::Add, &|_| false);
        check([4, 2], 576, Then::Add, &|_| false);
        check([3, 1], 576, Then::Set, &|_| false);
    }
}
