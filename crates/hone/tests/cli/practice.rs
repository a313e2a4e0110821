//! A tiny model that practises tic-tac-toe: what the tests of training begin with.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use super::Desk;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::LazyLock;

/// What earns: an answer that can be read, and a game that is won. So rewards of a model that knows nothing differ too.
pub(crate) const RECIPE: &str = "[reward.tictactoe]
components = [
  { name = 'readable', kind = 'signal', signal = 'format', range = [0, 1], weight = 1.0, role = 'primary' },
  { name = 'result', kind = 'signal', signal = 'result', range = [0, 1], weight = 0.5, role = 'secondary' },
]
";

/// What every run here has.
pub(crate) const COMMON: &str = "--env tictactoe --model tiny --run r --threads 1 --answer-tokens 4 --json --quiet";

/// A folder with the model, a few games of a random player, and a short run by which the store has traces of the model.
static MADE: LazyLock<Desk> = LazyLock::new(|| {
    let words = "You play tic-tac-toe as X. Answer with the number of the cell: 1 2 3 4 5 6 7 8 9 O\n".repeat(9);
    let desk = Desk::with(&[("words.txt", &words), ("hone.toml", RECIPE)]);
    let model = "model add tiny:d32,l2,h2,kv1,ff64,v300,ctx512 --name tiny --corpus words.txt --json";
    desk.hone(model).expect(0, "tiny", "");
    desk.hone("rollout --env tictactoe --split train --policy random -n 6 --samples 4 --json --quiet").expect(
        0,
        "\"traces\":24",
        "",
    );
    let first = COMMON.replace("--run r", "--run first");
    let line = format!("train grpo {first} --steps 3 --scenarios 4 --samples 8 --validation 8 --validate-every 4");
    desk.hone(&line).expect(0, "\"reason\":\"steps\"", "");
    desk
});

impl Desk {
    /// A copy of that folder.
    pub(crate) fn of_practice() -> Self {
        let desk = Self::new();
        copy(MADE.folder.path(), desk.folder.path());
        desk
    }

    /// How a run stands: its last figures at every step without times and rates, and the states it keeps.
    pub(crate) fn standing(&self, run: &str) -> Value {
        let folder = format!(".hone/runs/{run}");
        let mut figures = json!({});
        for line in self.read(&format!("{folder}/metrics.jsonl")).lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            for (name, value) in line["values"].as_object().unwrap().iter().filter(|(name, _)| !name.ends_with("_s")) {
                figures[format!("{} {name}", line["step"])] = value.clone();
            }
        }
        let files = std::fs::read_dir(self.path(&format!("{folder}/states"))).unwrap();
        let mut states: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        states.sort();
        json!({"figures": figures, "states": states})
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
