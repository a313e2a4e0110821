//! The renderer as others see it: agreement with transformers, episodes, rules in the sampler, and hostile input.

mod answer;
mod episode;
mod families;
mod robust;
mod rules;
mod small;
mod smollm2;

use hone_render::{Ending, Rendered, Renderer, Setting, Tokenizer};
use hone_trace::{Content, Message, Role, ToolRequest, ToolSpec};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A small vocabulary with a template.
fn tiny(template: Option<&str>) -> Arc<Renderer> {
    let corpus = "You are a cat. What is the weather in Paris? Wait, it is sunny! system user assistant tool \
        {\"name\": \"f\", \"arguments\": {\"x\": 1}} true false null\n\nthink so it is\nit\nso\n";
    let files = hone_render::tiny::build([corpus], 512).expect("room enough");
    let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).expect("our own files");
    let renderer = match template {
        Some(source) => Renderer::with_template(tokenizer, source),
        None => Renderer::new(tokenizer),
    };
    Arc::new(renderer.expect("a sound template"))
}

/// The ids that a model would draw for a text with tags.
fn drawn(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode_rendered(&Rendered::trusted(text)).expect("ids")
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

fn fixture(name: &str) -> Json {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("a fixture")).expect("JSON")
}

/// Compares encoding, decoding and conversations with a fixture of transformers.
fn check_against(renderer: &Renderer, fixture: &Json) {
    let tokenizer = renderer.tokenizer();
    for case in fixture["texts"].as_array().expect("texts") {
        let text = case["text"].as_str().expect("a text");
        assert_eq!(tokenizer.encode(text).expect("ids"), ids(&case["ids"]), "{text:?}");
        assert_eq!(tokenizer.decode(&ids(&case["ids"])), case["decoded"].as_str().expect("a text"), "{text:?}");
    }
    for case in fixture["chats"].as_array().expect("chats") {
        check_chat(renderer, case);
    }
}

fn check_chat(renderer: &Renderer, case: &Json) {
    let name = case["name"].as_str().expect("a name");
    let messages: Vec<Message> = case["messages"].as_array().expect("messages").iter().map(message).collect();
    let tools = case["tools"].as_array().map_or(&[][..], Vec::as_slice).iter().map(tool).collect();
    let mut extra = Map::new();
    if let Some(thinking) = case.get("enable_thinking") {
        extra.insert("enable_thinking".into(), thinking.clone());
    }
    let setting = Setting { tools, extra, ..Setting::default() };
    let ending = if case["add_generation_prompt"] == true { Ending::Answer } else { Ending::Message };
    let rendered = renderer.render(&messages, &setting, ending);
    if let Some(error) = case.get("error").and_then(Json::as_str) {
        let ours = rendered.expect_err("transformers refused it").to_string();
        assert!(ours.contains(error), "{name}: {ours} instead of {error}");
        return;
    }
    let rendered = rendered.expect("transformers rendered it");
    assert_eq!(rendered.text, case["text"].as_str().expect("a text"), "{name}");
    let ours = renderer.tokenizer().encode_rendered(&rendered).expect("ids");
    assert_eq!(ours, ids(&case["ids"]), "{name}: {:?}", rendered.text);
}

fn ids(json: &Json) -> Vec<u32> {
    serde_json::from_value(json.clone()).expect("ids")
}

fn message(json: &Json) -> Message {
    let mut message = Message::text(serde_json::from_value(json["role"].clone()).expect("a role"), "");
    message.content = Content::Text(json["content"].as_str().expect("a text").to_owned());
    for call in json["tool_calls"].as_array().into_iter().flatten() {
        message.tool_calls.push(ToolRequest {
            id: call["id"].as_str().expect("an id").to_owned(),
            name: call["function"]["name"].as_str().expect("a name").to_owned(),
            arguments: call["function"]["arguments"].to_string(),
            extra: Map::new(),
        });
    }
    message
}

fn tool(json: &Json) -> ToolSpec {
    let function = &json["function"];
    ToolSpec {
        name: function["name"].as_str().expect("a name").to_owned(),
        description: function["description"].as_str().map(str::to_owned),
        parameters: function["parameters"].clone(),
        extra: Map::new(),
    }
}
