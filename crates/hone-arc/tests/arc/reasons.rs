//! Why a program does not solve its task, in words.

use hone_arc::task::{Task, parse};
use hone_arc::verify::{limits, verify};
use hone_program::Limits;

fn task() -> Task {
    let text = r#"{"id": "00000001", "train": [{"input": [[1, 2], [3, 4]], "output": [[2, 1], [4, 3]]}],
                   "test": [{"input": [[5, 6]], "output": [[6, 5]]}]}"#;
    parse(text, None).unwrap()
}

fn check(program: &str, reason: &str) {
    let report = verify(program, &[task()], &limits()).unwrap();
    let reasons: Vec<&str> = report.failed.iter().map(|failed| failed.reason.as_str()).collect();
    assert_eq!((report.n_tasks, reasons.first().copied().unwrap_or("solved")), (1, reason));
}

#[test]
fn every_way_to_fail_is_told_apart() {
    let import = "from dsl import *\nfrom constants import *\n";
    let with = |body: &str| format!("{import}def solve_00000001(I):\n    {body}\n");
    check(&with("return vmirror(I)"), "solved");
    check(&with("return I"), "train pair 1: 4 of 4 cells differ");
    check(&with("return hconcat(I, I)"), "train pair 1: the grid is 2 by 4, and 2 by 2 is asked for");
    check(&with("return ZERO"), "train pair 1: the result is no grid: a grid is needed, and this is a int");
    check(&with("return ((1, 2), (3,))"), "train pair 1: the result is no grid: the rows have different lengths: 2 and 1");
    check(
        &with("return subgrid(ofcolor(I, 9), I)"),
        "train pair 1: line 4: value error: subgrid: an empty patch has no rectangle",
    );
    check(&with("return switch(I, 1, 2) if height(I) == 1 else vmirror(I)"), "test pair 1: 2 of 2 cells differ");
    check(&format!("{import}def solve_99999999(I):\n    return I\n"), "there is no such task");
}

#[test]
fn nothing_is_kept_from_one_task_to_the_next() {
    let second = Task { id: "00000002".into(), ..task() };
    let solver =
        |id: u32| format!("def solve_0000000{id}(I):\n    seen.append(I)\n    return vmirror(I) if len(seen) < 3 else I\n");
    let source = format!("from dsl import *\nseen = []\n{}{}", solver(1), solver(2));
    assert_eq!(verify(&source, &[task(), second], &limits()).unwrap().n_solved, 2);
}

#[test]
fn a_program_that_takes_too_much_is_stopped() {
    let stopped = |body: &str| {
        let source = format!("from dsl import *\ndef solve_00000001(I):\n    {body}\n");
        verify(&source, &[task()], &Limits::default()).unwrap().failed[0].reason.clone()
    };
    for bomb in [
        "return canvas(0, (100000, 100000))",
        "return canvas(0, (1000000000, 0))",
        "return upscale(I, 100000)",
        "return hupscale(I, 1000000000)",
        "return repeat(I, 1000000000)",
        "return interval(0, 1000000000000, 1)",
        "return hsplit(I, 1000000000)",
        "return backdrop(frozenset([(0, 0), (500000, 500000)]))",
        "return product(interval(0, 100000, 1), interval(0, 100000, 1))",
        "return prapply(add, interval(0, 100000, 1), interval(0, 100000, 1))",
        "return power(increment, 1000000000)(0)",
        "return power(lambda x: combine(x, x), 100)(I)",
        "return power(lambda x: hconcat(x, x), 100)(I)",
        "return power(lambda x: merge((x, x)), 60)((1, 2))",
    ] {
        let reason = stopped(bomb);
        assert!(reason.contains("out of fuel") || reason.contains("out of memory"), "{bomb}: {reason}");
    }
}
