//! Every word that the short dialect is made of: fixed lists, and enums whose variants are words.
//!
//! A small model has one token for each of them, so the lists stay small.

/// One of a list of words.
pub(crate) trait Word: Copy + 'static {
    const ALL: &'static [Self];
    const WORDS: &'static [&'static str];

    fn word(self) -> &'static str;

    fn read(word: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().position(|known| known.eq_ignore_ascii_case(word));
        found.map(|idx| Self::ALL[idx]).ok_or_else(|| format!("`{word}` is none of {}", Self::WORDS.join(", ")))
    }
}

/// An enum whose variants are written and read as words.
macro_rules! word_list {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub(crate) enum $name {
            $(#[serde(rename = $word)] $variant,)*
        }

        impl $crate::desk::vocabulary::Word for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];
            const WORDS: &'static [&'static str] = &[$($word),*];

            fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }
    };
}

word_list! {
    /// The types of task.
    Kind {
        Arithmetic = "arithmetic", Conversion = "conversion", Date = "date", Order = "order", Text = "text", Policy = "policy",
    }
}

word_list! {
    /// Whether a tool is needed.
    Level { Easy = "easy", Hard = "hard" }
}

word_list! {
    /// What a calculation does.
    Sign { Plus = "+", Minus = "-", Times = "*", Over = "/" }
}

word_list! {
    /// What the records say of an order.
    Field { Item = "item", Category = "category", Status = "status", City = "city", Total = "total", Name = "name" }
}

word_list! {
    /// What a policy says of a category of goods: days to return, months of warranty, euros of handling fee.
    Topic { Return = "return", Warranty = "warranty", Fee = "fee" }
}

word_list! {
    /// What can be done with words.
    Operation {
        First = "first", Last = "last", Reverse = "reverse", Letters = "letters", Count = "count", Sort = "sort",
    }
}

word_list! {
    /// A fact that a request may lack.
    Slot { Unit = "unit", Order = "order", Date = "date" }
}

word_list! {
    /// How a line of the short dialect begins.
    Verb {
        Calc = "calc", Convert = "convert", Date = "date", Order = "order", Policy = "policy", Text = "text", Ask = "ask",
        Answer = "answer",
    }
}

/// Goods by category.
pub(crate) const GOODS: [(&str, [&str; 3]); 5] = [
    ("books", ["novel", "atlas", "diary"]),
    ("toys", ["puzzle", "robot", "kite"]),
    ("tools", ["hammer", "drill", "saw"]),
    ("garden", ["rake", "hose", "shovel"]),
    ("food", ["honey", "coffee", "olives"]),
];

pub(crate) const STATUSES: [&str; 5] = ["paid", "packed", "shipped", "delivered", "returned"];
pub(crate) const CITIES: [&str; 8] = ["lisbon", "oslo", "turin", "ghent", "malaga", "graz", "tallinn", "cork"];
pub(crate) const NAMES: [&str; 8] = ["mara", "jonas", "ines", "tomas", "freya", "luca", "nadia", "emil"];

/// What text work is done on.
pub(crate) const WORDS: [&str; 60] = [
    "anchor", "apple", "basket", "bridge", "butter", "candle", "canvas", "carpet", "cellar", "cherry", "copper", "cotton",
    "desert", "dinner", "dragon", "engine", "fabric", "falcon", "feather", "forest", "garlic", "ginger", "glove", "guitar",
    "harbor", "island", "jacket", "kettle", "kitchen", "ladder", "lantern", "lemon", "maple", "marble", "meadow", "mirror",
    "needle", "orange", "orchid", "paddle", "parrot", "pebble", "pepper", "pillow", "planet", "pocket", "rabbit", "ribbon",
    "river", "saddle", "salmon", "silver", "spider", "temple", "ticket", "tunnel", "velvet", "violin", "window", "winter",
];

/// The words of short questions, faults and replies that are in no other list.
pub(crate) const PHRASES: [&str; 14] =
    ["what", "is", "in", "day", "days", "to", "weekday", "of", "timeout", "limit", "stale", "none", "error", "use"];
