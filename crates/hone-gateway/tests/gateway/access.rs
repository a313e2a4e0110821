//! Who may do what.

use crate::world::{Told, World, messages};
use hone_gateway::{Access, Identity, Limits, Role, Token};
use hone_trace::Tenant;
use serde_json::json;
use std::collections::BTreeSet;

/// Every route with what it needs: a method, a path, and the least role.
const ROUTES: [(&str, &str, Option<Role>); 43] = [
    ("POST", "/v1/chat/completions", Some(Role::Call)),
    ("POST", "/v1/completions", Some(Role::Call)),
    ("POST", "/v1/responses", Some(Role::Call)),
    ("POST", "/v1/messages", Some(Role::Call)),
    ("POST", "/v1/messages/count_tokens", Some(Role::Call)),
    ("POST", "/v1/embeddings", Some(Role::Call)),
    ("GET", "/v1/models", Some(Role::Call)),
    ("GET", "/v1/models/{name}", Some(Role::Call)),
    ("POST", "/v1/feedback", Some(Role::Report)),
    ("POST", "/v1/traces", Some(Role::Call)),
    ("POST", "/api/public/otel/v1/traces", Some(Role::Call)),
    ("POST", "/api/public/otel/v1/logs", Some(Role::Call)),
    ("POST", "/v1/logs", Some(Role::Call)),
    ("GET", "/v1/agents", Some(Role::Read)),
    ("GET", "/v1/agents/{name}", Some(Role::Read)),
    ("GET", "/metrics", Some(Role::Report)),
    ("GET", "/openapi.json", Some(Role::Report)),
    ("GET", "/", None),
    ("GET", "/dashboard", Some(Role::Read)),
    ("GET", "/dashboard/traces", Some(Role::Read)),
    ("GET", "/dashboard/traces/{id}", Some(Role::Read)),
    ("POST", "/dashboard/traces/{id}", Some(Role::Read)),
    ("GET", "/dashboard/groups", Some(Role::Read)),
    ("GET", "/dashboard/groups/{id}", Some(Role::Read)),
    ("GET", "/dashboard/data", Some(Role::Read)),
    ("GET", "/dashboard/runs", Some(Role::Read)),
    ("GET", "/dashboard/runs/{id}", Some(Role::Read)),
    ("GET", "/dashboard/compare", Some(Role::Read)),
    ("GET", "/dashboard/evaluations", Some(Role::Read)),
    ("GET", "/dashboard/agents", Some(Role::Read)),
    ("GET", "/dashboard/agents/{name}", Some(Role::Read)),
    ("POST", "/dashboard/agents/{name}", Some(Role::Admin)),
    ("GET", "/dashboard/advice", Some(Role::Read)),
    ("POST", "/dashboard/advice", Some(Role::Admin)),
    ("GET", "/dashboard/configuration", Some(Role::Read)),
    ("GET", "/dashboard/sign-in", None),
    ("POST", "/dashboard/sign-in", None),
    ("POST", "/dashboard/sign-out", None),
    ("GET", "/dashboard/style.css", None),
    ("GET", "/dashboard/script.js", None),
    ("GET", "/dashboard/icon.svg", None),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
];

async fn guarded() -> World {
    let key = |name: &str, role| {
        let tenant = Tenant::new(format!("of {name}")).unwrap();
        (Token::of(&format!("sk-{name}")), Identity { tenant, role, name: name.into(), requests_per_minute: None })
    };
    let keys = [key("report", Role::Report), key("call", Role::Call), key("read", Role::Read), key("admin", Role::Admin)];
    World::with(Access::keys(keys).unwrap(), Limits::default()).await
}

async fn ask(world: &World, method: &str, path: &str, key: Option<&str>) -> Told {
    let path = path.replace("{name}", if path.contains("agents") { "desk" } else { "well" });
    let bearer = key.map(|key| format!("Bearer {key}"));
    let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
    match method {
        "GET" => world.get(&path, &headers).await,
        _ => world.post(&path, &json!({}), &headers).await,
    }
}

#[tokio::test]
async fn every_route_asks_for_its_role() {
    let world = guarded().await;
    for (method, path, least) in ROUTES {
        for key in [None, Some("sk-wrong"), Some("sk-report"), Some("sk-call"), Some("sk-read"), Some("sk-admin")] {
            let role = match key {
                Some("sk-report") => Some(Role::Report),
                Some("sk-call") => Some(Role::Call),
                Some("sk-read") => Some(Role::Read),
                Some("sk-admin") => Some(Role::Admin),
                _ => None,
            };
            let found = ask(&world, method, path, key).await.status;
            match (least, role) {
                (Some(_), None) => assert_eq!(found, 401, "{path} {key:?}"),
                (Some(least), Some(role)) if role < least => assert_eq!(found, 403, "{path} {key:?}"),
                // Who has no key cannot have come from a page of ours either.
                (None, None) if path.starts_with("/dashboard/sign-") => assert_ne!(found, 401, "{path} {key:?}"),
                _ => assert!(found != 401 && (found != 403 || path == "/dashboard/sign-in"), "{path} {key:?}: {found}"),
            }
        }
    }
}

