//! The methods of values.

/// The name of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodName {
    Append,
}
