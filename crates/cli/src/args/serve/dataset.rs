//! Flags of `tacho serve` for prompts, shared with other commands that sample.

use std::time::Duration;

use tacho_args::declare::*;
use tacho_client::BackendKind;
use tacho_core::json::{Dict, Value};
use tacho_workload::{Bucket, Buckets, Carrier, DatasetKind, Need, SERVE_NAMES, StreamOrder, Times, dataset};

use super::TargetArgs;
use super::groups::{
    ASR, BFCL, BLAZEDIT, CACHE, CUSTOM, DATASET, HF, MULTIMODAL, PREFIX, RANDOM, SHARED, SHAREGPT, SONNET, SPEC_BENCH,
    SPEED_BENCH, TIMED_TRACE,
};
use crate::args::shared::tags::{SETS_LOAD, UNUSED_BY_WORKLOAD};

pub(crate) const SPEED_BENCH_SUBSETS: &[&str] =
    &["qualitative", "throughput_16k", "throughput_1k", "throughput_2k", "throughput_32k", "throughput_8k"];

/// A Python dict of media sizes.
pub(crate) const BUCKETS: Kind = Custom(Reader { name: "_parse_mm_bucket_config", read: buckets });

/// Parses media sizes to an object; each key is the tuple in Python's notation.
fn buckets(text: &str) -> Option<Value> {
    let buckets = Buckets::parse(text).ok()?;
    let entry = |(bucket, share): &(Bucket, f64)| {
        (format!("({}, {}, {})", bucket.height, bucket.width, bucket.frames), Value::Float(*share))
    };
    Some(Value::Dict(buckets.entries().iter().map(entry).collect()))
}

fn mm_limits() -> Value {
    let limits = [("image".to_owned(), Value::Int(255)), ("video".to_owned(), Value::Int(1))];
    Value::Dict(limits.into_iter().collect::<Dict>())
}

fn mm_buckets() -> Value {
    let buckets = [("(256, 256, 1)", 0.5), ("(720, 1280, 1)", 0.5), ("(720, 1280, 16)", 0.0)];
    Value::Dict(buckets.into_iter().map(|(shape, share)| (shape.to_owned(), Value::Float(share))).collect::<Dict>())
}

