//! Tokenizer modes, under vLLM's names: which files of a directory are used.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TokenizerMode {
    /// Mistral's own files if the directory has them, otherwise Hugging Face's.
    #[default]
    Auto,
    Hf,
    Mistral,
    /// Hugging Face's files for a model whose chats are rendered by code, not by a template.
    CodedChat,
}

/// Every name and its mode. The last ones differ only in the server.
const NAMES: [(&str, TokenizerMode); 10] = [
    ("auto", TokenizerMode::Auto),
    ("hf", TokenizerMode::Hf),
    ("mistral", TokenizerMode::Mistral),
    ("deepseek_v32", TokenizerMode::CodedChat),
    ("deepseek_v4", TokenizerMode::CodedChat),
    ("deepseek_v41", TokenizerMode::CodedChat),
    ("inkling", TokenizerMode::CodedChat),
    ("slow", TokenizerMode::Hf),
    ("cohere", TokenizerMode::Hf),
    ("kimi_k3", TokenizerMode::Hf),
];

impl TokenizerMode {
    pub fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, mode)| *mode == self).map_or("auto", |(name, _)| *name)
    }
}
