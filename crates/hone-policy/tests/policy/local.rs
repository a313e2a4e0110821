//! The local engine as a policy: concurrent conversations, their bits, and what goes wrong in them.

use hone_engine::backend::Dtype;
use hone_engine::batch::BatchLimits;
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::host::Host;
use hone_engine::layout::{Group, PAGE, Packed};
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape;
use hone_policy::local::{Engine, Local, LocalOptions, Piece, Prompt, Spoken, Voice, Wishes};
use hone_policy::upstream::Delta;
use hone_render::{Renderer, Tokenizer, tiny};
use hone_trace::policy::{AnswerLimits, Answered, Opening, Policy, PolicyErrorKind};
use hone_trace::{AdapterId, Message, Role, SteppedClock, Time, ToolSpec};
use serde_json::{Map, json};
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};

const VOCAB: usize = 320;
const CONTEXT: usize = 512;
const TEMPERATURE: f32 = 0.8;
const CORPUS: &str = "the cat sat on the mat; 12 times 7 is what? so it is sunny\n";

fn renderer(template: Option<&str>) -> Arc<Renderer> {
    let files = tiny::build([CORPUS], VOCAB).unwrap();
    let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).unwrap();
    Arc::new(match template {
        Some(source) => Renderer::with_template(tokenizer, source).unwrap(),
        None => Renderer::new(tokenizer).unwrap(),
    })
}

fn weights() -> RandomWeights {
    let spec: TinySpec = format!("d32,l2,h4,kv2,ff48,v{VOCAB},ctx{CONTEXT}").parse().unwrap();
    RandomWeights { config: ModelConfig::try_from(spec).unwrap(), seed: 11 }
}

fn engine(n_sequences_max: usize) -> Engine<Cpu> {
    Engine::start(host(n_sequences_max, 600)).unwrap()
}

fn host(n_sequences_max: usize, n_pages: usize) -> Host<Cpu> {
    let backend = Cpu::new(Dtype::Bf16, 2);
    let model = Model::load(&backend, &weights(), CONTEXT, Passes::Forward).unwrap();
    Host::new(backend, model, BatchLimits { n_pages, n_sequences_max, ..BatchLimits::default() })
}

fn options(renderer: &Renderer) -> LocalOptions {
    let sampler = SamplerOptions { temperature: TEMPERATURE, ..SamplerOptions::default() };
    LocalOptions { sampler, ..LocalOptions::new("tiny", renderer.tokenizer().eos_ids().to_vec(), CONTEXT) }
}

fn local(engine: &Engine<Cpu>, change: impl FnOnce(&mut LocalOptions)) -> Local<Cpu> {
    let renderer = renderer(None);
    let mut options = options(&renderer);
    change(&mut options);
    Local::new(engine.clone(), renderer, options).unwrap()
}

fn user(text: impl Into<String>) -> Message {
    Message::text(Role::User, text)
}

fn opening(seed: u64) -> Opening {
    let tool = ToolSpec { name: "f".into(), description: None, parameters: json!({"type": "object"}), extra: Map::new() };
    Opening { tools: if seed.is_multiple_of(2) { [tool].into() } else { [].into() }, schema: None, seed }
}

const LIMITS: AnswerLimits = AnswerLimits { tokens_max: 14, time_max_ms: None };

/// Several turns of one conversation.
fn talk(policy: &dyn Policy, seed: u64) -> Vec<Answered> {
    let mut conversation = policy.open(&opening(seed)).unwrap();
    let turn = |turn_idx: u64| conversation.answer(&[user(format!("the cat {} sat", seed + turn_idx))], LIMITS).unwrap();
    (0..2 + seed % 3).map(turn).collect()
}

#[test]
fn conversations_at_once_say_what_they_say_alone() {
    let (n_conversations, alone) = (32, engine(1));
    let policy = local(&alone, |_| {});
    let one_by_one: Vec<_> = (0..n_conversations).map(|seed| talk(&policy, seed)).collect();
    let together = engine(24);
    let policy = local(&together, |_| {});
    let at_once: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n_conversations)
            .map(|seed| {
                scope.spawn({
                    let policy = &policy;
                    move || talk(policy, seed)
                })
            })
            .collect();
        // A trainer beside them has the host to itself whenever it is served.
        for _ in 0..20 {
            assert!(together.run(|host| host.is_idle()).unwrap(), "a change waits for what runs");
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(one_by_one, at_once);
    let ids = |answers: &[Answered]| answers[0].sampled.clone().unwrap().ids;
    assert_ne!(ids(&at_once[1]), ids(&at_once[3]), "the seed makes a difference");
}

