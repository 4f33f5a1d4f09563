//! Which model a server serves.

use tacho_core::json::{Value, parse};

use super::Caller;
use crate::Error;

/// A served model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedModel {
    /// The name requests must use.
    pub name: String,
    /// What it was loaded from, which is where the tokenizer is found.
    pub root: String,
}

/// The first model of `/v1/models`.
pub fn first_model(caller: &Caller) -> Result<ServedModel, Error> {
    let path = "/v1/models";
    let failed = |reason: String| Error::Call { method: "GET", url: caller.url(path), reason };
    let response = caller.get(path, caller.user_headers())?;
    if response.status != 200 {
        let hint = "pass --model to name the model yourself";
        return Err(failed(format!("the server answered {} {}; {hint}", response.status, response.reason)));
    }
    let text = String::from_utf8_lossy(&response.body);
    let list = parse(&text).map_err(|error| failed(format!("the answer is not JSON ({error})")))?;
    let first = list.get("data").and_then(Value::as_list).and_then(<[Value]>::first);
    let name = first.and_then(|model| model.get("id")).and_then(Value::as_str);
    let name = name.ok_or_else(|| failed("the answer names no model; pass --model".to_owned()))?;
    // Other servers than vLLM have no `root`.
    let root = first.and_then(|model| model.get("root")).and_then(Value::as_str).unwrap_or(name);
    Ok(ServedModel { name: name.to_owned(), root: root.to_owned() })
}
