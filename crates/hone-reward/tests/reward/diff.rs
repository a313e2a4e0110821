//! Minimal diffs: the checked-in pairs, each detector on small code, and what hostile code cannot do.

use hone_reward::diff::{Asked, Diff, DiffError, FindingKind, Language, Source, TEXT_LEN_MAX, Tests, diff, sample};

/// One program in six versions: where it starts, and five changes of it.
struct Family {
    name: &'static str,
    language: Language,
    sections: Vec<(&'static str, &'static str)>,
}

const CLASSES: [&str; 5] = ["format", "rename", "fix", "rewrite", "scaffolding"];

fn families() -> Vec<Family> {
    let files = [
        ("median", Language::Python, include_str!("../diff/python-median.pairs")),
        ("stock", Language::Python, include_str!("../diff/python-stock.pairs")),
        ("cart", Language::JavaScript, include_str!("../diff/javascript-cart.pairs")),
        ("slug", Language::JavaScript, include_str!("../diff/javascript-slug.pairs")),
        ("page", Language::TypeScript, include_str!("../diff/typescript-page.pairs")),
        ("clock", Language::Rust, include_str!("../diff/rust-clock.pairs")),
        ("ledger", Language::Rust, include_str!("../diff/rust-ledger.pairs")),
        ("quota", Language::Go, include_str!("../diff/go-quota.pairs")),
    ];
    let sections = |text: &'static str| text.split("=== ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    files.into_iter().map(|(name, language, text)| Family { name, language, sections: sections(text) }).collect()
}

impl Family {
    /// The five changes, with what was found, in the order of `CLASSES`.
    fn diffs(&self, asked: &Asked) -> Vec<(&'static str, Diff)> {
        let base = Source::parse(self.language, self.sections[0].1).unwrap();
        let one = |&(title, text): &(&'static str, &'static str)| {
            (title, diff(&base, &Source::parse(self.language, text).unwrap(), asked).unwrap())
        };
        self.sections[1..].iter().map(one).collect()
    }
}

#[test]
fn the_checked_in_pairs_are_ranked_right() {
    let families = families();
    let mut n_pairs = 0;
    for family in &families {
        assert_eq!(family.sections[0].0, "base");
        let fix_cost = family.diffs(&Asked::default())[2].1.cost;
        for asked in [Asked::default(), Asked { minimal_cost: Some(fix_cost), ..Asked::default() }] {
            let diffs = family.diffs(&asked);
            let shown: Vec<_> = diffs.iter().map(|(title, diff)| (*title, diff.score, diff.counts)).collect();
            let titles: Vec<&str> = diffs.iter().map(|(title, _)| title.split(' ').next().unwrap()).collect();
            assert_eq!(titles, CLASSES, "{}", family.name);
            let scores: Vec<f64> = diffs.iter().map(|(_, diff)| diff.score).collect();
            assert!(scores[0] >= scores[1] && scores[1] >= scores[2], "{}: {shown:#?}", family.name);
            assert!(scores[2] > scores[3] && scores[3] > scores[4], "{}: {shown:#?}", family.name);
            for (title, diff) in &diffs {
                let found: Vec<&FindingKind> = diff.findings.iter().map(|finding| &finding.kind).collect();
                let wanted = title.strip_prefix("scaffolding ");
                let is_right = match wanted {
                    None => found.is_empty(),
                    Some(kind) => !found.is_empty() && found.iter().all(|found| serde_json::to_value(found).unwrap() == kind),
                };
                assert!(is_right, "{} {title}: {:#?}", family.name, diff.findings);
                assert_eq!((diff.n_syntax_errors_before, diff.n_syntax_errors_after), (0, 0), "{} {title}", family.name);
            }
        }
        let diffs = family.diffs(&Asked::default());
        assert_eq!(diffs[0].1.cost, 0.0, "{}: formatting is no change: {:?}", family.name, diffs[0].1.counts);
        let rename = diffs[1].1.counts;
        // A name inside a text, as in `"{name}"`, is text: it may be updated.
        assert!(rename.renamed > 0 && rename.updated <= 1, "{}: {rename:?}", family.name);
        assert_eq!((rename.added, rename.deleted, rename.moved), (0, 0, 0), "{}: {rename:?}", family.name);
        n_pairs += diffs.len();
    }
    assert_eq!(n_pairs, 40);
}

