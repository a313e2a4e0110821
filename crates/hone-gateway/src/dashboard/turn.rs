//! One turn of a trace: what caused it, what was answered, what it set off, and its tokens.

use super::chart;
use super::feedback::Words;
use super::figure::{count, dollars, duration, figure};
use super::html::{Html, html};
use hone_trace::{Content, Message, Reward, Role, Sampled, ToolRequest, ToolSpec, Turn};
use serde_json::Value;

/// Signs of one text that are shown.
const TEXT_LEN_MAX: usize = 20_000;

/// A JSON value that is longer has lines of its own for its parts.
const LINE_LEN_MAX: usize = 90;

/// A turn by its number, with what it earned and what people said of it, and with no more messages before it than there is room for.
/// `address` is where the trace is shown.
pub(super) fn shown(idx: usize, turn: &Turn, rewards: &[Reward], said: &[Words], address: &str, room: &mut usize) -> Html {
    let mut page = html!("<article class=\"turn\" id=\"turn-{}\" aria-label=\"Turn {}\">", idx + 1, idx + 1);
    html!(page, "{}", messages(&turn.input, room));
    html!(page, "<div class=\"answer\"><p class=\"where\"><a href=\"#turn-{}\">Turn {}</a>{}</p>", idx + 1, idx + 1, price(turn));
    html!(page, "{}", message(&turn.answer));
    for call in &turn.tool_calls {
        let state = match call.success {
            Some(true) => html!("<span class=\"tag good\">done</span>"),
            Some(false) => html!("<span class=\"tag bad\">failed</span>"),
            None => html!(""),
        };
        let took = call.duration_ms.map(duration).unwrap_or_default();
        html!(page, "<div class=\"ran\"><span class=\"who\">ran</span> <code>{}</code> {} {}", call.name, state, took);
        let is_said = |asked: &ToolRequest| {
            asked.name == call.name && serde_json::from_str::<Value>(&asked.arguments).is_ok_and(|read| read == call.arguments)
        };
        if !call.arguments.is_null() && !turn.answer.tool_calls.iter().any(is_said) {
            html!(page, "{}", value(&call.arguments));
        }
        html!(page, "</div>");
    }
    for error in &turn.errors {
        let state = if error.recovered { "went on" } else { "ended here" };
        html!(
            page,
            "<div class=\"error\"><span class=\"tag bad\">{}</span> <span class=\"quiet\">{}</span>{}</div>",
            error.kind,
            state,
            text(&error.message)
        );
    }
    for decision in &turn.decisions {
        html!(
            page,
            "<div class=\"chose\"><span class=\"who\">chose</span>{}<div class=\"quiet\">{}</div></div>",
            text(&decision.chosen),
            text(&decision.rationale)
        );
    }
    let earned: Vec<&Reward> = rewards.iter().filter(|reward| reward.turn_idx == u32::try_from(idx).ok()).collect();
    if !turn.signals.is_empty() || !earned.is_empty() {
        html!(page, "<p class=\"signals\">");
        for reward in earned {
            html!(page, "<span class=\"tag accent\">reward {}</span> ", figure(reward.total));
        }
        for (name, value) in &turn.signals {
            html!(page, "<span class=\"tag\">{} {}</span> ", name, figure(*value));
        }
        html!(page, "</p>");
    }
    if let Some(sampled) = &turn.sampled {
        html!(page, "{}", tokens(sampled));
    }
    let of_it = said.iter().filter(|words| words.turn_idx == Some(idx as u64));
    of_it.for_each(|words| html!(page, "{}", words.shown()));
    html!(page, "<p class=\"say\"><a href=\"{}?say={}\">Say what it should have been</a></p>", address, idx + 1);
    html!(page, "</div></article>");
    page
}

/// The last of these messages that there is room for, and how many are left out.
pub(super) fn messages(all: &[Message], room: &mut usize) -> Html {
    let mut page = Html::default();
    let n_left_out = all.len().saturating_sub(*room);
    if n_left_out > 0 {
        let counted = counted(n_left_out, "earlier message");
        html!(page, "<p class=\"quiet\">{} left out here; <code>hone trace show</code> prints all.</p>", counted);
    }
    all[n_left_out..].iter().for_each(|one| html!(page, "{}", message(one)));
    *room -= all.len() - n_left_out;
    page
}

/// One message.
pub(super) fn message(message: &Message) -> Html {
    let (class, who) = match message.role {
        Role::System => ("system", "system"),
        Role::Developer => ("system", "developer"),
        Role::User => ("user", "user"),
        Role::Assistant => ("assistant", "assistant"),
        Role::Tool => ("tool", "tool"),
    };
    let mut page = html!("<div class=\"said {}\"><p class=\"who\">{}", class, who);
    if let Some(name) = &message.name {
        html!(page, " {}", name);
    }
    html!(page, "</p>{}</div>", said(message));
    page
}

