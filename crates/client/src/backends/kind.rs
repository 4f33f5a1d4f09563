//! The protocols, as a table with one row for each.

use tacho_core::{Request, Task, json::Dict, live::Output};

use super::format::{Origin, ResponseFormat, Sequences};
use super::{
    PayloadSpec, audio, chat, chat::MediaPlace::AfterText, completions, declared::Declared, embeddings, form, images,
    messages, realtime, responses, speech, tgi, trt_llm,
};

/// Builds the members of a body, before those that all backends share.
type Body = fn(&PayloadSpec, &Request) -> Result<Dict, &'static str>;

pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) suffixes: &'static [&'static str],
    pub(super) endpoint: &'static str,
    pub(super) task: Task,
    pub(super) origin: Origin,
    pub(super) body: Body,
    pub(super) format: ResponseFormat,
    pub(super) sequences: Sequences,
    /// Whether it supports the OpenAI sampling parameters.
    pub(super) samples: bool,
    /// Whether the body has `ignore_eos`; some servers name it differently or lack it.
    pub(super) takes_ignore_eos: bool,
    /// Whether `--extra-body` and the request's overrides are added.
    pub(super) takes_extras: bool,
    pub(super) sends_messages: bool,
    pub(super) sends_media: bool,
    /// The header of the request ID, if it is sent.
    pub(super) id: Option<&'static str>,
    /// Headers that contain the API key, and what precedes it there.
    pub(super) keys: &'static [(&'static str, &'static str)],
    /// Headers set before the user's.
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) method: &'static str,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Row {
    pub(super) const BASE: Row = COMPLETIONS;
}

const BEARER: (&str, &str) = ("Authorization", "Bearer ");

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];

const COMPLETIONS: Row = Row {
    name: "",
    suffixes: &["completions"],
    endpoint: "/v1/completions",
    task: Task::Generation,
    origin: Origin::Registry,
    body: completions::body,
    format: ResponseFormat::Completions,
    sequences: Sequences::One,
    samples: true,
    takes_ignore_eos: true,
    takes_extras: true,
    sends_messages: false,
    sends_media: false,
    id: Some("x-request-id"),
    keys: &[BEARER],
    headers: &[],
    method: "POST",
};

const EMBEDDINGS: Row = Row {
    suffixes: &["embeddings"],
    endpoint: "/v1/embeddings",
    task: Task::Pooling,
    format: ResponseFormat::Whole,
    samples: false,
    headers: JSON,
    ..COMPLETIONS
};

const LEGACY: Row = Row {
    suffixes: &["completions", "profile"],
    origin: Origin::Legacy,
    body: completions::legacy_body,
    ..COMPLETIONS
};

/// Servers without API keys and OpenAI fields.
const FOREIGN: Row = Row { samples: false, takes_ignore_eos: false, keys: &[], ..LEGACY };

const SPEECH: Row = Row {
    suffixes: &["audio/speech"],
    endpoint: "/v1/audio/speech",
    task: Task::Media,
    origin: Origin::Tacho,
    body: speech::body,
    format: ResponseFormat::Speech,
    samples: false,
    takes_ignore_eos: false,
    headers: JSON,
    ..COMPLETIONS
};

