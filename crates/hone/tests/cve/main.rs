//! Public failures of systems in this field, each as a test that it cannot happen here. The numbers are those of the
//! security page: V1 and V9 are also kept by `cargo xtask tidy`, which looks at the source itself.

use std::process::{Command, Stdio};

struct Ended {
    code: i32,
    out: String,
    err: String,
}

fn hone(folder: &tempfile::TempDir, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_hone"))
        .args(words)
        .current_dir(folder.path())
        .env_clear()
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the binary of this package");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

fn desk(line: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    std::fs::write(folder.path().join("in.jsonl"), line).expect("a file for the test");
    folder
}

/// V1: text of a request became part of a query.
#[test]
fn v1_what_a_user_writes_is_never_sql() {
    let hostile = "x' OR 1=1; DROP TABLE traces; --";
    let folder = desk(r#"{"messages":[{"role":"user","content":"Hi"}],"category":"plain"}"#);
    assert_eq!(hone(&folder, &["trace", "import", "in.jsonl"], &[]).code, 0);
    for filter in ["--category", "--tenant"] {
        let found = hone(&folder, &["trace", "list", filter, hostile], &[]);
        assert_eq!((found.code, found.out.as_str()), (0, ""), "{filter}: {}", found.err);
    }
    let by_field = format!("metadata.category={hostile}");
    assert_eq!(hone(&folder, &["trace", "list", "--field", &by_field], &[]).out, "");
    let by_path = format!("metadata.{hostile}=x");
    assert_eq!(hone(&folder, &["trace", "list", "--field", &by_path], &[]).out, "");
    let all = hone(&folder, &["trace", "list", "--json"], &[]);
    assert_eq!(all.out.lines().count(), 1, "the table is still there: {}", all.err);
}

const SMALL: &str = "tiny:d32,l1,h2,kv1,ff48,v320,ctx128";

/// A desk with a small model in `.hone/models/tiny/files`.
fn desk_with_model() -> tempfile::TempDir {
    let folder = desk("");
    assert_eq!(hone(&folder, &["model", "add", SMALL], &[]).code, 0);
    folder
}

/// V8: a model file ran code when it was opened.
#[test]
fn v8_no_model_file_runs_code() {
    let folder = desk_with_model();
    let files = folder.path().join(".hone/models/tiny/files");
    // Code that a config names is not even looked at.
    let config = std::fs::read_to_string(files.join("config.json")).expect("the config");
    let named = config.replacen('{', r#"{"auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"},"#, 1);
    std::fs::write(files.join("config.json"), named).expect("a config");
    std::fs::write(files.join("evil.py"), "open('owned', 'w')").expect("a file");
    let said = hone(&folder, &["chat", "tiny", "-m", "hi", "--max-tokens", "2"], &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    // A pickle that calls os.system, under any name, alone and inside the ZIP that torch writes.
    let pickle = b"\x80\x02cposix\nsystem\nX\x0b\x00\x00\x00touch owned\x85R.";
    let zip = [b"PK\x03\x04".as_slice(), pickle].concat();
    std::fs::remove_file(files.join("model.safetensors")).expect("the weights");
    for (name, bytes) in [("pytorch_model.bin", pickle.as_slice()), ("pytorch_model.bin", &zip), ("model.safetensors", pickle)] {
        std::fs::write(files.join(name), bytes).expect("weights");
        let refused = hone(&folder, &["chat", "tiny", "-m", "hi"], &[]);
        assert_eq!(refused.code, 2, "{name}: {}", refused.out);
    }
    std::fs::write(folder.path().join("model.gguf"), pickle).expect("weights");
    assert_eq!(hone(&folder, &["model", "add", "model.gguf"], &[]).code, 2);
    assert!(!folder.path().join("owned").exists() && !files.join("owned").exists());
}

/// V10: a chat template reached into the program that ran it, or ran for ever.
#[test]
fn v10_a_template_has_no_way_out_and_an_end() {
    let folder = desk_with_model();
    let path = folder.path().join(".hone/models/tiny/files/tokenizer_config.json");
    let config = std::fs::read_to_string(&path).expect("the config");
    let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    for hostile in [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('touch owned').read() }}",
        "{% include '/etc/passwd' %}",
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{% set n = namespace(x='y') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 'x' * 100000000000 }}",
    ] {
        config["chat_template"] = hostile.into();
        std::fs::write(&path, config.to_string()).expect("a config");
        let refused = hone(&folder, &["chat", "tiny", "-m", "hi"], &[]);
        assert_eq!(refused.code, 2, "{hostile}: {}", refused.out);
        assert!(!refused.err.contains("a mistake in hone"), "{hostile}: {}", refused.err);
    }
    assert!(!folder.path().join("owned").exists());
}

/// V13: the key of a telemetry attribute became a program.
#[test]
fn v13_attribute_keys_are_text_and_no_more() {
    let attribute = |key: &str| format!(r#"{{"key":"{key}","value":{{"stringValue":"x"}}}}"#);
    let keys = ["__proto__.polluted", "constructor.prototype.x", "llm.input_messages.4294967295.message.role", "hone.tenant"];
    let attributes: Vec<String> = keys.iter().map(|key| attribute(key)).collect();
    let line = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"chat m","kind":3,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","attributes":[{{"key":"gen_ai.operation.name","value":{{"stringValue":"chat"}}}},{{"key":"tenant","value":{{"stringValue":"victim"}}}},{}]}}]}}]}}]}}"#,
        attributes.join(",")
    );
    let folder = desk(&line);
    let imported = hone(&folder, &["trace", "import", "in.jsonl"], &[]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    let mine = hone(&folder, &["trace", "list", "--json"], &[]);
    assert!(mine.out.contains(r#""tenant":"default""#), "whose data it is comes from the settings alone: {}", mine.out);
    assert_eq!(hone(&folder, &["trace", "list", "--tenant", "victim", "--json"], &[]).out, "");
}

/// V14: work without a bound before the limit was looked at.
#[test]
fn v14_a_line_without_end_is_refused_in_bounded_memory() {
    let folder = desk("");
    let path = folder.path().join("in.jsonl");
    let mut text = String::from(r#"{"messages":[{"role":"user","content":""#);
    text.push_str(&"x".repeat(80 << 20));
    std::fs::write(&path, text).expect("a large file");
    let ended = hone(&folder, &["trace", "import", "in.jsonl"], &[]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.err.contains("in.jsonl:1:") && ended.err.contains("at most"), "{}", ended.err);
}

/// V15: an error told a secret.
#[test]
fn v15_no_output_holds_a_password() {
    let folder = desk(r#"{"messages":[{"role":"user","content":"Hi"}]}"#);
    let canary = "planted-canary-7f3a";
    let url = format!("postgres://user:{canary}@127.0.0.1:1/db");
    let commands: [&[&str]; 6] = [
        &["trace", "import", "in.jsonl"],
        &["trace", "list"],
        &["doctor"],
        &["doctor", "--json"],
        &["config", "show", "--json"],
        &["store", "info"],
    ];
    for words in commands {
        let ended = hone(&folder, words, &[("HONE_DATABASE_URL", &url)]);
        assert!(!(ended.out + &ended.err).contains(canary), "hone {}", words.join(" "));
    }
    let garbled = format!("postgres:/user:{canary}@127.0.0.1/db");
    let ended = hone(&folder, &["trace", "list"], &[("HONE_DATABASE_URL", &garbled)]);
    assert_eq!(ended.code, 2);
    assert!(!(ended.out + &ended.err).contains(canary));
}
