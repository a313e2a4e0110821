//! Why a call of the grid language has no result.

/// What was wrong with the arguments, in words that a program's author can act upon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// The function needs at least one cell.
    #[error("an empty patch has no {0}")]
    EmptyPatch(&'static str),
    /// The function needs at least one row.
    #[error("a grid without rows has no {0}")]
    NoRows(&'static str),
    /// The function needs at least one cell to count colours.
    #[error("there is no cell to take the {0} of")]
    NoCells(&'static str),
    /// Only an object has colours.
    #[error("{0} needs an object, and these are indices without colours")]
    NeedsObject(&'static str),
    /// Everything that grows has a limit: coordinates too.
    #[error("coordinates and colours of a patch lie between -524288 and 524287")]
    TooFar,
    /// Colours of a grid are small numbers.
    #[error("a colour of a grid lies between -128 and 127, and {0} does not")]
    Colour(i64),
    /// `cellwise` looks at the same place in both grids.
    #[error("the second grid has no cell at ({0}, {1})")]
    Smaller(usize, usize),
    /// A grid cut into nothing.
    #[error("a grid cannot be cut into 0 pieces")]
    NoPieces,
    /// A factor that makes no sense.
    #[error("{0} must be at least 1, and is {1}")]
    AtLeastOne(&'static str, i64),
    /// Rows of different lengths where a grid is needed.
    #[error("the rows have different lengths: {0} and {1}")]
    Ragged(usize, usize),
}
