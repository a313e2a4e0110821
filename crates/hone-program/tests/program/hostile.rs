//! Programs that want too much: each must end with a verdict, within its limits, and the same one every time.

use std::sync::Arc;

use hone_program::{Error, ErrorKind, Library, Limits, Program};

const PROGRAMS: &str = include_str!("../hostile/programs.txt");

/// What a program came to: result or verdict, fuel and memory.
fn run(source: &str, limits: &Limits) -> (Result<(), Error>, u64, usize) {
    match Program::parse(source, &Arc::new(Library::new()), limits) {
        Err(error) => (Err(error), 0, 0),
        Ok(program) => {
            let run = program.run_module(limits);
            assert!(run.output.len() <= limits.output, "{source}");
            (run.result.map(drop), run.fuel, run.memory_peak)
        }
    }
}

/// Runs a program within the limits.
fn check(source: &str) -> Result<(), Error> {
    let limits = Limits::default();
    let (result, fuel, memory) = run(source, &limits);
    assert!(fuel <= limits.fuel && memory <= limits.memory, "{source}: fuel {fuel}, memory {memory}");
    result
}

/// How long they take beside a plain loop is measured by `hone bench bombs`.
#[test]
fn hand_written_bombs_are_stopped() {
    let programs: Vec<&str> = PROGRAMS.split("\n---\n").collect();
    assert!(programs.len() >= 200, "only {} programs", programs.len());
    let n_stopped = programs.iter().filter(|source| check(source).is_err_and(|error| error.kind.is_limit())).count();
    assert!(n_stopped > programs.len() / 2, "only {n_stopped} of {} met a limit", programs.len());
}

#[test]
fn verdicts_are_the_same_on_one_thread_and_on_two() {
    let programs: Vec<&str> = PROGRAMS.split("\n---\n").collect();
    let verdicts = |first: usize, step: usize| -> Vec<_> {
        programs.iter().skip(first).step_by(step).map(|source| run(source, &Limits::default())).collect()
    };
    let (verdicts, alone) = (&verdicts, verdicts(0, 1));
    let [even, odd] = std::thread::scope(|scope| {
        [0, 1].map(|first| scope.spawn(move || verdicts(first, 2))).map(|share| share.join().expect("no program panics"))
    });
    let together: Vec<_> =
        (0..alone.len()).map(|idx| if idx.is_multiple_of(2) { &even[idx / 2] } else { &odd[idx / 2] }).collect();
    assert!(alone.iter().eq(together), "a verdict depends on the thread");
}

#[test]
fn limits_cannot_be_caught() {
    for source in [
        "try:\n    while True: pass\nexcept: pass",
        "try: 'a' * 10**12\nexcept BaseException: pass",
        "def f(): f()\ntry: f()\nexcept: pass",
    ] {
        let result = check(source);
        assert!(result.is_err_and(|error| error.kind.is_limit()), "{source}");
    }
}

#[test]
fn memory_comes_back_when_values_are_dropped() {
    let result = check("for i in range(400):\n    x = [0] * 100000 if i % 100 == 0 else None\n    y = 'a' * 100000");
    assert_eq!(result, Ok(()));
}

#[test]
fn text_that_nests_is_refused_before_it_is_parsed() {
    let deep = |open: &str, middle: &str, close: &str, n: usize| format!("x = {}{middle}{}", open.repeat(n), close.repeat(n));
    let sources = [
        deep("(", "1", ")", 100_000),
        deep("[", "", "]", 100_000),
        deep("{", "", "}", 100_000),
        deep("f(", "", ")", 60_000),
        deep("x[", "0", "]", 60_000),
        deep("-", "1", "", 200_000),
        deep("not ", "1", "", 60_000),
        deep("1+", "1", "", 100_000),
        deep("2**", "1", "", 80_000),
        deep("lambda:", "1", "", 30_000),
        deep("lambda a,b:", "1", "", 20_000),
        deep("1 if 1 else ", "1", "", 20_000),
        deep("", "x", ".y", 100_000),
        deep("", "x", "()", 100_000),
        deep("", "x", "[0]", 80_000),
        deep("await ", "x", "", 40_000),
        deep("*", "x", "", 200_000),
        deep("(yield ", "x", ")", 30_000),
        deep("f'{", "1", "}'", 20_000),
        deep("\"\"\"f'''{", "1", "}'''\"\"\"", 10_000),
        deep("[0 for i in ", "x", "]", 20_000),
        deep("(i:=", "1", ")", 40_000),
        deep("1<", "1", "", 100_000),
        deep("1 and ", "1", "", 40_000),
        (0..3000).map(|n| format!("{}if 1:\n", " ".repeat(n))).take(700).collect(),
        (0..500).map(|n| format!("{}def f{n}():\n", " ".repeat(n))).collect(),
        (0..99).map(|n| format!("{}try:\n", " ".repeat(n))).collect::<String>()
            + &" ".repeat(99)
            + "pass\n"
            + &(0..99).rev().map(|n| format!("{0}finally:\n{0} pass\n", " ".repeat(n))).collect::<String>(),
        "if 1: pass\n".to_owned() + &"elif 1: pass\n".repeat(15_000),
        "x = 1\n".repeat(40_000),
        "x = [".to_owned() + &"1,".repeat(100_000) + "]",
        "x = '''".to_owned() + &"(".repeat(200_000) + "'''",
        "a".repeat(250_000),
        "x = ".to_owned() + &"9".repeat(250_000),
        "x".to_owned() + &", x".repeat(60_000) + " = range(5)",
        "def f(".to_owned() + &(0..20_000).map(|n| format!("a{n},")).collect::<String>() + "): pass",
        "(".repeat(250_000),
        "'''".to_owned() + &"\\".repeat(250_000),
        "f'".to_owned() + &"{".repeat(250_000),
        "\0\0\0".to_owned(),
        "\u{feff}x = 1".to_owned(),
        "x = '\u{202e}abc'".to_owned(),
        "@".repeat(1000),
        "class A(B, metaclass=C): x: int = 1".to_owned(),
        "x = 1 if".to_owned(),
        "\t\tx\n y".to_owned(),
        "#".repeat(300_000),
    ];
    for source in sources {
        let shown: String = source.chars().take(40).collect();
        let verdict = check(&source).map_or_else(|error| error.to_string(), |()| "ended".into());
        println!("{}  -> {verdict}", shown.replace('\n', " ; "));
    }
}

