//! Chat templates: a conversation in, the text that the model was trained to see out.
//!
//! A template is a small Jinja program from a model file, so it may be anybody's. It runs as Hugging Face runs it (blocks
//! trimmed, Python's methods on values, `tojson` as Python writes JSON), but with an amount of fuel, a purse of bytes, and
//! no clock, no files and no other templates. Knows nothing of tokens.

use crate::budget::{Budget, refuse};
use crate::compiled::{self, Code};
use crate::error::RenderError;
use crate::guard;
use crate::strftime::strftime;
use hone_trace::Time;
use minijinja::machinery::{eval, make_string_output};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, Value};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// Most bytes of a template's source.
pub const SOURCE_LEN_MAX: usize = 256 << 10;

const FUEL: u64 = 500_000;
const FUEL_PER_MESSAGE: u64 = 5_000;
const BUDGET_BYTES: usize = 32 << 20;
/// A template handles each byte of a conversation some dozen times.
const BUDGET_PER_BYTE: usize = 64;
const RECURSION_MAX: usize = 100;

/// A template that compiles.
#[derive(Debug, Clone)]
pub struct Template {
    source: String,
    /// What it compiles to, where that is kept.
    code: Option<Code>,
    takes_parts: bool,
    asks_for_content: bool,
}

/// What a template is given.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// The messages, in the form of the OpenAI API.
    pub messages: Vec<Json>,
    /// The tools on offer, in the same form.
    pub tools: Vec<Json>,
    /// Whether the beginning of an answer follows.
    pub add_generation_prompt: bool,
    /// The text of the begin token.
    pub bos_token: String,
    /// The text of the end token.
    pub eos_token: String,
    /// Further variables, such as `enable_thinking`.
    pub extra: Map<String, Json>,
    /// A character that is in the texts only to be found again, and that is not there when a template asks about them.
    pub mark: Option<char>,
    /// What `strftime_now` tells; without it, a template that asks for the time fails.
    pub now: Option<Time>,
}

impl Template {
    /// Checks that a source compiles.
    pub fn new(source: &str) -> Result<Self, RenderError> {
        if source.len() > SOURCE_LEN_MAX {
            let n_kib = source.len() >> 10;
            return Err(RenderError::template(format!("it has {n_kib} KiB, at most {} are read", SOURCE_LEN_MAX >> 10)));
        }
        // To Jinja, every end of a line is one character.
        let source = without_generation_tags(&source.replace("\r\n", "\n").replace('\r', "\n"));
        let code = compiled::kept(&source).map_err(|error| explain(&error))?;
        Ok(Self { code, takes_parts: takes_parts(&source), asks_for_content: asks_for_content(&source), source })
    }

    /// The source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it goes through the parts of a message itself.
    pub fn takes_parts(&self) -> bool {
        self.takes_parts
    }

    /// Whether it writes the calls of a message.
    pub fn takes_calls(&self) -> bool {
        self.source.contains("tool_calls")
    }

    /// Whether it asks if a message has content. Others join the content with texts without asking.
    pub fn asks_for_content(&self) -> bool {
        self.asks_for_content
    }

    /// Renders a conversation.
    pub fn render(&self, scene: &Scene) -> Result<String, RenderError> {
        let n_bytes = scene.messages.iter().chain(&scene.tools).map(text_len).sum();
        self.run(&Given {
            messages: scene.messages.iter().map(|message| Value::from(Serde(message))).collect(),
            tools: scene.tools.iter().map(|tool| Value::from(Serde(tool))).collect(),
            n_bytes,
            add_generation_prompt: scene.add_generation_prompt,
            bos_token: &scene.bos_token,
            eos_token: &scene.eos_token,
            extra: &scene.extra,
            mark: scene.mark,
            now: scene.now,
        })
    }

