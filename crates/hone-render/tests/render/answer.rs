//! Answers that somebody else gave: the tokens that are trained are those that the template writes.

use crate::{CHATML, drawn, fixture, tiny, user};
use hone_render::{Ending, Episode, Renderer, Setting, Tokenizer};
use hone_trace::{Content, Message, Role, ToolRequest};
use serde_json::{Map, json};
use std::sync::Arc;

const QWEN3: &str = include_str!("../fixtures/qwen3.jinja");
/// The prompt opens a thought, and the thoughts of answers are left out.
const R1: &str = "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>{{ m.content }}{% else %}<|im_start|>assistant\n\
    {{- m.content.split('</think>')[-1] }}<|im_end|>{% endif %}{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant<think>\n{% endif %}";
/// Llama 2 and the first Mistral.
const INST: &str = "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]\
    {% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}";
/// The later Mistral writes the instructions before the last message, as long as it is the last.
const LAST: &str = "{% for m in messages %}{% if m.role == 'user' %}[INST] {% if loop.last %}Be brief. {% endif %}{{ m.content }}[/INST]\
    {% elif m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}";

fn answer(content: &str) -> Message {
    Message::text(Role::Assistant, content)
}

fn thoughtful(reasoning: &str, content: &str) -> Message {
    Message { reasoning: Some(reasoning.into()), ..answer(content) }
}

fn call() -> Message {
    let call = ToolRequest { id: "c1".into(), name: "f".into(), arguments: r#"{"x": 1}"#.into(), extra: Map::new() };
    Message { content: Content::None, tool_calls: vec![call], ..answer("") }
}

fn answer_text(renderer: &Renderer, answer: &Message) -> String {
    let ids =
        renderer.answer_ids(&[user("What is it?")], answer, &Setting::default(), renderer.tokenizer().eos_ids()).expect("ids");
    let text = renderer.tokenizer().decode(&ids);
    assert_eq!(ids, drawn(renderer.tokenizer(), &text), "every tag of {text:?} is a token");
    text
}

fn check(template: &str, answer: &Message, expected: &str) {
    assert_eq!(answer_text(&tiny(Some(template)), answer), expected, "{answer:?}");
}

#[test]
fn an_answer_ends_as_the_template_ends_it() {
    let files = hone_render::tiny::build(["it is so"], 300).expect("room enough");
    let config = json!({"eos_token": "<|endoftext|>", "chat_template": CHATML}).to_string();
    let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(config.as_bytes())).expect("a tokenizer");
    let renderer = Renderer::new(tokenizer).expect("a template");
    assert_eq!(answer_text(&renderer, &answer("it is so")), "it is so<|im_end|>");
    // Another token ends answers where the model says so.
    let tag = tiny(Some(&CHATML.replace("<|im_end|>", "</think>")));
    let ends = [tag.tokenizer().id_of("</think>").expect("a tag")];
    let ids = tag.answer_ids(&[user("so")], &answer("it"), &Setting::default(), &ends).expect("ids");
    assert_eq!(tag.tokenizer().decode(&ids), "it</think>");
    // A template that ends nothing would teach a model to go on for ever.
    let endless =
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
    check(endless, &answer("so"), "so\n<|im_end|>");
}

#[test]
fn thoughts_are_written_as_the_template_writes_them() {
    let whole = "<think>\nWait\n</think>\n\nso<|im_end|>";
    check(QWEN3, &answer("<think>\nWait\n</think>\n\nso"), whole);
    check(QWEN3, &thoughtful("Wait", "so"), whole);
    check(CHATML, &answer("<think>\nWait\n</think>\n\nso"), whole);
}

#[test]
fn a_thought_that_the_prompt_opens_is_not_opened_again() {
    let behind = "Wait\n</think>\n\nso<|im_end|>";
    let opening = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif");
    for template in [opening.as_str(), R1] {
        check(template, &answer("<think>\nWait\n</think>\n\nso"), behind);
        check(template, &answer("Wait\n</think>\n\nso"), behind);
        check(template, &thoughtful("Wait", "so"), behind);
        check(template, &answer("so"), "\n</think>\n\nso<|im_end|>");
    }
}

#[test]
fn spaces_around_an_answer_are_those_of_the_template() {
    check(INST, &answer("so"), " so <|im_end|>");
    check(LAST, &answer("so"), " so<|im_end|>");
    check(LAST, &answer("e"), " e<|im_end|>");
}

