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

/// Returns whether the error message is the same.
fn is_same(case: &Value, reply: &Reply) -> bool {
    let body: Value = serde_json::from_str(&reply.text()).unwrap_or_default();
    case["error"].as_object().is_some_and(|error| error.iter().all(|(name, value)| body["error"][name] == *value))
}

#[test]
fn statuses_and_errors_equal_those_of_a_real_server() {
    let server = Server::start(spec(Profile::Instant)).unwrap();
    let golden = golden_json("simulator/refusals.json");
    let (mut wrong, mut same) = (Vec::new(), Vec::new());
    for case in golden["cases"].as_array().unwrap() {
        let reply = ask(&server, case);
        let name = case["name"].as_str().unwrap();
        let exact = is_same(case, &reply);
        if exact {
            same.push(name.to_owned());
        }
        if case["status"] != reply.status {
            wrong.push(format!("{name}: {} but {}: {}", case["status"], reply.status, reply.text()));
        } else if case["exact"] == true && !exact {
            wrong.push(format!("{name}: {} but {}", case["error"], reply.text()));
        }
    }
    if let Ok(path) = std::env::var("TACHO_SAME_WORDS") {
        std::fs::write(path, same.join("\n")).unwrap();
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