/// What a message says, thinks and calls.
pub(super) fn said(message: &Message) -> Html {
    let mut page = Html::default();
    if let Some(thought) = message.reasoning.as_deref().filter(|thought| !thought.is_empty()) {
        html!(page, "<details class=\"thought\"><summary>Thinking</summary>{}</details>", text(thought));
    }
    match &message.content {
        Content::None => {}
        Content::Text(said) if message.role == Role::System && said.len() > 400 => {
            html!(page, "<details><summary>{}…</summary>{}</details>", said.chars().take(120).collect::<String>(), text(said));
        }
        Content::Text(said) => match serde_json::from_str(said) {
            Ok(found) if message.role == Role::Tool => html!(page, "{}", value(&found)),
            _ => html!(page, "{}", text(said)),
        },
        Content::Parts(parts) => {
            for part in parts {
                match part.get("text").and_then(Value::as_str) {
                    Some(said) => html!(page, "{}", text(said)),
                    None => html!(page, "{}", value(part)),
                }
            }
        }
    }
    message.tool_calls.iter().for_each(|call| html!(page, "{}", asked(call)));
    page
}

/// A tool call as the policy wrote it.
fn asked(call: &ToolRequest) -> Html {
    let arguments = match serde_json::from_str::<Value>(&call.arguments) {
        Ok(read) => value(&read),
        Err(_) => text(&call.arguments),
    };
    html!("<div class=\"call\"><span class=\"who\">calls</span> <code>{}</code>{}</div>", call.name, arguments)
}

/// The tools on offer.
pub(super) fn tools(tools: &[ToolSpec]) -> Html {
    let mut page =
        html!("<details class=\"tools\"><summary>{} on offer</summary><dl class=\"notes\">", counted(tools.len(), "tool"));
    for tool in tools {
        html!(page, "<div><dt><code>{}</code></dt><dd>{}</dd></div>", tool.name, tool.description.as_deref().unwrap_or_default());
    }
    html!(page, "</dl></details>");
    page
}

pub(super) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// What the calls behind an answer took.
fn price(turn: &Turn) -> Html {
    let mut page = Html::default();
    for call in &turn.llm_calls {
        let took = call.duration_ms.map(duration).unwrap_or_default();
        html!(page, " <span class=\"quiet\">{} · {} in", call.model, count(call.tokens_in));
        if call.tokens_cached > 0 {
            html!(page, " ({} cached)", count(call.tokens_cached));
        }
        html!(page, " · {} out · {}", count(call.tokens_out), took);
        if let Some(usd) = call.cost_usd {
            html!(page, " · {}", dollars(usd));
        }
        html!(page, "</span>");
    }
    page
}

/// Sampled tokens: how many, how sure each was, and how many were forced.
fn tokens(sampled: &Sampled) -> Html {
    let mut page = html!("<div class=\"tokens\"><span class=\"quiet\">{} sampled", counted(sampled.ids.len(), "token"));
    if !sampled.forced.is_empty() {
        html!(page, ", {} forced", count(sampled.forced.len() as u64));
    }
    if !sampled.logprobs.is_empty() {
        let values: Vec<f64> = sampled.logprobs.iter().map(|&logprob| f64::from(logprob)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let told = format!("log-probability token by token, mean {}", figure(mean));
        html!(page, ", mean log-prob {}</span> {}", figure(mean), chart::sparkline(&values, &told));
    } else {
        html!(page, "</span>");
    }
    html!(page, "</div>");
    page
}

/// A text with its line breaks; of a very long one the beginning.
pub(super) fn text(text: &str) -> Html {
    let (shown, note) = beginning(text);
    html!("<div class=\"text\">{}</div>{}", shown, note)
}

/// What is shown of a text, and a note of what is left out.
fn beginning(text: &str) -> (&str, Html) {
    let Some((end, _)) = text.char_indices().nth(TEXT_LEN_MAX) else { return (text, Html::default()) };
    let n_more = count(text[end..].chars().count() as u64);
    let note = html!("<p class=\"quiet\">… and {} signs more; <code>hone trace show</code> prints them all.</p>", n_more);
    (&text[..end], note)
}

/// A JSON value: plain where it is plain, and with its lines where it has parts.
pub(super) fn value(value: &Value) -> Html {
    match value {
        Value::String(plain) => text(plain),
        Value::Array(_) | Value::Object(_) => {
            let short = value.to_string();
            let written = match short.len() <= LINE_LEN_MAX {
                true => short,
                false => serde_json::to_string_pretty(value).unwrap_or_default(),
            };
            let (shown, note) = beginning(&written);
            html!("<pre>{}</pre>{}", shown, note)
        }
        plain => html!("<code>{}</code>", plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_cannot_become_markup() {
        let hostile = "</div><script>alert(1)</script><img src=x onerror=\"y\">";
        let mut said = Message::text(Role::User, hostile);
        said.name = Some(hostile.into());
        said.reasoning = Some(hostile.into());
        said.tool_calls =
            vec![ToolRequest { id: String::new(), name: hostile.into(), arguments: hostile.into(), extra: Default::default() }];
        let mut turn = Turn::new(vec![said], Message::text(Role::Assistant, hostile));
        turn.signals.insert(hostile.into(), 1.0);
        let shown = shown(0, &turn, &[], &[], "", &mut 10);
        assert!(!shown.as_str().contains("<script") && !shown.as_str().contains("<img"), "{}", shown.as_str());
        assert!(shown.as_str().contains("&lt;script&gt;"));
    }

    #[test]
    fn very_long_texts_are_cut() {
        let shown = text(&"é".repeat(TEXT_LEN_MAX + 7));
        assert!(shown.as_str().contains("and 7 signs more"));
        let shown = value(&serde_json::json!(["é".repeat(TEXT_LEN_MAX)]));
        assert!(
            shown.as_str().contains("and 8 signs more"),
            "arguments too: two brackets, two quotes, two ends of lines and an indent"
        );
    }
}
