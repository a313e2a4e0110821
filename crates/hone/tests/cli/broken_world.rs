//! A world that breaks in some episodes: what is said of them, and that nothing is learned from them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use super::{Desk, provider};
use serde_json::{Value, json};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Starts a world of one question an episode, which breaks where `breaks` says so of the number of the episode. An answer is right
/// by its length, so that those of a model that knows nothing differ. Returns its address.
fn start(breaks: impl Fn(usize) -> bool + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (n_episodes, breaks) = (Arc::new(AtomicUsize::new(0)), Arc::new(breaks));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (n_episodes, breaks) = (Arc::clone(&n_episodes), Arc::clone(&breaks));
            std::thread::spawn(move || {
                let (path, asked) = request(&stream);
                let (status, body) = answer(&path, &asked, &n_episodes, &*breaks);
                let body = body.to_string();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                let _ = stream.write_all((head + &body).as_bytes());
            });
        }
    });
    format!("http://{address}")
}

fn request(stream: &TcpStream) -> (String, Value) {
    let (head, body) = provider::received(stream);
    let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
    (path, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

fn answer(path: &str, asked: &Value, n_episodes: &AtomicUsize, breaks: &dyn Fn(usize) -> bool) -> (&'static str, Value) {
    let task = |idx: u64| {
        let id = format!("{}-{idx}", asked["split"].as_str().unwrap_or_default());
        json!({"id": id, "category": "count", "family": id, "input": {"number": idx}, "truth": {"number": idx}})
    };
    let body = match path {
        "/world" => json!({"name": "count", "protocol": 1}),
        "/scenarios" => (0..asked["n"].as_u64().unwrap_or(0)).map(task).collect(),
        "/reset" => {
            let episode = n_episodes.fetch_add(1, Ordering::SeqCst).to_string();
            json!({"episode": episode, "messages": [{"role": "user", "content": "1 2 3"}], "best": {"correct": 1.0}})
        }
        "/step" if breaks(asked["episode"].as_str().unwrap().parse().unwrap()) => {
            return ("400 Bad Request", json!("the shelf fell down"));
        }
        "/step" => {
            let is_even = asked["action"]["content"].as_str().unwrap_or_default().len().is_multiple_of(2);
            let done = if is_even { "success" } else { "failure" };
            json!({"messages": [], "signals": {"correct": f64::from(u8::from(is_even))}, "done": done})
        }
        _ => return ("404 Not Found", json!("no such path")),
    };
    ("200 OK", body)
}

/// A desk with the tiny model, on which an answer earns what the world says.
fn desk() -> Desk {
    let desk = Desk::of_practice();
    let recipe = "[reward.count]\ncomponents = [{ name = 'right', kind = 'signal', signal = 'correct', range = [0, 1], weight = 1.0, role = 'primary' }]\n";
    std::fs::write(desk.path("hone.toml"), recipe).unwrap();
    desk
}

fn train(world: &str, more: &str) -> String {
    let run = "--model tiny --run r --threads 1 --answer-tokens 4 --scenarios 2 --samples 4 --validation 4 --lr 0.01";
    format!("train grpo --env {world} {run} --validate-every 9 {more}")
}

/// The rewards of all traces of a split, `null` where there is none, and whether the world broke in each.
fn rewards(desk: &Desk) -> Vec<(Value, bool)> {
    let listed = desk.hone("trace list --limit 1000 --json").json();
    let of_world = listed.iter().filter(|head| head["category"] == "count");
    let shown = of_world.map(|head| desk.hone(&format!("trace show {} --json", head["id"].as_str().unwrap())).json().remove(0));
    shown.map(|trace| (trace["rewards"][0]["total"].clone(), trace.to_string().contains("env_error"))).collect()
}

#[test]
fn training_does_not_take_the_failures_of_a_world_for_those_of_the_policy() {
    let desk = desk();
    // Validation comes first, 4 episodes of it; every second episode after them breaks.
    let world = start(|episode| episode == 1 || episode >= 4 && episode % 2 == 0);
    let ended = desk.hone(&train(&world, "--steps 2")).expect(0, "steps: ", "  broken 4");
    for said in ["1 broke and count for nothing: ", "4 episodes of step 1 broke and taught nothing, the first so: "] {
        assert!(ended.err.contains(said) && ended.err.contains("the shelf fell down"), "no `{said}` in {}", ended.err);
    }
    assert_eq!(ended.err.matches("broke and taught nothing").count(), 1, "the reason is said once: {}", ended.err);
    let figures = desk.standing("r")["figures"].clone();
    assert_eq!((&figures["0 validation_broken"], &figures["1 n_broken"]), (&json!(1.0), &json!(4.0)), "{figures}");
    let rewards = rewards(&desk);
    let n_broken = rewards.iter().filter(|(_, is_broken)| *is_broken).count();
    assert!(n_broken >= 9 && rewards.iter().all(|(reward, is_broken)| reward.is_null() == *is_broken), "{rewards:?}");
}

#[test]
fn a_step_of_which_every_episode_broke_ends_the_run_with_the_way_on() {
    let desk = desk();
    let world = start(|episode| (4..12).contains(&episode));
    let says = "no episode of count could be played: ";
    let ended = desk.hone(&train(&world, "--steps 1")).expect(2, "", says);
    assert!(ended.err.contains("the run goes on with `hone train grpo --run r --resume --threads 1`"), "{}", ended.err);
    desk.hone("train grpo --run r --threads 1 --resume").expect(0, "steps: ", "step 1/1  reward ");
}

#[test]
fn a_validation_of_which_most_broke_measures_nothing() {
    let desk = desk();
    let world = start(|episode| episode < 3);
    let says = format!("3 of 4 tasks of {world} broke, too many to measure by: ");
    desk.hone(&train(&world, "--steps 1")).expect(2, "", &says).expect(2, "", "--resume");
}

#[test]
fn a_rollout_says_that_its_world_broke_and_keeps_no_reward_of_that() {
    let desk = desk();
    let play = |world: &str, more: &str| format!("rollout --env {world} --policy empty -n 2 --samples 2 {more}");
    let half = start(|episode| episode % 2 == 0);
    let ended = desk.hone(&play(&half, "--json --concurrency 1")).expect(0, "\"broken\":2", "the world broke in 2 episodes");
    assert!(ended.err.contains("the shelf fell down"), "{}", ended.err);
    assert_eq!(ended.json()[0]["mean_reward"], 1.0, "what broke is no failure");
    let kept = rewards(&desk);
    assert_eq!(kept.iter().filter(|(reward, is_broken)| *is_broken && reward.is_null()).count(), 2, "{kept:?}");
    // Nothing could be played: there is no mean, and that is no success.
    let whole = play(&start(|_| true), "--run gone");
    desk.hone(&whole).expect(1, "4 traces in 2 groups, 0 solved, none scored", "the world broke in 4 episodes");
}

#[test]
fn an_evaluation_counts_what_broke_and_measures_the_rest() {
    let desk = desk();
    let play =
        |world: &str, more: &str| format!("eval baseline --env {world} --policy empty -n 2 --repeats 2 --concurrency 1 {more}");
    let ended = desk.hone(&play(&start(|episode| episode % 2 == 0), "--json --record"));
    let ended = ended.expect(0, "\"n_broken\":2", "2 of 4 episodes broke and count for nothing, the first so: ");
    assert!(ended.err.contains("the shelf fell down"), "{}", ended.err);
    let line = &ended.json()[0];
    assert_eq!((&line["n_episodes"], &line["accuracy"], &line["failure"]), (&json!(4), &json!(1.0), &Value::Null), "{line}");
    // Nothing could be measured: there is no figure, and that is no success.
    desk.hone(&play(&start(|_| true), "")).expect(1, "-", "4 of 4 episodes broke");
}

#[test]
fn what_broke_is_weighed_and_learned_from_by_nobody() {
    let desk = desk();
    let recipe = "components = [{ name = 'done', kind = 'outcome', weight = 1.0, role = 'primary' }]";
    std::fs::write(desk.path("recipe.toml"), recipe).unwrap();
    let world = start(|episode| episode % 2 == 0);
    let play = format!("rollout --env {world} --split train --policy empty -n 2 --samples 2 --concurrency 1 --tenant t");
    desk.hone(&play).expect(0, "4 traces in 2 groups", "the world broke in 2 episodes");
    let score = "reward score --recipe recipe.toml --tenant t";
    desk.hone(&format!("{score} --json")).expect(0, "\"broken\":2", "").expect(0, "\"scored\":2", "");
    desk.hone(score).expect(0, "2 scored in 2 groups, mean reward 1.000, 0 not scored, 2 broke and get no reward", "");
    for algorithm in ["sft", "awr"] {
        let train = format!("train {algorithm} --model tiny --run {algorithm} --threads 1 --tenant t");
        let ended = desk.hone(&train);
        let says = "; left out 2 in which the world broke or no answer came";
        assert!(ended.err.contains(says), "no `{says}` in {}", ended.err);
    }
}

#[test]
fn a_rollout_says_which_traces_could_not_be_scored() {
    let lost = "[reward.math]\ncomponents = [{ name = 'lost', kind = 'grader', weight = 1.0, role = 'primary', grader = { \
                type = 'string_check', input = '{{ sample.output_text }}', reference = '{{ item.truth.nope }}', operation = 'like' } }]\n";
    let desk = Desk::with(&[("hone.toml", lost)]);
    desk.hone("rollout --env math:sums --policy gold -n 1 --samples 2").expect(1, "none scored", "2 traces could not be scored");
}
