//! Engine flags of vLLM 0.32.0. tacho passes them on as given, and the engine's parser validates them. The rows serve
//! abbreviations, the argument dump, and the few values that tacho reads.

use tacho_args::flag::{Flag, Group, Kind, Origin, Preset, group, rows, vllm};
use tacho_args::grammar::Setting;
use tacho_args::{UsageError, Values, flags};
use tacho_text::TokenizerMode;

use Kind::{Float, Int, OneOrMore, Str, Switch, TriState};
use Preset::{Json, Off, Unset};

pub(crate) static ENGINE: Group =
    group("engine options", "engine options", "All engine flags of vLLM are passed on; tacho reads these as well.");

pub(crate) static CAPACITY: Group =
    group("engine capacity options", "engine options", "Devices, requests, tokens and blocks.");

/// A flag that only the engine reads.
pub(crate) const fn passed(names: &'static [&'static str], kind: Kind, preset: Preset) -> Flag {
    read(names, kind, preset, "")
}

/// A flag that tacho also reads.
const fn read(names: &'static [&'static str], kind: Kind, preset: Preset, help: &'static str) -> Flag {
    Flag { origin: Origin::Engine, ..vllm(names, kind, "VALUE", preset, &ENGINE, help) }
}

/// Like `read`, for capacity limits of the engine.
const fn capacity(names: &'static [&'static str], kind: Kind, preset: Preset, help: &'static str) -> Flag {
    Flag { group: &CAPACITY, ..read(names, kind, preset, help) }
}

/// Flags of the synchronous engine; the asynchronous one adds `--enable-log-requests`.
pub(crate) const FLAGS: &[Flag] = rows!(READ, REST);

