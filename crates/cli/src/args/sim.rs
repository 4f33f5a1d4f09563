//! What was typed after `tacho sim`: the flags of the stand-alone simulator. Where vLLM's server has the same
//! setting, the flag has its name.

use super::error::{ArgError, Refusal};
use super::flag::{Flag, Group, Kind, Preset, Table, own};
use super::grammar::Values;

use Kind::{Choice, Float, Help, Int, OneOrMore, Str, Switch, TriState};
use Preset::Unset;

static SERVER: Group =
    Group { title: "server options", vllm_title: "server options", about: "Where it listens and what it serves." };
static ENGINE: Group = Group {
    title: "engine options",
    vllm_title: "engine options",
    about: "The imitated engine; what is left out comes from the profile.",
};
static CACHE: Group = Group {
    title: "kv cache options",
    vllm_title: "engine options",
    about: "Blocks, what is found again in them, and what comes from other engines.",
};
static FAULTS: Group = Group {
    title: "fault options",
    vllm_title: "fault options",
    about: "Trouble on purpose, as shares of the requests, from 0 to 1.",
};

/// The longest time that is waited for on purpose, seconds.
const LONGEST: f64 = 31_536_000.0;

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho sim",
    about: "Serve the APIs of LLM servers from a simulated engine: no GPU, no weights.",
    examples: &[
        ("tacho sim --port 8000", "then: tacho serve --port 8000"),
        ("tacho sim --error-rate 0.01 --stall-rate 0.05 --stall-seconds 2", "a server that misbehaves now and then"),
    ],
    groups: &[&SERVER, &ENGINE, &CACHE, &FAULTS],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    own(&["-h", "--help"], Help, "TOPIC", Unset, &SERVER, "Show this help. --help=all explains every option."),
    own(&["--host"], Str, "HOST", Preset::Str("127.0.0.1"), &SERVER, "Address to listen on."),
    own(&["--port"], Int, "PORT", Preset::Int(8000), &SERVER, "Port to listen on; 0 takes a free one."),
    own(&["--model"], Str, "NAME", Preset::Str("tacho-sim"), &SERVER, "Model name that it lists and answers to."),
    own(&["--tokenizer"], Str, "NAME", Unset, &SERVER,
        "Tokenizer that turns prompts into tokens and back. A Hub id or a folder; without it the built-in one \
         of GPT-2."),
    own(&["--lora-modules"], OneOrMore, "NAME", Unset, &SERVER,
        "Adapter names that it lists and answers to as well."),
    own(&["--prefill-url"], Str, "URL", Unset, &SERVER,
        "Be a proxy of two engines: the one at this address computes prompts, and --decode-url generates."),
    own(&["--decode-url"], Str, "URL", Unset, &SERVER, "The engine that generates; see --prefill-url."),
    own(&["--start-delay"], Float, "SEC", Preset::Float(0.0), &SERVER,
        "Seconds after the start during which it is not ready."),
    own(&["--profile"], Str, "NAME", Unset, &ENGINE, "Hardware and model whose speed it imitates: a name of tacho help simulator, or a file of tacho fit."),
    own(&["--seed"], Int, "SEED", Preset::Int(0), &ENGINE, "Seed of the generated text."),
    own(&["--data-parallel-size"], Int, "N", Preset::Int(1), &ENGINE,
        "Engines behind the address, each with its own blocks and prefix cache. Requests with the same X-Session-ID go to \
         the same one, others take turns."),
    own(&["--max-num-seqs"], Int, "N", Unset, &ENGINE, "Most requests in one batch."),
    own(&["--max-num-batched-tokens"], Int, "TOKENS", Unset, &ENGINE, "Most tokens in one step."),
    own(&["--block-size"], Int, "TOKENS", Unset, &CACHE, "Tokens per block of the KV cache."),
    own(&["--num-gpu-blocks"], Int, "N", Unset, &CACHE, "Blocks in the KV cache."),
    own(&["--max-model-len"], Int, "TOKENS", Unset, &ENGINE, "Longest prompt and answer together."),
    own(&["--enable-prefix-caching", "--no-enable-prefix-caching"], TriState, "", Unset, &CACHE,
        "Keep the blocks of shared prefixes, or do not."),
    own(&["--scheduling-policy"], Choice(&["fcfs", "priority"]), "POLICY", Preset::Str("fcfs"), &ENGINE,
        "Who is served first. With `priority` the requests with the least `priority` (a body member or the header \
         X-Vllm-Priority), and out of blocks the one with the greatest is put back."),
    own(&["--kv-transfer-config"], Str, "JSON", Unset, &CACHE,
        "As for vLLM. DecodeBenchConnector makes up the KV of prompts, so that decoding alone is measured; any other \
         connector lets prompts be computed by one simulator and fetched by another."),
    own(&["--kv-transfer-delay"], Float, "SEC", Preset::Float(0.002), &CACHE,
        "Seconds that fetching the KV of a prompt takes at least."),
    own(&["--kv-transfer-rate"], Float, "TOKENS", Preset::Float(190_000.0), &CACHE,
        "Tokens per second whose KV is fetched."),
    own(&["--enable-prompt-tokens-details"], Switch, "", Unset, &CACHE,
        "Tell in usage how many tokens of the prompt were cached."),
    own(&["--stream-interval"], Int, "TOKENS", Preset::Int(1), &ENGINE,
        "Tokens per event of a stream. The first token is always told alone, as in vLLM."),
    own(&["--reasoning-tokens"], Int, "TOKENS", Preset::Int(0), &ENGINE,
        "Tokens of reasoning at the beginning of every answer in chat and responses."),
    own(&["--error-rate"], Float, "SHARE", Preset::Float(0.0), &FAULTS, "Requests answered with an HTTP error."),
    own(&["--stream-error-rate"], Float, "SHARE", Preset::Float(0.0), &FAULTS,
        "Requests with an error event inside their stream."),
    own(&["--disconnect-rate"], Float, "SHARE", Preset::Float(0.0), &FAULTS,
        "Requests whose connection is cut in mid-answer."),
    own(&["--truncate-rate"], Float, "SHARE", Preset::Float(0.0), &FAULTS,
        "Requests whose answer ends early. A stream ends without its final event, others in the middle."),
    own(&["--stall-rate"], Float, "SHARE", Preset::Float(0.0), &FAULTS, "Requests whose stream pauses once."),
    own(&["--stall-seconds"], Float, "SEC", Preset::Float(5.0), &FAULTS, "Length of such a pause."),
    own(&["--fault-seed"], Int, "SEED", Preset::Int(0), &FAULTS, "Seed of the choice of requests that suffer."),
];

