//! Flags about prompts, and what follows from a dataset's name.

use tacho_core::json::{Value, float_repr};
use tacho_workload::{Buckets, DatasetEntry, StreamOrder, catalog};

use crate::args::grammar::Values;

/// Flags about prompts.
#[derive(Debug, Clone)]
pub(crate) struct DatasetArgs {
    pub(crate) dataset_name: String,
    pub(crate) dataset_path: Option<String>,
    pub(crate) input_len: Option<i64>,
    pub(crate) output_len: Option<i64>,
    pub(crate) stream: bool,
    pub(crate) oversample: bool,
    pub(crate) chat_template: bool,
    pub(crate) chat_template_kwargs: Option<Value>,
    pub(crate) multimodal_chat: bool,
    pub(crate) shuffle: bool,
    pub(crate) random_input_len: i64,
    pub(crate) random_output_len: i64,
    pub(crate) random_range_ratio: String,
    pub(crate) random_prefix_len: i64,
    pub(crate) random_batch_size: i64,
    pub(crate) is_reranker: bool,
    pub(crate) mm: RandomMmArgs,
    pub(crate) prefix: PrefixRepetitionArgs,
    pub(crate) sharegpt_output_len: Option<i64>,
    pub(crate) custom_output_len: i64,
    pub(crate) client_side_data: bool,
    pub(crate) spec_bench_output_len: i64,
    pub(crate) spec_bench_category: Option<String>,
    pub(crate) speed_bench_subset: String,
    pub(crate) speed_bench_output_len: i64,
    pub(crate) speed_bench_category: Option<String>,
    pub(crate) trace: TimedTraceArgs,
    pub(crate) hf: HfArgs,
    pub(crate) sonnet: SonnetArgs,
    pub(crate) shared_prefix: SharedPrefixArgs,
    pub(crate) mooncake_workload: String,
    /// How many times as far apart requests are as recorded.
    pub(crate) time_scale: f64,
}

/// Flags of random-mm.
#[derive(Debug, Clone)]
pub(crate) struct RandomMmArgs {
    pub(crate) base_items: i64,
    pub(crate) items_range_ratio: f64,
    /// Any JSON; only an object of numbers passes the check.
    pub(crate) limits: Value,
    pub(crate) buckets: Buckets,
}

/// Flags of `prefix_repetition`.
#[derive(Debug, Clone)]
pub(crate) struct PrefixRepetitionArgs {
    pub(crate) prefix_len: i64,
    pub(crate) suffix_len: i64,
    pub(crate) num_prefixes: i64,
    pub(crate) output_len: i64,
}

/// Flags of `timed_trace`.
#[derive(Debug, Clone)]
pub(crate) struct TimedTraceArgs {
    pub(crate) chunk_hash_size: i64,
    pub(crate) sec_multiplier: f64,
    pub(crate) timestamp: String,
    pub(crate) input_length: String,
    pub(crate) output_length: String,
    pub(crate) hash_ids: String,
}

/// Flags of datasets of the Hub.
#[derive(Debug, Clone)]
pub(crate) struct HfArgs {
    pub(crate) subset: Option<String>,
    pub(crate) split: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) output_len: Option<i64>,
    pub(crate) order: StreamOrder,
    pub(crate) blazedit_distance: (f64, f64),
    pub(crate) audio_seconds: (f64, f64),
    pub(crate) bfcl_categories: Option<String>,
    pub(crate) text_column: Option<String>,
}

/// Flags of `generated-shared-prefix`.
#[derive(Debug, Clone)]
pub(crate) struct SharedPrefixArgs {
    pub(crate) groups: i64,
    pub(crate) prompts_per_group: i64,
    pub(crate) system_len: i64,
    pub(crate) question_len: i64,
    pub(crate) output_len: i64,
    pub(crate) range_ratio: f64,
    pub(crate) zipf: bool,
    pub(crate) alpha: Option<f64>,
    pub(crate) ordered: bool,
    pub(crate) uncounted: bool,
}

