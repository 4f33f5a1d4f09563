//! One sequence: how far it has come.

use tacho_core::Timestamp;

use crate::job::{Job, Work};
use crate::spec::EngineSpec;

/// The name of a block and of everything before it.
pub(super) type BlockHash = u64;

/// Names a sequence; given by the caller, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId(pub u64);

/// A sequence inside the engine.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: SeqId,
    pub(super) job: Job,
    /// Tokens of the output that steps have made, those under way included.
    pub(super) produced: usize,
    /// Tokens of the output that have come out.
    pub(super) emitted: usize,
    /// The marks of the steps under way that make a token of it.
    pub(super) owed: u8,
    /// Tokens whose KV is in the blocks once the steps under way are done.
    pub(super) computed: usize,
    /// Tokens in the step that is being composed; zero when it is not in it.
    pub(super) scheduled: usize,
    pub(super) blocks: Vec<u32>,
    /// Hashes of the full blocks of all known tokens.
    pub(super) hashes: Vec<BlockHash>,
    /// Leading blocks that the prefix cache already knows.
    pub(super) registered: usize,
    pub(super) preempted: bool,
    /// Tokens of the prompt that did not have to be computed, when it was first admitted.
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

    /// What the priority policy serves in order of.
    pub(super) fn rank(&self) -> (i64, Timestamp, SeqId) {
        (self.job.priority, self.arrived, self.id)
    }

    /// Tokens that exist: the prompt and what was made.
    pub(super) fn known(&self) -> usize {
        self.job.prompt.len() + self.produced
    }

    /// Tokens to be computed before there is another one; none where there will be no other.
    pub(super) fn missing(&self) -> usize {
        if self.is_complete() { 0 } else { self.known() - self.computed }
    }

    /// Whether all of its output was made, though it may not be out.
    pub(super) fn is_complete(&self) -> bool {
        self.produced == self.job.output.len()
    }

    /// Whether all of its output is out.
    pub(super) fn is_emitted(&self) -> bool {
        self.emitted == self.job.output.len()
    }

    /// Goes through the step with that mark, as far as it is in it; says whether that makes a token.
    pub(super) fn advance(&mut self, mark: u8) -> bool {
        self.computed += std::mem::take(&mut self.scheduled);
        let makes = self.computed == self.known();
        if makes {
            self.produced += 1;
            self.owed |= mark;
        }
        makes
    }

    /// The tokens of prompt and output from one place to another; of the output none is drawn that is not needed.
    pub(super) fn tokens(&self, from: usize, to: usize) -> impl Iterator<Item = &u32> {
        let (prompt, output) = (&self.job.prompt, &self.job.output);
        let asked = &prompt[from.min(prompt.len())..to.min(prompt.len())];
        let came = from.max(prompt.len()) - prompt.len()..to.max(prompt.len()) - prompt.len();
        asked.iter().chain(if came.is_empty() { &[][..] } else { &output.ids()[came] })
    }

    /// When the KV of its prompt has come from another engine, if it comes from there. Once only: what was put back is
    /// computed here.
    pub(super) fn fetched(&self, spec: &EngineSpec) -> Option<Timestamp> {
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
