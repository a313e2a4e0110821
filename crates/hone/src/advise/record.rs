//! Advice in the store: what each config reached, and what was proposed because of it.
//!
//! What was measured is named by what it was measured on, and a proposal by what it proposes: the same look twice writes the same records.

use super::look::Advised;
use crate::context::Context;
use crate::failure::Failure;
use hone_advise::{Proposal, Row, Scope};
use hone_eval::Measures;
use hone_store::Database;
use hone_trace::store::{Document, Kind, Link, Put, Write};
use hone_trace::{ConfigHash, Outcome, OutcomeId, Recommendation, RecommendationId, Tenant, V1};
use std::sync::Arc;

/// Somebody else may write at once so often.
const N_TRIES: usize = 8;

/// A proposal as it stands in the store.
pub(super) struct Given {
    pub(super) recommendation: Recommendation,
    pub(super) proposal: Proposal,
}

/// Writes down what was found, and tells it as it stands then, with what was answered before.
pub(super) async fn keep(
    advised: &[Advised],
    rows: &[Row],
    store: &Arc<dyn Database>,
    context: &Context<'_>,
) -> Result<Vec<Given>, Failure> {
    let tenant = &context.settings.tenant;
    let mut given = Vec::new();
    for one in advised {
        for proposal in &one.advice.proposals {
            let mut evidence = Vec::new();
            for config in [one.from, proposal.to] {
                evidence.extend(outcome(config, &proposal.scope, rows, tenant, store).await?);
            }
            let recommendation = proposed(one.from, proposal, evidence, rows, tenant);
            let recommendation = put(recommendation, store).await?;
            given.push(Given { recommendation, proposal: proposal.clone() });
        }
    }
    Ok(given)
}

/// Writes down what a config reached.
async fn outcome(
    config: ConfigHash,
    scope: &Scope,
    rows: &[Row],
    tenant: &Tenant,
    store: &Arc<dyn Database>,
) -> Result<Option<OutcomeId>, Failure> {
    let is_meant = |row: &&Row| row.config == config && scope.category().is_none_or(|it| row.category.as_ref() == Some(it));
    let told: Vec<&Row> = rows.iter().filter(is_meant).filter(|row| row.quality.is_some() && !row.episode.is_broken).collect();
    let Some(at) = told.iter().map(|row| row.at).max() else { return Ok(None) };
    let from = told.iter().map(|row| row.at).min().unwrap_or(at);
    let measures = Measures::of(&told.iter().map(|row| row.episode.clone()).collect::<Vec<_>>());
    let names = [from, at].map(|time| time.unix_nanos().to_string());
    let category = scope.category().map_or("", |category| category.as_str());
    let (hash, n, solved) = (config.to_string(), measures.n_episodes.to_string(), measures.accuracy.to_string());
    let id = OutcomeId::derived(&[tenant.as_str(), &hash, category, &names[0], &names[1], &n, &solved]);
    let outcome = Outcome {
        v: V1,
        id,
        tenant: tenant.clone(),
        at,
        config,
        category: scope.category().cloned(),
        n_traces: measures.n_episodes as u64,
        n_scenarios: Some(measures.n_scenarios as u64),
        success: measures.accuracy,
        reliability: (measures.n_scenarios < measures.n_episodes).then_some(measures.reliability),
        turns_per_solved: measures.turns_per_solved,
        tokens_per_solved: measures.tokens_per_solved,
        cost_usd: measures.cost_per_1k.map(|cost| cost / 1000.0),
        latency_p50_ms: measures.latency_p50_ms,
        failure_pattern: measures.failure.map(|(kind, _)| kind),
    };
    let link = Link { from: format!("config:{config}"), rel: "produced".to_owned(), to: format!("outcome:{id}") };
    store.put(vec![Write::Document(Document::of(&outcome, 0, tenant.clone(), at)), Write::Link(link)]).await?;
    Ok(Some(id))
}

fn proposed(from: ConfigHash, proposal: &Proposal, evidence: Vec<OutcomeId>, rows: &[Row], tenant: &Tenant) -> Recommendation {
    let category = proposal.scope.category().cloned();
    let kind = serde_json::to_string(&proposal.kind).unwrap_or_default();
    let (ours, theirs) = (from.to_string(), proposal.to.to_string());
    let of = category.as_ref().map_or("", |category| category.as_str());
    Recommendation {
        v: V1,
        id: RecommendationId::derived(&[tenant.as_str(), &kind, &ours, &theirs, of]),
        tenant: tenant.clone(),
        at: rows.iter().map(|row| row.at).max().unwrap_or(hone_trace::Time::from_unix_nanos(0)),
        kind: proposal.kind,
        from,
        to: proposal.to,
        category,
        evidence,
        confidence: proposal.confidence,
        answer: None,
    }
}

/// Writes a recommendation as the next state of what is there, with the answer that it got before.
async fn put(new: Recommendation, store: &Arc<dyn Database>) -> Result<Recommendation, Failure> {
    for _ in 0..N_TRIES {
        let there = store.document(Kind::Recommendation, &new.id.to_string()).await?;
        let (revision, answer) = match &there {
            Some(document) => (document.revision + 1, document.word::<Recommendation>()?.answer),
            None => (0, None),
        };
        let next = Recommendation { answer, ..new.clone() };
        if there.is_some_and(|document| document.word::<Recommendation>().is_ok_and(|before| before == next)) {
            return Ok(next);
        }
        if write(&next, revision, store).await? {
            return Ok(next);
        }
    }
    Err(busy())
}

/// Writes a state of a recommendation; says whether nobody else was first.
pub(super) async fn write(state: &Recommendation, revision: u32, store: &Arc<dyn Database>) -> Result<bool, Failure> {
    let document = Document::of(state, revision, state.tenant.clone(), state.at);
    Ok(store.put(vec![Write::Document(document)]).await?.first() != Some(&Put::Conflict))
}

pub(super) fn busy() -> Failure {
    Failure::user("somebody else keeps writing to this advice").hint("try again")
}
