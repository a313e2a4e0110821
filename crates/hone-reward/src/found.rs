//! JSON inside prose: models put words and fences around the object that was asked for.

use serde_json::{Deserializer, Value};

/// Places of one answer that are tried as the beginning of an object.
const PLACES_MAX: usize = 256;
/// The part of an answer that is looked at.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// The objects that stand in this text, in order of where they begin; those inside others come too. A text that is cut off
/// in the middle of an object still gives the whole objects inside it.
pub(crate) fn objects(text: &str) -> impl Iterator<Item = Value> + '_ {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    let places = text.match_indices('{').take(PLACES_MAX);
    places.filter_map(|(at, _)| Deserializer::from_str(&text[at..]).into_iter().next()?.ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, first: Option<&str>) {
        assert_eq!(objects(text).next(), first.map(|json| serde_json::from_str(json).unwrap()));
    }

    #[test]
    fn an_object_is_found_in_any_surroundings() {
        check(r#"{"a":1}"#, Some(r#"{"a":1}"#));
        check("Sure! Here it is:\n```json\n{\"a\": [1, 2]}\n```\nAnything else?", Some(r#"{"a":[1,2]}"#));
        check(r#"In set notation {x | x > 0}, so {"a":"}{"}."#, Some(r#"{"a":"}{"}"#));
        check(r#"{"scores":[{"a":1},{"a":2"#, Some(r#"{"a":1}"#));
        check("no object", None);
        check(r#"{"a":"#, None);
        check(&"{".repeat(100_000), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in any::<String>()) {
            objects(&text).for_each(drop);
        }

        #[test]
        fn an_object_survives_prose_without_braces(before in "[^{]*", after in any::<String>(), value in "[a-z\"\\\\{}]*") {
            let object = serde_json::json!({ "value": value });
            prop_assert_eq!(objects(&format!("{before}{object}{after}")).next(), Some(object));
        }
    }
}
