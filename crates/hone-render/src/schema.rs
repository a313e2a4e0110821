//! Answers that follow a JSON schema, a regular expression or a grammar.
//!
//! The vocabulary is put into a tree once per tokenizer ([`GrammarHost`]); a grammar is compiled once ([`Grammar`]) and
//! followed by one rule per sample ([`GrammarRule`]). Every token is drawn, also where only one text is possible: which
//! tokens spell it is the model's own choice, and its log-probs stay those of its choices. Between the parts of JSON at
//! most a few spaces or line breaks may stand, so that a model cannot fill its budget with them. Special tokens are never
//! text here; a grammar in Lark's notation names one by writing it without quotes.
//!
//! Grammars come from requests: their size, and the work per token, have limits. A rule that fails forbids every token.

use crate::error::RenderError;
use crate::special::Kind;
use crate::tokenizer::Tokenizer;
use hone_engine::constraint::{Constraint, Verdict};
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{InferenceCapabilities, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use toktrie::ApproximateTokEnv;

const SOURCE_LEN_MAX: usize = 256 << 10;
const WHITESPACE: &str = r"[ \n]{0,16}";

/// Longer tokens (runs of spaces, mostly) are never drawn under a grammar.
const TOKEN_LEN_MAX: usize = 128;

/// A vocabulary, ready for grammars.
pub struct GrammarHost {
    factory: ParserFactory,
    eos_ids: Vec<u32>,
}

/// A compiled grammar.
pub struct Grammar {
    fresh: Matcher,
    eos_ids: Arc<[u32]>,
}

/// The rule over one sample.
pub struct GrammarRule {
    matcher: Matcher,
    eos_ids: Arc<[u32]>,
}

impl GrammarHost {
    /// Puts the vocabulary into a tree.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, RenderError> {
        let &[eos, ..] = tokenizer.eos_ids() else {
            return Err(RenderError::Grammar("the vocabulary has no token that ends an answer".into()));
        };
        let n_ids = u32::try_from(tokenizer.vocab_len()).unwrap_or(u32::MAX);
        let words: Vec<Vec<u8>> = (0..n_ids)
            .map(|id| match tokenizer.bytes(id) {
                bytes if bytes.len() > TOKEN_LEN_MAX => Vec::new(),
                bytes if matches!(tokenizer.specials().kind(id), Some(Kind::Control | Kind::Tag)) => {
                    [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat()
                }
                bytes => bytes.to_vec(),
            })
            .collect();
        let trie = TokTrie::from(&TokRxInfo::new(n_ids, eos), &words).with_eos_tokens(tokenizer.eos_ids());
        let env: toktrie::TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let no_forcing = InferenceCapabilities { ff_tokens: false, conditional_ff_tokens: false, backtrack: false, fork: false };
        let mut factory = ParserFactory::new(&env, no_forcing, &[]).map_err(|error| failed(&error))?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            initial_lexer_fuel: 1_000_000,
            step_lexer_fuel: 200_000,
            step_max_items: 50_000,
            max_lexer_states: 50_000,
            max_grammar_size: 100_000,
            precompute_large_lexemes: false,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Self { factory, eos_ids: tokenizer.eos_ids().to_vec() })
    }

    /// Compiles a JSON schema. Only references inside the schema are followed.
    pub fn schema(&self, schema: &Json) -> Result<Grammar, RenderError> {
        let Json::Object(map) = schema else {
            return Err(RenderError::Grammar("a JSON schema is an object, such as {\"type\": \"object\"}".into()));
        };
        check_len(schema.to_string().len())?;
        let mut map = map.clone();
        map.insert("x-guidance".into(), json!({"whitespace_flexible": true, "whitespace_pattern": WHITESPACE}));
        self.compile(TopLevelGrammar::from_json_schema(Json::Object(map)))
    }

    /// Compiles a regular expression over the whole answer.
    pub fn regex(&self, regex: &str) -> Result<Grammar, RenderError> {
        check_len(regex.len())?;
        self.compile(TopLevelGrammar::from_regex(regex))
    }

    /// Compiles a grammar in Lark's notation.
    pub fn lark(&self, grammar: &str) -> Result<Grammar, RenderError> {
        check_len(grammar.len())?;
        self.compile(TopLevelGrammar::from_lark(grammar.to_owned()))
    }

    fn compile(&self, grammar: TopLevelGrammar) -> Result<Grammar, RenderError> {
        let parser = self.factory.create_parser(grammar).map_err(|error| failed(&error))?;
        let fresh = Matcher::new(Ok(parser));
        match fresh.get_error() {
            Some(why) => Err(RenderError::Grammar(why)),
            None => Ok(Grammar { fresh, eos_ids: self.eos_ids.clone().into() }),
        }
    }
}

impl Grammar {
    /// A rule for one sample.
    pub fn rule(&self) -> GrammarRule {
        GrammarRule { matcher: self.fresh.deep_clone(), eos_ids: self.eos_ids.clone() }
    }
}

impl GrammarRule {
    /// Why the rule cannot go on, when it cannot: the work for one token was more than its limit.
    pub fn error(&self) -> Option<String> {
        self.matcher.get_error()
    }
}

impl Constraint for GrammarRule {
    fn mask(&mut self, allowed: &mut [u64]) -> bool {
        match self.matcher.compute_mask_or_eos() {
            Ok(mask) => {
                let words = mask.as_slice();
                let word = |at: usize| u64::from(words.get(at).copied().unwrap_or(0));
                for (at, allowed) in allowed.iter_mut().enumerate() {
                    *allowed &= word(2 * at) | word(2 * at + 1) << 32;
                }
            }
            Err(_) => allowed.fill(0),
        }
        true
    }

    fn accept(&mut self, id: u32) -> Verdict {
        let is_end = self.eos_ids.contains(&id);
        match self.matcher.consume_token(id) {
            Ok(()) if !is_end && !self.matcher.is_stopped() => Verdict::Go,
            _ => Verdict::Stop,
        }
    }
}

fn check_len(n_bytes: usize) -> Result<(), RenderError> {
    if n_bytes <= SOURCE_LEN_MAX {
        return Ok(());
    }
    Err(RenderError::Grammar(format!("it has {} KiB, at most {} are read", n_bytes >> 10, SOURCE_LEN_MAX >> 10)))
}

/// The library's own words, without its dump of the grammar.
fn failed(error: &impl std::fmt::Display) -> RenderError {
    let text = error.to_string();
    let why = text.split("\n<state>").next().unwrap_or_default();
    RenderError::Grammar(why.trim().chars().take(500).collect())
}
