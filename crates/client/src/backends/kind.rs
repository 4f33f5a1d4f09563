//! The protocols by name: one table of what tells them apart before a request is written.

/// What a protocol is for, which decides how its answers are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// A text is generated.
    Generation,
    /// An answer that comes whole: embeddings, scores, classes.
    Pooling,
}

/// The protocols, by the names of `--backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendKind {
    /// `/v1/completions` of vLLM.
    Vllm,
    /// `/v1/completions` of anybody.
    OpenAi,
    /// `/v1/chat/completions`.
    OpenAiChat,
    /// `/v1/responses`.
    OpenAiResponses,
    /// `/v1/audio/transcriptions` and `/v1/audio/translations`.
    OpenAiAudio,
    /// `/v1/embeddings` of texts.
    OpenAiEmbeddings,
    /// `/v1/embeddings` of chat messages.
    OpenAiEmbeddingsChat,
    /// `/v1/embeddings` of a text or an image.
    OpenAiEmbeddingsClip,
    /// `/v1/embeddings` of an image with an instruction.
    OpenAiEmbeddingsVlm2Vec,
    /// `/embeddings` of an Infinity server.
    InfinityEmbeddings,
    /// The same, of a text or an image.
    InfinityEmbeddingsClip,
    /// `/pooling` of vLLM.
    VllmPooling,
    /// `/rerank` of vLLM.
    VllmRerank,
    /// Text Generation Inference.
    Tgi,
    /// Triton with TensorRT-LLM.
    TensorRtLlm,
    /// DeepSpeed-MII's completions, which come whole.
    DeepSpeedMii,
    /// SGLang's completions.
    SgLang,
    /// LMDeploy's completions.
    LmDeploy,
    /// ScaleLLM's completions.
    ScaleLlm,
    /// llama.cpp's completions.
    LlamaCpp,
    /// `/generate` of vLLM's demonstration server.
    VllmGenerate,
}

/// What the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sends {
    /// JSON, announced by the HTTP library.
    Json,
    /// JSON, announced by the backend before the user's headers.
    JsonHeader,
    /// A form with a file.
    Form,
}

/// Who understands the OpenAI sampling fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sampling {
    OpenAi,
    Own,
}

/// One protocol.
struct Row {
    kind: BackendKind,
    name: &'static str,
    /// The URL ends with one of these.
    suffixes: &'static [&'static str],
    endpoint: &'static str,
    task: Task,
    sampling: Sampling,
    sends: Sends,
}

const COMPLETIONS: &[&str] = &["completions"];
const COMPLETIONS_OR_PROFILE: &[&str] = &["completions", "profile"];
const EMBEDDINGS: &[&str] = &["embeddings"];

const fn row(
    kind: BackendKind,
    name: &'static str,
    suffixes: &'static [&'static str],
    endpoint: &'static str,
    task: Task,
    sampling: Sampling,
    sends: Sends,
) -> Row {
    Row { kind, name, suffixes, endpoint, task, sampling, sends }
}

/// In the order of the enum, which is the order of the help text: the registry, then the older names.
#[rustfmt::skip]
static TABLE: [Row; BackendKind::ALL.len()] = {
    use BackendKind::*;
    use Sampling::{OpenAi as Oai, Own};
    use Sends::{Form, Json, JsonHeader};
    use Task::{Generation as Gen, Pooling as Pool};
    [
        row(Vllm, "vllm", COMPLETIONS, "/v1/completions", Gen, Oai, Json),
        row(OpenAi, "openai", COMPLETIONS, "/v1/completions", Gen, Oai, Json),
        row(OpenAiChat, "openai-chat", &["chat/completions"], "/v1/chat/completions", Gen, Oai, JsonHeader),
        row(OpenAiResponses, "openai-responses", &["responses"], "/v1/responses", Gen, Oai, JsonHeader),
        row(OpenAiAudio, "openai-audio", &["transcriptions", "translations"], "/v1/audio/transcriptions", Gen, Own, Form),
        row(OpenAiEmbeddings, "openai-embeddings", EMBEDDINGS, "/v1/embeddings", Pool, Own, JsonHeader),
        row(OpenAiEmbeddingsChat, "openai-embeddings-chat", EMBEDDINGS, "/v1/embeddings", Pool, Own, JsonHeader),
        row(OpenAiEmbeddingsClip, "openai-embeddings-clip", EMBEDDINGS, "/v1/embeddings", Pool, Own, JsonHeader),
        row(OpenAiEmbeddingsVlm2Vec, "openai-embeddings-vlm2vec", EMBEDDINGS, "/v1/embeddings", Pool, Own, JsonHeader),
        row(InfinityEmbeddings, "infinity-embeddings", EMBEDDINGS, "/embeddings", Pool, Own, JsonHeader),
        row(InfinityEmbeddingsClip, "infinity-embeddings-clip", EMBEDDINGS, "/embeddings", Pool, Own, JsonHeader),
        row(VllmPooling, "vllm-pooling", &["pooling"], "/pooling", Pool, Own, JsonHeader),
        row(VllmRerank, "vllm-rerank", &["rerank"], "/rerank", Pool, Own, JsonHeader),
        row(Tgi, "tgi", &["generate_stream"], "/generate_stream", Gen, Own, Json),
        row(TensorRtLlm, "tensorrt-llm", &["generate_stream"], "/v2/models/ensemble/generate_stream", Gen, Own, Json),
        row(DeepSpeedMii, "deepspeed-mii", COMPLETIONS_OR_PROFILE, "/v1/completions", Gen, Own, Json),
        row(SgLang, "sglang", COMPLETIONS_OR_PROFILE, "/v1/completions", Gen, Oai, Json),
        row(LmDeploy, "lmdeploy", COMPLETIONS_OR_PROFILE, "/v1/completions", Gen, Oai, Json),
        row(ScaleLlm, "scalellm", COMPLETIONS_OR_PROFILE, "/v1/completions", Gen, Oai, Json),
        row(LlamaCpp, "llama.cpp", COMPLETIONS_OR_PROFILE, "/v1/completions", Gen, Oai, Json),
        row(VllmGenerate, "vllm-generate", &["generate"], "/generate", Gen, Oai, Json),
    ]
};

