//! `random:SHAPE`: the sizes of a public model with weights that know nothing, for finding out what a machine can do.
//!
//! Nothing is written or fetched. Its vocabulary is made up as well: bytes, letters, and words of letters up to the size of the
//! public one, so that every id has a text.

use crate::failure::Failure;
use hone_engine::load::Weights;
use hone_engine::model::RandomWeights;
use hone_engine::shapes;
use hone_render::tiny::{self, TinyFiles};

/// What names begin with.
pub(super) const PREFIX: &str = "random:";

/// The seed of the weights.
const SEED: u64 = 1;

/// The weights and the tokenizer of a shape.
pub(super) fn make(shape: &str) -> Result<(Weights, TinyFiles), Failure> {
    let config = shapes::named(shape).ok_or_else(|| {
        Failure::user(format_args!("there is no shape `{shape}`")).hint(format!("there are {}", shapes::NAMES.join(", ")))
    })?;
    let words: Vec<String> = (0..config.vocab).map(word).collect();
    let files = tiny::build([words.concat().as_str()], config.vocab).map_err(Failure::bug)?;
    Ok((Weights::random(RandomWeights { config, seed: SEED }), files))
}

/// A word of its own for every number: a space, and four letters that count up.
fn word(number: usize) -> String {
    let letter = |place: u32| char::from(b'a' + (number / 26usize.pow(place) % 26) as u8);
    format!(" {}", (0..4).rev().map(letter).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_engine::load::WeightSource;
    use hone_render::Tokenizer;

    #[test]
    fn every_id_of_a_shape_has_a_text() {
        let (weights, files) = make("smollm2-135m").expect("a known shape");
        let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).expect("sound files");
        assert_eq!(tokenizer.vocab_len(), weights.config().vocab);
        assert!((0..tokenizer.vocab_len() as u32).all(|id| !tokenizer.bytes(id).is_empty()));
        assert_eq!((word(0), word(27)), (" aaaa".to_owned(), " aabb".to_owned()));
    }

    #[test]
    fn other_shapes_are_refused_with_those_there_are() {
        let failure = make("gpt-9").expect_err("no such shape");
        assert!(format!("{failure:?}").contains("gpt-9"), "{failure:?}");
    }
}