#[tokio::test]
async fn nobody_is_asked_for_an_answer_in_an_episode_of_somebody_else() {
    let world = guarded().await;
    let (call, read) = (("authorization", "Bearer sk-call"), ("authorization", "Bearer sk-read"));
    let episode = world.chat("well", &[("user", "hi")], &[call]).await.episode.unwrap();
    let n_heard = world.heard.n();
    for is_stream in [false, true] {
        let body = json!({"model": "well", "messages": messages(&[("user", "hi")]), "stream": is_stream});
        let told = world.post("/v1/chat/completions", &body, &[read, ("x-hone-episode", &episode)]).await;
        assert_eq!(told.status, 404, "{}", told.body);
    }
    assert_eq!(world.heard.n(), n_heard);
    assert_eq!(world.chat("well", &[("user", "on")], &[call, ("x-hone-episode", &episode)]).await.status, 200);
}

/// V11, V12: a path that nobody had thought of was open, or open to the wrong people.
#[tokio::test]
async fn what_the_server_says_of_itself_is_what_it_does() {
    let world = World::open().await;
    let sample = crate::sample::write(&*world.store).await;
    let document = world.get("/openapi.json", &[]).await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut told = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let least = operation["x-hone-role"].as_str().map(str::to_owned);
            told.insert((method.to_uppercase(), path.clone(), least));
        }
    }
    let expected =
        ROUTES.map(|(method, path, least)| (method.to_owned(), path.to_owned(), least.map(|least| least.as_str().to_owned())));
    assert_eq!(told, BTreeSet::from(expected));
    for (method, path, _) in ROUTES {
        let path = match path {
            "/dashboard/traces/{id}" => path.replace("{id}", &sample.traces[0].to_string()),
            "/dashboard/groups/{id}" => path.replace("{id}", &sample.group.to_string()),
            _ => path.replace("{id}", "desk-grpo-1"),
        };
        let path = path.as_str();
        let mut status = ask(&world, method, path, None).await.status;
        for _ in 0..100 {
            // The agent is there as soon as the log was read.
            if status == 404 && path.contains("agents") {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                status = ask(&world, method, path, None).await.status;
            }
        }
        assert!(status != 404 && status != 405, "{method} {path}: {status}");
    }
}

/// V5: a key that was not found became an empty identity.
#[tokio::test]
async fn a_wrong_key_is_refused_in_the_words_of_its_format() {
    let world = guarded().await;
    let wrong = [("authorization", "Bearer sk-wrong")];
    let told = world.chat("well", &[("user", "hi")], &wrong).await;
    assert_eq!((told.status, told.json()["error"]["code"].clone()), (401, json!("invalid_api_key")));
    let told = world.post("/v1/messages", &json!({}), &[("x-api-key", "sk-wrong")]).await;
    assert_eq!((told.status, told.json()["error"]["type"].clone()), (401, json!("authentication_error")));
    assert_eq!(told.json()["type"], "error");
    // Text that would end a statement is looked up by its hash, and found nowhere (V1).
    for key in ["' OR 1=1 --", "\"; DROP TABLE documents; --", ""] {
        assert_eq!(ask(&world, "GET", "/v1/models", Some(key)).await.status, 401, "{key}");
    }
    let counted = ask(&world, "GET", "/metrics", Some("sk-report")).await.body;
    assert!(counted.contains("hone_refused_total{reason=\"key\"} 5"), "{counted}");
    assert!(!told.body.contains("sk-wrong") && !counted.contains("sk-wrong"));
}

#[tokio::test]
async fn tenants_do_not_see_each_other() {
    let world = guarded().await;
    let ask = async |key: &str, name: &str| {
        let key = format!("Bearer {key}");
        world.chat("well", &[("user", "hi")], &[("authorization", &key), ("x-hone-episode", name)]).await
    };
    let (one, other) = (ask("sk-call", "the same").await, ask("sk-admin", "the same").await);
    assert_ne!(one.episode, other.episode, "a name means something else to another tenant");
    let stolen = [("authorization", "Bearer sk-admin"), ("x-hone-episode", one.episode.as_deref().unwrap())];
    assert_eq!(world.chat("well", &[("user", "mine now")], &stolen).await.status, 404);
    let body = json!({"episode_id": one.episode, "metric_name": "good", "value": true});
    assert_eq!(world.post("/v1/feedback", &body, &[("authorization", "Bearer sk-admin")]).await.status, 404);
    assert!(world.traces().await.iter().all(|trace| trace.turns().count() == 1));
}

