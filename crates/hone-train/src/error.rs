//! Why training cannot begin. What happens during a step is no error: it is in the step's statistics.

/// A request that training cannot meet.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrainError {
    /// A setting is outside its range.
    #[error("{name} = {value} is outside {range}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What was asked.
        value: f64,
        /// What is allowed.
        range: &'static str,
    },
    /// Two settings that make no sense together.
    #[error("{0}")]
    Conflict(&'static str),
    /// A setting that the algorithm does not look at.
    #[error("{name} has no effect on {algorithm}")]
    NoEffect {
        /// The setting.
        name: &'static str,
        /// The algorithm.
        algorithm: crate::settings::Algorithm,
    },
    /// A setting of validation, where there is none.
    #[error("{name} has no effect on a run that is measured nowhere")]
    Unmeasured {
        /// The setting.
        name: &'static str,
    },
    /// There is nothing to train on.
    #[error("the batch has no token to train on")]
    EmptyBatch,
    /// One value per episode was expected.
    #[error("{n_given} values for {n_expected} {what}")]
    Count {
        /// What was counted.
        what: &'static str,
        /// How many values came.
        n_given: usize,
        /// How many were needed.
        n_expected: usize,
    },
    /// A token that the model does not have.
    #[error("token {id} is outside the vocabulary of {vocab}")]
    UnknownToken {
        /// The token.
        id: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A sequence longer than the model was loaded for.
    #[error("{n_tokens} tokens do not fit into {n_tokens_max}")]
    TooLong {
        /// Tokens of the sequence.
        n_tokens: usize,
        /// Tokens that fit.
        n_tokens_max: usize,
    },
    /// The reference adapter is not loaded.
    #[error("the reference adapter is not loaded")]
    NoReference,
}

/// Refuses a setting outside its range.
pub(crate) fn within(
    name: &'static str,
    value: f64,
    range: impl std::ops::RangeBounds<f64>,
    says: &'static str,
) -> Result<(), TrainError> {
    if range.contains(&value) { Ok(()) } else { Err(TrainError::Setting { name, value, range: says }) }
}
