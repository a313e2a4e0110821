use super::*;

fn edit(id: &str, task: &str, gain: f64, right: &[usize]) -> Edit {
    Edit {
        id: id.into(),
        task: task.into(),
        family: task.split('.').next().unwrap_or(task).into(),
        is_held_out: false,
        thinking: format!("The idea of {id} is another one than all ideas before {id}."),
        program: format!("def solve(I):\n    return {id}(I)\n"),
        gain,
        right: (0..4).map(|pair| right.contains(&pair)).collect(),
        outputs: vec![vec![vec![1, 2, 3], vec![4, 5, 6]], vec![vec![7, 0, 0], vec![0, 7, 0]]],
    }
}

fn kept(edits: &[Edit], verdicts: &[(&str, Verdict)]) -> Vec<String> {
    let verdicts = verdicts.iter().map(|(id, verdict)| ((*id).to_owned(), *verdict)).collect();
    let chosen = choose(edits, &Rules::default(), &verdicts);
    assert_eq!(chosen.steps.iter().map(|step| step.dropped).sum::<usize>() + chosen.kept.len(), edits.len());
    assert_eq!(chosen.steps.len(), STEPS.len());
    chosen.kept.into_iter().map(|(nth, _)| edits[nth].id.clone()).collect()
}

#[test]
fn only_what_gained_stays_and_of_a_task_the_best_three() {
    let edits = [
        edit("a", "t", 0.9, &[0]),
        edit("b", "t", 0.5, &[]),
        edit("c", "t", 0.3, &[]),
        edit("d", "t", 0.2, &[]),
        edit("e", "t", 0.0, &[]),
        edit("f", "u", -0.1, &[]),
        edit("g", "u", 0.1, &[]),
    ];
    assert_eq!(kept(&edits, &[]), ["a", "b", "c", "g"]);
    let reversed: Vec<Edit> = edits.iter().rev().cloned().collect();
    assert_eq!(kept(&reversed, &[]), ["a", "b", "c", "g"]);
}

#[test]
fn of_equals_those_stay_that_get_most_examples_right_together() {
    let edits = [
        edit("a", "t", 0.500, &[0, 1]),
        edit("b", "t", 0.499, &[0, 1]),
        edit("c", "t", 0.498, &[0]),
        edit("d", "t", 0.497, &[2]),
        edit("e", "t", 0.496, &[3]),
        edit("f", "t", 0.495, &[3]),
        edit("g", "t", 0.400, &[]),
    ];
    assert_eq!(kept(&edits, &[]), ["a", "d", "e"]);
    // A fourth stays only for an example that no other gets right.
    let mut more = edits.to_vec();
    more[0].right = vec![true, false, false, false];
    more[1].right = vec![false, true, false, false];
    assert_eq!(kept(&more, &[]), ["a", "b", "d", "e"]);
}

#[test]
fn a_family_has_at_most_ten() {
    let edits: Vec<Edit> = (0..5)
        .flat_map(|t| (0..3).map(move |n| (t, n)))
        .map(|(t, n)| edit(&format!("e{t}{n}"), &format!("t.{t}"), 0.1 + f64::from(t) / 10.0 + f64::from(n) / 50.0, &[]))
        .collect();
    let kept = kept(&edits, &[]);
    assert_eq!(kept.len(), 10);
    assert!(!kept.contains(&"e00".to_owned()) && kept.contains(&"e42".to_owned()), "the worst go first: {kept:?}");
}

