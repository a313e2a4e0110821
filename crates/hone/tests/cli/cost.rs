//! What a run will cost, said before the first call.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use super::{Desk, provider};
use serde_json::Value;
use std::sync::atomic::Ordering;

fn range(projection: &Value) -> (f64, f64, f64) {
    let of = |name: &str| projection[name].as_f64().unwrap();
    (of("low_usd"), of("mean_usd"), of("high_usd"))
}

#[test]
fn the_price_is_said_before_and_corrected_after_three_groups() {
    let (url, _) = provider::start(|_, _| Some(provider::Reply { text: "#### 7".into(), tokens_in: 80, tokens_out: 20 }));
    let desk = Desk::new();
    for line in [
        format!("rollout --env math:sums --policy {url} -n 5 --samples 2 --price 10,100 --json"),
        format!("eval baseline --env math:sums --policy {url} -n 5 --repeats 2 --price 10,100 --json"),
    ] {
        let ended =
            desk.hone(&line).expect(0, "projection", "if it plays like gold").expect(0, "spent_usd", "by its first 3 groups");
        let told = &ended.json()[0];
        let (low, mean, high) = range(&told["projection"]["before"]);
        assert!(low > 0.0 && (low * 2.0 - mean).abs() < 1e-12 && (mean * 2.0 - high).abs() < 1e-12, "{told}");
        // Ten answers of 80 tokens read and 20 written: the guess is of the right size, and the correction exact.
        let spent = told["spent_usd"].as_f64().unwrap();
        assert!((spent - 10.0 * (80.0 * 10.0 + 20.0 * 100.0) / 1e6).abs() < 1e-9, "{told}");
        assert!(low < spent && spent < high, "{told}");
        assert!((range(&told["projection"]["corrected"]).1 - spent).abs() < 1e-9, "{told}");
    }
}

#[test]
fn what_the_budget_will_not_suffice_for_is_not_begun() {
    let (url, n_calls) = provider::start(|_, _| Some(provider::said("#### 7".into())));
    let desk = Desk::new();
    let way_out = "allow more with --budget";
    for (line, said) in [
        (format!("rollout --env desk --policy {url} -n 20 --price 10,100 --budget 0.01"), "and the budget is $0.0100"),
        (
            format!("eval baseline --env math:sums --env desk --policy {url} --policy gold --price 10,100 --budget 0.01"),
            "on desk will cost",
        ),
    ] {
        desk.hone(&line).expect(2, "", said).expect(2, "", way_out);
    }
    assert_eq!(n_calls.load(Ordering::SeqCst), 0, "nothing was asked");
    assert!(!desk.path(".hone").exists(), "and nothing is left behind");
    desk.hone(&format!("rollout --env math:sums --policy {url} -n 2 --samples 1 --price 10,100 --budget 0.5"))
        .expect(0, "run ", "$0.00");
    assert!(n_calls.load(Ordering::SeqCst) > 0);
}

#[test]
fn who_costs_nothing_has_no_projection() {
    let (url, _) = provider::start(|_, _| Some(provider::said("#### 7".into())));
    let desk = Desk::new();
    for policy in ["gold".to_owned(), url.clone(), format!("{url} --price 0,0")] {
        let ended = desk.hone(&format!("rollout --env math:sums --policy {policy} -n 4 --samples 1 --json")).expect(0, "run", "");
        assert_eq!(ended.json()[0].get("projection"), None);
    }
}
