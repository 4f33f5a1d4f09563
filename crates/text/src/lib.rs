//! Tokenizers and chat templates: text to token IDs and back, exactly as in Hugging Face's library. Takes paths, never
//! downloads, reads no environment.

mod builtin;
mod byte_level;
mod charsmap;
mod class;
mod convert;
mod decode;
mod error;
#[cfg(test)]
mod fuzz;
mod guard;
mod hf;
mod hub;
mod mode;
mod prompt_ids;
mod sentencepiece;
mod settings;
mod template;
mod tokenizer;

pub use decode::Decoder;
pub use error::{Error, TemplateError};
pub use guard::{Aborted, guarded};
pub use hub::HubCache;
pub use mode::TokenizerMode;
pub use prompt_ids::prompt_ids;
pub use template::{ChatInput, ChatTemplate, TEMPLATES, unicode_text};
pub use tokenizer::Tokenizer;