    /// Renders what was made ready for it.
    pub(crate) fn run(&self, given: &Given<'_>) -> Result<String, RenderError> {
        let n_parts = (given.messages.len() + given.tools.len()) as u64;
        let mut env = Environment::new();
        env.set_fuel(Some(FUEL.saturating_add(FUEL_PER_MESSAGE.saturating_mul(n_parts))));
        env.set_recursion_limit(RECURSION_MAX);
        let purse = BUDGET_BYTES.saturating_add(BUDGET_PER_BYTE.saturating_mul(given.n_bytes));
        Budget::new(purse, given.mark).install(&mut env);
        env.add_function("raise_exception", |why: String| -> Result<Value, Error> { Err(refuse(format!("it says: {why}"))) });
        let now = given.now;
        env.add_function("strftime_now", move |format: &str| match now {
            Some(now) => strftime(now, format).map_err(refuse),
            None => Err(refuse("it asks for the time, and none was given")),
        });
        let compiled_now;
        let code = match self.code {
            Some(code) => code,
            None => {
                compiled_now = guard::compile(&self.source).map_err(|error| explain(&error))?;
                &compiled_now
            }
        };
        let mut text = String::new();
        let blocks = BTreeMap::new();
        let mut output = make_string_output(&mut text);
        let rendered = eval(&env, code, given.variables(), &blocks, &mut output, AutoEscape::None);
        let failed = rendered.err().map(|error| explain(&error));
        drop(output);
        failed.map_or(Ok(text), Err)
    }
}

/// A scene in the values of templates, which cost little to give again.
pub(crate) struct Given<'a> {
    pub(crate) messages: Vec<Value>,
    pub(crate) tools: Vec<Value>,
    /// The bytes of both.
    pub(crate) n_bytes: usize,
    pub(crate) add_generation_prompt: bool,
    pub(crate) bos_token: &'a str,
    pub(crate) eos_token: &'a str,
    pub(crate) extra: &'a Map<String, Json>,
    pub(crate) mark: Option<char>,
    pub(crate) now: Option<Time>,
}

impl Given<'_> {
    fn variables(&self) -> Value {
        let mut variables: BTreeMap<String, Value> =
            self.extra.iter().map(|(name, value)| (name.clone(), Value::from(Serde(value)))).collect();
        variables.entry("documents".into()).or_insert_with(|| Value::from(()));
        variables.insert("messages".into(), Value::from(self.messages.clone()));
        // Templates ask whether there are tools by asking whether the list is true, or whether it is none.
        let tools = if self.tools.is_empty() { Value::from(()) } else { Value::from(self.tools.clone()) };
        variables.insert("tools".into(), tools);
        variables.insert("add_generation_prompt".into(), self.add_generation_prompt.into());
        variables.insert("bos_token".into(), self.bos_token.into());
        variables.insert("eos_token".into(), self.eos_token.into());
        Value::from(variables)
    }
}

/// `{% for part in message.content %}`, or `message.content | selectattr('type', 'equalto', 'text')`.
fn takes_parts(source: &str) -> bool {
    let blocks = source.split("{%").skip(1).filter_map(|rest| rest.split("%}").next());
    let mut loops =
        blocks.filter_map(|block| block.trim_start_matches(['-', '+', ' ', '\n']).strip_prefix("for ")?.split_once(" in "));
    let is_choice = |filter: &str| ["selectattr", "rejectattr", "map"].iter().any(|name| filter.trim_start().starts_with(name));
    let mut filtered = source.split('|').zip(source.split('|').skip(1));
    loops.any(|(_, over)| over.split(" if ").next().is_some_and(is_content))
        || filtered.any(|(before, filter)| is_content(before) && is_choice(filter))
}

/// `message.content is none`.
fn asks_for_content(source: &str) -> bool {
    let words: Vec<&str> = source.split_whitespace().collect();
    let is_none = |word: &str| matches!(word.trim_matches(|c: char| !c.is_alphanumeric()), "none" | "None");
    words.windows(3).any(|asked| is_content(asked[0]) && matches!(asked[1], "is" | "==" | "!=") && is_none(asked[2]))
        || words.windows(4).any(|asked| is_content(asked[0]) && asked[1..3] == ["is", "not"] && is_none(asked[3]))
}

/// Whether what stands before is the content of a message.
fn is_content(text: &str) -> bool {
    text.trim_end_matches(|end: char| !end.is_alphanumeric()).ends_with("content")
}

