//! Values that parse but are invalid, alone or combined. vLLM detects them only during a run.

use tacho_args::near::nearest;
use tacho_args::repr::quoted;
use tacho_core::secret::{REDACTED, looks_secret, redact_json_text, redact_url};

/// Values that parse but are invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{flag} would change the requests of --workload {path}, which are sent as they were saved: leave it out")]
    SavedFlag { flag: &'static str, path: String },
    #[error("the requests of --workload {path} have {what} in {flag}, which files do not keep: pass {flag} again")]
    SavedSecret { flag: &'static str, what: String, path: String },
    #[error("--workload {path}: {problem}")]
    SavedSettings { path: String, problem: String },
    #[error("{flag} {value} is out of range: use {allowed}")]
    OutOfRange { flag: &'static str, value: String, allowed: &'static str },
    #[error("a prediction cannot honour {flag}, since nothing is sent: remove it, or measure with tacho serve")]
    NotPredicted { flag: &'static str },
    #[error("--sim-profile is required: a file of tacho fit, or one of {}", tacho_engine::Profile::names().join(", "))]
    NoProfile,
    #[error(
        "a plan cannot honour {flag} in --bench-cmd: requests come at the rates that are looked at; remove it, or see tacho predict"
    )]
    NotPlanned { flag: &'static str },
    #[error("--ramp-up-strategy {strategy} needs both --ramp-up-start-rps and --ramp-up-end-rps")]
    RampUnbounded { strategy: &'static str },
    #[error("--request-rate {rate} contradicts --ramp-up-strategy, which sets the rate itself: remove one of them")]
    RampAndRate { rate: f64 },
    #[error("--ramp-up-start-rps {start} is above --ramp-up-end-rps {end}: a ramp goes up, swap them")]
    RampDown { start: i64, end: i64 },
    #[error("--ramp-up-start-rps 0 never sends a first request with --ramp-up-strategy {strategy}: start at 1 or more")]
    RampFromZero { strategy: &'static str },
    #[error(
        "--lora-weights {}: write a number above 0 for each of the {count} adapters, such as 8,3,1, or zipf:1.1",
        quoted(text)
    )]
    LoraWeights { text: String, count: usize },
    #[error(
        "--fail-if {}: no such class or stage; {}", quoted(text),
        if names.is_empty() { "the run has none".to_owned() } else { format!("use one of {}", names.join(", ")) }
    )]
    NoGroup { text: String, names: Vec<String> },
    #[error("--class {}: {problem}", quoted(class_name(text)))]
    Class { text: String, problem: String },
    #[error("--goodput {}: write NAME:MILLISECONDS, such as ttft:200", quoted(item))]
    GoodputForm { item: String },
    #[error("--goodput {}: no SLO on {}: use ttft, tpot or e2el", quoted(item), quoted(name))]
    GoodputName { item: String, name: String },
    #[error("--goodput {}: an SLO is 0 ms or more", quoted(item))]
    GoodputValue { item: String },
    #[error(
        "--metric-percentiles: {} is not a percentile: use numbers from 0 to 100, separated by commas, such as 50,99",
        quoted(item)
    )]
    Percentile { item: String },
    #[error(
        "--percentile-metrics: {} is not a metric: use {}, separated by commas without spaces",
        quoted(name),
        tacho_metrics::MetricKind::ALL.map(tacho_metrics::MetricKind::name).join(", ")
    )]
    Metric { name: String },
    #[error("--timeline-itl-thresholds {}: use two numbers of milliseconds, such as 25,50", quoted(text))]
    Thresholds { text: String },
    #[error("--max-regression {}: write KEY:LIMIT, such as p99_ttft_ms:5% or mean_e2el_ms:20ms", quoted(text))]
    Rule { text: String },
    #[error("{flag}: unknown metric {}{}; tacho help metrics lists them", quoted(name), meant.as_ref().map_or_else(String::new, |meant| format!(": did you mean {meant}?")))]
    UnknownMetric { flag: &'static str, name: String, meant: Option<String> },
    #[error("{flag}: {error}")]
    Number { flag: &'static str, error: tacho_record::Error },
    #[error("{problem}")]
    PlotRule { problem: String },
    #[error("{flag} {}: write KEY=VALUE", quoted(item))]
    PairForm { flag: &'static str, item: String },
    #[error("--base-url {}: write {}", quoted(&redact_url(url)), forms(url))]
    BaseUrl { url: String },
    #[error(
        "--base-url {} ends in the path of an API: end it at the server, and choose the API by --backend {backend}",
        quoted(&redact_url(url))
    )]
    ApiUrl { url: String, backend: &'static str },
    #[error("--base-url @{path}: {problem}")]
    UrlFile { path: String, problem: String },
    #[error("--base-url names {url} twice: a replica is given once")]
    ReplicaTwice { url: String },
    #[error("--base-url names {count} servers: use at most {most}")]
    Replicas { count: usize, most: usize },
    #[error("--response-header {name}: its values may be secrets, which tacho does not store: remove it")]
    SecretHeader { name: String },
    #[error("--host {}: use a name or an address, and --port; a whole address is for --base-url", quoted(&redact_url(host)))]
    Host { host: String },
    #[error("{flag}: the header {} would hold a character that HTTP does not allow, such as a line end", quoted(name))]
    Header { flag: &'static str, name: String },
    #[error(
        "--endpoint: {} must end in {suffix} for --backend {backend}: correct --endpoint, or leave it out",
        redact_url(url)
    )]
    Endpoint { url: String, suffix: String, backend: &'static str },
    #[error(
        "cannot use the {name} dataset with --dataset-path {path}, since it reads no file: remove it, or pass the \
         --dataset-name of the file"
    )]
    PathUnused { name: String, path: String },
    #[error("{flag} does not apply to --dataset-name {name}, whose output lengths are fixed: remove one of them")]
    OutputLengths { flag: &'static str, name: &'static str },
    #[error("{problem}")]
    Map { problem: String },
    #[error("--dataset-name {name} needs --dataset-path with its file, directory or Hub id")]
    PathMissing { name: String },
    #[error(
        "--self-timed/--no-self-timed is only for --dataset-name timed_trace, mooncake, servegen, burstgpt, custom and openai, not \
         for {name}: remove it"
    )]
    SelfTimed { name: String },
    #[error("--dataset-name {name} sends token ids, which --backend {backend} cannot: use vllm or openai")]
    TraceBackend { name: String, backend: &'static str },
    #[error(
        "--dataset-name {name} holds chat messages, which --backend {backend} does not send: use openai-chat, \
         openai-responses or anthropic-messages"
    )]
    ChatOnly { name: String, backend: &'static str },
    #[error(
        "multi-modal content of --dataset-name {name} is not supported on --backend {backend}: use openai-chat or \
         openai-audio"
    )]
    MediaBackend { name: String, backend: &'static str },
    #[error("--dataset-name {name} needs a tokenizer: remove --skip-tokenizer-init")]
    NeedsTokenizer { name: String },
    #[error("--chat-template-kwargs {text}: must be a JSON object, such as '{{\"enable_thinking\": false}}'")]
    TemplateVariables { text: String },
    #[error(
        "--random-mm-limit-mm-per-prompt {text}: must be a JSON object of whole numbers, such as '{{\"image\": 3}}'"
    )]
    MmLimits { text: String },
    #[error("--extra-body {}: must be a JSON object, such as '{{\"min_tokens\": 8}}'", redact_json_text(text))]
    ExtraBody { text: String },
    #[error(
        "--random-range-ratio {}: {problem}; use a number from 0 up to but not including 1, or both: \
         '{{\"input\": 0.3, \"output\": 0.5}}'",
        quoted(text)
    )]
    RangeRatio { text: String, problem: String },
    #[error(
        "--tokenizer-mode {}: use auto, hf, mistral, slow, cohere, deepseek_v32, deepseek_v4, deepseek_v41, inkling or \
         kimi_k3; others need code of their models",
        quoted(mode)
    )]
    TokenizerMode { mode: String },
    #[error("--use-beam-search cannot be honoured: no backend here has a request field for it: remove it")]
    BeamSearch,
    #[error("--{flag} cannot be sent: --backend {backend} does not take sampling parameters: remove it")]
    Sampling { flag: String, backend: &'static str },
    #[error("--probe-request-rate: --backend {backend} has no tiny request to probe with: remove it")]
    Probe { backend: &'static str },
    #[error("--dataset-name {dataset} has no {needs}, which --backend {backend} sends: choose another dataset")]
    DatasetBackend { dataset: String, backend: &'static str, needs: &'static str },
    #[error("--random-batch-size above 1 makes lists of prompts, and --backend {backend} takes one: remove it")]
    Batch { backend: &'static str },
    #[error("--backend vllm-rerank needs a query and documents: set --random-batch-size to 2 or more")]
    RerankBatch,
    #[error("--lora-modules: an adapter name is empty: use the names that the server lists")]
    LoraName,
    #[error("--stages {}: {problem}", quoted(text))]
    Stage { text: String, problem: String },
    #[error("--stages: {problem}")]
    Stages { problem: String },
    #[error("{flag}: {problem}")]
    Lengths { flag: &'static str, problem: String },
    #[error(transparent)]
    Offline(#[from] crate::args::offline::refusal::OfflineRefusal),
    #[error("{flag} needs {other}: add it, or remove {flag}")]
    Alone { flag: &'static str, other: &'static str },
    #[error("{flag} and {other} exclude each other: remove one of them")]
    Together { flag: &'static str, other: &'static str },
}

/// Latency names that a misspelled metric is compared with.
const TIMES: [&str; 4] = ["ttft", "tpot", "itl", "e2el"];
const STATISTICS: [&str; 7] = ["mean", "median", "std", "p50", "p90", "p95", "p99"];
const RATES: [&str; 5] =
    ["request_throughput", "output_throughput", "total_token_throughput", "request_goodput", "failed"];

/// The name of a class: the rest of its text may hold headers and keys.
fn class_name(text: &str) -> &str {
    let end = |c: char| !(c.is_alphanumeric() || "-_".contains(c));
    let name = text.split(end).next().unwrap_or_default();
    if looks_secret(name) { REDACTED } else { name }
}

impl Refusal {
    /// A value outside of what is allowed.
    pub(crate) fn range(flag: &'static str, value: impl ToString, allowed: &'static str) -> Self {
        Refusal::OutOfRange { flag, value: value.to_string(), allowed }
    }

    /// The error for an unknown metric, with a suggestion.
    pub(crate) fn metric(flag: &'static str, error: tacho_record::Error) -> Self {
        match error {
            tacho_record::Error::Unknown { key, .. } => {
                let meant = meant(&key);
                Refusal::UnknownMetric { flag, name: key, meant }
            }
            error => Refusal::Number { flag, error },
        }
    }
}

/// The most common metrics, for rules and completions.
pub(crate) fn metric_names() -> Vec<String> {
    let named = STATISTICS.iter().flat_map(|statistic| TIMES.map(|time| format!("{statistic}_{time}_ms")));
    named.chain(RATES.map(str::to_owned)).collect()
}

/// Suggests a metric for an unknown name; usually the unit is missing.
fn meant(name: &str) -> Option<String> {
    let with_unit = format!("{name}_ms");
    if tacho_record::metric::Known::find(&with_unit).is_some() {
        return Some(with_unit);
    }
    let known = metric_names();
    let nearest = |name: &str| nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
    nearest(name).or_else(|| nearest(&with_unit))
}

/// The forms of a server address; a Unix socket has its own.
fn forms(url: &str) -> &'static str {
    match url.starts_with("unix:") || url.starts_with('/') {
        true => "http+unix:// and the path of the socket with %2F for /, as in http+unix://%2Frun%2Fvllm.sock",
        false => "http://HOST[:PORT] or https://HOST[:PORT]",
    }
}
