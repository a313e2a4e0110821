#![no_main]

use hone_render::template::{Scene, Template};
use serde_json::json;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (source, content) = hone_fuzz::split(bytes);
    let Ok(template) = Template::new(&String::from_utf8_lossy(source)) else { return };
    let content = String::from_utf8_lossy(content);
    let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": content}}});
    let parameters = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]});
    let scene = Scene {
        messages: vec![
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "user", "content": content}),
            json!({"role": "assistant", "content": "", "reasoning_content": content, "tool_calls": [call]}),
            json!({"role": "tool", "content": [{"type": "text", "text": content}], "tool_call_id": "1"}),
        ],
        tools: vec![json!({"type": "function", "function": {"name": "f", "description": content, "parameters": parameters}})],
        add_generation_prompt: true,
        bos_token: "<s>".into(),
        eos_token: "</s>".into(),
        now: "2024-07-26T10:20:30Z".parse().ok(),
        ..Scene::default()
    };
    if let Ok(once) = template.render(&scene) {
        assert_eq!(template.render(&scene).as_ref(), Ok(&once), "the same scene gives the same text");
    }
});
