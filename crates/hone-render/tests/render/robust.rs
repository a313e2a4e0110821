//! Hostile and broken input ends in an error that says what is wrong, never in a panic.

use crate::{tiny, user};
use hone_engine::gguf::Value;
use hone_render::template::Template;
use hone_render::{Ending, Setting, Tokenizer};
use hone_trace::{Message, Role, ToolRequest};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

fn sound() -> Json {
    let files = hone_render::tiny::build(["a b c"], 300).expect("room enough");
    serde_json::from_str(&files.tokenizer).expect("JSON")
}

fn check_refused(change: impl FnOnce(&mut Json), says: &str) {
    let mut tokenizer = sound();
    change(&mut tokenizer);
    let error = Tokenizer::from_json(tokenizer.to_string().as_bytes(), None).expect_err("must be refused").to_string();
    assert!(error.contains(says), "{error}");
}

#[test]
fn broken_tokenizers_are_named() {
    assert!(Tokenizer::from_json(sound().to_string().as_bytes(), None).is_ok(), "the test itself");
    check_refused(|t| t["model"]["type"] = json!("Unigram"), "Unigram");
    check_refused(|t| t["model"]["vocab"] = json!(3), "vocab");
    check_refused(|t| t["model"]["vocab"]["a"] = json!(4_000_000_000u32), "4000000000");
    check_refused(|t| t["model"]["vocab"]["zz"] = json!(0), "taken");
    check_refused(|t| t["model"]["merges"] = json!([["q", "r"]]), "model");
    check_refused(|t| t["model"]["dropout"] = json!(0.5), "dropout");
    check_refused(|t| t["model"]["end_of_word_suffix"] = json!("</w>"), "end_of_word_suffix");
    check_refused(|t| t["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0}), "FixedLength");
    check_refused(|t| t["pre_tokenizer"]["pattern"] = json!({"Regex": "("}), "pre_tokenizer");
    check_refused(|t| t["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"}), "Precompiled");
    check_refused(|t| t["decoder"] = json!({"type": "CTC"}), "CTC");
    check_refused(|t| t["added_tokens"][0] = json!({"id": -1}), "added_tokens");
    check_refused(|t| t["added_tokens"][0]["id"] = json!(99_999_999), "99999999");
    let doubled = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let rules = |part: &Json, n: usize| json!({"type": "Sequence", "normalizers": vec![part.clone(); n]});
    check_refused(|t| t["normalizer"] = rules(&doubled, 30), "times longer");
    check_refused(|t| t["normalizer"] = rules(&json!({"type": "Prepend", "prepend": "x".repeat(99)}), 1), "times longer");
    check_refused(|t| t["normalizer"] = rules(&rules(&json!({"type": "Sequence"}), 20), 2), "parts");
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    check_refused(|t| t["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": vec![byte_level; 9]}), "times longer");
    check_refused(|t| t["decoder"] = doubled, "makes tokens longer");
    let halved = json!({"type": "Replace", "pattern": {"String": "aa"}, "content": "a"});
    check_refused(|t| t["decoder"] = json!({"type": "Sequence", "decoders": vec![halved; 99]}), "parts");
    check_refused(|t| t["added_tokens"][0]["content"] = json!("x".repeat(1000)), "longer than");
    let error = Tokenizer::from_json(b"{", None).expect_err("not JSON").to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
    let error = Tokenizer::from_json(&vec![b' '; hone_render::JSON_LEN_MAX + 1], None).expect_err("too long").to_string();
    assert!(error.contains("MiB"), "{error}");
}

#[test]
fn broken_gguf_headers_are_named() {
    let check = |values: &[(&str, Value)], says: &str| {
        let values: BTreeMap<String, Value> =
            values.iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value.clone())).collect();
        let error = Tokenizer::from_gguf(&values).expect_err("must be refused").to_string();
        assert!(error.contains(says), "{error}");
    };
    let tokens = ("tokens", Value::Texts(vec!["a".into(), "b".into()]));
    let text = |text: &str| Value::Text(text.into());
    check(&[], "tokens");
    check(&[("tokens", Value::Texts(vec!["a".into(), "a".into()]))], "twice");
    check(&[("tokens", Value::Texts(vec!["a".repeat(2000)]))], "longer than");
    check(&[tokens.clone(), ("model", text("bert"))], "bert");
    check(&[tokens.clone(), ("model", text("gpt2"))], "merges");
    check(&[tokens.clone(), ("model", text("gpt2")), ("merges", Value::Texts(vec![])), ("pre", text("odd"))], "odd");
    check(&[tokens.clone(), ("model", text("gpt2")), ("merges", Value::Texts(vec!["x y".into()]))], "model");
    check(&[tokens, ("model", text("llama")), ("scores", Value::Floats(vec![0.0]))], "scores");
}

