//! What kinds of personal data there are.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An e-mail address.
    Email,
    /// A phone number.
    Phone,
    /// The number of a payment card.
    Card,
    /// The number of a bank account.
    Iban,
    /// An IPv4 or IPv6 address.
    Ip,
    /// A US social security number.
    Ssn,
    /// The number of an identity card, a passport, a licence or a tax payer.
    NationalId,
    /// A password, an API key or another token that opens something.
    Secret,
    /// The user and password inside a URL.
    UrlCredentials,
    /// The name of a person.
    Name,
    /// Where somebody lives or works.
    Address,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Email,
        Self::Phone,
        Self::Card,
        Self::Iban,
        Self::Ip,
        Self::Ssn,
        Self::NationalId,
        Self::Secret,
        Self::UrlCredentials,
        Self::Name,
        Self::Address,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Card => "card",
            Self::Iban => "iban",
            Self::Ip => "ip",
            Self::Ssn => "ssn",
            Self::NationalId => "national_id",
            Self::Secret => "secret",
            Self::UrlCredentials => "url_credentials",
            Self::Name => "name",
            Self::Address => "address",
        }
    }

    /// Whether it is known by its own form; names and addresses are known by what stands around them.
    pub fn is_pattern(self) -> bool {
        !matches!(self, Self::Name | Self::Address)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
