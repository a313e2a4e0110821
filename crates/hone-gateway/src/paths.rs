//! Every path of the server in one table: who answers it, which role it needs, and what it is in the words of `/openapi.json`.
//!
//! The router is made of this table, and so is the document: a path is in both or in neither. The role is what the handler's own
//! argument asks for; a test compares the two.

use crate::access::Role;
use crate::route::{Format, asked_in};
use crate::server::Gateway;
use crate::{count, dashboard, embedding, feedback, health, openapi, otlp, route, status};
use axum::routing::{MethodRouter, get, post};

/// One path with the method that it takes.
pub(crate) struct Path {
    pub(crate) path: &'static str,
    /// In small letters.
    pub(crate) method: &'static str,
    pub(crate) handler: fn() -> MethodRouter<Gateway>,
    /// The least role; `None` where nobody needs a key.
    pub(crate) least: Option<Role>,
    /// What it does.
    pub(crate) says: &'static str,
    /// The schema of the body that it takes.
    pub(crate) takes: Option<&'static str>,
    /// What it answers with.
    pub(crate) gives: Gives,
    /// The schema of its refusals.
    pub(crate) refuses: &'static str,
}

/// What a path answers with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gives {
    /// JSON of this schema.
    Json(&'static str),
    /// JSON of this schema, or events where the body asks for a stream.
    JsonOrEvents(&'static str),
    /// A page for people.
    Page,
    /// Text.
    Text,
}

impl Path {
    const fn get(path: &'static str, handler: fn() -> MethodRouter<Gateway>, says: &'static str) -> Self {
        Self { path, method: "get", handler, least: None, says, takes: None, gives: Gives::Text, refuses: "Error" }
    }

    const fn post(path: &'static str, handler: fn() -> MethodRouter<Gateway>, says: &'static str) -> Self {
        Self { method: "post", ..Self::get(path, handler, says) }
    }

    /// A page that shows what is on the record.
    const fn page(path: &'static str, handler: fn() -> MethodRouter<Gateway>, says: &'static str) -> Self {
        Self { least: Some(Role::Read), gives: Gives::Page, ..Self::get(path, handler, says) }
    }

    const fn needs(self, least: Role) -> Self {
        Self { least: Some(least), ..self }
    }

    const fn takes(self, schema: &'static str) -> Self {
        Self { takes: Some(schema), ..self }
    }

    const fn gives(self, gives: Gives) -> Self {
        Self { gives, ..self }
    }

    const fn refuses(self, schema: &'static str) -> Self {
        Self { refuses: schema, ..self }
    }
}

/// All of them.
pub(crate) const PATHS: &[Path] = &[
    Path::post("/v1/chat/completions", || asked_in(Format::OpenAi), "Answer a conversation in OpenAI's words")
        .needs(Role::Call)
        .takes("ChatRequest")
        .gives(Gives::JsonOrEvents("ChatAnswer")),
    Path::post("/v1/completions", || asked_in(Format::Completions), "Go on with a plain text in OpenAI's words")
        .needs(Role::Call)
        .takes("CompletionRequest")
        .gives(Gives::JsonOrEvents("Completion")),
    Path::post("/v1/responses", || asked_in(Format::Responses), "Answer in the words of OpenAI's responses")
        .needs(Role::Call)
        .takes("ResponseRequest")
        .gives(Gives::JsonOrEvents("Response")),
    Path::post("/v1/messages", || asked_in(Format::Anthropic), "Answer a conversation in Anthropic's words")
        .needs(Role::Call)
        .takes("MessagesRequest")
        .gives(Gives::JsonOrEvents("MessagesAnswer"))
        .refuses("AnthropicError"),
    Path::post("/v1/messages/count_tokens", || post(count::tokens), "Count the tokens of a conversation in Anthropic's words")
        .needs(Role::Call)
        .takes("CountRequest")
        .gives(Gives::Json("Count"))
        .refuses("AnthropicError"),
    Path::post("/v1/embeddings", || post(embedding::give), "Turn texts into vectors")
        .needs(Role::Call)
        .takes("EmbeddingsRequest")
        .gives(Gives::Json("Embeddings")),
    Path::get("/v1/models", || get(route::models), "List the names that are answered to")
        .needs(Role::Call)
        .gives(Gives::Json("Models")),
    Path::get("/v1/models/{name}", || get(route::model), "Say whether a name is answered to")
        .needs(Role::Call)
        .gives(Gives::Json("Model")),
    Path::post("/v1/feedback", || post(feedback::give), "Say something of an answer or an episode")
        .needs(Role::Report)
        .takes("Feedback")
        .gives(Gives::Json("FeedbackTaken")),
    Path::post("/v1/traces", || post(otlp::traces), "Take OpenTelemetry spans")
        .needs(Role::Call)
        .takes("Spans")
        .gives(Gives::Json("SpansTaken"))
        .refuses("SpansRefused"),
    Path::post("/api/public/otel/v1/traces", || post(otlp::traces), "Take spans of exporters that are set up for Langfuse")
        .needs(Role::Call)
        .takes("Spans")
        .gives(Gives::Json("SpansTaken"))
        .refuses("SpansRefused"),
    Path::post(
        "/v1/logs",
        || post(otlp::logs),
        "Take OpenTelemetry log records: what was said in calls whose spans do not say it",
    )
    .needs(Role::Call)
    .takes("Logs")
    .gives(Gives::Json("LogsTaken"))
    .refuses("SpansRefused"),
    Path::post("/api/public/otel/v1/logs", || post(otlp::logs), "Take log records of exporters that are set up for Langfuse")
        .needs(Role::Call)
        .takes("Logs")
        .gives(Gives::Json("LogsTaken"))
        .refuses("SpansRefused"),
    Path::get("/v1/agents", || get(status::agents), "Say how all agents stand").needs(Role::Read).gives(Gives::Json("Agents")),
    Path::get("/v1/agents/{name}", || get(status::agent), "Say how an agent stands")
        .needs(Role::Read)
        .gives(Gives::Json("Agent")),
    Path::get("/metrics", || get(route::metrics), "Tell the counters to Prometheus").needs(Role::Report),
    Path::get("/openapi.json", || get(openapi::tell), "Describe this server")
        .needs(Role::Report)
        .gives(Gives::Json("Description")),
    Path::get("/", || get(dashboard::door), "Lead to the dashboard").gives(Gives::Page),
    Path::page("/dashboard", || get(dashboard::overview), "Show the loop with the state of each stage"),
    Path::page("/dashboard/traces", || get(dashboard::traces), "Show the list of traces"),
    Path::page("/dashboard/traces/{id}", || get(dashboard::trace), "Show a trace turn by turn"),
    Path::post("/dashboard/traces/{id}", || post(dashboard::say), "Say what an answer should have been, or what you think of it")
        .needs(Role::Read)
        .takes("Say")
        .gives(Gives::Page),
    Path::page("/dashboard/groups", || get(dashboard::groups), "Show the list of groups"),
    Path::page("/dashboard/groups/{id}", || get(dashboard::group), "Show the traces of a group side by side"),
    Path::page("/dashboard/data", || get(dashboard::data), "Show what the data gates found"),
    Path::page("/dashboard/runs", || get(dashboard::runs), "Show the list of runs"),
    Path::page("/dashboard/runs/{id}", || get(dashboard::run), "Show a run with its curves and alarms"),
    Path::page("/dashboard/compare", || get(dashboard::compare), "Show two runs in the same pictures"),
    Path::page("/dashboard/evaluations", || get(dashboard::evaluations), "Show evaluation reports"),
    Path::page("/dashboard/agents", || get(dashboard::agents), "Show the list of agents"),
    Path::page("/dashboard/agents/{name}", || get(dashboard::agent), "Show an agent with its canary and what was decided"),
    Path::post("/dashboard/agents/{name}", || post(dashboard::decide), "Promote, take back, pause or resume a canary")
        .needs(Role::Admin)
        .takes("Wish")
        .gives(Gives::Page),
    Path::page("/dashboard/advice", || get(dashboard::advice), "Show how episodes fail, and which config would do better"),
    Path::post("/dashboard/advice", || post(dashboard::answer), "Take advice, or turn it down")
        .needs(Role::Admin)
        .takes("AdviceAnswer")
        .gives(Gives::Page),
    Path::page("/dashboard/configuration", || get(dashboard::configuration), "Show the settings in effect"),
    Path::get("/dashboard/sign-in", || get(dashboard::sign_in), "Ask for a key").gives(Gives::Page),
    Path::post("/dashboard/sign-in", || post(dashboard::signed_in), "Begin a session").takes("SignIn").gives(Gives::Page),
    Path::post("/dashboard/sign-out", || post(dashboard::sign_out), "End a session").takes("SignOut").gives(Gives::Page),
    Path::get("/dashboard/style.css", || get(dashboard::style), "Give the style of the pages"),
    Path::get("/dashboard/script.js", || get(dashboard::script), "Give the script of the pages"),
    Path::get("/dashboard/icon.svg", || get(dashboard::icon), "Give the icon of the pages"),
    Path::get("/healthz", || get(health::alive), "Say that the server lives"),
    Path::get("/readyz", || get(health::ready), "Say whether the store answers"),
];