/// All flags of `tacho sim`.
#[derive(Debug, Clone)]
pub(crate) struct SimArgs {
    pub(crate) host: String,
    pub(crate) port: i64,
    pub(crate) model: String,
    pub(crate) tokenizer: Option<String>,
    pub(crate) lora_modules: Vec<String>,
    pub(crate) prefill_url: Option<String>,
    pub(crate) decode_url: Option<String>,
    /// Seconds.
    pub(crate) start_delay: f64,
    pub(crate) profile: Option<String>,
    pub(crate) seed: i64,
    pub(crate) data_parallel_size: i64,
    pub(crate) max_num_seqs: Option<i64>,
    pub(crate) max_num_batched_tokens: Option<i64>,
    pub(crate) block_size: Option<i64>,
    pub(crate) num_gpu_blocks: Option<i64>,
    pub(crate) max_model_len: Option<i64>,
    pub(crate) enable_prefix_caching: Option<bool>,
    pub(crate) scheduling_policy: String,
    pub(crate) kv_transfer_config: Option<String>,
    /// Seconds.
    pub(crate) kv_transfer_delay: f64,
    pub(crate) kv_transfer_rate: f64,
    pub(crate) enable_prompt_tokens_details: bool,
    pub(crate) stream_interval: i64,
    pub(crate) reasoning_tokens: i64,
    pub(crate) error_rate: f64,
    pub(crate) stream_error_rate: f64,
    pub(crate) disconnect_rate: f64,
    pub(crate) truncate_rate: f64,
    pub(crate) stall_rate: f64,
    /// Seconds.
    pub(crate) stall_seconds: f64,
    pub(crate) fault_seed: i64,
    /// Flags given more than once.
    pub(crate) duplicates: Vec<String>,
}

/// Whether the simulator has a parameter of this name, in either spelling.
pub(crate) fn knows(key: &str) -> bool {
    TABLE.find(&format!("--{}", key.replace('_', "-"))).is_some()
}