#[test]
fn a_source_beyond_the_limit_is_refused() {
    let result = check(&"#".repeat(300_000));
    let error = result.unwrap_err();
    assert_eq!((error.kind, error.line), (ErrorKind::Syntax, 0));
    assert_eq!(error.message, "the program has 300000 bytes; at most 262144 are allowed");
}

#[test]
fn cycles_do_not_outlive_the_run() {
    let limits = Limits::default();
    let library = Arc::new(Library::new());
    let run = |source: &str| Program::parse(source, &library, &limits).unwrap().run("f", &[], &limits).result;
    assert_eq!(run("def f():\n    x = []\n    x.append(x)\n    return 1").unwrap().as_int(), Some(1));
    let error = run("def f():\n    x = []\n    x.append(x)\n    return x").unwrap_err();
    assert_eq!(error.message, "the result contains itself");
    let kept = run("def f():\n    x = [[1], [2]]\n    x.append(x[0])\n    x[1] = {'a': x[0]}\n    return x").unwrap();
    let shown = hone_program::Context::new(&limits).repr(&kept).unwrap();
    assert_eq!(shown, "[[1], {'a': [1]}, [1]]");
}

#[test]
fn a_session_keeps_its_variables_and_gives_every_call_a_budget() {
    let limits = Limits::default();
    let source = "seen = []\ndef add(n):\n    seen.append([n, seen])\n    return len(seen)\ndef burn():\n    while True: pass";
    let program = Program::parse(source, &Arc::new(Library::new()), &limits).unwrap();
    let mut session = program.start(&limits).unwrap();
    let mut call = |name: &str, arguments: &[hone_program::Value]| session.call(name, arguments, &limits);
    let first = call("add", &[1.into()]);
    assert_eq!(first.result.unwrap().as_int(), Some(1));
    assert_eq!(call("burn", &[]).result.unwrap_err().kind, ErrorKind::Fuel);
    let second = call("add", &[2.into()]);
    assert_eq!((second.result.unwrap().as_int(), second.fuel), (Some(2), first.fuel));
    assert_eq!(call("nothing", &[]).result.unwrap_err().message, "the program defines no 'nothing'");
}

#[test]
fn a_session_knows_whether_calls_can_leave_something_behind() {
    let limits = Limits::default();
    let is_fixed = |source: &str| {
        let program = Program::parse(source, &Arc::new(Library::new()), &limits).unwrap();
        program.start(&limits).unwrap().is_fixed()
    };
    for fixed in ["", "n = (1, 'a', (2.5, None))", "import math\ndef f(n=1):\n    m = []\n    return lambda: m", "f = sorted"] {
        assert!(is_fixed(fixed), "{fixed}");
    }
    for open in [
        "seen = []",
        "seen = ((1, {}),)",
        "n = 1\ndef f():\n    global n\n    n += 1",
        "n = 1\ndef f():\n    def g():\n        global n\n        del n",
        "def f(seen=[]):\n    return seen",
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    return g\ng = f()",
        "numbers = iter((1, 2))",
        "def f():\n    yield 1\nnumbers = f()",
        "s = set()\nadd = s.add",
    ] {
        assert!(!is_fixed(open), "{open}");
    }
}
