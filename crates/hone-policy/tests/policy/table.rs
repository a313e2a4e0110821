//! Every provider against a server that speaks its documented words: plain, streamed, tool call, error, usage.
//!
//! The servers check what they are sent as strictly as the real ones: the path, who asks, the parameters, the form of the
//! messages. What they do not like they refuse, and the cell fails. A cell says `ok` only after its assertions have run.

mod anthropic;
pub(crate) mod bedrock;
mod cohere;
mod gemini;
mod openai;

use crate::server::{Play, Seen, Server, http};
use crate::wire::short;
use crate::{RUNTIME, SECRET, options};
use hone_policy::upstream::{
    Access, AwsKey, ChatRequest, Client, ClientOptions, Completion, Delta, Finish, Key, PROVIDERS, Region, Sampling, Transfer,
    UpstreamError, UpstreamSpec,
};
use hone_trace::policy::PolicyErrorKind;
use hone_trace::{Message, Role, ToolSpec};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

/// What providers are asked, and what they say.
const ASKED: &str = "what is 40 and 2?";
const ASKED_TO_CALL: &str = "add 40 and 2";
const ASKED_TO_FAIL: &str = "fail";
const ANSWER: &str = "the answer is 42";
const PIECES: [&str; 2] = ["the answer ", "is 42"];
const ARGUMENTS: &str = r#"{"a":40,"b":2}"#;

/// A provider, and what is expected of it.
struct Row {
    name: &'static str,
    /// `provider:model`.
    spec: &'static str,
    /// What its address depends on.
    variables: &'static [(&'static str, &'static str)],
    access: Access,
    serve: Box<dyn Fn(&Seen) -> Play + Send + Sync>,
    /// The model that says it answered.
    model: Option<&'static str>,
    thought: Option<&'static str>,
    call_id: &'static str,
    /// Read, written, read from a cache, put into a cache.
    usage: [u64; 4],
    error: (PolicyErrorKind, &'static str),
}

fn key() -> Access {
    Key::new(SECRET).unwrap().into()
}

fn aws_key() -> Access {
    let key = |text: &str| Key::new(text).unwrap();
    let region = Region::new("eu-west-1").unwrap();
    Access::Signed(AwsKey::new(key("AKIDEXAMPLE"), key(SECRET), Some(key("lent-4711")), region))
}

#[test]
fn every_provider_speaks_its_own_words() {
    let rows: Vec<Row> =
        openai::rows().into_iter().chain([anthropic::row(), gemini::row(), cohere::row()]).chain(bedrock::rows()).collect();
    let asked: BTreeSet<&str> = rows.iter().filter_map(|row| row.spec.split(':').next()).collect();
    assert_eq!(asked, PROVIDERS.iter().map(|provider| provider.name).collect(), "every provider has a row");
    let mut lines = vec![line("provider", &["plain", "streamed", "tool call", "error", "usage"])];
    let mut failures = Vec::new();
    for row in rows {
        let name = row.name;
        let cells = cells(row).map(|(column, result)| match result {
            Ok(()) => "ok",
            Err(why) => {
                failures.push(format!("{name}, {column}: {why}"));
                "FAILED"
            }
        });
        lines.push(line(name, &cells));
    }
    println!("{}", lines.join("\n"));
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

fn line(name: &str, cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:<9}")).collect();
    format!("{name:<18} {}", cells.join(" ")).trim_end().to_owned()
}

type Cell = (&'static str, Result<(), String>);

fn cells(row: Row) -> [Cell; 5] {
    let server = Server::start(row.serve);
    let value = |name: &str| row.variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
    let mut spec = UpstreamSpec::named(row.spec, value).unwrap();
    // The provider's own path on a server of ours.
    spec.base_url.set_scheme("http").unwrap();
    spec.base_url.set_ip_host(server.address.ip()).unwrap();
    spec.base_url.set_port(Some(server.address.port())).unwrap();
    let client = |transfer| {
        let options = ClientOptions { transfer, ..options() };
        Arc::new(Client::new(spec.clone(), row.access.clone(), options).unwrap())
    };
    let (plain, streamed) = (client(Transfer::Plain), client(Transfer::Stream));
    let whole = |completion: &Completion| {
        let reply = &completion.reply;
        same("text", reply.message.content.text().as_str(), ANSWER)?;
        same("thought", reply.message.reasoning.as_deref(), row.thought)?;
        same("finish", reply.finish, Finish::Stop)?;
        same("model", reply.model.as_deref(), row.model)?;
        same("attempts", completion.calls.len(), 1)
    };
    let both = |check: &dyn Fn(&Arc<Client>) -> Result<(), String>| check(&plain).and_then(|()| check(&streamed));
    [
        ("plain", answered(&plain, ASKED).and_then(|completion| whole(&completion))),
        ("streamed", pieces(&streamed, row.thought).and_then(|completion| whole(&completion))),
        ("tool call", both(&|client| tool_call(client, row.call_id, row.thought))),
        ("error", both(&|client| error(client, row.error))),
        ("usage", both(&|client| usage(&answered(client, ASKED)?, row.usage))),
    ]
}

fn same<T: PartialEq + Debug + Copy>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what} is {found:?}, not {expected:?}")) }
}

fn request(text: &str) -> ChatRequest {
    let parameters = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
    let add = ToolSpec { name: "add".into(), description: Some("Adds".into()), parameters, extra: Map::new() };
    ChatRequest {
        messages: vec![Message::text(Role::System, "be brief"), Message::text(Role::User, text)],
        tools: if text == ASKED_TO_CALL { [add].into() } else { [].into() },
        sampling: Sampling { temperature: Some(0.5), ..Sampling::default() },
        tokens_max: 64,
        seed: 5 << 33,
        ..ChatRequest::default()
    }
}

