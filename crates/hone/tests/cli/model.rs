//! `hone model` and `hone chat`: models come from paths, from a hub and from nothing, and speak.

use super::Desk;
use super::hub::{Hub, Trouble};

const SMALL: &str = "tiny:d32,l2,h2,kv1,ff48,v320,ctx128";

fn desk() -> Desk {
    let desk = Desk::with(&[("corpus.txt", "the quick brown fox jumps over the lazy dog 12 times, the fox said")]);
    desk.hone(&format!("model add {SMALL} --corpus corpus.txt --name small")).expect(0, "", "added small: ");
    desk
}

#[test]
fn a_model_from_nothing_is_listed_shown_and_speaks() {
    let desk = desk();
    desk.hone("model list").expect(0, "small  tiny:d32,l2,h2,kv1,ff48,v320,ctx128, seed 1", "");
    let shown = desk.hone("model show small --json").expect(0, "\"layers\":2", "").json();
    assert_eq!((&shown[0]["vocab"], &shown[0]["tool_format"]), (&320.into(), &"hermes".into()));
    desk.hone("model show small").expect(0, "2 layers of width 32, 2 heads on 1, SwiGLU 48", "");
    let said = |line: &str| desk.hone_reading(line, b"the fox\n\nand the dog?\n").expect(0, "\"first_token_s\"", "").json();
    let line = "chat small --json --max-tokens 12 --threads";
    let (one, two) = (said(&format!("{line} 1")), said(&format!("{line} 2")));
    assert_eq!(one.len(), 2);
    let texts = |answers: &[serde_json::Value]| answers.iter().map(|answer| answer["content"].clone()).collect::<Vec<_>>();
    assert_eq!(texts(&one), texts(&two));
    desk.hone("chat small -m fox --max-tokens 5 --quiet").expect(0, "\n", "");
    desk.hone("chat small -m fox --max-tokens 5 --temperature=-1").expect(2, "", "temperature = -1 is outside");
    // More is allowed than there is room for: the answer ends with the room at the latest.
    desk.hone("chat small -m fox --json").expect(0, "\"finish\"", "");
    desk.hone("chat small -m fox --context 500").expect(2, "", "--context 500 is outside 2..=128");
    let long = "fox ".repeat(200);
    desk.hone_reading("chat small", long.as_bytes()).expect(2, "", "the conversation is longer than 128 tokens");
}

