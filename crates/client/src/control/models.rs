//! The models a server serves.

use std::time::Duration;

use tacho_core::json::{Value, parse};
use tacho_core::secret::redact_known;

use super::{Caller, call::Limits};
use crate::Error;

const PATH: &str = "/v1/models";
const LIMITS: Limits = Limits { time: Duration::from_secs(30), body: 16 << 20 };
/// Maximum length of a model name, which becomes part of every request and of file names.
const MAX_NAME: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedModel {
    /// The name requests must use.
    pub name: String,
    /// The path or ID it was loaded from, where its tokenizer is found.
    pub root: String,
}

pub fn first_model(caller: &Caller) -> Result<ServedModel, Error> {
    let path = match caller.backend().declared() {
        None => PATH,
        Some(declared) => declared.models_path().ok_or(Error::NoModelList)?,
    };
    let failed = |reason| Error::Call { method: "GET", url: caller.url(path), reason };
    let first = models(caller)?.into_iter().next();
    first.ok_or_else(|| failed("the response names no model; pass --model".to_owned()))
}

/// The models of `/v1/models`, in the server's order.
pub fn models(caller: &Caller) -> Result<Vec<ServedModel>, Error> {
    let declared = caller.backend().declared();
    let path = declared.map_or(Some(PATH), |declared| declared.models_path());
    let Some(path) = path else { return Ok(Vec::new()) };
    let failed = |reason: String| Error::Call { method: "GET", url: caller.url(path), reason };
    let mut response = caller.within(LIMITS).get(path, caller.user_headers())?;
    if response.status == 404 && declared.is_none() {
        // Infinity lists its models there.
        let other = caller.within(LIMITS).get("/models", caller.user_headers())?;
        response = if other.status == 200 { other } else { response };
    }
    if response.status != 200 {
        let hint = match response.status {
            401 | 403 if caller.signs_in() => "it does not accept the credential: check the flags of sign-in",
            401 | 403 if caller.user_headers().has("authorization") => {
                "it does not accept the key: check --api-key, OPENAI_API_KEY or --header"
            }
            401 | 403 => {
                "it wants a key: pass --api-key KEY, or set OPENAI_API_KEY; tacho help auth lists other ways to sign in"
            }
            _ => "pass --model to name the model yourself",
        };
        return Err(caller.refused("GET", path, &response, hint));
    }
    let text = String::from_utf8_lossy(response.unredacted());
    let list = parse(&text).map_err(|error| failed(format!("the response is not JSON ({error})")))?;
    // A name is sent back and printed, so it can neither be redacted nor be kept.
    let check = |name: &str| match is_secretless(name) {
        true => Ok(()),
        false => Err(failed("a model's name repeats a header value or a key of this run; pass --model".to_owned())),
    };
    if let Some(declared) = declared {
        let named = declared.model_names(&list).into_iter().filter(|name| name.len() <= MAX_NAME);
        return named
            .map(|name| check(name).map(|()| ServedModel { name: name.to_owned(), root: name.to_owned() }))
            .collect();
    }
    let listed = list.get("data").and_then(Value::as_list).unwrap_or_default();
    let named = listed.iter().filter_map(|model| Some((model, model.text("id")?)));
    let served = named.map(|(model, name)| {
        if name.len() > MAX_NAME {
            let bytes = name.len();
            return Err(failed(format!("the model's name is {bytes} bytes long, of which {MAX_NAME} are allowed")));
        }
        check(name)?;
        // Other servers than vLLM have no `root`.
        let root = model.text("root");
        let root = root.filter(|root| root.len() <= MAX_NAME && is_secretless(root)).unwrap_or(name);
        Ok(ServedModel { name: name.to_owned(), root: root.to_owned() })
    });
    served.collect()
}

fn is_secretless(name: &str) -> bool {
    redact_known(name) == name
}
