//! Errors of the offline commands, in vLLM's wording where it exists: scripts match it.

use crate::args::error::Refusal;

/// Values that parse but are invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum OfflineRefusal {
    #[error("--prequeue-requests requires --backend vllm or vllm-chat")]
    PrequeueBackend,
    #[error("--prequeue-requests is not supported with --async-engine")]
    PrequeueAsync,
    #[error("LoRA benchmarking is only supported for vLLM backend")]
    LoraBackend,
    #[error("LoRA path must be provided when enable_lora is True: pass --lora-path")]
    LoraPath,
    #[error("HF max batch size is required for HF backend: pass --hf-max-batch-size")]
    HfBatchMissing,
    #[error("HF max batch size is only for HF backend.")]
    HfBatchUnused,
    #[error("Quantization is only for vLLM backend.")]
    Quantization,
    #[error("dtype must be auto for MII backend.")]
    MiiDtype,
    #[error("n must be 1 for MII backend.")]
    MiiN,
    #[error("Tokenizer must be the same as the model for MII backend.")]
    MiiTokenizer,
    #[error(
        "Data parallel is only supported with external launcher mode with synchronous engine in offline benchmark, \
         please use benchmark serving instead"
    )]
    DataParallel,
    #[error("--backend hf runs on one device: --tensor-parallel-size must be 1")]
    HfTensorParallel,
    #[error("Profiling not implemented yet for backend={backend:?}.")]
    ProfileBackend { backend: &'static str },
    #[error("the simulated engine cannot honour {flag}: remove it, or run a real engine")]
    SimCannot { flag: &'static str },
    #[error("{flag} has no meaning for --backend openai, whose engine is already running: remove it")]
    ServerCannot { flag: &'static str },
    #[error("--backend {backend} cannot honour {flag}, a setting of vLLM's engine: remove it")]
    EngineFlag { backend: &'static str, flag: &'static str },
    #[error(
        "--backend hf loads weights with transformers or makes them up: --load-format must be auto or dummy, not {format}"
    )]
    HfLoadFormat { format: String },
    #[error("--enforce-eager contradicts --hf-enable-torch-compile: remove one of them")]
    EagerCompiled,
    #[error("random-rerank makes lists of texts with nothing to generate: no offline engine can run it")]
    Rerank,
    #[error("{dataset} needs --backend vllm-chat or openai-chat: {backend} does not take chat media")]
    MediaNeedsChat { dataset: String, backend: &'static str },
    #[error("Multi-modal content is not supported on backend {backend:?}; use one of ['vllm', 'vllm-chat'].")]
    NoMedia { backend: String },
    #[error("--dataset-name prefix_repetition needs {flag}")]
    PrefixRepetition { flag: &'static str },
    #[error(
        "--dataset-path is required when using --dataset-name hf. For multimodal benchmarking, specify a dataset like \
         'lmarena-ai/VisionArena-Chat'."
    )]
    HfWithoutPath,
    #[error(
        "{path} is not a supported multimodal dataset. Supported multimodal datasets are: \
         ['lmarena-ai/VisionArena-Chat', 'lmarena-ai/vision-arena-bench-v0.1', 'lmms-lab/LLaVA-OneVision-Data']"
    )]
    NotMultimodal { path: String },
}

impl From<OfflineRefusal> for Refusal {
    fn from(refusal: OfflineRefusal) -> Self {
        Refusal::other(refusal.to_string())
    }
}
