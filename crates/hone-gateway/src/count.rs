//! How many tokens a conversation has, in Anthropic's words: `POST /v1/messages/count_tokens`.
//!
//! A model of this machine counts what it would read, and a provider of this format is asked in the client's own words. No others can
//! tell. Nobody answers, so nothing is on the record.

use crate::access::Caller;
use crate::anthropic;
use crate::catalogue::Who;
use crate::error::Refused;
use crate::question::unread;
use crate::route::{Format, admitted, json_response};
use crate::server::Gateway;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use hone_policy::upstream::Wire;
use serde_json::{Value, json};

pub(crate) async fn tokens(
    State(gateway): State<Gateway>,
    caller: Result<Caller, Refused>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match counted(&gateway, caller, &headers, body).await {
        Ok(counted) => json_response(&counted),
        Err(refused) => Format::Anthropic.refuse(&refused),
    }
}

async fn counted(gateway: &Gateway, caller: Result<Caller, Refused>, headers: &HeaderMap, body: Body) -> Result<Value, Refused> {
    let Caller(caller) = caller?;
    let (_place, body) = admitted(gateway, body).await?;
    let asked = anthropic::read_unanswered(&body)?;
    let name = &asked.model;
    let model = gateway.model(name).map_err(|refused| match gateway.agents().knows(&caller.tenant, name) {
        true => Refused::param(
            "model",
            format!("model: `{name}` is an agent, whose tokens are those of the version that an episode gets"),
        ),
        false => refused,
    })?;
    let mut failure = None;
    for upstream in model.upstreams() {
        let counted = match &upstream.who {
            Who::Local(local) => match unread(local, &asked.request, Some(Wire::Anthropic), &asked.body) {
                Some(refused) => Err(refused),
                None => local.count(&asked.request).await.map(|n_tokens| json!({ "input_tokens": n_tokens })),
            },
            Who::Provider(client) if client.spec().provider.wire == Wire::Anthropic => {
                client.count(&asked.body, Format::Anthropic.headers(headers)).await
            }
            Who::Provider(_) => continue,
        };
        match counted {
            Ok(counted) => return Ok(counted),
            Err(error) => failure = Some(error),
        }
    }
    let nobody = || Refused::param("model", format!("model: nobody who answers as `{name}` counts tokens beforehand"));
    Err(failure.map_or_else(nobody, |error| (&error).into()))
}
