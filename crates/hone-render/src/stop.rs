//! Stop strings: a sample ends as soon as its text contains one.
//!
//! They are looked for in the bytes of drawn tokens, across the borders between them. The token that completes a stop string
//! may reach beyond it; [`cut`] gives the text before.

use crate::error::RenderError;
use crate::tail::Tail;
use crate::tokenizer::Tokenizer;
use hone_engine::constraint::{Constraint, Verdict};
use std::sync::Arc;

const STRINGS_MAX: usize = 64;
const STRING_LEN_MAX: usize = 1024;

/// Ends one sample.
#[derive(Debug, Clone)]
pub struct StopStrings {
    tokenizer: Arc<Tokenizer>,
    tail: Tail,
}

impl StopStrings {
    /// Takes texts that are not empty.
    pub fn new(tokenizer: Arc<Tokenizer>, stops: &[String]) -> Result<Self, RenderError> {
        if stops.len() > STRINGS_MAX || stops.iter().any(|stop| stop.is_empty() || stop.len() > STRING_LEN_MAX) {
            let what = format!("at most {STRINGS_MAX} stop strings of 1 to {STRING_LEN_MAX} bytes can be watched for");
            return Err(RenderError::Rule(what));
        }
        let tail = Tail::new(stops.iter().map(String::as_bytes));
        Ok(Self { tokenizer, tail })
    }
}

impl Constraint for StopStrings {
    fn mask(&mut self, _allowed: &mut [u64]) -> bool {
        false
    }

    fn accept(&mut self, id: u32) -> Verdict {
        if self.tail.push(self.tokenizer.bytes(id)) { Verdict::Stop } else { Verdict::Go }
    }

    fn only_stops(&self) -> bool {
        true
    }
}

/// The text before the first stop string.
pub fn cut<'a>(text: &'a str, stops: &[String]) -> &'a str {
    let first = stops.iter().filter_map(|stop| text.find(stop.as_str())).min();
    &text[..first.unwrap_or(text.len())]
}
