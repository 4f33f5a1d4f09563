//! The flags of `tacho serve`: vLLM's in vLLM's order, then tacho's own. One row is one flag.

use std::hash::{BuildHasher, RandomState};

use tacho_args::flag::{Flag, Group, HELP, Kind, MOST_SECONDS, Preset, Table, group, own, rows, switch, vllm};
use tacho_client::BackendKind;
use tacho_core::json::{Dict, Value};
use tacho_loadgen::MAX_WORKERS;
use tacho_workload::SERVE_NAMES;

use super::{NEEDS_A_SERVER, multi_turn, points, repeats, sessions};
use crate::args::live;
use crate::args::media::BUCKETS;
use crate::args::ranks;

use Kind::{
    AnyNumber, Choice, Float, Int, Json, Names, OneOrMore, OptionalStr, Repeated, Seconds, Str, Switch, TriState,
};
use Preset::{Made, Off, Unset};

static SERVER: Group = group("server options", "options", "Address, protocol and API key; or the built-in simulator.")
    .first(&["--base-url", "--host", "--port", "--sim", "--backend", "--endpoint", "--api-key", "--header"]);
static MODEL: Group = group("model options", "options", "Model, tokenizer and LoRA adapters.").first(&[
    "--model",
    "--tokenizer",
    "--served-model-name",
]);
static LOAD: Group = group("load options", "options", "Number of requests, arrival process and concurrency.").first(&[
    "--num-prompts",
    "--request-rate",
    "--max-concurrency",
    "--burstiness",
    "--seed",
    "--ramp-up-strategy",
]);
static ENDING: Group =
    group("run length options", "tacho options", "Time limits and early-stop rules.").first(&["--duration"]);
static WARMUP: Group =
    group("warm-up and profiling options", "options", "Ready check, warm-up, profiler and probe requests.").first(&[
        "--num-warmups",
        "--ready-check-timeout-sec",
        "--reset-caches",
    ]);
static DATASET: Group = group("dataset options", "options", "Source of the prompts.").first(&[
    "--dataset-name",
    "--dataset-path",
    "--input-len",
    "--output-len",
    "--workload",
    "--save-workload",
]);
static RANDOM: Group = group(
    "random dataset options",
    "random dataset options",
    "Prompts of random tokens, the same for the same --seed and tokenizer.",
);
static MULTIMODAL: Group = group(
    "random multimodal options",
    "random multimodal dataset options extended from random dataset",
    "Random images and videos, in addition to random text.",
);
static CACHE: Group =
    group("prefix cache options", "tacho options", "Prefix-cache hits of random prompts, and the server's cache.");
static PREFIX: Group = group(
    "prefix repetition options",
    "prefix repetition dataset options",
    "Random prompts that share a few prefixes.",
);
static SHARED: Group = group(
    "shared prefix options",
    "shared prefix dataset options",
    "Questions after shared system prompts, as SGLang generates them.",
);
static SONNET: Group = group("sonnet options", "sonnet dataset options", "Prompts made of the lines of a poem.");
static SHAREGPT: Group = group("sharegpt options", "sharegpt dataset options", "Recorded conversations.");
static CUSTOM: Group =
    group("custom dataset options", "custom dataset options", "Your own prompts, one JSON object per line.");
static HF: Group = group("hugging face options", "hf dataset options", "Datasets of the Hugging Face Hub.");
static ASR: Group = group("speech options", "asr dataset options", "Speech to transcribe.");
static BLAZEDIT: Group = group("blazedit options", "blazedit dataset options", "Code to edit, by edit distance.");
static BFCL: Group = group("bfcl options", "BFCL dataset options", "Function-calling questions.");
static SPEC_BENCH: Group = group("spec bench options", "spec bench dataset options", "Questions of Spec-Bench.");
static SPEED_BENCH: Group = group("speed bench options", "speed bench dataset options", "Questions of SPEED-Bench.");
static TIMED_TRACE: Group =
    group("timed trace options", "timed-trace dataset options", "Recorded lengths, times and shared blocks.");
static CONTENT: Group =
    group("request options", "options", "Fields of every request.").first(&["--ignore-eos", "--extra-body"]);
static SAMPLING: Group = group(
    "sampling parameters",
    "sampling parameters",
    "Sent with every request if set; otherwise the server's defaults apply.",
)
.first(&["--temperature", "--top-p", "--top-k"]);
static REPORT: Group = group("report options", "options", "Metrics and percentiles to compute and print.").first(&[
    "--percentile-metrics",
    "--metric-percentiles",
    "--goodput",
]);
static FILES: Group = group("file options", "options", "Result files and charts.").first(&[
    "--save-result",
    "--save-detailed",
    "--result-dir",
    "--result-filename",
    "--append-result",
    "--save-requests",
    "--summary-json",
]);
static LOG: Group = group("log and report options", "tacho options", "HTML report, request log and resuming.");
static CHECKS: Group = group("pass/fail options", "tacho options", "Conditions that set exit code 3.");
static MEASURE: Group = group("measurement options", "tacho options", "Client threads, timestamps and parity.");
static CONNECTION: Group = group("connection options", "tacho options", "Timeouts, retries, HTTP version and TLS.")
    .first(&["--timeout", "--first-token-timeout", "--connect-timeout", "--retries"]);
