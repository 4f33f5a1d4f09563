//! The simulated engine as a target of the load generator, which advances a virtual clock from event to event.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tacho_core::{Clock, Content, FailureKind, ManualClock, Mutex, Observation, Outcome, Request, Timestamp, Usage};
use tacho_engine::Machine;
use tacho_engine::simulation::{ClientEvent, ClientEventKind, Cluster, ModelRequest, Router};
use tacho_loadgen::{Target, Worker, WorkerStats};
use tacho_text::{Tokenizer, prompt_ids};
use tacho_workload::scenarios::priority_of;

/// The clock advances by at least this much where the load generator would spin on a real clock.
const TICK: Duration = Duration::from_micros(5);
/// Words of synthetic outputs; those that are a single token are used.
const WORDS: [&str; 24] = [
    "the", "of", "and", "to", "in", "that", "is", "was", "for", "on", "with", "as", "it", "by", "at", "from", "are",
    "this", "be", "an", "or", "not", "we", "one",
];

pub struct EngineTarget<'a> {
    cluster: Mutex<Cluster<'a>>,
    clock: &'a ManualClock,
    requests: &'a [Request],
    prompts: &'a [Arc<[u32]>],
    tokenizer: &'a Tokenizer,
    /// Whether requests are pooling requests, which finish with their prefill.
    is_pooling: bool,
    vocabulary: Vec<(&'static str, u32)>,
}

impl<'a> EngineTarget<'a> {
    /// One idle replica; `prompts` are the token ids of `requests`.
    pub fn new(
        machine: &'a Machine,
        seed: u64,
        clock: &'a ManualClock,
        (requests, prompts): (&'a [Request], &'a [Arc<[u32]>]),
        (tokenizer, is_pooling): (&'a Tokenizer, bool),
    ) -> Result<Self, tacho_engine::Error> {
        let cluster = Mutex::new(Cluster::new(machine, 1, Router::RoundRobin, seed)?);
        let single = |word: &'static str| match tokenizer.encode(&format!(" {word}"), false).as_slice() {
            [id] => Some((word, *id)),
            _ => None,
        };
        let vocabulary = WORDS.into_iter().filter_map(single).collect();
        Ok(EngineTarget { cluster, clock, requests, prompts, tokenizer, is_pooling, vocabulary })
    }

    /// The synthetic output of a request: words with their token ids.
    fn answer(&self, index: usize, count: usize) -> impl Iterator<Item = (&'static str, u32)> {
        let known = self.vocabulary.len().max(1) as u32;
        (0..count).map(move |place| {
            let drawn = (index as u64 * 0x9e37_79b9 + place as u64).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 33;
            let word = self.vocabulary.get((drawn as u32 % known) as usize);
            word.copied().unwrap_or((WORDS[0], place as u32))
        })
    }

    /// The text of an output; a chat message has no leading space.
    fn text(&self, index: usize, count: usize, is_message: bool) -> Vec<u8> {
        let mut text = Vec::with_capacity(5 * count);
        for (word, _) in self.answer(index, count) {
            text.extend_from_slice(if is_message && text.is_empty() { b"" } else { b" " });
            text.extend_from_slice(word.as_bytes());
        }
        text
    }
}

impl<'m> Target for EngineTarget<'m> {
    type Worker<'t>
        = EngineWorker<'t, 'm>
    where
        Self: 't;

    fn worker(&self, _: usize, _: usize) -> io::Result<EngineWorker<'_, 'm>> {
        Ok(EngineWorker {
            target: self,
            rows: std::iter::repeat_with(|| None).take(self.requests.len()).collect(),
            supplied: HashMap::new(),
            cancellations: BTreeMap::new(),
            prefilling: 0,
            tokens: 0,
            watches_tokens: false,
            events: Vec::new(),
        })
    }
}

pub struct EngineWorker<'t, 'm> {
    target: &'t EngineTarget<'m>,
    /// Observations of requests in flight, by index.
    rows: Vec<Option<Box<Observation>>>,
    /// Requests that were built from earlier responses, with their prompts.
    supplied: HashMap<usize, (Request, Arc<[u32]>)>,
    cancellations: BTreeMap<(Timestamp, usize), ()>,
    /// Requests without a token.
    prefilling: usize,
    tokens: u64,
    watches_tokens: bool,
    events: Vec<ClientEvent>,
}

impl EngineWorker<'_, '_> {
    fn request(&self, index: usize) -> &Request {
        self.supplied.get(&index).map_or_else(|| &self.target.requests[index], |(request, _)| request)
    }

    fn prompt(&self, index: usize) -> &Arc<[u32]> {
        self.supplied.get(&index).map_or_else(|| &self.target.prompts[index], |(_, prompt)| prompt)
    }

    fn model_request(&self, index: usize) -> ModelRequest {
        let request = self.request(index);
        let count = match self.target.is_pooling {
            true => 1,
            false => usize::try_from(request.output_len).unwrap_or(1).max(1),
        };
        let output = self.target.answer(index, count).map(|(_, token)| token).collect();
        ModelRequest { prompt: Arc::clone(self.prompt(index)), output, priority: priority_of(request).unwrap_or(0) }
    }

