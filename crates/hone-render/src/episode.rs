//! The tokens of one episode: what was rendered, what was sampled, and what follows.
//!
//! Sampled ids are kept as they were drawn and are never made again from text. When the conversation goes on, it is
//! rendered whole, with the model's own text as the content of its messages. If that begins with the text so far, the rest
//! is new, and only the rest is tokenized. If not, the template has rewritten history (Qwen3 drops old thoughts), and a new
//! segment begins, whose prompt is the whole conversation and whose earlier answers carry no loss. So it is where the memory is
//! limited and the oldest exchange is forgotten.
//! Knows nothing of sampling, rewards or traces.

use crate::error::RenderError;
use crate::known::Known;
use crate::mark::Rendered;
use crate::renderer::{Ending, Renderer, Setting};
use crate::tools::Answer;
use hone_engine::batch::Token;
use hone_trace::{Message, Role, Sampled};
use std::sync::Arc;

/// A stretch of an episode in which every turn extends the tokens of the one before. All lists are of one length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EpisodeSegment {
    /// The tokens.
    pub ids: Vec<u32>,
    /// Which of them were drawn: only these carry loss.
    pub drawn: Vec<bool>,
    /// The log-probability of each drawn token under the support it was drawn from; 0 elsewhere.
    pub logprobs: Vec<f32>,
}

/// How an episode went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// This many ids were appended to the segment.
    Appended(usize),
    /// The template rewrote history: a new segment of this many ids began.
    NewSegment(usize),
}

/// One conversation with one model.
#[derive(Debug, Clone)]
pub struct Episode {
    renderer: Arc<Renderer>,
    setting: Setting,
    messages: Vec<Message>,
    /// The first of the messages, ready for the template.
    known: Known,
    segments: Vec<EpisodeSegment>,
    /// The text of the current segment.
    text: String,
    is_answered: bool,
    last_turn: Sampled,
    n_would_differ: usize,
}

impl Episode {
    /// Renders the first messages; [`Episode::ids`] is then what the model continues.
    pub fn open(renderer: Arc<Renderer>, messages: Vec<Message>, setting: Setting) -> Result<Self, RenderError> {
        let mut known = Known::default();
        let rendered = render(&renderer, &mut known, &messages, &setting)?;
        let mut episode = Self {
            renderer,
            setting,
            messages,
            known,
            segments: Vec::new(),
            text: String::new(),
            is_answered: false,
            last_turn: Sampled::default(),
            n_would_differ: 0,
        };
        episode.begin_segment(rendered)?;
        Ok(episode)
    }

    /// The tokens of the current segment: before an answer, the prompt.
    pub fn ids(&self) -> &[u32] {
        self.segments.last().map_or(&[], |segment| &segment.ids)
    }

    /// All segments, the current one last.
    pub fn segments(&self) -> &[EpisodeSegment] {
        &self.segments
    }

    /// The conversation; the content of a sampled answer is its text as it was sampled.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The tokens of the last turn, for its record.
    pub fn last_turn(&self) -> &Sampled {
        &self.last_turn
    }

    /// How many answers would have had other ids if they had been made again from their text.
    pub fn n_would_differ(&self) -> usize {
        self.n_would_differ
    }

    /// Takes what was sampled, and returns what it says.
    pub fn answer(&mut self, tokens: &[Token]) -> Result<Answer, RenderError> {
        if self.is_answered {
            return Err(RenderError::Episode("it has an answer already; extend it by messages first".into()));
        }
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        self.n_would_differ += usize::from(self.renderer.would_differ(&ids));
        let message = Message::text(Role::Assistant, self.renderer.answer_text(&ids));
        self.take(message, tokens);
        let answer = self.renderer.read(&ids);
        let forced = (0..).zip(tokens).filter(|(_, token)| token.forced).map(|(at, _)| at).collect();
        self.last_turn.logprobs = tokens.iter().map(|token| token.logprob).collect();
        self.last_turn.forced = forced;
        self.last_turn.ids = ids;
        Ok(answer)
    }

