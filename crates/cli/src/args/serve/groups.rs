//! The help sections of `tacho serve`.

use tacho_args::flag::{Group, group};

use crate::args::shared::tags::{NEEDS_SERVER, PER_STAGE, SAVED, SAVED_DEFAULT};

pub(super) static SERVER: Group =
    group("server options", "options", "Address, protocol and API key; or the built-in simulator.").first(&[
        "--base-url",
        "--host",
        "--port",
        "--sim",
        "--backend",
        "--endpoint",
        "--api-key",
        "--header",
    ]);
pub(super) static MODEL: Group = group("model options", "options", "Model, tokenizer and LoRA adapters.").first(&[
    "--model",
    "--tokenizer",
    "--served-model-name",
]);
pub(super) static LOAD: Group =
    group("load options", "options", "Number of requests, arrival process and concurrency.").first(&[
        "--num-prompts",
        "--request-rate",
        "--max-concurrency",
        "--burstiness",
        "--seed",
        "--stages",
        "--ramp-up-strategy",
    ]);
pub(super) static ENDING: Group = group("run length options", "tacho options", "Time limits and early-stop rules.")
    .first(&["--duration"])
    .tagged(NEEDS_SERVER);
pub(super) static WARMUP: Group =
    group("warm-up and profiling options", "options", "Ready check, warm-up, profiler and probe requests.").first(&[
        "--num-warmups",
        "--ready-check-timeout-sec",
        "--reset-caches",
    ]);
pub(super) static DATASET: Group = group("dataset options", "options", "Source of the prompts.")
    .first(&["--dataset-name", "--dataset-path", "--input-len", "--output-len", "--workload", "--save-workload"])
    .tagged(PER_STAGE);
pub(super) static COST: Group = group("cost options", "tacho options", "Price of the machines.");
pub(super) static MIX: Group =
    group("traffic mix options", "tacho options", "Several classes of traffic, and the popularity of LoRA adapters.");
pub(super) static RANDOM: Group = group(
    "random dataset options",
    "random dataset options",
    "Prompts of random tokens, the same for the same --seed and tokenizer.",
)
.tagged(PER_STAGE);
pub(super) static MULTIMODAL: Group = group(
    "random multimodal options",
    "random multimodal dataset options extended from random dataset",
    "Random images and videos, in addition to random text.",
)
.tagged(PER_STAGE);
pub(super) static CACHE: Group =
    group("prefix cache options", "tacho options", "Prefix-cache hits of random prompts, and the server's cache.")
        .tagged(PER_STAGE);
pub(super) static PREFIX: Group = group(
    "prefix repetition options",
    "prefix repetition dataset options",
    "Random prompts that share a few prefixes.",
)
.tagged(PER_STAGE);
pub(super) static SHARED: Group = group(
    "shared prefix options",
    "shared prefix dataset options",
    "Questions after shared system prompts, as SGLang generates them.",
)
.tagged(PER_STAGE);
pub(super) static SONNET: Group =
    group("sonnet options", "sonnet dataset options", "Prompts made of the lines of a poem.").tagged(PER_STAGE);
pub(super) static SHAREGPT: Group =
    group("sharegpt options", "sharegpt dataset options", "Recorded conversations.").tagged(PER_STAGE);
pub(super) static CUSTOM: Group =
    group("custom dataset options", "custom dataset options", "Your own prompts, from a file or a command.")
        .tagged(PER_STAGE);
pub(super) static HF: Group =
    group("hugging face options", "hf dataset options", "Datasets of the Hugging Face Hub.").tagged(PER_STAGE);
pub(super) static ASR: Group =
    group("speech options", "asr dataset options", "Speech to transcribe.").tagged(PER_STAGE);
pub(super) static BLAZEDIT: Group =
    group("blazedit options", "blazedit dataset options", "Code to edit, by edit distance.").tagged(PER_STAGE);
pub(super) static BFCL: Group =
    group("bfcl options", "BFCL dataset options", "Function-calling questions.").tagged(PER_STAGE);
pub(super) static SPEC_BENCH: Group =
    group("spec bench options", "spec bench dataset options", "Questions of Spec-Bench.").tagged(PER_STAGE);
pub(super) static SPEED_BENCH: Group =
    group("speed bench options", "speed bench dataset options", "Questions of SPEED-Bench.").tagged(PER_STAGE);
pub(super) static TIMED_TRACE: Group =
    group("timed trace options", "timed-trace dataset options", "Recorded lengths, times and shared blocks.");
pub(super) static CONTENT: Group = group("request options", "options", "Fields of every request.")
    .first(&["--ignore-eos", "--extra-body"])
    .tagged(PER_STAGE);
pub(super) static SAMPLING: Group = group(
    "sampling parameters",
    "sampling parameters",
    "Sent with every request if set; otherwise the server's defaults apply.",
)
.first(&["--temperature", "--top-p", "--top-k"])
.tagged(PER_STAGE | SAVED);
pub(super) static REPORT: Group = group("report options", "options", "Metrics and percentiles to compute and print.")
    .first(&["--percentile-metrics", "--metric-percentiles", "--goodput"]);
pub(super) static FILES: Group = group("file options", "options", "Result files and charts.").first(&[
    "--save-result",
    "--save-detailed",
    "--result-dir",
    "--result-filename",
    "--append-result",
    "--save-requests",
    "--summary-json",
]);
pub(super) static LOG: Group =
    group("log and report options", "tacho options", "HTML report, request log and resuming.");
pub(super) static CHECKS: Group = group("pass/fail options", "tacho options", "Conditions that set exit code 3.");
pub(super) static MEASURE: Group =
    group("measurement options", "tacho options", "Client threads, timestamps and parity.");
pub(super) static CONNECTION: Group =
    group("connection options", "tacho options", "Timeouts, retries, HTTP version and TLS.")
        .first(&["--timeout", "--first-token-timeout", "--connect-timeout", "--retries"])
        .tagged(NEEDS_SERVER);
pub(super) static TELEMETRY: Group = group(
    "live view and telemetry options",
    "tacho options",
    "Live view, server, GPU and host metrics, OpenTelemetry.",
)
.tagged(NEEDS_SERVER);

pub(super) static USERS: Group = group(
    "session load options",
    "options",
    "Start, concurrency and pace of sessions. Prefill limits and cancellations apply to any workload.",
)
.first(&["--sessions-concurrency", "--session-rate"])
.tagged(SAVED_DEFAULT);
