//! Advice for people and programs to read.

use crate::context::Context;
use crate::failure::Failure;
use crate::printer::{Style, counted};
use hone_advise::{Cluster, ConfigChange, Counts, Scope, aim, changes, described, percent, reached, short};
use hone_gateway::advice::{Advised, Given, Look, Seen, Used};
use hone_trace::{Answer, Config, ConfigHash, Recommendation};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Configs that cannot be compared which are shown all the same.
const N_UNLIKE_MAX: usize = 5;

/// Tells what was found.
pub(super) fn tell(look: &Look, given: &[Given], n_top: usize, context: &Context<'_>) -> Result<(), Failure> {
    let Look { seen, clusters, advised, .. } = look;
    if context.printer.wants_json() {
        let all: Vec<Value> = advised.iter().map(|one| as_json(one, given, seen)).collect();
        let counts = Counts::of(&seen.rows);
        return context.printer.json(&json!({
            "episodes": seen.n_episodes(), "with_outcome": counts.n_told, "solved": counts.solved(),
            "broken": counts.n_broken, "studied": seen.n_studied, "damaged": seen.n_damaged, "failures": clusters, "configs": all,
        }));
    }
    overview(seen, context)?;
    failures(clusters, n_top, context)?;
    for one in advised {
        candidates(one, seen, context)?;
        proposals(one, given, seen, context)?;
    }
    Ok(())
}

fn overview(seen: &Seen, context: &Context<'_>) -> Result<(), Failure> {
    let counts = Counts::of(&seen.rows);
    let (n_rows, n_configs) = (seen.rows.len(), seen.by_config().len());
    let solved = counts.solved().map_or_else(|| "no outcome".to_owned(), |solved| format!("{} solved", percent(solved)));
    let (episodes, configs) = (counted(n_rows as u64, "episode"), counted(n_configs as u64, "config"));
    context.printer.plain(&format!("{episodes} of {configs}, {} with an outcome: {solved}", counts.n_told))?;
    if counts.n_silent > 0 {
        context.printer.say(&format!(
            "{} without an outcome: say how they went with `POST /v1/feedback`, or weigh them with `hone reward score`",
            counted(counts.n_silent as u64, "episode")
        ));
    }
    if counts.n_broken > 0 {
        context.printer.say(&format!("{} broke, and compare nothing", counted(counts.n_broken as u64, "episode")));
    }
    if seen.n_studied > 0 {
        let left_out = counted(seen.n_studied as u64, "episode");
        context.printer.say(&format!("{left_out} of adapters on tasks that they may have learned from: left out"));
    }
    for (error, n_episodes) in &seen.lost {
        context.printer.complain(&format!("{error}; left out with it: {}", counted(*n_episodes as u64, "episode")));
    }
    if seen.n_damaged > 0 {
        let damaged = counted(seen.n_damaged as u64, "damaged record");
        context.printer.say(&format!("{damaged} passed by: `hone store verify` names all"));
    }
    Ok(())
}

fn failures(clusters: &[Cluster], n_top: usize, context: &Context<'_>) -> Result<(), Failure> {
    let n_failed: usize = clusters.iter().map(|cluster| cluster.n).sum();
    if n_failed == 0 {
        return Ok(());
    }
    context.printer.plain("")?;
    context.printer.line(&[(Style::Strong, &format!("How they fail ({})", counted(n_failed as u64, "failure")))])?;
    for cluster in clusters.iter().take(n_top) {
        let head = format!("{:>6}  {:>5}  ", percent(cluster.share), cluster.n);
        let said = if cluster.said.is_empty() { String::new() } else { format!(": “{}”", cluster.said) };
        let style = if cluster.is_broken { Style::Note } else { Style::Bad };
        context.printer.line(&[(Style::Plain, &head), (style, &cluster.what), (Style::Plain, &said)])?;
        let mut about = Vec::new();
        if !cluster.words.is_empty() {
            about.push(format!("asked about {}", cluster.words.join(", ")));
        }
        if !cluster.categories.is_empty() {
            let named = cluster.categories.iter().take(3).map(|(category, n)| format!("{category} {n}"));
            about.push(format!("in {}", named.collect::<Vec<_>>().join(", ")));
        }
        let margin = " ".repeat(15);
        if !about.is_empty() {
            context.printer.plain(&format!("{margin}{}", about.join("; ")))?;
        }
        let read = cluster.traces.first().map(|id| format!("; hone trace show {id}")).unwrap_or_default();
        context.printer.line(&[(Style::Faint, &format!("{margin}{}{read}", cluster.remedy))])?;
    }
    if clusters.len() > n_top {
        let (n_more, of) = (clusters.len() - n_top, clusters[n_top..].iter().map(|cluster| cluster.n).sum::<usize>());
        context.printer.say(&format!(
            "{} with {}: --top or --json",
            counted(n_more as u64, "more way"),
            counted(of as u64, "failure")
        ));
    }
    Ok(())
}