    /// Takes an answer that somebody else gave, up to one of the tokens that end one: carrying loss, or not.
    pub fn imitate(&mut self, answer: Message, ends: &[u32], carries_loss: bool) -> Result<(), RenderError> {
        if self.is_answered {
            return Err(RenderError::Episode("it has an answer already; extend it by messages first".into()));
        }
        // What is known of an answer that is not taken is forgotten.
        let mut known = std::mem::take(&mut self.known);
        let ids = self.renderer.answer_after(&mut known, &self.text, &self.messages, &answer, &self.setting, ends)?;
        self.known = known;
        let tokens: Vec<Token> = ids.into_iter().map(|id| Token::new(id, 0.0, !carries_loss)).collect();
        self.take(answer, &tokens);
        Ok(())
    }

    fn take(&mut self, message: Message, tokens: &[Token]) {
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        self.text.push_str(&self.renderer.tokenizer().decode_continuation(&ids));
        self.messages.push(message);
        self.is_answered = true;
        if let Some(segment) = self.segments.last_mut() {
            for token in tokens {
                segment.push(token.id, (!token.forced).then_some(token.logprob));
            }
        }
    }

    /// Goes on with further messages, such as the results of tool calls.
    pub fn extend(&mut self, messages: Vec<Message>) -> Result<Extension, RenderError> {
        if !self.is_answered {
            return Err(RenderError::Episode("it waits for an answer, which must come before further messages".into()));
        }
        let mut all = self.messages.clone();
        all.extend(messages);
        let mut known = std::mem::take(&mut self.known);
        if let Some(n_exchanges) = self.setting.memory
            && forget(&mut all, n_exchanges)
        {
            known = Known::default();
        }
        let rendered = render(&self.renderer, &mut known, &all, &self.setting)?;
        (self.messages, self.known) = (all, known);
        if !rendered.text.starts_with(&self.text) {
            return self.begin_segment(rendered).map(Extension::NewSegment);
        }
        let ids = self.renderer.tokenizer().encode_after(&rendered, self.text.len())?;
        self.text = rendered.text;
        Ok(Extension::Appended(self.append(ids)))
    }

    fn begin_segment(&mut self, rendered: Rendered) -> Result<usize, RenderError> {
        let ids = self.renderer.tokenizer().encode_rendered(&rendered)?;
        self.segments.push(EpisodeSegment::default());
        self.text = rendered.text;
        Ok(self.append(ids))
    }

    fn append(&mut self, ids: Vec<u32>) -> usize {
        if let Some(segment) = self.segments.last_mut() {
            ids.iter().for_each(|&id| segment.push(id, None));
        }
        let n_ids = ids.len();
        self.last_turn = Sampled { input_ids: ids, ..Sampled::default() };
        self.is_answered = false;
        n_ids
    }
}

/// What the model continues, unless it is longer than the episode may be.
fn render(renderer: &Renderer, known: &mut Known, messages: &[Message], setting: &Setting) -> Result<Rendered, RenderError> {
    let rendered = renderer.render_known(known, messages, setting, Ending::Answer)?;
    renderer.tokenizer().check_len(&rendered.text, setting.n_ids_max.unwrap_or(usize::MAX))?;
    Ok(rendered)
}

/// Leaves the standing instructions, so many exchanges that ended with an answer, and what came after them. Says whether any went.
fn forget(messages: &mut Vec<Message>, n_exchanges: usize) -> bool {
    let n_standing = messages.iter().take_while(|message| matches!(message.role, Role::System | Role::Developer)).count();
    let answers = (n_standing..messages.len()).rev().filter(|&i| messages[i].role == Role::Assistant);
    let last_forgotten = answers.skip(n_exchanges).max();
    if let Some(last_forgotten) = last_forgotten {
        messages.drain(n_standing..=last_forgotten);
    }
    last_forgotten.is_some()
}

impl EpisodeSegment {
    fn push(&mut self, id: u32, drawn: Option<f32>) {
        self.ids.push(id);
        self.drawn.push(drawn.is_some());
        self.logprobs.push(drawn.unwrap_or(0.0));
    }
}