static TELEMETRY: Group = group(
    "live view and telemetry options",
    "tacho options",
    "Live view, server, GPU and host metrics, OpenTelemetry.",
);

/// The backends there are: vLLM's in its order, then the names of its older script, then its demonstration server.
pub(crate) const BACKENDS: &[&str] = &BackendKind::NAMES;
/// The files of SPEED-Bench.
pub(crate) const SPEED_BENCH_SUBSETS: &[&str] =
    &["qualitative", "throughput_16k", "throughput_1k", "throughput_2k", "throughput_32k", "throughput_8k"];

/// vLLM takes the first 8 digits of a random UUID; any fresh 32 bits serve, so the hasher's keys do.
fn request_id_prefix() -> Value {
    Value::Str(format!("bench-{:08x}-", RandomState::new().hash_one("request id") as u32))
}

fn mm_limits() -> Value {
    let limits = [("image".to_owned(), Value::Int(255)), ("video".to_owned(), Value::Int(1))];
    Value::Dict(limits.into_iter().collect::<Dict>())
}

fn mm_buckets() -> Value {
    let buckets = [("(256, 256, 1)", 0.5), ("(720, 1280, 1)", 0.5), ("(720, 1280, 16)", 0.0)];
    Value::Dict(buckets.into_iter().map(|(shape, share)| (shape.to_owned(), Value::Float(share))).collect::<Dict>())
}

/// `tacho serve`.
#[rustfmt::skip]
pub(crate) static TABLE: Table = Table {
    command: "tacho serve",
    about: "Benchmark a running OpenAI-compatible server: latency, throughput, goodput.",
    examples: &[
        ("tacho serve --sim --num-prompts 100", "the built-in simulator: no server needed"),
        ("tacho serve --model Qwen/Qwen3-8B --num-prompts 200 --request-rate 10", "10 requests/s to port 8000"),
        ("tacho serve --backend openai-chat --max-concurrency 32 --goodput ttft:300 tpot:40", "32 at a time, with SLOs"),
    ],
    basics: &[
        "--base-url", "--host", "--port", "--sim", "--backend", "--api-key", "--model", "--tokenizer",
        "--num-prompts", "--request-rate", "--max-concurrency", "--burstiness", "--duration", "--seed", "--num-warmups",
        "--dataset-name", "--dataset-path", "--random-input-len", "--random-output-len",
        "--metric-percentiles", "--goodput", "--fail-if", "--num-runs",
        "--save-result", "--save-detailed", "--result-dir", "--report", "--live",
    ],
    groups: &[
        &SERVER, &MODEL, &LOAD, &ENDING, &WARMUP, &DATASET, &RANDOM, &MULTIMODAL, &CACHE, &PREFIX, &SHARED, &SONNET,
        &SHAREGPT, &CUSTOM, &HF, &ASR, &BLAZEDIT, &BFCL, &SPEC_BENCH, &SPEED_BENCH, &TIMED_TRACE, &CONTENT, &SAMPLING,
        &sessions::SESSIONS, &sessions::PART, &sessions::USERS, &multi_turn::MULTI_TURN, &REPORT, &CHECKS, &FILES, &LOG,
        &TELEMETRY, &repeats::REPEATS, &points::POINTS, &MEASURE, &CONNECTION, &ranks::GROUP,
    ],
    flags: rows!(&[HELP], VLLM, OURS, sessions::FLAGS, multi_turn::FLAGS, repeats::FLAGS, points::FLAGS, ranks::FLAGS),
    ..Table::PLAIN
};

/// `tacho predict`: the same flags for a run that is only simulated.
pub(crate) static PREDICT: Table = Table {
    command: "tacho predict",
    about: "Predict what tacho serve would report, by simulating a profile of tacho fit; sends nothing.",
    examples: &[(
        "tacho predict --sim-profile mine.json --num-prompts 500 --request-rate 8",
        "the report, with 95% prediction intervals",
    )],
    basics: &[
        "--sim-profile",
        "--num-prompts",
        "--request-rate",
        "--max-concurrency",
        "--burstiness",
        "--seed",
        "--dataset-name",
        "--dataset-path",
        "--random-input-len",
        "--random-output-len",
        "--sessions",
        "--metric-percentiles",
        "--goodput",
        "--fail-if",
        "--save-result",
        "--result-dir",
    ],
    refused: NEEDS_A_SERVER,
    ..TABLE
};