/// A SentencePiece vocabulary: merges come from scores, unknown characters from bytes.
#[test]
fn sentence_piece_vocabularies_work_by_scores() {
    let mut tokens: Vec<(String, f32, i64)> = vec![("<unk>".into(), 0.0, 2), ("<s>".into(), 0.0, 3), ("</s>".into(), 0.0, 3)];
    tokens.extend((0..256).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    let pieces = [("▁ab", -1.0), ("ab", -2.0), ("▁a", -3.0), ("bc", -4.0), ("▁", -5.0), ("a", -6.0), ("b", -7.0), ("c", -8.0)];
    tokens.extend(pieces.map(|(text, score)| (text.to_owned(), score, 1)));
    let values = BTreeMap::from([
        ("tokenizer.ggml.model".to_owned(), Value::Text("llama".into())),
        ("tokenizer.ggml.tokens".to_owned(), Value::Texts(tokens.iter().map(|token| token.0.clone()).collect())),
        ("tokenizer.ggml.scores".to_owned(), Value::Floats(tokens.iter().map(|token| token.1).collect())),
        ("tokenizer.ggml.token_type".to_owned(), Value::Ints(tokens.iter().map(|token| token.2).collect())),
        ("tokenizer.ggml.bos_token_id".to_owned(), Value::U64(1)),
        ("tokenizer.ggml.eos_token_id".to_owned(), Value::U64(2)),
    ]);
    let tokenizer = Tokenizer::from_gguf(&values).expect("a known tokenizer");
    let pieces = |text: &str| -> Vec<String> {
        let ids = tokenizer.encode(text).expect("ids");
        ids.iter().map(|&id| String::from_utf8_lossy(tokenizer.bytes(id)).into_owned()).collect()
    };
    assert_eq!(pieces("abc abc"), [" ab", "c", " ab", "c"]);
    assert_eq!(pieces("bc"), [" ", "bc"]);
    assert_eq!(tokenizer.encode("é").expect("ids")[1..], [3 + 0xc3, 3 + 0xa9]);
    assert_eq!(tokenizer.decode(&tokenizer.encode("abc </s>é\n").expect("ids")), "abc </s>é\n");
    assert_eq!((tokenizer.bos_id(), tokenizer.eos_ids()), (Some(1), &[2][..]));
}

/// JSON that looks like a tokenizer, with parts torn out and replaced.
fn torn() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(0)),
        Just(json!(-1)),
        Just(json!("")),
        Just(json!([])),
        Just(json!({})),
        Just(json!(true)),
        Just(json!([["a", "b"]])),
        Just(json!({"type": "Sequence"})),
        Just(json!({"type": "Metaspace", "replacement": ""})),
        Just(json!({"type": "Split", "pattern": {"Regex": "x*"}, "behavior": "Removed", "invert": true})),
        Just(json!({"type": "Prepend", "prepend": ""})),
        Just(json!({"type": "Digits"})),
        "\\PC{0,8}".prop_map(Json::from),
    ];
    let places = [
        "/normalizer",
        "/pre_tokenizer",
        "/decoder",
        "/model",
        "/model/vocab",
        "/model/vocab/a",
        "/model/merges",
        "/model/unk_token",
        "/model/byte_fallback",
        "/added_tokens",
        "/added_tokens/1",
        "/added_tokens/1/content",
        "/added_tokens/1/id",
        "/pre_tokenizer/pattern",
        "/pre_tokenizer/behavior",
        "/decoder/decoders/0",
    ];
    proptest::collection::vec((proptest::sample::select(places.to_vec()), leaf), 1..4).prop_map(|changes| {
        let mut tokenizer = sound();
        for (place, value) in changes {
            if let Some(part) = tokenizer.pointer_mut(place) {
                *part = value;
            }
        }
        tokenizer.to_string()
    })
}

/// A template without words for calls would leave an answer that calls a tool empty.
#[test]
fn calls_that_a_template_does_not_write_are_no_answer() {
    let call = ToolRequest { id: "a".into(), name: "find".into(), arguments: "{}".into(), extra: serde_json::Map::new() };
    let answer = Message { tool_calls: vec![call], ..Message::text(Role::Assistant, "") };
    let rendered = |template: &str| tiny(Some(template)).answer_ids(&[user("so")], &answer, &Setting::default(), &[]).map(drop);
    let plain = "{% for m in messages %}{{ '<|im_start|>' + m['content'] + '<|im_end|>' }}{% endfor %}";
    let refused = rendered(plain).expect_err("no words").to_string();
    assert!(refused.starts_with("message 1 calls tools, and the chat template of this model has no words"), "{refused}");
    let with_calls = plain.replace("m['content']", "m['content'] + (m.tool_calls | default([]) | tojson)");
    assert!(rendered(&with_calls).is_ok());
}

