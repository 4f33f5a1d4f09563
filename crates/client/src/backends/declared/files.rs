//! Built-in backends as files: the starting points of `tacho backend init`, and the proof that the format is enough.

macro_rules! files {
    ($($name:literal,)*) => {
        /// The built-in backends that can be written as a file: their names and files.
        pub const BUILT_IN_FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("files/", $name, ".yaml"))),)*];
    };
}

files! {
    "vllm",
    "openai",
    "openai-chat",
    "openai-responses",
    "openai-embeddings",
    "openai-embeddings-chat",
    "openai-embeddings-clip",
    "infinity-embeddings",
    "infinity-embeddings-clip",
    "vllm-pooling",
    "vllm-rerank",
    "tgi",
    "tensorrt-llm",
    "deepspeed-mii",
    "sglang",
    "lmdeploy",
    "scalellm",
    "llama.cpp",
    "vllm-generate",
}

/// The file of a built-in backend, if it can be written as one.
pub fn built_in_file(name: &str) -> Option<&'static str> {
    BUILT_IN_FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
