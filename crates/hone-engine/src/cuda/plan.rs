//! A layout on the GPU: positions, places, and who attends to which pages.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::device::Device;
use super::memory::Memory;
use crate::layout::{Layout, PAGE};

/// Flat rows (a query position and a head of its group each) of one block of the forward.
pub(super) const TILE: usize = 64;

/// A layout on the GPU.
pub struct Plan {
    pub(super) layout: Layout,
    pub(super) positions: Memory,
    /// (page, offset, row) of every key.
    pub(super) places: Memory,
    /// (first row, rows, first position, first of its pages) of every run.
    pub(super) runs: Memory,
    pub(super) pages: Memory,
    /// Per number of query heads in a group, as models differ in it: made when first asked for.
    tiles: OnceLock<(usize, Memory, usize)>,
    backward: OnceLock<Backward>,
}

/// What the backward of attention needs besides.
pub(super) struct Backward {
    /// (first of its pages, pages, first user, last user) of every block of pages.
    pub(super) blocks: Memory,
    pub(super) n_blocks: usize,
    pub(super) block_pages: Memory,
    /// (run, position of the block's first key in it).
    pub(super) users: Memory,
    /// The places of row r's key are `slots[starts[r]..starts[r + 1]]`, each a page and an offset in one number.
    pub(super) starts: Memory,
    pub(super) slots: Memory,
    pub(super) n_pages: usize,
}

impl Plan {
    pub(super) fn new(device: &Arc<Device>, layout: &Layout) -> Self {
        let places: Vec<u32> = layout.places.iter().flat_map(|place| [place.page, place.offset, place.row]).collect();
        let mut pages: Vec<u32> = Vec::new();
        let mut runs: Vec<[i32; 4]> = Vec::with_capacity(layout.runs.len());
        for run in &layout.runs {
            runs.push([run.row0 as i32, run.n_rows as i32, run.pos0 as i32, pages.len() as i32]);
            pages.extend(&run.pages);
        }
        Self {
            positions: device.upload(&layout.positions),
            places: device.upload(&places),
            runs: device.upload(&runs),
            pages: device.upload(&pages),
            layout: layout.clone(),
            tiles: OnceLock::new(),
            backward: OnceLock::new(),
        }
    }

    /// Tiles of the forward for this many query heads per group: (run, first flat row).
    pub(super) fn tiles(&self, device: &Arc<Device>, fan: usize) -> (&Memory, usize) {
        let (made_for, tiles, n) = self.tiles.get_or_init(|| {
            let tiles_of =
                |(index, n_rows): (usize, usize)| (0..n_rows * fan).step_by(TILE).map(move |first| [index as i32, first as i32]);
            let runs = self.layout.runs.iter().map(|run| run.n_rows).enumerate();
            // The last rows of a run see most keys and last longest: they start first.
            let mut tiles: Vec<[i32; 2]> = runs.flat_map(tiles_of).collect();
            tiles.reverse();
            (fan, device.upload(&tiles), tiles.len())
        });
        assert_eq!(*made_for, fan, "a plan serves one model");
        (tiles, *n)
    }

    pub(super) fn backward(&self, device: &Arc<Device>) -> &Backward {
        self.backward.get_or_init(|| Backward::new(device, &self.layout))
    }
}

impl Backward {
    fn new(device: &Arc<Device>, layout: &Layout) -> Self {
        let (blocks, block_pages, users) = blocks(layout);
        let mut slots_by_row: Vec<Vec<u32>> = vec![Vec::new(); layout.n_rows()];
        for place in &layout.places {
            slots_by_row[place.row as usize].push(place.page * PAGE as u32 + place.offset);
        }
        let mut starts = vec![0u32];
        for slots in &slots_by_row {
            starts.push(starts[starts.len() - 1] + slots.len() as u32);
        }
        let largest = block_pages.iter().chain(layout.places.iter().map(|place| &place.page)).max();
        Self {
            n_blocks: blocks.len(),
            n_pages: largest.map_or(0, |&page| page as usize + 1),
            blocks: device.upload(&blocks),
            block_pages: device.upload(&block_pages),
            users: device.upload(&users),
            starts: device.upload(&starts),
            slots: device.upload(&slots_by_row.concat()),
        }
    }
}

type Blocks = (Vec<[i32; 4]>, Vec<u32>, Vec<[i32; 2]>);

/// Pages in blocks of up to four that follow each other and are seen by the same runs, with those runs in order.
fn blocks(layout: &Layout) -> Blocks {
    let mut seen_by: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, run) in layout.runs.iter().enumerate() {
        for (at, &page) in run.pages.iter().enumerate().filter(|&(at, _)| at * PAGE < run.pos0 + run.n_rows) {
            seen_by.entry(page).or_default().push((index, at));
        }
    }
    let follows = |page: u32, next: u32| {
        let (seen, next) = (&seen_by[&page], &seen_by[&next]);
        seen.len() == next.len() && seen.iter().zip(next).all(|(a, b)| a.0 == b.0 && a.1 + 1 == b.1)
    };
    let (mut blocks, mut block_pages, mut users) = (Vec::new(), Vec::new(), Vec::new());
    let mut done = std::collections::BTreeSet::new();
    for run in &layout.runs {
        let n_seen = (run.pos0 + run.n_rows).div_ceil(PAGE).min(run.pages.len());
        let mut at = 0;
        while at < n_seen {
            let first = at;
            at += 1;
            if !done.insert(run.pages[first]) {
                continue;
            }
            while at < n_seen && at < first + 4 && follows(run.pages[at - 1], run.pages[at]) && done.insert(run.pages[at]) {
                at += 1;
            }
            let of_block = &run.pages[first..at];
            let seen = seen_by[&of_block[0]].iter().map(|&(run, at)| [run as i32, (at * PAGE) as i32]);
            let (first_page, first_user) = (block_pages.len() as i32, users.len() as i32);
            block_pages.extend_from_slice(of_block);
            users.extend(seen);
            blocks.push([first_page, of_block.len() as i32, first_user, users.len() as i32]);
        }
    }
    (blocks, block_pages, users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Group, Packed};

    #[test]
    fn shared_pages_are_one_block_for_all_who_see_them() {
        let packed = Packed::new(&[Group { prompt: vec![1; 40], completions: vec![vec![2; 30], vec![3; 3]] }]);
        let (blocks, pages, users) = blocks(&packed.layout);
        // The prompt's two full pages are seen by all three runs, its half page by the prompt alone.
        assert_eq!(blocks[0], [0, 2, 0, 3]);
        assert_eq!(users[..3], [[0, 0], [1, 0], [2, 0]]);
        assert_eq!(blocks[1], [2, 1, 3, 4]);
        assert_eq!(users[3..], [[0, 32], [1, 32], [2, 32]]);
        assert_eq!(pages.len(), packed.n_pages);
    }
}
