//! The flags of `tacho serve`: vLLM's in vLLM's order, then our own. One row is one flag;
//! `absent` rows are flags of vLLM whose capability tacho does not have yet.

use std::hash::{BuildHasher, RandomState};

use tacho_client::BackendKind;
use tacho_core::json::{Dict, Value};
use tacho_loadgen::MAX_WORKERS;
use tacho_workload::SERVE_NAMES;

use super::{multi_turn, points, repeats, sessions};
use crate::args::flag::{Flag, Group, Kind, Preset, Table, own, vllm};
use crate::args::live;
use crate::args::ranks;

use Kind::{
    AnyNumber, Buckets, Choice, Float, Help, Int, Json, Names, OneOrMore, OptionalStr, Repeated, Seconds, Str, Switch,
    TriState,
};
use Preset::{Made, Off, Unset};

pub(crate) static SERVER: Group =
    Group { title: "server options", vllm_title: "options", about: "Which server to benchmark, and as whom." };
pub(crate) static MODEL: Group =
    Group { title: "model options", vllm_title: "options", about: "Which model and tokenizer." };
pub(crate) static CONNECTION: Group =
    Group { title: "connection options", vllm_title: "tacho options", about: "Limits of time, and how to connect." };
pub(crate) static AROUND: Group = Group {
    title: "preparation options",
    vllm_title: "options",
    about: "What happens before the requests and beside them.",
};
pub(crate) static CACHE: Group = Group {
    title: "prefix cache options",
    vllm_title: "tacho options",
    about: "What the server's prefix cache may know of the prompts.",
};
pub(crate) static SHARED: Group = Group {
    title: "shared prefix options",
    vllm_title: "shared prefix dataset options",
    about: "Questions behind system prompts that they share, as SGLang makes them.",
};
pub(crate) static SONNET: Group =
    Group { title: "sonnet options", vllm_title: "sonnet dataset options", about: "Prompts of lines of a poem." };
pub(crate) static MEASURE: Group = Group {
    title: "measurement options",
    vllm_title: "tacho options",
    about: "How it is measured, and what is expected of the result.",
};
pub(crate) static ENDING: Group =
    Group { title: "ending options", vllm_title: "tacho options", about: "When a run is over." };
pub(crate) static LOG: Group =
    Group { title: "log options", vllm_title: "tacho options", about: "What is kept of every request, and a page." };
pub(crate) static FILES: Group =
    Group { title: "file options", vllm_title: "options", about: "What is written, and where." };
pub(crate) static LOAD: Group =
    Group { title: "load options", vllm_title: "options", about: "How many requests, and when each is sent." };
pub(crate) static CONTENT: Group =
    Group { title: "request options", vllm_title: "options", about: "What every request asks for." };
pub(crate) static SAMPLING: Group = Group {
    title: "sampling parameters",
    vllm_title: "sampling parameters",
    about: "Sent with every request when given; the server decides otherwise.",
};
pub(crate) static DATASET: Group =
    Group { title: "dataset options", vllm_title: "options", about: "Where the prompts come from." };
pub(crate) static RANDOM: Group = Group {
    title: "random dataset options",
    vllm_title: "random dataset options",
    about: "Prompts of random tokens, the same for the same --seed and tokenizer.",
};
pub(crate) static MULTIMODAL: Group = Group {
    title: "random multimodal options",
    vllm_title: "random multimodal dataset options extended from random dataset",
    about: "Random images and films beside random text.",
};
pub(crate) static CUSTOM: Group = Group {
    title: "custom dataset options",
    vllm_title: "custom dataset options",
    about: "Prompts of your own, a JSON object a line.",
};
pub(crate) static SPEC_BENCH: Group =
    Group { title: "spec bench options", vllm_title: "spec bench dataset options", about: "Questions of Spec-Bench." };
pub(crate) static SPEED_BENCH: Group = Group {
    title: "speed bench options",
    vllm_title: "speed bench dataset options",
    about: "Questions of SPEED-Bench.",
};
pub(crate) static SHAREGPT: Group =
    Group { title: "sharegpt options", vllm_title: "sharegpt dataset options", about: "Recorded conversations." };
pub(crate) static TIMED_TRACE: Group = Group {
    title: "timed trace options",
    vllm_title: "timed-trace dataset options",
    about: "Recorded lengths, times and shared blocks.",
};
pub(crate) static BLAZEDIT: Group = Group {
    title: "blazedit options",
    vllm_title: "blazedit dataset options",
    about: "Code to be edited, by edit distance.",
};
pub(crate) static ASR: Group =
    Group { title: "speech options", vllm_title: "asr dataset options", about: "Speech to be transcribed." };
pub(crate) static HF: Group = Group {
    title: "hugging face options",
    vllm_title: "hf dataset options",
    about: "Datasets of the Hugging Face Hub.",
};
pub(crate) static BFCL: Group =
    Group { title: "bfcl options", vllm_title: "BFCL dataset options", about: "Questions that call functions." };
pub(crate) static PREFIX: Group = Group {
    title: "prefix repetition options",
    vllm_title: "prefix repetition dataset options",
    about: "Random prompts behind a few shared prefixes.",
};
pub(crate) static REPORT: Group =
    Group { title: "report options", vllm_title: "options", about: "What is computed and printed." };