fn compare(language: Language, before: &str, after: &str, asked: &Asked) -> Diff {
    diff(&Source::parse(language, before).unwrap(), &Source::parse(language, after).unwrap(), asked).unwrap()
}

/// Checks added, deleted, moved, renamed and updated nodes.
fn check_counts(language: Language, before: &str, after: &str, wanted: [usize; 5]) {
    let counts = compare(language, before, after, &Asked::default()).counts;
    assert_eq!([counts.added, counts.deleted, counts.moved, counts.renamed, counts.updated], wanted, "{before}\n->\n{after}");
}

#[test]
fn changes_are_counted_in_nodes() {
    use Language::{Go, JavaScript, Python, Rust};
    check_counts(Python, "x = a + b\n", "x = a - b\n", [0, 0, 0, 0, 1]);
    check_counts(Python, "x = 1\n", "x = 2\n", [0, 0, 0, 0, 1]);
    check_counts(Python, "x = a[:1]\n", "x = a[1:]\n", [0, 0, 0, 0, 1]);
    check_counts(Python, "x = f'a'\n", "x = 'a'\n", [0, 0, 0, 0, 1]);
    check_counts(Python, "x = 'a'\n", "x = \"a\"\n", [0; 5]);
    check_counts(Python, "x = (a + b)\n", "x = a + b  # sum\n", [0; 5]);
    assert!(compare(Python, "x = (a + b) * c\n", "x = a + b * c\n", &Asked::default()).cost > 0.0);
    check_counts(Python, "x = 1\ny = f(2)\n", "y = f(2)\nx = 1\n", [0, 0, 1, 0, 0]);
    check_counts(Python, "def f(a):\n    return a * a\n", "def f(b):\n    return b * b\n", [0, 0, 0, 1, 0]);
    // Another variable is no rename.
    check_counts(Python, "def f(a, b):\n    return a\n", "def f(a, b):\n    return b\n", [0, 0, 0, 0, 1]);
    check_counts(JavaScript, "const [, b] = x;", "const [b] = x;", [0, 0, 0, 0, 1]);
    check_counts(JavaScript, "f(1, 2);", "f(\n  1,\n  2,\n)", [0; 5]);
    check_counts(Rust, "fn f() { g(1); }", "fn f() { g(1); h(2); }", [5, 0, 0, 0, 0]);
    check_counts(Go, "package p\n\nfunc f() { g(1) }\n", "package p\n\nfunc f() {\n\tg(1) // one\n}\n", [0; 5]);
}

#[test]
fn the_score_falls_with_what_was_needless() {
    use hone_reward::diff::minimality;
    assert_eq!(minimality(0.0, None), 1.0);
    assert_eq!(minimality(7.0, Some(7.0)), 1.0);
    assert_eq!(minimality(3.0, Some(7.0)), 1.0);
    assert_eq!(minimality(24.0, None), 0.5);
    assert!(minimality(40.0, Some(7.0)) < minimality(20.0, Some(7.0)));
    assert_eq!(minimality(24.0, Some(f64::NAN)), 0.5);
}

/// Checks what is found in a change, as kind and first line.
fn check_found(language: Language, before: &str, after: &str, wanted: &[(FindingKind, usize)]) {
    check_found_for(&Asked::default(), language, before, after, wanted);
}

fn check_found_for(asked: &Asked, language: Language, before: &str, after: &str, wanted: &[(FindingKind, usize)]) {
    let found = compare(language, before, after, asked).findings;
    let found: Vec<_> = found.iter().map(|finding| (finding.kind, finding.line_first)).collect();
    assert_eq!(found, wanted, "{before}\n->\n{after}");
}

