//! What is unwise about a recipe, told before anything is trained on it.
//!
//! Ranges x weights say what each component can do at most, so the findings hold for every trace.

#[cfg(test)]
mod tests;

use crate::recipe::{Kind, Part, Recipe, Role};
use serde::Serialize;
use std::collections::BTreeSet;

/// More components than this and nobody can say any more what is being trained.
const COMPONENTS_ADVISED_MAX: usize = 4;

/// Something unwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// The component, where it is one.
    pub component: Option<String>,
    /// What it is.
    pub what: String,
    /// Why it matters.
    pub why: &'static str,
    /// The way out.
    pub way_out: &'static str,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Warning,
    /// Not scored with, unless forced.
    Refusal,
    /// Cannot be scored with.
    Error,
}

/// Everything unwise about a recipe, the worst first.
pub fn lint(recipe: &Recipe) -> Vec<Finding> {
    let mut findings = Vec::new();
    weights(recipe, &mut findings);
    names(recipe, &mut findings);
    balance(recipe, &mut findings);
    efficiency(recipe, &mut findings);
    if recipe.components.len() > COMPONENTS_ADVISED_MAX {
        findings.push(Finding {
            severity: Severity::Warning,
            component: None,
            what: format!("the recipe has {} components", recipe.components.len()),
            why: "every further component is another way to earn without doing what is wanted",
            way_out: "keep the primary and at most three others",
        });
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// The signals of a recipe that are not among those that a world gives. A warning, for a world may give more than were seen of it.
pub fn unknown_signals(recipe: &Recipe, known: &BTreeSet<String>) -> Vec<Finding> {
    let unknown = |part: &Part| {
        let signal = match &part.kind {
            Kind::Signal(signal) => Some(&signal.signal),
            Kind::Process(process) => process.signal.as_ref(),
            _ => None,
        };
        signal.filter(|signal| !known.contains(*signal)).map(|signal| Finding {
            severity: Severity::Warning,
            component: Some(part.name.clone()),
            what: format!(
                "the world gives no signal `{signal}`; it gives {}",
                known.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
            why: "it is the same for every trace, and teaches nothing",
            way_out: "spell it as the world does, or take it out",
        })
    };
    recipe.components.iter().filter_map(unknown).collect()
}

/// The first finding that keeps a recipe from being used. Being forced lets refusals pass, errors never.
pub fn obstacle(findings: &[Finding], is_forced: bool) -> Option<&Finding> {
    let least = if is_forced { Severity::Error } else { Severity::Refusal };
    findings.iter().find(|finding| finding.severity >= least)
}

fn weights(recipe: &Recipe, findings: &mut Vec<Finding>) {
    for part in &recipe.components {
        if !part.weight.is_finite() {
            findings.push(Finding {
                severity: Severity::Error,
                component: Some(part.name.clone()),
                what: format!("the weight is {}", part.weight),
                why: "a total that is not a number cannot be trained on",
                way_out: "give a finite weight",
            });
        } else if part.weight == 0.0 {
            findings.push(Finding {
                severity: Severity::Warning,
                component: Some(part.name.clone()),
                what: "the weight is 0".into(),
                why: "the component is measured and has no effect",
                way_out: "give it a weight, or take it out",
            });
        } else if part.weight < 0.0 && part.role == Role::Primary {
            findings.push(Finding {
                severity: Severity::Warning,
                component: Some(part.name.clone()),
                what: format!("it is primary, and its weight is {}", part.weight),
                why: "what is wanted would be avoided",
                way_out: "turn the sign of its weight, or make it a penalty beside what is wanted",
            });
        }
    }
}

fn names(recipe: &Recipe, findings: &mut Vec<Finding>) {
    for (idx, part) in recipe.components.iter().enumerate() {
        if recipe.components[..idx].iter().any(|other| other.name == part.name) {
            findings.push(Finding {
                severity: Severity::Error,
                component: Some(part.name.clone()),
                what: "the name is taken".into(),
                why: "components are told apart by name in rewards and alarms",
                way_out: "name it differently",
            });
        }
    }
    if !recipe.components.iter().any(|part| part.role == Role::Primary) {
        findings.push(Finding {
            severity: Severity::Error,
            component: None,
            what: "there is no primary component".into(),
            why: "nothing says what is wanted",
            way_out: "give the component that measures success `role = \"primary\"`",
        });
    }
    let n_rulers = recipe.components.iter().filter(|part| matches!(part.kind, Kind::Ruler(_))).count();
    if n_rulers > 1 {
        findings.push(Finding {
            severity: Severity::Error,
            component: None,
            what: format!("there are {n_rulers} rulers"),
            why: "a group is ranked once",
            way_out: "keep one, with `repeats` where one call is too noisy",
        });
    }
}

fn balance(recipe: &Recipe, findings: &mut Vec<Finding>) {
    let scale = recipe.primary_scale().unwrap_or(0.0);
    let reach = |part: &Part| part.kind.range(scale).map(|[low, high]| reach(part, [low, high]));
    for part in &recipe.components {
        if reach(part).is_none() {
            findings.push(Finding {
                severity: Severity::Warning,
                component: Some(part.name.clone()),
                what: "nothing bounds its value".into(),
                why: "it may outweigh everything else on a trace nobody has seen yet",
                way_out: "give it `range = [low, high]`: values are kept inside",
            });
        }
    }
    let of_role = |is_primary: bool| recipe.components.iter().filter(move |part| (part.role == Role::Primary) == is_primary);
    let Some(primary) = of_role(true).map(reach).sum::<Option<f64>>().filter(|span| *span > 0.0) else { return };
    let mut n_alone = 0;
    for (part, reach) in of_role(false).filter_map(|part| Some((part, reach(part)?))) {
        if reach >= primary {
            n_alone += 1;
            findings.push(Finding {
                severity: Severity::Warning,
                component: Some(part.name.clone()),
                what: format!("it can move the total by {reach:.3}, the primary by {primary:.3}"),
                why: "a trace that fails can earn as much as one that succeeds",
                way_out: "lower its weight until it can only decide between traces that are equally good",
            });
        }
        let most =
            part.kind.range(scale).map_or(0.0, |ends| ends.map(|end| end * part.weight).into_iter().fold(f64::MIN, f64::max));
        if part.role == Role::Penalty && most > 0.0 {
            findings.push(Finding {
                severity: Severity::Warning,
                component: Some(part.name.clone()),
                what: format!("it is a penalty and can pay {most:.3}"),
                why: "what is meant to be avoided would be sought",
                way_out: "turn the sign of its weight, or make it a secondary",
            });
        }
    }
    let together: f64 = of_role(false).filter_map(reach).sum();
    if together >= primary && n_alone == 0 {
        findings.push(Finding {
            severity: Severity::Warning,
            component: None,
            what: format!("secondaries and penalties together can move the total by {together:.3}, the primary by {primary:.3}"),
            why: "a trace that fails can earn as much as one that succeeds",
            way_out: "lower their weights until their sum stays below the primary",
        });
    }
}

/// How far a component can move the total.
fn reach(part: &Part, [low, high]: [f64; 2]) -> f64 {
    part.weight.abs() * (high - low)
}

fn efficiency(recipe: &Recipe, findings: &mut Vec<Finding>) {
    if recipe.ruler().is_none() {
        return;
    }
    for part in recipe.components.iter().filter(|part| matches!(part.kind, Kind::Length(_) | Kind::Steps(_))) {
        findings.push(Finding {
            severity: Severity::Refusal,
            component: Some(part.name.clone()),
            what: "it rewards efficiency on top of RULER".into(),
            why: "RULER already ranks the shorter of two good traces higher: counted twice, short beats right",
            way_out: "take it out, say in the rubric how much efficiency matters, or force it",
        });
    }
}