/// Flags of the poem.
#[derive(Debug, Clone)]
pub(crate) struct SonnetArgs {
    pub(crate) path: Option<String>,
    pub(crate) input_len: i64,
    pub(crate) output_len: i64,
    pub(crate) prefix_len: i64,
}

impl From<&Values> for DatasetArgs {
    fn from(v: &Values) -> Self {
        DatasetArgs {
            dataset_name: v.text("--dataset-name"),
            dataset_path: v.maybe_text("--dataset-path"),
            input_len: v.maybe_int("--input-len"),
            output_len: v.maybe_int("--output-len"),
            stream: !v.switch("--no-stream"),
            oversample: !v.switch("--no-oversample"),
            chat_template: !v.switch("--skip-chat-template"),
            chat_template_kwargs: Some(v.get("--chat-template-kwargs")).filter(|value| value.truthy()).cloned(),
            multimodal_chat: v.switch("--enable-multimodal-chat"),
            shuffle: !v.switch("--disable-shuffle"),
            random_input_len: v.int("--random-input-len"),
            random_output_len: v.int("--random-output-len"),
            random_range_ratio: v.text("--random-range-ratio"),
            random_prefix_len: v.int("--random-prefix-len"),
            random_batch_size: v.int("--random-batch-size"),
            is_reranker: !v.switch("--no-reranker"),
            mm: RandomMmArgs::from(v),
            prefix: PrefixRepetitionArgs::from(v),
            sharegpt_output_len: v.maybe_int("--sharegpt-output-len"),
            custom_output_len: v.int("--custom-output-len"),
            client_side_data: v.switch("--custom-ensure-client-side-data"),
            spec_bench_output_len: v.int("--spec-bench-output-len"),
            spec_bench_category: v.maybe_text("--spec-bench-category"),
            speed_bench_subset: v.text("--speed-bench-dataset-subset"),
            speed_bench_output_len: v.int("--speed-bench-output-len"),
            speed_bench_category: v.maybe_text("--speed-bench-category"),
            trace: TimedTraceArgs::from(v),
            hf: HfArgs::from(v),
            sonnet: SonnetArgs::from(v),
            shared_prefix: SharedPrefixArgs::from(v),
            mooncake_workload: v.text("--mooncake-workload"),
            time_scale: v.float("--time-scale") * v.float("--mooncake-slowdown-factor"),
        }
    }
}

impl From<&Values> for RandomMmArgs {
    fn from(v: &Values) -> Self {
        let buckets = v.get("--random-mm-bucket-config").as_dict();
        let entry = |(key, share): (&str, &Value)| format!("{key}: {}", float_repr(share.as_f64().unwrap_or_default()));
        let text: Vec<String> = buckets.into_iter().flat_map(|dict| dict.iter().map(entry)).collect();
        RandomMmArgs {
            base_items: v.int("--random-mm-base-items-per-request"),
            items_range_ratio: v.float("--random-mm-num-mm-items-range-ratio"),
            limits: v.get("--random-mm-limit-mm-per-prompt").clone(),
            buckets: Buckets::parse(&format!("{{{}}}", text.join(", "))).expect("the parser has read this dict before"),
        }
    }
}

impl From<&Values> for PrefixRepetitionArgs {
    fn from(v: &Values) -> Self {
        PrefixRepetitionArgs {
            prefix_len: v.int("--prefix-repetition-prefix-len"),
            suffix_len: v.int("--prefix-repetition-suffix-len"),
            num_prefixes: v.int("--prefix-repetition-num-prefixes"),
            output_len: v.int("--prefix-repetition-output-len"),
        }
    }
}

