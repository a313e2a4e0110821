//! How a world is told. The same scenarios are spoken in both dialects.

/// How a world is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// In sentences, with tools described by JSON schema where there are any.
    #[default]
    Natural,
    /// In lines of a few words of a small vocabulary, for small models.
    Short,
}
