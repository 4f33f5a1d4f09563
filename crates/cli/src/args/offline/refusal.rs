//! What the offline commands refuse, in vLLM's words where it has some: scripts look for them.

/// Values that parse but cannot work.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum OfflineRefusal {
    /// Too few of something to measure; as wrong as a number that is none.
    #[error("{flag} {value} is out of range: use {least} or more")]
    TooFew { flag: &'static str, value: i64, least: i64 },
    /// Queueing first, with an engine that cannot.
    #[error("--prequeue-requests requires --backend vllm or vllm-chat")]
    PrequeueBackend,
    /// Queueing first, with the asynchronous engine.
    #[error("--prequeue-requests is not supported with --async-engine")]
    PrequeueAsync,
    /// Adapters with another engine.
    #[error("LoRA benchmarking is only supported for vLLM backend")]
    LoraBackend,
    /// Adapters without any.
    #[error("LoRA path must be provided when enable_lora is True: pass --lora-path")]
    LoraPath,
    /// hf without its batch size.
    #[error("HF max batch size is required for HF backend: pass --hf-max-batch-size")]
    HfBatchMissing,
    /// A batch size of hf for something else.
    #[error("HF max batch size is only for HF backend.")]
    HfBatchUnused,
    /// Quantisation elsewhere.
    #[error("Quantization is only for vLLM backend.")]
    Quantization,
    /// MII knows one number type.
    #[error("dtype must be auto for MII backend.")]
    MiiDtype,
    /// MII knows one sequence.
    #[error("n must be 1 for MII backend.")]
    MiiN,
    /// MII has the model's tokenizer.
    #[error("Tokenizer must be the same as the model for MII backend.")]
    MiiTokenizer,
    /// Several copies of the model.
    #[error(
        "Data parallel is only supported with external launcher mode with synchronous engine in offline benchmark, \
         please use benchmark serving instead"
    )]
    DataParallel,
    /// hf is not distributed.
    #[error("--backend hf runs on one device: --tensor-parallel-size must be 1")]
    HfTensorParallel,
    /// No profiler there.
    #[error("Profiling not implemented yet for backend={backend:?}.")]
    ProfileBackend { backend: &'static str },
    /// The simulated engine does not do that.
    #[error("the simulated engine cannot honour {flag}: remove it, or run a real engine")]
    SimCannot { flag: &'static str },
    /// A served engine is started by someone else.
    #[error("{flag} has no meaning for --backend openai, whose engine is already running: remove it")]
    ServerCannot { flag: &'static str },
    /// An engine that has no such setting.
    #[error("--backend {backend} cannot honour {flag}, a setting of vLLM's engine: remove it")]
    EngineFlag { backend: &'static str, flag: &'static str },
    /// Weights that transformers does not load so.
    #[error(
        "--backend hf loads weights with transformers or makes them up: --load-format must be auto or dummy, not {format}"
    )]
    HfLoadFormat { format: String },
    /// Eager and compiled at once.
    #[error("--enforce-eager contradicts --hf-enable-torch-compile: remove one of them")]
    EagerCompiled,
    /// Lists of texts, which no generating engine takes.
    #[error("random-rerank makes lists of texts with nothing to generate: no offline engine can run it")]
    Rerank,
    /// Media as a list, which the plain engine does not take.
    #[error("{dataset} needs --backend vllm-chat or openai-chat: {backend} does not take chat media")]
    MediaNeedsChat { dataset: String, backend: &'static str },
    /// Media for an engine without eyes; in vLLM's words.
    #[error("Multi-modal content is not supported on backend {backend:?}; use one of ['vllm', 'vllm-chat'].")]
    NoMedia { backend: String },
    /// The lengths of prefix_repetition have no defaults.
    #[error("--dataset-name prefix_repetition needs {flag}")]
    PrefixRepetition { flag: &'static str },
    /// hf data without a name.
    #[error(
        "--dataset-path is required when using --dataset-name hf. For multimodal benchmarking, specify a dataset like \
         'lmarena-ai/VisionArena-Chat'."
    )]
    HfWithoutPath,
    /// hf data without media.
    #[error(
        "{path} is not a supported multimodal dataset. Supported multimodal datasets are: \
         ['lmarena-ai/VisionArena-Chat', 'lmarena-ai/vision-arena-bench-v0.1', 'lmms-lab/LLaVA-OneVision-Data']"
    )]
    NotMultimodal { path: String },
}
