//! What somebody says of an answer: a page to write it on, and what follows. It is written down by the same code as feedback by the API.

use super::html::html;
use super::page::{For, Page, Place, Turned, elsewhere};
use super::session::{Reader, Viewer};
use super::sign_in::{FORM_BYTES_MAX, long_form_of};
use super::trace::{address, first_with, found};
use super::traces::tail;
use super::turn;
use crate::demonstrations::tools_of;
use crate::error::Refused;
use crate::feedback::{Said, WORDS_LEN_MAX, take};
use crate::server::Gateway;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use hone_trace::{DEMONSTRATION, ToolRequest, Trace};
use serde_json::{Map, Value, json};

/// Messages before the answer that are shown.
const N_MESSAGES: usize = 6;

/// A form sends up to three signs for each byte that was written.
const BYTES_MAX: usize = 3 * WORDS_LEN_MAX + FORM_BYTES_MAX;

/// What can be written, with what its button says.
const KINDS: [(&str, &str); 2] = [(DEMONSTRATION, "Learn this answer"), ("comment", "Keep it as a comment")];

/// The page to write on; what is sent under `id` counts once.
pub(super) fn asking(trace: &Trace, number: &str, id: &str, viewer: &Viewer) -> Result<Response, Turned> {
    let turn_idx = turn_idx(trace, Some(number)).seen_by(viewer)?;
    let Some(meant) = trace.turns().nth(turn_idx) else { return Err(no_turn()).seen_by(viewer) };
    let back = format!("{}?from={}#turn-{}", address(trace.id), first_with(turn_idx), turn_idx + 1);
    let mut room = N_MESSAGES;
    let mut main = html!("<p class=\"crumbs\"><a href=\"/dashboard/traces\">Traces</a> / ");
    html!(main, "<a href=\"{}\">Trace <code>{}</code></a></p>", back, tail(&trace.id.to_string()));
    html!(main, "<h1>What should turn {} have said?</h1>", turn_idx + 1);
    html!(main, "<article class=\"turn\">{}", turn::messages(&meant.input, &mut room));
    html!(main, "<div class=\"answer\">{}</div></article>", turn::message(&meant.answer));
    html!(main, "<form class=\"say\" method=\"post\" action=\"{}\">", address(trace.id));
    html!(main, "<input type=\"hidden\" name=\"token\" value=\"{}\">", viewer.form_token());
    html!(main, "<input type=\"hidden\" name=\"id\" value=\"{}\">", id);
    html!(main, "<input type=\"hidden\" name=\"turn\" value=\"{}\">", turn_idx + 1);
    html!(main, "<label>Your words<textarea name=\"words\" rows=\"8\">\n{}</textarea></label>", meant.answer.content.text());
    let tools = tools_of(trace, u32::try_from(turn_idx).ok());
    if !tools.is_empty() || !meant.answer.tool_calls.is_empty() {
        html!(
            main,
            "<label>Calls of tools, one a line: the name, then the arguments as JSON<textarea name=\"calls\" rows=\"4\" spellcheck=\"false\">\n{}</textarea></label>",
            lines(&meant.answer.tool_calls)
        );
        html!(main, "{}", turn::tools(tools));
    }
    html!(
        main,
        "<p class=\"quiet\">An answer is learned from instead of the one that was given: <code>hone train sft</code> imitates it, <code>hone train dpo</code> prefers it. A comment is for people.</p>"
    );
    html!(main, "<p class=\"wishes\">");
    for (idx, (kind, says)) in KINDS.iter().enumerate() {
        let class = if idx == 0 { "strong" } else { "" };
        html!(main, "<button class=\"{}\" name=\"as\" value=\"{}\">{}</button> ", class, *kind, *says);
    }
    html!(main, "<a class=\"button\" href=\"{}\">Leave it</a></p></form>", back);
    Ok(Page::new(Place::Traces, "What should it have said?".to_owned(), main).shown(Some(viewer)))
}

/// Calls as people write them.
fn lines(calls: &[ToolRequest]) -> String {
    let line = |call: &ToolRequest| format!("{} {}", call.name, call.arguments.replace(['\r', '\n'], " "));
    calls.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What was written, as feedback takes it: words alone, or a message that calls tools.
fn value(words: String, calls: &str) -> Result<Value, Refused> {
    let mut called = Vec::new();
    for (idx, line) in calls.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (name, arguments) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), "{}"));
        if serde_json::from_str::<Map<String, Value>>(arguments).is_err() {
            let example = r#"order_lookup {"order": "A-1"}"#;
            let message = format!("line {} of the calls must be a name and the arguments as a JSON object: {example}", idx + 1);
            return Err(Refused::param("calls", message));
        }
        called.push(json!({"type": "function", "function": {"name": name, "arguments": arguments.trim()}}));
    }
    Ok(match called.is_empty() {
        true => Value::String(words),
        false => json!({"role": "assistant", "content": (!words.is_empty()).then_some(words), "tool_calls": called}),
    })
}

/// The turn that is meant, of which people count the first as 1.
fn turn_idx(trace: &Trace, number: Option<&str>) -> Result<usize, Refused> {
    let idx = number.and_then(|text| text.parse::<usize>().ok()).and_then(|number| number.checked_sub(1));
    idx.filter(|&idx| idx < trace.turns().count()).ok_or_else(no_turn)
}

fn no_turn() -> Refused {
    Refused::param("turn", "the trace has no such turn")
}

pub(crate) async fn say(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Turned> {
    let sent = long_form_of(BYTES_MAX, &gateway, body).await.seen_by(&viewer)?;
    viewer.confirm(&headers, sent.get("token")).seen_by(&viewer)?;
    let trace = found(gateway.record().store(), &id, &viewer).await?;
    let turn_idx = turn_idx(&trace, sent.get("turn")).seen_by(&viewer)?;
    let kind = KINDS.iter().map(|(kind, _)| *kind).find(|kind| sent.get("as") == Some(kind));
    let name = kind.ok_or_else(|| Refused::param("as", "it must be a demonstration or a comment")).seen_by(&viewer)?;
    // Browsers end lines as on paper.
    let words = sent.get("words").unwrap_or_default().replace("\r\n", "\n");
    // A comment is words, whatever else stands in the form.
    let calls = sent.get("calls").filter(|_| name == DEMONSTRATION).unwrap_or_default();
    let (value, by) = (value(words, calls).seen_by(&viewer)?, &viewer.identity.name);
    let said = Said { name, value: &value, turn_idx: u32::try_from(turn_idx).ok(), id: sent.get("id"), by };
    take(&gateway, &trace, &said).await.seen_by(&viewer)?;
    Ok(elsewhere(&format!("{}?from={}#turn-{}", address(trace.id), first_with(turn_idx), turn_idx + 1)))
}