/// The list of all protocols, from which the enum, the table and the order of the help text are generated.
macro_rules! backends {
    ($($(#[doc = $doc:literal])* $kind:ident: $row:expr,)*) => {
        /// The protocols, named as in `--backend`, or described in a file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum BackendKind {
            $($(#[doc = $doc])* $kind,)*
            Declared(&'static Declared),
        }

        impl BackendKind {
            /// All built-in backends, in the order of the help text.
            pub const ALL: [BackendKind; [$(stringify!($kind)),*].len()] = [$(BackendKind::$kind,)*];
            pub const NAMES: [&'static str; BackendKind::ALL.len()] = [$({ const ROW: Row = $row; ROW.name },)*];

            pub(super) fn row(self) -> &'static Row {
                match self {
                    $(BackendKind::$kind => { static ROW: Row = $row; &ROW })*
                    BackendKind::Declared(declared) => &declared.row,
                }
            }
        }
    };
}

backends! {
    /// `/v1/completions` of vLLM.
    Vllm: Row { name: "vllm", ..COMPLETIONS },
    /// `/v1/completions` of any server.
    OpenAi: Row { name: "openai", ..COMPLETIONS },
    OpenAiChat: Row {
        name: "openai-chat",
        suffixes: &["chat/completions"],
        endpoint: "/v1/chat/completions",
        body: chat::body,
        format: ResponseFormat::Chat,
        sends_messages: true,
        sends_media: true,
        headers: JSON,
        ..COMPLETIONS
    },
    OpenAiResponses: Row {
        name: "openai-responses",
        suffixes: &["responses"],
        endpoint: "/v1/responses",
        body: responses::body,
        format: ResponseFormat::Responses,
        sends_messages: true,
        headers: JSON,
        ..COMPLETIONS
    },
    OpenAiAudio: Row {
        name: "openai-audio",
        suffixes: &["transcriptions", "translations"],
        endpoint: "/v1/audio/transcriptions",
        body: audio::fields,
        format: ResponseFormat::Audio,
        sends_media: true,
        samples: false,
        headers: &[("Content-Type", form::CONTENT_TYPE)],
        ..COMPLETIONS
    },
    OpenAiEmbeddings: Row {
        name: "openai-embeddings",
        body: embeddings::body,
        sequences: Sequences::Prompt,
        ..EMBEDDINGS
    },
    OpenAiEmbeddingsChat: Row {
        name: "openai-embeddings-chat",
        body: |payload, request| embeddings::message_body(payload, request, request.content.to_json(), AfterText),
        ..EMBEDDINGS
    },
    OpenAiEmbeddingsClip: Row {
        name: "openai-embeddings-clip",
        body: |payload, request| embeddings::message_body(payload, request, embeddings::prompt_or_media(request), AfterText),
        ..EMBEDDINGS
    },
    OpenAiEmbeddingsVlm2Vec: Row { name: "openai-embeddings-vlm2vec", body: embeddings::vlm2vec_body, ..EMBEDDINGS },
    InfinityEmbeddings: Row {
        name: "infinity-embeddings",
        endpoint: "/embeddings",
        body: |payload, request| embeddings::infinity_body(payload, request, request.content.to_json()),
        sequences: Sequences::Prompt,
        ..EMBEDDINGS
    },
    /// `/embeddings` of an Infinity server, for a text or an image.
    InfinityEmbeddingsClip: Row {
        name: "infinity-embeddings-clip",
        endpoint: "/embeddings",
        body: |payload, request| embeddings::infinity_body(payload, request, embeddings::prompt_or_media(request)),
        sequences: Sequences::Prompt,
        ..EMBEDDINGS
    },
    VllmPooling: Row {
        name: "vllm-pooling",
        suffixes: &["pooling"],
        endpoint: "/pooling",
        body: embeddings::pooling_body,
        sequences: Sequences::Prompt,
        ..EMBEDDINGS
    },
    VllmRerank: Row {
        name: "vllm-rerank",
        suffixes: &["rerank"],
        endpoint: "/rerank",
        body: embeddings::rerank_body,
        sequences: Sequences::Documents,
        takes_ignore_eos: false,
        takes_extras: false,
        ..EMBEDDINGS
    },
    Tgi: Row {
        name: "tgi",
        suffixes: &["generate_stream"],
        endpoint: "/generate_stream",
        body: tgi::body,
        format: ResponseFormat::Tgi,
        ..FOREIGN
    },
    /// Triton with TensorRT-LLM.
    TensorRtLlm: Row {
        name: "tensorrt-llm",
        suffixes: &["generate_stream"],
        endpoint: "/v2/models/ensemble/generate_stream",
        body: trt_llm::body,
        format: ResponseFormat::TensorRtLlm,
        ..FOREIGN
    },
    /// DeepSpeed-MII's completions, which are not streamed.
    DeepSpeedMii: Row {
        name: "deepspeed-mii",
        body: completions::mii_body,
        format: ResponseFormat::Whole,
        keys: &[BEARER],
        ..FOREIGN
    },
    SgLang: Row { name: "sglang", ..LEGACY },
    LmDeploy: Row { name: "lmdeploy", ..LEGACY },
    ScaleLlm: Row { name: "scalellm", ..LEGACY },
    LlamaCpp: Row { name: "llama.cpp", ..LEGACY },
    VllmGenerate: Row {
        name: "vllm-generate",
        suffixes: &["generate"],
        endpoint: "/generate",
        origin: Origin::Tacho,
        format: ResponseFormat::Declared,
        ..COMPLETIONS
    },
    AnthropicMessages: Row {
        name: "anthropic-messages",
        suffixes: &["messages"],
        endpoint: "/v1/messages",
        origin: Origin::Tacho,
        body: messages::body,
        format: ResponseFormat::Messages,
        sends_messages: true,
        takes_ignore_eos: false,
        keys: &[BEARER, ("x-api-key", "")],
        headers: &[("Content-Type", "application/json"), ("anthropic-version", "2023-06-01")],
        ..COMPLETIONS
    },
    OpenAiSpeech: Row { name: "openai-speech", ..SPEECH },
    OpenAiAudioSpeech: Row { name: "openai-audio-speech", body: speech::omni_body, ..SPEECH },
    OpenAiImages: Row {
        name: "openai-images",
        suffixes: &["images/generations"],
        endpoint: "/v1/images/generations",
        body: images::body,
        format: ResponseFormat::Whole,
        ..SPEECH
    },
    OpenAiImageEdits: Row {
        name: "openai-image-edits",
        suffixes: &["images/edits"],
        endpoint: "/v1/images/edits",
        body: images::body,
        format: ResponseFormat::Whole,
        sends_media: true,
        headers: &[("Content-Type", form::CONTENT_TYPE)],
        ..SPEECH
    },
    OpenAiRealtime: Row {
        name: "openai-realtime",
        suffixes: &["realtime"],
        endpoint: "/v1/realtime",
        origin: Origin::Tacho,
        body: realtime::session,
        format: ResponseFormat::Realtime,
        sends_media: true,
        samples: false,
        takes_ignore_eos: false,
        headers: &[("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")],
        method: "GET",
        ..COMPLETIONS
    },
}

/// Declares methods that return a column of the table.
macro_rules! columns {
    ($($(#[doc = $doc:literal])* $vis:vis $name:ident: $column:ident, $type:ty;)+) => {
        impl BackendKind {
            $($(#[doc = $doc])* $vis fn $name(self) -> $type {
                self.row().$column
            })+
        }
    };
}

columns! {
    pub name: name, &'static str;
    pub url_suffixes: suffixes, &'static [&'static str];
    pub default_endpoint: endpoint, &'static str;
    pub task: task, Task;
    /// Whether sampling flags and the automatic `ignore_eos` apply.
    pub is_openai_compatible: samples, bool;
    pub sends_messages: sends_messages, bool;
    /// Whether its bodies have images, videos or sounds.
    pub sends_media: sends_media, bool;
    /// Headers that contain the API key, and what precedes it there; empty if the server accepts none.
    pub(crate) key_headers: keys, &'static [(&'static str, &'static str)];
    /// The header of the request ID; `None` if a file does not name one.
    pub(crate) id_header: id, Option<&'static str>;
    pub(crate) method: method, &'static str;
    /// Headers of the backend, which the user's override.
    pub(crate) headers: headers, &'static [(&'static str, &'static str)];
}

impl BackendKind {
    pub fn from_name(name: &str) -> Option<Self> {
        BackendKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What its responses consist of.
    pub fn output(self) -> Output {
        match (self.row().task, self.row().format) {
            (Task::Generation, _) => Output::Tokens,
            (Task::Media, ResponseFormat::Speech) => Output::Audio,
            (Task::Media | Task::Pooling, _) => Output::Whole,
        }
    }

    /// Whether `vllm bench` 0.32.0 lacks this backend.
    pub fn is_legacy(self) -> bool {
        self.row().origin != Origin::Registry
    }

    pub fn fixes_temperature(self) -> bool {
        self.row().origin == Origin::Legacy
    }

    /// Whether cookies are kept: vLLM's legacy script opens a session per request.
    pub(crate) fn keeps_cookies(self) -> bool {
        self.row().origin != Origin::Legacy
    }

    /// Whether it is a legacy completions backend: fixed temperature, usage in any event.
    pub(super) fn is_legacy_completions(self) -> bool {
        self.row().origin == Origin::Legacy && self.row().format == ResponseFormat::Completions
    }

    /// Whether its requests open a WebSocket, over which their bodies are sent while the response is received.
    pub fn is_websocket(self) -> bool {
        self.row().format == ResponseFormat::Realtime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name_and_lives_where_it_may() {
        for kind in BackendKind::ALL {
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
