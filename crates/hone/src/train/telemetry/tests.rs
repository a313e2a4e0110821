//! Collectors that take metrics, refuse them, say nothing, or are not there.

use super::*;
use hone_trace::{Time, V1};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

fn run() -> Run {
    Run {
        v: V1,
        name: "run-7".to_owned(),
        method: "grpo".to_owned(),
        model: "tiny".to_owned(),
        model_hash: None,
        env: Some("desk".to_owned()),
        seed: 1,
        settings: BTreeMap::new(),
        fork: None,
        tenant: None,
    }
}

fn line(step: u64) -> Line {
    Line::new(step, Time::from_unix_nanos(1_500_000_000), [("reward", 0.25)])
}

/// A collector that answers each request with this status, or never; what it gets: head and body.
fn collector(status: Option<&'static str>) -> (Collector, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://user:canary@{}", listener.local_addr().unwrap());
    let (to, got) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut n_bytes) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let from = head.len();
                reader.read_line(&mut head).unwrap();
                let line = head[from..].to_lowercase();
                n_bytes = line.strip_prefix("content-length:").map_or(n_bytes, |text| text.trim().parse().unwrap());
            }
            let mut body = vec![0; n_bytes];
            reader.read_exact(&mut body).unwrap();
            to.send((head, serde_json::from_slice(&body).unwrap())).unwrap();
            match status {
                Some(status) => {
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                    stream.write_all(answer.as_bytes()).unwrap();
                }
                // Until the other side gives up.
                None => drop(stream.read(&mut [0])),
            }
        }
    });
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b,x-other=c")];
    (Collector::of(&variables.into()).unwrap().unwrap(), got)
}

#[test]
fn a_collector_gets_every_line_once() {
    let (collector, got) = collector(Some("200 OK"));
    let telemetry = Telemetry::start(collector, &run()).unwrap();
    (1..=5).for_each(|step| telemetry.add(&line(step)));
    assert_eq!(telemetry.trouble(), None);
    assert_eq!(telemetry.close(), None);
    let mut steps = Vec::new();
    for (head, body) in got.try_iter() {
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n") && head.contains("x-key: a b\r\n"), "{head}");
        assert!(head.contains("content-type: application/json\r\n"), "{head}");
        let of = &body["resourceMetrics"][0];
        assert_eq!(of["resource"]["attributes"][1], json!({"key": "hone.run", "value": {"stringValue": "run-7"}}));
        let metrics = &of["scopeMetrics"][0]["metrics"];
        assert_eq!((&metrics[0]["name"], &metrics[1]["name"]), (&json!("hone.train.reward"), &json!("hone.train.step")));
        let first = &metrics[0]["gauge"]["dataPoints"][0];
        assert_eq!(*first, json!({"timeUnixNano": "1500000000", "asDouble": 0.25}));
        let points = metrics[1]["gauge"]["dataPoints"].as_array().unwrap();
        steps.extend(points.iter().map(|point| point["asInt"].as_str().unwrap().to_owned()));
    }
    assert_eq!(steps, ["1", "2", "3", "4", "5"]);
}

/// Hands over many lines, and says what was told on the way and at the end.
fn told(collector: Collector) -> (Vec<String>, Option<String>) {
    let telemetry = Telemetry::start(collector, &run()).unwrap();
    let mut told = Vec::new();
    for step in 0..1000 {
        telemetry.add(&line(step));
        told.extend(telemetry.trouble());
    }
    let last = telemetry.close();
    (told, last)
}

#[test]
fn a_collector_that_does_not_listen_holds_nothing_up() {
    // One that never answers: the queue runs full.
    let (collector, _got) = collector(None);
    let (said, last) = told(collector);
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("http://user:***@127.0.0.1:") && said[0].contains("it is too slow"), "{said:?}");
    assert!(last.unwrap().contains("did not take the last metrics in time"));
}

#[test]
fn a_collector_that_refuses_or_is_away_is_named_once() {
    let (refusing, _got) = collector(Some("503 Service Unavailable"));
    let telemetry = Telemetry::start(refusing, &run()).unwrap();
    telemetry.add(&line(1));
    let lost = Arc::clone(&telemetry.lost);
    assert_eq!(
        telemetry.close().unwrap().split_once(" did not get ").unwrap().1,
        "1 line of metrics; metrics.jsonl has them all"
    );
    assert_eq!(lost.lock().unwrap().why.as_deref(), Some("it answers 503 Service Unavailable"));
    let away = Collector::of(&[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:9/m")].into()).unwrap().unwrap();
    let telemetry = Telemetry::start(away, &run()).unwrap();
    telemetry.add(&line(1));
    let told = (0..500).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        telemetry.trouble()
    });
    assert!(told.unwrap().starts_with("metrics do not reach http://127.0.0.1:9/m: "));
    assert_eq!(telemetry.trouble(), None);
}

fn check<const N: usize>(variables: [(&str, &str); N], expected: Result<Option<&str>, &str>) {
    match (Collector::of(&variables.into()), expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found.map(|collector| collector.url).as_deref(), expected),
        (Err(failure), Err(text)) => assert!(failure.to_string().contains(text), "{failure}"),
        (found, expected) => panic!("{found:?} is not {expected:?}"),
    }
}

#[test]
fn the_standard_variables_say_where() {
    const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const OWN: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
    check([], Ok(None));
    check([(BASE, "http://c:4318/")], Ok(Some("http://c:4318/v1/metrics")));
    check([(BASE, "http://c:4318"), (OWN, "https://m/x")], Ok(Some("https://m/x")));
    check([(BASE, "http://c:4318"), ("OTEL_METRICS_EXPORTER", "none")], Ok(None));
    check([(BASE, "http://c:4318"), ("OTEL_SDK_DISABLED", "TRUE")], Ok(None));
    check([(BASE, "c:4318")], Err("must begin with http://"));
    check([(BASE, "http://c:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], Err("asks for grpc"));
    check([(BASE, "http://c"), ("OTEL_EXPORTER_OTLP_HEADERS", "canary")], Err("is not a list"));
    check([(BASE, "http://c"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=%zz")], Err("is not a list"));
}