/// Templates mark what the model wrote by `{% generation %}`. It prints nothing, so any block does.
fn without_generation_tags(source: &str) -> String {
    let mut rest = source;
    let mut out = String::with_capacity(source.len());
    while let Some(start) = rest.find("{%") {
        let inside = start + 2;
        let end = rest[inside..].find("%}").map_or(rest.len(), |end| inside + end);
        let tag = &rest[inside..end];
        out.push_str(&rest[..inside]);
        match tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+') {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// The bytes of all texts.
pub(crate) fn text_len(json: &Json) -> usize {
    match json {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(text_len).sum(),
        Json::Object(map) => map.iter().map(|(key, value)| key.len() + text_len(value)).sum(),
        _ => 8,
    }
}

/// Where and why, in one line.
fn explain(error: &Error) -> RenderError {
    let mut why = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    if error.kind() == minijinja::ErrorKind::OutOfFuel {
        why = "it takes too many steps; a loop may have no end".into();
    }
    match error.line() {
        Some(line) => RenderError::template(format!("line {line}: {why}")),
        None => RenderError::template(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(source: &str) -> Result<String, RenderError> {
        let scene = Scene {
            messages: vec![json!({"role": "user", "content": " <a> "})],
            tools: vec![json!({"b": 1, "a": ["x", 2.5, null, true], "c": {}, "ü": "\"\n</b>&'"})],
            ..Scene::default()
        };
        Template::new(source)?.render(&scene)
    }

    fn check(source: &str, expected: &str) {
        assert_eq!(render(source).expect("a sound template"), expected, "{source}");
    }

    fn check_refused(source: &str, says: &str) {
        let error = render(source).expect_err("must be refused").to_string();
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn templates_run_as_hugging_face_runs_them() {
        check("{% for m in messages %}\n  {% if true %}\nx{{ m.content.strip() }}\n  {% endif %}\n{% endfor %}\n", "x<a>\n");
        check("{{ tools[0] | tojson }}", r#"{"b": 1, "a": ["x", 2.5, null, true], "c": {}, "ü": "\"\n</b>&'"}"#);
        check("{{ [1] | tojson(indent=2) }}", "[\n  1\n]");
        check("{{ none }} {{ true }} {{ missing }}|{{ 1 + 2 * 3 }} {{ 2 * 1.5 }} {{ 'ab' * 2 }}", "None True |7 3.0 abab");
        check("{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "3");
        check("{% generation %}a{% endgeneration %}{%- generation -%} b {%- endgeneration -%}", "ab");
        check("{{ 'a,b'.split(',') | join('+') }} {{ messages[::-1] | length }} {{ 'x\ny' | indent(2) }}", "a+b 1 x\n  y");
        check("{{ 'a\n\nb' | indent(2, true, true) }}{{ ('a\nb' | indent(70000)) | length }}", "  a\n  \n  b70003");
        check("{{ 'aXbX'.replace('X', '-', 1) }}{{ 'aXb' | replace('X', '..') }}", "a-bXa..b");
        check("{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}", "1213");
        check(
            "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "02",
        );
        check(
            "{{ messages is defined }} {{ tools is not none }} {{ 'a' in ['a', 'b'] }} {{ 'b' not in 'abc' }}",
            "True True True False",
        );
        check("{% for x in 'abc' %}{{ loop.previtem }}{{ x }}{{ loop.nextitem }},{% endfor %}", "ab,abc,bc,");
        check("{{ none is iterable }} {{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }}", "False True True False");
        check("{% set t = none %}{% if t is iterable and t | length > 0 %}a{% else %}b{% endif %}", "b");
        check("a\r\n{% if true %}\r\nb\rc{% endif %}{{ 'd\r\ne' }}", "a\nb\ncd\ne");
        check(
            "{{ {'ü': 0.00001} | tojson(ensure_ascii=true) }}{{ 'ü' | tojson(ensure_ascii=false) }}",
            "{\"\\u00fc\": 1e-05}\"ü\"",
        );
        check("{% filter upper %}a{% endfilter %}{% set x | trim %} b {% endset %}{{ x }}", "Ab");
        check("{% for k, v in {'x': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}", "x1a2");
        check("{% for k, v in {'x': 1, 'a': 2} | items %}{{ k }}{{ v }}{% endfor %}{{ ([1] + [2]) | length }}", "x1a22");
        check(
            "{{ messages | map(attribute='role') | list | join(',') }}{{ messages | selectattr('role', 'equalto', 'x') | list | length }}",
            "user0",
        );
    }

    /// Each of these made the library panic, or is next to one that did.
    #[test]
    fn edges_of_the_library_are_kept_away_from() {
        check("{{ ''[::-1] }}|{{ [][::-1] | list | length }}|{{ nothing[::-1] | length }}", "|0|0");
        check(
            "{{ 'abcd'[::-1] }} {{ 'abcd'[0:2:-1] }} {{ 'abcd'[2:0:-1] }} {{ 'abcd'[-2::-2] }} {{ 'abcd'[9:1:-1] }}",
            "dcba  cb ca dc",
        );
        check("{{ 'aéb'[1:] }} {{ 'abcd'[-3:-1] }} {{ 'abcd'[::3] }} {{ 'abcd'[9:] }} {{ 'abcd'[-9:2] }}", "éb bc ad  ab");
        check("{{ 'ab'[::-9223372036854775808] }}{{ 'ab'[-9223372036854775808:9223372036854775807] }}", "bab");
        check("{{ [1, 2, 3][1:] }} {{ (1, 2, 3)[::-1] }} {{ range(5)[1::2] }}", "[2, 3] (3, 2, 1) [1, 3]");
        check(
            "{{ 5 is divisibleby(0) }} {{ 6 is divisibleby(3) }} {{ [4, 5] | select('divisibleby', 2) | list }}",
            "False True [4]",
        );
        check(
            "{% for x in [1, 2] %}{{ loop.cycle() }}{{ loop.cycle(*[]) }}{{ loop.cycle('a', 'b') }}{% endfor %}",
            "NoneNoneaNoneNoneb",
        );
        check("{{ range(3, 0, -1) | list }} {{ range(2) | list }}", "[3, 2, 1] [0, 1]");
        check_refused("{{ range(1, 0, -9223372036854775808) }}", "too far");
        check_refused("{{ range(9223372036854775807, -9223372036854775807, -1) }}", "too far");
        check_refused("{{ 'a'[::0] }}", "step");
        check_refused("{{ 1[1:] }}", "slices");
        check_refused(
            "{% set ns = namespace() %}{% for i in range(99999) %}{% set ns.x = range(99999)[:1] %}{% endfor %}",
            "more text than",
        );
    }

    #[test]
    fn a_template_is_compiled_once_however_often_it_renders() {
        let template = Template::new("{{ messages | length }} compiled once").expect("a sound template");
        let n_compiled = guard::n_compiled();
        for n_messages in 0..3 {
            let scene = Scene { messages: vec![json!({}); n_messages], ..Scene::default() };
            assert_eq!(template.render(&scene).expect("a rendering"), format!("{n_messages} compiled once"));
        }
        let same = Template::new(template.source()).expect("a sound template");
        assert_eq!(same.render(&Scene::default()).expect("a rendering"), "0 compiled once");
        assert_eq!(guard::n_compiled(), n_compiled);
    }

    #[test]
    fn a_template_says_why_it_refuses() {
        check_refused("{{ raise_exception('roles must alternate') }}", "roles must alternate");
        check_refused("{{ strftime_now('%d %b %Y') }}", "time");
        check_refused("a\n{{ 1 +", "line 2");
        check_refused("{% include 'x' %}", "other templates");
        check_refused(&"x".repeat(SOURCE_LEN_MAX + 1), "KiB");
    }

    #[test]
    fn a_template_that_takes_parts_is_known_by_its_loops_and_filters() {
        let check = |source: &str, expected: bool| {
            assert_eq!(Template::new(source).expect("a sound template").takes_parts(), expected, "{source}");
        };
        check("{% for part in message.content %}{% endfor %}", true);
        check("{% for x in message['content'] | selectattr('type', 'equalto', 'text') %}{{ x.text }}{% endfor %}", true);
        check("{%- for x in (message.content|rejectattr('type', 'equalto', 'image')) if x %}{% endfor %}", true);
        check("{{ m['content'] | selectattr('type', 'equalto', 'text') | map(attribute='text') | join }}", true);
        check("{{ message.content | map(attribute='text') | join }}", true);
        check("{% for message in messages %}{{ message.content | trim }}{% endfor %}", false);
        check("{% for m in messages | selectattr('role', 'equalto', 'user') %}{{ m['content'] }}{% endfor %}", false);
    }

    #[test]
    fn the_time_comes_from_outside() {
        let now = "2024-07-26T10:20:30Z".parse().expect("a time");
        let scene = Scene { now: Some(now), ..Scene::default() };
        let template = Template::new("{{ strftime_now('%d %b %Y') }}").expect("a sound template");
        assert_eq!(template.render(&scene).expect("a date"), "26 Jul 2024");
    }

    #[test]
    fn hostile_templates_end_soon_and_small() {
        let looped = |body: &str| {
            format!(
                "{{% set ns = namespace(x='x', l=[1]) %}}{{% for i in range(99999) %}}{body}{{% endfor %}}{{{{ ns.x | length }}}}"
            )
        };
        let endless = "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}";
        check_refused(endless, "too many steps");
        check_refused("{% for i in range(10**9) %}x{% endfor %}", "range");
        check_refused("{{ 'x' * 10**9 }}", "more text than");
        check_refused("{% set x = ('x' * 10**6) * 10**6 %}", "more text than");
        check_refused(&looped("{% set ns.x = ns.x ~ ns.x %}"), "more text than");
        check_refused(&looped("{% set ns.x = ns.x + ns.x %}"), "more text than");
        check_refused(&looped("{% set ns.x = [ns.x, ns.x] %}"), "more text than");
        check_refused(&looped("{% set ns.l = ns.l + ns.l %}"), "more text than");
        check_refused(&looped("{% set ns.l = [ns.l] + [ns.l] %}"), "");
        check_refused(&looped("{% set ns.l = [ns.l] + [] %}"), "nested");
        check_refused(&looped("{% set ns.l = {'a': ns.l}.items() %}"), "nested");
        check_refused(&looped("{% set ns.l = {'a': ns.l} | items %}"), "nested");
        check_refused(&looped("{% set ns.l = [ns.l] | map('list') %}"), "");
        check_refused(&looped("{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"), "more text than");
        check_refused(&looped("{% set ns.x = ns.x.replace('x', 'xx') %}"), "more text than");
        check_refused(&looped("{% set ns.x = [ns.x, ns.x] | join(ns.x) %}"), "more text than");
        check_refused(&looped("{% set y = range(99999) | list | sort %}"), "more text than");
        check_refused(&looped("{% if ns.x.count('b') %}{% endif %}{% set ns.x = 'a' * 10**6 %}"), "more text than");
        check_refused(&looped("{% set ns.x = ns.x ~ 'yyyyyyyyyyyyyyyy' %}{% set y = ns.x[::-1] %}"), "more text than");
        check_refused(&looped("{% set y = range(99999) | select('in', range(99999) | list) | list %}"), "in");
        check_refused("{{ 'a\nb' | indent(10**12) }}", "more text than");
        check_refused("{{ '{:>999999999}'.format(1) }}", "format");
        check_refused("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "recursion");
        check_refused("{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('x') }}", "");
        check_refused("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns == namespace(x=ns) }}", "nested");
        check_refused("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", "nested");
    }

    #[test]
    fn jumps_out_of_blocks_are_refused_before_they_panic() {
        let looped = |body: &str| format!("{{% for x in messages %}}{body}{{% endfor %}}");
        for jump in ["break", "continue"] {
            let jump = format!("{{% if x %}}{{% {jump} %}}{{% endif %}}");
            check_refused(&looped(&format!("{{% with a = 1 %}}{jump}{{% endwith %}}")), "need a loop");
            check_refused(&looped(&format!("{{% set a %}}{jump}{{% endset %}}")), "need a loop");
            check_refused(&looped(&format!("{{% filter upper %}}{jump}{{% endfilter %}}")), "need a loop");
            check_refused(&looped(&format!("{{% macro f() %}}{jump}{{% endmacro %}}{{{{ f() }}}}")), "");
            let inner = format!("{{% with %}}{{% for y in [] %}}{{% else %}}{jump}{{% endfor %}}{{% endwith %}}");
            check_refused(&looped(&inner), "need a loop");
            check(&looped(&format!("a{{% for y in [] %}}{{% else %}}{jump}{{% endfor %}}b")), "a");
            check(&looped(&format!("{{% with a = 1 %}}{{% for y in [x] %}}b{jump}{{% endfor %}}{{% endwith %}}")), "b");
        }
    }

    #[test]
    fn deep_sources_are_refused_before_they_use_up_the_stack() {
        check_refused(&format!("{{{{ {}x }}}}", "x~".repeat(50_000)), "words");
        check_refused(&format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(10_000)), "tags");
        check_refused(&"{% if x %}".repeat(1_500), "");
        check_refused(&format!("{{{{ {}{} }}}}", "[".repeat(400), "]".repeat(400)), "recursion");
        check(&format!("{{{{ {}1 }}}}", "-".repeat(900)), "1");
        check(&format!("{{{{ 'a'{} }}}}", "|upper".repeat(450)), "A");
        check(&format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(200)), "");
    }
}
