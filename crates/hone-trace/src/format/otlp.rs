//! OTLP/JSON: an `ExportTraceServiceRequest` per line (the OTLP file exporter), with GenAI or OpenInference attributes, or those of the
//! SDKs of Langfuse and Vercel. Lines may also be `ExportLogsServiceRequest`s: a record that tells what was said in a call becomes an
//! event of the call's span, as in [`live`].
//!
//! The spans of one conversation become one trace. A conversation is named by `gen_ai.conversation.id`, else by
//! `session.id` or `langfuse.session.id`; a span that has none belongs to the conversation of its `traceId`. Because spans of a
//! conversation may lie anywhere in a file, a first pass notes where each one ends ([`Plan`], a few dozen bytes each) and a
//! second yields it there ([`Assembler`]).
//!
//! | span | word |
//! |---|---|
//! | a model call (`chat` …, kind `LLM`) | a turn with one llm call; its input is what the conversation did not yet hold |
//! | its input does not extend the conversation | a new segment begins |
//! | a tool call (`execute_tool`, kind `TOOL`) | a tool call of the turn that asked for it, else of the turn before it |
//! | status `ERROR`, `error.type`, exception event | an error event; `recovered` when a later model call went well |
//! | event `gen_ai.evaluation.result` | a reward; of a turn when the span is a model call, else of the trace |
//! | any other span | `metadata["hone.spans"]`; an error that no call told of stands on the turn before it |
//! | `gen_ai.agent.name`, `agent.name` | `metadata["agent_name"]` |
//! | `episode_name`, as an attribute or inside `metadata` | `metadata["episode_name"]` |
//! | resource and scope | `metadata["hone.places"]`, referred to by number |
//!
//! An attribute that our words give back exactly is dropped, and its key noted in `hone.span.from`; every other
//! attribute and field of a span stays in the `hone.span` of its call. So a span is written as it was read, always.
//!
//! Not kept on import: spaces and key order inside an attribute that holds JSON as text, keys beside `resourceSpans`,
//! resources and scopes without spans, `"attributes": null` and the like in places that hold spans, and all spans of a
//! conversation in which neither a model nor a tool took part (they are counted as skipped).

mod assemble;
mod call;
mod events;
mod flat;
mod genai;
pub mod live;
mod places;
pub mod protobuf;
mod sdk;
mod secrets;
mod span;
mod stream;
mod wire;
mod write;

pub use stream::{Assembler, Plan};
pub use write::request;

pub(super) use write::{has_spans, write};

use super::origin::Registrar;
use super::{FormatError, Imported};

/// The key of our note on a call: the place, the dropped attributes and the rest of the span.
const SPAN: &str = "hone.span";
/// The key of our note on a trace: spans that have no word.
const SPANS: &str = "hone.spans";
/// The key of our note on a trace: the distinct pairs of resource and scope.
const PLACES: &str = "hone.places";
/// The key of our note on a turn that no model call made.
const NO_CALL: &str = "hone.no_call";

/// Reads one line as if it were the whole file.
pub(super) fn read(line: &str, registrar: &mut Registrar) -> Result<Imported, FormatError> {
    let mut plan = Plan::default();
    plan.note(0, line)?;
    let mut stream = stream::Stream::new(plan);
    stream.line(0, line, registrar)
}