fn asked(client: &Arc<Client>, request: &ChatRequest) -> Result<Completion, UpstreamError> {
    RUNTIME.block_on(client.complete(request))
}

fn answered(client: &Arc<Client>, text: &str) -> Result<Completion, String> {
    asked(client, &request(text)).map_err(|error| error.to_string())
}

/// The answer in its pieces, which together are the whole.
fn pieces(client: &Arc<Client>, thought: Option<&str>) -> Result<Completion, String> {
    RUNTIME.block_on(async {
        let told = |error: UpstreamError| error.to_string();
        let mut streaming = client.stream(&request(ASKED)).await.map_err(told)?;
        let (mut texts, mut thoughts) = (Vec::new(), String::new());
        while let Some(piece) = streaming.next().await.map_err(told)? {
            match piece {
                Delta::Text(text) => texts.push(text),
                Delta::Reasoning(text) => thoughts.push_str(&text),
                Delta::ToolCall { .. } => return Err("a call that nobody asked for".into()),
                Delta::Event(_) => return Err("an event that was not to be passed on".into()),
            }
        }
        same("pieces", texts.join("|").as_str(), PIECES.join("|").as_str())?;
        same("pieces of the thought", thoughts.as_str(), thought.unwrap_or_default())?;
        streaming.finish().await.map_err(told)
    })
}

/// The tool is called, its result is sent back as the provider wants it, and the answer follows.
fn tool_call(client: &Arc<Client>, call_id: &str, thought: Option<&str>) -> Result<(), String> {
    let mut request = request(ASKED_TO_CALL);
    let completion = asked(client, &request).map_err(|error| error.to_string())?;
    let message = completion.reply.message;
    same("finish", completion.reply.finish, Finish::ToolCalls)?;
    same("thought", message.reasoning.as_deref(), thought)?;
    let [call] = &message.tool_calls[..] else { return Err(format!("{} calls", message.tool_calls.len())) };
    let arguments: Value = serde_json::from_str(&call.arguments).map_err(|error| error.to_string())?;
    same("call", (short(&call.id).as_str(), call.name.as_str()), (call_id, "add"))?;
    same("arguments", &arguments, &serde_json::from_str(ARGUMENTS).unwrap())?;
    let result = Message { tool_call_id: Some(call.id.clone()), ..Message::text(Role::Tool, "42") };
    request.messages.extend([message, result]);
    let completion = asked(client, &request).map_err(|error| error.to_string())?;
    same("answer after the call", completion.reply.message.content.text().as_str(), ANSWER)
}

/// The provider's no is understood and told in its words, without secrets.
fn error(client: &Arc<Client>, (kind, words): (PolicyErrorKind, &str)) -> Result<(), String> {
    let error = asked(client, &request(ASKED_TO_FAIL)).err().ok_or("an answer")?;
    let is_final = matches!(kind, PolicyErrorKind::Account | PolicyErrorKind::Refused | PolicyErrorKind::TooLong);
    same("kind", error.kind, kind)?;
    same("attempts", error.calls.len(), if is_final { 1 } else { 3 })?;
    let text = format!("{error} {:?}", error.calls);
    same("words", text.contains(words), true).map_err(|_| text.clone())?;
    same("secrets", text.contains(SECRET) || text.contains("lent-4711"), false)
}

fn usage(completion: &Completion, expected: [u64; 4]) -> Result<(), String> {
    let usage = completion.reply.usage.ok_or("no usage")?;
    same("usage", [usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.tokens_cache_written], expected)?;
    let call = completion.calls.last().ok_or("no call on the record")?;
    same("record", [call.tokens_in, call.tokens_out, call.tokens_cached], [expected[0], expected[1], expected[2]])
}

/// What a server does not like, in words that no test expects.
fn disliked(what: impl Debug) -> Play {
    let body = json!({"error": {"message": format!("the server of the test does not like {what:?}")}});
    Play::Say(http("400 Bad Request", "content-type: application/json\n", &body.to_string()))
}

/// A no in a provider's own form.
fn no(status: &str, headers: &str, body: &Value) -> Play {
    Play::Say(http(status, &format!("content-type: application/json\n{headers}"), &body.to_string()))
}

/// Checks what all providers have in common: the way, the type, who asks, and that nobody else is told.
fn check_head(seen: &Seen, path: &str, auth: Option<(&str, &str)>) -> Result<(), String> {
    same("request line", seen.head.lines().next().unwrap_or_default(), format!("POST {path} HTTP/1.1").as_str())?;
    same("content-type", seen.header("content-type"), Some("application/json"))?;
    for name in ["authorization", "x-api-key", "x-goog-api-key", "api-key"] {
        let expected = auth.filter(|(own, _)| *own == name).map(|(_, value)| value);
        same(name, seen.header(name), expected)?;
    }
    Ok(())
}

/// Checks that an object has these names, perhaps those ones, and no others.
fn check_names(what: &str, object: &Value, must: &[&str], may: &[&str]) -> Result<(), String> {
    let map = object.as_object().ok_or_else(|| format!("{what} is {object}"))?;
    if let Some(missing) = must.iter().find(|name| !map.contains_key(**name)) {
        return Err(format!("{what} has no {missing}"));
    }
    match map.keys().find(|name| !must.contains(&name.as_str()) && !may.contains(&name.as_str())) {
        Some(unknown) => Err(format!("{what} has {unknown}")),
        None => Ok(()),
    }
}
