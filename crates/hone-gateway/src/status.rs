//! How agents stand: `GET /v1/agents`. Versions with their shares, the latest canary with its numbers, and how well each version does.

use crate::access::Reader;
use crate::agents::{Canary, Entry, RouteBy, View};
use crate::error::Refused;
use crate::route::json_response;
use crate::server::Gateway;
use axum::extract::{Path, State};
use axum::response::Response;
use hone_arbiter::Known;
use hone_trace::{AgentName, Tenant};
use serde_json::{Map, Value, json};

pub(crate) async fn agents(State(gateway): State<Gateway>, Reader(caller): Reader) -> Response {
    let view = gateway.agents().view();
    let of_tenant = view.agents.iter().filter(|(_, entry)| entry.tenant == caller.tenant);
    let all: Vec<Value> = of_tenant.map(|(name, entry)| told(name, entry)).collect();
    let routes: Vec<Value> = gateway
        .agents()
        .routes
        .iter()
        .filter(|route| gateway.agents().knows(&caller.tenant, &route.name))
        .map(|route| {
            let by = if route.by == RouteBy::Task { "task" } else { "features" };
            json!({"name": route.name, "by": by, "agents": route.agents, "shares": shares(&view, &caller.tenant, &route.name)})
        })
        .collect();
    json_response(&json!({"object": "list", "data": all, "routes": routes}))
}

pub(crate) async fn agent(
    State(gateway): State<Gateway>,
    Reader(caller): Reader,
    Path(name): Path<String>,
) -> Result<Response, Refused> {
    let view = gateway.agents().view();
    let missing = || Refused::NotFound("there is no such agent; GET /v1/agents lists those that there are".into());
    let name = AgentName::new(name).map_err(|_| missing())?;
    let entry = view.agents.get(&name).filter(|entry| entry.tenant == caller.tenant).ok_or_else(missing)?;
    Ok(json_response(&told(&name, entry)))
}

/// How likely each agent of a route is chosen, by type of task.
fn shares(view: &View, tenant: &Tenant, route: &str) -> Value {
    let of_route = view.shares.iter().filter(|((of, name, _), _)| of == tenant && name == route);
    let by_task = of_route.map(|((.., task), shares)| {
        let task = task.as_ref().map_or_else(|| "(new)".to_owned(), ToString::to_string);
        (task, json!(shares))
    });
    Value::Object(by_task.collect())
}

fn told(name: &AgentName, entry: &Entry) -> Value {
    let versions: Vec<Value> = entry
        .registered
        .iter()
        .map(|(version, share)| {
            let ready = entry.versions.get(version);
            json!({
                "version": version,
                "share": share,
                "config": ready.map(|ready| ready.config_hash.to_string()),
                "model": ready.and_then(|ready| ready.config.model.clone()),
                "problem": ready.and_then(|ready| ready.model.as_ref().err()),
            })
        })
        .collect();
    let performance: Vec<Value> = entry
        .performance
        .iter()
        .flat_map(|(version, tasks)| tasks.iter().map(move |(task, known)| row(version, task, known)))
        .collect();
    json!({
        "name": name,
        "live": entry.live,
        "versions": versions,
        "canary": entry.canary.as_ref().map(of_canary),
        "performance": performance,
    })
}

fn row(version: &str, task: &str, known: &Known) -> Value {
    json!({
        "version": version,
        "task": task,
        "n_episodes": known.n_episodes,
        "success": known.success,
        "reliability": known.reliability,
        "cost_usd": known.cost_usd,
        "latency_ms": known.latency_ms,
    })
}

fn of_canary(canary: &Canary) -> Value {
    let mut told = Map::new();
    told.insert("id".into(), json!(canary.id));
    told.insert("at".into(), json!(canary.at));
    told.insert("state".into(), json!(canary.state));
    told.insert("from".into(), json!(canary.from));
    told.insert("to".into(), json!(canary.to));
    told.insert("report".into(), json!(canary.report));
    told.insert("n_awaited".into(), json!(canary.report.numbers.n_awaited()));
    Value::Object(told)
}
