//! Built-in backends as files: the starting points of `tacho backend init`. Some are described by their file alone; for
//! the others it proves that the format is enough.

use std::sync::OnceLock;

use super::{Declared, engine::Engine};

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

pub(super) fn description(name: &str) -> Option<&'static Declared> {
    static READ: [OnceLock<Declared>; BUILT_IN_FILES.len()] = [const { OnceLock::new() }; BUILT_IN_FILES.len()];
    let at = BUILT_IN_FILES.iter().position(|(known, _)| *known == name)?;
    let (name, text) = BUILT_IN_FILES[at];
    Some(
        READ[at].get_or_init(|| Declared::read(text, name, Engine::local).expect("the files of the program are valid")),
    )
}