#[test]
fn what_was_sampled_scores_the_same_to_the_bit() {
    let engine = engine(8);
    let policy = local(&engine, |_| {});
    for seed in 0..6 {
        let mut ids: Vec<u32> = Vec::new();
        for (turn_idx, answered) in talk(&policy, seed).into_iter().enumerate() {
            let sampled = answered.sampled.unwrap();
            let call = &answered.llm_calls[0];
            if answered.is_new_segment {
                // A model that draws at random also draws what no template would write.
                ids.clear();
            }
            let n_known = ids.len();
            ids.extend(&sampled.input_ids);
            assert_eq!((call.tokens_in, call.tokens_out), (ids.len() as u64, sampled.ids.len() as u64));
            assert_eq!(call.tokens_cached as usize, n_known.saturating_sub(1) / 16 * 16, "turn {turn_idx}");
            let packed = Packed::new(&[Group { prompt: ids.clone(), completions: vec![sampled.ids.clone()] }]);
            let scored = engine.look(move |host| host.score(None, &packed, &tape::plain_targets(&packed, 1.0 / TEMPERATURE)));
            let logprobs: Vec<u32> = scored.unwrap().iter().map(|scored| scored.logprob.to_bits()).collect();
            assert_eq!(logprobs, sampled.logprobs.iter().map(|logprob| logprob.to_bits()).collect::<Vec<_>>());
            ids.extend(&sampled.ids);
        }
    }
}

#[test]
fn an_adapter_is_pinned_when_a_conversation_opens() {
    let engine = engine(8);
    let mut changed = LoraWeights::fresh(&weights().config, &LoraSpec::all(4, 8.0), 1);
    changed.matrices.values_mut().for_each(|values| values.iter_mut().enumerate().for_each(|(i, x)| *x += 0.1 * (i % 7) as f32));
    let version = engine.run(move |host| host.load(&changed)).unwrap();
    let adapted = local(&engine, |options| options.adapter = Some((version, AdapterId::of(b"one"))));
    let plain = local(&engine, |_| {});
    assert_ne!(adapted.config().hash(), plain.config().hash());
    let expected = talk(&adapted, 1);
    assert_ne!(expected, talk(&plain, 1));

    let mut conversation = adapted.open(&opening(1)).unwrap();
    assert!(engine.run(move |host| host.drop_adapter(version)).unwrap());
    let first = conversation.answer(&[user("the cat 1 sat")], LIMITS).unwrap();
    assert_eq!(first.sampled, expected[0].sampled, "a conversation keeps the version it began with");
    let error = adapted.open(&opening(1)).err().unwrap();
    assert_eq!(error.kind, PolicyErrorKind::Refused);
}

#[test]
fn an_answer_that_is_cut_says_so_and_a_conversation_that_is_full_ends() {
    let engine = engine(8);
    let policy = local(&engine, |options| options.context_len_max = 150);
    let mut conversation = policy.open(&opening(1)).unwrap();
    let mut n_answers = 0;
    let error = loop {
        match conversation.answer(&[user("the cat sat")], LIMITS) {
            Ok(answered) => {
                n_answers += 1;
                let sampled = answered.sampled.unwrap();
                let is_cut = answered.errors.iter().any(|event| event.kind == "answer_cut" && event.recovered);
                assert_eq!(is_cut, sampled.ids.last().is_none_or(|id| !options(&renderer(None)).stop_ids.contains(id)));
            }
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind, n_answers > 1), (PolicyErrorKind::TooLong, true), "{error}");
}

#[test]
fn what_cannot_fit_is_refused_before_it_is_tokenized() {
    let policy = local(&engine(2), |_| {});
    let text = "ab".repeat(1 << 20);
    let refused = policy.open(&opening(1)).unwrap().answer(&[user(text.as_str())], LIMITS).unwrap_err();
    let plain = policy.continue_aloud(&[Prompt::Text(text.clone())], 5, LIMITS, &Wishes::default(), &mut |_| panic!("no answer"));
    for error in [refused, plain.unwrap_err()] {
        assert_eq!(error.kind, PolicyErrorKind::TooLong);
        let says = |words: &str| error.message.contains(words);
        assert!(says("bytes of text are at least") && says(&format!("in {CONTEXT}")), "{error}");
    }
    // A prediction is a courtesy.
    let wishes = Wishes { prediction: text, ..Wishes::default() };
    let (predicted, _) = choices(&policy, &wishes);
    assert_eq!(predicted, choices(&policy, &Wishes::default()).0);
}

