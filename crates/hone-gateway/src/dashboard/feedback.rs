//! What people said of a trace in words: comments and demonstrations. Their numbers are rewards, and stand among those.

use super::figure::to_second;
use super::html::{Html, html};
use super::turn;
use crate::{demonstrations, events, feedback};
use hone_trace::store::{Event, Store, StoreError};
use hone_trace::{Message, Time, Trace};

/// Words that are read of one trace.
const N_WORDS_MAX: u32 = 200;

/// What somebody said.
pub(super) struct Words {
    /// A comment or a demonstration.
    kind: String,
    /// The turn that is meant; `None` for the whole trace.
    pub(super) turn_idx: Option<u64>,
    /// As a message: a demonstration may call tools.
    answer: Message,
    by: Option<String>,
    at: Time,
}

impl Words {
    fn of(event: Event) -> Self {
        let (answer, by) = (demonstrations::shown(&event.body), event.body["by"].as_str().map(str::to_owned));
        Self { turn_idx: event.body["turn_idx"].as_u64(), answer, by, kind: event.kind, at: event.at }
    }

    pub(super) fn shown(&self) -> Html {
        let mut page = html!("<div class=\"feedback\"><p class=\"who\">{}", self.kind);
        if let Some(by) = &self.by {
            html!(page, " by {}", by);
        }
        html!(page, ", {}</p><blockquote>{}</blockquote></div>", to_second(self.at), turn::said(&self.answer));
        page
    }
}

/// What was said of a trace, in the order in which it came.
pub(super) async fn of_trace(store: &dyn Store, trace: &Trace) -> Result<Vec<Words>, StoreError> {
    let (stream, mut after, mut events) = (feedback::stream(trace.id), 0, Vec::new());
    // Past what is damaged a read may have less than it was asked for.
    while events.len() < N_WORDS_MAX as usize {
        let read = events::read(store, &stream, &mut after, N_WORDS_MAX, drop).await?;
        let Some((last, _)) = read.last() else { break };
        after = *last;
        events.extend(read);
    }
    events.truncate(N_WORDS_MAX as usize);
    let ours = events.into_iter().map(|(_, event)| event).filter(|event| event.tenant == trace.tenant);
    Ok(ours.map(Words::of).collect())
}

/// What was said of the whole trace; what was said of a turn stands there.
pub(super) fn of_whole(said: &[Words]) -> Html {
    let (mut page, mut whole) = (Html::default(), said.iter().filter(|words| words.turn_idx.is_none()).peekable());
    if whole.peek().is_none() && said.len() < N_WORDS_MAX as usize {
        return page;
    }
    html!(page, "<section aria-labelledby=\"feedback\"><h2 id=\"feedback\">What people said of it</h2>");
    whole.for_each(|words| html!(page, "{}", words.shown()));
    if said.len() >= N_WORDS_MAX as usize {
        html!(page, "<p class=\"quiet\">These are the first {}; <code>hone trace show</code> prints more.</p>", N_WORDS_MAX);
    }
    html!(page, "</section>");
    page
}
