//! The sentences of Presidio's research set, where they are on this machine.

use hone_data::anonymise::{Found, Kind};
use hone_data::measure::{Labelled, Scores, find, of_patterns, score};
use serde_json::Value;

/// What the set calls a kind. Persons, organisations, places and dates beyond these are not ours to find.
fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "EMAIL_ADDRESS" => Kind::Email,
        "PHONE_NUMBER" => Kind::Phone,
        "CREDIT_CARD" => Kind::Card,
        "IBAN_CODE" => Kind::Iban,
        "IP_ADDRESS" => Kind::Ip,
        "US_SSN" => Kind::Ssn,
        "US_DRIVER_LICENSE" => Kind::NationalId,
        "PERSON" => Kind::Name,
        "STREET_ADDRESS" => Kind::Address,
        _ => return None,
    })
}

fn labelled(line: &str) -> Labelled {
    let row: Value = serde_json::from_str(line).expect("a line of JSON");
    let text = row["full_text"].as_str().expect("a text").to_owned();
    // Places are counted in characters there.
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let place = |span: &Value, name: &str| places[span[name].as_u64().expect("a place") as usize];
    let spans = row["spans"].as_array().expect("spans");
    let label = |span: &Value| {
        let kind = kind(span["entity_type"].as_str()?)?;
        Some(Found { kind, range: place(span, "start_position")..place(span, "end_position") })
    };
    Labelled { labels: spans.iter().filter_map(label).collect(), text }
}

#[test]
fn pattern_entities_of_presidio_are_found() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/presidio/sample.jsonl");
    let Ok(lines) = std::fs::read_to_string(path) else {
        println!("skipped: {path} is not on this machine");
        return;
    };
    let mut scores = Scores::new();
    for line in lines.lines() {
        let text = labelled(line);
        let mut own = Scores::new();
        score(&mut own, &text);
        for (kind, one) in own {
            if kind.is_pattern() && (one.n_recalled < one.n_labels || one.n_right < one.n_found) {
                let found: Vec<_> = find(&text.text).into_iter().map(|found| (found.kind, text.text[found.range].to_owned())).collect();
                println!("{kind} {:?}\n   {found:?}", text.text);
            }
            let sum = scores.entry(kind).or_default();
            *sum = sum.plus(one);
        }
    }
    for (kind, score) in &scores {
        println!("{kind}: recall {:.3} precision {:.3} {score:?}", score.recall(), score.precision());
    }
    let patterns = of_patterns(&scores);
    println!("patterns: recall {:.4} precision {:.4}", patterns.recall(), patterns.precision());
    assert!(patterns.recall() >= 0.99 && patterns.precision() >= 0.95, "{patterns:?}");
}
