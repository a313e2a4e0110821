//! What somebody says of an answer: a page to write it on, and what follows. It is written down by the same code as feedback by the API.

use super::html::html;
use super::page::{For, Page, Place, Turned, elsewhere};
use super::session::{Reader, Viewer};
use super::sign_in::{FORM_BYTES_MAX, long_form_of};
use super::trace::{address, first_with, found};
use super::traces::tail;
use super::turn;
use crate::error::Refused;
use crate::feedback::{Said, WORDS_LEN_MAX, take};
use crate::server::Gateway;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use hone_trace::{DEMONSTRATION, Trace};
use serde_json::Value;

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
    // What calls a tool is not mended by other words: these take the place of the call, too.
    let calls = !meant.answer.tool_calls.is_empty();
    let given = if calls { String::new() } else { meant.answer.content.text() };
    html!(main, "<label>Your words<textarea name=\"words\" rows=\"10\" required>\n{}</textarea></label>", given);
    html!(
        main,
        "<p class=\"quiet\">An answer is learned from instead of the one that was given: <code>hone train sft</code> imitates it, <code>hone train dpo</code> prefers it. A comment is for people.</p>"
    );
    if calls {
        html!(
            main,
            "<p><b>This answer calls a tool.</b> What you write takes the place of all of it: the call is not learned.</p>"
        );
    }
    html!(main, "<p class=\"wishes\">");
    for (idx, (kind, says)) in KINDS.iter().enumerate() {
        let class = if idx == 0 { "strong" } else { "" };
        html!(main, "<button class=\"{}\" name=\"as\" value=\"{}\">{}</button> ", class, *kind, *says);
    }
    html!(main, "<a class=\"button\" href=\"{}\">Leave it</a></p></form>", back);
    Ok(Page::new(Place::Traces, "What should it have said?".to_owned(), main).shown(Some(viewer)))
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
    let words = sent.get("words").map(|words| words.replace("\r\n", "\n"));
    let words = words.ok_or_else(|| Refused::param("words", "nothing was written")).seen_by(&viewer)?;
    let (value, by) = (Value::String(words), &viewer.identity.name);
    let said = Said { name, value: &value, turn_idx: u32::try_from(turn_idx).ok(), id: sent.get("id"), by };
    take(&gateway, &trace, &said).await.seen_by(&viewer)?;
    Ok(elsewhere(&format!("{}?from={}#turn-{}", address(trace.id), first_with(turn_idx), turn_idx + 1)))
}