    /// Advances the clock to the next event, at most to `until`, and takes the events of that time.
    fn step(&mut self, until: Timestamp, done: &mut Vec<Observation>) {
        let mut cluster = self.target.cluster.lock();
        cluster.start_steps(self.target.clock.now());
        let cancels = self.cancellations.keys().next().map(|(at, _)| *at);
        let next = [Some(until), cluster.next_event(), cancels].into_iter().flatten().min().unwrap_or(until);
        let now = next.max(self.target.clock.now());
        self.target.clock.set(now);
        let mut events = std::mem::take(&mut self.events);
        cluster.advance(now, &mut events);
        drop(cluster);
        events.drain(..).for_each(|event| self.take(event, done));
        self.events = events;
        self.cancel(now, done);
    }

    fn take(&mut self, event: ClientEvent, done: &mut Vec<Observation>) {
        let Some(row) = &mut self.rows[event.request] else { return };
        match &event.kind {
            ClientEventKind::Token { .. } => {
                self.tokens += 1;
                self.prefilling -= usize::from(row.chunks.is_empty());
                row.chunks.push(event.at);
            }
            ClientEventKind::Rejected(reason) => {
                self.prefilling -= 1;
                row.outcome = Outcome::failed(FailureKind::Http(400), reason.clone());
            }
        }
        if event.is_last() {
            done.extend(self.finish(event.request, event.at));
        }
    }

    /// Removes a finished request and returns its observation.
    fn finish(&mut self, index: usize, now: Timestamp) -> Option<Observation> {
        let mut row = *self.rows[index].take()?;
        row.done = now;
        row.first_byte = row.chunks.first().copied();
        row.first_content = row.first_byte;
        let (request, prompt_tokens) = (self.request(index), Some(self.prompt(index).len() as u64));
        row.usage = Usage { prompt_tokens, completion_tokens: Some(row.chunks.len() as u64), ..Usage::default() };
        let is_message = request.chat_messages.is_some() || matches!(request.content, Content::Json(_));
        row.text = self.target.text(index, row.chunks.len(), is_message);
        self.cancellations.retain(|(_, one), ()| *one != index);
        Some(row)
    }

    /// Ends the requests whose cancellation time has come.
    fn cancel(&mut self, now: Timestamp, done: &mut Vec<Observation>) {
        while let Some((&(_, index), ())) = self.cancellations.first_key_value().filter(|((at, _), ())| *at <= now) {
            self.target.cluster.lock().cancel(index);
            self.prefilling -= usize::from(self.rows[index].as_ref().is_some_and(|row| row.chunks.is_empty()));
            let Some(mut row) = self.finish(index, now) else { continue };
            row.outcome = Outcome::failed(FailureKind::Cancelled, "cancelled, as requested");
            done.push(row);
        }
    }
}

impl Worker for EngineWorker<'_, '_> {
    fn issue(&mut self, mut row: Observation) {
        let (index, now) = (row.index, self.target.clock.now());
        row.sent = now;
        let request = self.model_request(index);
        row.chunks.reserve_exact(request.output.len());
        self.target.cluster.lock().send(index, request, now);
        if let Some(after) = self.request(index).cancel_after.and_then(|after| Duration::try_from_secs_f64(after).ok())
        {
            self.cancellations.insert((now + after, index), ());
        }
        self.prefilling += 1;
        self.rows[index] = Some(Box::new(row));
    }

    fn supply(&mut self, index: usize, request: &Request) {
        let prompt = prompt_ids(request, self.target.tokenizer);
        let request = Request { prompt_len: prompt.len() as u64, ..request.clone() };
        self.supplied.insert(index, (request, prompt));
    }

    fn prefilling(&self) -> usize {
        self.prefilling
    }

    fn watch_tokens(&mut self) {
        self.watches_tokens = true;
        self.target.cluster.lock().watch_tokens();
    }

    fn poll(&mut self, until: Timestamp, done: &mut Vec<Observation>) {
        let until = until.max(self.target.clock.now() + TICK);
        let before = (done.len(), self.tokens);
        while done.len() == before.0
            && self.target.clock.now() < until
            && !(self.watches_tokens && self.tokens > before.1)
        {
            self.step(until, done);
        }
    }

    fn abort(&mut self, done: &mut Vec<Observation>) {
        let now = self.target.clock.now();
        for index in (0..self.rows.len()).filter(|&index| self.rows[index].is_some()).collect::<Vec<_>>() {
            self.target.cluster.lock().cancel(index);
            let Some(mut row) = self.finish(index, now) else { continue };
            row.outcome = Outcome::failed(FailureKind::Aborted, "the run ended");
            done.push(row);
        }
        self.prefilling = 0;
    }

    fn take_tokens(&mut self) -> u64 {
        std::mem::take(&mut self.tokens)
    }

    fn stats(&self) -> WorkerStats {
        WorkerStats::default()
    }
}