pub(crate) static OWN: Group =
    Group { title: "tacho options", vllm_title: "tacho options", about: "What vLLM's command does not have." };

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

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho serve",
    about: "Benchmark a running OpenAI-compatible server: latency, throughput, goodput.",
    examples: &[
        ("tacho serve --model Qwen/Qwen3-8B --num-prompts 200 --request-rate 10", "10 requests a second to port 8000"),
        (
            "tacho serve --backend openai-chat --max-concurrency 32 --goodput ttft:300 tpot:40",
            "32 at a time, with objectives",
        ),
        ("tacho serve --sim --num-prompts 100", "no server needed: the built-in simulator answers"),
    ],
    groups: &[
        &SERVER,
        &MODEL,
        &LOAD,
        &ENDING,
        &AROUND,
        &DATASET,
        &RANDOM,
        &MULTIMODAL,
        &CACHE,
        &PREFIX,
        &SHARED,
        &SONNET,
        &SHAREGPT,
        &CUSTOM,
        &HF,
        &ASR,
        &BLAZEDIT,
        &BFCL,
        &SPEC_BENCH,
        &SPEED_BENCH,
        &TIMED_TRACE,
        &CONTENT,
        &SAMPLING,
        &REPORT,
        &sessions::SESSIONS,
        &sessions::PART,
        &sessions::USERS,
        &multi_turn::MULTI_TURN,
        &repeats::REPEATS,
        &points::POINTS,
        &FILES,
        &LOG,
        &MEASURE,
        &CONNECTION,
        &ranks::GROUP,
        &OWN,
    ],
    flags: FLAGS,
};