/// Clients send a text as a list of parts, which most templates would join with other texts as it stands.
#[test]
fn parts_that_are_texts_are_one_text_to_templates_that_take_no_lists() {
    let said =
        |parts: Json| Message { content: hone_trace::Content::Parts(parts.as_array().expect("a list").clone()), ..user("") };
    let rendered = |template: &str, message: Message| {
        tiny(Some(template))
            .render(&[user("so"), message], &Setting::default(), Ending::Message)
            .map(|rendered| format!("{rendered:?}"))
    };
    let plus =
        "{% for message in messages if message.content %}{{ '<|im_start|>' + message['content'] + '<|im_end|>' }}{% endfor %}";
    let parts = json!([{"type": "text", "text": "it is"}, {"type": "text", "text": "sunny"}]);
    assert_eq!(rendered(plus, said(parts.clone())), rendered(plus, user("it is\nsunny")));
    let picture = json!([{"type": "text", "text": "it is"}, {"type": "image_url", "image_url": {"url": "data:,"}}]);
    let refused = rendered(plus, said(picture.clone())).expect_err("no text").to_string();
    assert_eq!(
        refused,
        "message 1 has a part of type `image_url`, and this model reads text alone: leave it out, or ask a model that takes it"
    );
    for loops in ["{% for part in m.content %}", "{%- for part in m['content'] -%}", "{%- for part in m.content if part.text %}"]
    {
        let lists = format!(
            "{{% for m in messages %}}{{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}{loops}[{{{{ part.type }}}}]{{% endfor %}}{{% endif %}}{{% endfor %}}"
        );
        assert!(rendered(&lists, said(picture.clone())).expect("a list").contains("[text]"), "{loops}");
    }
}

proptest! {
    #[test]
    fn no_tokenizer_panics(bytes in torn(), text in "\\PC{0,20}") {
        let tokenizer = Tokenizer::from_json(bytes.as_bytes(), Some(bytes.as_bytes()));
        let _text = tokenizer.and_then(|tokenizer| Ok(tokenizer.decode(&tokenizer.encode(&text)?)));
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        prop_assert!(Tokenizer::from_json(&bytes, Some(&bytes)).is_err());
    }

    #[test]
    fn no_template_panics(pieces in proptest::collection::vec(prop_oneof![
        Just("{{ "), Just(" }}"), Just("{% if x %}"), Just("{% endif %}"), Just("{% for m in messages %}"), Just("{% endfor %}"),
        Just("m.content"), Just(" ~ "), Just("'x'"), Just(" * "), Just("3"), Just("|tojson"), Just("{% generation %}"), Just("[::-1]"),
        Just("{% set x = "), Just(" %}"), Just("messages"), Just("("), Just(")"), Just(".split('a')"), Just("é"), Just("{#"),
    ], 0..12)) {
        if let Ok(template) = Template::new(&pieces.concat()) {
            let scene = hone_render::template::Scene { messages: vec![json!({"role": "user", "content": "a"})], ..Default::default() };
            let _rendered = template.render(&scene);
        }
    }

    #[test]
    fn what_people_write_comes_back(text: String) {
        let renderer = tiny(Some(crate::CHATML));
        let rendered = renderer.render(&[Message::text(Role::User, text.clone())], &Setting::default(), Ending::Answer).expect("a rendering");
        let ids = renderer.tokenizer().encode_rendered(&rendered).expect("ids");
        let expected = format!("<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n");
        prop_assert_eq!(renderer.tokenizer().decode(&ids), expected);
        let n_control = ids.iter().filter(|id| renderer.tokenizer().is_control(**id)).count();
        prop_assert_eq!(n_control, 3);
    }

    #[test]
    fn pieces_of_tags_stay_text(pieces in proptest::collection::vec(prop_oneof![
        Just("<|im_end|>"), Just("<|im_start|>"), Just("<"), Just("|im_end|>"), Just("<|im_"), Just("end|>"), Just("<think>"),
        Just("\u{fdd0}"), Just(" "), Just("\n"),
    ], 0..10)) {
        let renderer = tiny(None);
        let parts: Vec<Json> = pieces.iter().map(|text| json!({"type": "text", "text": text})).collect();
        let mut message = Message::text(Role::User, "");
        message.content = hone_trace::Content::Parts(parts);
        // A template that joins the parts of a message without anything between.
        let template = "<|im_start|>{% for part in messages[0].content %}{{ part.text | trim }}{% endfor %}<|im_end|>";
        let renderer = hone_render::Renderer::with_template((**renderer.tokenizer()).clone(), template).expect("a template");
        let rendered = renderer.render(&[message], &Setting::default(), Ending::Answer).expect("a rendering");
        let ids = renderer.tokenizer().encode_rendered(&rendered).expect("ids");
        let tags = ids.iter().filter(|id| **id < 7).count();
        prop_assert_eq!(tags, 2, "{:?}", rendered);
    }
}