#[test]
fn an_answer_follows_its_schema_and_its_stop_strings() {
    let desk = desk();
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":99}},"required":["n"],
                     "additionalProperties":false}"#;
    std::fs::write(desk.path("schema.json"), schema).unwrap();
    for seed in 1..4 {
        let line = format!("chat small -m fox --json --schema schema.json --max-tokens 60 --temperature 1 --seed {seed}");
        let said = desk.hone(&line).expect(0, "\"finish\":\"constraint\"", "").json();
        let answer: serde_json::Value = serde_json::from_str(said[0]["content"].as_str().unwrap()).unwrap();
        assert!(answer["n"].as_u64().is_some_and(|n| n < 100), "{said:?}");
    }
    std::fs::write(desk.path("schema.json"), r##"{"$ref":"#"}"##).unwrap();
    let says = "after 0 tokens no further one could be drawn\n\nhint: the schema allows none";
    desk.hone("chat small -m fox --schema schema.json").expect(2, "", says);
    std::fs::write(desk.path("schema.json"), r#"{"type":"nonsense"}"#).unwrap();
    desk.hone("chat small -m fox --schema schema.json").expect(2, "", "schema.json: ");
    let line = "chat small -m fox --max-tokens 80 --temperature 1 --seed 3";
    let whole = desk.hone(line).out;
    let stop = whole.trim().chars().find(char::is_ascii_lowercase).expect("a letter among eighty random tokens");
    let cut = desk.hone(&format!("{line} --stop {stop}")).expect(0, "\n", "tokens").out;
    assert!(!cut.contains(stop) && whole.starts_with(cut.trim_end_matches('\n')), "{whole:?} {cut:?}");
}

#[test]
fn a_path_stays_where_it_is_and_goes_out_again() {
    let desk = desk();
    desk.hone("model add .hone/models/small/files --name again").expect(0, "", "added again");
    desk.hone("model export again out").expect(0, "", "wrote out");
    desk.hone("model export again out").expect(2, "", "out is already there");
    assert_eq!(desk.read("out/tokenizer.json"), desk.read(".hone/models/small/files/tokenizer.json"));
    desk.hone("chat out -m fox --max-tokens 3").expect(0, "\n", "3 tokens");
    let missing = "error: nowhere/adapter_config.json: No such file or directory (os error 2)\n";
    desk.hone("chat out -m fox --adapter nowhere").expect(2, "", missing);
}

#[test]
fn an_export_says_where_answers_end() {
    let desk = desk();
    let json = |path: &str| serde_json::from_str::<serde_json::Value>(&desk.read(path)).unwrap();
    desk.hone("model export small out").expect(0, "", "wrote out");
    let tokenizer = json("out/tokenizer.json");
    let ends: Vec<_> = ["<|endoftext|>", "<|im_end|>"].map(|text| id_of(&tokenizer, text)).into();
    let (config, generation) = (json("out/config.json"), json("out/generation_config.json"));
    assert_eq!((&config["eos_token_id"], &config["bos_token_id"]), (&serde_json::json!(ends), &serde_json::Value::Null));
    assert_eq!((&generation["eos_token_id"], &generation["bos_token_id"]), (&config["eos_token_id"], &config["bos_token_id"]));

    // What the folder says itself goes out as it is.
    std::fs::write(desk.path("out/generation_config.json"), r#"{"eos_token_id":7,"temperature":0.6}"#).unwrap();
    desk.hone("model export out further").expect(0, "", "wrote further");
    assert_eq!(json("further/generation_config.json"), serde_json::json!({"eos_token_id": 7, "temperature": 0.6}));
    assert_eq!(json("further/config.json")["eos_token_id"].as_array().map(Vec::len), Some(3));
}

#[test]
fn templates_by_name_are_read_and_go_out_as_transformers_has_them() {
    let desk = desk();
    desk.hone("model export small out").expect(0, "", "wrote out");
    let shown = |model: &str| desk.hone(&format!("model show {model} --json")).json().remove(0);
    let without = shown("out")["tool_format"].clone();
    assert_eq!(without, "hermes", "the tokenizer's own template calls tools");
    let plain = "{% for m in messages %}{{ m.content }}{% endfor %}";
    std::fs::write(desk.path("out/chat_template.jinja"), plain).unwrap();
    assert_eq!(shown("out")["tool_format"], "none", "a file stands in the place of all that the tokenizer has");
    let folder = desk.path("out/additional_chat_templates");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("tool_use.jinja"), format!("{plain}<tool_call>")).unwrap();
    std::fs::write(folder.join("rag.jinja"), plain).unwrap();
    assert_eq!(shown("out")["tool_format"], "hermes", "with tools, the template for tools is used");
    desk.hone("chat out -m fox --max-tokens 3").expect(0, "\n", "3 tokens");
    desk.hone("model export out further").expect(0, "", "wrote further");
    for name in ["chat_template.jinja", "additional_chat_templates/tool_use.jinja", "additional_chat_templates/rag.jinja"] {
        assert_eq!(desk.read(&format!("further/{name}")), desk.read(&format!("out/{name}")), "{name}");
    }
}

#[test]
fn an_end_that_only_the_config_names_ends_an_answer() {
    let desk = desk();
    desk.hone("model export small out").expect(0, "", "wrote out");
    std::fs::remove_file(desk.path("out/generation_config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&desk.read("out/config.json")).unwrap();
    let all: Vec<u32> = (0..320).collect();
    config["eos_token_id"] = serde_json::json!(all);
    std::fs::write(desk.path("out/config.json"), config.to_string()).unwrap();
    desk.hone("chat out -m fox --max-tokens 5 --json").expect(0, "\"tokens\":1,", "");
}

/// The id of a special token in a `tokenizer.json`.
fn id_of(tokenizer: &serde_json::Value, text: &str) -> serde_json::Value {
    let added = tokenizer["added_tokens"].as_array().expect("added tokens");
    added.iter().find(|token| token["content"] == text).expect("a token of this text")["id"].clone()
}

#[test]
fn what_is_no_model_is_refused() {
    let desk = desk();
    desk.hone("model add nowhere").expect(2, "", "a model is a path, an id such as `organisation/model`, or `tiny:d128,l4`");
    desk.hone("model add tiny:d33,h2 --name odd").expect(2, "", "width 33 over 2 heads");
    desk.hone("model add tiny:x3").expect(2, "", "known parts are d l h kv ff v ctx");
    desk.hone("model add tiny:v100 --name less").expect(2, "", "has no room for the 263 that every text needs");
    desk.hone("model add .hone/models/small/files --corpus corpus.txt").expect(2, "", "--corpus has no effect here");
    desk.hone("model add tiny:d64 --name small").expect(2, "", "`small` is already the name of another model");
    desk.hone("model add tiny:d64 --name ../up").expect(2, "", "`../up` is not a name");
    desk.hone("chat nobody").expect(2, "", "there is no model `nobody`\n\nhint: there are small;");
    std::fs::create_dir(desk.path("pickled")).unwrap();
    std::fs::copy(desk.path(".hone/models/small/files/config.json"), desk.path("pickled/config.json")).unwrap();
    std::fs::write(desk.path("pickled/pytorch_model.bin"), b"\x80\x02}q\x00.").unwrap();
    desk.hone("model add pickled").expect(2, "", "reading it can run code");
    let weights = std::fs::read(desk.path(".hone/models/small/files/model.safetensors")).unwrap();
    desk.hone("model export small cut").expect(0, "", "wrote");
    std::fs::write(desk.path("cut/model.safetensors"), &weights[..weights.len() - 1]).unwrap();
    desk.hone("model add cut").expect(2, "", "cut/model.safetensors");
    let config = desk.read(".hone/models/small/files/config.json");
    let layers = |n: usize| config.replace("\"num_hidden_layers\": 2", &format!("\"num_hidden_layers\": {n}"));
    std::fs::write(desk.path("cut/model.safetensors"), &weights).unwrap();
    std::fs::write(desk.path("cut/config.json"), layers(3)).unwrap();
    desk.hone("model add cut").expect(2, "", "`model.layers.2.input_layernorm.weight` is missing");
    std::fs::write(desk.path("cut/config.json"), layers(1)).unwrap();
    desk.hone("model add cut").expect(2, "", "it has more layers than the 1 that its config says");
    std::fs::write(desk.path("cut/config.json"), config.replace("\"silu\"", "\"relu\"")).unwrap();
    let says = "cut/config.json: unsupported: hidden_act";
    desk.hone("model add cut").expect(2, "", says);
    desk.hone("model show cut").expect(2, "", says);
    desk.hone("chat cut").expect(2, "", says);
    desk.hone("model list").expect(0, "small", "");
}

#[test]
#[cfg(target_os = "linux")]
fn an_export_that_finds_no_room_leaves_nothing() {
    let desk = desk();
    let line = format!("trap '' 25; ulimit -f 8; exec '{}' model export small out", env!("CARGO_BIN_EXE_hone"));
    let mut limited = std::process::Command::new("sh");
    let ran = limited.args(["-c", &line]).current_dir(desk.path(".")).output().unwrap();
    assert!(!ran.status.success());
    let left: Vec<_> = std::fs::read_dir(desk.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!desk.path("out").exists() && !left.iter().any(|name| name.to_string_lossy().contains("partial")), "{left:?}");
}

#[test]
fn a_name_stands_for_one_model() {
    let desk = desk();
    let files = ".hone/models/small/files";
    let tokenizer = desk.read(&format!("{files}/tokenizer.json"));
    let add = |more: &str| desk.hone(&format!("model add {SMALL} --name small {more}"));
    add("--corpus corpus.txt").expect(0, "", "added small: ");
    std::fs::write(desk.path("other.txt"), "seven apples and eleven pears ".repeat(9)).unwrap();
    let says = "`small` is already the name of another model (tiny:d32,l2,h2,kv1,ff48,v320,ctx128, seed 1, of another --corpus)";
    add("--corpus other.txt").expect(2, "", says);
    add("").expect(2, "", "of another --corpus)\n\nhint: choose a name of its own");
    add("--corpus corpus.txt --seed 2").expect(2, "", "`small` is already the name of another model");
    assert_eq!(desk.read(&format!("{files}/tokenizer.json")), tokenizer);

    desk.hone("model export small one").expect(0, "", "wrote");
    desk.hone("model export small two").expect(0, "", "wrote");
    desk.hone("model add one --name out").expect(0, "", "added out");
    desk.hone("model add one --name out").expect(0, "", "added out");
    desk.hone("model add two --name out").expect(2, "", "`out` is already the name of another model (path /");
    assert!(desk.read(".hone/models/out/model.json").contains("/one\""));
}

#[test]
fn a_name_that_another_process_is_adding_is_refused() {
    let desk = desk();
    desk.hone("model export small out").expect(0, "", "wrote");
    let held = std::fs::File::open(desk.path(".hone/models/small")).unwrap();
    held.lock().unwrap();
    for line in ["model add tiny:d64 --name small", "model add out --name small", "model add org/small"] {
        desk.hone(line).expect(2, "", "`small` is being added by another process");
    }
    desk.hone("model add out --name other").expect(0, "", "added other");
    drop(held);
    desk.hone("model add out --name small").expect(2, "", "`small` is already the name of another model");
}

#[test]
fn more_threads_than_can_be_are_refused() {
    let desk = Desk::new();
    for line in ["chat m", "train grpo --run r --model m", "rollout --env 2048 --policy local:m", "serve", "loop", "bench grpo"] {
        for n in ["0", "1025", "100000"] {
            desk.hone(&format!("{line} --threads={n}")).expect(2, "", &format!("{n} is not in 1..=1024"));
        }
    }
}

#[test]
fn a_real_model_answers() {
    let Some(path) = super::real_model() else {
        println!("skipped: HONE_TEST_SMOLLM2 does not name the GGUF file of SmolLM2-135M-Instruct");
        return;
    };
    let desk = Desk::new();
    desk.hone(&format!("model add {path} --name smollm2")).expect(0, "", "added smollm2: 134515008 parameters");
    let ask = |thread: &str| {
        let line = format!("chat smollm2 --json --temperature 0 --max-tokens 24 --threads {thread}");
        desk.hone_reading(&line, b"What is the capital of France?\nAnd of Italy?\n").expect(0, "Paris", "").json()
    };
    let (one, two) = (ask("1"), ask("2"));
    assert_eq!(one[1]["content"], two[1]["content"]);
    assert!(one[1]["content"].as_str().unwrap().contains("Rome"), "{one:?}");
}

#[test]
fn a_hub_is_fetched_resumed_and_checked() {
    let desk = desk();
    let files = desk.path(".hone/models/small/files");
    let hub = Hub::serve(&files, Trouble::None);
    let fresh = || Desk::new().set("HF_ENDPOINT", &hub.address());
    let other = fresh();
    other.hone("model add org/Small-1").expect(0, "", "added small-1: ");
    other.hone("model list").expect(0, "small-1  org/Small-1@main", "");
    let copy = other.path(".hone/models/small-1/files");
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        assert_eq!(std::fs::read(copy.join(name)).unwrap(), std::fs::read(files.join(name)).unwrap(), "{name}");
    }
    assert!(!copy.join("README.md").exists());
    assert!(other.read(".hone/models/small-1/model.json").contains("0123456789abcdef0123456789abcdef01234567"));
    let n_before = hub.n_bytes_sent();
    other.hone("model add org/Small-1").expect(0, "", "added small-1: ");
    assert!(hub.n_bytes_sent() - n_before < 4096, "what is there is not fetched again");
    let config = std::fs::read_to_string(copy.join("config.json")).unwrap();
    std::fs::write(copy.join("config.json"), config.replace("llama", "LLAMA")).unwrap();
    other.hone("model add org/Small-1").expect(0, "", "added small-1: ");
    assert_eq!(std::fs::read_to_string(copy.join("config.json")).unwrap(), config, "what was changed is fetched again");
    let record = other.read(".hone/models/small-1/model.json");
    std::fs::write(other.path(".hone/models/small-1/model.json"), record.replace("0123456789", "9876543210")).unwrap();
    let says = "`small-1` is already the name of another model (org/Small-1@main at commit 98765432";
    other.hone("model add org/Small-1").expect(2, "", says);
    fresh().hone("model add org/nothing").expect(2, "", "the hub has nothing there");

    let hub = Hub::serve(&files, Trouble::CutsAfter(1000));
    let other = Desk::new().set("HF_ENDPOINT", &hub.address());
    other.hone("model add org/small").expect(0, "", "added small: ");
    assert_eq!(std::fs::read(other.path(".hone/models/small/files/model.safetensors")).unwrap().len(), {
        std::fs::read(files.join("model.safetensors")).unwrap().len()
    });
    assert!(hub.ranges().contains(&"bytes=1000-".to_owned()), "{:?}", hub.ranges());

    let hub = Hub::serve(&files, Trouble::Changes);
    let other = Desk::new().set("HF_ENDPOINT", &hub.address());
    other.hone("model add org/small").expect(2, "", ", and the hub says ");
    other.hone("model list").expect(0, "", "no model was added yet");
    assert!(!other.path(".hone/models/small/files/model.safetensors").exists());

    let hub = Hub::serve(&files, Trouble::Lengthens);
    let other = Desk::new().set("HF_ENDPOINT", &hub.address());
    other.hone("model add org/small").expect(2, "", "the hub sends more than the");
}

#[test]
fn a_part_that_is_longer_than_its_file_is_begun_anew() {
    let desk = desk();
    let files = desk.path(".hone/models/small/files");
    let hub = Hub::serve(&files, Trouble::None);
    let other = Desk::new().set("HF_ENDPOINT", &hub.address());
    let copy = other.path(".hone/models/small/files");
    std::fs::create_dir_all(&copy).unwrap();
    let weights = std::fs::read(files.join("model.safetensors")).unwrap();
    // What an interrupted transfer left of a larger file, before the branch moved.
    std::fs::write(copy.join("model.safetensors.part"), vec![7; weights.len() + 1]).unwrap();
    other.hone("model add org/small").expect(0, "", "added small: ");
    assert_eq!(std::fs::read(copy.join("model.safetensors")).unwrap(), weights);
}

#[test]
fn a_hub_that_does_not_answer_is_named() {
    let desk = Desk::new().set("HF_ENDPOINT", "http://127.0.0.1:9");
    desk.hone("model add org/small").expect(2, "", "http://127.0.0.1:9/api/models/org/small/revision/main");
}

#[test]
fn a_shape_stands_for_a_model_that_knows_nothing() {
    let desk = Desk::new();
    let shown = desk.hone("model show random:qwen2.5-7b");
    shown.expect(0, "28 layers of width 3584, 28 heads on 4, SwiGLU 18944", "");
    desk.hone("model show random:gpt-9").expect(2, "", "smollm2-135m, qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-7b, llama-3.1-8b");
    desk.hone("chat random:smollm2-135m --max-tokens 2 --context 64 --message hello --json").expect(0, "\"tokens\":2", "");
}
