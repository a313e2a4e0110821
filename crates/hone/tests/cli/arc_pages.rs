//! The report and the review page in a real Chromium: grids are drawn, and keys are enough to judge.

#[expect(dead_code, clippy::unwrap_used, reason = "the dashboard uses more of it, and a test that cannot go on should stop")]
#[path = "../../../hone-gateway/tests/gateway/browser/driver.rs"]
mod driver;

use super::Desk;
use super::arc_edits::training;
use driver::Browser;

/// A search, its report and its batch; nothing where there are no tasks.
fn searched() -> Option<Desk> {
    let tasks = training()?;
    let (desk, tasks) = (Desk::new(), tasks.display());
    desk.hone(&format!("env arc evolve --tasks {tasks} --policy script -n 3 --quiet"));
    desk.hone(&format!("env arc report --tasks {tasks} --out report.html --quiet")).expect(0, "solved", "");
    desk.hone(&format!("data arc-edits --tasks {tasks} --out out --quiet")).expect(0, "samples", "");
    Some(desk)
}

fn address(desk: &Desk, file: &str) -> String {
    format!("file://{}", desk.path(file).display())
}

#[tokio::test]
async fn the_report_shows_the_grids() {
    let Some(browser) = Browser::start().await else { return };
    let Some(desk) = searched() else { return };
    browser.open(&address(&desk, "report.html")).await;
    browser.until("Hidden pair 1").await;
    let text = browser.text().await;
    assert!(text.contains("pass@1") && text.contains("expected") && text.contains("step 0 (r "), "{text}");
    let drawn = "return [...document.querySelectorAll('svg.grid')].filter((one) => one.getBoundingClientRect().width > 8 && one.querySelector('rect')).length";
    assert!(browser.script(drawn).await.as_u64().unwrap() >= 24, "three tasks of several pairs each");
    let colours = "return new Set([...document.querySelectorAll('svg.grid rect')].map((one) => getComputedStyle(one).fill)).size";
    assert!(browser.script(colours).await.as_u64().unwrap() >= 3, "cells have their colours");
    browser.keep("arc-report").await;
    browser.prefer("dark").await;
    browser.keep("arc-report-dark").await;
    assert_eq!(browser.complaints().await, [] as [String; 0]);
}

#[tokio::test]
async fn samples_are_judged_by_keys_alone() {
    let Some(browser) = Browser::start().await else { return };
    let Some(desk) = searched() else { return };
    browser.open(&address(&desk, "out/review.html")).await;
    browser.until("0 accepted, 0 rejected").await;
    for key in ['j', 'a', 'j', 'r', 's'] {
        browser.press(key).await;
    }
    browser.until("1 accepted, 1 rejected").await;
    let saved = browser.find("#file").await.text().await;
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(saved["verdicts"].as_object().unwrap().len(), 2);
    assert_eq!(browser.script("return document.querySelectorAll('.sample[data-verdict=accept]').length").await, 1);
    browser.keep("arc-review").await;
    // The file that the page saves is one that the command respects.
    std::fs::write(desk.path("review.json"), saved.to_string()).unwrap();
    let tasks = training().unwrap();
    let made = desk.hone(&format!("data arc-edits --tasks {} --out again --review review.json --json", tasks.display()));
    assert_eq!(made.json()[0]["steps"][3]["dropped"], 1);
    assert_eq!(browser.complaints().await, [] as [String; 0]);
}
