use super::*;
use crate::testing::{Script, timeout, trace};
use serde_json::json;

const ALONE: Bench<'_> = Bench { judge: None, seed: 1, n_retries: 1 };

fn grade(grader: &Value, answer: &str, bench: Bench<'_>) -> Result<Grade, GraderError> {
    Grader::parse(&grader.to_string())?.grade(&trace("t", &[answer]), &json!({"answer": "Paris", "n": 3}), bench)
}

#[track_caller]
fn check(grader: &Value, answer: &str, score: f64) {
    let grade = grade(grader, answer, ALONE).unwrap();
    assert!((grade.score - score).abs() < 1e-9, "{grade:?}");
}

fn string_check(operation: &str, input: &str, reference: &str) -> Value {
    json!({"type": "string_check", "name": "c", "input": input, "reference": reference, "operation": operation})
}

#[test]
fn string_checks() {
    for (operation, answer, score) in [
        ("eq", "Paris", 1.0),
        ("eq", "paris", 0.0),
        ("ne", "Rome", 1.0),
        ("neq", "Paris", 0.0),
        ("like", "It is Paris.", 1.0),
        ("like", "It is paris.", 0.0),
        ("ilike", "It is PARIS.", 1.0),
        ("ilike", "It is Rome.", 0.0),
    ] {
        check(&string_check(operation, "{{ sample.output_text }}", "{{ item.answer }}"), answer, score);
    }
    check(&string_check("eq", "{{ sample.output_json.city.name }}", "Paris"), r#"{"city": {"name": "Paris"}}"#, 1.0);
    check(&string_check("eq", "{{ item.n }}", "3"), "", 1.0);
}

#[test]
fn an_answer_without_what_is_asked_scores_low_and_says_why() {
    let grade = grade(&string_check("ne", "{{ sample.output_json.city }}", "Rome"), "not JSON", ALONE).unwrap();
    assert_eq!((grade.score, grade.words.as_slice()), (0.0, &["the answer has no sample.output_json.city".to_owned()][..]));
}

#[test]
fn text_similarity_by_name() {
    let similarity = |metric: &str| json!({"type": "text_similarity", "name": "s", "input": "{{sample.output_text}}", "reference": "{{item.answer}}", "evaluation_metric": metric});
    for metric in ["fuzzy_match", "gleu", "bleu", "rouge_1", "rouge_l"] {
        check(&similarity(metric), "Paris", 1.0);
    }
    for (metric, needs) in [("cosine", "an embedding model"), ("meteor", "a dictionary of synonyms")] {
        let error = Grader::parse(&similarity(metric).to_string()).unwrap_err().to_string();
        assert!(error.contains(needs), "{error}");
    }
}

#[test]
fn a_program_grades_within_limits() {
    let grader = |source: &str| json!({"type": "python", "name": "p", "source": source});
    let right = "def grade(sample, item):\n    return 1.0 if sample['output_text'] == item['answer'] else 0.5";
    check(&grader(right), "Paris", 1.0);
    check(&grader(right), "Rome", 0.5);
    check(&grader("def grade(sample, item):\n    return sample['output_json']['n'] / 4"), r#"{"n": 3}"#, 0.75);
    check(&grader("def grade(sample, item):\n    return len(sample['output_text']) > 3"), "Paris", 1.0);
    for broken in ["return sample['nothing']", "return 'high'", "return 1e308 * 10", "return grade(sample, item)"] {
        check(&grader(&format!("def grade(sample, item):\n    {broken}")), "Paris", 0.0);
    }
    check(&grader("def grade(sample, item):\n    while True:\n        pass"), "Paris", 0.0);
    let both = json!({"type": "multi", "graders": {"p": grader(right), "s": string_check("eq", "{{sample.output_text}}", "Rome")}, "calculate_output": "p + s"});
    check(&both, "Rome", 1.5);
}

#[test]
fn what_cannot_work_is_refused_when_read() {
    for (grader, error) in [
        (json!({"type": "python", "source": "def other(): pass"}), "its source defines no function `grade(sample, item)`"),
        (json!({"type": "python", "source": "def grade(sample, item):\n    return ("}), "the `python` grader: line 2"),
        (json!({"type": "python", "source": "import os\ndef grade(sample, item):\n    return 1"}), "the `python` grader: line 1"),
        (json!({"type": "magic"}), "unknown variant `magic`"),
        (string_check("equals", "a", "b"), "unknown variant `equals`"),
        (
            json!({"type": "string_check", "input": "a", "reference": "b", "operation": "eq", "inptu": "x"}),
            "unknown field `inptu`",
        ),
        (json!({"type": "score_model", "input": [], "range": [1, 0]}), "the range [1, 0] is empty"),
        (json!({"type": "score_model", "input": [], "sampling_params": {"temperature": 0}}), "unknown field `temperature`"),
        (json!({"type": "label_model", "input": [], "labels": ["a"], "passing_labels": ["b"]}), "`b` is not one of the labels"),
        (string_check("eq", "{{ nope }}", ""), "`{{ nope }}` is not a path that begins with `item` or `sample`"),
        (string_check("eq", "{{ sample.outputtext }}", ""), "has `output_text`, `output_tools`, `output_json`"),
        (string_check("eq", "", "{{ item.answer"), "a `{{` is never closed"),
        (
            json!({"type": "text_similarity", "input": "{{ output_text }}", "reference": "", "evaluation_metric": "gleu"}),
            "`{{ output_text }}` is not a path",
        ),
        (json!({"type": "score_model", "input": [{"role": "user", "content": "{{ answer }}"}]}), "`{{ answer }}` is not a path"),
        (
            json!({"type": "label_model", "input": [{"role": "user", "content": "{{"}], "labels": ["a"], "passing_labels": ["a"]}),
            "a `{{` is never closed",
        ),
        (
            json!({"type": "multi", "graders": {"a": string_check("eq", &"{{item}}".repeat(300), "")}, "calculate_output": "a"}),
            "a text has at most 256 places",
        ),
        (json!({"type": "multi", "graders": {}, "calculate_output": "a"}), "names `a`"),
        (json!({"type": "multi", "graders": {"a": string_check("eq", "", "")}, "calculate_output": "1"}), "`a` is not used"),
        (json!({"type": "multi", "graders": {}, "calculate_output": "__import__('os')"}), "there is no function `__import__`"),
    ] {
        let message = Grader::parse(&grader.to_string()).unwrap_err().to_string();
        assert!(message.contains(error), "{message}");
    }
}

#[test]
fn a_multi_grader_weighs_others_by_its_formula() {
    let multi = json!({
        "type": "multi",
        "graders": {
            "exact": string_check("eq", "{{ sample.output_text }}", "{{ item.answer }}"),
            "near": {"type": "text_similarity", "input": "{{sample.output_text}}", "reference": "{{item.answer}}", "evaluation_metric": "fuzzy_match"},
        },
        "calculate_output": "0.7 * exact + 0.3 * min(near, 1)",
    });
    check(&multi, "Paris", 1.0);
    let graded = grade(&multi, "Pari", ALONE).unwrap();
    assert!((graded.score - 0.3 * 8.0 / 9.0).abs() < 1e-9);
    assert_eq!(graded.sub_scores["exact"], 0.0);
}

#[test]
fn a_formula_without_a_value_scores_nothing_and_says_why() {
    let multi = json!({
        "type": "multi",
        "graders": {"a": string_check("like", "{{ sample.output_text }}", "is"), "b": string_check("like", "{{ sample.output_text }}", "Rome")},
        "calculate_output": "a / b",
    });
    check(&multi, "Rome is it", 1.0);
    let graded = grade(&multi, "It is Paris", ALONE).unwrap();
    assert_eq!((graded.score, graded.sub_scores["a"]), (0.0, 1.0));
    assert_eq!(graded.words, ["the formula `a / b` has no finite value here"]);
    let outer = json!({"type": "multi", "graders": {"m": multi}, "calculate_output": "1 + m"});
    check(&outer, "It is Paris", 1.0);
}

fn score_model() -> Value {
    let input = json!([{"role": "user", "content": "Grade: {{ sample.output_text }} for {{ item.answer }}"}]);
    json!({"type": "score_model", "name": "m", "model": "scripted", "input": input, "range": [0, 10]})
}

#[test]
fn a_score_model_is_asked_in_a_strict_form_and_again_when_out_of_range() {
    let judge = Script::says(|asked| json!({"explanation": "fine", "result": if asked.call_idx == 0 { 11 } else { 8 }}));
    let grade = grade(&score_model(), "Paris", Bench { judge: Some(&judge), ..ALONE }).unwrap();
    assert_eq!((grade.score, grade.words.as_slice(), grade.bill.n_calls), (8.0, &["fine".to_owned()][..], 2));
    let calls = judge.calls.lock().unwrap();
    assert_eq!(calls[0].messages[1].content.text(), "Grade: Paris for Paris");
    assert_eq!(calls[0].opening.schema.as_ref().unwrap()["additionalProperties"], json!(false));
    assert!(calls[1].last().contains("`result` is 11, which is not between 0 and 10"), "{}", calls[1].last());
}

#[test]
fn a_judge_that_keeps_to_schemas_scores_within_the_range() {
    for (keeps_to_schemas, explanation, result) in [
        (true, json!({"type": "string", "maxLength": 160}), json!({"type": "number", "minimum": 0.0, "maximum": 10.0})),
        (false, json!({"type": "string"}), json!({"type": "number"})),
    ] {
        let mut judge = Script::says(|_| json!({"explanation": "fine", "result": 8}));
        judge.keeps_to_schemas = keeps_to_schemas;
        grade(&score_model(), "Paris", Bench { judge: Some(&judge), ..ALONE }).unwrap();
        let calls = judge.calls.lock().unwrap();
        let parts = &calls[0].opening.schema.as_ref().unwrap()["properties"];
        assert_eq!((&parts["explanation"], &parts["result"]), (&explanation, &result));
    }
}

#[test]
fn a_score_model_that_gives_nothing_is_an_error() {
    let judge = Script::new(|_| Err(timeout()));
    let error = grade(&score_model(), "Paris", Bench { judge: Some(&judge), ..ALONE }).unwrap_err();
    assert!(error.to_string().starts_with("after 2 calls: the judge gave no answer: policy_timeout"), "{error}");
    assert_eq!(grade(&score_model(), "Paris", ALONE), Err(GraderError::NoJudge));
    let mut other = score_model();
    other["model"] = json!("o3");
    let error = grade(&other, "Paris", Bench { judge: Some(&judge), ..ALONE }).unwrap_err();
    assert_eq!(error, GraderError::OtherModel { asked: "o3".into(), given: "scripted".into() });
}

#[test]
fn a_label_model_chooses_among_the_labels() {
    let input = json!([{"role": "system", "content": "Classify."}, {"role": "user", "content": "{{ sample.output_text }}"}]);
    let grader =
        json!({"type": "label_model", "input": input, "labels": ["good", "fair", "bad"], "passing_labels": ["good", "fair"]});
    for (label, score) in [("good", 1.0), ("fair", 1.0), ("bad", 0.0)] {
        let judge = Script::says(move |_| json!({"explanation": "", "result": label}));
        let grade = grade(&grader, "Paris", Bench { judge: Some(&judge), ..ALONE }).unwrap();
        assert_eq!((grade.score, grade.words.as_slice()), (score, &[format!("label {label}")][..]));
        assert!(judge.calls.lock().unwrap()[0].messages[0].content.text().starts_with("Classify.\n\nAnswer with one JSON"));
    }
    let judge = Script::says(|_| json!({"explanation": "", "result": "superb"}));
    let error = grade(&grader, "Paris", Bench { judge: Some(&judge), ..ALONE }).unwrap_err();
    assert_eq!(error.to_string(), "after 2 calls: `superb` is not one of the labels");
}
