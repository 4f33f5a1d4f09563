//! Engine, version and settings that a server's API reveals. Only known keys are read, because some servers also list
//! their API keys and tokens.

use std::time::Duration;

use tacho_core::json::Value;

use super::Caller;
use super::call::Limits;

/// These calls are optional: a server that does not respond soon stays unknown.
const LIMITS: Limits = Limits { time: Duration::from_secs(2), body: 1 << 20 };
/// Maximum length of a version or setting.
const MAX_TEXT: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerInfo {
    pub version: Option<String>,
    /// The engine, if only one has this endpoint.
    pub engine: Option<String>,
    pub settings: Vec<(String, String)>,
}

/// Endpoints that state a version, in the order in which they are tried: vLLM's, SGLang's, TGI's.
const ENDPOINTS: [(&str, Option<&str>); 3] =
    [("/version", None), ("/get_server_info", Some("SGLang")), ("/info", Some("TGI"))];

/// Settings of SGLang and TGI that explain a result.
const SETTINGS: [&str; 19] = [
    "attention_backend",
    "chunked_prefill_size",
    "context_length",
    "disable_radix_cache",
    "dp_size",
    "dtype",
    "kv_cache_dtype",
    "max_concurrent_requests",
    "max_input_tokens",
    "max_prefill_tokens",
    "max_running_requests",
    "max_total_tokens",
    "mem_fraction_static",
    "model_dtype",
    "pp_size",
    "quantization",
    "schedule_policy",
    "speculative_algorithm",
    "tp_size",
];

/// Queries the server. Properties that it does not state, or not in time, stay unknown.
pub fn server_info(caller: &Caller) -> ServerInfo {
    let get = |path: &str| {
        let response = caller.optional(path, LIMITS).get(path, caller.user_headers()).ok()?;
        response.json().ok().filter(|_| response.status == 200)
    };
    let mut info = ServerInfo::default();
    for (path, engine) in ENDPOINTS {
        let stated = get(path);
        let version = stated.as_ref().and_then(|stated| plain(stated.get("version")?));
        if let (Some(stated), Some(version)) = (stated, version) {
            let setting = |key: &&str| Some(((*key).to_owned(), plain(stated.get(key)?)?));
            let settings = SETTINGS.iter().filter_map(setting).collect();
            let (version, engine) = simulator(&stated).unwrap_or((version, engine.map(str::to_owned)));
            info = ServerInfo { version: Some(version), engine, settings };
            break;
        }
    }
    let models = get("/v1/models");
    let first = models.as_ref().and_then(|models| models.get("data")?.as_list()?.first());
    if let Some(length) = first.and_then(|model| plain(model.get("max_model_len")?)) {
        info.settings.push(("max_model_len".to_owned(), length));
    }
    info
}

/// The version and the name of tacho's simulator, which otherwise answers like vLLM.
fn simulator(stated: &Value) -> Option<(String, Option<String>)> {
    let stated = stated.get("tacho_simulator")?;
    Some((plain(stated.get("version")?)?, Some(format!("tacho simulator, profile {}", plain(stated.get("profile")?)?))))
}

/// A number, a word or a Boolean of a few printable characters.
fn plain(value: &Value) -> Option<String> {
    let text = match value {
        Value::Str(text) => text.clone(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty() && text.len() <= MAX_TEXT && !text.chars().any(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_printable_values_are_kept() {
        assert_eq!(plain(&Value::from("0.32.0")).as_deref(), Some("0.32.0"));
        assert_eq!(plain(&Value::Int(8)).as_deref(), Some("8"));
        assert_eq!(plain(&Value::Bool(true)).as_deref(), Some("true"));
        for odd in [Value::from("a\u{1b}[2J"), Value::from("x".repeat(MAX_TEXT + 1)), Value::Null, Value::from("")] {
            assert_eq!(plain(&odd), None);
        }
    }
}