#[rustfmt::skip]
const VLLM: &[Flag] = &[
    vllm(&["--trust-remote-code"], Switch, "", Off, &MODEL,
        "Deprecated: has no effect. tacho never runs code from a model repository."),
    vllm(&["--seed"], Int, "SEED", Preset::Int(0), &LOAD,
        "Seed of prompts, arrival times and adapter choice. The same seed makes the same requests at the same times as \
         vLLM's command.").between(0.0, 4_294_967_295.0),
    vllm(&["--num-prompts"], Int, "N", Preset::Int(1000), &LOAD,
        "Number of requests to send. Warm-up and probe requests are not counted."),
    vllm(&["--dataset-name"], Choice(SERVE_NAMES), "NAME", Preset::Str("random"), &DATASET,
        "Dataset of the prompts; see tacho help datasets."),
    vllm(&["--no-stream"], Switch, "", Off, &DATASET,
        "Shuffle all rows of a Hub dataset at once. Without it they are shuffled through a buffer, in the order of the \
         `datasets` library's streaming."),
    vllm(&["--dataset-path"], Str, "PATH", Unset, &DATASET,
        "File or directory of the dataset, or its Hub id for hf. An error with the random datasets and prefix_repetition, \
         which read no file."),
    vllm(&["--no-oversample"], Switch, "", Off, &DATASET,
        "Send fewer requests if the dataset has too few rows. Without it, requests are repeated."),
    vllm(&["--skip-chat-template"], Switch, "", Off, &DATASET,
        "Send prompts as they are in the dataset. Without it, those of custom, speed_bench and several Hub datasets are \
         rendered with the tokenizer's chat template."),
    vllm(&["--enable-multimodal-chat"], Switch, "", Off, &DATASET, "Send media as parts of a chat message."),
    vllm(&["--disable-shuffle"], Switch, "", Off, &DATASET, "Keep the order of the dataset's rows."),
    vllm(&["--custom-output-len"], Int, "TOKENS", Preset::Int(256), &CUSTOM,
        "Output length; -1 uses each row's output_tokens. custom_image ignores the rows."),
    vllm(&["--custom-ensure-client-side-data"], Switch, "", Off, &CUSTOM,
        "Read the images of custom_image here and send them inside the requests as PNG."),
    vllm(&["--spec-bench-output-len"], Int, "TOKENS", Preset::Int(256), &SPEC_BENCH, "Output length."),
    vllm(&["--spec-bench-category"], Str, "NAME", Unset, &SPEC_BENCH, "Only questions of this category, such as math."),
    vllm(&["--sharegpt-output-len"], Int, "TOKENS", Unset, &SHAREGPT,
        "Output length, instead of the length of the recorded response."),
    vllm(&["--timed-trace-chunk-hash-size"], Int, "TOKENS", Preset::Int(16), &TIMED_TRACE,
        "Tokens per block: 16 in Qwen's traces, 512 in Mooncake's."),
    // vLLM's default is the whole number 1, although what is typed becomes a float.
    vllm(&["--timed-trace-sec-multiplier"], Float, "FACTOR", Preset::Int(1), &TIMED_TRACE,
        "Factor that converts timestamps to seconds: 0.001 for milliseconds."),
    vllm(&["--timed-trace-label-timestamp"], Str, "FIELD", Preset::Str("timestamp"), &TIMED_TRACE,
        "Field of the arrival time."),
    vllm(&["--timed-trace-label-input-length"], Str, "FIELD", Preset::Str("input_length"), &TIMED_TRACE,
        "Field of the prompt length."),
    vllm(&["--timed-trace-label-output-length"], Str, "FIELD", Preset::Str("output_length"), &TIMED_TRACE,
        "Field of the output length."),
    vllm(&["--timed-trace-label-hash-ids"], Str, "FIELD", Preset::Str("hash_ids"), &TIMED_TRACE, "Field of the block ids."),
    vllm(&["--blazedit-min-distance"], Float, "FRACTION", Preset::Float(0.0), &BLAZEDIT,
        "Smallest edit distance, from 0 to 1."),
    vllm(&["--blazedit-max-distance"], Float, "FRACTION", Preset::Float(1.0), &BLAZEDIT,
        "Largest edit distance, from 0 to 1."),
    vllm(&["--asr-max-audio-len-sec"], Float, "SEC", Preset::Float(f64::INFINITY), &ASR, "Longest audio; 0: no limit."),
    vllm(&["--asr-min-audio-len-sec"], Float, "SEC", Preset::Float(0.0), &ASR, "Shortest audio."),
    vllm(&["--random-input-len"], Int, "TOKENS", Preset::Int(1024), &RANDOM,
        "Prompt length in tokens, without the prefix; see --random-range-ratio."),
    vllm(&["--random-output-len"], Int, "TOKENS", Preset::Int(128), &RANDOM,
        "Output length in tokens. ignore_eos is sent, so servers that support it generate exactly this many."),
    vllm(&["--random-range-ratio"], Str, "RATIO", Preset::Str("0.0"), &RANDOM,
        "Variation of the lengths, from 0 to below 1. They are uniform from LEN*(1-RATIO) to LEN*(1+RATIO); \
         '{\"input\": 0.3, \"output\": 0.5}' sets prompt and output separately."),
    vllm(&["--random-prefix-len"], Int, "TOKENS", Preset::Int(0), &RANDOM,
        "Length of a prefix that all prompts share, in addition to --random-input-len."),
    vllm(&["--random-batch-size"], Int, "N", Preset::Int(1), &RANDOM,
        "Prompts per request, for embeddings and reranking. In a reranking request the first one is the query."),
    vllm(&["--no-reranker"], Switch, "", Off, &RANDOM,
        "The model of random-rerank embeds query and documents separately. Without it, it reads them together."),
    vllm(&["--random-mm-base-items-per-request"], Int, "N", Preset::Int(1), &MULTIMODAL, "Images and videos per request."),
    vllm(&["--random-mm-num-mm-items-range-ratio"], Float, "RATIO", Preset::Float(0.0), &MULTIMODAL,
        "Variation of that number, from 0 to 1."),
    vllm(&["--random-mm-limit-mm-per-prompt"], Json, "JSON", Made(mm_limits, "255 and 1"), &MULTIMODAL,
        "Maximum images and videos per request, such as '{\"image\": 3, \"video\": 0}'."),
    vllm(&["--random-mm-bucket-config"], BUCKETS, "DICT", Made(mm_buckets, "two images"), &MULTIMODAL,
        "Sizes and their probabilities, as a Python dict: {(256, 256, 1): 0.5, (720, 1280, 16): 0.5}. Keys are height, width \
         and frames; one frame is an image, more are a video."),
    vllm(&["--hf-subset"], Str, "NAME", Unset, &HF, "Configuration of the dataset."),
    vllm(&["--hf-split"], Str, "NAME", Unset, &HF, "Split of the dataset. Most loaders have a default."),
    vllm(&["--hf-name"], Str, "ID", Unset, &HF, "Hub id of the dataset if --dataset-path is a local directory."),
    vllm(&["--hf-output-len"], Int, "TOKENS", Unset, &HF, "Output length, instead of the dataset's."),
    vllm(&["--bfcl-categories"], Names, "NAMES", Unset, &BFCL,
        "Categories of questions, separated by commas (default: simple,live_simple,multiple)."),
    vllm(&["--prefix-repetition-prefix-len"], Int, "TOKENS", Preset::Int(256), &PREFIX, "Length of a prefix."),
    vllm(&["--prefix-repetition-suffix-len"], Int, "TOKENS", Preset::Int(256), &PREFIX, "Length of the rest of a prompt."),
    vllm(&["--prefix-repetition-num-prefixes"], Int, "N", Preset::Int(10), &PREFIX,
        "Number of prefixes. Each gets the same number of prompts."),
    vllm(&["--prefix-repetition-output-len"], Int, "TOKENS", Preset::Int(128), &PREFIX, "Output length."),
    vllm(&["--speed-bench-dataset-subset"], Choice(SPEED_BENCH_SUBSETS), "NAME", Preset::Str("qualitative"), &SPEED_BENCH,
        "File of the dataset's directory, without its extension."),
    vllm(&["--speed-bench-output-len"], Int, "TOKENS", Preset::Int(4096), &SPEED_BENCH,
        "Output length; --output-len does not change it."),
    vllm(&["--speed-bench-category"], Str, "NAME", Unset, &SPEED_BENCH, "Only questions of this category, such as coding."),
    vllm(&["--label"], Str, "NAME", Unset, &FILES,
        "Label of the result, and prefix of its file name. Without it the name starts with the backend."),
    vllm(&["--backend"], Choice(BACKENDS), "NAME", Preset::Str("openai"), &SERVER,
        "Wire protocol of the server. vllm, openai, sglang, lmdeploy, scalellm, llama.cpp: completions; openai-chat: \
         chat completions; openai-responses: responses; openai-audio: transcriptions or translations; \
         openai-embeddings, openai-embeddings-chat, openai-embeddings-clip, openai-embeddings-vlm2vec, \
         infinity-embeddings, infinity-embeddings-clip, vllm-pooling, vllm-rerank: responses that are not streamed; tgi, \
         tensorrt-llm, deepspeed-mii, vllm-generate: servers with their own protocols; anthropic-messages: Anthropic's \
         /v1/messages."),
    vllm(&["--base-url"], Str, "URL", Unset, &SERVER,
        "Server address with scheme, instead of --host and --port. For https://, a path prefix, or a Unix socket: \
         http+unix://%2Frun%2Fvllm.sock, with %2F for / in the path."),
    vllm(&["--host"], Str, "HOST", Preset::Str("127.0.0.1"), &SERVER, "Server name or address, for plain http."),
    vllm(&["--port"], Int, "PORT", Preset::Int(8000), &SERVER, "Server port, for plain http.").between(1.0, 65535.0),
    vllm(&["--endpoint"], Str, "PATH", Preset::Str("/v1/completions"), &SERVER,
        "API path, appended to the server address. Without it, the path of the backend: openai-chat uses \
         /v1/chat/completions, openai-embeddings /v1/embeddings."),
    vllm(&["--header"], AnyNumber, "KEY=VALUE", Unset, &SERVER,
        "Headers of every request. They override tacho's own; their values are never printed or stored."),
    vllm(&["--max-concurrency"], Int, "N", Unset, &LOAD,
        "Maximum requests in flight. Requests above the limit wait in order; the wait is reported separately, not as part of \
         their latency.").at_least(1),
    vllm(&["--model"], Str, "NAME", Unset, &MODEL, "Model to request (default: the first one that the server lists)."),
    vllm(&["--input-len"], Int, "TOKENS", Unset, &DATASET, "Prompt length in tokens, instead of --random-input-len."),
    vllm(&["--output-len"], Int, "TOKENS", Unset, &DATASET,
        "Output length in tokens, instead of the dataset's own flag. --speed-bench-output-len is not affected."),
    vllm(&["--tokenizer"], Str, "NAME", Unset, &MODEL,
        "Tokenizer: a Hub id or a directory (default: the model's). It makes the prompts and counts tokens that the server \
         does not report."),
    vllm(&["--tokenizer-mode"], Str, "MODE", Preset::Str("auto"), &MODEL,
        "Tokenizer format. auto prefers Mistral's own files if the model has them; hf and mistral force one. slow, cohere, \
         kimi_k3, inkling and deepseek_v32, _v4 and _v41 count tokens like hf."),
    vllm(&["--use-beam-search"], Switch, "", Off, &CONTENT,
        "Not supported: no request can ask for beam search. vLLM's command accepts the flag and ignores it."),
    vllm(&["--logprobs"], Int, "N", Unset, &CONTENT, "Log probabilities per token to request. Completions only."),
    vllm(&["--request-rate"], Float, "RPS", Preset::Float(f64::INFINITY), &LOAD,
        "Mean arrival rate in requests per second (open loop). Arrival times are fixed before the run and do not wait for \
         responses; inf sends everything at once.").positive(),
    vllm(&["--burstiness"], Float, "SHAPE", Preset::Float(1.0), &LOAD,
        "Shape of the gamma distribution of interarrival times. 1 is a Poisson process, below 1 is burstier, above 1 more \
         even, inf a constant interval.").positive(),
    vllm(&["--probe-request-rate"], Float, "RPS", Preset::Float(0.0), &WARMUP,
        "Rate of tiny extra requests that measure responsiveness. 0 sends none; they are reported separately.").between(0.0, 1e6),
    vllm(&["--disable-tqdm"], Switch, "", Off, &REPORT, "Show no progress bars."),
    vllm(&["--num-warmups"], Int, "N", Preset::Int(0), &WARMUP,
        "Warm-up requests before the measurement. They repeat the first prompt."),
    vllm(&["--profile"], Switch, "", Off, &WARMUP,
        "Run the server's profiler during the run. Start the server with profiling enabled. The simulator's speed is \
         --sim-profile."),
    vllm(&["--save-result"], Switch, "", Off, &FILES, "Write the result as JSON; an older file is replaced."),
    vllm(&["--save-detailed"], Switch, "", Off, &FILES,
        "Include per-request values in the result, for comparisons. Needs --save-result or --append-result."),
    vllm(&["--append-result"], Switch, "", Off, &FILES, "Append the result to the file, one JSON document per line."),
    vllm(&["--metadata"], AnyNumber, "KEY=VALUE", Unset, &FILES,
        "Facts to store in the result, such as version=0.6.0. Values are stored as text."),
    vllm(&["--result-dir"], Str, "DIR", Unset, &FILES, "Directory of the result files; created if missing."),
    vllm(&["--result-filename"], Str, "FILE", Unset, &FILES,
        "Name of the result file (default: backend, rate, model and time)."),
    vllm(&["--ignore-eos"], Switch, "", Off, &CONTENT,
        "Ask the server to generate to full length. Always on for random prompts with OpenAI-compatible backends."),
    vllm(&["--self-timed", "--no-self-timed"], TriState, "", Unset, &LOAD,
        "Send requests at the dataset's timestamps. Default for timed_trace and mooncake; also for burstgpt, and for custom and \
         openai rows that have a timestamp."),
    vllm(&["--percentile-metrics"], Str, "NAMES", Unset, &REPORT,
        "Latencies to report: ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue. Separated by commas; \
         default ttft,tpot,itl, or e2el for responses that are not streamed."),
    vllm(&["--metric-percentiles"], Str, "LIST", Preset::Str("99"), &REPORT,
        "Percentiles to report, from 0 to 100, such as 50,90,99."),
    vllm(&["--goodput"], OneOrMore, "NAME:MS", Unset, &REPORT,
        "SLOs per request, in milliseconds, on ttft, tpot or e2el. --goodput ttft:200 e2el:5000 reports the rate of requests \
         that meet all of them."),
    vllm(&["--request-id-prefix"], Str, "TEXT", Made(request_id_prefix, "bench-XXXXXXXX-"), &CONTENT,
        "Prefix of each x-request-id header; a number follows. XXXXXXXX are random hex digits."),
    vllm(&["--top-p"], Float, "P", Unset, &SAMPLING, "Nucleus sampling: cumulative probability to keep.").finite(),
    vllm(&["--top-k"], Int, "K", Unset, &SAMPLING, "Sample from the K most likely tokens."),
    vllm(&["--min-p"], Float, "P", Unset, &SAMPLING, "Minimum probability, relative to the most likely token.").finite(),
    vllm(&["--temperature"], Float, "T", Unset, &SAMPLING,
        "Sampling temperature; 0 is greedy. The server's default may depend on the model.").finite(),
    vllm(&["--frequency-penalty"], Float, "X", Unset, &SAMPLING, "Penalty by how often a token has occurred.").finite(),
    vllm(&["--presence-penalty"], Float, "X", Unset, &SAMPLING, "Penalty on tokens that have occurred at all.").finite(),
    vllm(&["--repetition-penalty"], Float, "X", Unset, &SAMPLING,
        "Factor against repetition. Completions send 1.0 by default.").finite(),
    vllm(&["--served-model-name"], Str, "NAME", Unset, &MODEL,
        "Model name in requests, if it differs from --model. --model then names the tokenizer and the result."),
    vllm(&["--lora-modules"], OneOrMore, "NAME", Unset, &MODEL,
        "LoRA adapters to distribute the requests over. Each request names one of them instead of the model."),
    vllm(&["--lora-assignment"], Choice(&["random", "round-robin"]), "HOW", Preset::Str("random"), &MODEL,
        "Assignment of adapters to requests."),
    vllm(&["--ramp-up-strategy"], Choice(&["linear", "exponential"]), "HOW", Unset, &LOAD,
        "Increase the request rate over the run. Needs --ramp-up-start-rps and --ramp-up-end-rps, not --request-rate."),
    vllm(&["--ramp-up-start-rps"], Int, "RPS", Unset, &LOAD, "Request rate at the start of a ramp, 1 or more.")
        .between(0.0, u32::MAX as f64),
    vllm(&["--ramp-up-end-rps"], Int, "RPS", Unset, &LOAD, "Request rate at the end of a ramp.").between(0.0, u32::MAX as f64),
    vllm(&["--ready-check-timeout-sec"], Int, "SEC", Preset::Int(0), &WARMUP,
        "Seconds to wait until the server answers a test request. 0 sends none.").between(-MOST_SECONDS, MOST_SECONDS),
    vllm(&["--chat-template-kwargs"], Json, "JSON", Unset, &DATASET,
        "Variables of the chat template, for custom and speed_bench, such as '{\"enable_thinking\": false}'."),
    vllm(&["--extra-body"], Json, "JSON", Unset, &CONTENT,
        "Fields to add to every request; they override all others. Also one by one: --extra-body.min_tokens 8, and lists as \
         --extra-body.stop+ a,b; these replace a plain --extra-body."),
    vllm(&["--skip-tokenizer-init"], Switch, "", Off, &MODEL,
        "Load no tokenizer, for custom, custom_image and custom_audio. Lengths are then unknown."),
    vllm(&["--insecure"], Switch, "", Off, &SERVER, "Do not verify the server's TLS certificate."),
    vllm(&["--plot-timeline"], Switch, "", Off, &FILES,
        "Write an HTML timeline of all requests next to the result, also without --save-result."),
    vllm(&["--timeline-itl-thresholds"], Str, "MS,MS", Preset::Str("25,50"), &FILES,
        "Two ITL thresholds, in milliseconds, that set the colors of the timeline."),
    vllm(&["--plot-dataset-stats"], Switch, "", Off, &FILES,
        "Write a chart (PNG) of prompt and output lengths next to the result, also without --save-result."),
];