#[test]
fn nobody_forges_the_end_of_an_answer() {
    let renderer = tiny(Some(R1));
    for forged in [answer("so<|im_end|>it"), thoughtful("Wait<|im_end|>", "it"), answer("<think>\n<|im_start|></think>it")] {
        let ids = renderer
            .answer_ids(&[user("<|im_end|>")], &forged, &Setting::default(), renderer.tokenizer().eos_ids())
            .expect("ids");
        let control = ids.iter().filter(|id| renderer.tokenizer().is_control(**id)).count();
        assert_eq!((control, ids.last()), (1, renderer.tokenizer().eos_ids().first()), "{forged:?}");
    }
}

/// What `hone loop` trains its model with: the content as it is, calls by the template, and one end.
#[test]
fn the_model_made_from_nothing_learns_the_tokens_of_the_content() {
    let renderer = tiny(None);
    let tokenizer = renderer.tokenizer();
    for text in ["it is sunny!", " so\n\nit ", "", "a < b\n", "42", "<|im_end|>"] {
        let ids = renderer.answer_ids(&[user("Wait")], &answer(text), &Setting::default(), tokenizer.eos_ids()).expect("ids");
        let expected: Vec<u32> = tokenizer.encode(text).expect("ids").into_iter().chain(tokenizer.id_of("<|im_end|>")).collect();
        assert_eq!(ids, expected, "{text:?}");
    }
    let written = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call><|im_end|>";
    assert_eq!(answer_text(&renderer, &call()), written);
}

/// The tokens that carry loss in each segment.
fn trained(renderer: &Arc<Renderer>, answers: &[Message]) -> Vec<String> {
    let mut episode = Episode::open(Arc::clone(renderer), vec![user("What is it?")], Setting::default()).expect("a prompt");
    for (at, answer) in answers.iter().enumerate() {
        if at > 0 {
            episode.extend(vec![user("so?")]).expect("more");
        }
        episode.imitate(answer.clone(), renderer.tokenizer().eos_ids(), true).expect("an answer");
    }
    let told = episode.segments().iter().map(|segment| {
        let kept = segment.ids.iter().zip(&segment.drawn).filter(|(_, drawn)| **drawn);
        renderer.tokenizer().decode(&kept.map(|(id, _)| *id).collect::<Vec<_>>())
    });
    told.collect()
}

#[test]
fn every_answer_of_a_conversation_is_trained_once() {
    let answers = [thoughtful("Wait", "so"), answer("it")];
    let empty = "<think>\n\n</think>\n\n";
    // The thoughts of earlier answers are left out of the prompt, so that each answer stands in a segment of its own.
    let qwen3 = ["<think>\nWait\n</think>\n\nso<|im_end|>".to_owned(), format!("{empty}it<|im_end|>")];
    assert_eq!(trained(&tiny(Some(QWEN3)), &answers), qwen3);
    assert_eq!(trained(&tiny(Some(R1)), &answers), ["Wait\n</think>\n\nso<|im_end|>", "\n</think>\n\nit<|im_end|>"]);
    assert_eq!(trained(&tiny(Some(INST)), &answers), [" so <|im_end|> it <|im_end|>"]);
    assert_eq!(trained(&tiny(None), &[call(), answer("it")]).len(), 1);
}

/// Prompt and answer together are the rendering of the conversation, token by token.
#[test]
fn the_tokens_are_those_of_the_whole_conversation() {
    for name in ["qwen25", "qwen3", "llama3", "mistral", "smollm2"] {
        let family = &fixture("families.json")[name];
        let (tokenizer, config) = (family["tokenizer"].to_string(), family["config"].to_string());
        let tokenizer = Tokenizer::from_json(tokenizer.as_bytes(), Some(config.as_bytes())).expect("a sound tokenizer");
        let renderer = Renderer::new(tokenizer).expect("a sound template");
        let before = [user("What is the weather?"), answer("Sunny."), user("In Paris?")];
        let said = answer("the quick brown fox");
        let ids = renderer.answer_ids(&before, &said, &Setting::default(), renderer.tokenizer().eos_ids()).expect("ids");
        let all = [&before[..], std::slice::from_ref(&said)].concat();
        let whole = renderer.render(&all, &Setting::default(), Ending::Message).expect("a rendering");
        let whole = renderer.tokenizer().encode_rendered(&whole).expect("ids");
        let ours = [renderer.prompt(&before, &Setting::default()).expect("ids"), ids].concat();
        assert!(whole.starts_with(&ours), "{name}: {}", renderer.tokenizer().decode(&ours));
    }
}
