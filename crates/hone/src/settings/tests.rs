//! One folder, one file, one command line and one environment in; settings or an error out.

use super::*;

#[derive(Default)]
struct Case<'a> {
    file: Option<&'a str>,
    variables: Vec<(&'a str, &'a str)>,
    flags: Flags,
}

fn load(case: &Case<'_>) -> (tempfile::TempDir, Result<Settings, Failure>) {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    if let Some(text) = case.file {
        std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
    }
    let mut variables = Variables::default();
    for &pair in &case.variables {
        variables = variables.with(pair);
    }
    let settings = Settings::load(&case.flags, &variables, &below);
    (folder, settings)
}

fn origins(case: &Case<'_>) -> Vec<(String, String)> {
    let (folder, settings) = load(case);
    let root = format!("{}/", folder.path().display());
    let shown = settings.unwrap().shown.into_iter().filter(|setting| setting.origin != Origin::Default);
    shown.map(|setting| (setting.key.path(), setting.origin.to_string().replace(&root, ""))).collect()
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let file = Some("\n[store]\ntenant = 'from-file'\nindexed_fields = ['a']\n");
    let pair = |path: &str, origin: &str| (path.to_owned(), origin.to_owned());
    assert_eq!(origins(&Case::default()), []);
    assert_eq!(
        origins(&Case { file, ..Case::default() }),
        [pair("store.indexed_fields", "hone.toml:4"), pair("store.tenant", "hone.toml:3")]
    );
    let variables = vec![("HONE_STORE_TENANT", "from-environment")];
    assert_eq!(
        origins(&Case { file, variables: variables.clone(), ..Case::default() }),
        [pair("store.indexed_fields", "hone.toml:4"), pair("store.tenant", "HONE_STORE_TENANT")]
    );
    let flags = Flags { tenant: Some("from-flag".to_owned()), ..Flags::default() };
    let (_folder, settings) = load(&Case { file, variables, flags });
    assert_eq!(settings.unwrap().tenant.as_str(), "from-flag");
}

#[test]
fn a_folder_is_relative_to_who_names_it() {
    let folder_of = |case: &Case<'_>| {
        let (root, settings) = load(case);
        settings.unwrap().folder.strip_prefix(root.path()).unwrap().display().to_string()
    };
    assert_eq!(folder_of(&Case::default()), "a/b/.hone");
    assert_eq!(folder_of(&Case { file: Some(""), ..Case::default() }), ".hone");
    assert_eq!(folder_of(&Case { file: Some("store.folder = 'x'"), ..Case::default() }), "x");
    assert_eq!(folder_of(&Case { file: Some(""), variables: vec![("HONE_STORE_FOLDER", "x")], ..Case::default() }), "a/b/x");
    let flags = Flags { folder: Some("x".into()), ..Flags::default() };
    assert_eq!(folder_of(&Case { file: Some("store.folder = 'y'"), flags, ..Case::default() }), "a/b/x");
}

#[test]
fn answers_are_many_unless_one_is_said() {
    let answers_of = |file: Option<&str>, variables: &[(&'static str, &'static str)]| {
        load(&Case { file, variables: variables.to_vec(), ..Case::default() }).1.unwrap().answers
    };
    assert_eq!(answers_of(None, &[]), Answers::Many);
    assert_eq!(answers_of(Some("model.answers = 'one'"), &[]), Answers::One);
    assert_eq!(answers_of(Some("model.answers = 'one'"), &[("HONE_MODEL_ANSWERS", "many")]), Answers::Many);
}

#[test]
fn thrift_is_in_points_of_success() {
    let thrift = load(&Case { file: Some("serve.cost_points = 30"), ..Case::default() }).1.unwrap().thrift;
    assert_eq!(thrift, Thrift { cost: 0.3, ..Thrift::default() });
}

#[test]
fn what_is_wrong_is_named() {
    let url = |text: &str| Flags { database_url: Some(text.to_owned()), ..Flags::default() };
    let check = |case: &Case<'_>, text: &str| {
        let (_folder, settings) = load(case);
        let failure = settings.err().unwrap();
        assert!(failure.to_string().contains(text), "{failure}");
        assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
    };
    let file = |text| Case { file: Some(text), ..Case::default() };
    check(&file("[store]\nfoldr = 'x'"), "hone.toml:2: `[store]` has no key `foldr`");
    check(&file("\n[store]\ntenant = ''"), "hone.toml:3: `store.tenant`: a tenant must not be empty");
    check(&file("trace.import_batch = 0"), "hone.toml:1: `trace.import_batch`: 0 is not between 1 and 10000");
    check(&file("serve.cost_points = 101"), "hone.toml:1: `serve.cost_points`: 101 is not between 0 and 100");
    check(&file("model.answers = 'two'"), "hone.toml:1: `model.answers`: `two` is no number of answers: write many or one");
    check(&file("store.indexed_fields = ['a..b']"), "`a..b` is not a path");
    check(&file("store.folder = ''"), "a folder must have a name");
    check(&Case { flags: url("mysql://u:canary@h/d"), ..Case::default() }, "--database-url: `store.database_url`: an address");
    let both = Flags { folder: Some("x".into()), ..url("postgres://u:canary@h/d") };
    check(&Case { flags: both, ..Case::default() }, "`--folder` has no effect");
    let missing = Flags { config: Some("nowhere.toml".into()), ..Flags::default() };
    check(&Case { flags: missing, ..Case::default() }, "nowhere.toml: No such file");
}

#[test]
fn keys_of_servers_stay_hidden_in_what_is_shown() {
    let keys = vec![("HONE_MODEL_KEYS", "https://a.example/v1=canary,http://b.example:8000=canary==")];
    let (_folder, settings) = load(&Case { variables: keys, ..Case::default() });
    let settings = settings.unwrap();
    assert_eq!(settings.keys.addresses().count(), 2);
    let shown = settings.told().into_iter().find(|(path, ..)| path == "model.keys").unwrap().1;
    assert_eq!(shown, serde_json::json!(["https://a.example/v1=***", "http://b.example:8000/=***"]));
    assert!(!format!("{settings:?}").contains("canary"));
    let (_folder, refused) = load(&Case { file: Some("model.keys = ['a.example=canary']"), ..Case::default() });
    let refused = format!("{:?}", refused.unwrap_err());
    assert!(
        refused.contains("hone.toml:1: `model.keys`: number 1 is not ADDRESS=KEY") && !refused.contains("canary"),
        "{refused}"
    );
}

#[test]
fn the_password_stays_hidden_in_what_is_shown() {
    let flags = Flags { database_url: Some("postgres://u:canary@h/d".to_owned()), ..Flags::default() };
    let (_folder, settings) = load(&Case { flags, ..Case::default() });
    let settings = settings.unwrap();
    assert_eq!(settings.place, Place::Postgres("postgres://u:canary@h/d".to_owned()));
    assert!(!format!("{:?}", settings.shown).contains("canary"));
}