flags! {
    /// Engine selection and settings. Rows without a field are only passed on.
    EngineArgs {
        READ [
            model: String = read(&["--model"], Str, Preset::Str("Qwen/Qwen3-0.6B"), "Model: a directory or a Hub id.");
            - passed(&["--runner"], Str, Preset::Str("auto"));
            - passed(&["--convert"], Str, Preset::Str("auto"));
            /// `None` means the model's tokenizer.
            tokenizer: Option<String> = read(&["--tokenizer"], Str, Unset, "Tokenizer of the prompts (default: the model's).") => named;
            tokenizer_mode: String = read(&["--tokenizer-mode"], Str, Preset::Str("auto"), "How the tokenizer is loaded.");
            trust_remote_code: bool = passed(&["--trust-remote-code", "--no-trust-remote-code"], TriState, Off);
            dtype: String = read(&["--dtype"], Str, Preset::Str("auto"), "Data type of weights and activations.");
            seed: i64 = read(&["--seed"], Int, Preset::Int(0), "Seed of prompts, adapter choice and engine.");
            - passed(&["--hf-config-path"], Str, Unset);
            - passed(&["--allowed-local-media-path"], Str, Preset::Str(""));
            - passed(&["--allowed-media-domains"], OneOrMore, Unset);
            - passed(&["--revision"], Str, Unset);
            - passed(&["--code-revision"], Str, Unset);
            tokenizer_revision: Option<String> = read(&["--tokenizer-revision"], Str, Unset, "Branch, tag or commit of the tokenizer on the Hub.") => named;
            max_model_len: Option<String> = capacity(&["--max-model-len"], Str, Unset, "Maximum tokens of prompt and output.") => named;
            quantization: Option<String> = read(&["--quantization", "-q"], Str, Unset, "Quantization of the weights.") => named;
            - passed(&["--quantization-config"], Str, Unset);
            - passed(&["--allow-deprecated-quantization", "--no-allow-deprecated-quantization"], TriState, Off);
            enforce_eager: bool = passed(&["--enforce-eager", "--no-enforce-eager"], TriState, Off);
            - passed(&["--enable-return-routed-experts", "--no-enable-return-routed-experts"], TriState, Off);
            - passed(&["--return-sampling-mask", "--no-return-sampling-mask"], TriState, Off);
            - passed(&["--max-logprobs"], Int, Preset::Int(20));
            - passed(&["--logprobs-mode"], Str, Preset::Str("raw_logprobs"));
            - passed(&["--use-fp64-gumbel", "--no-use-fp64-gumbel"], TriState, Off);
            - passed(&["--enable-trace-replay", "--no-enable-trace-replay"], TriState, Off);
            - passed(&["--disable-sliding-window", "--no-disable-sliding-window"], TriState, Off);
            - passed(&["--disable-cascade-attn", "--no-disable-cascade-attn"], TriState, Unset);
            - passed(&["--skip-tokenizer-init", "--no-skip-tokenizer-init"], TriState, Off);
            - passed(&["--enable-prompt-embeds", "--no-enable-prompt-embeds"], TriState, Off);
            - passed(&["--served-model-name"], OneOrMore, Unset);
            - passed(&["--config-format"], Str, Preset::Str("auto"));
            - passed(&["--hf-token"], Str, Unset);
            - passed(&["--hf-overrides"], Str, Json("{}"));
            - passed(&["--model-class-overrides"], Str, Json("{}"));
            - passed(&["--pooler-config"], Str, Unset);
            - passed(&["--generation-config"], Str, Preset::Str("auto"));
            - passed(&["--override-generation-config"], Str, Json("{}"));
            - passed(&["--enable-sleep-mode", "--no-enable-sleep-mode"], TriState, Off);
            - passed(&["--sleep-mode-offload-cudagraph", "--no-sleep-mode-offload-cudagraph"], TriState, Off);
            - passed(&["--sleep-preserve-parameter-names"], OneOrMore, Json("[]"));
            - passed(&["--enable-cumem-allocator", "--no-enable-cumem-allocator"], TriState, Off);
            - passed(&["--enable-nccl-comm-suspend", "--no-enable-nccl-comm-suspend"], TriState, Off);
            - passed(&["--model-impl"], Str, Preset::Str("auto"));
            - passed(&["--logits-processors"], OneOrMore, Unset);
            - passed(&["--io-processor-plugin"], Str, Unset);
            - passed(&["--renderer-num-workers"], Int, Preset::Int(1));
            load_format: String = passed(&["--load-format"], Str, Preset::Str("auto"));
            - passed(&["--download-dir"], Str, Unset);
            - passed(&["--safetensors-load-strategy"], Str, Unset);
            - passed(&["--safetensors-prefetch-num-threads"], Int, Preset::Int(8));
            - passed(&["--safetensors-prefetch-block-size"], Str, Preset::Int(16777216));
            - passed(&["--model-loader-extra-config"], Str, Json("{}"));
            - passed(&["--ignore-patterns"], OneOrMore, Json(r#"["original/**/*"]"#));
            - passed(&["--use-tqdm-on-load", "--no-use-tqdm-on-load"], TriState, Json("true"));
            - passed(&["--pt-load-map-location"], Str, Preset::Str("cpu"));
            - passed(&["--attention-backend"], Str, Unset);
            - passed(&["--mamba-backend"], Str, Preset::Str("<MambaBackendEnum is not JSON serializable>"));
            - passed(&["--mamba-ssu-algorithm"], Str, Unset);
            - passed(&["--enable-mamba-cache-stochastic-rounding", "--no-enable-mamba-cache-stochastic-rounding"], TriState, Off);
            - passed(&["--mamba-cache-philox-rounds"], Int, Preset::Int(0));
            - passed(&["--reasoning-parser"], Str, Preset::Str(""));
            - passed(&["--reasoning-parser-plugin"], Str, Preset::Str(""));
            distributed_executor_backend: Option<String> = capacity(&["--distributed-executor-backend"], Str, Unset, "Launcher of the engine's processes.") => named;
            - passed(&["--pipeline-parallel-size", "-pp"], Int, Preset::Int(1));
            - passed(&["--master-addr"], Str, Preset::Str("127.0.0.1"));
            - passed(&["--master-port"], Int, Preset::Int(29501));
            - passed(&["--nnodes", "-n"], Int, Preset::Int(1));
            - passed(&["--node-rank", "-r"], Int, Preset::Int(0));
            - passed(&["--distributed-timeout-seconds"], Str, Unset);
            - passed(&["--cpu-distributed-timeout-seconds"], Str, Unset);
            - passed(&["--numa-bind", "--no-numa-bind"], TriState, Off);
            - passed(&["--numa-bind-nodes"], OneOrMore, Unset);
            - passed(&["--numa-bind-cpus"], OneOrMore, Unset);
            - passed(&["--device-ids"], Str, Unset);
            tensor_parallel_size: i64 = capacity(&["--tensor-parallel-size", "-tp"], Int, Preset::Int(1), "Tensor-parallel size: devices per copy of the model.");
            - passed(&["--decode-context-parallel-size", "-dcp"], Int, Preset::Int(1));
            - passed(&["--dcp-comm-backend"], Str, Unset);
            - passed(&["--dcp-q-replicate", "--no-dcp-q-replicate"], TriState, Unset);
            - passed(&["--dcp-kv-cache-interleave-size"], Int, Preset::Int(1));
            - passed(&["--cp-kv-cache-interleave-size"], Int, Unset);
            - passed(&["--prefill-context-parallel-size", "-pcp"], Int, Preset::Int(1));
            data_parallel_size: i64 = capacity(&["--data-parallel-size", "-dp"], Int, Preset::Int(1), "Data-parallel size: copies of the model. More than one needs --distributed-executor-backend external_launcher.");
            - passed(&["--data-parallel-rank", "-dpn"], Int, Unset);
            - passed(&["--data-parallel-start-rank", "-dpr"], Int, Unset);
            - passed(&["--data-parallel-size-local", "-dpl"], Int, Unset);
            - passed(&["--data-parallel-address", "-dpa"], Str, Unset);
            - passed(&["--data-parallel-rpc-port", "-dpp"], Int, Unset);
            - passed(&["--data-parallel-backend", "-dpb"], Str, Preset::Str("mp"));
            - passed(&["--data-parallel-hybrid-lb", "--no-data-parallel-hybrid-lb", "-dph"], TriState, Off);
            - passed(&["--data-parallel-external-lb", "--no-data-parallel-external-lb", "-dpe"], TriState, Off);
            - passed(&["--data-parallel-multi-port-external-lb", "-dpm"], Switch, Off);
            - passed(&["--enable-hc-sp", "--no-enable-hc-sp"], TriState, Off);
            - passed(&["--enable-expert-parallel", "--no-enable-expert-parallel", "-ep"], TriState, Off);
            - passed(&["--enable-batch-sharded-sampling", "--no-enable-batch-sharded-sampling"], TriState, Unset);
            - passed(&["--enable-ep-weight-filter", "--no-enable-ep-weight-filter"], TriState, Off);
            - passed(&["--all2all-backend"], Str, Preset::Str("allgather_reducescatter"));
            - passed(&["--enable-dbo", "--no-enable-dbo"], TriState, Off);
            - passed(&["--enable-shm-tensor-arena", "--no-enable-shm-tensor-arena"], TriState, Off);
            - passed(&["--ubatch-size"], Int, Preset::Int(0));
            - passed(&["--enable-elastic-ep", "--no-enable-elastic-ep"], TriState, Off);
            - passed(&["--elastic-ep-max-dp-size"], Int, Unset);
            - passed(&["--dbo-decode-token-threshold"], Int, Preset::Int(32));
            - passed(&["--dp-sync-interval"], Int, Preset::Int(16));
            - passed(&["--dbo-prefill-token-threshold"], Int, Preset::Int(512));
            - passed(&["--disable-nccl-for-dp-synchronization", "--no-disable-nccl-for-dp-synchronization"], TriState, Unset);
            - passed(&["--enable-eplb", "--no-enable-eplb"], TriState, Off);
            - passed(&["--eplb-config"], Str, Preset::Str("<EPLBConfig is not JSON serializable>"));
            - passed(&["--expert-placement-strategy"], Str, Preset::Str("linear"));
            - passed(&["--max-parallel-loading-workers"], Str, Unset);
            - passed(&["--ray-workers-use-nsight", "--no-ray-workers-use-nsight"], TriState, Off);
            - passed(&["--disable-custom-all-reduce", "--no-disable-custom-all-reduce"], TriState, Off);
            - passed(&["--worker-cls"], Str, Preset::Str("auto"));
            - passed(&["--worker-extension-cls"], Str, Preset::Str(""));
            - passed(&["--enable-fault-tolerance", "--no-enable-fault-tolerance"], TriState, Off);
            - passed(&["--fault-tolerance-config"], Str, Preset::Str("<FaultToleranceConfig is not JSON serializable>"));
            block_size: Option<i64> = capacity(&["--block-size"], Int, Unset, "Tokens per KV block.");
            - passed(&["--gpu-memory-utilization", "--device-memory-utilization"], Float, Preset::Float(0.92));
            - passed(&["--kv-cache-memory-bytes"], Str, Unset);
            - passed(&["--kv-cache-dtype"], Str, Preset::Str("auto"));
            num_gpu_blocks: Option<String> = capacity(&["--num-gpu-blocks-override"], Str, Unset, "Number of KV blocks.") => named;
            enable_prefix_caching: Option<bool> = capacity(&["--enable-prefix-caching", "--no-enable-prefix-caching"], TriState, Unset, "Enable or disable prefix caching.");
            - passed(&["--prefix-caching-hash-algo"], Str, Preset::Str("sha256"));
            - passed(&["--prefix-cache-retention-interval"], Str, Preset::Int(0));
            - passed(&["--kv-cache-dtype-skip-layers"], OneOrMore, Json("[]"));
            - passed(&["--kv-sharing-fast-prefill", "--no-kv-sharing-fast-prefill"], TriState, Off);
            - passed(&["--swa-bounded-replay", "--no-swa-bounded-replay"], TriState, Json("true"));
            - passed(&["--mamba-cache-dtype"], Str, Preset::Str("auto"));
            - passed(&["--mamba-ssm-cache-dtype"], Str, Preset::Str("auto"));
            - passed(&["--mamba-block-size"], Str, Unset);
            - passed(&["--prefix-match-unit"], Str, Unset);
            - passed(&["--mamba-cache-mode"], Str, Preset::Str("none"));
            - passed(&["--enable-mamba-shared-prefix-checkpoint", "--no-enable-mamba-shared-prefix-checkpoint"], TriState, Off);
            - passed(&["--replayssm-buffer-len"], Int, Preset::Int(16));
            - passed(&["--use-replayssm", "--no-use-replayssm"], TriState, Off);
            - passed(&["--kv-offloading-size"], Str, Unset);
            - passed(&["--kv-offloading-backend"], Str, Preset::Str("native"));
            - passed(&["--offload-backend"], Str, Preset::Str("auto"));
            - passed(&["--cpu-offload-gb"], Float, Preset::Int(0));
            - passed(&["--cpu-offload-params"], OneOrMore, Preset::Str("<set is not JSON serializable>"));
            - passed(&["--offload-group-size"], Int, Preset::Int(0));
            - passed(&["--offload-num-in-group"], Int, Preset::Int(1));
            - passed(&["--offload-prefetch-step"], Int, Preset::Int(1));
            - passed(&["--offload-params"], OneOrMore, Preset::Str("<set is not JSON serializable>"));
            - passed(&["--language-model-only", "--no-language-model-only"], TriState, Off);
            - passed(&["--limit-mm-per-prompt"], Str, Json("{}"));
            - passed(&["--enable-mm-embeds", "--no-enable-mm-embeds"], TriState, Off);
            - passed(&["--media-io-kwargs"], Str, Json("{}"));
            - passed(&["--mm-processor-kwargs"], Str, Unset);
            - passed(&["--mm-processor-cache-gb"], Float, Preset::Int(4));
            - passed(&["--mm-processor-cache-type"], Str, Preset::Str("lru"));
            - passed(&["--mm-hasher-algorithm"], Str, Preset::Str("blake3"));
            - passed(&["--mm-shm-cache-max-object-size-mb"], Int, Preset::Int(128));
            - passed(&["--mm-encoder-only", "--no-mm-encoder-only"], TriState, Off);
            - passed(&["--mm-encoder-tp-mode"], Str, Preset::Str("weights"));
            - passed(&["--mm-encoder-attn-backend"], Str, Unset);
            - passed(&["--mm-encoder-attn-dtype"], Str, Unset);
            - passed(&["--mm-encoder-fp8-scale-path"], Str, Unset);
            - passed(&["--mm-encoder-fp8-scale-save-path"], Str, Unset);
            - passed(&["--mm-encoder-fp8-scale-save-margin"], Float, Preset::Float(1.5));
            - passed(&["--interleave-mm-strings", "--no-interleave-mm-strings"], TriState, Off);
            - passed(&["--skip-mm-profiling", "--no-skip-mm-profiling"], TriState, Off);
            - passed(&["--video-pruning-rate"], Str, Unset);
            - passed(&["--video-pruning-method"], Str, Preset::Str("evs"));
            - passed(&["--mm-tensor-ipc"], Str, Preset::Str("direct_rpc"));
            - passed(&["--mm-processor-device"], Str, Preset::Str("auto"));
            - passed(&["--mm-ipc-gpu-memory-gb"], Float, Preset::Int(0));
            - passed(&["--mm-device-do-normalize", "--no-mm-device-do-normalize"], TriState, Unset);
            enable_lora: bool = capacity(&["--enable-lora", "--no-enable-lora"], TriState, Unset, "Run with LoRA adapters. Needs --lora-path.");
            max_loras: i64 = capacity(&["--max-loras"], Int, Preset::Int(1), "Maximum adapters per batch.");
            - passed(&["--max-lora-rank"], Int, Preset::Int(16));
            - passed(&["--lora-dtype"], Str, Preset::Str("auto"));
            - passed(&["--enable-tower-connector-lora", "--no-enable-tower-connector-lora"], TriState, Off);
            - passed(&["--max-cpu-loras"], Str, Unset);
            - passed(&["--fully-sharded-loras", "--no-fully-sharded-loras"], TriState, Off);
            - passed(&["--lora-target-modules"], OneOrMore, Unset);
            - passed(&["--default-mm-loras"], Str, Unset);
            - passed(&["--specialize-active-lora", "--no-specialize-active-lora"], TriState, Off);
            - passed(&["--enable-mixed-moe-lora-format", "--no-enable-mixed-moe-lora-format"], TriState, Off);
            - passed(&["--enable-moe-shared-loras", "--no-enable-moe-shared-loras"], TriState, Off);
            - passed(&["--max-lora-cls-labels"], Str, Unset);
            - passed(&["--logging-config"], Str, Preset::Str("<LoggingConfig is not JSON serializable>"));
            - passed(&["--log-level"], Str, Unset);
            - passed(&["--log-config-file"], Str, Unset);
            - passed(&["--show-hidden-metrics-for-version"], Str, Unset);
            - passed(&["--otlp-traces-endpoint"], Str, Unset);
            - passed(&["--collect-detailed-traces"], OneOrMore, Unset);
            - passed(&["--per-request-spec-decode-metrics"], Str, Preset::Str("none"));
            - passed(&["--kv-cache-metrics", "--no-kv-cache-metrics"], TriState, Off);
            - passed(&["--kv-cache-metrics-sample"], Float, Preset::Float(0.01));
            - passed(&["--custom-histogram-buckets"], Str, Unset);
            - passed(&["--cudagraph-metrics", "--no-cudagraph-metrics"], TriState, Off);
            - passed(&["--enable-layerwise-nvtx-tracing", "--no-enable-layerwise-nvtx-tracing"], TriState, Off);
            - passed(&["--enable-mfu-metrics", "--no-enable-mfu-metrics"], TriState, Off);
            - passed(&["--enable-logging-iteration-details", "--no-enable-logging-iteration-details"], TriState, Off);
            - passed(&["--jit-monitor-mode"], Str, Preset::Str("warn"));
            - passed(&["--jit-monitor-verbose", "--no-jit-monitor-verbose"], TriState, Off);
            max_num_batched_tokens: Option<String> = capacity(&["--max-num-batched-tokens"], Str, Unset, "Maximum tokens in an engine step.") => named;
            - passed(&["--max-num-scheduled-tokens"], Str, Unset);
            max_num_seqs: Option<i64> = capacity(&["--max-num-seqs"], Int, Unset, "Maximum requests in a batch.");
            - passed(&["--max-num-active-seqs"], Str, Unset);
            - passed(&["--max-num-queued-reqs"], Str, Unset);
            - passed(&["--max-num-queued-tokens"], Str, Unset);
            - passed(&["--long-prefill-token-threshold"], Int, Preset::Int(0));
            - passed(&["--long-prefill-token-threshold-adaptive", "--no-long-prefill-token-threshold-adaptive"], TriState, Off);
            - passed(&["--scheduling-policy"], Str, Preset::Str("fcfs"));
            - passed(&["--enable-chunked-prefill", "--no-enable-chunked-prefill"], TriState, Unset);
            - passed(&["--disable-chunked-mm-input", "--no-disable-chunked-mm-input"], TriState, Off);
            - passed(&["--scheduler-cls"], Str, Unset);
            - passed(&["--scheduler-reserve-full-isl", "--no-scheduler-reserve-full-isl"], TriState, Json("true"));
            - passed(&["--watermark"], Float, Preset::Float(0.0));
            - passed(&["--prefill-schedule-interval"], Int, Preset::Int(1));
            - passed(&["--disable-hybrid-kv-cache-manager", "--no-disable-hybrid-kv-cache-manager"], TriState, Unset);
            - passed(&["--async-scheduling", "--no-async-scheduling"], TriState, Unset);
            - passed(&["--stream-interval"], Int, Preset::Int(1));
            - passed(&["--cudagraph-capture-sizes"], OneOrMore, Unset);
            - passed(&["--max-cudagraph-capture-size"], Int, Unset);
            - passed(&["--ir-op-priority"], Str, Preset::Str("<IrOpPriorityConfig is not JSON serializable>"));
            - passed(&["--enable-flashinfer-autotune", "--no-enable-flashinfer-autotune"], TriState, Unset);
            - passed(&["--moe-backend"], Str, Preset::Str("auto"));
            - passed(&["--linear-backend"], Str, Preset::Str("auto"));
            - passed(&["--sparse-indexer-topk-backend"], Str, Preset::Str("auto"));
            - passed(&["--speculative-config", "-sc"], Str, Unset);
            - passed(&["--spec-method"], Str, Unset);
            - passed(&["--spec-model"], Str, Unset);
            - passed(&["--spec-tokens"], Int, Unset);
            - passed(&["--watermark-config"], Str, Unset);
            - passed(&["--diffusion-config", "-dc"], Str, Unset);
            kv_transfer_config: Option<String> = read(&["--kv-transfer-config"], Str, Unset, "KV connector of the engine, as JSON.") => named;
        ]
        ..typed: EngineWords;
    }
}

/// The rows after the last one that tacho reads.
#[rustfmt::skip]
const REST: &[Flag] = &[
    passed(&["--kv-events-config"], Str, Unset),
    passed(&["--ec-transfer-config"], Str, Unset),
    passed(&["--ec-manager-config"], Str, Preset::Str("<EncoderCacheManagerConfig is not JSON serializable>")),
    passed(&["--compilation-config", "-cc"], Str, Preset::Str("<CompilationConfig is not JSON serializable>")),
    passed(&["--attention-config", "-ac"], Str, Preset::Str("<AttentionConfig is not JSON serializable>")),
    passed(&["--engram-config"], Str, Unset),
    passed(&["--reasoning-config"], Str, Unset),
    passed(&["--kernel-config"], Str, Preset::Str("<KernelConfig is not JSON serializable>")),
    passed(&["--additional-config"], Str, Json("{}")),
    passed(&["--structured-outputs-config"], Str, Preset::Str("<StructuredOutputsConfig is not JSON serializable>")),
    passed(&["--aux-output-config"], Str, Preset::Str("<AuxOutputConfig is not JSON serializable>")),
    read(&["--profiler-config"], Str, Preset::Str("<ProfilerConfig is not JSON serializable>"),
        "Profiler of --profile, as JSON."),
    passed(&["--optimization-level"], Str, Preset::Int(2)),
    passed(&["--performance-mode"], Str, Preset::Str("balanced")),
    passed(&["--weight-transfer-config"], Str, Unset),
    passed(&["--disable-log-stats"], Switch, Off),
    passed(&["--aggregate-engine-logging"], Switch, Off),
    passed(&["--fail-on-environ-validation", "--no-fail-on-environ-validation"], TriState, Off),
    passed(&["--shutdown-timeout"], Int, Preset::Int(0)),
    passed(&["--gdn-prefill-backend"], Str, Unset),
    passed(&["--kda-prefill-backend"], Str, Unset),
    passed(&["--kda-decode-backend"], Str, Unset),
];

/// Returns the text unless it is empty or `None`.
fn named(setting: Setting<'_>) -> Option<String> {
    setting.value.as_str().filter(|text| !text.is_empty() && *text != "None").map(str::to_owned)
}

#[derive(Debug, Clone)]
pub(crate) struct EngineWords {
    /// The given engine flags, by their first names.
    pub(crate) given: Vec<&'static str>,
    pub(crate) words: Vec<String>,
    /// Engine arguments that are in no table.
    pub(crate) unknown: Vec<String>,
    pub(crate) duplicates: Vec<String>,
}

impl From<&Values> for EngineWords {
    fn from(v: &Values) -> Self {
        EngineWords {
            given: v.given().filter(|flag| flag.origin == Origin::Engine).map(|flag| flag.names[0]).collect(),
            words: v.engine_words.clone(),
            unknown: v.unknown.clone(),
            duplicates: v.duplicates.clone(),
        }
    }
}

impl EngineArgs {
    /// Without an engine's own parser, a flag that is in no table is an error.
    pub(crate) fn refuse_unknown(&self) -> Result<(), UsageError> {
        // `-O3` and similar set the compilation level, which the simulated engine ignores.
        let level =
            |word: &&String| word.strip_prefix("-O").is_some_and(|level| level.parse::<u8>().is_ok_and(|n| n <= 3));
        let tokens: Vec<String> = self.typed.unknown.iter().filter(|word| !level(word)).cloned().collect();
        if tokens.is_empty() { Ok(()) } else { Err(UsageError::Unrecognized { tokens }) }
    }

    pub(crate) fn mode(&self) -> TokenizerMode {
        TokenizerMode::parse(&self.tokenizer_mode).unwrap_or_default()
    }

    /// The tokenizer's name; defaults to the model.
    pub(crate) fn tokenizer_name(&self) -> &str {
        self.tokenizer.as_deref().unwrap_or(&self.model)
    }
}
