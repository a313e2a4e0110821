//! What commands write down is what the dashboard of `hone serve` shows.

use super::Desk;
use super::practice::COMMON;
use super::serve::{Listening, get};

#[test]
fn what_commands_found_is_on_the_pages_of_the_server() {
    let desk = Desk::new();
    assert_eq!(desk.hone("eval baseline --env desk --policy gold --policy empty -n 4 --repeats 2 --record --quiet").code, 0);
    assert_eq!(desk.hone("data gate --for rl --quiet").code, 1, "sixteen traces are too few");
    let provider = Listening::provider(&desk);
    let served = Listening::serve(&desk, &provider);
    let page = |path: &str| get(served.port, path);
    let evaluations = page("/dashboard/evaluations");
    assert_eq!(evaluations.matches(">desk</td>").count(), 2, "a report for each policy: {evaluations}");
    assert!(evaluations.contains("100 %") && evaluations.contains("51 % – 100 %"), "{evaluations}");
    let data = page("/dashboard/data");
    assert!(data.contains("To be reinforced") && data.contains("refused") && data.contains("task types"), "{data}");
    assert!(page("/dashboard/groups").matches("<tr>").count() > 4);
    assert!(page("/dashboard").contains("16</b>"), "every trace is there");
    assert!(page("/dashboard/configuration").contains("serve.address"));
}

#[test]
fn a_model_is_told_apart_from_itself_with_an_adapter() {
    let desk = Desk::of_practice();
    let line = "eval baseline --env tictactoe --policy local:tiny -n 2 --repeats 1 --max-tokens 4 --threads 1 --record";
    let bare = desk.hone(line).expect(0, "local:tiny  ", "");
    assert!(!bare.out.contains("local:tiny + "), "{}", bare.out);
    let line = format!("{line} --adapter .hone/runs/first/adapter");
    desk.hone(&line).expect(0, "local:tiny + ", "");
    let adapter = desk.hone(&format!("{line} --json")).json()[0]["adapter"].as_str().unwrap().to_owned();
    let provider = Listening::provider(&desk);
    let served = Listening::serve(&desk, &provider);
    let evaluations = get(served.port, "/dashboard/evaluations");
    let named = format!(">tiny + {}…{}<", &adapter[..8], &adapter[58..]);
    assert_eq!((evaluations.matches(">tiny<").count(), evaluations.matches(&named).count()), (1, 2), "{evaluations}");
}

#[test]
fn a_key_that_may_read_sees_and_does_not_decide() {
    let desk = Desk::new();
    let made = desk.hone("key add sam --role read");
    assert!(made.err.contains("may report, ask models, send spans and see everything"), "{}", made.err);
    let provider = Listening::provider(&desk);
    let served = Listening::serve(&desk, &provider);
    assert!(get(served.port, "/dashboard").contains("API key is missing"));
    assert!(get(served.port, "/dashboard/sign-in").contains("type=\"password\""));
}

#[test]
fn a_run_is_on_its_page_with_its_curves_and_the_traces_that_it_played() {
    let desk = Desk::of_practice();
    let flags = "--steps 3 --scenarios 4 --samples 4 --validation 8 --validate-every 2 --lr 0.3";
    desk.hone(&format!("train grpo {COMMON} {flags}")).expect(0, "\"reason\":\"steps\"", "");
    let provider = Listening::provider(&desk);
    let served = Listening::serve(&desk, &provider);
    let page = get(served.port, "/dashboard/runs/r");
    for says in ["id=\"step\">3</b>", "Validation</b>", "Entropy</b>", "tictactoe", ">steps</span>", "scenarios"] {
        assert!(page.contains(says), "{says}: {page}");
    }
    assert!(!page.contains("data-live"), "what has ended does not move");
    assert!(get(served.port, "/dashboard/runs").contains("<a href=\"/dashboard/runs/r\">r</a>"));
    assert!(get(served.port, "/dashboard/traces").contains("<tbody><tr>"));
}
