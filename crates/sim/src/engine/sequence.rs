//! One sequence: what was asked of the engine, and how far it has come.

use std::sync::Arc;

use tacho_core::Stamp;

use super::prefix_cache::BlockHash;
use super::spec::EngineSpec;
use super::tokens::Tokens;

/// Names a sequence; given by the caller, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId(pub u64);

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

/// A sequence inside the engine.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: SeqId,
    pub(super) job: Job,
    /// Tokens of the output that have come out.
    pub(super) produced: usize,
    /// Tokens whose KV is in the blocks.
    pub(super) computed: usize,
    /// Tokens in the step under way; zero when it is not in it.
    pub(super) scheduled: usize,
    pub(super) blocks: Vec<u32>,
    /// Hashes of the full blocks of all known tokens.
    pub(super) hashes: Vec<BlockHash>,
    /// Leading blocks that the prefix cache already knows.
    pub(super) registered: usize,
    pub(super) preempted: bool,
    /// Tokens of the prompt that did not have to be computed, when it was first admitted.
    pub(super) cached: usize,
    pub(super) arrived: Stamp,
    pub(super) admitted: Option<Stamp>,
    pub(super) first_token: Option<Stamp>,
    pub(super) last_token: Option<Stamp>,
}

impl Sequence {
    pub(super) fn new(id: SeqId, job: Job, arrived: Stamp) -> Self {
        Sequence {
            id,
            job,
            produced: 0,
            computed: 0,
            scheduled: 0,
            blocks: Vec::new(),
            hashes: Vec::new(),
            registered: 0,
            preempted: false,
            cached: 0,
            arrived,
            admitted: None,
            first_token: None,
            last_token: None,
        }
    }

    /// What the priority policy serves in order of.
    pub(super) fn rank(&self) -> (i64, Stamp, SeqId) {
        (self.job.priority, self.arrived, self.id)
    }

    /// Tokens that exist: the prompt and what has come out.
    pub(super) fn known(&self) -> usize {
        self.job.prompt.len() + self.produced
    }

    /// Token `at` of prompt and output.
    pub(super) fn token(&self, at: usize) -> u32 {
        let prompt = &self.job.prompt;
        if at < prompt.len() { prompt[at] } else { self.job.output.ids()[at - prompt.len()] }
    }

    /// When the KV of its prompt has come from another engine, if it comes from there. Once only: what was put back is
    /// computed here.
    pub(super) fn fetched(&self, spec: &EngineSpec) -> Option<Stamp> {
        let comes = self.job.remote && !self.preempted;
        comes.then(|| self.arrived + spec.transfer.takes(self.job.prompt.len()))
    }

    /// Whether the KV of its prompt is there without having been computed, all but the last token's.
    pub(super) fn is_filled(&self, spec: &EngineSpec) -> bool {
        let generates = self.job.work == Work::Generate;
        (spec.decode_bench || self.job.remote) && generates && !self.preempted
    }

    /// Whether its next token needs only the one before: everything earlier is computed.
    pub(super) fn decoding(&self) -> bool {
        self.produced > 0 && self.computed + 1 == self.known()
    }
}
