//! Requests that a real vLLM refused or accepted, sent to the simulator.

use serde_json::Value;
use tacho_engine::Profile;
use tacho_sim::Server;
use tacho_testkit::golden_json;

use crate::client::{Client, Reply, spec};

fn ask(server: &Server, case: &Value) -> Reply {
    let text = |name: &str| case[name].as_str().unwrap_or_default();
    let kind = case["type"].as_str().map_or_else(String::new, |kind| format!("Content-Type: {kind}\r\n"));
    let mut client = Client::connect(server.addr());
    client.send(text("method"), text("path"), &kind, text("body"));
    client.reply().unwrap()
}

/// Grammars in Lark's notation, which vLLM accepts and the simulator does not.
const LARK: [&str; 2] = ["c-structured_outputs-18", "h-structured_outputs-18"];

#[test]
fn statuses_and_error_types_equal_those_of_a_real_server() {
    let server = Server::start(spec(Profile::Instant)).unwrap();
    let golden = golden_json("simulator/refusals.json");
    let mut wrong = Vec::new();
    for case in golden["cases"].as_array().unwrap() {
        let reply = ask(&server, case);
        let name = case["name"].as_str().unwrap();
        let error = serde_json::from_str::<Value>(&reply.text()).unwrap_or_default()["error"].clone();
        if LARK.contains(&name) {
            assert_eq!((reply.status, error["type"].as_str()), (400, Some("BadRequestError")));
        } else if case["status"] != reply.status || case["error"]["type"] != error["type"] {
            wrong.push(format!("{name}: {} {} but {}: {}", case["status"], case["error"], reply.status, reply.text()));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