fn candidates(one: &Advised, seen: &Seen, context: &Context<'_>) -> Result<(), Failure> {
    context.printer.plain("")?;
    let name = match &one.used {
        Used::Serves(agent, version) => format!("In use: {agent} {version}"),
        Used::Asked => "Asked for".to_owned(),
        Used::Most => "In use: the config with the most episodes".to_owned(),
    };
    let ours = seen.by_config().remove(&one.from).unwrap_or_default();
    let title = format!("{name}, {}", described(&one.from, seen.configs.get(&one.from)));
    context.printer.line(&[(Style::Strong, &title)])?;
    context.printer.plain(&format!("  {}", reached(&ours)))?;
    // A run of training leaves a config behind with every step, of few episodes each.
    let (all, n_compared) = one.beside();
    if all.is_empty() {
        context.printer.say("no other config has episodes: try one beside it, by a canary, a route or `hone rollout`");
        return Ok(());
    }
    let shown = &all[..all.len().min(n_compared + N_UNLIKE_MAX)];
    let n_more = all.len() - shown.len();
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|candidate| {
            let (quality, cost) = match &candidate.compared {
                Ok(compared) => (compared.quality.points(), compared.priced().map_or_else(|| "-".into(), |cost| cost.dollars())),
                Err(_) => ("-".to_owned(), "-".to_owned()),
            };
            vec![described(&candidate.config, seen.configs.get(&candidate.config)), quality, cost, candidate.judged()]
        })
        .collect();
    context.printer.table(&["  beside it", "quality, points", "cost, $", "verdict"], &indented(rows))?;
    if n_more > 0 {
        context.printer.say(&format!("{} cannot be compared: --json has all", counted(n_more as u64, "more config")));
    }
    Ok(())
}

fn indented(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.iter_mut().filter_map(|row| row.first_mut()).for_each(|first| first.insert_str(0, "  "));
    rows
}

fn proposals(one: &Advised, given: &[Given], seen: &Seen, context: &Context<'_>) -> Result<(), Failure> {
    let of_one: Vec<&Given> = given.iter().filter(|given| given.recommendation.from == one.from).collect();
    let (turned_down, open): (Vec<&Given>, Vec<&Given>) =
        of_one.into_iter().partition(|given| given.recommendation.answer == Some(Answer::Rejected));
    for Given { recommendation, proposal } in open {
        context.printer.plain("")?;
        let id = recommendation.id.to_string();
        let scope = proposal.scope.category().map(|category| format!(" for {category}")).unwrap_or_default();
        let sure = format!(", sure to {}", percent(proposal.confidence));
        let head = format!("{}{scope}", aim(recommendation.kind));
        context.printer.line(&[(Style::Good, &head), (Style::Plain, &sure)])?;
        context.printer.plain(&format!("  {}", proposal.compared.because()))?;
        for change in differences(&one.from, &proposal.to, &seen.configs) {
            let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "not set".to_owned());
            context.printer.plain(&format!("  {}: {} → {}", change.what, side(&change.from), side(&change.to)))?;
        }
        if recommendation.answer == Some(Answer::Accepted) {
            context.printer.line(&[(Style::Faint, "  taken already")])?;
        } else {
            context.printer.line(&[(Style::Faint, &format!("  hone advise accept {}", short(&id)))])?;
        }
    }
    if !turned_down.is_empty() {
        context.printer.say(&format!("{} turned down before: `hone advise list`", counted(turned_down.len() as u64, "proposal")));
    }
    if one.advice.proposals.is_empty() && one.advice.candidates.iter().any(|candidate| candidate.scope == Scope::All) {
        context.printer.say("nothing is proposed: no other config is surely better, or as good and surely cheaper");
    }
    Ok(())
}

/// A row of the list of advice.
pub(super) fn line(one: &Recommendation) -> Vec<String> {
    let answer = match one.answer {
        Some(Answer::Accepted) => "taken",
        Some(Answer::Rejected) => "turned down",
        None => "open",
    };
    vec![
        short(&one.id.to_string()).to_owned(),
        aim(one.kind).to_owned(),
        one.category.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string),
        short(&one.from.to_string()).to_owned(),
        short(&one.to.to_string()).to_owned(),
        percent(one.confidence),
        answer.to_owned(),
    ]
}

fn as_json(one: &Advised, given: &[Given], seen: &Seen) -> Value {
    let of_one = given.iter().filter(|given| given.recommendation.from == one.from);
    let proposals: Vec<Value> = of_one
        .map(|Given { recommendation, proposal }| {
            json!({
                "id": recommendation.id, "kind": recommendation.kind, "to": proposal.to, "category": proposal.scope.category(),
                "confidence": proposal.confidence, "answer": recommendation.answer, "evidence": recommendation.evidence,
                "compared": proposal.compared, "changes": differences(&one.from, &proposal.to, &seen.configs),
            })
        })
        .collect();
    let candidates: Vec<Value> = one
        .advice
        .candidates
        .iter()
        .map(|candidate| {
            let (compared, unlike) = (candidate.compared.as_ref().ok(), candidate.compared.as_ref().err());
            let (config, category) = (candidate.config, candidate.scope.category());
            json!({"config": config, "category": category, "verdict": candidate.verdict, "compared": compared, "unlike": unlike})
        })
        .collect();
    let (agent, version) = match &one.used {
        Used::Serves(agent, version) => (Some(agent), Some(version)),
        Used::Asked | Used::Most => (None, None),
    };
    json!({"from": one.from, "agent": agent, "version": version, "candidates": candidates, "proposals": proposals})
}

fn differences(from: &ConfigHash, to: &ConfigHash, configs: &BTreeMap<ConfigHash, Config>) -> Vec<ConfigChange> {
    configs.get(from).zip(configs.get(to)).map(|(from, to)| changes(from, to)).unwrap_or_default()
}
