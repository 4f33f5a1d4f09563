//! What happened to one request: stamps and counts, no interpretation.

use crate::{Outcome, Stamp};

/// Token counts as the server reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub completion_tokens: Option<u64>,
}

/// Who said how many tokens an event brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkSource {
    /// Usage that the server reports with every event.
    Usage,
    /// The log-probabilities, one per token.
    Logprobs,
}

/// One row of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Which request of the workload this was.
    pub index: usize,
    /// When the schedule wanted it sent.
    pub due: Stamp,
    /// When the dispatcher let it go, before any wait for a concurrency slot.
    pub released: Stamp,
    /// When it had its slot and sending began; vLLM's `start_time`.
    pub sent: Stamp,
    /// Time spent connecting (TCP, TLS) inside `sent`..first byte; zero on a connection that was open.
    pub connect_ns: u64,
    /// When the first byte of the answer arrived.
    pub first_byte: Option<Stamp>,
    /// When the first token that carries content (not just a role) arrived.
    pub first_content: Option<Stamp>,
    /// When each token event arrived, in order; vLLM's TTFT is the first, its ITLs are the gaps.
    pub chunks: Vec<Stamp>,
    /// Where the text of each token event ends in `text`; empty where events do not append to it.
    pub text_ends: Vec<u32>,
    /// Tokens known by events: the event's place in `chunks`, and all tokens up to it. Events that bring one token
    /// each, as nearly all do, are not here.
    pub token_marks: Vec<(u32, u32)>,
    /// Where the marks come from, if there are any.
    pub mark_source: Option<MarkSource>,
    /// When the first token of the answer itself, after any reasoning, arrived.
    pub first_answer: Option<Stamp>,
    /// Tokens of reasoning among those generated, where the server says.
    pub reasoning_tokens: Option<u64>,
    /// How often it was sent anew after a failure; all times are counted from the first sending.
    pub retries: u32,
    /// Token events whose bytes came in the same read as a later one's, so that their stamp is a bound.
    pub coalesced: u32,
    /// When the request was over.
    pub done: Stamp,
    /// The verdict.
    pub outcome: Outcome,
    /// The generated text as WTF-8: UTF-8 that may hold the lone surrogates JSON allows.
    pub text: Vec<u8>,
    /// What the server said of token counts.
    pub usage: Usage,
}

impl Observation {
    /// A row for a request that was let go but has not been sent.
    pub fn released(index: usize, due: Stamp, released: Stamp) -> Self {
        Observation {
            index,
            due,
            released,
            sent: released,
            connect_ns: 0,
            first_byte: None,
            first_content: None,
            chunks: Vec::new(),
            text_ends: Vec::new(),
            token_marks: Vec::new(),
            mark_source: None,
            first_answer: None,
            reasoning_tokens: None,
            retries: 0,
            coalesced: 0,
            done: released,
            outcome: Outcome::Complete,
            text: Vec::new(),
            usage: Usage::default(),
        }
    }
}
