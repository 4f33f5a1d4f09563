//! A trace as requests: for each step its own messages, and the history before them.

mod history;
mod maker;
mod media;

use tacho_core::json::{Dict, Value};
use tacho_core::{Content, Reply, Request, dict};
use tacho_text::Tokenizer;

use super::error::TraceError;
use super::limits::{MAX_HISTORY, MAX_TOTAL_HISTORY};
use super::model::{History, Step, Take, Trace};
use crate::sampling::chat::message;
use maker::Maker;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySpec {
    /// Whether requests are chats; otherwise prompts are token IDs or texts.
    pub chat: bool,
    /// Whether the server stores the history and requests only name the response that they follow.
    pub server_history: bool,
    /// Output tokens if the file has none.
    pub output_len: u64,
    /// Seed of the blocks' tokens.
    pub seed: u32,
}

#[derive(Debug, Clone)]
pub struct Replay {
    /// One per step, with its own messages only if the rest depends on completions.
    pub requests: Vec<Request>,
    /// For each step, the earlier ones whose messages and completions precede its own, and which choice of each.
    before: Vec<Vec<HistoryEntry>>,
    /// Whether a later step needs the completion.
    keeps: Vec<bool>,
    /// The parts of each step's own content that others may have sent before: names of pieces and their tokens.
    pieces: Vec<Vec<(u64, u64)>>,
    chat: bool,
    server_history: bool,
}

/// A step and the choice of its completion; 0 is the first.
pub type HistoryEntry = (usize, usize);

#[derive(Debug, Clone, Copy)]
pub struct ReceivedResponse<'a> {
    pub text: &'a [u8],
    /// Further parts of the response.
    pub reply: Option<&'a Reply>,
}

/// Finds the completion of a step, if there is one.
pub type Find<'a> = &'a dyn Fn(usize) -> Option<ReceivedResponse<'a>>;

impl Trace {
    /// Drops calls that are recorded as failed and returns their number.
    pub fn drop_failed(&mut self) -> usize {
        let waited: std::collections::HashSet<usize> =
            self.steps.iter().flat_map(|step| step.parents.iter().map(|edge| edge.parent)).collect();
        let failed: Vec<bool> = self
            .steps
            .iter()
            .enumerate()
            .map(|(position, step)| step.notes.failed && !waited.contains(&position))
            .collect();
        let count = failed.iter().filter(|failed| **failed).count();
        if count > 0 {
            self.retain(|position| !failed[position]);
        }
        count
    }

    pub fn replay(&self, spec: &ReplaySpec, tokenizer: Option<&Tokenizer>) -> Result<Replay, TraceError> {
        let before = self.before()?;
        let mut keeps = vec![false; self.steps.len()];
        before.iter().flatten().for_each(|&(position, _)| keeps[position] = true);
        let mut maker = Maker::new(self, spec, tokenizer)?;
        let mut requests = Vec::with_capacity(self.steps.len());
        let mut pieces = Vec::with_capacity(self.steps.len());
        for position in 0..self.steps.len() {
            let (request, own) = maker.request(position)?;
            requests.push(request);
            pieces.push(own);
        }
        let (chat, server_history) = (spec.chat, spec.server_history);
        Ok(Replay { requests, before, keeps, pieces, chat, server_history })
    }

    /// For each step, the earlier ones whose messages and live completions precede its own.
    pub(super) fn before(&self) -> Result<Vec<Vec<HistoryEntry>>, TraceError> {
        let mut before: Vec<Vec<HistoryEntry>> = vec![Vec::new(); self.steps.len()];
        let mut in_all = 0;
        for position in self.in_order() {
            let step = &self.steps[position];
            let full = |parent: usize| {
                let mut line = before[parent].clone();
                line.push((parent, step.choice));
                line
            };
            before[position] = match &step.history {
                History::None | History::Recorded => Vec::new(),
                History::Live => self.previous(step).map(full).unwrap_or_default(),
                History::Fork => step.parents.first().map(|edge| full(edge.parent)).unwrap_or_default(),
                History::Edges(takes) => {
                    let mut line: Vec<HistoryEntry> = Vec::new();
                    for (parent, take) in takes {
                        if line.len() > MAX_HISTORY {
                            break;
                        }
                        match take {
                            Take::Full => line.extend(full(*parent)),
                            Take::Last => line.push((*parent, step.choice)),
                            Take::New => {}
                        }
                    }
                    line
                }
            };
            in_all += before[position].len();
            if before[position].len() > MAX_HISTORY || in_all > MAX_TOTAL_HISTORY {
                let problem = format!("request {:?} sends more than {MAX_HISTORY} earlier ones again", step.id());
                return Err(TraceError::Setting { flag: "--sessions", problem });
            }
        }
        Ok(before)
    }

    /// The turn of the same session that a step follows.
    pub(super) fn previous(&self, step: &Step) -> Option<usize> {
        step.parents.iter().map(|edge| edge.parent).find(|&parent| self.steps[parent].session == step.session)
    }
}

impl Replay {
    pub fn keeps(&self, index: usize) -> bool {
        self.keeps[index]
    }

    /// The content of a step as far as it is known before any completion, for a file.
    pub fn sent(&self, index: usize) -> Dict {
        let request = &self.requests[index];
        let messages = request.chat_messages.clone().filter(|_| self.chat);
        dict! {
            "prompt"?: messages.is_none().then(|| request.content.to_json()),
            "messages"?: messages,
            "prompt_len": request.prompt_len,
            "output_len": request.output_len,
            "overrides"?: request.overrides.clone(),
            "lora"?: request.lora.as_deref(),
            "cancel_after_s"?: request.cancel_after,
        }
    }

    /// The steps whose messages and completions precede a step's own.
    pub fn before(&self, index: usize) -> &[HistoryEntry] {
        &self.before[index]
    }

    /// The pieces of a step's own part: their names, equal if the text is, and their tokens.
    pub fn pieces(&self, index: usize) -> &[(u64, u64)] {
        &self.pieces[index]
    }
}

/// The messages of a request, or its text as a user message.
fn request_messages(request: &Request) -> Vec<Value> {
    match &request.chat_messages {
        Some(Value::List(messages)) => messages.clone(),
        _ => vec![message("user", content_text(request))],
    }
}

fn content_text(request: &Request) -> &str {
    if let Content::Text(text) = &request.content { text } else { "" }
}