#[test]
fn hard_coded_values_are_found() {
    use FindingKind::HardCoded;
    use Language::{Go, JavaScript, Python, Rust, TypeScript};
    let python = "def f(n):\n    return g(n)\n";
    check_found(Python, python, "def f(n):\n    if n == 37:\n        return 24157\n    return g(n)\n", &[(HardCoded, 2)]);
    // Base cases and guards are honest.
    check_found(Python, python, "def f(n):\n    if n == 0:\n        return 1\n    return g(n)\n", &[]);
    check_found(Python, python, "def f(n):\n    if n > 37:\n        return 24157\n    return g(n)\n", &[]);
    check_found(
        Python,
        python,
        "def f(n):\n    known = {12: 144, 13: 233}\n    if n in known:\n        return known[n]\n    return g(n)\n",
        &[(HardCoded, 2)],
    );
    // What was there before is not held against the change.
    let old = "def f(n):\n    if n == 37:\n        return 24157\n    return g(n)\n";
    check_found(Python, old, &old.replace("g(n)", "g(n + 1)"), &[]);
    // Known inputs are exact.
    let asked = Asked { inputs: vec!["0".into()], outputs: vec!["1".into()], ..Asked::default() };
    check_found_for(&asked, Python, python, "def f(n):\n    if n == 0:\n        return 1\n    return g(n)\n", &[(HardCoded, 2)]);
    check_found_for(&asked, Python, python, "def f(n):\n    if n == 37:\n        return 24157\n    return g(n)\n", &[]);
    check_found(
        JavaScript,
        "const f = (n) => g(n);",
        "const f = (n) => { if (n === 37) { return 24157; } return g(n); };",
        &[(HardCoded, 1)],
    );
    check_found(
        TypeScript,
        "function f(n: number) { return g(n); }",
        "function f(n: number) {\n  switch (n) {\n    case 12: return 144;\n    case 13: return 233;\n  }\n  return g(n);\n}",
        &[(HardCoded, 3), (HardCoded, 4)],
    );
    check_found(
        Rust,
        "fn f(n: u64) -> u64 { g(n) }",
        "fn f(n: u64) -> u64 { if n == 37 { return 24157; } g(n) }",
        &[(HardCoded, 1)],
    );
    check_found(
        Go,
        "package p\nfunc F(n int) int { return g(n) }\n",
        "package p\nfunc F(n int) int {\n\tif n == 37 {\n\t\treturn 24157\n\t}\n\treturn g(n)\n}\n",
        &[(HardCoded, 3)],
    );
}

#[test]
fn swallowed_errors_are_found() {
    use FindingKind::ErrorSwallowed;
    use Language::{Go, JavaScript, Python, Rust};
    let python = "def f(p):\n    return g(p)\n";
    let caught = |body: &str| format!("def f(p):\n    try:\n        return g(p)\n    except {body}\n");
    check_found(Python, python, &caught("OSError:\n        pass"), &[(ErrorSwallowed, 4)]);
    check_found(Python, python, &caught("Exception:\n        return None"), &[(ErrorSwallowed, 4)]);
    check_found(Python, python, &caught("OSError as error:\n        raise Lost(p) from error"), &[]);
    check_found(Python, python, &caught("OSError:\n        return None"), &[]);
    check_found(JavaScript, "f();", "try { f(); } catch (error) { /* fine */ }", &[(ErrorSwallowed, 1)]);
    check_found(JavaScript, "f();", "f().catch(() => {});", &[(ErrorSwallowed, 1)]);
    check_found(JavaScript, "f();", "try { f(); } catch (error) { report(error); }", &[]);
    check_found(Rust, "fn f() { g()?; }", "fn f() { let _ = g(); }", &[(ErrorSwallowed, 1)]);
    check_found(Rust, "fn f() { g()?; }", "fn f() { g().ok(); }", &[(ErrorSwallowed, 1)]);
    check_found(Rust, "fn f() { g()?; }", "fn f() { if let Err(_) = g() {} }", &[(ErrorSwallowed, 1)]);
    check_found(Rust, "fn f() { g()?; }", "fn f() { match g() { Ok(x) => h(x), Err(_) => {} } }", &[(ErrorSwallowed, 1)]);
    let go = "package p\nfunc F() (int, error) {\n\tx, err := g()\n\treturn x, err\n}\n";
    check_found(Go, go, "package p\nfunc F() (int, error) {\n\tx, _ := g()\n\treturn x, nil\n}\n", &[(ErrorSwallowed, 3)]);
    check_found(Go, go, "package p\nfunc F() (int, error) {\n\tx, _ := m[1]\n\treturn x, nil\n}\n", &[]);
}

