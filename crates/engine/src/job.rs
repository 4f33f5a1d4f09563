//! What is asked of the engine, and why it may refuse.

use std::sync::Arc;

use crate::tokens::Tokens;

/// Why a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// EOS or a stop string.
    Stop,
    /// The token limit.
    Length,
}

impl Finish {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
        }
    }
}

/// What comes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Work {
    /// A text, token by token.
    #[default]
    Generate,
    /// One answer about the prompt, which comes when the prompt is computed: the one token of the output stands for it.
    Pool,
}

/// What the engine is asked to do. Its length is settled beforehand: the engine decides when each token comes.
#[derive(Debug, Clone)]
pub struct Job {
    /// The prompt's token ids.
    pub prompt: Arc<[u32]>,
    /// The tokens that will come out.
    pub output: Tokens,
    /// Why it ends after the last of them.
    pub finish: Finish,
    /// Separates prefix caches: sequences share blocks only under the same salt (one per LoRA adapter).
    pub salt: u64,
    /// What comes of it.
    pub work: Work,
    /// The least is served first, where the policy looks at it.
    pub priority: i64,
    /// Whether another engine has computed the prompt, whose KV is fetched from there.
    pub remote: bool,
}

impl Job {
    /// A job that makes a text.
    pub fn generate(prompt: Arc<[u32]>, output: Tokens, finish: Finish) -> Self {
        Job { prompt, output, finish, salt: 0, work: Work::Generate, priority: 0, remote: false }
    }

    /// A job that only computes its prompt.
    pub fn pool(prompt: Arc<[u32]>, salt: u64) -> Self {
        Job { salt, work: Work::Pool, ..Job::generate(prompt, [0].into(), Finish::Stop) }
    }

    /// Tokens of prompt and output that count against the model's length.
    pub fn tokens(&self) -> usize {
        match self.work {
            Work::Generate => self.prompt.len() + self.output.len(),
            Work::Pool => self.prompt.len(),
        }
    }

    /// Tokens whose KV is needed; the last output token's own never is.
    pub fn kv_tokens(&self) -> usize {
        self.prompt.len() + self.output.len() - 1
    }
}

/// Why the engine does not take a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is nothing to compute.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// There is nothing to produce.
    #[error("the output has no tokens")]
    EmptyOutput,
    /// Prompt and output are longer than the model allows.
    #[error("{tokens} tokens exceed max_model_len={limit}; shorten the prompt or the output")]
    TooLong {
        /// Tokens of prompt and output.
        tokens: usize,
        /// The limit.
        limit: usize,
    },
    /// The whole KV cache could not hold it.
    #[error("{needed} KV blocks are needed but num_blocks={blocks}; shorten the prompt or raise num_blocks")]
    NeverFits {
        /// Blocks the sequence needs at its end.
        needed: usize,
        /// Blocks there are.
        blocks: usize,
    },
}
