//! One sequence: how far it has come.

use tacho_core::Stamp;

use super::job::{Job, Work};
use super::spec::EngineSpec;

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

    /// The tokens of prompt and output from one place to another; of the output none is drawn that is not needed.
    pub(super) fn tokens(&self, from: usize, to: usize) -> impl Iterator<Item = &u32> {
        let (prompt, output) = (&self.job.prompt, &self.job.output);
        let asked = &prompt[from.min(prompt.len())..to.min(prompt.len())];
        let came = from.max(prompt.len()) - prompt.len()..to.max(prompt.len()) - prompt.len();
        asked.iter().chain(if came.is_empty() { &[][..] } else { &output.ids()[came] })
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
