//! Values that parse but cannot work, alone or together: what vLLM finds out during a run.

use tacho_args::near::nearest;
use tacho_args::repr::quoted;
use tacho_core::secret::{redact_json_text, redact_url};

/// Values that parse but cannot work.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A number is outside its range.
    #[error("{flag} {value} is out of range: use {allowed}")]
    OutOfRange { flag: &'static str, value: String, allowed: &'static str },
    /// A number is not one that the flag takes.
    #[error(transparent)]
    OutOfBounds(#[from] tacho_args::OutOfBounds),
    /// What only a run can do.
    #[error("a prediction cannot honour {flag}, since nothing is sent: remove it, or measure with tacho serve")]
    NotPredicted { flag: &'static str },
    /// What a plan does not play.
    #[error(
        "a plan cannot honour {flag} in --bench-cmd: requests come at the rates that are looked at; remove it, or see tacho predict"
    )]
    NotPlanned { flag: &'static str },
    /// Ramp-up without its bounds.
    #[error("--ramp-up-strategy {strategy} needs both --ramp-up-start-rps and --ramp-up-end-rps")]
    RampUnbounded { strategy: &'static str },
    /// Ramp-up and a fixed rate.
    #[error("--request-rate {rate} contradicts --ramp-up-strategy, which sets the rate itself: remove one of them")]
    RampAndRate { rate: f64 },
    /// Ramp-up that goes down.
    #[error("--ramp-up-start-rps {start} is above --ramp-up-end-rps {end}: a ramp goes up, swap them")]
    RampDown { start: i64, end: i64 },
    /// Ramp-up from nothing: the first request would never be due.
    #[error("--ramp-up-start-rps 0 never sends a first request with --ramp-up-strategy {strategy}: start at 1 or more")]
    RampFromZero { strategy: &'static str },
    /// An objective is not NAME:MS.
    #[error("--goodput {}: write NAME:MILLISECONDS, such as ttft:200", quoted(item))]
    GoodputForm { item: String },
    /// An objective on something else.
    #[error("--goodput {}: no SLO on {}: use ttft, tpot or e2el", quoted(item), quoted(name))]
    GoodputName { item: String, name: String },
    /// An objective below zero.
    #[error("--goodput {}: an SLO is 0 ms or more", quoted(item))]
    GoodputValue { item: String },
    /// A percentile is not a number from 0 to 100.
    #[error(
        "--metric-percentiles: {} is not a percentile: use numbers from 0 to 100, separated by commas, such as 50,99",
        quoted(item)
    )]
    Percentile { item: String },
    /// A latency that no report has.
    #[error(
        "--percentile-metrics: {} is not a metric: use {}, separated by commas without spaces",
        quoted(name),
        tacho_metrics::MetricKind::ALL.map(tacho_metrics::MetricKind::name).join(", ")
    )]
    Metric { name: String },
    /// The thresholds of the timeline are not two numbers.
    #[error("--timeline-itl-thresholds {}: use two numbers of milliseconds, such as 25,50", quoted(text))]
    Thresholds { text: String },
    /// A rule of a gate is not KEY:LIMIT.
    #[error("--max-regression {}: write KEY:LIMIT, such as p99_ttft_ms:5% or mean_e2el_ms:20ms", quoted(text))]
    Rule { text: String },
    /// A metric that does not exist.
    #[error("{flag}: unknown metric {}{}; tacho help metrics lists them", quoted(name), meant.as_ref().map_or_else(String::new, |meant| format!(": did you mean {meant}?")))]
    UnknownMetric { flag: &'static str, name: String, meant: Option<String> },
    /// A metric that cannot be judged.
    #[error("{flag}: {error}")]
    Number { flag: &'static str, error: tacho_record::Error },
    /// A filter or binner cannot be read.
    #[error("{problem}")]
    PlotRule { problem: String },
    /// An item is not KEY=VALUE.
    #[error("{flag} {}: write KEY=VALUE", quoted(item))]
    PairForm { flag: &'static str, item: String },
    /// A base URL without scheme or host.
    #[error("--base-url {}: write http://HOST[:PORT] or https://HOST[:PORT]", quoted(&redact_url(url)))]
    BaseUrl { url: String },
    /// An address that ends with the path of an API.
    #[error(
        "--base-url {} ends in the path of an API: end it at the server, and choose the API by --backend {backend}",
        quoted(&redact_url(url))
    )]
    ApiUrl { url: String, backend: &'static str },
    /// More than a host, or none.
    #[error("--host {}: use a name or an address, and --port; a whole address is for --base-url", quoted(&redact_url(host)))]
    Host { host: String },
    /// A text that no header can hold.
    #[error("{flag}: the header {} would hold a character that HTTP does not allow, such as a line end", quoted(name))]
    Header { flag: &'static str, name: String },
    /// The URL is not one that the backend speaks to.
    #[error(
        "--endpoint: {} must end in {suffix} for --backend {backend}: correct --endpoint, or leave it out",
        redact_url(url)
    )]
    Endpoint { url: String, suffix: String, backend: &'static str },
    /// A file for a dataset that is made up.
    #[error(
        "cannot use the {name} dataset with --dataset-path {path}, since it reads no file: remove it, or pass the \
         --dataset-name of the file"
    )]
    PathUnused { name: String, path: String },
    /// A dataset without its file.
    #[error("--dataset-name {name} needs --dataset-path with its file, directory or Hub id")]
    PathMissing { name: String },
    /// Times that not all datasets have.
    #[error(
        "--self-timed/--no-self-timed is only for --dataset-name timed_trace, mooncake, burstgpt, custom and openai, not \
         for {name}: remove it"
    )]
    SelfTimed { name: String },
    /// A trace has token ids for prompts.
    #[error("--dataset-name {name} sends token ids, which --backend {backend} cannot: use vllm or openai")]
    TraceBackend { name: String, backend: &'static str },
    /// A dataset of chat messages on another protocol.
    #[error("--dataset-name {name} holds chat messages, which --backend {backend} does not send: use openai-chat")]
    ChatOnly { name: String, backend: &'static str },
    /// A dataset with media on a protocol without.
    #[error(
        "multi-modal content of --dataset-name {name} is not supported on --backend {backend}: use openai-chat or \
         openai-audio"
    )]
    MediaBackend { name: String, backend: &'static str },
    /// Text cannot be made or counted without a tokenizer.
    #[error("--dataset-name {name} needs a tokenizer: remove --skip-tokenizer-init")]
    NeedsTokenizer { name: String },
    /// The template's variables are not an object.
    #[error("--chat-template-kwargs {text}: must be a JSON object, such as '{{\"enable_thinking\": false}}'")]
    TemplateVariables { text: String },
    /// The limits are not numbers by modality.
    #[error(
        "--random-mm-limit-mm-per-prompt {text}: must be a JSON object of whole numbers, such as '{{\"image\": 3}}'"
    )]
    MmLimits { text: String },
    /// The body additions are not an object.
    #[error("--extra-body {}: must be a JSON object, such as '{{\"min_tokens\": 8}}'", redact_json_text(text))]
    ExtraBody { text: String },
    /// The range ratio has no meaning.
    #[error(
        "--random-range-ratio {}: {problem}; use a number from 0 up to but not including 1, or both: \
         '{{\"input\": 0.3, \"output\": 0.5}}'",
        quoted(text)
    )]
    RangeRatio { text: String, problem: String },
    /// A tokenizer mode that is not there.
    #[error(
        "--tokenizer-mode {}: use auto, hf, mistral, slow, cohere, deepseek_v32, deepseek_v4, deepseek_v41, inkling or \
         kimi_k3; others need code of their models",
        quoted(mode)
    )]
    TokenizerMode { mode: String },
    /// Beam search, which no request can ask for.
    #[error("--use-beam-search cannot be honoured: no backend here has a request field for it: remove it")]
    BeamSearch,
    /// Sampling flags for a server that does not know them.
    #[error("--{flag} cannot be sent: --backend {backend} does not take sampling parameters: remove it")]
    Sampling { flag: String, backend: &'static str },
    /// Probes that the backend cannot send.
    #[error("--probe-request-rate: --backend {backend} has no tiny request to probe with: remove it")]
    Probe { backend: &'static str },
    /// A dataset without what the backend sends.
    #[error("--dataset-name {dataset} has no {needs}, which --backend {backend} sends: choose another dataset")]
    DatasetBackend { dataset: String, backend: &'static str, needs: &'static str },
    /// A list of prompts for a protocol of single ones.
    #[error("--random-batch-size above 1 makes lists of prompts, and --backend {backend} takes one: remove it")]
    Batch { backend: &'static str },
    /// Reranking without documents.
    #[error("--backend vllm-rerank needs a query and documents: set --random-batch-size to 2 or more")]
    RerankBatch,
    /// An adapter without name.
    #[error("--lora-modules: an adapter name is empty: use the names that the server lists")]
    LoraName,
    /// An offline command's.
    #[error(transparent)]
    Offline(#[from] crate::args::offline::refusal::OfflineRefusal),
    /// A flag that means nothing without another.
    #[error("{flag} needs {other}: add it, or remove {flag}")]
    Alone { flag: &'static str, other: &'static str },
    /// Two flags that exclude each other.
    #[error("{flag} and {other} exclude each other: remove one of them")]
    Together { flag: &'static str, other: &'static str },
}

/// Latencies and rates that a mistyped name is compared with.
const TIMES: [&str; 4] = ["ttft", "tpot", "itl", "e2el"];
const STATISTICS: [&str; 7] = ["mean", "median", "std", "p50", "p90", "p95", "p99"];
const RATES: [&str; 5] =
    ["request_throughput", "output_throughput", "total_token_throughput", "request_goodput", "failed"];

impl Refusal {
    /// What is wrong with a metric, and which one may have been meant.
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

/// The metrics used most, as rules and completions name them.
pub(crate) fn metric_names() -> Vec<String> {
    let named = STATISTICS.iter().flat_map(|statistic| TIMES.map(|time| format!("{statistic}_{time}_ms")));
    named.chain(RATES.map(str::to_owned)).collect()
}

/// The metric that a name was probably meant to be; a missing unit is the usual mistake.
fn meant(name: &str) -> Option<String> {
    let with_unit = format!("{name}_ms");
    if tacho_record::number::Known::find(&with_unit).is_some() {
        return Some(with_unit);
    }
    let known = metric_names();
    let nearest = |name: &str| nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
    nearest(name).or_else(|| nearest(&with_unit))
}
