//! A program that asks the agent in place of hone's own client: a team's SDK, as the team uses it.
//!
//! It is started once, finds the arbiter in `OPENAI_BASE_URL`, and reads a line for every question:
//! `{"id", "headers", "body"}`, the body a request of chat completions. It answers each with a line, in any order: `{"id", "message"}`,
//! or `{"id", "error": {"code", "message"}}`. Everything between the two is its own: connections, retries, formats.

use super::arbiter::Arbiter;
use crate::failure::Failure;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use tokio::sync::oneshot;

/// The code of an answer that says that the conversation has grown too long.
const TOO_LONG: &str = "context_length_exceeded";

/// A program that asks the agent.
pub(super) struct Client {
    questions: mpsc::Sender<String>,
    asked: Arc<Mutex<Asked>>,
    child: Child,
}

/// Questions that wait for an answer.
#[derive(Default)]
struct Asked {
    n: u64,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    /// Why there will be no more answers.
    ended: Option<String>,
}

/// A line of the program.
#[derive(Debug, Deserialize)]
struct Answer {
    id: u64,
    #[serde(default)]
    message: Value,
    error: Option<AnswerError>,
}

#[derive(Debug, Deserialize)]
struct AnswerError {
    code: Option<String>,
    message: String,
}

impl Client {
    /// Starts the program, by the shell.
    pub(super) fn start(command: &str, arbiter: &Arbiter<'_>) -> Result<Arc<Self>, Failure> {
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .env("OPENAI_BASE_URL", format!("{}/v1", arbiter.url))
            .env("OPENAI_API_KEY", arbiter.key().unwrap_or("none"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::world(error).context(command))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| Failure::bug("a program that was started has pipes"))?;
        let asked = Arc::new(Mutex::new(Asked::default()));
        let (questions, to_ask) = mpsc::channel();
        thread::spawn(move || speak(stdin, &to_ask));
        let heard = Arc::clone(&asked);
        thread::spawn(move || listen(stdout, &heard));
        Ok(Arc::new(Self { questions, asked, child }))
    }

    /// Asks one question. `None` when the conversation has grown too long.
    pub(super) async fn ask(&self, headers: &[(&str, &str)], body: &Value) -> Result<Option<Value>, Failure> {
        let (tell, told) = oneshot::channel();
        let id = {
            let mut asked = lock(&self.asked);
            if let Some(why) = &asked.ended {
                return Err(gone(why));
            }
            asked.n += 1;
            let id = asked.n;
            asked.waiting.insert(id, tell);
            id
        };
        let headers: Map<String, Value> = headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let line = format!("{}\n", json!({"id": id, "headers": headers, "body": body}));
        // Whoever does not read any more has closed its output as well, which says why.
        let _ = self.questions.send(line);
        let answer = told.await.map_err(|_| gone(lock(&self.asked).ended.as_deref().unwrap_or("it has stopped")))?;
        match answer.error {
            None => Ok(Some(answer.message)),
            Some(AnswerError { code: Some(code), .. }) if code == TOO_LONG => Ok(None),
            Some(error) => Err(Failure::world(anyhow::anyhow!("the client answered: {}", error.message))),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes questions on, until there are no more or nobody reads them.
fn speak(mut stdin: ChildStdin, questions: &mpsc::Receiver<String>) {
    while let Ok(line) = questions.recv()
        && stdin.write_all(line.as_bytes()).is_ok()
    {}
}

/// Hears what the program says, until it stops.
fn listen(stdout: ChildStdout, asked: &Mutex<Asked>) {
    let mut why = "it has closed its output".to_owned();
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line.map_err(|error| why = error.to_string()) else { break };
        match serde_json::from_str::<Answer>(&line) {
            Ok(answer) => {
                let waiting = lock(asked).waiting.remove(&answer.id);
                if let Some(tell) = waiting {
                    // Who has stopped waiting misses nothing.
                    let _ = tell.send(answer);
                }
            }
            Err(error) => {
                let line: String = line.chars().take(200).collect();
                why = format!("it said `{line}`, which is no answer: {error}");
                break;
            }
        }
    }
    let mut asked = lock(asked);
    asked.ended = Some(why);
    asked.waiting.clear();
}

fn lock(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone(why: &str) -> Failure {
    Failure::world(anyhow::anyhow!("the program of --client gives no answers: {why}")).hint(
        "it reads {\"id\", \"headers\", \"body\"} and writes {\"id\", \"message\"}, a line each; see bench/clients/customers.py",
    )
}