flags! {
    /// Flags for prompts. Commands with only some of them use the defaults of the others.
    DatasetFlags {
        SOURCES [
            dataset_name: String = vllm(&["--dataset-name"], Choice(SERVE_NAMES), "NAME", DefaultValue::Str("random"), &DATASET,
                "Dataset of the prompts; see tacho help datasets.").tagged(SETS_LOAD | UNUSED_BY_WORKLOAD);
            no_stream: bool = vllm(&["--no-stream"], Switch, "", Off, &DATASET,
                "Shuffle all rows of a Hub dataset at once. Without it they are shuffled through a buffer, in the order of the \
                 `datasets` library's streaming.");
            dataset_path: Option<String> = vllm(&["--dataset-path"], Str, "PATH", Unset, &DATASET,
                "File or directory of the dataset, or its Hub id for hf. An error with the random datasets and prefix_repetition, \
                 which read no file.").tagged(SETS_LOAD | UNUSED_BY_WORKLOAD);
            no_oversample: bool = vllm(&["--no-oversample"], Switch, "", Off, &DATASET,
                "Send fewer requests if the dataset has too few rows. Without it, requests are repeated.");
            skip_chat_template: bool = vllm(&["--skip-chat-template"], Switch, "", Off, &DATASET,
                "Send prompts as they are in the dataset. Without it, those of custom, speed_bench and several Hub datasets are \
                 rendered with the tokenizer's chat template.");
            enable_multimodal_chat: bool = vllm(&["--enable-multimodal-chat"], Switch, "", Off, &DATASET, "Send media as parts of a chat message.");
            disable_shuffle: bool = vllm(&["--disable-shuffle"], Switch, "", Off, &DATASET, "Keep the order of the dataset's rows.");
            custom_output_len: Option<i64> = vllm(&["--custom-output-len"], Int, "TOKENS", DefaultValue::Int(256), &CUSTOM,
                "Output length; -1 uses each row's output_tokens. custom_image ignores the rows.");
            custom_ensure_client_side_data: bool = vllm(&["--custom-ensure-client-side-data"], Switch, "", Off, &CUSTOM,
                "Read the images of custom_image here and send them inside the requests as PNG.");
            spec_bench_output_len: i64 = vllm(&["--spec-bench-output-len"], Int, "TOKENS", DefaultValue::Int(256), &SPEC_BENCH, "Output length.");
            spec_bench_category: Option<String> = vllm(&["--spec-bench-category"], Str, "NAME", Unset, &SPEC_BENCH, "Only questions of this category, such as math.");
            sharegpt_output_len: Option<i64> = vllm(&["--sharegpt-output-len"], Int, "TOKENS", Unset, &SHAREGPT,
                "Output length, instead of the length of the recorded response.");
            timed_trace_chunk_hash_size: FlagValue<i64> = vllm(&["--timed-trace-chunk-hash-size"], Int, "TOKENS", DefaultValue::Int(16), &TIMED_TRACE,
                "Tokens per block: 16 in Qwen's traces, 512 in Mooncake's.");
            // vLLM's default is the integer 1, although given values become floats.
            timed_trace_sec_multiplier: FlagValue<f64> = vllm(&["--timed-trace-sec-multiplier"], Float, "FACTOR", DefaultValue::Int(1), &TIMED_TRACE,
                "Factor that converts timestamps to seconds: 0.001 for milliseconds.");
            timed_trace_label_timestamp: String = vllm(&["--timed-trace-label-timestamp"], Str, "FIELD", DefaultValue::Str("timestamp"), &TIMED_TRACE,
                "Field of the arrival time.");
            timed_trace_label_input_length: String = vllm(&["--timed-trace-label-input-length"], Str, "FIELD", DefaultValue::Str("input_length"), &TIMED_TRACE,
                "Field of the prompt length.");
            timed_trace_label_output_length: String = vllm(&["--timed-trace-label-output-length"], Str, "FIELD", DefaultValue::Str("output_length"), &TIMED_TRACE,
                "Field of the output length.");
            timed_trace_label_hash_ids: String = vllm(&["--timed-trace-label-hash-ids"], Str, "FIELD", DefaultValue::Str("hash_ids"), &TIMED_TRACE, "Field of the block ids.");
            blazedit_min_distance: f64 = vllm(&["--blazedit-min-distance"], Float, "FRACTION", DefaultValue::Float(0.0), &BLAZEDIT,
                "Smallest edit distance, from 0 to 1.");
            blazedit_max_distance: f64 = vllm(&["--blazedit-max-distance"], Float, "FRACTION", DefaultValue::Float(1.0), &BLAZEDIT,
                "Largest edit distance, from 0 to 1.");
            asr_max_audio_len_sec: f64 = vllm(&["--asr-max-audio-len-sec"], Float, "SEC", DefaultValue::Float(f64::INFINITY), &ASR, "Longest audio; 0: no limit.");
            asr_min_audio_len_sec: f64 = vllm(&["--asr-min-audio-len-sec"], Float, "SEC", DefaultValue::Float(0.0), &ASR, "Shortest audio.");
            random_input_len: FlagValue<i64> = vllm(&["--random-input-len"], Int, "TOKENS", DefaultValue::Int(1024), &RANDOM,
                "Prompt length in tokens, without the prefix; see --random-range-ratio.").tagged(UNUSED_BY_WORKLOAD);
            random_output_len: FlagValue<i64> = vllm(&["--random-output-len"], Int, "TOKENS", DefaultValue::Int(128), &RANDOM,
                "Output length in tokens. ignore_eos is sent, so servers that support it generate exactly this many.").tagged(UNUSED_BY_WORKLOAD);
            random_range_ratio: String = vllm(&["--random-range-ratio"], Str, "RATIO", DefaultValue::Str("0.0"), &RANDOM,
                "Variation of the lengths, from 0 to below 1. They are uniform from LEN*(1-RATIO) to LEN*(1+RATIO); \
                 '{\"input\": 0.3, \"output\": 0.5}' sets prompt and output separately.");
            random_prefix_len: FlagValue<i64> = vllm(&["--random-prefix-len"], Int, "TOKENS", DefaultValue::Int(0), &RANDOM,
                "Length of a prefix that all prompts share, in addition to --random-input-len.");
            random_batch_size: i64 = vllm(&["--random-batch-size"], Int, "N", DefaultValue::Int(1), &RANDOM,
                "Prompts per request, for embeddings and reranking. In a reranking request the first one is the query.");
            no_reranker: bool = vllm(&["--no-reranker"], Switch, "", Off, &RANDOM,
                "The model of random-rerank embeds query and documents separately. Without it, it reads them together.");
            random_mm_base_items_per_request: i64 = vllm(&["--random-mm-base-items-per-request"], Int, "N", DefaultValue::Int(1), &MULTIMODAL, "Images and videos per request.");
            random_mm_num_mm_items_range_ratio: f64 = vllm(&["--random-mm-num-mm-items-range-ratio"], Float, "RATIO", DefaultValue::Float(0.0), &MULTIMODAL,
                "Variation of that number, from 0 to 1.");
            /// Any JSON; the check accepts only an object of numbers.
            mm_limits: Value = vllm(&["--random-mm-limit-mm-per-prompt"], Json, "JSON", Made(mm_limits, "255 and 1"), &MULTIMODAL,
                "Maximum images and videos per request, such as '{\"image\": 3, \"video\": 0}'.");
            mm_buckets: Value = vllm(&["--random-mm-bucket-config"], BUCKETS, "DICT", Made(mm_buckets, "two images"), &MULTIMODAL,
                "Sizes and their probabilities, as a Python dict: {(256, 256, 1): 0.5, (720, 1280, 16): 0.5}. Keys are height, width \
                 and frames; one frame is an image, more are a video.");
            hf_subset: Option<String> = vllm(&["--hf-subset"], Str, "NAME", Unset, &HF, "Configuration of the dataset.");
            hf_split: Option<String> = vllm(&["--hf-split"], Str, "NAME", Unset, &HF, "Split of the dataset. Most loaders have a default.");
            hf_name: Option<String> = vllm(&["--hf-name"], Str, "ID", Unset, &HF, "Hub id of the dataset if --dataset-path is a local directory.");
            hf_output_len: Option<i64> = vllm(&["--hf-output-len"], Int, "TOKENS", Unset, &HF, "Output length, instead of the dataset's.");
            bfcl_categories: Option<Vec<String>> = vllm(&["--bfcl-categories"], Names, "NAMES", Unset, &BFCL,
                "Categories of questions, separated by commas (default: simple,live_simple,multiple).");
            prefix_repetition_prefix_len: Option<i64> = vllm(&["--prefix-repetition-prefix-len"], Int, "TOKENS", DefaultValue::Int(256), &PREFIX, "Length of a prefix.");
            prefix_repetition_suffix_len: Option<i64> = vllm(&["--prefix-repetition-suffix-len"], Int, "TOKENS", DefaultValue::Int(256), &PREFIX, "Length of the rest of a prompt.");
            prefix_repetition_num_prefixes: Option<i64> = vllm(&["--prefix-repetition-num-prefixes"], Int, "N", DefaultValue::Int(10), &PREFIX,
                "Number of prefixes. Each gets the same number of prompts.");
            prefix_repetition_output_len: Option<i64> = vllm(&["--prefix-repetition-output-len"], Int, "TOKENS", DefaultValue::Int(128), &PREFIX, "Output length.");
            speed_bench_dataset_subset: String = vllm(&["--speed-bench-dataset-subset"], Choice(SPEED_BENCH_SUBSETS), "NAME", DefaultValue::Str("qualitative"), &SPEED_BENCH,
                "File of the dataset's directory, without its extension.");
            speed_bench_output_len: i64 = vllm(&["--speed-bench-output-len"], Int, "TOKENS", DefaultValue::Int(4096), &SPEED_BENCH,
                "Output length; --output-len does not change it.");
            speed_bench_category: Option<String> = vllm(&["--speed-bench-category"], Str, "NAME", Unset, &SPEED_BENCH, "Only questions of this category, such as coding.");
        ]
        LENGTHS [
            input_len: Option<i64> = vllm(&["--input-len"], Int, "TOKENS", Unset, &DATASET, "Prompt length in tokens, instead of --random-input-len.");
            output_len: Option<i64> = vllm(&["--output-len"], Int, "TOKENS", Unset, &DATASET,
                "Output length in tokens, instead of the dataset's own flag. --speed-bench-output-len is not affected.");
        ]
        TEMPLATE [
            /// Any JSON; the check accepts only an object.
            chat_template_kwargs: Option<Value> = vllm(&["--chat-template-kwargs"], Json, "JSON", Unset, &DATASET,
                "Variables of the chat template, for custom and speed_bench, such as '{\"enable_thinking\": false}'.");
        ]
        SPEED_BENCH_ROWS [
            speed_bench_config: Option<String> = tacho(&["--speed-bench-config"], Choice(SPEED_BENCH_SUBSETS), "NAME", Unset, &SPEED_BENCH,
                "Alias of --speed-bench-dataset-subset.");
            speed_bench_max_input_len: Option<i64> = tacho(&["--speed-bench-max-input-len"], Int, "TOKENS", Unset, &SPEED_BENCH, "Truncate prompts to this many tokens.").at_least(1);
        ]
        CACHED [
            prompt_token_ids: bool = switch(&["--prompt-token-ids"], &CACHE, "Send the prompts of random as token ids.");
            random_cache_hit_fraction: Option<f64> = tacho(&["--random-cache-hit-fraction"], Float, "FRACTION", Unset, &CACHE,
                "Fraction of the random prompts that share a prefix. Needs --prompt-token-ids and --random-cache-ratio.").between(0.0, 1.0).needs(&["--random-cache-ratio", "--prompt-token-ids"]);
            random_cache_ratio: Option<f64> = tacho(&["--random-cache-ratio"], Float, "FRACTION", Unset, &CACHE, "Fraction of their tokens that the prefix makes up.").between(0.0, 1.0).needs(&["--random-cache-hit-fraction", "--prompt-token-ids"]);
        ]
        FURTHER [
            input_len_dist: Option<String> = tacho(&["--input-len-dist"], Str, "DIST", Unset, &RANDOM,
                "Distribution of the prompt lengths: normal(MEAN,STD), lognormal(MEAN,STD), uniform(LOW,HIGH) or histogram(FILE), in \
                 tokens; pairs(FILE) sets prompt and output lengths together.");
            output_len_dist: Option<String> = tacho(&["--output-len-dist"], Str, "DIST", Unset, &RANDOM,
                "Distribution of the output lengths, in the forms of --input-len-dist. For all datasets without recorded lengths; add \
                 --ignore-eos for exact ones.");
            dataset_command: Option<String> = tacho(&["--dataset-command"], Str, "CMD", Unset, &CUSTOM,
                "Command that prints the requests as JSON lines: prompt or messages, and output_len, image, labels and others. It gets \
                 TACHO_SEED, TACHO_NUM_PROMPTS and TACHO_MODEL. Short for --dataset-name custom.").tagged(SETS_LOAD);
            dataset_command_timeout: FlagValue<Duration> = tacho(&["--dataset-command-timeout"], Seconds, "SEC", DefaultValue::Float(60.0), &CUSTOM,
                "Maximum seconds between two lines of --dataset-command.").positive().needs(&["--dataset-command"]);
            map: Vec<String> = tacho(&["--map"], Repeated, "FIELD=COLUMN", Unset, &CUSTOM,
                "Columns of a JSONL, CSV or Parquet file or of --dataset-command: --map prompt=question output_len=meta.len. Fields are \
                 those of --dataset-command; labels.NAME and overrides.NAME set one member.");
            custom_skip_chat_template: bool = switch(&["--custom-skip-chat-template"], &CUSTOM, "Alias of --skip-chat-template, its name in older releases.");
            sonnet: Option<String> = tacho(&["--sonnet"], Str, "FILE", Unset, &SONNET,
                "Use the lines of this poem as prompts. Short for --dataset-name sonnet --dataset-path FILE.");
            sonnet_input_len: i64 = tacho(&["--sonnet-input-len"], Int, "TOKENS", DefaultValue::Int(550), &SONNET, "Maximum tokens of a prompt.");
            sonnet_output_len: i64 = tacho(&["--sonnet-output-len"], Int, "TOKENS", DefaultValue::Int(150), &SONNET, "Output length.");
            sonnet_prefix_len: i64 = tacho(&["--sonnet-prefix-len"], Int, "TOKENS", DefaultValue::Int(200), &SONNET, "Tokens that all prompts share.");
            hf_text_column: Option<String> = tacho(&["--hf-text-column"], Str, "COLUMN", Unset, &HF,
                "Column of the prompts, for any other dataset of the Hub. Nested columns with dots: conversations.0.value. The chat \
                 template is applied, and the output length is 256 without --hf-output-len.");
            time_scale: f64 = tacho(&["--time-scale"], Float, "FACTOR", DefaultValue::Float(1.0), &TIMED_TRACE,
                "Factor on recorded send times; 2 is half speed. For timed_trace, mooncake, servegen, --self-timed and --workload.");
            gsp_num_groups: i64 = tacho(&["--gsp-num-groups"], Int, "N", DefaultValue::Int(64), &SHARED,
                "System prompts of generated-shared-prefix. The number of requests is groups times prompts per group, whatever \
                 --num-prompts is.");
            gsp_prompts_per_group: i64 = tacho(&["--gsp-prompts-per-group"], Int, "N", DefaultValue::Int(16), &SHARED, "Questions per system prompt.");
            gsp_system_prompt_len: i64 = tacho(&["--gsp-system-prompt-len"], Int, "TOKENS", DefaultValue::Int(2048), &SHARED, "Length of a system prompt.");
            gsp_question_len: i64 = tacho(&["--gsp-question-len"], Int, "TOKENS", DefaultValue::Int(128), &SHARED, "Length of a question.");
            gsp_output_len: i64 = tacho(&["--gsp-output-len"], Int, "TOKENS", DefaultValue::Int(256), &SHARED, "Output length.");
            gsp_range_ratio: f64 = tacho(&["--gsp-range-ratio"], Float, "RATIO", DefaultValue::Float(1.0), &SHARED,
                "Smallest length, as a fraction of the lengths above. 1 is exact; not the meaning of --random-range-ratio.");
            gsp_group_distribution: String = tacho(&["--gsp-group-distribution"], Choice(&["uniform", "zipf"]), "HOW", DefaultValue::Str("uniform"), &SHARED,
                "Distribution of the questions over the groups. zipf needs --gsp-zipf-alpha.");
            gsp_zipf_alpha: Option<f64> = tacho(&["--gsp-zipf-alpha"], Float, "ALPHA", Unset, &SHARED, "Exponent of the zipf distribution, above 0.");
            gsp_num_turns: i64 = tacho(&["--gsp-num-turns"], Int, "N", DefaultValue::Int(1), &SHARED,
                "Questions per conversation. With several, conversations run as with --multi-turn; only the first question has the \
                 system prompt.").at_least(1);
            gsp_ordered: bool = switch(&["--gsp-ordered"], &SHARED, "Keep the groups together. Without it requests are shuffled.");
            gsp_fast_prepare: bool = switch(&["--gsp-fast-prepare"], &SHARED, "Do not count the prompts' tokens; their length is reported as 1.");
            mooncake_workload: String = tacho(&["--mooncake-workload"], Choice(&["conversation", "toolagent", "synthetic", "mooncake"]), "NAME",
                DefaultValue::Str("conversation"), &TIMED_TRACE,
                "Trace of mooncake to read if --dataset-path is a directory.");
            mooncake_slowdown_factor: f64 = tacho(&["--mooncake-slowdown-factor"], Float, "FACTOR", DefaultValue::Float(1.0), &TIMED_TRACE,
                "Alias of --time-scale, its name in SGLang.");
            servegen_start: f64 = tacho(&["--servegen-start"], Float, "SEC", DefaultValue::Float(0.0), &TIMED_TRACE,
                "Time in servegen's data at which the run starts; 72000 is 20:00 of the first day.").at_least(0);
            hf_order: StreamOrder = tacho(&["--hf-order"], Choice(&StreamOrder::NAMES), "RELEASE", DefaultValue::Str("5.1"), &HF,
                "Order of streamed rows, by release of the `datasets` library. 5.1 and later, 5.0, or 4 and earlier.") => named;
        ]
    }
}

