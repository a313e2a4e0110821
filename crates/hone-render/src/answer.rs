//! The tokens of an answer that somebody else gave: what the model would have had to sample for it.
//!
//! Only the template knows how an answer is written: its thoughts, its tool calls, the spaces around it and the token that ends
//! it. So the conversation is rendered with the answer, and the answer is what follows the prompt there. Where the rendering
//! does not begin with the prompt, because the prompt opens a thought that the template leaves out afterwards, or because the
//! template writes earlier messages otherwise once they are answered, the answer is looked for and put behind the prompt.
//! Knows nothing of sampled tokens, which are never made again.

use crate::error::RenderError;
use crate::known::Known;
use crate::mark::{Marker, Rendered};
use crate::renderer::{Ending, Renderer, Setting};
use crate::tools::{THINK_CLOSE, THINK_OPEN, split_thinking};
use hone_trace::Message;

impl Renderer {
    /// The tokens that the model would have had to sample for this answer to these messages, up to the first of `ends`.
    pub fn answer_ids(
        &self,
        before: &[Message],
        answer: &Message,
        setting: &Setting,
        ends: &[u32],
    ) -> Result<Vec<u32>, RenderError> {
        let mut known = Known::default();
        let prompt = self.render_known(&mut known, before, setting, Ending::Answer)?;
        self.answer_after(&mut known, &prompt.text, before, answer, setting, ends)
    }

    /// The same behind a prompt that has been rendered.
    pub(crate) fn answer_after(
        &self,
        known: &mut Known,
        prompt: &str,
        before: &[Message],
        answer: &Message,
        setting: &Setting,
        ends: &[u32],
    ) -> Result<Vec<u32>, RenderError> {
        // A template without words for calls leaves them out: an answer of nothing else would teach to say nothing.
        if !answer.tool_calls.is_empty() && !self.template(setting)?.takes_calls() {
            return Err(RenderError::Calls { at: before.len() });
        }
        let tokenizer = self.tokenizer();
        let mut all = before.to_vec();
        all.push(answer.clone());
        let whole = self.render_known(known, &all, setting, Ending::Message)?;
        let mut ids = match whole.text.starts_with(prompt) {
            true => tokenizer.encode_after(&whole, prompt.len())?,
            false => tokenizer.encode_rendered(&self.moved(prompt, &whole, answer)?)?,
        };
        match ids.iter().position(|id| ends.contains(id)) {
            Some(end) => ids.truncate(end + 1),
            // The template ends no answer; a model that learned so would never stop.
            None => ids.extend(tokenizer.eos_ids().first()),
        }
        Ok(ids)
    }

    /// The answer out of a rendering that does not begin with the prompt, in the form that it has behind the prompt.
    fn moved(&self, prompt: &str, whole: &Rendered, answer: &Message) -> Result<Rendered, RenderError> {
        let opened = prompt.trim_end().strip_suffix(THINK_OPEN);
        let content = answer.content.text();
        let (thought, said) = split_thinking(&content);
        let starts = [Some(prompt.trim_end()), opened, opened.map(str::trim_end)];
        let start = starts.into_iter().flatten().find(|start| whole.text.starts_with(start)).map(str::len);
        let found = || self.before_end(whole).rfind(said.trim()).filter(|_| !said.trim().is_empty());
        let space_before = |at: usize| whole.text[..at].trim_end().len();
        let Some(start) = start.or_else(|| found().map(space_before)) else {
            return match answer.tool_calls.is_empty() {
                true => self.own(&content),
                false => Err(RenderError::Episode("the template writes tool calls where they cannot be found again".into())),
            };
        };
        let rest = whole.after(start + n_shared_space(prompt, &whole.text[start..]));
        if opened.is_none() || rest.text.contains(THINK_CLOSE) {
            return Ok(rest);
        }
        let thought = answer.reasoning.clone().or(thought).unwrap_or_default();
        let line = if prompt.ends_with('\n') { "" } else { "\n" };
        let n_lines = rest.text.len() - rest.text.trim_start_matches('\n').len();
        Ok(self.own(&format!("{line}{}\n{THINK_CLOSE}\n\n", thought.trim_matches('\n')))?.then(&rest.after(n_lines)))
    }

    /// A rendering without the token that ends it: its name is no place to look for an answer.
    fn before_end<'a>(&self, whole: &'a Rendered) -> &'a str {
        let spans = self.tokenizer().specials().spans(whole);
        let end = spans.last().filter(|(range, _)| whole.text[range.end..].trim().is_empty());
        end.map_or(&whole.text, |(range, _)| &whole.text[..range.start])
    }

    /// A text of the model itself, whose tags are tokens and whose control tokens are not.
    fn own(&self, text: &str) -> Result<Rendered, RenderError> {
        let marker = Marker::unused_in([text]);
        let marker = marker.ok_or_else(|| RenderError::template("the answer uses up every private character"))?;
        Ok(marker.unmark(&marker.own(text, self.tokenizer().specials())))
    }
}

/// How many bytes of space at the start of an answer stand at the end of the prompt already.
fn n_shared_space(prompt: &str, rest: &str) -> usize {
    let space = &rest[..rest.len() - rest.trim_start().len()];
    let ends = space.char_indices().map(|(at, c)| at + c.len_utf8());
    ends.rev().find(|&end| prompt.ends_with(&space[..end])).unwrap_or(0)
}
