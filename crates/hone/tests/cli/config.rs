//! `hone init` and `hone config show`: where settings come from, and what is said when they are wrong.

use super::Desk;

#[test]
fn init_writes_once() {
    let desk = Desk::new();
    desk.hone("init").expect(0, "", "wrote hone.toml");
    assert!(desk.read("hone.toml").contains("\n# folder = \".hone\"\n"));
    desk.hone("config show --json").expect(0, "\"from\":\"default\"", "");
    std::fs::write(desk.path("hone.toml"), "[store]\ntenant = 'mine'\n").unwrap();
    desk.hone("init").expect(1, "", "hone.toml is already there");
    assert!(desk.read("hone.toml").contains("mine"));
    desk.hone("init --force --json").expect(0, "{\"file\":\"hone.toml\"}", "");
    assert!(!desk.read("hone.toml").contains("mine"));
}

#[test]
fn every_value_says_where_it_comes_from() {
    let desk =
        Desk::with(&[("hone.toml", "[store]\n\nindexed_fields = ['metadata.customer']\n")]).set("HONE_STORE_TENANT", "acme");
    let ended = desk.hone("config show --folder elsewhere --json");
    let shown = &ended.json()[0]["settings"];
    let from = |key: &str| shown[key]["from"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    for (key, expected) in [
        ("store.folder", "--folder"),
        ("store.tenant", "HONE_STORE_TENANT"),
        ("store.indexed_fields", "hone.toml:3"),
        ("trace.import_batch", "default"),
    ] {
        assert_eq!(from(key), expected);
    }
    desk.hone("config show").expect(0, "HONE_STORE_TENANT", "");
}

#[test]
fn recipes_and_settings_of_training_are_shown_too() {
    let recipe = "[reward.desk]\ncomponents = [{ name = 'solved', kind = 'outcome', weight = 1.0, role = 'primary' }]\n";
    let desk = Desk::with(&[("hone.toml", &format!("{recipe}[train.grpo]\nlr = 0.5\n"))]);
    let shown = &desk.hone("config show --json").json()[0]["settings"];
    assert_eq!(
        (&shown["train.grpo.lr"]["value"], &shown["reward.desk.components"]["value"][0]["kind"]),
        (&0.5.into(), &"outcome".into())
    );
    assert!(shown["train.grpo.lr"]["from"].as_str().unwrap().ends_with("hone.toml"), "{shown}");
    assert_eq!(shown.as_object().unwrap().keys().filter(|key| key.starts_with("train.")).count(), 1, "{shown}");
    desk.hone("config show").expect(0, "train.grpo.lr", "").expect(0, "reward.desk.components", "");
    desk.hone("docs cli --json").expect(2, "", "`--json` has no effect");
}

#[test]
fn what_is_wrong_is_named_with_its_neighbour() {
    for (file, line, err, hint) in [
        ("[store]\nfoldr = 'x'", "config show", "hone.toml:2: `[store]` has no key `foldr`", "hint: did you mean `folder`?"),
        ("[stoer]\nfolder = 'x'", "config show", "hone.toml:2: there is no table `[stoer]`", "hint: did you mean `[store]`?"),
        ("[store]\nfolder = 3", "config show", "must be a text in quotes, but here stands a whole number", ""),
        ("[store\n", "trace list", "hone.toml:1: ", ""),
        ("", "config show --config nowhere.toml", "nowhere.toml: No such file", ""),
        ("", "config show --database-url mysql://u:canary@h/d", "--database-url: `store.database_url`", "hint: leave it empty"),
    ] {
        let desk = Desk::with(&[("hone.toml", file)]);
        let ended = desk.hone(line).expect(2, "", err).expect(2, "", "error: ");
        assert!(ended.err.contains(hint) && !ended.err.contains("canary"), "{}", ended.err);
    }
    let desk = Desk::new().set("HONE_DATABSE_URL", "postgres://u:canary@h/d");
    let ended = desk.hone("config show").expect(2, "", "HONE_DATABSE_URL sets nothing").expect(2, "", "HONE_DATABASE_URL");
    assert!(!ended.err.contains("canary"));
}

#[test]
fn a_password_is_never_printed() {
    // Nobody listens on port 1, so that the database cannot be opened.
    let desk = Desk::new().set("HONE_DATABASE_URL", "postgres://user:canary@127.0.0.1:1/db");
    for line in ["config show", "config show --json", "doctor", "doctor --json", "trace list", "trace export", "trace import -"] {
        let ended = desk.hone(line);
        assert!(!ended.out.contains("canary") && !ended.err.contains("canary"), "{line}: {}{}", ended.out, ended.err);
    }
    desk.hone("config show").expect(0, "postgres://user:***@127.0.0.1:1/db", "");
}

#[test]
fn a_machine_is_chosen_by_flag_file_or_variable() {
    let desk = Desk::with(&[("hone.toml", "[model]\ndevice = 'auto'\n")]);
    desk.hone("config show").expect(0, "auto", "");
    desk.hone("config show --device cpu").expect(0, "--device", "");
    desk.hone("config show --device tpu").expect(2, "", "`tpu` is no machine: write cpu, cuda or auto");
}