impl From<Values> for SimArgs {
    fn from(v: Values) -> Self {
        SimArgs {
            host: v.text("--host"),
            port: v.int("--port"),
            model: v.text("--model"),
            tokenizer: v.maybe_text("--tokenizer"),
            lora_modules: v.list("--lora-modules").unwrap_or_default(),
            prefill_url: v.maybe_text("--prefill-url"),
            decode_url: v.maybe_text("--decode-url"),
            start_delay: v.float("--start-delay"),
            profile: v.maybe_text("--profile"),
            seed: v.int("--seed"),
            max_num_seqs: v.maybe_int("--max-num-seqs"),
            max_num_batched_tokens: v.maybe_int("--max-num-batched-tokens"),
            data_parallel_size: v.int("--data-parallel-size"),
            block_size: v.maybe_int("--block-size"),
            num_gpu_blocks: v.maybe_int("--num-gpu-blocks"),
            max_model_len: v.maybe_int("--max-model-len"),
            enable_prefix_caching: v.tri_state("--enable-prefix-caching"),
            scheduling_policy: v.text("--scheduling-policy"),
            kv_transfer_config: v.maybe_text("--kv-transfer-config"),
            kv_transfer_delay: v.float("--kv-transfer-delay"),
            kv_transfer_rate: v.float("--kv-transfer-rate"),
            enable_prompt_tokens_details: v.switch("--enable-prompt-tokens-details"),
            stream_interval: v.int("--stream-interval"),
            reasoning_tokens: v.int("--reasoning-tokens"),
            error_rate: v.float("--error-rate"),
            stream_error_rate: v.float("--stream-error-rate"),
            disconnect_rate: v.float("--disconnect-rate"),
            truncate_rate: v.float("--truncate-rate"),
            stall_rate: v.float("--stall-rate"),
            stall_seconds: v.float("--stall-seconds"),
            fault_seed: v.int("--fault-seed"),
            duplicates: v.duplicates,
        }
    }
}

impl SimArgs {
    /// Reads and checks the values.
    pub(crate) fn read(v: Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        args.check()?;
        Ok(args)
    }

    /// Refuses values that cannot work.
    fn check(&self) -> Result<(), Refusal> {
        let refuse = |flag, value: String, allowed| Err(Refusal::OutOfRange { flag, value, allowed });
        if !(0..=65535).contains(&self.port) {
            return refuse("--port", self.port.to_string(), "0 to 65535");
        }
        for (flag, seed) in [("--seed", self.seed), ("--fault-seed", self.fault_seed)] {
            if seed < 0 {
                return refuse(flag, seed.to_string(), "0 or more");
            }
        }
        for (flag, count) in self.counts() {
            if count.is_some_and(|count| count < 1) {
                return refuse(flag, count.unwrap_or_default().to_string(), "1 or more");
            }
        }
        for (flag, share) in self.shares() {
            if !(0.0..=1.0).contains(&share) {
                return refuse(flag, share.to_string(), "a share from 0 to 1");
            }
        }
        if !(self.kv_transfer_rate.is_finite() && self.kv_transfer_rate > 0.0) {
            return refuse("--kv-transfer-rate", self.kv_transfer_rate.to_string(), "a number above 0");
        }
        for (flag, seconds) in [
            ("--start-delay", self.start_delay),
            ("--stall-seconds", self.stall_seconds),
            ("--kv-transfer-delay", self.kv_transfer_delay),
        ] {
            if !(0.0..=LONGEST).contains(&seconds) {
                return refuse(flag, seconds.to_string(), "0 seconds to a year of 31536000");
            }
        }
        Ok(())
    }

    fn counts(&self) -> [(&'static str, Option<i64>); 7] {
        [
            ("--max-num-seqs", self.max_num_seqs),
            ("--max-num-batched-tokens", self.max_num_batched_tokens),
            ("--block-size", self.block_size),
            ("--num-gpu-blocks", self.num_gpu_blocks),
            ("--max-model-len", self.max_model_len),
            ("--stream-interval", Some(self.stream_interval)),
            ("--data-parallel-size", Some(self.data_parallel_size)),
        ]
    }

    fn shares(&self) -> [(&'static str, f64); 5] {
        [
            ("--error-rate", self.error_rate),
            ("--stream-error-rate", self.stream_error_rate),
            ("--disconnect-rate", self.disconnect_rate),
            ("--truncate-rate", self.truncate_rate),
            ("--stall-rate", self.stall_rate),
        ]
    }
}