#[test]
fn removed_checks_are_found() {
    use FindingKind::CheckRemoved;
    use Language::{Go, Python, Rust};
    let python = "def f(n):\n    if n < 0:\n        raise ValueError(n)\n    return g(n)\n";
    check_found(Python, python, "def f(n):\n    return g(n)\n", &[(CheckRemoved, 2)]);
    check_found(Python, python, "def f(n):\n    if n <= 0:\n        raise ValueError(n)\n    return g(n)\n", &[]);
    // Gathered elsewhere, it still guards.
    check_found(
        Python,
        python,
        "def checked(n):\n    if n < 0:\n        raise ValueError(n)\n    return n\n\n\ndef f(n):\n    return g(checked(n))\n",
        &[],
    );
    check_found(
        Python,
        "def f(n):\n    assert n > 0\n    return n\n",
        "def f(n):\n    assert True\n    return n\n",
        &[(CheckRemoved, 2)],
    );
    check_found(Rust, "fn f(n: i32) -> i32 { assert!(n > 0); n }", "fn f(n: i32) -> i32 { n }", &[(CheckRemoved, 1)]);
    check_found(
        Go,
        "package p\nfunc F(n int) error {\n\tif n < 0 {\n\t\treturn errNegative\n\t}\n\treturn g(n)\n}\n",
        "package p\nfunc F(n int) error {\n\treturn g(n)\n}\n",
        &[(CheckRemoved, 3)],
    );
    // The function went, and its check with it.
    check_found(Python, &format!("{python}\n\ndef h():\n    return 1\n"), "def h():\n    return 1\n", &[]);
}

#[test]
fn edited_tests_are_found() {
    use FindingKind::TestEdited;
    use Language::{Go, Python, Rust};
    let python = "def f(n):\n    return n\n\n\ndef test_f():\n    assert f(2) == 3\n";
    check_found(Python, python, &python.replace("== 3", "== 2"), &[(TestEdited, 5)]);
    check_found(Python, python, &python.replace("return n", "return n + 1"), &[]);
    check_found(Python, python, "def f(n):\n    return n\n", &[(TestEdited, 5)]);
    check_found(Python, python, &format!("{python}\n\ndef test_g():\n    assert f(1) == 1\n"), &[]);
    check_found(Python, python, &python.replace("f(", "following("), &[]);
    let open = Asked { tests: Tests::Open, ..Asked::default() };
    check_found_for(&open, Python, python, &python.replace("== 3", "== 2"), &[]);
    let path = Asked { path: Some("tests/cases.py".into()), ..Asked::default() };
    check_found_for(&path, Python, "LIMIT = 3\n", "LIMIT = 4\n", &[(TestEdited, 1)]);
    check_found_for(&path, Python, "LIMIT = 3\n", "LIMIT = 3\nMORE = 4\n", &[]);
    let rust = "#[test]\nfn adds() { assert_eq!(f(2), 3); }\n";
    check_found(Rust, rust, &rust.replace('3', "2"), &[(TestEdited, 2)]);
    check_found(Rust, rust, &rust.replace("#[test]\n", "#[test]\n#[ignore]\n"), &[(TestEdited, 2)]);
    let go = "package p\nfunc TestF(t *testing.T) {\n\tif f(2) != 3 {\n\t\tt.Fatal(2)\n\t}\n}\n";
    check_found(Go, go, &go.replace("\tif", "\tt.Skip()\n\tif"), &[(TestEdited, 2)]);
}

