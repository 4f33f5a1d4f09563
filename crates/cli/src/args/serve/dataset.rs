//! Which dataset, and what the checks and the dump need to know of its flags. The settings themselves are read where
//! they become a workload.

use tacho_args::grammar::Values;
use tacho_core::json::Value;
use tacho_workload::{Carrier, DatasetKind, Need, Times, dataset};

use super::TargetArgs;

/// Flags about prompts.
#[derive(Debug, Clone)]
pub(crate) struct DatasetArgs {
    /// The dataset.
    pub(crate) kind: &'static DatasetKind,
    pub(crate) path: Option<String>,
    pub(crate) input_len: Option<i64>,
    pub(crate) output_len: Option<i64>,
    pub(crate) random_input_len: i64,
    pub(crate) random_output_len: i64,
    pub(crate) random_range_ratio: String,
    pub(crate) random_batch_size: i64,
    /// Any JSON; only an object passes the check.
    pub(crate) chat_template_kwargs: Option<Value>,
    /// Any JSON; only an object of numbers passes the check.
    pub(crate) mm_limits: Value,
    /// How many times as far apart requests are as recorded.
    pub(crate) time_scale: f64,
}

impl From<&Values> for DatasetArgs {
    fn from(v: &Values) -> Self {
        // A poem by its own flag stands for both.
        let poem = v.maybe_text("--sonnet");
        let name = if poem.is_some() { "sonnet".to_owned() } else { v.text("--dataset-name") };
        DatasetArgs {
            kind: dataset(&name).expect("the flag has the datasets' names as choices"),
            path: poem.or_else(|| v.maybe_text("--dataset-path")),
            input_len: v.maybe_int("--input-len"),
            output_len: v.maybe_int("--output-len"),
            random_input_len: v.int("--random-input-len"),
            random_output_len: v.int("--random-output-len"),
            random_range_ratio: v.text("--random-range-ratio"),
            random_batch_size: v.int("--random-batch-size"),
            chat_template_kwargs: Some(v.get("--chat-template-kwargs")).filter(|value| value.truthy()).cloned(),
            mm_limits: v.get("--random-mm-limit-mm-per-prompt").clone(),
            time_scale: v.float("--time-scale") * v.float("--mooncake-slowdown-factor"),
        }
    }
}

impl DatasetArgs {
    /// Whether its rows can have times, so that requests can go out at them.
    pub(crate) fn has_times(&self) -> bool {
        self.kind.times != Times::None
    }

    /// Whether requests go out at the times of the data unless told otherwise.
    pub(crate) fn is_trace(&self) -> bool {
        self.kind.times == Times::All
    }
}

impl TargetArgs {
    /// What the backend can carry, by vLLM's rules.
    pub(crate) fn carrier(&self) -> Carrier {
        let name = self.backend.name();
        let carries: &[Need] = match name {
            "vllm" | "openai" => &[Need::TokenIds],
            "openai-chat" => &[Need::Chat, Need::Media, Need::Tools],
            "openai-audio" => &[Need::Media],
            _ if name.contains("embeddings-") => &[Need::EmbeddedMedia],
            _ => &[],
        };
        Carrier { name, carries }
    }
}
