//! The request body of an exchange, key for key as in vLLM's script.

use tacho_core::dict;
use tacho_core::json::{Dict, Value, write_value};

use super::MultiTurnPlan;

/// Most tokens that an exchange may generate.
pub(super) fn max_tokens(plan: &MultiTurnPlan, recorded: u64) -> Option<u64> {
    match plan.limit_max_tokens {
        0 => Some(recorded.max(1)),
        limit => u64::try_from(limit).ok(),
    }
}

/// The body: the messages so far, the last one from the user.
pub(super) fn body(plan: &MultiTurnPlan, id: &str, messages: &[String], max_tokens: Option<u64>) -> Vec<u8> {
    let message = |(at, content): (usize, &String)| {
        Value::Dict(dict! { "role": if at % 2 == 0 { "user" } else { "assistant" }, "content": content.as_str() })
    };
    let mut body = Dict::new();
    body.set("model", plan.model_name.as_str());
    body.set("messages", messages.iter().enumerate().map(message).collect::<Vec<Value>>());
    if plan.send_conversation_id {
        body.set("conversation_id", id);
    }
    if plan.stream {
        let options = dict! { "include_usage": false };
        body.set("stream", true);
        body.set("stream_options", options);
    }
    if let Some(max_tokens) = max_tokens {
        body.set("max_tokens", max_tokens);
        if plan.exact_lengths {
            body.set("min_tokens", max_tokens);
            body.set("ignore_eos", true);
        }
    }
    let mut text = Vec::new();
    write_value(&mut text, &Value::Dict(body));
    text
}