/// The same flags for a run that is only predicted.
pub(crate) static PREDICT: Table = Table {
    command: "tacho predict",
    about: "Predict what tacho serve would measure, by a profile of tacho fit: nothing is sent.",
    examples: &[(
        "tacho predict --sim-profile mine.json --num-prompts 500 --request-rate 8",
        "the report that a run would give",
    )],
    groups: TABLE.groups,
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    vllm(&["-h", "--help"], Help, "TOPIC", Unset, &SERVER,
        "Show this help. --help=all explains every option, --help=TOPIC the options of one section (by its title) or \
         those with TOPIC in their name."),
    vllm(&["--trust-remote-code"], Switch, "", Off, &MODEL,
        "Accepted, and not needed. tacho never runs code from a model repository; a tokenizer that only works that \
         way cannot be loaded."),
    vllm(&["--seed"], Int, "SEED", Preset::Int(0), &LOAD,
        "Seed of prompts, arrival times and adapter choice. From 0 to 4294967295; the same seed gives the same \
         requests at the same times as vLLM's command.").between(0.0, 4_294_967_295.0),
    vllm(&["--num-prompts"], Int, "N", Preset::Int(1000), &LOAD,
        "Number of requests to send. Warm-up and probe requests are not counted."),
    vllm(&["--dataset-name"], Choice(SERVE_NAMES), "NAME", Preset::Str("random"), &DATASET,
        "Dataset the prompts come from."),
    vllm(&["--no-stream"], Switch, "", Off, &DATASET,
        "Mix all rows of a Hub dataset at once. Without it they are mixed through a buffer, in the order of \
         the `datasets` library's streaming."),
    vllm(&["--dataset-path"], Str, "PATH", Unset, &DATASET,
        "File or folder of the dataset, or its Hub id for hf. The random ones and prefix_repetition read none, so giving \
         one with them is an error."),
    vllm(&["--no-oversample"], Switch, "", Off, &DATASET,
        "Send fewer requests when the dataset has too few rows. Without it, requests are repeated."),
    vllm(&["--skip-chat-template"], Switch, "", Off, &DATASET,
        "Send prompts as they are in the dataset. Without it, those of custom, speed_bench and several Hub \
         datasets go through the tokenizer's chat template."),
    vllm(&["--enable-multimodal-chat"], Switch, "", Off, &DATASET,
        "Send media as parts of a chat message."),
    vllm(&["--disable-shuffle"], Switch, "", Off, &DATASET,
        "Keep the order of the dataset's rows."),
    vllm(&["--custom-output-len"], Int, "TOKENS", Preset::Int(256), &CUSTOM,
        "Answer length; -1 takes each row's output_tokens. custom_image never asks the rows."),
    vllm(&["--custom-ensure-client-side-data"], Switch, "", Off, &CUSTOM,
        "Send the images of custom_image inside the requests. They are read here and sent as PNG."),
    vllm(&["--spec-bench-output-len"], Int, "TOKENS", Preset::Int(256), &SPEC_BENCH,
        "Answer length."),
    vllm(&["--spec-bench-category"], Str, "NAME", Unset, &SPEC_BENCH,
        "Questions of this category only, such as math."),
    vllm(&["--sharegpt-output-len"], Int, "TOKENS", Unset, &SHAREGPT,
        "Answer length, in place of the length of the recorded answer."),
    vllm(&["--timed-trace-chunk-hash-size"], Int, "TOKENS", Preset::Int(16), &TIMED_TRACE,
        "Tokens of a block. 16 in traces of Qwen, 512 in Mooncake's."),
    // vLLM's default is the whole number 1, although what is typed becomes a float.
    vllm(&["--timed-trace-sec-multiplier"], Float, "FACTOR", Preset::Int(1), &TIMED_TRACE,
        "What makes seconds of the times. 0.001 for milliseconds."),
    vllm(&["--timed-trace-label-timestamp"], Str, "FIELD", Preset::Str("timestamp"), &TIMED_TRACE,
        "Field of the arrival time."),
    vllm(&["--timed-trace-label-input-length"], Str, "FIELD", Preset::Str("input_length"), &TIMED_TRACE,
        "Field of the prompt length."),
    vllm(&["--timed-trace-label-output-length"], Str, "FIELD", Preset::Str("output_length"), &TIMED_TRACE,
        "Field of the answer length."),
    vllm(&["--timed-trace-label-hash-ids"], Str, "FIELD", Preset::Str("hash_ids"), &TIMED_TRACE,
        "Field of the blocks' ids."),
    vllm(&["--blazedit-min-distance"], Float, "SHARE", Preset::Float(0.0), &BLAZEDIT,
        "Least edit distance, from 0 to 1."),
    vllm(&["--blazedit-max-distance"], Float, "SHARE", Preset::Float(1.0), &BLAZEDIT,
        "Greatest edit distance, from 0 to 1."),
    vllm(&["--asr-max-audio-len-sec"], Float, "SEC", Preset::Float(f64::INFINITY), &ASR,
        "Longest sound; 0 is no limit."),
    vllm(&["--asr-min-audio-len-sec"], Float, "SEC", Preset::Float(0.0), &ASR,
        "Shortest sound."),
    vllm(&["--random-input-len"], Int, "TOKENS", Preset::Int(1024), &RANDOM,
        "Prompt length in tokens, without the prefix. See --random-range-ratio for lengths that vary."),
    vllm(&["--random-output-len"], Int, "TOKENS", Preset::Int(128), &RANDOM,
        "Answer length in tokens. Servers that honour ignore_eos, which is sent, generate exactly as many."),
    vllm(&["--random-range-ratio"], Str, "RATIO", Preset::Str("0.0"), &RANDOM,
        "How far lengths vary, from 0 up to but not 1. Lengths are drawn evenly from LEN*(1-RATIO) to LEN*(1+RATIO). \
         A JSON object such as '{\"input\": 0.3, \"output\": 0.5}' sets prompts and answers apart."),
    vllm(&["--random-prefix-len"], Int, "TOKENS", Preset::Int(0), &RANDOM,
        "Length of a prefix that all prompts share. It comes on top of --random-input-len and can be served from \
         a prefix cache."),
    vllm(&["--random-batch-size"], Int, "N", Preset::Int(1), &RANDOM,
        "Prompts per request. Above 1, a request carries a list of prompts, as embeddings and reranking take them; the \
         first of a list is then the query of a reranking."),
    vllm(&["--no-reranker"], Switch, "", Off, &RANDOM,
        "The model of random-rerank embeds query and documents apart. Without it, it reads them together."),
    vllm(&["--random-mm-base-items-per-request"], Int, "N", Preset::Int(1), &MULTIMODAL,
        "Images and films of a request."),
    vllm(&["--random-mm-num-mm-items-range-ratio"], Float, "RATIO", Preset::Float(0.0), &MULTIMODAL,
        "How far that number varies, from 0 to 1."),
    vllm(&["--random-mm-limit-mm-per-prompt"], Json, "JSON", Made(mm_limits, "255 and 1"), &MULTIMODAL,
        "Most images and films of a request. Such as '{\"image\": 3, \"video\": 0}'."),
    vllm(&["--random-mm-bucket-config"], Buckets, "DICT", Made(mm_buckets, "two images"), &MULTIMODAL,
        "Sizes and their shares. A Python dict such as {(256, 256, 1): 0.5, (720, 1280, 16): 0.5}, of height, width \
         and frames; one frame is an image, more are a film."),
    vllm(&["--hf-subset"], Str, "NAME", Unset, &HF,
        "Configuration of the dataset."),
    vllm(&["--hf-split"], Str, "NAME", Unset, &HF,
        "Split of the dataset. Most loaders know theirs."),
    vllm(&["--hf-name"], Str, "ID", Unset, &HF,
        "Hub id of the dataset when --dataset-path is a local folder."),
    vllm(&["--hf-output-len"], Int, "TOKENS", Unset, &HF,
        "Answer length, in place of the dataset's own."),
    vllm(&["--bfcl-categories"], Names, "NAMES", Unset, &BFCL,
        "Categories of questions, with commas between. Without it simple,live_simple,multiple."),
    vllm(&["--prefix-repetition-prefix-len"], Int, "TOKENS", Preset::Int(256), &PREFIX,
        "Length of a prefix."),
    vllm(&["--prefix-repetition-suffix-len"], Int, "TOKENS", Preset::Int(256), &PREFIX,
        "Length of what follows the prefix."),
    vllm(&["--prefix-repetition-num-prefixes"], Int, "N", Preset::Int(10), &PREFIX,
        "Number of prefixes. Each gets an equal share of the prompts."),
    vllm(&["--prefix-repetition-output-len"], Int, "TOKENS", Preset::Int(128), &PREFIX,
        "Answer length."),
    vllm(&["--speed-bench-dataset-subset"], Choice(SPEED_BENCH_SUBSETS), "NAME", Preset::Str("qualitative"), &SPEED_BENCH,
        "File of the folder to read, without its ending."),
    vllm(&["--speed-bench-output-len"], Int, "TOKENS", Preset::Int(4096), &SPEED_BENCH,
        "Answer length; --output-len does not change it."),
    vllm(&["--speed-bench-category"], Str, "NAME", Unset, &SPEED_BENCH,
        "Questions of this category only, such as coding."),
    vllm(&["--label"], Str, "NAME", Unset, &FILES,
        "Start of the result file's name, and its label. Without it the name starts with the backend."),
    vllm(&["--backend"], Choice(BACKENDS), "NAME", Preset::Str("openai"), &SERVER,
        "Protocol spoken to the server. vllm, openai, sglang, lmdeploy, scalellm, llama.cpp: completions; openai-chat: \
         chat completions; openai-responses: responses; openai-audio: transcriptions or translations of sounds; \
         openai-embeddings, openai-embeddings-chat, openai-embeddings-clip, openai-embeddings-vlm2vec, \
         infinity-embeddings, infinity-embeddings-clip, vllm-pooling, vllm-rerank: answers that come whole; tgi, tensorrt-llm, deepspeed-mii, \
         vllm-generate: servers with protocols of their own; anthropic-messages: Anthropic's /v1/messages."),
    vllm(&["--base-url"], Str, "URL", Unset, &SERVER,
        "Server address with scheme, in place of --host and --port. Use it for https://, or for a server below a \
         path. A Unix socket is http+unix:// with %2F for / in its path: http+unix://%2Frun%2Fvllm.sock."),
    vllm(&["--host"], Str, "HOST", Preset::Str("127.0.0.1"), &SERVER,
        "Server name or address, for plain http."),
    vllm(&["--port"], Int, "PORT", Preset::Int(8000), &SERVER, "Server port, for plain http.").between(1.0, 65535.0),
    vllm(&["--endpoint"], Str, "PATH", Preset::Str("/v1/completions"), &SERVER,
        "API path, appended to the server address. Left out, it follows the backend: openai-chat uses \
         /v1/chat/completions, openai-embeddings /v1/embeddings."),
    vllm(&["--header"], AnyNumber, "KEY=VALUE", Unset, &SERVER,
        "Headers sent with every request. They replace those that tacho would send; their values are not printed."),
    vllm(&["--max-concurrency"], Int, "N", Unset, &LOAD,
        "Most requests in flight at once. Requests that are due beyond it wait in order; waiting is not part of their \
         latency and is reported apart. Without it there is no limit.").at_least(1),
    vllm(&["--model"], Str, "NAME", Unset, &MODEL,
        "Model to ask for. Without it, the first model that the server lists."),
    vllm(&["--input-len"], Int, "TOKENS", Unset, &DATASET,
        "Prompt length in tokens, in place of --random-input-len."),
    vllm(&["--output-len"], Int, "TOKENS", Unset, &DATASET,
        "Answer length in tokens. In place of the dataset's own flag, except --speed-bench-output-len."),
    vllm(&["--tokenizer"], Str, "NAME", Unset, &MODEL,
        "Tokenizer, as a Hub id or a folder. It makes the prompts and counts tokens that the server does not \
         report. Without it, the model's own."),
    vllm(&["--tokenizer-mode"], Str, "MODE", Preset::Str("auto"), &MODEL,
        "How the tokenizer is loaded. auto takes Mistral's own files where the model has them, otherwise Hugging Face's; hf \
         and mistral take one of them. slow, cohere, kimi_k3, inkling and deepseek_v32, _v4 and _v41 count tokens like hf."),
    vllm(&["--use-beam-search"], Switch, "", Off, &CONTENT,
        "Refused: no request can ask for beam search. vLLM's command accepts it and sends nothing."),
    vllm(&["--logprobs"], Int, "N", Unset, &CONTENT,
        "Log probabilities per token to ask for. Completions only."),
    vllm(&["--request-rate"], Float, "RPS", Preset::Float(f64::INFINITY), &LOAD,
        "Requests per second, on average. Send times are fixed before the run and do not wait for answers; inf sends \
         everything at once.").positive(),
    vllm(&["--burstiness"], Float, "SHAPE", Preset::Float(1.0), &LOAD,
        "How regular the send times are at a finite rate. The shape of the gamma distribution of the gaps: 1 is a \
         Poisson process, below 1 comes in bursts, above 1 is more even, inf is a constant gap.").positive(),
    vllm(&["--probe-request-rate"], Float, "RPS", Preset::Float(0.0), &AROUND,
        "Rate of tiny extra requests that measure responsiveness. 0 sends none; their times are reported apart.").between(0.0, 1e6),
    vllm(&["--disable-tqdm"], Switch, "", Off, &REPORT, "Show no progress bars."),
    vllm(&["--num-warmups"], Int, "N", Preset::Int(0), &AROUND,
        "Requests sent before the measurement. They repeat the first prompt and are not measured."),
    vllm(&["--profile"], Switch, "", Off, &AROUND,
        "Start the server's profiler for the run. The server must have been started with profiling enabled."),
    vllm(&["--save-result"], Switch, "", Off, &FILES, "Write the result as JSON, over an older file."),
    vllm(&["--save-detailed"], Switch, "", Off, &FILES,
        "Keep the values of every request in the result. Needs --save-result or --append-result to be written."),
    vllm(&["--append-result"], Switch, "", Off, &FILES,
        "Append the result to the file, one JSON document a line. Saves by itself."),
    vllm(&["--metadata"], AnyNumber, "KEY=VALUE", Unset, &FILES,
        "Facts to keep in the result, such as version=0.6.0. Values are stored as text."),
    vllm(&["--result-dir"], Str, "DIR", Unset, &FILES, "Folder of the result file; made if it is not there."),
    vllm(&["--result-filename"], Str, "FILE", Unset, &FILES,
        "Name of the result file. Without it, a name of backend, rate, model and time is made."),
    vllm(&["--ignore-eos"], Switch, "", Off, &CONTENT,
        "Ask the server to generate to full length. Always on for random prompts with backends that speak OpenAI's \
         protocols."),
    vllm(&["--self-timed", "--no-self-timed"], TriState, "", Unset, &LOAD,
        "Send requests at the times that the data gives. On by default for timed_trace and mooncake; burstgpt, and custom \
         and openai rows with a timestamp, take it too; an error for others."),
    vllm(&["--percentile-metrics"], Str, "NAMES", Unset, &REPORT,
        "Latencies to report, with commas between. Of ttft, tpot, itl, e2el, client_queue_time and \
         e2el_including_client_queue; without it ttft,tpot,itl, or e2el for answers that come whole."),
    vllm(&["--metric-percentiles"], Str, "LIST", Preset::Str("99"), &REPORT,
        "Percentiles to report, from 0 to 100, such as 50,90,99."),
    vllm(&["--goodput"], OneOrMore, "NAME:MS", Unset, &REPORT,
        "Objectives a request must meet to count as good. In milliseconds, on ttft, tpot or e2el: \
         --goodput ttft:200 e2el:5000 reports the rate of requests that meet all of them."),
    vllm(&["--request-id-prefix"], Str, "TEXT", Made(request_id_prefix, "bench-XXXXXXXX-"), &CONTENT,
        "Start of each x-request-id header; a number follows. XXXXXXXX are random hex digits, new in each run."),
    vllm(&["--top-p"], Float, "P", Unset, &SAMPLING, "Nucleus sampling: keep the likeliest tokens up to this share.").finite(),
    vllm(&["--top-k"], Int, "K", Unset, &SAMPLING, "Sample from the K likeliest tokens only."),
    vllm(&["--min-p"], Float, "P", Unset, &SAMPLING, "Drop tokens below this share of the likeliest one's.").finite(),
    vllm(&["--temperature"], Float, "T", Unset, &SAMPLING,
        "Sampling temperature; 0 is greedy. Without it the server's default holds, which may differ by model.").finite(),
    vllm(&["--frequency-penalty"], Float, "X", Unset, &SAMPLING, "Penalty by how often a token has occurred.").finite(),
    vllm(&["--presence-penalty"], Float, "X", Unset, &SAMPLING, "Penalty on tokens that have occurred at all.").finite(),
    vllm(&["--repetition-penalty"], Float, "X", Unset, &SAMPLING,
        "Factor against repetition. Completions send 1.0 without it.").finite(),
    vllm(&["--served-model-name"], Str, "NAME", Unset, &MODEL,
        "Model name in requests, where it differs from --model. --model then names the tokenizer and the result."),
    vllm(&["--lora-modules"], OneOrMore, "NAME", Unset, &MODEL,
        "Adapters to spread the requests over. Each request asks for one of them in place of the model."),
    vllm(&["--lora-assignment"], Choice(&["random", "round-robin"]), "HOW", Preset::Str("random"), &MODEL,
        "How a request gets its adapter."),
    vllm(&["--ramp-up-strategy"], Choice(&["linear", "exponential"]), "HOW", Unset, &LOAD,
        "Let the request rate grow over the run. Needs both bounds below, and no --request-rate."),
    vllm(&["--ramp-up-start-rps"], Int, "RPS", Unset, &LOAD, "Requests per second at the start of a ramp, 1 or more.").between(0.0, u32::MAX as f64),
    vllm(&["--ramp-up-end-rps"], Int, "RPS", Unset, &LOAD, "Requests per second at the end of a ramp.").between(0.0, u32::MAX as f64),
    vllm(&["--ready-check-timeout-sec"], Int, "SEC", Preset::Int(0), &AROUND,
        "Seconds to wait for the server to answer a test request. 0 sends none.").between(-1e9, 1e9),
    vllm(&["--chat-template-kwargs"], Json, "JSON", Unset, &DATASET,
        "Variables for the chat template. For custom and speed_bench; such as \
         '{\"enable_thinking\": false}'."),
    vllm(&["--extra-body"], Json, "JSON", Unset, &CONTENT,
        "Fields to add to every request, over all others. Also one by one: --extra-body.min_tokens 8, and lists as \
         --extra-body.stop+ a,b; these replace a plain --extra-body."),
    vllm(&["--skip-tokenizer-init"], Switch, "", Off, &MODEL,
        "Load no tokenizer. custom, custom_image and custom_audio only; lengths are then not known."),
    vllm(&["--insecure"], Switch, "", Off, &SERVER, "Do not check the server's TLS certificate."),
    vllm(&["--plot-timeline"], Switch, "", Off, &FILES,
        "Write a page that shows each request as a row of segments. An .html file beside the result, with zoom; \
         also without --save-result."),
    vllm(&["--timeline-itl-thresholds"], Str, "MS,MS", Preset::Str("25,50"), &FILES,
        "Where gaps between tokens change colour in the timeline. Two numbers, in milliseconds."),
    vllm(&["--plot-dataset-stats"], Switch, "", Off, &FILES,
        "Write a picture of prompt and answer lengths. A .png file beside the result; also without --save-result."),

    own(&["--api-key"], Str, "KEY", Unset, &SERVER,
        "Key of the server, sent as Authorization: Bearer KEY. Without it that of OPENAI_API_KEY, which others on the \
         machine cannot see."),
    own(&["--endpoint-type"], Choice(BACKENDS), "NAME", Unset, &SERVER,
        "The name of --backend in older releases. The same values."),
    own(&["--sim"], Switch, "", Off, &OWN,
        "Benchmark the built-in simulator. It is started for the run on a free port; no server and no GPU needed."),
    own(&["--max-model-len"], Int, "TOKENS", Unset, &MODEL,
        "Longest prompt, with its history, and answer together. Requests and turns that are longer are left out.").at_least(1),
    own(&["--speed-bench-config"], Choice(SPEED_BENCH_SUBSETS), "NAME", Unset, &SPEED_BENCH,
        "Another name of --speed-bench-dataset-subset."),
    own(&["--speed-bench-max-input-len"], Int, "TOKENS", Unset, &SPEED_BENCH, "Cut prompts to so many tokens.").at_least(1),
    own(&["--profile-batch-threshold"], Int, "N", Unset, &AROUND,
        "Start the profiler of --profile when the server serves so many requests at once, by its metrics page.").at_least(1),
    own(&["--profile-duration"], Seconds, "SEC", Preset::Float(5.0), &AROUND,
        "How long such a profile lasts. The end of the run ends it too.").positive(),
    own(&["--sim-profile"], Str, "NAME", Unset, &OWN,
        "Hardware and model the simulator imitates: a name of tacho help simulator, or a file of tacho fit. With --sim only."),
    own(&["--sim-args"], Str, "FLAGS", Unset, &OWN,
        "Flags of tacho sim for it, as one text, such as '--max-model-len 50000'. With --sim only."),
    own(&["--strict-parity"], Switch, "", Off, &OWN,
        "Follow vLLM's command even where tacho does better."),
    own(&["--dry-run"], Switch, "", Off, &OWN,
        "Make the workload and show it, but send none of it. Only a missing --model is asked of the server."),
    own(&["--save-workload"], Str, "FILE", Unset, &OWN,
        "Write the requests and their send times, for --workload."),
    own(&["--workload"], Str, "FILE", Unset, &OWN,
        "Send the requests of a --save-workload file. The dataset and the rate flags then have no part in them."),
    own(&["--prompt-token-ids"], Switch, "", Off, &CACHE, "Send the prompts of random as token ids."),
    own(&["--random-cache-hit-fraction"], Float, "SHARE", Unset, &CACHE,
        "Share of the random prompts that begin alike, so that a prefix cache finds them. With --prompt-token-ids and \
         --random-cache-ratio."),
    own(&["--random-cache-ratio"], Float, "SHARE", Unset, &CACHE, "Share of their tokens that are alike."),
    own(&["--cache-salt"], Str, "TEXT", Unset, &CACHE,
        "Salt of the server's prefix cache, so that nothing is found that other runs left. `random` draws a new one."),
    own(&["--reset-prefix-cache"], Switch, "", Off, &CACHE, "As --reset-caches, by the name of vLLM's Rust client."),
    sessions::FLAGS[0],
    sessions::FLAGS[1],
    sessions::FLAGS[2],
    sessions::FLAGS[3],
    sessions::FLAGS[4],
    sessions::FLAGS[5],
    sessions::FLAGS[6],
    sessions::FLAGS[7],
    sessions::FLAGS[8],
    sessions::FLAGS[9],
    sessions::FLAGS[10],
    sessions::FLAGS[11],
    sessions::FLAGS[12],
    sessions::FLAGS[13],
    sessions::FLAGS[14],
    sessions::FLAGS[15],
    sessions::FLAGS[16],
    sessions::FLAGS[17],
    sessions::FLAGS[18],
    sessions::FLAGS[19],
    sessions::FLAGS[20],
    sessions::FLAGS[21],
    sessions::FLAGS[22],
    multi_turn::FLAGS[0],
    multi_turn::FLAGS[1],
    multi_turn::FLAGS[2],
    multi_turn::FLAGS[3],
    multi_turn::FLAGS[4],
    multi_turn::FLAGS[5],
    multi_turn::FLAGS[6],
    multi_turn::FLAGS[7],
    multi_turn::FLAGS[8],
    own(&["--prefill-concurrency"], Int, "N", Unset, &sessions::USERS,
        "At most so many requests that wait for their first token."),
    own(&["--request-cancellation-rate"], Float, "PERCENT", Preset::Float(0.0), &sessions::USERS,
        "Share of the requests that are called off, drawn by --seed. They are a class of their own and no failures."),
    own(&["--request-cancellation-delay"], Float, "SEC", Preset::Float(0.0), &sessions::USERS,
        "How long after a request was written it is called off, if it is."),
    own(&["--custom-skip-chat-template"], Switch, "", Off, &OWN, "Older name of --skip-chat-template."),
    own(&["--sonnet"], Str, "FILE", Unset, &SONNET,
        "Prompts of lines of this poem. The same as --dataset-name sonnet --dataset-path FILE: what older releases made of it."),
    own(&["--sonnet-input-len"], Int, "TOKENS", Preset::Int(550), &SONNET, "Most tokens of a prompt of --sonnet."),
    own(&["--sonnet-output-len"], Int, "TOKENS", Preset::Int(150), &SONNET, "Answer length of --sonnet."),
    own(&["--sonnet-prefix-len"], Int, "TOKENS", Preset::Int(200), &SONNET, "Tokens that all prompts of --sonnet share."),
    own(&["--hf-text-column"], Str, "COLUMN", Unset, &HF,
        "Prompts of this column of any dataset of hf. Nested ones with points: conversations.0.value. They go through \
         the chat template, and answers are 256 tokens without --hf-output-len."),
    own(&["--time-scale"], Float, "FACTOR", Preset::Float(1.0), &TIMED_TRACE,
        "How many times as far apart requests are as recorded. For send times that come with the data: timed_trace, \
         mooncake, --self-timed and --workload; 2 is half speed."),
    own(&["--gsp-num-groups"], Int, "N", Preset::Int(64), &SHARED,
        "System prompts of generated-shared-prefix. The dataset of SGLang; its requests are the groups times the \
         prompts of a group, whatever --num-prompts says."),
    own(&["--gsp-prompts-per-group"], Int, "N", Preset::Int(16), &SHARED, "Questions per system prompt."),
    own(&["--gsp-system-prompt-len"], Int, "TOKENS", Preset::Int(2048), &SHARED, "Length of a system prompt."),
    own(&["--gsp-question-len"], Int, "TOKENS", Preset::Int(128), &SHARED, "Length of a question."),
    own(&["--gsp-output-len"], Int, "TOKENS", Preset::Int(256), &SHARED, "Answer length of generated-shared-prefix."),
    own(&["--gsp-range-ratio"], Float, "RATIO", Preset::Float(1.0), &SHARED,
        "Share of these lengths from which they are drawn, up to themselves. 1 is exact; unlike --random-range-ratio."),
    own(&["--gsp-group-distribution"], Choice(&["uniform", "zipf"]), "HOW", Preset::Str("uniform"), &SHARED,
        "How questions are spread over the groups. zipf needs --gsp-zipf-alpha."),
    own(&["--gsp-zipf-alpha"], Float, "ALPHA", Unset, &SHARED, "Exponent of the zipf distribution, above 0."),
    own(&["--gsp-num-turns"], Int, "N", Preset::Int(1), &SHARED,
        "Questions of a conversation. With several, conversations are held as with --multi-turn; only the first question \
         has the system prompt.").at_least(1),
    own(&["--gsp-ordered"], Switch, "", Off, &SHARED, "Keep the groups together. Without it requests are mixed."),
    own(&["--gsp-fast-prepare"], Switch, "", Off, &SHARED, "Do not count the prompts; their length is reported as 1."),
    own(&["--mooncake-workload"], Choice(&["conversation", "toolagent", "synthetic", "mooncake"]), "NAME",
        Preset::Str("conversation"), &TIMED_TRACE,
        "Trace of a folder that mooncake takes: --dataset-path is the folder, or the file itself."),
    own(&["--mooncake-slowdown-factor"], Float, "FACTOR", Preset::Float(1.0), &TIMED_TRACE, "As --time-scale, by SGLang's name."),
    own(&["--hf-order"], Choice(&["5.1", "5.0", "4"]), "RELEASE", Preset::Str("5.1"), &HF,
        "Order of streamed rows. That of a release of the `datasets` library: 5.1 and later, 5.0, or 4 and before."),
    own(&["--workers"], Int, "N", Unset, &MEASURE,
        "Threads that send and receive, at most: one for each 256 slots of a limit that sessions or prefills share. \
         Without it, as many as the machine and the load call for.").between(1.0, MAX_WORKERS as f64),
    own(&["--timestamps"], Choice(&["kernel", "user"]), "WHERE", Preset::Str("kernel"), &MEASURE,
        "Where arriving bytes get their time. kernel: when they reached the socket, where the system tells; user: \
         when tacho read them."),
    ranks::RANK,
    ranks::RANKS,
    ranks::RENDEZVOUS,
    ranks::CERTIFICATE,
    ranks::KEY,
    ranks::PLAINTEXT,
    ranks::TIMEOUT,
    ranks::ON_LOST,
    ranks::GATHER,
    own(&["--http2"], Switch, "", Off, &CONNECTION,
        "Speak HTTP/2: to https:// servers that offer it, to http:// servers in any case. One request at a time goes \
         over a connection, as with HTTP/1.1."),
    own(&["--connect-timeout"], Seconds, "SEC", Unset, &CONNECTION,
        "Seconds a connection may take to open. Without it only --timeout limits it.").positive(),
    own(&["--timeout"], Seconds, "SEC", Preset::Float(21600.0), &CONNECTION,
        "Seconds a request may take in all. The default is vLLM's 6 hours.").positive(),
    own(&["--fail-if"], Repeated, "CONDITION", Unset, &MEASURE,
        "Exit with 3 when this is true of the result: a number, <, <=, > or >=, and a limit, such as p99_ttft_ms>300 or \
         failed>1%. May be given several times. It is undecided, and the code 3 too, when the number's 95 % interval \
         holds the limit."),
    own(&["--pass-undecided"], Switch, "", Off, &MEASURE, "Exit with 0 when a --fail-if is undecided and none is true."),
    own(&["--require-trustworthy"], Switch, "", Off, &MEASURE,
        "Exit with 3 when the client itself was too slow or too late for the result to be trusted."),
    own(&["--first-token-timeout"], Seconds, "SEC", Unset, &CONNECTION,
        "Seconds the first token of a streamed answer may take. Without it only --timeout limits it.").positive(),
    own(&["--retries"], Int, "N", Preset::Int(0), &CONNECTION,
        "How often a failed request is sent again. Such requests are counted in the report, and their times contain \
         all attempts; errors that would only come again (most of HTTP 4xx) are not retried.").between(0.0, 1000.0),
    own(&["--ca-file"], Str, "FILE", Unset, &SERVER,
        "Certificates in PEM form to trust in place of the system's."),
    own(&["--metrics-interval"], Seconds, "SEC", Preset::Float(1.0), &MEASURE,
        "Seconds between looks at the server's /metrics during the run. They are kept in the result as series; 0 looks \
         only before and after. Servers without such a page are not asked again."),
    own(&["--reset-caches"], Switch, "", Off, &AROUND,
        "Empty the server's prefix and multi-modal caches after the warm-ups, so that the run begins cold. vLLM needs \
         VLLM_SERVER_DEV_MODE=1 for it; --backend sglang asks for /flush_cache. A refusal ends the run."),
    own(&["--report"], Str, "FILE", Unset, &LOG,
        "Write one page for the run, for a browser: verdict, numbers, distributions, everything over time on one axis, \
         the slowest requests. One .html file that fetches nothing."),
    live::screen(&LOG),
    live::http(&LOG),
    own(&["--telemetry"], OptionalStr, "SEC", Unset, &MEASURE,
        "Look at the NVIDIA GPUs and the processors, memory and network of this machine during the run. Every 0.5 s, or as \
         given; energy, power and joules per token are reported, all of it is kept as series. The server's own metrics \
         are taken in any case (--metrics-interval)."),
    own(&["--telemetry-url"], Repeated, "URL", Unset, &MEASURE,
        "Look at Prometheus pages too: other replicas' /metrics, a DCGM exporter, whose GPUs are taken in place of this \
         machine's, or any other. Their series stand beside the server's, each under its own address."),
    own(&["--otlp"], Str, "URL", Unset, &LOG,
        "Send the series of the run to an OpenTelemetry collector at its end, as OTLP over HTTP in JSON. /v1/metrics is \
         added to the address."),
    own(&["--otlp-spans"], Switch, "", Off, &LOG, "Send a span for each request too, to /v1/traces."),
    own(&["--save-requests"], Str, "FILE", Unset, &FILES,
        "Write one row a request. The name says how: .jsonl, .csv (without lists) or .parquet; \
         docs/guides/data.md has the columns."),
    own(&["--summary-json"], Str, "FILE", Unset, &FILES,
        "Write the numbers without lists as one JSON object. - prints it: standard output then carries nothing else, \
         and the report goes to standard error."),
    own(&["--duration"], Seconds, "SEC", Unset, &ENDING,
        "Send requests for so long. Without --num-prompts as many as it takes; with it, at most that many.").positive(),
    own(&["--until"], Str, "NUMBER:SHARE", Unset, &ENDING,
        "End the run when this number is known so well: 'p99_ttft_ms:5%' is a 95 % interval of 5 % to either side. \
         --duration is the longest it may take; requests are made for as long, beyond --num-prompts too."),
    own(&["--grace"], Seconds, "SEC", Preset::Float(30.0), &ENDING,
        "Seconds that requests under way may go on after --duration or a rule ended the run. What is then not over is \
         not counted."),
    own(&["--stop-on-failures"], Str, "LIMIT", Unset, &ENDING,
        "End the run when more requests than this have failed: a share such as 20%, or a number. What was measured is \
         kept, the result says so, and the exit code is 3."),
    own(&["--stop-on-overload"], Switch, "", Off, &ENDING,
        "End the run when the server does not keep up with the request rate: the backlog grows from third to third of \
         the run. What was measured is kept, what is under way has two seconds (or --grace, if given) to end, the result \
         says so, and the exit code is 3."),
    repeats::FLAGS[0],
    repeats::FLAGS[1],
    repeats::FLAGS[2],
    repeats::FLAGS[3],
    repeats::FLAGS[4],
    points::FLAGS[0],
    points::FLAGS[1],
    points::FLAGS[2],
    points::FLAGS[3],
    points::FLAGS[4],
    own(&["--log"], Str, "DIR", Unset, &LOG,
        "Folder for the log of the run: every request's row, on disk within a second, readable after any end of the \
         run. By default beside the result with --save-result, and in --result-dir for runs longer than a minute."),
    own(&["--no-log"], Switch, "", Off, &LOG, "Keep no log."),
    own(&["--resume"], Str, "DIR", Unset, &LOG,
        "Go on with the run whose log is in this folder: what has been answered is not sent again. Its flags need not \
         be repeated."),
    own(&["--quiet"], Switch, "", Off, &REPORT, "Print the report and nothing else."),
];
