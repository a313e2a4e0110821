//! How much a program may be and use.

/// The limits of a program: of its text when it is parsed, and of what it uses when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps of a run: operations, and elements that natives touch.
    pub fuel: u64,
    /// Bytes that the values of a run may hold at once.
    pub memory: usize,
    /// Calls that may be under way at once.
    pub depth: usize,
    /// Bytes that `print` may write; what comes after them is dropped and counted as memory never.
    pub output: usize,
    /// Bytes of the source.
    pub source: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { fuel: 2_000_000, memory: 32 << 20, depth: 1000, output: 64 << 10, source: 256 << 10 }
    }
}