impl DatasetFlags {
    /// Scale factor of recorded interarrival times.
    pub(crate) fn time_scale(&self) -> f64 {
        self.time_scale * self.mooncake_slowdown_factor
    }

    /// Whether rows come from a command or a file with mapped columns.
    pub(crate) fn has_user_rows(&self) -> bool {
        self.dataset_command.is_some() || !self.map.is_empty()
    }

    pub(crate) fn uses_chat_template(&self) -> bool {
        !(self.skip_chat_template || self.custom_skip_chat_template)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct DatasetArgs {
    pub(crate) kind: &'static DatasetKind,
    pub(crate) path: Option<String>,
    pub(crate) flags: DatasetFlags,
}

impl From<&Values> for DatasetArgs {
    fn from(v: &Values) -> Self {
        let flags = DatasetFlags::from(v);
        // `--sonnet` sets both the dataset and its path; rows of one's own are those of `custom`.
        let name = match flags.has_user_rows() && !v.is_set("--dataset-name") {
            _ if flags.sonnet.is_some() => "sonnet",
            true => "custom",
            false => &flags.dataset_name,
        };
        DatasetArgs {
            kind: dataset(name).expect("the flag has the datasets' names as choices"),
            path: flags.sonnet.clone().or_else(|| flags.dataset_path.clone()),
            flags,
        }
    }
}

impl DatasetArgs {
    /// Whether rows can have timestamps at which requests are sent.
    pub(crate) fn has_times(&self) -> bool {
        self.kind.times != Times::None
    }

    /// Whether requests are sent at the timestamps of the dataset by default.
    pub(crate) fn is_trace(&self) -> bool {
        self.kind.times == Times::All
    }
}

impl TargetArgs {
    /// Request features that the backend supports: by vLLM's rules, and conversations with all protocols that have them.
    pub(crate) fn carrier(&self) -> Carrier {
        let (backend, name) = (self.backend(), self.backend().name());
        if let BackendKind::Declared(_) = backend {
            const ALL: [Need; 5] = [Need::TokenIds, Need::Chat, Need::Media, Need::Tools, Need::EmbeddedMedia];
            // Token IDs are sent as the prompt.
            let carries: &[Need] = match (backend.sends_messages(), backend.sends_media()) {
                (true, _) => &ALL,
                (false, true) => &[Need::TokenIds, Need::Media, Need::EmbeddedMedia],
                (false, false) => &[Need::TokenIds],
            };
            return Carrier { name, carries };
        }
        let carries: &[Need] = match name {
            "vllm" | "openai" => &[Need::TokenIds],
            "openai-chat" => &[Need::Chat, Need::Media, Need::Tools],
            "anthropic-messages" => &[Need::Chat, Need::Tools],
            "openai-responses" => &[Need::Chat],
            "openai-audio" | "openai-realtime" | "openai-image-edits" => &[Need::Media],
            _ if name.contains("embeddings-") => &[Need::EmbeddedMedia],
            _ => &[],
        };
        Carrier { name, carries }
    }
}
