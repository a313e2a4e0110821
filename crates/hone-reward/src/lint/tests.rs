use super::*;

const CORRECT: &str =
    r#"{ name = "correct", kind = "signal", signal = "correct", range = [0, 1], weight = 1, role = "primary" },"#;

fn findings(components: &str) -> Vec<Finding> {
    lint(&Recipe::parse(&format!("components = [{components}]")).unwrap())
}

/// The recipe of a correct answer and these components has this finding; none when it is empty.
#[track_caller]
fn check(components: &str, severity: Severity, what: &str) {
    let found = findings(&format!("{CORRECT} {components}"));
    assert!(found.iter().any(|finding| finding.severity == severity && finding.what.contains(what)), "{found:?}");
}

fn signal(name: &str, weight: f64, role: &str) -> String {
    format!(r#"{{ name = "{name}", kind = "signal", signal = "s", range = [0, 1], weight = {weight:?}, role = "{role}" }},"#)
}

#[test]
fn a_sound_recipe_has_no_finding() {
    let process = r#"{ name = "process", kind = "process", weight = 1, role = "secondary" },"#;
    assert_eq!(findings(&format!("{CORRECT} {process} {}", signal("wrong", -0.3, "penalty"))), []);
}

#[test]
fn what_outweighs_the_primary_is_found() {
    check(&signal("style", 1.5, "secondary"), Severity::Warning, "it can move the total by 1.500, the primary by 1.000");
    check(&signal("wrong", -2.0, "penalty"), Severity::Warning, "it can move the total by 2.000");
    let together = signal("one", 0.6, "secondary") + &signal("two", -0.6, "penalty");
    check(&together, Severity::Warning, "together can move the total by 1.200");
}

#[test]
fn a_penalty_that_pays_is_found() {
    check(&signal("wrong", 0.5, "penalty"), Severity::Warning, "it is a penalty and can pay 0.500");
}

#[test]
fn a_primary_that_takes_away_is_found() {
    check(&signal("again", -1.0, "primary"), Severity::Warning, "it is primary, and its weight is -1");
}

#[test]
fn a_signal_that_the_world_does_not_give_is_found() {
    let recipe = Recipe::parse(&format!("components = [{CORRECT} {}]", signal("style", 0.1, "secondary"))).unwrap();
    let known = BTreeSet::from(["asked".to_owned(), "correct".to_owned()]);
    let found = unknown_signals(&recipe, &known);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].component.as_deref(), found[0].severity), (Some("style"), Severity::Warning));
    assert_eq!(found[0].what, "the world gives no signal `s`; it gives asked, correct");
    let process = r#"{ name = "process", kind = "process", signal = "neded", weight = 1, role = "secondary" }"#;
    let recipe = Recipe::parse(&format!("components = [{CORRECT} {process}]")).unwrap();
    assert_eq!(unknown_signals(&recipe, &known)[0].what, "the world gives no signal `neded`; it gives asked, correct");
}

#[test]
fn too_many_components_are_found() {
    let four: String = (0..4).map(|idx| signal(&format!("s{idx}"), 0.1, "secondary")).collect();
    check(&four, Severity::Warning, "the recipe has 5 components");
}

#[test]
fn efficiency_on_top_of_ruler_is_refused_unless_forced() {
    let ruler = r#"{ name = "rank", kind = "ruler", weight = 1, role = "primary" },"#;
    for efficiency in [
        r#"{ name = "short", kind = "length", free_tokens = 1, per_token = 0.001, cost_max = 0.1, weight = 1, role = "penalty" }"#,
        r#"{ name = "short", kind = "steps", free_turns = 1, per_turn = 0.01, cost_max = 0.1, weight = 1, role = "penalty" }"#,
    ] {
        let found = findings(&format!("{ruler} {efficiency}"));
        let refusal = obstacle(&found, false).unwrap();
        assert_eq!((refusal.severity, refusal.component.as_deref()), (Severity::Refusal, Some("short")));
        assert_eq!(obstacle(&found, true), None);
        assert_eq!(obstacle(&findings(&format!("{CORRECT} {efficiency}")), false), None);
    }
    check(&format!("{ruler} {}", ruler.replace("rank", "again")), Severity::Error, "there are 2 rulers");
}

#[test]
fn what_has_no_bound_is_found() {
    check(
        r#"{ name = "s", kind = "signal", signal = "s", weight = 0.1, role = "secondary" }"#,
        Severity::Warning,
        "nothing bounds its value",
    );
}

#[test]
fn broken_weights_names_and_roles_are_errors_even_when_forced() {
    let mut recipe = Recipe::parse(&format!("components = [{CORRECT}]")).unwrap();
    recipe.components[0].weight = f64::NAN;
    assert!(obstacle(&lint(&recipe), true).unwrap().what.contains("the weight is NaN"));
    check(&signal("correct", 0.1, "secondary"), Severity::Error, "the name is taken");
    check(&signal("s", 0.0, "secondary"), Severity::Warning, "the weight is 0");
    let found = findings(&signal("s", 0.5, "secondary"));
    assert!(obstacle(&found, true).unwrap().what.contains("no primary"));
}
