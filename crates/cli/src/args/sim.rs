//! Flags of `tacho sim`, the stand-alone simulator. Settings that vLLM's server also has keep their names.

use std::time::Duration;
use tacho_args::declare::*;
use tacho_engine::Policy;

static SERVER: Group = group("server options", "server options", "Address, model and role.");
static ENGINE: Group =
    group("engine options", "engine options", "Simulated engine; unset values come from the profile.")
        .first(&["--profile"]);
static CACHE: Group = group("kv cache options", "engine options", "KV-cache blocks, prefix caching and KV transfer.");
static MEDIA: Group = group(
    "media options",
    "engine options",
    "Speech and images. They have no queue: every request takes as long as if it were alone.",
);
static FAULTS: Group =
    group("fault options", "fault options", "Fault injection, as fractions of the requests from 0 to 1.");

pub(crate) static TABLE: Table = Table {
    command: "tacho sim",
    about: "Run a simulated LLM server: OpenAI-compatible, no GPU, no weights.",
    examples: &[
        ("tacho sim --port 8000", "then: tacho serve --port 8000"),
        ("tacho sim --error-rate 0.01 --stall-rate 0.05 --stall-seconds 2", "a server with occasional faults"),
    ],
    basics: "\
        --host --port --model --profile --max-num-seqs --max-num-batched-tokens --max-model-len --num-gpu-blocks \
        --enable-prefix-caching --data-parallel-size --seed --error-rate --stall-rate",
    groups: &[&SERVER, &ENGINE, &CACHE, &MEDIA, &FAULTS],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    SimArgs {
        FLAGS [
            host: String = tacho(&["--host"], Str, "HOST", DefaultValue::Str("127.0.0.1"), &SERVER, "Address to listen on.");
            port: i64 = tacho(&["--port"], Int, "PORT", DefaultValue::Int(8000), &SERVER, "Port to listen on; 0 is any free one.")
                .between(0.0, 65535.0);
            model: String = tacho(&["--model"], Str, "NAME", DefaultValue::Str("tacho-sim"), &SERVER, "Name of the served model.");
            tokenizer: Option<String> = tacho(&["--tokenizer"], Str, "NAME", Unset, &SERVER,
                "Tokenizer: a Hub id or a directory (default: a built-in GPT-2).");
            lora_modules: Vec<String> = tacho(&["--lora-modules"], OneOrMore, "NAME", Unset, &SERVER,
                "Names of LoRA adapters to serve as well.");
            prefill_url: Option<String> = tacho(&["--prefill-url"], Str, "URL", Unset, &SERVER,
                "Act as a proxy for disaggregated prefill: this engine computes prompts, --decode-url generates.");
            decode_url: Option<String> = tacho(&["--decode-url"], Str, "URL", Unset, &SERVER,
                "Decode engine of the proxy; see --prefill-url.");
            start_delay: Duration = tacho(&["--start-delay"], Seconds, "SEC", DefaultValue::Float(0.0), &SERVER,
                "Seconds after the start until the server is ready.");
            profile: Option<String> = tacho(&["--profile"], Str, "NAME", Unset, &ENGINE,
                "Speed of the engine: a name of tacho help simulator, or a file of tacho fit.");
            seed: i64 = tacho(&["--seed"], Int, "SEED", DefaultValue::Int(0), &ENGINE, "Seed of the generated text.").at_least(0);
            data_parallel_size: i64 = tacho(&["--data-parallel-size"], Int, "N", DefaultValue::Int(1), &ENGINE,
                "Number of engines, each with its own KV cache. Requests with the same X-Session-ID go to the same one, others \
                 round-robin.").at_least(1);
            max_num_seqs: Option<i64> = tacho(&["--max-num-seqs"], Int, "N", Unset, &ENGINE, "Maximum requests in a batch.")
                .at_least(1);
            max_num_batched_tokens: Option<i64> = tacho(&["--max-num-batched-tokens"], Int, "TOKENS", Unset, &ENGINE,
                "Maximum tokens in an engine step.").at_least(1);
            block_size: Option<i64> = tacho(&["--block-size"], Int, "TOKENS", Unset, &CACHE, "Tokens per KV-cache block.").at_least(1);
            num_gpu_blocks: Option<i64> = tacho(&["--num-gpu-blocks"], Int, "N", Unset, &CACHE, "Number of KV-cache blocks.").at_least(1);
            max_model_len: Option<i64> = tacho(&["--max-model-len"], Int, "TOKENS", Unset, &ENGINE,
                "Maximum tokens of prompt and output.").at_least(1);
            enable_prefix_caching: Option<bool> = tacho(&["--enable-prefix-caching", "--no-enable-prefix-caching"], TriState, "",
                Unset, &CACHE, "Enable or disable prefix caching.");
            scheduling_policy: Policy = tacho(&["--scheduling-policy"], Choice(&Policy::NAMES), "POLICY",
                DefaultValue::Str("fcfs"), &ENGINE,
                "Scheduling policy. `priority` runs the lowest `priority` (request field or X-Vllm-Priority header) first and \
                 preempts the highest.") => named;
            kv_transfer_config: Option<String> = tacho(&["--kv-transfer-config"], Str, "JSON", Unset, &CACHE,
                "KV connector, as in vLLM. DecodeBenchConnector fills the KV cache of prompts, to measure decoding alone; any other \
                 lets one simulator fetch prompts that another computed.");
            kv_transfer_delay: Duration = tacho(&["--kv-transfer-delay"], Seconds, "SEC", DefaultValue::Float(0.002), &CACHE,
                "Minimum seconds of a KV transfer.");
            kv_transfer_rate: f64 = tacho(&["--kv-transfer-rate"], Float, "TOKENS", DefaultValue::Float(190_000.0), &CACHE,
                "KV transfer rate in tokens per second.").above(0.0, f64::MAX);
            enable_prompt_tokens_details: bool = switch(&["--enable-prompt-tokens-details"], &CACHE,
                "Report cached prompt tokens in usage.");
            enable_per_request_metrics: bool = switch(&["--enable-per-request-metrics"], &ENGINE,
                "Report queue, prefill and decode times in each response, as vLLM does.");
            stream_interval: i64 = tacho(&["--stream-interval"], Int, "TOKENS", DefaultValue::Int(1), &ENGINE,
                "Tokens per stream event. The first token is always sent alone, as in vLLM.").at_least(1);
            reasoning_tokens: i64 = tacho(&["--reasoning-tokens"], Int, "TOKENS", DefaultValue::Int(0), &ENGINE,
                "Reasoning tokens at the start of every chat and responses output.");
            speech_seconds_per_token: f64 = tacho(&["--speech-seconds-per-token"], Float, "SEC", DefaultValue::Float(0.2), &MEDIA,
                "Seconds of generated speech per input token.").positive();
            speech_rtf: f64 = tacho(&["--speech-rtf"], Float, "RATIO", DefaultValue::Float(0.25), &MEDIA,
                "Real-time factor: seconds that a second of speech takes.").between(0.0, 1000.0);
            speech_chunk: Duration = tacho(&["--speech-chunk"], Seconds, "SEC", DefaultValue::Float(0.2), &MEDIA,
                "Seconds of speech per chunk of the response.").positive();
            image_step: Duration = tacho(&["--image-step"], Seconds, "SEC", DefaultValue::Float(0.01), &MEDIA,
                "Seconds per denoising step of an image. A request has 20 steps unless its num_inference_steps says otherwise.");
            word_seconds: Duration = tacho(&["--word-seconds"], Seconds, "SEC", DefaultValue::Float(0.4), &MEDIA,
                "Seconds of audio per word that /v1/realtime transcribes.").positive();
            word_delay: Duration = tacho(&["--word-delay"], Seconds, "SEC", DefaultValue::Float(0.1), &MEDIA,
                "Seconds from the audio of a word to its text, and from the end of the audio to the end of the transcript.");
            error_rate: f64 = tacho(&["--error-rate"], Float, "FRACTION", DefaultValue::Float(0.0), &FAULTS,
                "Requests that get an HTTP error.").between(0.0, 1.0);
            stream_error_rate: f64 = tacho(&["--stream-error-rate"], Float, "FRACTION", DefaultValue::Float(0.0), &FAULTS,
                "Requests with an error event in their stream.").between(0.0, 1.0);
            disconnect_rate: f64 = tacho(&["--disconnect-rate"], Float, "FRACTION", DefaultValue::Float(0.0), &FAULTS,
                "Requests whose connection is closed during the response.").between(0.0, 1.0);
            truncate_rate: f64 = tacho(&["--truncate-rate"], Float, "FRACTION", DefaultValue::Float(0.0), &FAULTS,
                "Requests whose response is truncated. A stream ends without its final event.").between(0.0, 1.0);
            stall_rate: f64 = tacho(&["--stall-rate"], Float, "FRACTION", DefaultValue::Float(0.0), &FAULTS,
                "Requests whose stream stalls once.").between(0.0, 1.0);
            stall_seconds: Duration = tacho(&["--stall-seconds"], Seconds, "SEC", DefaultValue::Float(5.0), &FAULTS, "Duration of a stall.");
            fault: Vec<String> = tacho(&["--fault"], Repeated, "KIND:RATE[@N]", Unset, &FAULTS,
                "Wrong outputs: a kind, the fraction of its requests, and, after @, the number of requests in service above which it \
                 occurs. swap: another request's output; adapter: another adapter's; stale: of a prefix-cache hit, another prompt's; \
                 cut: ends early; flip: other tokens from a random position on; noise: the same for some prompts, always.");
            fault_seed: i64 = tacho(&["--fault-seed"], Int, "SEED", DefaultValue::Int(0), &FAULTS,
                "Seed of the choice of affected requests.").at_least(0);
        ]
        ..values: Values;
    }
}

/// Whether the simulator has a parameter of this name, with dashes or underscores.
pub(crate) fn knows(key: &str) -> bool {
    TABLE.find(&format!("--{}", key.replace('_', "-"))).is_some()
}