#[test]
fn dead_code_is_found() {
    use FindingKind::DeadCode;
    use Language::{Go, JavaScript, Python, Rust};
    check_found(Python, "def f():\n    return g()\n", "def f():\n    return 1\n    return g()\n", &[(DeadCode, 3)]);
    check_found(Python, "def f():\n    g()\n", "def f():\n    if False:\n        g()\n", &[(DeadCode, 2)]);
    check_found(Python, "x = 1\n", "x = 1\n\n\ndef _spare():\n    return 2\n", &[(DeadCode, 4)]);
    check_found(Python, "x = 1\n", "x = 1\n\n\ndef spare():\n    return 2\n", &[]);
    check_found(Rust, "pub fn f() { g(); }", "pub fn f() { g(); }\nfn spare() {}", &[(DeadCode, 2)]);
    check_found(Rust, "pub fn f() { g(); }", "pub fn f() { panic!(); g(); }", &[(DeadCode, 1)]);
    check_found(Rust, "struct S;\nimpl Drop for S {}", "struct S;\nimpl Drop for S { fn drop(&mut self) {} }", &[]);
    check_found(
        JavaScript,
        "export const f = () => { g(); };",
        "export const f = () => { while (false) { g(); } };",
        &[(DeadCode, 1)],
    );
    check_found(JavaScript, "function f() { return g(); }", "function f() { return g(); function g() { return 1; } }", &[]);
    check_found(Go, "package p\nfunc F() { g() }\n", "package p\nfunc F() {\n\tpanic(1)\n\tg()\n}\n", &[(DeadCode, 4)]);
}

#[test]
fn an_edited_file_is_the_same_as_one_parsed_anew() {
    for language in Language::ALL {
        let base = sample::file(language, 60, 1);
        let source = Source::parse(language, base.clone()).unwrap();
        assert_eq!(source.n_syntax_errors(), 0, "{}", language.name());
        let mut draws = hone_trace::Draws::new(5, &[language.name()]);
        for _ in 0..60 {
            // Any cut and any insertion, syntax errors included.
            let mut text = base.clone();
            let (from, len) = (draws.below(text.len()), draws.below(40));
            let insert = *draws.pick(&["", "x", "(", "\n", "\"", "#", "//", "if", " y = 2\n", "}"]);
            text.replace_range(from..(from + len).min(text.len()), insert);
            let (edited, anew) = (source.edited(text.clone()).unwrap(), Source::parse(language, text.clone()).unwrap());
            let difference = diff(&anew, &edited, &Asked::default()).unwrap();
            assert_eq!(difference.cost, 0.0, "{text}");
            assert_eq!(edited.n_nodes(), anew.n_nodes());
            assert_eq!(edited.n_syntax_errors(), anew.n_syntax_errors());
            let asked = Asked::default();
            assert_eq!(diff(&source, &edited, &asked), diff(&source, &anew, &asked));
        }
    }
}

#[test]
fn hostile_code_is_compared_or_refused() {
    let deep = |n: usize, sign: &str| format!("x = {}1{}\n", "(".repeat(n) + &sign.repeat(n), ")".repeat(n));
    compare(Language::Python, &deep(100_000, ""), &deep(100_000, "-"), &Asked::default());
    let nested = |n: usize| format!("x = {}1{}\n", "[".repeat(n), "]".repeat(n));
    compare(Language::Python, &nested(50_000), &nested(50_001), &Asked::default());
    compare(Language::JavaScript, &"a => ".repeat(20_000), &"{".repeat(20_000), &Asked::default());
    let same: String = "x = f(1)\n".repeat(20_000);
    compare(Language::Python, &same, &"y = f(1)\n".repeat(20_001), &Asked::default());
    let broken = compare(Language::Rust, "fn f( {", "fn f() {}", &Asked::default());
    assert!(broken.n_syntax_errors_before > 0 && broken.n_syntax_errors_after == 0);
    let empty = compare(Language::Go, "", "", &Asked::default());
    assert_eq!((empty.cost, empty.score), (0.0, 1.0));
    assert_eq!(
        Source::parse(Language::Python, "#".repeat(TEXT_LEN_MAX + 1)).unwrap_err(),
        DiffError::TooLong { n_bytes: TEXT_LEN_MAX + 1 }
    );
    let (python, go) = (Source::parse(Language::Python, "x").unwrap(), Source::parse(Language::Go, "x").unwrap());
    assert!(matches!(diff(&python, &go, &Asked::default()), Err(DiffError::Languages { .. })));
}
