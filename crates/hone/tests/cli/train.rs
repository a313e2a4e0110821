//! `hone train list`, `show` and `compare`: what a person sees of runs that stand in the folder.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use super::Desk;
use serde_json::json;

/// A run with these steps of (reward, validation).
fn record(desk: &Desk, name: &str, lr: f64, steps: &[(f64, Option<f64>)], end: Option<&str>) {
    let folder = desk.path(&format!(".hone/runs/{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let run = json!({"v": 1, "name": name, "method": "grpo", "model": "tiny", "env": "desk", "seed": 1,
                     "settings": {"lr": lr, "loss": "dr_grpo"}, "fork": null});
    std::fs::write(folder.join("run.json"), run.to_string()).unwrap();
    let line = |(step, (reward, validation)): (usize, &(f64, Option<f64>))| {
        let mut values = json!({"reward": reward, "entropy": 1.5});
        if let Some(validation) = validation {
            values["validation"] = json!(validation);
        }
        json!({"step": step + 1, "at": 1_700_000_000.5 + step as f64, "values": values}).to_string() + "\n"
    };
    std::fs::write(folder.join("metrics.jsonl"), steps.iter().enumerate().map(line).collect::<String>()).unwrap();
    if let Some(reason) = end {
        let end = json!({"reason": reason, "why": "no gain in 10 evaluations", "step": steps.len(), "best_step": 2});
        std::fs::write(folder.join("end.json"), end.to_string()).unwrap();
    }
}

fn desk() -> Desk {
    let desk = Desk::new();
    record(&desk, "slow", 0.0001, &[(0.1, None), (0.2, Some(0.3)), (0.3, None)], None);
    record(&desk, "fast", 0.0005, &[(0.1, Some(0.2)), (0.5, Some(0.6)), (0.4, Some(0.5))], Some("plateau"));
    desk
}

#[test]
fn runs_are_listed() {
    Desk::new().hone("train list").expect(0, "", "no run is recorded here yet");
    let desk = desk();
    let listed = desk.hone("train list").expect(0, "name  method  model  env   steps  reward  best validation  ended\n", "");
    assert!(listed.out.contains("fast  grpo    tiny   desk  3      0.400   0.600 at step 2  plateau\n"), "{}", listed.out);
    assert!(listed.out.contains("slow  grpo    tiny   desk  3      0.300   0.300 at step 2  not ended\n"), "{}", listed.out);
    let json = desk.hone("train list --json").expect(0, "\"name\":\"fast\"", "").json();
    assert_eq!((&json[0]["ended"], &json[1]["ended"], &json[1]["reward"]), (&json!("plateau"), &json!(null), &json!(0.3)));
}

#[test]
fn a_run_that_cannot_be_read_does_not_hide_the_others() {
    let desk = desk();
    let lines = desk.read(".hone/runs/slow/metrics.jsonl");
    std::fs::write(desk.path(".hone/runs/slow/metrics.jsonl"), &lines[..lines.len() - 9]).unwrap();
    std::fs::create_dir(desk.path(".hone/runs/begun")).unwrap();
    let cut = "slow: the last line of metrics.jsonl is cut short, and skipped";
    desk.hone("train list").expect(0, "slow  grpo    tiny   desk  2 ", cut);
    desk.hone("train show slow").expect(0, "end, step 2", cut);
    std::fs::write(desk.path(".hone/runs/slow/metrics.jsonl"), format!("{{}}\n{lines}")).unwrap();
    desk.hone("train list").expect(0, "fast ", "slow: ");
    desk.hone("train show slow").expect(2, "", "metrics.jsonl:1: missing field `step`");
    let newer = desk.read(".hone/runs/slow/run.json").replace("\"v\":1", "\"v\":2");
    std::fs::write(desk.path(".hone/runs/slow/run.json"), newer).unwrap();
    desk.hone("train list").expect(0, "fast ", "a newer hone wrote it");
}

