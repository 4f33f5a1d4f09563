//! All other tokenizers, handled by Hugging Face's library.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::guard::{Aborted, guarded, guarded_within};

pub(crate) struct General {
    inner: tokenizers::Tokenizer,
    is_bpe: bool,
    path: PathBuf,
}

/// Time limit for loading; the largest tokenizers take a second.
const MAX_TIME: Duration = Duration::from_secs(60);

/// What a file must contain.
pub(crate) const USABLE: &str = "a tokenizer that can be used";

impl General {
    /// Parses the bytes of `tokenizer.json`. Truncation and padding settings are disabled: prompts of a benchmark are
    /// never truncated.
    pub(crate) fn new(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let (bytes, file) = (bytes.to_vec(), path.to_path_buf());
        // Some errors of a file show only on use: the library panics or never returns.
        let tried = guarded_within(MAX_TIME, move || {
            let general = General::read(&bytes, file)?;
            drop(general.decode(&general.encode("a trial", true)));
            Ok(general)
        });
        let unusable = || Error::NotVocabulary { path: path.to_path_buf(), kind: USABLE };
        tried.ok_or_else(unusable)?.map_err(|source| Error::NotTokenizer { path: path.to_path_buf(), source })
    }

    fn read(bytes: &[u8], path: PathBuf) -> tokenizers::Result<Self> {
        // `from_bytes` is generic and would be compiled into this crate, every part of a tokenizer with it.
        let mut inner: tokenizers::Tokenizer = std::str::from_utf8(bytes)?.parse()?;
        inner.with_truncation(None)?;
        inner.with_padding(None);
        let is_bpe = matches!(inner.get_model(), tokenizers::ModelWrapper::BPE(_));
        Ok(General { inner, is_bpe, path })
    }

    pub(crate) fn encode(&self, text: &str, add_special: bool) -> Vec<u32> {
        match guarded(|| self.inner.encode_fast(text, add_special)).unwrap_or_else(|| self.give_up(text)) {
            Ok(encoding) => encoding.get_ids().to_vec(),
            // Only a model without an unknown token can fail, on text that it has no token for: then there are no IDs.
            Err(_) => Vec::new(),
        }
    }

    /// The library panics if a pattern backtracks excessively. A text that cannot be counted must not count as empty.
    fn give_up(&self, text: &str) -> ! {
        let (path, length) = (self.path.display(), text.chars().count());
        let text =
            format!("{path} gives up on a text of {length} characters: its pattern tries too many ways to split it");
        std::panic::resume_unwind(Box::new(Aborted(text)))
    }

    pub(crate) fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids, false).unwrap_or_default()
    }

    /// The concatenated vocabulary entries of IDs.
    pub(crate) fn pieces(&self, ids: &[u32]) -> String {
        ids.iter().filter_map(|&id| self.inner.id_to_token(id)).collect()
    }

    pub(crate) fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Size of the vocabulary, with or without added tokens.
    pub(crate) fn vocab_size(&self, with_added: bool) -> usize {
        self.inner.get_vocab_size(with_added)
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        self.inner.get_vocab(true).into_values().collect()
    }

    /// IDs of the added tokens that are marked special.
    pub(crate) fn added_special_ids(&self) -> Vec<u32> {
        let added = self.inner.get_added_tokens_decoder();
        added.into_iter().filter(|(_, token)| token.special).map(|(id, _)| id).collect()
    }

    /// Number of tokens that the post-processor adds to a text.
    pub(crate) fn num_special(&self) -> usize {
        use tokenizers::PostProcessor;
        self.inner.get_post_processor().map_or(0, |processor| processor.added_tokens(false))
    }

    pub(crate) fn is_bpe(&self) -> bool {
        self.is_bpe
    }
}