impl BackendKind {
    /// All of them, in the order of the help text.
    pub const ALL: [BackendKind; 21] = {
        use BackendKind::*;
        [
            Vllm,
            OpenAi,
            OpenAiChat,
            OpenAiResponses,
            OpenAiAudio,
            OpenAiEmbeddings,
            OpenAiEmbeddingsChat,
            OpenAiEmbeddingsClip,
            OpenAiEmbeddingsVlm2Vec,
            InfinityEmbeddings,
            InfinityEmbeddingsClip,
            VllmPooling,
            VllmRerank,
            Tgi,
            TensorRtLlm,
            DeepSpeedMii,
            SgLang,
            LmDeploy,
            ScaleLlm,
            LlamaCpp,
            VllmGenerate,
        ]
    };

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The backend of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.kind)
    }

    /// The value of `--backend`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What the URL may end with.
    pub fn url_suffixes(self) -> &'static [&'static str] {
        self.row().suffixes
    }

    /// Where the protocol usually lives.
    pub fn default_endpoint(self) -> &'static str {
        self.row().endpoint
    }

    /// What the protocol is for.
    pub fn task(self) -> Task {
        self.row().task
    }

    /// Whether sampling flags and the automatic `ignore_eos` apply.
    pub fn is_openai_compatible(self) -> bool {
        self.row().sampling == Sampling::OpenAi
    }

    /// Whether `vllm bench` 0.32.0 does not know the name: those of its older script, and the demonstration server.
    pub fn is_legacy(self) -> bool {
        self as usize >= BackendKind::Tgi as usize
    }

    /// A completions protocol of the older names: a fixed temperature, and usage in any event.
    pub(super) fn is_legacy_completions(self) -> bool {
        self.is_legacy() && COMPLETIONS_OR_PROFILE == self.url_suffixes() && self != BackendKind::DeepSpeedMii
    }

    /// Whether an API key is sent; these servers know none.
    pub(crate) fn takes_api_key(self) -> bool {
        !matches!(self, BackendKind::Tgi | BackendKind::TensorRtLlm)
    }

    /// A content type the backend sets before the user's headers.
    pub(crate) fn content_type(self) -> Option<&'static str> {
        match self.row().sends {
            Sends::Json => None,
            Sends::JsonHeader => Some("application/json"),
            Sends::Form => Some(super::form::CONTENT_TYPE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (at, kind) in BackendKind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, kind.row().kind), (at, kind));
            assert_eq!(BackendKind::from_name(kind.name()), Some(kind));
            assert!(kind.url_suffixes().iter().any(|suffix| kind.default_endpoint().ends_with(suffix)), "{kind:?}");
        }
    }

    #[test]
    fn the_registry_gates_sampling_flags_by_four_names() {
        let names: Vec<&str> = BackendKind::ALL
            .into_iter()
            .filter(|kind| kind.is_openai_compatible() && !kind.is_legacy())
            .map(BackendKind::name)
            .collect();
        assert_eq!(names, ["vllm", "openai", "openai-chat", "openai-responses"]);
    }
}
