//! A mail, and the threads that mails come in: one opens, the others answer it and quote what they answer.

use super::calendar::Moment;

/// A mail of the mailbox.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mail {
    pub(super) sent: Moment,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) subject: String,
    pub(super) body: String,
    pub(super) attachments: Vec<String>,
}

/// A conversation by mail under one subject.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Thread {
    subject: String,
    pub(super) mails: Vec<Mail>,
}

/// Lines that a reply quotes of the mail before it.
const QUOTED_LINES_MAX: usize = 8;

impl Thread {
    pub(super) fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), mails: Vec::new() }
    }

    /// Adds a mail. All but the first answer the one before and quote it.
    pub(super) fn say(&mut self, sent: Moment, from: String, to: String, text: &str) -> &mut Self {
        let (subject, body) = match self.mails.last() {
            None => (self.subject.clone(), text.to_owned()),
            Some(before) => (format!("Re: {}", self.subject), format!("{text}\n\n{}", quoted(before))),
        };
        self.mails.push(Mail { sent, from, to, subject, body, attachments: Vec::new() });
        self
    }

    /// Attaches a file to the last mail.
    pub(super) fn attach(&mut self, file: impl Into<String>) -> &mut Self {
        if let Some(mail) = self.mails.last_mut() {
            mail.attachments.push(file.into());
        }
        self
    }
}

fn quoted(mail: &Mail) -> String {
    let own = mail.body.lines().take_while(|line| !line.starts_with("On ") || !line.ends_with(" wrote:"));
    let lines = own.filter(|line| !line.is_empty()).take(QUOTED_LINES_MAX).map(|line| format!("> {line}\n"));
    format!("On {}, {} wrote:\n{}", mail.sent, mail.from, lines.collect::<String>())
}
