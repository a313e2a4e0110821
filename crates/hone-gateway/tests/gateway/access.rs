//! Who may do what.

use crate::world::{World, messages};
use hone_gateway::{Access, Identity, Limits, Role, Token};
use hone_trace::Tenant;
use serde_json::json;

/// Every route with what it needs: a method, a path, a body, and the least role.
const ROUTES: [(&str, &str, Option<Role>); 11] = [
    ("POST", "/v1/chat/completions", Some(Role::Call)),
    ("POST", "/v1/messages", Some(Role::Call)),
    ("POST", "/v1/embeddings", Some(Role::Call)),
    ("GET", "/v1/models", Some(Role::Call)),
    ("GET", "/v1/models/well", Some(Role::Call)),
    ("POST", "/v1/feedback", Some(Role::Report)),
    ("POST", "/v1/traces", Some(Role::Call)),
    ("POST", "/api/public/otel/v1/traces", Some(Role::Call)),
    ("GET", "/metrics", Some(Role::Report)),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
];

async fn guarded() -> World {
    let key = |name: &str, role| {
        let tenant = Tenant::new(format!("of {name}")).unwrap();
        (Token::of(&format!("sk-{name}")), Identity { tenant, role, name: name.into() })
    };
    let keys = [key("report", Role::Report), key("call", Role::Call), key("admin", Role::Admin)];
    World::with(Access::keys(keys).unwrap(), Limits::default()).await
}

async fn status(world: &World, method: &str, path: &str, key: Option<&str>) -> u16 {
    let bearer = key.map(|key| format!("Bearer {key}"));
    let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
    match method {
        "GET" => world.get(path, &headers).await.status,
        _ => world.post(path, &json!({}), &headers).await.status,
    }
}

#[tokio::test]
async fn every_route_asks_for_its_role() {
    let world = guarded().await;
    for (method, path, least) in ROUTES {
        for key in [None, Some("sk-wrong"), Some("sk-report"), Some("sk-call"), Some("sk-admin")] {
            let role = match key {
                Some("sk-report") => Some(Role::Report),
                Some("sk-call") => Some(Role::Call),
                Some("sk-admin") => Some(Role::Admin),
                _ => None,
            };
            let found = status(&world, method, path, key).await;
            match (least, role) {
                (Some(_), None) => assert_eq!(found, 401, "{path} {key:?}"),
                (Some(least), Some(role)) if role < least => assert_eq!(found, 403, "{path} {key:?}"),
                _ => assert!(found != 401 && found != 403, "{path} {key:?}: {found}"),
            }
        }
    }
}

#[tokio::test]
async fn tenants_do_not_see_each_other() {
    let world = guarded().await;
    let ask = async |key: &str| {
        let key = format!("Bearer {key}");
        world.chat("well", &[("user", "hi")], &[("authorization", &key), ("x-hone-episode", "the same")]).await
    };
    let (one, other) = (ask("sk-call").await, ask("sk-admin").await);
    assert_ne!(one.episode, other.episode, "a name means something else to another tenant");
    let stolen = [("authorization", "Bearer sk-admin"), ("x-hone-episode", one.episode.as_deref().unwrap())];
    assert_eq!(world.chat("well", &[("user", "mine now")], &stolen).await.status, 404);
    let body = json!({"episode_id": one.episode, "metric_name": "good", "value": true});
    assert_eq!(world.post("/v1/feedback", &body, &[("authorization", "Bearer sk-admin")]).await.status, 404);
    assert!(world.traces().await.iter().all(|trace| trace.turns().count() == 1));
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
    let text = world.get("/metrics", &[]).await.body;
    for expected in [
        "hone_requests_total{model=\"well\",status=\"ok\"} 1",
        "hone_requests_total{model=\"broken\",status=\"policy_provider\"} 1",
        "hone_input_tokens_total{model=\"well\"} 10",
        "hone_request_seconds_count{model=\"well\"} 1",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
