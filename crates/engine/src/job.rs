//! Jobs of the engine, and reasons to refuse one.

use std::sync::Arc;

use crate::tokens::Tokens;

tacho_core::named! {
    pub enum Finish {
        /// EOS or a stop string.
        Stop = "stop",
        Length = "length",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Work {
    /// A text, token by token.
    #[default]
    Generate,
    /// One response about the prompt, available when the prompt is computed: the single output token stands for it.
    Pool,
}

/// A job. Its output length is fixed beforehand: the engine determines the time of each token.
#[derive(Debug, Clone)]
pub struct Job {
    pub prompt: Arc<[u32]>,
    pub output: Tokens,
    /// Why it ends after the last token.
    pub finish: Finish,
    /// Separates prefix caches: sequences share blocks only under the same salt (one per LoRA adapter).
    pub salt: u64,
    pub work: Work,
    /// The lowest is served first under [`crate::Policy::Priority`].
    pub priority: i64,
    /// Whether another engine has computed the prompt; its KV is transferred.
    pub remote: bool,
}

impl Job {
    pub fn generate(prompt: Arc<[u32]>, output: Tokens, finish: Finish) -> Self {
        Job { prompt, output, finish, salt: 0, work: Work::Generate, priority: 0, remote: false }
    }

    pub fn pool(prompt: Arc<[u32]>, salt: u64) -> Self {
        Job { salt, work: Work::Pool, ..Job::generate(prompt, [0].into(), Finish::Stop) }
    }

    /// Tokens of prompt and output that count against the model's context length.
    pub fn tokens(&self) -> usize {
        match self.work {
            Work::Generate => self.prompt.len() + self.output.len(),
            Work::Pool => self.prompt.len(),
        }
    }

    /// Tokens whose KV is needed; the last output token needs none.
    pub fn kv_tokens(&self) -> usize {
        self.prompt.len() + self.output.len() - 1
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    #[error("the output has no tokens")]
    EmptyOutput,
    #[error("{tokens} tokens exceed max_model_len={limit}; shorten the prompt or the output")]
    TooLong { tokens: usize, limit: usize },
    #[error("{needed} KV blocks are needed but num_blocks={blocks}; shorten the prompt or raise num_blocks")]
    NeverFits { needed: usize, blocks: usize },
}