#[test]
fn what_copies_or_knows_the_answer_is_dropped() {
    let check = |thinking: &str, program: &str, is_clean: bool| {
        let edit = Edit { thinking: thinking.into(), program: program.into(), ..edit("a", "t", 0.5, &[]) };
        assert_eq!(kept(&[edit], &[]).len(), usize::from(is_clean), "{thinking} {program}");
    };
    check("The rows are turned.", "return rot90(I)", true);
    check("The rows are turned.", "return ((1, 2, 3), (4, 5, 6))", false);
    check("The rows are turned.", "a = (7, 0, 0)\nb = (0, 7, 0)\nreturn (a, b)", false);
    check("The rows are turned.", "return ((ONE, TWO, THREE,), (FOUR, 5, SIX,),)", false);
    check("The rows are turned.", "return ((0x1, 0x2, 0x3), (0x4, 0x5, 0x6))", false);
    check("The rows are turned.", "z = ZERO\nreturn ((1+z, 2+z, 3+z), (4+z, 5+z, 6+z))", false);
    check("The rows are turned.", "z = size(())\nreturn ((1+z, 2+z, z+3), (4+z, 5+z, 6+z))", false);
    check("The rows are turned.", "a = 1\nb, c = 2, 3\nreturn ((a, b, c), (a+c, b+c, b*c))", false);
    check("It becomes one two three, four five six.", "return rot90(I)", false);
    check("One takes two rows of three and turns four of five or six.", "return pair(ONE, TWO_BY_TWO)", true);
    check("It becomes\n1 2 3\n4 5 6\n", "return rot90(I)", false);
    check("It becomes 123/456.", "return rot90(I)", false);
    check("The hidden answer has two rows.", "return rot90(I)", false);
    check(
        "Steps x1 and x2 give x3, then x4, x5 and x6.",
        "x1 = a(I)\nx2 = b(x1)\nx3 = c(x2)\nx4 = d(x3)\nx5 = e(x4)\nreturn x6",
        true,
    );
    check("One row is enough: 1 2 3.", "return rot90(I)", true);
}

#[test]
fn what_says_nothing_new_is_dropped() {
    let base = || vec![edit("a", "t", 0.9, &[0])];
    let check = |change: &dyn Fn(&mut Edit), n: usize| {
        let mut edits = base();
        let mut other = edit("b", "t", 0.5, &[1]);
        change(&mut other);
        edits.push(other);
        assert_eq!(kept(&edits, &[]).len(), n);
    };
    check(&|_| {}, 2);
    check(&|other| other.thinking.clear(), 1);
    check(&|other| other.thinking = "I turn it. ".repeat(8), 1);
    check(&|other| other.program = "def solve(I):\n    # as before\n    return a(I)  # turned\n\n".into(), 1);
    check(&|other| other.thinking = edit("a", "t", 0.9, &[]).thinking, 1);
    check(&|other| (other.task, other.thinking) = ("u".into(), edit("a", "t", 0.9, &[]).thinking), 2);
}

#[test]
fn a_person_has_the_last_word() {
    let mut edits = vec![edit("a", "t", 0.9, &[]), edit("b", "t", 0.8, &[]), edit("c", "t", 0.7, &[]), edit("d", "t", 0.6, &[])];
    assert_eq!(kept(&edits, &[("a", Verdict::Reject)]), ["b", "c", "d"]);
    edits[3].thinking = "The hidden answer has two rows.".into();
    assert_eq!(kept(&edits, &[("d", Verdict::Accept)]), ["a", "b", "c", "d"]);
    edits[3].gain = 0.0;
    assert_eq!(kept(&edits, &[("d", Verdict::Accept)]), ["a", "b", "c"]);
    edits[3] = Edit { is_held_out: true, ..edit("d", "t", 0.6, &[]) };
    assert_eq!(kept(&edits, &[("d", Verdict::Accept)]), ["a", "b", "c"]);
}

#[test]
fn whole_families_are_kept_to_choose_by() {
    let edits: Vec<Edit> = (0..60).map(|n| edit(&format!("e{n}"), &format!("t{}.{}", n / 3, n % 3), 0.5, &[])).collect();
    let chosen = choose(&edits, &Rules::default(), &BTreeMap::new());
    let mut sides: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for &(nth, split) in &chosen.kept {
        sides.entry(edits[nth].family.as_str()).or_default().insert(split.as_str());
    }
    assert!(sides.values().all(|sides| sides.len() == 1));
    assert_eq!(sides.values().filter(|sides| sides.contains("validation")).count(), 2);
}