#[rustfmt::skip]
const OURS: &[Flag] = &[
    own(&["--api-key"], Str, "KEY", Unset, &SERVER,
        "API key, sent as Authorization: Bearer KEY (default: $OPENAI_API_KEY). Other users of the machine can see the \
         command line, but not the variable."),
    own(&["--endpoint-type"], Choice(BACKENDS), "NAME", Unset, &SERVER, "Alias of --backend, its name in older releases."),
    switch(&["--sim"], &SERVER, "Benchmark the built-in simulator. It is started for the run; no server or GPU needed."),
    own(&["--sim-profile"], Str, "NAME", Unset, &SERVER,
        "Speed of the simulator: a name of tacho help simulator, or a file of tacho fit. Needs --sim."),
    own(&["--sim-args"], Str, "FLAGS", Unset, &SERVER,
        "Further flags of tacho sim, as one text, such as '--max-model-len 50000'. Needs --sim."),
    own(&["--max-model-len"], Int, "TOKENS", Unset, &MODEL,
        "Maximum tokens of prompt, history and output. Longer requests and turns are skipped.").at_least(1),
    own(&["--speed-bench-config"], Choice(SPEED_BENCH_SUBSETS), "NAME", Unset, &SPEED_BENCH,
        "Alias of --speed-bench-dataset-subset."),
    own(&["--speed-bench-max-input-len"], Int, "TOKENS", Unset, &SPEED_BENCH, "Truncate prompts to this many tokens.").at_least(1),
    own(&["--profile-batch-threshold"], Int, "N", Unset, &WARMUP,
        "Start the profiler of --profile when the server runs this many requests, by its /metrics.").at_least(1),
    own(&["--profile-duration"], Seconds, "SEC", Preset::Float(5.0), &WARMUP,
        "Duration of such a profile. The end of the run ends it too.").positive(),
    switch(&["--strict-parity"], &MEASURE, "Behave like vLLM's command even where tacho deviates by default."),
    switch(&["--dry-run"], &MEASURE,
        "Generate and show the workload, but send nothing. The server is only asked for a missing --model."),
    own(&["--save-workload"], Str, "FILE", Unset, &DATASET, "Write the requests and their send times, for --workload."),
    own(&["--workload"], Str, "FILE", Unset, &DATASET,
        "Send the requests of a --save-workload file. Dataset and rate flags then have no effect."),
    switch(&["--prompt-token-ids"], &CACHE, "Send the prompts of random as token ids."),
    own(&["--random-cache-hit-fraction"], Float, "FRACTION", Unset, &CACHE,
        "Fraction of the random prompts that share a prefix. Needs --prompt-token-ids and --random-cache-ratio."),
    own(&["--random-cache-ratio"], Float, "FRACTION", Unset, &CACHE, "Fraction of their tokens that the prefix makes up."),
    own(&["--cache-salt"], Str, "TEXT", Unset, &CACHE,
        "Salt of the server's prefix cache, to exclude hits on earlier runs. `random` draws a new one."),
    switch(&["--reset-prefix-cache"], &CACHE, "Alias of --reset-caches, its name in vLLM's Rust client."),
    own(&["--prefill-concurrency"], Int, "N", Unset, &sessions::USERS,
        "Maximum requests in prefill (sent, no first token yet).").at_least(1),
    own(&["--request-cancellation-rate"], Float, "PERCENT", Preset::Float(0.0), &sessions::USERS,
        "Percentage of requests to cancel. Cancelled requests are counted separately, not as failures.").between(0.0, 100.0),
    own(&["--request-cancellation-delay"], Seconds, "SEC", Preset::Float(0.0), &sessions::USERS,
        "Seconds after which such a request is cancelled."),
    switch(&["--custom-skip-chat-template"], &CUSTOM, "Alias of --skip-chat-template, its name in older releases."),
    own(&["--sonnet"], Str, "FILE", Unset, &SONNET,
        "Use the lines of this poem as prompts. Short for --dataset-name sonnet --dataset-path FILE."),
    own(&["--sonnet-input-len"], Int, "TOKENS", Preset::Int(550), &SONNET, "Maximum tokens of a prompt."),
    own(&["--sonnet-output-len"], Int, "TOKENS", Preset::Int(150), &SONNET, "Output length."),
    own(&["--sonnet-prefix-len"], Int, "TOKENS", Preset::Int(200), &SONNET, "Tokens that all prompts share."),
    own(&["--hf-text-column"], Str, "COLUMN", Unset, &HF,
        "Column of the prompts, for any other dataset of the Hub. Nested columns with dots: conversations.0.value. The chat \
         template is applied, and the output length is 256 without --hf-output-len."),
    own(&["--time-scale"], Float, "FACTOR", Preset::Float(1.0), &TIMED_TRACE,
        "Factor on recorded send times; 2 is half speed. For timed_trace, mooncake, --self-timed and --workload."),
    own(&["--gsp-num-groups"], Int, "N", Preset::Int(64), &SHARED,
        "System prompts of generated-shared-prefix. The number of requests is groups times prompts per group, whatever \
         --num-prompts is."),
    own(&["--gsp-prompts-per-group"], Int, "N", Preset::Int(16), &SHARED, "Questions per system prompt."),
    own(&["--gsp-system-prompt-len"], Int, "TOKENS", Preset::Int(2048), &SHARED, "Length of a system prompt."),
    own(&["--gsp-question-len"], Int, "TOKENS", Preset::Int(128), &SHARED, "Length of a question."),
    own(&["--gsp-output-len"], Int, "TOKENS", Preset::Int(256), &SHARED, "Output length."),
    own(&["--gsp-range-ratio"], Float, "RATIO", Preset::Float(1.0), &SHARED,
        "Smallest length, as a fraction of the lengths above. 1 is exact; not the meaning of --random-range-ratio."),
    own(&["--gsp-group-distribution"], Choice(&["uniform", "zipf"]), "HOW", Preset::Str("uniform"), &SHARED,
        "Distribution of the questions over the groups. zipf needs --gsp-zipf-alpha."),
    own(&["--gsp-zipf-alpha"], Float, "ALPHA", Unset, &SHARED, "Exponent of the zipf distribution, above 0."),
    own(&["--gsp-num-turns"], Int, "N", Preset::Int(1), &SHARED,
        "Questions per conversation. With several, conversations run as with --multi-turn; only the first question has the \
         system prompt.").at_least(1),
    switch(&["--gsp-ordered"], &SHARED, "Keep the groups together. Without it requests are shuffled."),
    switch(&["--gsp-fast-prepare"], &SHARED, "Do not count the prompts' tokens; their length is reported as 1."),
    own(&["--mooncake-workload"], Choice(&["conversation", "toolagent", "synthetic", "mooncake"]), "NAME",
        Preset::Str("conversation"), &TIMED_TRACE,
        "Trace of mooncake to read if --dataset-path is a directory."),
    own(&["--mooncake-slowdown-factor"], Float, "FACTOR", Preset::Float(1.0), &TIMED_TRACE,
        "Alias of --time-scale, its name in SGLang."),
    own(&["--hf-order"], Choice(&["5.1", "5.0", "4"]), "RELEASE", Preset::Str("5.1"), &HF,
        "Order of streamed rows, by release of the `datasets` library. 5.1 and later, 5.0, or 4 and earlier."),
    own(&["--workers"], Int, "N", Unset, &MEASURE,
        "Maximum client threads (default: by load and machine). One per 256 slots of a limit that sessions or prefills \
         share.").between(1.0, MAX_WORKERS as f64),
    own(&["--timestamps"], Choice(&["kernel", "user"]), "WHERE", Preset::Str("kernel"), &MEASURE,
        "Source of receive timestamps. kernel: when bytes reached the socket, if the system supports it; user: when tacho \
         read them."),
    switch(&["--http2"], &CONNECTION,
        "Use HTTP/2: with https:// servers that offer it, with http:// servers always. A connection carries one request at a \
         time, as with HTTP/1.1."),
    own(&["--connect-timeout"], Seconds, "SEC", Unset, &CONNECTION,
        "Seconds to open a connection. Without it only --timeout applies.").positive(),
    own(&["--timeout"], Seconds, "SEC", Preset::Float(21600.0), &CONNECTION,
        "Seconds for a whole request. The default is vLLM's 6 hours.").positive(),
    own(&["--fail-if"], Repeated, "CONDITION", Unset, &CHECKS,
        "Exit with 3 if this holds for the result: a metric, <, <=, > or >=, and a limit, such as p99_ttft_ms>300 or \
         failed>1%. Can be repeated. Inconclusive, also exit 3, if the metric's 95% confidence interval contains the limit."),
    switch(&["--allow-inconclusive"], &CHECKS, "Exit with 0 if a --fail-if is inconclusive and none holds."),
    switch(&["--require-trustworthy"], &CHECKS, "Exit with 3 if the client was too slow or too late to trust the result."),
    own(&["--first-token-timeout"], Seconds, "SEC", Unset, &CONNECTION,
        "Seconds to the first token of a streamed response. Without it only --timeout applies.").positive(),
    own(&["--retries"], Int, "N", Preset::Int(0), &CONNECTION,
        "Retries of a failed request. The report counts them, and latencies include all attempts; permanent errors (most HTTP \
         4xx) are not retried.").between(0.0, 1000.0),
    own(&["--ca-file"], Str, "FILE", Unset, &CONNECTION, "CA certificates in PEM form to trust instead of the system's."),
    switch(&["--reset-caches"], &WARMUP,
        "Empty the server's prefix and multimodal caches after the warm-up. vLLM needs VLLM_SERVER_DEV_MODE=1; \
         --backend sglang uses /flush_cache. A refusal ends the run."),
    own(&["--report"], Str, "FILE", Unset, &LOG,
        "Write an HTML report: verdict, metrics, distributions, time series, the slowest requests. One self-contained file."),
    own(&["--card"], Str, "FILE", Unset, &LOG,
        "Write a share card of the result, 1200 by 630 pixels: load, verdict, four metrics, and the command that repeats the \
         run. The name ends in .png or .svg."),
    live::SCREEN.within(&TELEMETRY),
    live::HTTP.within(&TELEMETRY),
    own(&["--metrics-interval"], Seconds, "SEC", Preset::Float(1.0), &TELEMETRY,
        "Seconds between samples of the server's /metrics, stored as time series. 0 samples only before and after the run. A \
         server without /metrics is not asked again."),
    own(&["--telemetry"], OptionalStr, "SEC", Unset, &TELEMETRY,
        "Sample this machine's NVIDIA GPUs, CPU, memory and network. Every 0.5 s, or SEC; reports energy, power and joules per \
         token, and stores all series.").between(0.02, 3600.0),
    own(&["--telemetry-url"], Repeated, "URL", Unset, &TELEMETRY,
        "Sample Prometheus endpoints too: /metrics of other replicas, or a DCGM exporter, whose GPUs replace this machine's. \
         Each is stored under its address."),
    own(&["--otlp"], Str, "URL", Unset, &TELEMETRY,
        "Export the run's metrics to an OpenTelemetry collector (OTLP/HTTP, JSON). /v1/metrics is appended to the address."),
    switch(&["--otlp-spans"], &TELEMETRY, "Export a span for each request too, to /v1/traces."),
    own(&["--save-requests"], Str, "FILE", Unset, &FILES,
        "Write one row per request, as .jsonl, .csv (without lists) or .parquet."),
    own(&["--summary-json"], Str, "FILE", Unset, &FILES,
        "Write the metrics without lists as one JSON object. - writes it to standard output, and the report to standard error."),
    own(&["--duration"], Seconds, "SEC", Unset, &ENDING,
        "Send requests for this many seconds. --num-prompts, if set, is an additional limit.").positive(),
    own(&["--until"], Str, "METRIC:PRECISION", Unset, &ENDING,
        "Stop when the metric is known this precisely: 'p99_ttft_ms:5%' is a 95% confidence interval of +/-5%. Needs \
         --duration as the limit; may exceed --num-prompts."),
    own(&["--grace"], Seconds, "SEC", Preset::Float(30.0), &ENDING,
        "Seconds for requests in flight to finish after --duration or a stop rule. Later ones are not counted."),
    own(&["--stop-on-failures"], Str, "LIMIT", Unset, &ENDING,
        "Stop if more requests than this fail: a percentage such as 20%, or a number. The partial result is saved; exit code 3."),
    switch(&["--stop-on-overload"], &ENDING,
        "Stop if the server cannot sustain the request rate: the queue grows in each third of the run. Requests in flight get 2 s \
         (or --grace) to finish, the partial result is saved; exit code 3."),
    own(&["--log"], Str, "DIR", Unset, &LOG,
        "Directory of the request log, written within a second and readable after any failure. Default: next to the result with \
         --save-result, and in --result-dir for runs longer than a minute."),
    switch(&["--no-log"], &LOG, "Write no request log."),
    own(&["--resume"], Str, "DIR", Unset, &LOG,
        "Resume the run of this log: completed requests are not sent again. Its flags need not be repeated."),
    switch(&["--quiet"], &REPORT, "Print only the report."),
    switch(&["--verbose"], &REPORT, "Print every metric and confidence interval below the report."),
    switch(&["--no-charts"], &REPORT, "Print no charts before the report on a terminal."),
];
