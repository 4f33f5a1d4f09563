//! The progress of one sequence.

use tacho_core::Timestamp;

use crate::job::{Job, Work};
use crate::spec::EngineSpec;

/// The hash of a block and all blocks before it.
pub(super) type BlockHash = u64;

/// Identifies a sequence; chosen by the caller, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId(pub u64);

#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: SeqId,
    pub(super) job: Job,
    /// Output tokens computed, including those in flight.
    pub(super) produced: usize,
    pub(super) emitted: usize,
    /// The marks of the steps in flight that compute a token of it.
    pub(super) owed: u8,
    /// Tokens whose KV is in the blocks once the steps in flight are done.
    pub(super) computed: usize,
    /// Tokens in the step being scheduled; zero when it is not in it.
    pub(super) scheduled: usize,
    pub(super) blocks: Vec<u32>,
    /// Hashes of the full blocks of all known tokens.
    pub(super) hashes: Vec<BlockHash>,
    /// Leading blocks that the prefix cache already has.
    pub(super) registered: usize,
    pub(super) preempted: bool,
    /// Prompt tokens found in the cache at first admission.
    pub(super) cached: usize,
    pub(super) arrived: Timestamp,
    pub(super) admitted: Option<Timestamp>,
    pub(super) first_token: Option<Timestamp>,
    pub(super) last_token: Option<Timestamp>,
}

impl Sequence {
    pub(super) fn new(id: SeqId, job: Job, arrived: Timestamp) -> Self {
        Sequence {
            id,
            job,
            produced: 0,
            emitted: 0,
            owed: 0,
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

    /// Sort key of the priority policy.
    pub(super) fn rank(&self) -> (i64, Timestamp, SeqId) {
        (self.job.priority, self.arrived, self.id)
    }

    /// Tokens that exist: the prompt and the output so far.
    pub(super) fn known_tokens(&self) -> usize {
        self.job.prompt.len() + self.produced
    }

    /// Tokens to compute before the next one; zero after the last.
    pub(super) fn missing_tokens(&self) -> usize {
        if self.is_complete() { 0 } else { self.known_tokens() - self.computed }
    }

    /// Returns whether all of its output is computed, though it may not be out.
    pub(super) fn is_complete(&self) -> bool {
        self.produced == self.job.output.len()
    }

    /// Returns whether all of its output is out.
    pub(super) fn is_emitted(&self) -> bool {
        self.emitted == self.job.output.len()
    }

    /// Advances by its scheduled tokens, in the step with that mark; returns whether that yields a token.
    pub(super) fn advance(&mut self, mark: u8) -> bool {
        self.computed += std::mem::take(&mut self.scheduled);
        let makes = self.computed == self.known_tokens();
        if makes {
            self.produced += 1;
            self.owed |= mark;
        }
        makes
    }

    /// The tokens of prompt and output in a range; output tokens are drawn only when needed.
    pub(super) fn tokens(&self, from: usize, to: usize) -> impl Iterator<Item = &u32> {
        let (prompt, output) = (&self.job.prompt, &self.job.output);
        let of_prompt = &prompt[from.min(prompt.len())..to.min(prompt.len())];
        let came = from.max(prompt.len()) - prompt.len()..to.max(prompt.len()) - prompt.len();
        of_prompt.iter().chain(if came.is_empty() { &[][..] } else { &output.ids()[came] })
    }

    /// When the KV transfer of its prompt ends, if there is one. Once only: a preempted sequence recomputes.
    pub(super) fn fetched(&self, spec: &EngineSpec) -> Option<Timestamp> {
        let comes = self.job.remote && !self.preempted;
        comes.then(|| self.arrived + spec.transfer.takes(self.job.prompt.len()))
    }

    /// Returns whether the KV of its prompt is present without computation, except the last token's.
    pub(super) fn is_filled(&self, spec: &EngineSpec) -> bool {
        let generates = self.job.work == Work::Generate;
        (spec.decode_bench || self.job.remote) && generates && !self.preempted
    }

    /// Returns whether it is in the decode phase: only the last token is not computed.
    pub(super) fn decoding(&self) -> bool {
        self.produced > 0 && self.computed + 1 == self.known_tokens()
    }
}