#[test]
fn a_schema_holds_and_a_call_is_read_or_reported() {
    // This template's models write calls as bare JSON.
    let renderer = renderer(Some(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n{# python_tag #}",
    ));
    let policy = Local::new(engine(4), Arc::clone(&renderer), options(&renderer)).unwrap();
    let answer = |name: &str| {
        let schema = json!({"type": "object", "properties": {"name": {"const": name}}, "required": ["name"], "additionalProperties": false});
        let mut conversation = policy.open(&Opening { schema: Some(schema), ..opening(1) }).unwrap();
        let limits = AnswerLimits { tokens_max: 200, ..LIMITS };
        conversation.answer(&[user("so?")], limits).unwrap()
    };
    let called = answer("f");
    let [call] = called.message.tool_calls.as_slice() else { panic!("{called:?}") };
    assert_eq!((call.name.as_str(), call.arguments.as_str(), call.id.as_str()), ("f", "{}", "c00000000"));
    let broken = answer("");
    assert!(broken.message.tool_calls.is_empty());
    assert_eq!((broken.errors[0].kind.as_str(), broken.errors[0].recovered), ("unparsable_action", true));
    assert!(broken.errors[0].message.contains("no `name`"), "{broken:?}");

    let refused = policy.open(&Opening { schema: Some(json!("text")), ..opening(1) }).err().unwrap();
    assert_eq!(refused.kind, PolicyErrorKind::Refused);
    // Nothing follows a schema that says no more than that it is followed.
    let mut endless = policy.open(&Opening { schema: Some(json!({"$ref": "#"})), ..opening(1) }).unwrap();
    let refused = endless.answer(&[user("so?")], LIMITS).unwrap_err();
    assert_eq!((refused.kind, refused.message.contains("the schema allows no")), (PolicyErrorKind::Refused, true), "{refused}");
    assert_eq!(refused.llm_calls.len(), 1);
}

#[test]
fn numbers_that_are_none_are_not_blamed_on_a_schema() {
    let engine = engine(4);
    let mut damaged = LoraWeights::fresh(&weights().config, &LoraSpec::all(4, 8.0), 1);
    damaged.matrices.values_mut().for_each(|values| values.fill(f32::NAN));
    let version = engine.run(move |host| host.load(&damaged)).unwrap();
    let policy = local(&engine, |options| options.adapter = Some((version, AdapterId::of(b"damaged"))));
    for schema in [None, Some(json!({"type": "object"}))] {
        let mut conversation = policy.open(&Opening { schema, ..opening(1) }).unwrap();
        let error = conversation.answer(&[user("so?")], LIMITS).unwrap_err();
        let says = "after 0 tokens the model's numbers are not finite: its weights or its adapter may be damaged";
        assert_eq!((error.kind, error.message.as_str(), error.llm_calls.len()), (PolicyErrorKind::Provider, says, 1));
    }
}

#[test]
fn a_template_that_rewrites_history_begins_a_segment() {
    let forgetful = "{% for m in messages %}{% if m.role != 'assistant' %}<|im_start|>user\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}<|im_start|>assistant\n";
    let renderer = renderer(Some(forgetful));
    let policy = Local::new(engine(4), Arc::clone(&renderer), options(&renderer)).unwrap();
    let mut conversation = policy.open(&opening(1)).unwrap();
    let first = conversation.answer(&[user("the cat")], LIMITS).unwrap();
    let second = conversation.answer(&[user("the mat")], LIMITS).unwrap();
    assert_eq!((first.is_new_segment, second.is_new_segment), (false, true));
    let call = &second.llm_calls[0];
    assert_eq!((call.tokens_in, call.tokens_cached), (second.sampled.unwrap().input_ids.len() as u64, 0));
}

#[test]
fn stop_strings_end_an_answer_and_are_not_part_of_it() {
    let policy = local(&engine(4), |options| options.stops = vec!["a".into(), "e".into(), "t".into()]);
    let limits = AnswerLimits { tokens_max: 400, ..LIMITS };
    let answered = policy.open(&opening(3)).unwrap().answer(&[user("so?")], limits).unwrap();
    let text = answered.message.content.text();
    assert!(!text.contains(['a', 'e', 't']) && answered.errors.is_empty(), "{answered:?}");
}

#[test]
fn time_is_kept_with_a_clock_and_only_then() {
    let engine = engine(4);
    let clock = Arc::new(SteppedClock::new(Time::from_unix_nanos(0), 5_000_000));
    let timed = local(&engine, |options| options.clock = Some(clock));
    let hurried = AnswerLimits { tokens_max: 14, time_max_ms: Some(10) };
    // While somebody has the host, nobody is answered.
    let (began, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let mut conversation = timed.open(&opening(1)).unwrap();
    let busy = std::thread::spawn({
        let engine = engine.clone();
        move || engine.run(move |_| (began.send(()).unwrap(), released.recv().unwrap()))
    });
    has_begun.recv().unwrap();
    let error = conversation.answer(&[user("so?")], hurried).unwrap_err();
    assert_eq!((error.kind, error.llm_calls[0].duration_ms), (PolicyErrorKind::Timeout, Some(5.0)));
    release.send(()).unwrap();
    busy.join().unwrap().unwrap();
    let answered = timed.open(&opening(1)).unwrap().answer(&[user("so?")], LIMITS).unwrap();
    assert_eq!(answered.llm_calls[0].duration_ms, Some(5.0), "the engine goes on after a withdrawn request");
    let untimed = local(&engine, |_| {});
    let never = AnswerLimits { time_max_ms: Some(0), ..hurried };
    assert_eq!(untimed.open(&opening(1)).unwrap().answer(&[user("so?")], never).unwrap().llm_calls[0].duration_ms, None);
}

#[test]
fn options_that_cannot_hold_are_refused_and_a_dead_engine_is_an_error() {
    let (engine, renderer) = (engine(4), renderer(None));
    let refused = |change: &dyn Fn(&mut LocalOptions)| {
        let mut options = options(&renderer);
        change(&mut options);
        Local::new(engine.clone(), Arc::clone(&renderer), options).err().unwrap().to_string()
    };
    assert!(refused(&|options| options.context_len_max = CONTEXT + 1).contains("513 tokens"));
    assert!(refused(&|options| options.sampler.top_p = 0.0).contains("top_p"));
    assert!(refused(&|options| options.stops = vec![String::new()]).contains("stop strings"));

    let policy = local(&engine, |_| {});
    let mut conversation = policy.open(&opening(1)).unwrap();
    assert!(engine.run(|_| panic!("this panic is part of the test")).is_err());
    assert_eq!(conversation.answer(&[user("so?")], LIMITS).unwrap_err().kind, PolicyErrorKind::Provider);
}

/// Several answers to one question, and what was heard of each while they were drawn.
fn choices(policy: &Local<Cpu>, wishes: &Wishes) -> (Vec<Spoken>, Vec<String>) {
    let mut conversation = policy.open_aloud(&opening(1)).unwrap();
    let mut heard = vec![String::new(); wishes.n_others + 1];
    let mut hear = |piece: Piece| {
        if let Delta::Text(text) = piece.delta {
            heard[piece.choice_idx].push_str(&text);
        }
        ControlFlow::Continue(())
    };
    let spoken = conversation.answer_aloud(&[user("the cat")], LIMITS, wishes, &mut hear).unwrap();
    (spoken, heard)
}

#[test]
fn several_answers_to_one_question_have_numbers_of_their_own() {
    let policy = local(&engine(8), |_| {});
    let (spoken, heard) = choices(&policy, &Wishes { n_others: 3, tokens: Some(2), ..Wishes::default() });
    let texts: Vec<String> = spoken.iter().map(|spoken| spoken.answered.message.content.text()).collect();
    assert_eq!(heard, texts);
    let ids: Vec<Vec<u32>> = spoken.iter().map(|spoken| spoken.answered.sampled.clone().unwrap().ids).collect();
    assert!((1..4).all(|idx| ids[idx] != ids[idx - 1]), "{ids:?}");
    let call = &spoken[0].answered.llm_calls[0];
    assert_eq!(call.tokens_out as usize, ids.iter().map(Vec::len).sum::<usize>(), "the first says what all of them took");
    assert!(spoken[1..].iter().all(|spoken| spoken.answered.llm_calls.is_empty()));
    for Spoken { answered, tokens } in &spoken {
        let sampled = answered.sampled.as_ref().unwrap();
        assert!(tokens.len() + 1 >= sampled.ids.len() && tokens.iter().all(|token| token.likeliest.len() == 2));
        assert!(tokens.iter().zip(&sampled.logprobs).all(|(token, logprob)| token.logprob == *logprob));
    }
    let (alone, _) = choices(&policy, &Wishes::default());
    assert_eq!(alone[0].answered.sampled, spoken[0].answered.sampled, "the first is what it is alone");
    assert!(alone[0].tokens.is_empty(), "nothing is told that was not wished for");
}

#[test]
fn several_answers_are_the_same_where_there_is_memory_for_one_at_a_time() {
    let wishes = Wishes { n_others: 3, tokens: Some(2), ..Wishes::default() };
    let all = choices(&local(&engine(8), |_| {}), &wishes);
    let n_prompt = all.0[0].answered.sampled.as_ref().unwrap().input_ids.len();
    let n_pages = (n_prompt + LIMITS.tokens_max as usize).div_ceil(PAGE);
    assert_eq!(choices(&local(&Engine::start(host(8, n_pages)).unwrap(), |_| {}), &wishes), all);
}

#[test]
fn what_is_held_for_a_model_is_let_go_with_the_last_who_uses_it() {
    struct Held(mpsc::Sender<()>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let (sender, let_go) = mpsc::channel();
    let engine = Engine::start_with(host(1, 600), Held(sender)).unwrap();
    let policy = local(&engine, |_| {});
    drop(engine);
    policy.open(&opening(1)).unwrap().answer(&[user("hi")], LIMITS).unwrap();
    assert!(let_go.try_recv().is_err());
    drop(policy);
    let_go.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
}

#[test]
fn more_answers_than_run_at_once_come_one_after_another() {
    let answers = |n_at_once: usize| {
        let policy = local(&engine(n_at_once), |_| {});
        let mut conversation = policy.open_aloud(&opening(1)).unwrap();
        let wishes = Wishes { n_others: 2, ..Wishes::default() };
        let all = conversation.answer_aloud(&[user("hi")], LIMITS, &wishes, &mut |_| ControlFlow::Continue(())).unwrap();
        all.into_iter().map(|spoken| spoken.answered.sampled).collect::<Vec<_>>()
    };
    let in_turn = answers(2);
    assert_eq!((in_turn.len(), &in_turn), (3, &answers(3)));
}

#[test]
fn plain_texts_go_on_beside_each_other_as_they_do_alone() {
    let policy = local(&engine(2), |_| {});
    let go_on = |prompts: &[Prompt]| {
        policy.continue_aloud(prompts, 5, LIMITS, &Wishes::default(), &mut |_| ControlFlow::Continue(())).unwrap()
    };
    let prompts = ["the cat", "12 times 7", "so it is"].map(|text| Prompt::Text(text.into()));
    let together = go_on(&prompts);
    assert_eq!(together.len(), 3);
    let alone = go_on(&prompts[..1]);
    assert_eq!(alone[0].answered.sampled, together[0].answered.sampled);
    for (spoken, prompt) in together.iter().zip(&prompts) {
        let sampled = spoken.answered.sampled.as_ref().unwrap();
        let Prompt::Text(text) = prompt else { continue };
        assert_eq!(sampled.input_ids, renderer(None).tokenizer().encode(text).unwrap(), "no template stands around it");
    }
    let framed = go_on(&[Prompt::Text("<|im_start|>user\nthe cat<|im_end|>\n".into())]);
    let (tokenizer, ids) = (renderer(None).tokenizer().clone(), &framed[0].answered.sampled.as_ref().unwrap().input_ids);
    let control: Vec<String> = ids.iter().filter(|id| tokenizer.is_control(**id)).map(|id| tokenizer.decode(&[*id])).collect();
    assert_eq!(control, ["<|im_start|>", "<|im_end|>"], "whoever writes the frame himself gets it");
    let n_read: usize = together.iter().map(|spoken| spoken.answered.sampled.as_ref().unwrap().input_ids.len()).sum();
    assert_eq!(together[0].answered.llm_calls[0].tokens_in as usize, n_read);
}

#[test]
fn who_asks_an_engine_that_panicked_hears_why() {
    let engine = engine(2);
    let why = "the engine has stopped: no room for 7 more bytes";
    let told = engine.run(|_| -> usize { panic!("no room for {} more bytes", 7) });
    assert_eq!(told.unwrap_err().to_string(), why);
    assert_eq!(engine.look(|_| 1).unwrap_err().to_string(), why, "and so does who asks later");
}
