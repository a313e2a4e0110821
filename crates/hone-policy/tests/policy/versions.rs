//! Adapters are loaded into a server by name.

use crate::server::{Play, Server};
use hone_policy::upstream::{Client, ClientOptions, UpstreamSpec};
use std::path::Path;

fn said(status: &str, text: &str) -> Play {
    Play::Say(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}", text.len()).into_bytes())
}

fn client(server: &Server) -> Client {
    let spec: UpstreamSpec = format!("http://{}/v1#base", server.address).parse().unwrap();
    Client::new(spec, None, ClientOptions::default()).unwrap()
}

#[tokio::test]
async fn an_adapter_is_loaded_and_unloaded_by_name() {
    let server = Server::playing(vec![said("200 OK", "Success: LoRA adapter 'run@7' added successfully.")]);
    let client = client(&server);
    client.load_adapter("run@7", Path::new("/runs/run/versions/7")).await.unwrap();
    client.unload_adapter("run@7").await.unwrap();
    let seen = server.seen();
    assert!(seen[0].head.starts_with("POST /v1/load_lora_adapter "), "{}", seen[0].head);
    assert_eq!(seen[0].body, serde_json::json!({"lora_name": "run@7", "lora_path": "/runs/run/versions/7"}));
    assert!(seen[1].head.starts_with("POST /v1/unload_lora_adapter "), "{}", seen[1].head);
    assert_eq!(client.for_model("run@7").spec().model, "run@7");
}

#[tokio::test]
async fn a_server_that_does_not_say_why_not() {
    let server = Server::playing(vec![said("404 Not Found", "{\"detail\":\"Not Found\"}")]);
    let error = client(&server).load_adapter("run@7", Path::new("/runs/7")).await.unwrap_err();
    let expected = format!(
        "http://{}/v1/load_lora_adapter did not load the adapter `run@7`: 404 {{\"detail\":\"Not Found\"}}",
        server.address
    );
    assert_eq!(error.to_string(), expected);
}
