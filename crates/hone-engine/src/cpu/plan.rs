//! A layout with the indices that kernels want: who writes which page, and how rows are cut for threads.
//!
//! Knows nothing of what is computed.

use crate::layout::Layout;

/// A layout with the indices that kernels want.
#[derive(Debug)]
pub struct Plan {
    pub(super) layout: Layout,
    /// Places sorted by row, and where each row's begin.
    pub(super) by_row: Vec<(u32, u32)>,
    pub(super) row_starts: Vec<usize>,
    /// Places of each written page begin here.
    pub(super) page_starts: Vec<usize>,
    /// Runs of each group.
    pub(super) groups: Vec<Vec<usize>>,
    /// Row stretches for the forward: (run, first row of the run, rows).
    pub(super) parts: Vec<(usize, usize, usize)>,
    pub(super) n_pages: usize,
}

impl Plan {
    pub(super) fn new(layout: &Layout) -> Self {
        const PART_ROWS: usize = 64;
        let n_rows = layout.n_rows();
        let mut sorted: Vec<_> = layout.places.iter().map(|place| (place.row, place.page, place.offset)).collect();
        sorted.sort_unstable();
        let mut row_starts = vec![0; n_rows + 1];
        for &(row, ..) in &sorted {
            row_starts[row as usize + 1] += 1;
        }
        for row in 0..n_rows {
            row_starts[row + 1] += row_starts[row];
        }
        let mut page_starts: Vec<usize> = Vec::new();
        for (i, place) in layout.places.iter().enumerate() {
            if i == 0 || layout.places[i - 1].page != place.page {
                page_starts.push(i);
            }
        }
        if !page_starts.is_empty() {
            page_starts.push(layout.places.len());
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut parts = Vec::new();
        let mut group_of = std::collections::HashMap::new();
        for (i, run) in layout.runs.iter().enumerate() {
            let slot = *group_of.entry(run.group).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[slot].push(i);
            parts.extend((0..run.n_rows).step_by(PART_ROWS).map(|at| (i, at, PART_ROWS.min(run.n_rows - at))));
        }
        let n_pages = layout.runs.iter().flat_map(|run| &run.pages).map(|&page| page as usize + 1).max().unwrap_or(0);
        let by_row = sorted.into_iter().map(|(_, page, offset)| (page, offset)).collect();
        Self { layout: layout.clone(), by_row, row_starts, page_starts, groups, parts, n_pages }
    }
}
