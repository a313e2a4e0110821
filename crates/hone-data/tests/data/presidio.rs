//! The sentences of Presidio's research set, where they are on this machine.

use hone_data::measure::{Scores, of_patterns, presidio, score};

#[test]
fn pattern_entities_of_presidio_are_found() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/presidio/sample.jsonl");
    let Ok(lines) = std::fs::read_to_string(path) else {
        println!("skipped: {path} is not on this machine");
        return;
    };
    let mut scores = Scores::new();
    for line in lines.lines() {
        score(&mut scores, &presidio::read(line).expect("a line of the set"));
    }
    for (kind, score) in &scores {
        println!("{kind}: recall {:.3} precision {:.3} {score:?}", score.recall(), score.precision());
    }
    let patterns = of_patterns(&scores);
    assert!(patterns.n_labels >= 100, "{patterns:?}");
    assert!(patterns.recall() >= 0.99 && patterns.precision() >= 0.95, "{patterns:?}");
}
