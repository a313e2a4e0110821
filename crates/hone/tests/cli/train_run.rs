//! `hone train grpo` and its kin from end to end: killed and resumed to the same bits, forked, stopped, refused.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use super::practice::{COMMON, RECIPE};
use super::{Desk, server};
use serde_json::{Value, json};
use std::fs;
use std::io::BufRead as _;
use std::time::{Duration, Instant};

const GRPO: &str = "--steps 6 --scenarios 4 --samples 4 --validation 8 --validate-every 2 --lr 0.3";

pub(super) fn grpo(more: &str) -> String {
    format!("train grpo {COMMON} {GRPO} {more}")
}

/// Waits until the run has so many lines of metrics.
pub(super) fn wait_for_lines(desk: &Desk, n_lines: usize) {
    let start = Instant::now();
    let path = desk.path(".hone/runs/r/metrics.jsonl");
    while fs::read_to_string(&path).unwrap_or_default().lines().count() < n_lines {
        assert!(start.elapsed() < Duration::from_secs(120), "the run does not get to {n_lines} lines");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills the run when it has so many lines, again and again; at the end it is as if nothing had happened.
#[track_caller]
fn check_killed(line: &str, n_lines: &[usize]) {
    let whole = Desk::of_practice();
    let expected = whole.hone(line).expect(0, "\"reason\":\"steps\"", "").json();
    let killed = Desk::of_practice();
    let resume = format!("{} --run r --threads 1 --json --quiet --resume", line.split(" --").next().unwrap());
    for (kill_idx, &n) in n_lines.iter().enumerate() {
        let mut child = killed.command(if kill_idx == 0 { line } else { &resume }).spawn().unwrap();
        wait_for_lines(&killed, n);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(killed.hone(&resume).expect(0, "\"reason\":\"steps\"", "").json(), expected);
    assert_eq!(killed.standing("r"), whole.standing("r"));
    let weights = |desk: &Desk| fs::read(desk.path(".hone/runs/r/adapter/adapter_model.safetensors")).unwrap();
    assert!(weights(&killed) == weights(&whole));
    // A run that has ended ends again, the same.
    assert_eq!(killed.hone(&resume).json(), expected);
}

#[test]
fn a_run_that_is_killed_goes_on_to_the_same_bits() {
    check_killed(&grpo(""), &[1, 4, 7]);
}

#[test]
fn a_run_whose_folder_was_removed_begins_again() {
    let (desk, short) = (Desk::of_practice(), grpo("--steps 1").replacen("--steps 6 ", "", 1));
    desk.hone(&short).expect(0, "\"reason\":\"steps\"", "");
    desk.hone(&short).expect(2, "", "there is a run `r` already");
    fs::remove_dir_all(desk.path(".hone/runs/r")).unwrap();
    desk.hone(&short).expect(0, "\"reason\":\"steps\"", "");
    let page = desk.hone("train show r").expect(0, "grpo", "");
    assert!(page.err.is_empty(), "{}", page.err);
}

#[test]
fn a_name_that_a_shared_store_has_from_another_folder_is_refused_until_that_folder_comes() {
    let Some(url) = server() else {
        println!("skipped: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)");
        return;
    };
    let (desk, short) = (Desk::of_practice(), grpo("--steps 1").replacen("--steps 6 ", "", 1));
    // Other tests may use the same database: this one works on a tenant of its own.
    let tenant = desk.folder.path().file_name().unwrap().to_string_lossy().into_owned();
    let desk = desk.set("HONE_DATABASE_URL", &url).set("HONE_STORE_TENANT", &tenant);
    for line in [&short, &short.replace("--run r ", "--run beside ")] {
        desk.hone(line).expect(0, "\"reason\":\"steps\"", "");
    }
    // As another machine sees it that has the same store.
    fs::rename(desk.path(".hone/runs/r"), desk.path("elsewhere")).unwrap();
    let refused = desk.hone(&short).expect(2, "", "the store has a run `r` already, and its folder is not here");
    assert!(refused.err.contains("copy its folder to "), "{}", refused.err);
    assert!(!desk.path(".hone/runs/r").exists(), "a run that cannot begin leaves nothing");
    // What the store holds of it is shown all the same.
    let listed = desk.hone("train list").expect(0, "files\n", "").out;
    let line = listed.lines().find(|line| line.starts_with("r ")).unwrap();
    assert!(line.contains("steps") && line.contains(" on "), "{listed}");
    let shown = desk.hone("train show r").expect(0, "steps at step 1: its one step is done", "r is on ").out;
    assert!(shown.contains("samples") && shown.contains("validation"), "{shown}");
    desk.hone("train compare beside r").expect(0, "r, best", ": this is what the store holds of it");
    assert_eq!(desk.hone("train show r --json").json()[0]["metrics"].as_array().unwrap().len(), 2);
    desk.hone("train show other").expect(2, "", "`hone train list` has those of other machines too");
    desk.hone(&format!("{short} --tenant {tenant}-other")).expect(0, "\"reason\":\"steps\"", "");
    fs::remove_dir_all(desk.path(".hone/runs/r")).unwrap();
    fs::rename(desk.path("elsewhere"), desk.path(".hone/runs/r")).unwrap();
    desk.hone("train grpo --run r --threads 1 --json --quiet --resume").expect(0, "\"reason\":\"steps\"", "");
}

#[test]
fn a_world_with_fewer_tasks_than_are_asked_for_says_so() {
    let line = "train grpo --env math:sums?digits_max=1 --model tiny --run few --threads 1 --answer-tokens 2 --steps 1 --scenarios 1 \
                --samples 2 --validation 8";
    let said = "math:sums?digits_max=1 has 7 tasks to measure on, and 8 were asked for";
    Desk::of_practice().hone(line).expect(0, "its one step is done", said);
}

#[test]
fn so_does_one_that_samples_ahead() {
    check_killed(&grpo("--max-staleness 1"), &[2, 5, 8]);
}

#[test]
fn so_does_one_with_a_critic_and_one_that_imitates() {
    let flags = "--validation 8 --validate-every 2 --lr 0.1";
    check_killed(&format!("train ppo {COMMON} {flags} --batch-tokens 128 --passes 2"), &[3, 6]);
    check_killed(&format!("train sft {COMMON} {flags} --batch-tokens 8"), &[4, 9]);
}

#[test]
fn ppo_takes_every_trace_at_the_temperature_at_which_it_was_sampled() {
    let desk = Desk::of_practice();
    let rollout = "rollout --env tictactoe --split train --policy local:tiny --threads 1 --max-tokens 4 -n 4 --samples 4 --quiet \
                   --tenant t";
    for temperature in ["", "--temperature 0.2"] {
        desk.hone(&format!("{rollout} {temperature}")).expect(0, "16 traces", "");
    }
    desk.hone("train ppo --model tiny --run r --threads 1 --passes 1 --lr 0 --batch-tokens 100000 --tenant t --quiet")
        .expect(0, "steps", "");
    // Nothing has moved, so trainer and sampler agree to the last bit.
    let figures = desk.standing("r")["figures"].clone();
    assert_eq!((&figures["1 mismatch_max"], &figures["1 ratio_max"]), (&json!(0.0), &json!(1.0)), "{figures}");
    let learned: Vec<Value> = serde_json::from_str(&desk.read(".hone/runs/r/data.json")).unwrap();
    let n_at = |temperature: f64| learned.iter().filter(|began| began["temperature"] == temperature).count();
    assert_eq!((n_at(0.7), n_at(0.2)), (16, 16));
}

#[test]
fn what_is_said_of_traces_while_a_run_stands_still_changes_nothing_of_it() {
    let line = format!("train awr {COMMON} --validation 8 --validate-every 2 --lr 0.1 --batch-tokens 16");
    let whole = Desk::of_practice();
    let expected = whole.hone(&line).expect(0, "\"reason\":\"steps\"", "").json();
    let killed = Desk::of_practice();
    let mut child = killed.command(&line).spawn().unwrap();
    wait_for_lines(&killed, 3);
    child.kill().unwrap();
    child.wait().unwrap();
    // Another recipe weighs the same games.
    let recipe =
        "components = [{ name = 'result', kind = 'signal', signal = 'result', range = [0, 1], weight = 9.0, role = 'primary' }]";
    fs::write(killed.path("other.toml"), recipe).unwrap();
    killed.hone("reward score --recipe other.toml").expect(0, "scored", "");
    let ended = killed.hone("train awr --run r --threads 1 --json --quiet --resume").expect(0, "\"reason\":\"steps\"", "");
    assert_eq!(ended.json(), expected);
    assert_eq!(killed.standing("r"), whole.standing("r"));
}

#[test]
fn what_is_damaged_is_never_loaded() {
    let desk = Desk::of_practice();
    desk.hone(&grpo("--max-tokens 1")).expect(0, "\"reason\":\"tokens\"", "");
    let resume = "train grpo --run r --threads 1 --quiet --resume";
    let (position, state) = (desk.path(".hone/runs/r/position.json"), desk.path(".hone/runs/r/states/1.safetensors"));
    let (whole_position, whole_state) = (fs::read(&position).unwrap(), fs::read(&state).unwrap());

    // What a kill leaves of a step that was not durable is not looked at.
    fs::write(desk.path(".hone/runs/r/states/2.safetensors"), &whole_state[..99]).unwrap();
    fs::write(desk.path(".hone/runs/r/position.json.partial"), &whole_position[..9]).unwrap();
    desk.hone(resume).expect(0, "tokens: ", "");

    fs::write(&position, &whole_position[..whole_position.len() / 2]).unwrap();
    desk.hone(resume).expect(2, "", "position.json: EOF while parsing");
    fs::write(&position, &whole_position).unwrap();

    fs::write(&state, &whole_state[..whole_state.len() / 2]).unwrap();
    desk.hone(resume).expect(2, "", "1.safetensors: ");
    fs::remove_file(&state).unwrap();
    desk.hone(resume).expect(2, "", "the state of step 1 is not kept\n\nhint: there are 0");

    let other = grpo("--max-tokens 1 --rank 2").replace("--run r", "--run narrow");
    desk.hone(&other).expect(0, "tokens", "");
    fs::copy(desk.path(".hone/runs/narrow/states/1.safetensors"), &state).unwrap();
    desk.hone(resume).expect(2, "", "1.safetensors: it is damaged");
    // Runs that began before hashes were kept go on without them.
    let mut old: Value = serde_json::from_slice(&whole_position).unwrap();
    old.as_object_mut().unwrap().remove("states");
    fs::write(&position, old.to_string()).unwrap();
    desk.hone(resume).expect(2, "", "lora");
    fs::write(&state, &whole_state).unwrap();
    desk.hone(resume).expect(0, "tokens: ", "");
}

#[test]
fn a_state_whose_bits_have_changed_is_refused_with_the_way_out() {
    let desk = Desk::of_practice();
    desk.hone(&grpo("")).expect(0, "steps", "");
    let path = |step: u64| desk.path(&format!(".hone/runs/r/states/{step}.safetensors"));
    let damage = |step: u64| {
        let whole = fs::read(path(step)).unwrap();
        let middle = whole.len() / 2;
        fs::write(path(step), [&whole[..middle], &[7; 400], &whole[middle + 400..]].concat()).unwrap();
        whole
    };
    let resume = "train grpo --run r --threads 1 --quiet --resume";
    let (first, last) = (damage(0), damage(6));
    let says = "states/6.safetensors: it is damaged, its hash is another than when it was written\n\nhint: put the file back";
    let told = desk.hone(resume).expect(2, "", says).err;
    assert!(told.contains("--fork r@STEP: 2, 4\n"), "{told}");
    let fork = |step: u64| grpo(&format!("--fork r@{step}")).replace("--run r", "--run fork");
    desk.hone(&fork(0)).expect(2, "", "states/0.safetensors: it is damaged");
    desk.hone("train prefer r@6").expect(2, "", "states/6.safetensors: it is damaged");
    desk.hone(&fork(4)).expect(0, "steps", "");
    damage(2);
    damage(4);
    desk.hone(resume).expect(2, "", "no other state of the run is whole");
    fs::write(path(0), first).unwrap();
    fs::write(path(6), last).unwrap();
    desk.hone(resume).expect(0, "steps", "");
}

#[test]
fn a_run_that_goes_on_takes_no_setting() {
    let desk = Desk::of_practice();
    let run = |file: &str| desk.read(&format!(".hone/runs/first/{file}"));
    let before = ["run.json", "end.json", "position.json"].map(run);
    let says = "a run that goes on keeps its settings\n\nhint: change them in a fork: --run OTHER --fork first";
    for flag in ["--steps 99", "--steps 3", "--lr nan", "--seed 7", "--rank 4", "--validation 3", "--sampler vllm:m"] {
        desk.hone(&format!("train grpo --run first --resume {flag}")).expect(2, "", says);
    }
    assert_eq!(["run.json", "end.json", "position.json"].map(run), before);
}

#[test]
fn a_run_goes_on_with_its_own_model_only() {
    let desk = Desk::of_practice();
    let (weights, tokenizer) = (".hone/models/tiny/files/model.safetensors", ".hone/models/tiny/files/tokenizer.json");
    // The copy of the folder has a model of its own.
    let entry = desk.path(".hone/models/tiny/model.json");
    let mut own: Value = serde_json::from_slice(&fs::read(&entry).unwrap()).unwrap();
    own["path"] = json!(desk.path(".hone/models/tiny/files"));
    fs::write(&entry, own.to_string()).unwrap();
    let resume = "train grpo --run first --threads 1 --resume --quiet";
    let fork = grpo("--fork first");
    let whole = [weights, tokenizer].map(|file| fs::read(desk.path(file)).unwrap());

    fs::write(desk.path(tokenizer), [&whole[1][..], b" "].concat()).unwrap();
    let says = "tiny is another model than when `first` began: it has another tokenizer\n\nhint: put the model back";
    desk.hone(resume).expect(2, "", says);
    desk.hone("train prefer first@3").expect(2, "", says);
    let says = "tiny is another model than that of `first`: it has another tokenizer\n\nhint: a fork keeps the model";
    desk.hone(&fork).expect(2, "", says);

    let mut other = whole[0].clone();
    *other.last_mut().unwrap() ^= 1;
    fs::write(desk.path(weights), other).unwrap();
    desk.hone(resume).expect(2, "", "it has other weights and another tokenizer");
    fs::write(desk.path(tokenizer), &whole[1]).unwrap();
    desk.hone(&fork).expect(2, "", "it has other weights\n");

    // A run that began before the hash was kept cannot know.
    let run: &str = ".hone/runs/first/run.json";
    let known = desk.read(run);
    let mut old: Value = serde_json::from_str(&known).unwrap();
    assert!(old.as_object_mut().unwrap().remove("model_hash").is_some());
    fs::write(desk.path(run), old.to_string()).unwrap();
    desk.hone(resume).expect(0, "steps: ", "");
    fs::write(desk.path(run), known).unwrap();
    fs::write(desk.path(weights), &whole[0]).unwrap();
    desk.hone(resume).expect(0, "steps: ", "");
}

#[test]
fn a_fork_begins_where_another_run_stood_and_says_what_is_another() {
    let desk = Desk::of_practice();
    let end = desk.hone(&grpo("")).expect(0, "steps", "").json();
    let fork = |name: &str, more: &str| grpo(more).replace("--run r", &format!("--run {name}"));
    // Without a learning rate nothing moves: the fork ends with what it began with.
    let still = fork("still", "--fork r@6").replace("--lr 0.3", "--lr 0");
    assert_eq!(desk.hone(&still).expect(0, "steps", "").json()[0]["adapter"], end[0]["adapter"]);
    fs::write(desk.path("hone.toml"), RECIPE.replace("weight = 0.5", "weight = 0.25")).unwrap();
    desk.hone(&fork("changed", "--fork r@2 --kl 0.1")).expect(0, "steps", "");
    let run: Value = serde_json::from_str(&desk.read(".hone/runs/changed/run.json")).unwrap();
    assert_eq!((&run["fork"]["run"], &run["fork"]["step"]), (&json!("r"), &json!(2)));
    let changes = run["fork"]["changes"].as_object().unwrap();
    assert_eq!(changes.keys().collect::<Vec<_>>(), ["kl", "recipe"]);
    assert_eq!(changes["kl"], json!([0.0, 0.1]));
    assert_eq!(changes["recipe"][1]["components"][1]["weight"], 0.25);
    desk.hone("train show changed").expect(0, "forked from          r at step 2\n", "");

    let flags = "--batch-tokens 64 --validation 4 --fork r@2";
    let imitated = format!("train sft {COMMON} {flags}").replace("--run r", "--run imitated");
    desk.hone(&imitated).expect(0, "steps", "");

    desk.hone("train grpo --run r --resume").expect(2, "", "the recipe of tictactoe is another than when `r` began");
    desk.hone(&fork("none", "--fork r@99")).expect(2, "", "the state of step 99 is not kept\n\nhint: there are 0, 2, 4, 6");
    desk.hone(&fork("none", "--fork r@x")).expect(2, "", "`x` in `r@x` is not a step");
    desk.hone(&fork("none", "--fork other")).expect(2, "", "there is no run `other`");
    let other = desk.hone(&fork("none", "--fork r --rank 2")).expect(2, "", "hint: a fork keeps the model, the rank").err;
    assert!(other.contains("runs/r/states/6.safetensors: this state of a run does not fit: tensor `"), "{other}");
    let scaled = "`r` has alpha = 32, and this would scale its adapter by 8\n\nhint: say --alpha 32: a fork keeps";
    desk.hone(&fork("none", "--fork r --alpha 8")).expect(2, "", scaled);
    desk.hone("train show none").expect(2, "", "there is no run `none`");
    // What is best of a fork may be what it began with.
    desk.hone(&fork("lost", "--fork r@6").replace("--lr 0.3", "--lr 0")).expect(0, "steps", "");
    desk.hone("train prefer lost@0").expect(0, "best is now that of step 0", "");
    desk.hone(&fork("later", "--fork lost").replace("--steps 6", "--steps 1")).expect(0, "steps", "");
    let run: Value = serde_json::from_str(&desk.read(".hone/runs/later/run.json")).unwrap();
    assert_eq!((&run["fork"]["run"], &run["fork"]["step"]), (&json!("lost"), &json!(0)));
    // A folder that was renamed is a run of its new name.
    fs::rename(desk.path(".hone/runs/later"), desk.path(".hone/runs/renamed")).unwrap();
    desk.hone("train prefer renamed@0").expect(0, "best is now that of step 0", "");
}

#[test]
fn a_person_may_prefer_what_a_step_gave() {
    let desk = Desk::of_practice();
    desk.hone(&grpo("")).expect(0, "steps", "");
    let still = grpo("--fork r@2").replace("--run r", "--run still").replace("--lr 0.3", "--lr 0");
    desk.hone(&still).expect(0, "steps", "");
    desk.hone("train prefer r@2").expect(0, "best is now that of step 2", "");
    let weights = |folder: &str| fs::read(desk.path(&format!(".hone/runs/{folder}/adapter_model.safetensors"))).unwrap();
    assert!(weights("r/best") == weights("still/adapter") && weights("r/best") != weights("r/adapter"));
    desk.hone("train show r").expect(0, "a person preferred what step 2 gave", "");
    let ended = || (desk.read(".hone/runs/r/end.json"), weights("r/best"), desk.read(".hone/runs/r/metrics.jsonl"));
    let before = ended();
    let resume = "train grpo --run r --threads 1 --resume";
    desk.hone(resume).expect(0, "preferred: a person preferred what step 2 gave", "`r` stays as a person ended it");
    let told = desk.hone(&format!("{resume} --json --quiet")).expect(0, "preferred", "").json();
    assert!(ended() == before, "{}", ended().0);
    assert_eq!((&told[0]["reason"], &told[0]["best_step"]), (&json!("preferred"), &json!(2)));
    assert_eq!(desk.hone("train prefer r@2 --json").expect(0, "preferred", "").json(), told);
    desk.hone("train prefer r").expect(2, "", "`r` names no step\n\nhint: write RUN@STEP");
    desk.hone("train prefer r@99").expect(2, "", "the state of step 99 is not kept");
}

#[test]
fn a_person_who_cannot_be_heard_changes_nothing() {
    let desk = Desk::of_practice();
    desk.hone(&grpo("")).expect(0, "steps", "");
    let end = || desk.read(".hone/runs/r/end.json");
    let before = end();
    // The place of the adapter is taken by something else.
    fs::remove_dir_all(desk.path(".hone/runs/r/best")).unwrap();
    fs::write(desk.path(".hone/runs/r/best"), "").unwrap();
    desk.hone("train prefer r@2").expect(2, "", "best");
    assert_eq!(end(), before);
}

#[test]
fn what_a_person_prefers_is_the_best_also_where_the_command_broke_off() {
    let desk = Desk::of_practice();
    desk.hone(&grpo("")).expect(0, "steps", "");
    let place = desk.path(".hone/runs/r/best/adapter_model.safetensors");
    let best = |step: u64| {
        desk.hone(&format!("train prefer r@{step}")).expect(0, "best is now", "");
        fs::read(&place).unwrap()
    };
    let (two, four) = (best(2), best(4));
    assert!(two != four);
    for mend in ["train grpo --run r --resume", "train prefer r@2"] {
        // What is in the way ends the command after it was decided, and before the adapter is in its place.
        fs::remove_file(&place).unwrap();
        fs::create_dir(&place).unwrap();
        desk.hone("train prefer r@2").expect(2, "", "adapter_model.safetensors");
        desk.hone("train show r").expect(0, "a person preferred what step 2 gave", "");
        fs::remove_dir(&place).unwrap();
        fs::write(&place, &four).unwrap();
        desk.hone(mend);
        assert!(fs::read(&place).unwrap() == two, "{mend}");
        assert!(!desk.path(".hone/runs/r/preferred").exists(), "{mend}");
    }
    desk.hone("train grpo --run r --resume").expect(0, "preferred: a person preferred what step 2 gave", "stays");
}

#[test]
fn every_episode_of_a_run_is_on_the_record() {
    let desk = Desk::of_practice();
    let n_traces = || desk.hone("trace list --limit 2000 --json").json().len();
    let before = n_traces();
    desk.hone(&grpo("")).expect(0, "steps", "");
    // Six steps of four by four, and eight tasks to validate by before the first step and after every second one.
    assert_eq!(n_traces() - before, 6 * 16 + 4 * 8);
}

#[test]
fn a_run_is_its_tenants() {
    let desk = Desk::of_practice();
    desk.hone(&grpo("")).expect(0, "steps", "");
    let kept = || ["run.json", "end.json", "position.json"].map(|file| desk.read(&format!(".hone/runs/r/{file}")));
    let before = kept();
    desk.hone("train list --tenant other").expect(0, "", "no run is recorded here yet");
    let fork = grpo("--fork r@2").replace("--run r", "--run fork");
    for line in [
        "train grpo --run r --threads 1 --resume",
        "train show r",
        "train compare first r",
        "train prefer r@2",
        "train stop r",
        &fork,
    ] {
        let told = desk.hone(&format!("{line} --tenant other")).expect(2, "", "there is no run `").err;
        assert!(told.contains("hint: no run was recorded here yet"), "{told}");
    }
    let says = "there is a run `r` already\n\nhint: it is another tenant's: give this one another name";
    desk.hone(&grpo("--tenant other")).expect(2, "", says);
    assert!(kept() == before);
    desk.hone("train stop r").expect(2, "", "`r` has ended already");
    assert_eq!(desk.hone("train list --json").json().len(), 2);
}

#[test]
fn a_run_that_begins_beside_another_of_its_name_touches_nothing_of_it() {
    let desk = Desk::of_practice();
    fs::create_dir_all(desk.path(".hone/runs/r")).unwrap();
    let held = fs::File::create(desk.path(".hone/runs/r/lock")).unwrap();
    held.lock().unwrap();
    let sft = format!("train sft {COMMON} --validation 8 --validate-every 2 --lr 0.1");
    desk.hone(&sft).expect(2, "", "`r` is at work in another process");
    assert!(!desk.path(".hone/runs/r/data.json").exists() && !desk.path(".hone/runs/r/run.json").exists());
    drop(held);
    desk.hone(&sft).expect(0, "steps", "");
}

#[test]
fn a_run_stops_when_it_is_asked_to() {
    let desk = Desk::of_practice();
    let child = desk.command(&grpo("").replace("--steps 6", "--steps 100000")).spawn().unwrap();
    wait_for_lines(&desk, 1);
    desk.hone("train grpo --run r --resume").expect(2, "", "`r` is at work in another process\n\nhint: hone train stop r");
    desk.hone("train stop r --json").expect(0, "{\"run\":\"r\",\"stopping\":true}\n", "");
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success() && told.contains("\"reason\":\"asked\""), "{told}");
    desk.hone("train stop r").expect(2, "", "`r` has ended already: it was asked to stop, and did after step ");
    fs::remove_file(desk.path(".hone/runs/r/end.json")).unwrap();
    desk.hone("train stop r").expect(2, "", "`r` is not at work: it was killed\n\nhint: go on with it by hone train grpo");
    desk.hone("train stop other").expect(2, "", "there is no run `other`");
}

#[test]
fn a_run_that_is_interrupted_says_how_it_goes_on() {
    let desk = Desk::of_practice();
    let line = grpo("--folder .hone --tenant default").replace("--steps 6", "--steps 100000").replace(" --json --quiet", "");
    let child = desk.command(&line).spawn().unwrap();
    wait_for_lines(&desk, 1);
    let pressed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = child.wait_with_output().unwrap();
    let [out, err] = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(pressed.success() && ended.status.code() == Some(1), "{out}{err}");
    assert!(out.starts_with("interrupted: by Ctrl-C, after step "), "{out}");
    assert!(err.contains("interrupted: the run ends after its present step; Ctrl-C again leaves it at once\n"), "{err}");
    let resume = "train grpo --run r --resume --threads 1 --folder .hone --tenant default";
    assert!(err.ends_with(&format!("it goes on with `hone {resume}`\n")), "{err}");
    desk.hone("train list").expect(0, "interrupted", "");
    // It goes on from there.
    let step = || serde_json::from_str::<Value>(&desk.read(".hone/runs/r/position.json")).unwrap()["step"].as_u64().unwrap();
    let (before, child) = (step(), desk.command(resume).spawn().unwrap());
    let start = Instant::now();
    while step() == before {
        assert!(start.elapsed() < Duration::from_secs(120), "the run does not go on");
        std::thread::sleep(Duration::from_millis(1));
    }
    desk.hone("train stop r").expect(0, "will stop", "");
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_run_whose_process_is_gone_is_called_cut_off_with_the_way_on() {
    let desk = Desk::of_practice();
    let line = grpo("").replace("--steps 6", "--steps 100000").replace(" --json --quiet", "");
    let mut child = desk.command(&line).spawn().unwrap();
    wait_for_lines(&desk, 1);
    desk.hone("train list").expect(0, "not ended", "");
    desk.hone("train show r").expect(0, "it has not ended: it is at work\n", "");
    child.kill().unwrap();
    child.wait().unwrap();
    let way_on = "its process is gone; it goes on with `hone train grpo --run r --resume`";
    desk.hone("train list").expect(0, "cut off", way_on);
    desk.hone("train show r").expect(0, way_on, "");
    let told = desk.hone("train list --json").json();
    let ours = told.iter().find(|run| run["name"] == "r").unwrap();
    assert_eq!((&ours["cut_off"], &ours["ended"]), (&Value::Bool(true), &Value::Null));
}

/// Whoever samples never answers, so that a step never ends.
#[test]
fn a_run_that_is_left_at_once_is_not_at_work_for_the_store() {
    let desk = Desk::of_practice();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sampler = format!("--sampler http://{}/v1#m", silent.local_addr().unwrap());
    let line = grpo(&sampler).replace(" --json --quiet", "");
    let mut child = desk.command(&line).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let held = silent.accept().unwrap();
    let id = child.id().to_string();
    let press = || std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(press().success());
    assert!(said.any(|line| line.contains("Ctrl-C again leaves it at once")));
    assert!(press().success());
    assert!(
        said.any(|line| line.contains("interrupted: all steps up to 0 are kept; go on with `hone train grpo --run r --resume"))
    );
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(held);
    let database = rusqlite::Connection::open(desk.path(".hone/hone.db")).unwrap();
    let mut statement = database.prepare("SELECT body FROM documents WHERE kind = 'run' ORDER BY revision DESC").unwrap();
    let bodies = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut runs = bodies.map(|body| serde_json::from_str::<Value>(&body.unwrap()).unwrap());
    let ours = runs.find(|run| run["settings"]["name"] == "r").unwrap();
    assert_eq!(ours["state"]["reason"], "interrupted", "{ours}");
    desk.hone("train list").expect(0, "interrupted", "");
}

#[test]
fn steps_that_are_not_finite_are_kept_and_end_the_run() {
    let desk = Desk::of_practice();
    let ended = desk.hone(&grpo("--entropy-bonus 1e308")).expect(1, "\"reason\":\"not_finite\"", "step 1 was not finite");
    let end = &ended.json()[0];
    assert_eq!(end["why"], "the last 3 steps had a loss or gradient that was not finite, and moved nothing");
    let bad: Value = serde_json::from_str(&desk.read(".hone/runs/r/bad-1.json")).unwrap();
    assert_eq!(bad["traces"].as_array().unwrap().len(), 16);
    // The last good adapter is the one before the first of them: it has learned nothing.
    let still = desk.hone(&grpo("").replace("--run r", "--run still").replace("--lr 0.3", "--lr 0")).json();
    assert_eq!(end["adapter"], still[0]["adapter"]);
}

#[test]
fn a_run_whose_server_is_gone_says_how_it_goes_on() {
    let desk = Desk::of_practice();
    let ended = desk.hone(&grpo("--sampler http://127.0.0.1:9/v1#m"));
    ended.expect(2, "", "; the run goes on with `hone train grpo --run r --resume --threads 1`");
}

#[test]
fn a_world_that_leaves_no_room_for_an_answer_ends_the_run_with_the_figure() {
    let desk = Desk::of_practice();
    let says = "no episode of tictactoe could be played: ";
    desk.hone(&grpo("--context 16")).expect(2, "", says).expect(2, "", "hint: a longer `context`");
    let play = "rollout --env tictactoe --policy local:tiny -n 2 --samples 1 --context 16";
    desk.hone(play).expect(0, "0 solved", "2 episodes ended without an answer, the first so: ");
}

#[test]
fn tasks_that_are_held_out_are_not_learned_from() {
    let desk = Desk::of_practice();
    let sft = format!("train sft {COMMON} --validation 4").replace(" --json --quiet", "");
    desk.hone("rollout --env tictactoe --policy random -n 6 --samples 4 --quiet").expect(0, "24 traces", "");
    // These, and what the first run was validated on before and after.
    desk.hone(&sft).expect(0, "steps", "; left out 40 of tasks that are held out");
    let learned: Vec<Value> = serde_json::from_str(&desk.read(".hone/runs/r/data.json")).unwrap();
    assert!(!learned.is_empty());
    for began in learned {
        let trace = &desk.hone(&format!("trace show {} --json", began["trace"].as_str().unwrap())).json()[0];
        assert!(!["test", "validation"].contains(&trace["metadata"]["split"].as_str().unwrap_or_default()), "{trace}");
    }
    // Another tenant plays the same games, and has nothing else.
    desk.hone("rollout --env tictactoe --policy random -n 6 --samples 4 --tenant other --quiet").expect(0, "24 traces", "");
    let says = "there is nothing to learn from; left out 24 of tasks that are held out\n\nhint: `hone rollout --split train`";
    desk.hone(&(sft.replace("--run r", "--run random") + " --tenant other")).expect(2, "", says);
}

#[test]
fn what_the_chat_template_refuses_is_counted_with_the_reason() {
    let desk = Desk::of_practice();
    let line = |content: &str| {
        format!(
            "{{\"messages\":[{{\"role\":\"user\",\"content\":{content}}},{{\"role\":\"assistant\",\"content\":\"5\"}}],\"reward\":1}}\n"
        )
    };
    let picture = "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:\"}}]";
    fs::write(desk.path("chat.jsonl"), [line("\"Play!\""), line(picture), line(picture)].concat()).unwrap();
    desk.hone("trace import chat.jsonl --tenant t").expect(0, "", "3 new");
    let sft = "train sft --model tiny --run r --threads 1 --tenant t";
    desk.hone(sft).expect(0, "steps", "1 of 3 traces to learn from").expect(
        0,
        "steps",
        "; left out 2 that cannot be rendered: message 0 has a part of type `image_url`, and this model reads text alone",
    );
}

#[test]
fn a_conversation_that_outgrows_the_context_is_left_out_as_too_long() {
    let desk = Desk::of_practice();
    let turn = "{\"role\":\"user\",\"content\":\"1 2 3\"},{\"role\":\"assistant\",\"content\":\"5\"}";
    let line = |n_turns: usize| format!("{{\"messages\":[{}],\"reward\":1}}\n", vec![turn; n_turns].join(","));
    fs::write(desk.path("chat.jsonl"), line(2) + &line(400)).unwrap();
    desk.hone("trace import chat.jsonl --tenant t").expect(0, "", "2 new");
    let sft = "train sft --model tiny --run r --threads 1 --tenant t";
    desk.hone(sft).expect(0, "steps", "1 of 2 traces to learn from, ").expect(0, "steps", "; left out 1 longer than the context");
}

#[test]
fn what_makes_no_sense_is_refused_and_leaves_no_record() {
    let desk = Desk::of_practice();
    let refused = |line: &str, says: &str| {
        desk.hone(line).expect(2, "", says);
    };
    refused(&grpo("").replace("tictactoe", "tictactow"), "tictactow");
    refused(&grpo("").replace("--model tiny", "--model huge"), "huge");
    refused(&grpo("").replace("--env tictactoe", ""), "GRPO plays in a world\n\nhint: name one with --env");
    refused(&grpo("").replace("--run r", "--run ../r"), "`../r` is not a name");
    refused(&grpo("--gamma 0.5"), "gamma has no effect on credit = \"episode\": set credit = \"turns\"");
    refused(&grpo("--temperature warm"), "`--temperature warm`: ");
    refused(&grpo("--plateau -1"), "--plateau");
    refused(&grpo("--passes 2"), "unexpected argument '--passes'");
    refused(&grpo("--force"), "--force has no effect: no judge is heard");
    refused(&grpo("--judge local:tiny"), "--judge has no effect: no component of the recipe asks for one");
    refused(&grpo("--max-dollars 1"), "max_dollars has no effect: only a judge costs dollars");
    let sft = format!("train sft {COMMON}").replace("--env tictactoe --", "--").replace(" --answer-tokens 4", "");
    refused(&format!("{sft} --validation 9"), "validation has no effect on a run that is measured nowhere\n\nhint: name a world");
    refused(&format!("{sft} --watch desk"), "--watch has no effect on a run that is measured nowhere");
    refused(&format!("{sft} --sampler vllm:m"), "--sampler has no effect: sft samples nothing where nothing is measured");
    refused(&format!("{sft} --quality-min 9"), "there is nothing to learn from");
    refused("train grpo --run r --resume", "there is no run `r`");
    desk.hone("train list --json").expect(0, "\"name\":\"first\"", "");
    assert_eq!(desk.hone("train list --json").json().len(), 1);

    desk.hone(&sft).expect(0, "\"reason\":\"steps\"", "");
    refused(&sft, "there is a run `r` already\n\nhint: go on with it by --resume");
    refused("train sft --run r --resume --lr 0.1", "a run that goes on keeps its settings\n\nhint: change them in a fork");
    refused("train sft --run r --resume --outcome success", "a run that goes on learns from the traces that it began with");
    refused("train awr --run r --resume", "`r` is a run of sft\n\nhint: hone train sft --run r --resume");
}

#[test]
fn the_file_says_how_an_algorithm_learns_where_the_flags_do_not() {
    let desk = Desk::of_practice();
    fs::write(desk.path("hone.toml"), format!("{RECIPE}\n[train.grpo]\nsteps = 2\nlr = 0.5\n")).unwrap();
    desk.hone(&format!("train grpo {COMMON} --scenarios 2 --samples 4 --validation 4 --steps 1")).expect(0, "steps", "");
    let run: Value = serde_json::from_str(&desk.read(".hone/runs/r/run.json")).unwrap();
    assert_eq!((&run["settings"]["lr"], &run["settings"]["steps"]), (&json!(0.5), &json!(1)));
    let n_lines = RECIPE.lines().count();
    for (table, says) in [
        ("[train.grpo]\nlearning_rate = 0.5\n", "`[train.grpo]`: unknown field `learning_rate`"),
        ("[train.grpo]\npasses = 2\n", "`[train.grpo]`: passes has no effect on grpo"),
        ("[train.grpo]\nlr = 9\n", "`[train.grpo]`: lr = 9 is outside 0 to 1"),
        ("[train.grpu]\nlr = 0.1\n", "there is no table `[train.grpu]`"),
    ] {
        fs::write(desk.path("hone.toml"), format!("{RECIPE}{table}")).unwrap();
        let told = desk.hone("train list").expect(2, "", says).err;
        assert!(told.contains(&format!("hone.toml:{}", n_lines + 1)), "{told}");
    }
}

#[test]
fn a_world_is_watched_for_what_is_forgotten() {
    let desk = Desk::of_practice();
    desk.hone(&grpo("--watch 2048 --watch math:sums --turns 2")).expect(0, "steps", "");
    let figures = desk.standing("r")["figures"].clone();
    for name in ["0 watched/2048", "6 watched/2048", "6 watched/math:sums"] {
        assert!(figures[name].is_number(), "no {name} in {figures}");
    }
}

#[test]
fn a_step_on_one_task_does_not_say_how_sure_its_reward_is() {
    let desk = Desk::of_practice();
    for (n, is_told) in [(1, false), (4, true)] {
        let line = grpo("--max-tokens 1").replace("--run r", &format!("--run r{n}"));
        desk.hone(&line.replace("--scenarios 4", &format!("--scenarios {n}"))).expect(0, "tokens", "");
        let figures = desk.standing(&format!("r{n}"))["figures"].clone();
        assert!(figures["1 reward"].is_number() && figures["1 reward_half_width"].is_number() == is_told, "{figures}");
    }
}

#[test]
fn the_time_that_validation_takes_counts() {
    let desk = Desk::of_practice();
    let ended = desk.hone(&grpo("--max-seconds 0.000001")).expect(0, "\"reason\":\"seconds\"", "");
    assert_eq!(ended.json()[0]["step"], 0);
}
