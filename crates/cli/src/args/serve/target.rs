//! Flags of `tacho serve` for the server and the model.

use std::path::Path;

use tacho_args::Error;
use tacho_args::declare::*;
use tacho_client::BackendKind;
use tacho_core::secret::Secret;
use tacho_run::LoraAssignment;

use super::groups::{MODEL, SERVER};
use super::lists::pairs;
use crate::args::shared::sign_in::SignInArgs;
use crate::args::shared::tags::{NEEDS_SERVER, PER_CLASS, PER_STAGE, SAVED};

/// All backends: vLLM's in its order, then the names of its older script, then its demonstration server.
pub(crate) const BACKENDS: &[&str] = &BackendKind::NAMES;

const BACKEND: Kind = ChoiceOrFile(BACKENDS, BackendKind::FILE_ENDINGS);

flags! {
    TargetArgs? {
        TRUST [
            trust_remote_code: bool = vllm(&["--trust-remote-code"], Switch, "", Off, &MODEL,
                "Deprecated: has no effect. tacho never runs code from a model repository.");
        ]
        ADDRESS [
            backend: FlagValue<BackendKind> = vllm(&["--backend"], BACKEND, "NAME", DefaultValue::Str("openai"), &SERVER,
                "Wire protocol of the server. vllm, openai, sglang, lmdeploy, scalellm, llama.cpp: completions; openai-chat: \
                 chat completions; openai-responses: responses; openai-audio: transcriptions or translations; \
                 openai-realtime: transcriptions while audio is sent, over a WebSocket; \
                 openai-speech, openai-audio-speech: generated speech; openai-images, openai-image-edits: generated images; \
                 openai-embeddings, openai-embeddings-chat, openai-embeddings-clip, openai-embeddings-vlm2vec, \
                 infinity-embeddings, infinity-embeddings-clip, vllm-pooling, vllm-rerank: responses that are not streamed; tgi, \
                 tensorrt-llm, deepspeed-mii, vllm-generate: servers with their own protocols; anthropic-messages: Anthropic's \
                 /v1/messages. Or a YAML file that describes any other API, see `tacho backend init`.").tagged(SAVED) => backend;
            base_url: Option<String> = vllm(&["--base-url"], Str, "URL", Unset, &SERVER,
                "Server address with scheme, instead of --host and --port. For https://, a path prefix, or a Unix socket: \
                 http+unix://%2Frun%2Fvllm.sock, with %2F for / in the path. Several servers are replicas, see --balance: repeat \
                 the flag, separate them by commas, or name a file with one per line as @FILE.").joining().tagged(NEEDS_SERVER);
            host: String = vllm(&["--host"], Str, "HOST", DefaultValue::Str("127.0.0.1"), &SERVER, "Server name or address, for plain http.").tagged(NEEDS_SERVER);
            port: i64 = vllm(&["--port"], Int, "PORT", DefaultValue::Int(8000), &SERVER, "Server port, for plain http.").between(1.0, 65535.0).tagged(NEEDS_SERVER);
            /// Defaults to the backend's endpoint.
            endpoint: FlagValue<String> = vllm(&["--endpoint"], Str, "PATH", DefaultValue::Str("/v1/completions"), &SERVER,
                "API path, appended to the server address. Without it, the path of the backend: openai-chat uses \
                 /v1/chat/completions, openai-embeddings /v1/embeddings.").tagged(SAVED);
            header: Vec<(String, String)> = vllm(&["--header"], AnyNumber, "KEY=VALUE", Unset, &SERVER,
                "Headers of every request. They override tacho's own; their values are not printed or stored in results. --save-workload \
                 keeps those without a secret name.").tagged(PER_CLASS) => pairs;
        ]
        NAME [
            model: Option<String> = vllm(&["--model"], Str, "NAME", Unset, &MODEL, "Model to request (default: the first one that the server lists).").tagged(PER_STAGE | SAVED);
        ]
        TOKENIZER [
            tokenizer: Option<String> = vllm(&["--tokenizer"], Str, "NAME", Unset, &MODEL,
                "Tokenizer: a Hub id or a directory (default: the model's). It makes the prompts and counts tokens that the server \
                 does not report.");
            tokenizer_mode: String = vllm(&["--tokenizer-mode"], Str, "MODE", DefaultValue::Str("auto"), &MODEL,
                "Tokenizer format. auto prefers Mistral's own files if the model has them; hf and mistral force one. slow, cohere, \
                 kimi_k3, inkling and deepseek_v32, _v4 and _v41 count tokens like hf.");
        ]
        ADAPTERS [
            served_model_name: Option<String> = vllm(&["--served-model-name"], Str, "NAME", Unset, &MODEL,
                "Model name in requests, if it differs from --model. --model then names the tokenizer and the result.").tagged(SAVED);
            lora_modules: Option<Vec<String>> = vllm(&["--lora-modules"], OneOrMore, "NAME", Unset, &MODEL,
                "LoRA adapters to distribute the requests over. Each request names one of them instead of the model.").tagged(PER_STAGE | SAVED);
            lora_assignment: FlagValue<LoraAssignment> = vllm(&["--lora-assignment"], Choice(&LoraAssignment::NAMES), "HOW", DefaultValue::Str("random"), &MODEL,
                "Assignment of adapters to requests.") => lora_assignment;
        ]
        SETUP [
            skip_tokenizer_init: bool = vllm(&["--skip-tokenizer-init"], Switch, "", Off, &MODEL,
                "Load no tokenizer, for custom, custom_image and custom_audio. Lengths are then unknown.");
            insecure: bool = vllm(&["--insecure"], Switch, "", Off, &SERVER, "Do not verify the server's TLS certificate.");
        ]
        KEYS [
            api_key: Option<Secret> = tacho(&["--api-key"], Str, "KEY", Unset, &SERVER,
                "API key, sent as Authorization: Bearer KEY (default: $OPENAI_API_KEY). Other users of the machine can see the \
                 command line, but not the variable.");
            endpoint_type: Option<BackendKind> = tacho(&["--endpoint-type"], BACKEND, "NAME", Unset, &SERVER, "Alias of --backend, its name in older releases.") => known_backend;
        ]
        ..sign_in: SignInArgs;
    }
}

fn known_backend(setting: Setting<'_>) -> Result<Option<BackendKind>, Error> {
    let Some(name) = setting.value.as_str() else { return Ok(None) };
    let known = BackendKind::from_name(name).map_or_else(|| BackendKind::from_file(Path::new(name)), Ok);
    known.map(Some).map_err(|error| Error::Refused(Box::new(error)))
}

fn backend(setting: Setting<'_>) -> Result<FlagValue<BackendKind>, Error> {
    let value = known_backend(setting)?.expect("the flag has a default");
    Ok(FlagValue { value, is_set: setting.is_set })
}

fn lora_assignment(setting: Setting<'_>) -> Result<FlagValue<LoraAssignment>, Error> {
    Ok(FlagValue { value: named(setting), is_set: setting.is_set })
}

impl TargetArgs {
    /// The backend. The deprecated flag applies if the flag itself is not set.
    pub(crate) fn backend(&self) -> BackendKind {
        self.endpoint_type.filter(|_| !self.backend.is_set).unwrap_or(self.backend.value)
    }
}