impl From<&Values> for TimedTraceArgs {
    fn from(v: &Values) -> Self {
        // Mooncake's traces have blocks of 512 tokens and times in milliseconds, unless these flags say otherwise.
        let (chunk, multiplier) = ("--timed-trace-chunk-hash-size", "--timed-trace-sec-multiplier");
        let mooncake = |flag| v.text("--dataset-name") == "mooncake" && !v.is_given(flag);
        TimedTraceArgs {
            chunk_hash_size: if mooncake(chunk) { 512 } else { v.int(chunk) },
            sec_multiplier: if mooncake(multiplier) { 0.001 } else { v.get(multiplier).as_f64().unwrap_or(1.0) },
            timestamp: v.text("--timed-trace-label-timestamp"),
            input_length: v.text("--timed-trace-label-input-length"),
            output_length: v.text("--timed-trace-label-output-length"),
            hash_ids: v.text("--timed-trace-label-hash-ids"),
        }
    }
}

impl From<&Values> for HfArgs {
    fn from(v: &Values) -> Self {
        HfArgs {
            subset: v.maybe_text("--hf-subset"),
            split: v.maybe_text("--hf-split"),
            name: v.maybe_text("--hf-name"),
            output_len: v.maybe_int("--hf-output-len"),
            order: match v.text("--hf-order").as_str() {
                "4" => StreamOrder::Four,
                "5.0" => StreamOrder::Five,
                _ => StreamOrder::Current,
            },
            blazedit_distance: (v.float("--blazedit-min-distance"), v.float("--blazedit-max-distance")),
            audio_seconds: (v.float("--asr-min-audio-len-sec"), v.float("--asr-max-audio-len-sec")),
            bfcl_categories: v.list("--bfcl-categories").map(|names| names.join(",")),
            text_column: v.maybe_text("--hf-text-column"),
        }
    }
}

impl From<&Values> for SharedPrefixArgs {
    fn from(v: &Values) -> Self {
        SharedPrefixArgs {
            groups: v.int("--gsp-num-groups"),
            prompts_per_group: v.int("--gsp-prompts-per-group"),
            system_len: v.int("--gsp-system-prompt-len"),
            question_len: v.int("--gsp-question-len"),
            output_len: v.int("--gsp-output-len"),
            range_ratio: v.float("--gsp-range-ratio"),
            zipf: v.text("--gsp-group-distribution") == "zipf",
            alpha: v.maybe_float("--gsp-zipf-alpha"),
            ordered: v.switch("--gsp-ordered"),
            uncounted: v.switch("--gsp-fast-prepare"),
        }
    }
}

impl From<&Values> for SonnetArgs {
    fn from(v: &Values) -> Self {
        SonnetArgs {
            path: v.maybe_text("--sonnet"),
            input_len: v.int("--sonnet-input-len"),
            output_len: v.int("--sonnet-output-len"),
            prefix_len: v.int("--sonnet-prefix-len"),
        }
    }
}

impl DatasetArgs {
    /// What is known of the dataset.
    pub(crate) fn entry(&self) -> &'static DatasetEntry {
        let entry = catalog().iter().find(|entry| entry.name == self.dataset_name);
        entry.expect("the flag has the datasets' names as choices")
    }

    /// Whether a number of prompts that is not positive means all rows.
    pub(crate) fn takes_all_rows(&self) -> bool {
        matches!(
            self.dataset_name.as_str(),
            "custom" | "custom_audio" | "custom_image" | "spec_bench" | "speed_bench" | "openai"
        )
    }

    /// Whether its rows can have times, so that requests can go out at them.
    pub(crate) fn has_times(&self) -> bool {
        matches!(self.dataset_name.as_str(), "timed_trace" | "mooncake" | "burstgpt" | "custom" | "openai")
    }

    /// Whether requests go out at the times of the data unless told otherwise.
    pub(crate) fn is_trace(&self) -> bool {
        matches!(self.dataset_name.as_str(), "timed_trace" | "mooncake")
    }

    /// Whether it can do without a tokenizer.
    pub(crate) fn works_without_tokenizer(&self) -> bool {
        matches!(self.dataset_name.as_str(), "custom" | "custom_audio" | "custom_image" | "openai")
    }
}
