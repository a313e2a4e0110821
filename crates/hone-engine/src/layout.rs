//! Where the rows of a batch stand: which sequence, which position, which pages of the key-value store.
//!
//! A *page* holds the keys and values of [`PAGE`] consecutive positions. A *run* is a stretch of consecutive positions of
//! one sequence, laid out as consecutive rows; it sees every key of its pages up to its own position. Sampling and
//! training use the same description: a decode step is a run of one row, a prompt is a long run, and the completions of
//! a group are runs whose page lists begin with the prompt's full pages. The page in which the prompt ends is copied per
//! completion (a row may be written to several pages), because keys are walked in whole pages from position 0 and a
//! page has one owner per walk. That is what keeps a decoded row and a trained row equal to the bit.
//!
//! Knows nothing of models, devices or adapters.

/// Positions per page; also the width of a block in the attention walk.
pub const PAGE: usize = 16;

/// Consecutive positions of one sequence in consecutive rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// First row in the batch.
    pub row0: usize,
    /// Number of rows.
    pub n_rows: usize,
    /// Position of the first row.
    pub pos0: usize,
    /// Pages of positions `0..pos0 + n_rows`, in order.
    pub pages: Vec<u32>,
    /// Runs that share pages have the same group; gradients of shared keys are summed in run order inside it.
    pub group: usize,
}

/// A row's key and value go to this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Page.
    pub page: u32,
    /// Position inside the page.
    pub offset: u32,
    /// Row of the batch.
    pub row: u32,
}

/// A batch of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Token of each row.
    pub ids: Vec<u32>,
    /// Position of each row.
    pub positions: Vec<u32>,
    /// The runs, rows ascending and contiguous.
    pub runs: Vec<Run>,
    /// Where keys and values are written, sorted by page and offset.
    pub places: Vec<Place>,
}

impl Layout {
    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.ids.len()
    }

    /// Appends a run whose keys go to its own pages.
    pub fn push_run(&mut self, ids: &[u32], pos0: usize, pages: Vec<u32>, group: usize) {
        let row0 = self.ids.len();
        assert!(pages.len() * PAGE >= pos0 + ids.len(), "pages cover the run");
        for (i, &id) in ids.iter().enumerate() {
            let pos = pos0 + i;
            self.ids.push(id);
            self.positions.push(pos as u32);
            self.places.push(Place { page: pages[pos / PAGE], offset: (pos % PAGE) as u32, row: (row0 + i) as u32 });
        }
        self.runs.push(Run { row0, n_rows: ids.len(), pos0, pages, group });
    }

    /// Sorts the places; call once after the last run.
    pub fn finish(&mut self) {
        self.places.sort_unstable();
    }
}

/// One prompt and the completions that continue it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Shared first part; computed once. May be empty, then every completion stands alone.
    pub prompt: Vec<u32>,
    /// What follows, one per member.
    pub completions: Vec<Vec<u32>>,
}

/// A training batch: prompt runs followed by their completions, and the row that predicts each completion's tokens.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// The rows.
    pub layout: Layout,
    /// Pages needed.
    pub n_pages: usize,
    /// `(row, target)` for every predicted completion token, group by group, member by member.
    pub targets: Vec<(u32, u32)>,
    /// `targets` of member `m` of group `g` are `targets[spans[g][m].0..spans[g][m].1]`.
    pub spans: Vec<Vec<(usize, usize)>>,
}

impl Packed {
    /// Lays the groups out as P + n·R rows.
    ///
    /// The last token of a completion is only a target, never an input: nothing is predicted from it. With an empty prompt
    /// the first token of a completion has no predecessor and is not predicted.
    pub fn new(groups: &[Group]) -> Self {
        let mut packed = Self::default();
        for (index, group) in groups.iter().enumerate() {
            packed.push(group, index);
        }
        packed.layout.finish();
        packed
    }

    fn push(&mut self, group: &Group, index: usize) {
        let n_prompt = group.prompt.len();
        let prompt_row0 = self.layout.n_rows();
        let prompt_pages = self.pages(n_prompt.div_ceil(PAGE));
        if n_prompt > 0 {
            self.layout.push_run(&group.prompt, 0, prompt_pages.clone(), index);
        }
        let (full, tail) = (n_prompt / PAGE, n_prompt % PAGE);
        let mut spans = Vec::with_capacity(group.completions.len());
        for completion in &group.completions {
            let n_rows = completion.len().saturating_sub(1);
            let mut pages = prompt_pages[..full].to_vec();
            if n_rows > 0 {
                pages.extend(self.pages((n_prompt + n_rows).div_ceil(PAGE) - full));
                for offset in 0..tail {
                    let row = (prompt_row0 + full * PAGE + offset) as u32;
                    self.layout.places.push(Place { page: pages[full], offset: offset as u32, row });
                }
            }
            let row0 = self.layout.n_rows();
            let first = self.targets.len();
            if let Some(&target) = completion.first().filter(|_| n_prompt > 0) {
                self.targets.push(((prompt_row0 + n_prompt - 1) as u32, target));
            }
            self.targets.extend(completion.iter().skip(1).enumerate().map(|(i, &id)| ((row0 + i) as u32, id)));
            spans.push((first, self.targets.len()));
            if n_rows > 0 {
                self.layout.push_run(&completion[..n_rows], n_prompt, pages, index);
            }
        }
        self.spans.push(spans);
    }

    fn pages(&mut self, n: usize) -> Vec<u32> {
        let first = self.n_pages as u32;
        self.n_pages += n;
        (first..first + n as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_p_plus_n_r_rows() {
        let group = Group { prompt: vec![7; 20], completions: vec![vec![1, 2, 3], vec![4], vec![5, 6]] };
        let packed = Packed::new(&[group]);
        // Of a completion of R tokens, R - 1 are inputs.
        assert_eq!(packed.layout.n_rows(), 20 + 2 + 1);
        assert_eq!(packed.targets, [(19, 1), (20, 2), (21, 3), (19, 4), (19, 5), (22, 6)]);
        assert_eq!(packed.spans, [vec![(0, 3), (3, 4), (4, 6)]]);
        // The prompt ends in its second page at offset 4; both continuing members copy those four keys.
        let copies = packed.layout.places.iter().filter(|place| place.row == 16).count();
        assert_eq!(copies, 3);
        assert_eq!(packed.layout.runs[1].pages[0], packed.layout.runs[2].pages[0]);
        assert_ne!(packed.layout.runs[1].pages[1], packed.layout.runs[2].pages[1]);
    }

    #[test]
    fn without_a_prompt_the_first_token_is_not_predicted() {
        let packed = Packed::new(&[Group { prompt: vec![], completions: vec![vec![1, 2, 3]] }]);
        assert_eq!(packed.targets, [(0, 2), (1, 3)]);
    }
}