/// Who came first would have kept everybody else out of the name.
#[tokio::test]
async fn a_name_in_the_form_of_an_id_is_each_tenants_own() {
    let world = guarded().await;
    let name = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";
    let mut episodes = BTreeSet::new();
    for key in ["Bearer sk-admin", "Bearer sk-call"] {
        let headers = [("authorization", key), ("x-hone-episode", name)];
        let first = world.chat("well", &[("user", "hi")], &headers).await;
        assert_eq!(first.status, 200, "{}", first.body);
        let again = world.chat("well", &[("user", "and?")], &headers).await;
        assert_eq!((again.status, &again.episode), (200, &first.episode), "{}", again.body);
        let body = json!({"episode_id": name, "metric_name": "good", "value": true});
        let told = world.post("/v1/feedback", &body, &headers[..1]).await;
        assert_eq!((told.status, told.json()["episode_id"].as_str()), (200, first.episode.as_deref()), "{}", told.body);
        episodes.extend(first.episode);
    }
    assert!(episodes.len() == 2 && !episodes.contains(name), "{episodes:?}");
}

#[tokio::test]
async fn a_request_for_another_host_is_refused() {
    let world = World::open().await;
    for (host, expected) in [("localhost:1", 200), ("127.0.0.1", 200), ("hone.test", 200), ("evil.example", 421), ("", 421)] {
        assert_eq!(world.get("/healthz", &[("host", host)]).await.status, expected, "{host}");
    }
    assert_eq!(world.post("/v1/chat/completions", &json!({}), &[("host", "evil.example:80")]).await.status, 421);
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_same_form() {
    let world = World::open().await;
    assert_eq!(world.get("/v1/nothing", &[]).await.json()["error"]["type"], "invalid_request_error");
    assert_eq!(world.get("/v1/feedback", &[]).await.status, 405);
    let told = world.post("/v1/chat/completions", &json!({"model": "other", "messages": messages(&[("user", "hi")])}), &[]).await;
    assert_eq!((told.status, told.json()["error"]["code"].clone()), (404, json!("model_not_found")));
    let told = world.post("/v1/messages", &json!({"model": "other"}), &[]).await;
    assert_eq!(told.json()["error"]["type"], "invalid_request_error");
    assert!(told.json()["error"]["message"].as_str().unwrap().contains("max_tokens"));
}

#[tokio::test]
async fn counters_tell_what_happened() {
    let world = World::open().await;
    world.chat("well", &[("user", "hi")], &[]).await;
    world.chat("broken", &[("user", "hi")], &[]).await;
    let stream = json!({"model": "pondering", "messages": messages(&[("user", "hi")]), "stream": true});
    world.post("/v1/chat/completions", &stream, &[]).await;
    let text = world.get("/metrics", &[]).await.body;
    for expected in [
        "hone_requests_total{model=\"well\",status=\"ok\"} 1",
        "hone_requests_total{model=\"broken\",status=\"policy_provider\"} 1",
        "hone_input_tokens_total{model=\"well\"} 10",
        "hone_request_seconds_count{model=\"well\"} 1",
        "# TYPE hone_first_piece_seconds histogram",
        "hone_first_piece_seconds_count{model=\"well\"} 0",
        "hone_first_piece_seconds_bucket{model=\"pondering\",le=\"0.25\"} 0",
        "hone_first_piece_seconds_bucket{model=\"pondering\",le=\"+Inf\"} 1",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// Any page that a person looks at can have the browser send a plain text here, and it needs no answer to spend money.
#[tokio::test]
async fn a_page_of_elsewhere_changes_nothing() {
    let world = World::open().await;
    let (ours, asked) = (world.url.clone(), json!({"model": "well", "messages": [{"role": "user", "content": "hi"}]}));
    let feedback = json!({"episode_id": "e", "metric_name": "solved", "value": 1});
    let cases: [(&[(&str, &str)], bool); 8] = [
        (&[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("content-type", "text/plain")], false),
        (&[("origin", "https://evil.example")], false),
        (&[("origin", "null")], false),
        (&[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")], false),
        (&[("sec-fetch-site", "cross-site")], false),
        (&[("origin", &ours), ("sec-fetch-site", "cross-site")], false),
        (&[("origin", &ours), ("sec-fetch-site", "same-origin")], true),
        (&[], true),
    ];
    for (headers, is_let_in) in cases {
        let bodies =
            [("/v1/chat/completions", &asked), ("/v1/messages", &asked), ("/v1/embeddings", &asked), ("/v1/feedback", &feedback)];
        for (path, body) in bodies {
            let told = world.post(path, body, headers).await;
            assert_eq!(told.status != 403, is_let_in, "{path} {headers:?}: {}", told.body);
            assert!(is_let_in || told.body.contains("another origin"), "{}", told.body);
        }
    }
    assert_eq!(world.get("/v1/models", &[("origin", "https://evil.example")]).await.status, 200, "looking changes nothing");
}