#[test]
fn a_run_is_shown_with_its_curves_and_its_end() {
    let desk = desk();
    let shown = desk.hone("train show fast").expect(0, "plateau at step 3: no gain in 10 evaluations", "").out;
    for part in [
        "lr                   0.0005\n",
        "\nreward\n0.500 ┤",
        "\nvalidation\n",
        "\nentropy\n",
        "value       end, step 3  best, step 2\n",
    ] {
        assert!(shown.contains(part), "no `{part}` in\n{shown}");
    }
    assert!(shown.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "{shown}");
    desk.hone("train show slow").expect(0, "it has not ended", "");
    let plotted = desk.hone("train show fast --plot entropy").expect(0, "\nentropy\n", "").out;
    assert!(!plotted.contains("\nreward\n"), "{plotted}");
    desk.hone("train show fast --plot kl").expect(2, "", "the run has no value `kl`\n\nhint: it has entropy, reward, validation");
    let json = desk.hone("train show fast --json").expect(0, "{", "").json();
    assert_eq!((&json[0]["metrics"][1]["values"]["reward"], &json[0]["end"]["best_step"]), (&json!(0.5), &json!(2)));
    assert_eq!(json[0]["run"]["settings"]["loss"], "dr_grpo");
}

#[test]
fn a_plain_terminal_gets_plain_plots() {
    let desk = desk().set("NO_COLOR", "1");
    let shown = desk.hone("train show fast").expect(0, "\nreward\n0.500 +", "").out;
    assert!(shown.is_ascii(), "{shown}");
}

#[test]
fn a_fork_says_what_was_changed() {
    let desk = desk();
    let fork = json!({"run": "slow", "step": 2, "changes": {"reward": ["a", "b"], "lr": [0.0001, 0.0005]}});
    let run = desk.read(".hone/runs/fast/run.json").replace("\"fork\":null", &format!("\"fork\":{fork}"));
    std::fs::write(desk.path(".hone/runs/fast/run.json"), run).unwrap();
    let shown = desk.hone("train show fast").expect(0, "forked from          slow at step 2\n", "").out;
    assert!(shown.contains("  lr                 0.0001 → 0.0005\n  reward             a → b\n"), "{shown}");
}

#[test]
fn two_runs_are_compared() {
    let desk = desk();
    let compared = desk.hone("train compare slow fast").expect(0, "setting  slow    fast\nlr       0.0001  0.0005\n\n", "").out;
    for part in [
        "step        3, not ended  3, plateau  2           2\n",
        "reward      0.300         0.400       0.200       0.500\n",
        "slow did not reach the best validation of fast, 0.600\n",
        "fast reached the best validation of slow, 0.300, at step 2\n",
    ] {
        assert!(compared.contains(part), "no `{part}` in\n{compared}");
    }
    let json = desk.hone("train compare slow fast --json").expect(0, "{", "").json();
    assert_eq!(json[0]["differ"], json!({"lr": ["0.0001", "0.0005"]}));
    assert_eq!((&json[0]["measure"], &json[0]["b"]["best"]["values"]["validation"]), (&json!("validation"), &json!(0.6)));
    assert_eq!((&json[0]["a"]["reached_best_of_other"], &json[0]["b"]["reached_best_of_other"]), (&json!(null), &json!(2)));
    desk.hone("train compare fast fast").expect(0, "both were started with the same settings\n", "");
}

#[test]
fn an_unknown_run_is_refused_with_the_known_ones() {
    Desk::new().hone("train show run-7").expect(2, "", "there is no run `run-7`\n\nhint: no run was recorded here yet");
    let desk = desk();
    desk.hone("train show run-7").expect(2, "", "there is no run `run-7`\n\nhint: there are fast, slow");
    desk.hone("train compare fast run-7").expect(2, "", "there is no run `run-7`");
    let desk = desk.set("HONE_DATABASE_URL", "postgres://nobody@127.0.0.1:1/none");
    // Those of this folder are shown also where the store does not answer.
    desk.hone("train show fast").expect(0, "plateau", "");
    desk.hone("train list").expect(0, "slow", "runs of other machines are not known: ");
    let shared = desk.hone("train show run-7");
    let shared = shared.expect(2, "", "error: `run-7` is no run of this folder, and others are not known: ");
    assert!(!shared.err.contains("--folder"), "it has no effect there: {}", shared.err);
    Desk::new().hone("train show ../runs/fast").expect(2, "", "`../runs/fast` is not a name");
}
