//! Advice in the store: what each config reached, and what was proposed because of it.
//!
//! What was measured is named by what it was measured on, and a proposal by what it proposes: the same look twice writes the same records.

use super::answer::AnswerError;
use super::look::{Advised, Look};
use crate::documents::{self, Damaged};
use hone_advise::{Proposal, Row, Scope};
use hone_eval::Measures;
use hone_trace::store::{Document, Kind, Link, Put, Store, StoreError, Write};
use hone_trace::{ConfigHash, Outcome, OutcomeId, Recommendation, RecommendationId, Tenant, Time, V1};

/// Somebody else may write at once so often.
const N_TRIES: usize = 8;
/// Documents that are read at once.
const N_PAGE: u32 = 200;

/// A proposal as it stands in the store.
#[derive(Debug, Clone)]
pub struct Given {
    /// The record of it.
    pub recommendation: Recommendation,
    /// What it was made of.
    pub proposal: Proposal,
}

/// Advice that is on the record.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The advice.
    pub recommendation: Recommendation,
    /// How often it was written before.
    pub revision: u32,
}

/// Writes down what was found, and tells it as it stands then, with what was answered before.
pub async fn keep(store: &dyn Store, look: &Look, tenant: &Tenant) -> Result<Vec<Given>, AnswerError> {
    let mut given = Vec::new();
    for one in &look.advised {
        for proposal in &one.advice.proposals {
            let recommendation = keep_one(store, look, one, proposal, tenant).await?;
            given.push(Given { recommendation, proposal: proposal.clone() });
        }
    }
    Ok(given)
}

/// Writes one proposal down, with the measurements behind it.
pub async fn keep_one(
    store: &dyn Store,
    look: &Look,
    one: &Advised,
    proposal: &Proposal,
    tenant: &Tenant,
) -> Result<Recommendation, AnswerError> {
    let mut evidence = Vec::new();
    for config in [one.from, proposal.to] {
        evidence.extend(outcome(store, config, &proposal.scope, &look.seen.rows, tenant).await?);
    }
    let new = Recommendation { evidence, ..proposed(look, one, proposal, tenant) };
    put(store, new).await
}

/// Writes down what a config reached.
async fn outcome(
    store: &dyn Store,
    config: ConfigHash,
    scope: &Scope,
    rows: &[Row],
    tenant: &Tenant,
) -> Result<Option<OutcomeId>, StoreError> {
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

/// A proposal as a record that nobody has answered, without the measurements behind it.
pub fn proposed(look: &Look, one: &Advised, proposal: &Proposal, tenant: &Tenant) -> Recommendation {
    let category = proposal.scope.category().cloned();
    let kind = serde_json::to_string(&proposal.kind).unwrap_or_default();
    let (ours, theirs) = (one.from.to_string(), proposal.to.to_string());
    let of = category.as_ref().map_or("", |category| category.as_str());
    Recommendation {
        v: V1,
        id: RecommendationId::derived(&[tenant.as_str(), &kind, &ours, &theirs, of]),
        tenant: tenant.clone(),
        at: look.seen.newest.unwrap_or(Time::from_unix_nanos(0)),
        kind: proposal.kind,
        from: one.from,
        to: proposal.to,
        category,
        evidence: Vec::new(),
        confidence: proposal.confidence,
        answer: None,
    }
}

/// Writes a recommendation as the next state of what is there, with the answer that it got before.
async fn put(store: &dyn Store, new: Recommendation) -> Result<Recommendation, AnswerError> {
    for _ in 0..N_TRIES {
        let there = kept(store, new.id, &new.tenant).await?;
        let (revision, answer) = there.as_ref().map_or((0, None), |there| (there.revision + 1, there.recommendation.answer));
        let next = Recommendation { answer, ..new.clone() };
        if there.is_some_and(|there| there.recommendation == next) || write(store, &next, revision).await? {
            return Ok(next);
        }
    }
    Err(AnswerError::Busy)
}

/// Writes a state of a recommendation; says whether nobody else was first.
pub(super) async fn write(store: &dyn Store, state: &Recommendation, revision: u32) -> Result<bool, StoreError> {
    let document = Document::of(state, revision, state.tenant.clone(), state.at);
    Ok(store.put(vec![Write::Document(document)]).await?.first() != Some(&Put::Conflict))
}

/// Advice of this tenant that is on the record.
pub async fn kept(store: &dyn Store, id: RecommendationId, tenant: &Tenant) -> Result<Option<Kept>, StoreError> {
    let document = store.document(Kind::Recommendation, &id.to_string()).await?;
    document
        .filter(|document| document.tenant == *tenant)
        .map(|document| Kept::of(&document))
        .transpose()
        .map_err(|damaged| damaged.why)
}

/// All advice of this tenant that is on the record, newest first, each or why it cannot be read.
pub async fn all(store: &dyn Store, tenant: &Tenant) -> Result<Vec<Result<Kept, Damaged>>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = documents::page(store, Kind::Recommendation, after, N_PAGE).await?;
        let ours = page.items.into_iter().filter(|read| documents::is_of(read, tenant));
        found.extend(ours.map(|read| read.and_then(|document| Kept::of(&document))));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

impl Kept {
    /// The advice in a document.
    pub fn of(document: &Document) -> Result<Self, Damaged> {
        Ok(Self { recommendation: documents::word(document)?, revision: document.revision })
    }
}
