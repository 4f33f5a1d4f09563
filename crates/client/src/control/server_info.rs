//! Engine, version and settings that a server's API reveals. Only known keys are read, because some servers also list
//! their API keys and tokens.

use std::time::Duration;

use tacho_core::json::Value;

use super::{Caller, call::Limits};

/// These calls are optional: a server that does not respond soon stays unknown.
const LIMITS: Limits = Limits { time: Duration::from_secs(2), body: 1 << 20 };
/// Maximum length of a version or setting.
const MAX_TEXT: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerInfo {
    pub version: Option<String>,
    /// The engine, if only one has this endpoint.
    pub engine: Option<String>,
    pub model: Option<String>,
    pub revision: Option<String>,
    pub image: Option<String>,
    pub gpus: Option<String>,
    pub driver: Option<String>,
    pub cuda: Option<String>,
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

/// Settings in the parts of vLLM's /server_info, which its development mode has.
const VLLM_SETTINGS: [(&str, &[&str]); 4] = [
    ("model_config", &["dtype", "quantization"]),
    ("parallel_config", &["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"]),
    ("scheduler_config", &["max_num_seqs", "max_num_batched_tokens", "async_scheduling"]),
    ("cache_config", &["kv_cache_size_tokens"]),
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
            let simulator = simulator(&stated);
            let is_vllm = path == "/version" && simulator.is_none();
            info.read(&stated);
            (info.version, info.engine) = match simulator {
                Some((version, engine)) => (Some(version), engine),
                None => (Some(version), engine.map(str::to_owned)),
            };
            is_vllm
                .then(|| get("/server_info?config_format=json"))
                .flatten()
                .iter()
                .for_each(|all| info.read_vllm(all));
            break;
        }
    }
    let models = get("/v1/models");
    let first = models.as_ref().and_then(|models| models.get("data")?.as_list()?.first());
    let of_model = |key: &str| first.and_then(|model| plain(model.get(key)?));
    info.model = info.model.or_else(|| of_model("root"));
    info.settings.extend(of_model("max_model_len").map(|length| ("max_model_len".to_owned(), length)));
    info
}

impl ServerInfo {
    /// Reads what SGLang and TGI state at their top.
    fn read(&mut self, stated: &Value) {
        let first = |keys: &[&str]| keys.iter().find_map(|key| plain(stated.get(key)?));
        let setting = |key: &&str| Some(((*key).to_owned(), plain(stated.get(key)?)?));
        self.settings = SETTINGS.iter().filter_map(setting).collect();
        self.model = first(&["model_path", "model_id"]);
        self.revision = first(&["revision", "model_sha"]);
        self.image = first(&["docker_label"]);
    }

    fn read_vllm(&mut self, stated: &Value) {
        let (config, system) = (stated.get("vllm_config"), stated.get("system_env"));
        let part = |name: &str, key: &str| plain(config?.get(name)?.get(key)?);
        let of_system = |key: &str| plain(system?.get(key)?);
        let named = |(name, keys): &(&'static str, &'static [&'static str])| {
            let name = *name;
            keys.iter().filter_map(move |key| Some(((*key).to_owned(), part(name, key)?))).collect::<Vec<_>>()
        };
        self.settings.extend(VLLM_SETTINGS.iter().flat_map(named));
        self.model = self.model.take().or_else(|| part("model_config", "model"));
        self.revision = part("model_config", "revision");
        (self.driver, self.cuda) = (of_system("nvidia_driver_version"), of_system("cuda_runtime_version"));
        self.gpus = system.and_then(|system| gpus(system.get("nvidia_gpu_models")?.as_str()?));
    }
}

/// The GPUs of a list with lines such as `GPU 0: NVIDIA H200`, counted by name.
fn gpus(lines: &str) -> Option<String> {
    let names = lines.lines().filter_map(|line| plain(&Value::from(line.split_once(": ")?.1.trim())));
    let mut counts: Vec<(String, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let texts: Vec<String> = counts.iter().map(|(name, count)| format!("{count}× {name}")).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
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
    fn a_server_of_vllm_states_its_stack() {
        let text = r#"{"vllm_config": {"model_config": {"model": "org/m", "revision": "ab12", "dtype": "bfloat16"},
            "scheduler_config": {"max_num_seqs": 256}, "other": {"api_key": "secret"}},
            "system_env": {"nvidia_driver_version": "550.54", "cuda_runtime_version": "12.4",
            "nvidia_gpu_models": "GPU 0: NVIDIA H200\nGPU 1: NVIDIA H200"}}"#;
        let mut info = ServerInfo::default();
        info.read_vllm(&tacho_core::json::parse(text).unwrap());
        let texts = [&info.model, &info.revision, &info.driver, &info.cuda, &info.gpus];
        let expected = ["org/m", "ab12", "550.54", "12.4", "2× NVIDIA H200"];
        assert_eq!(texts.map(|text| text.as_deref().unwrap()), expected);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(info.settings, [pair("dtype", "bfloat16"), pair("max_num_seqs", "256")]);
        info.read(
            &tacho_core::json::parse(r#"{"model_id": "m", "model_sha": "cd", "docker_label": "sha-1"}"#).unwrap(),
        );
        assert_eq!((info.revision.as_deref(), info.image.as_deref()), (Some("cd"), Some("sha-1")));
        assert_eq!(gpus("none"), None);
    }

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
