//! The engine's model as a target of the load generator: it moves the clock, from one event to the next.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tacho_core::{Clock, Content, FailureKind, ManualClock, Observation, Outcome, Request, Stamp, Usage};
use tacho_loadgen::{Target, Worker, WorkerStats};
use tacho_sim::foresight::{Ask, Heard, Router, What, World};
use tacho_sim::{Machine, prompt_ids};
use tacho_text::Tokenizer;
use tacho_workload::scenarios::priority_of;

/// Where the loop would spin on a real clock, this one moves by so much.
const TICK: Duration = Duration::from_micros(5);
/// Words that answers are made of; those that are one token each.
const WORDS: [&str; 24] = [
    "the", "of", "and", "to", "in", "that", "is", "was", "for", "on", "with", "as", "it", "by", "at", "from", "are",
    "this", "be", "an", "or", "not", "we", "one",
];

/// What requests are sent to, in place of a server.
pub(super) struct Model<'a> {
    world: Mutex<World<'a>>,
    clock: &'a ManualClock,
    requests: &'a [Request],
    prompts: &'a [Arc<[u32]>],
    tokenizer: &'a Tokenizer,
    /// Whether answers come whole, with the step that has computed the prompt.
    is_pooling: bool,
    vocabulary: Vec<(&'static str, u32)>,
}

impl<'a> Model<'a> {
    /// One idle engine; `prompts` are those of `requests`.
    pub(super) fn new(
        machine: &'a Machine,
        seed: u64,
        clock: &'a ManualClock,
        (requests, prompts): (&'a [Request], &'a [Arc<[u32]>]),
        (tokenizer, is_pooling): (&'a Tokenizer, bool),
    ) -> Result<Self, tacho_sim::Error> {
        let world = Mutex::new(World::new(machine, 1, Router::RoundRobin, seed)?);
        let single = |word: &'static str| match tokenizer.encode(&format!(" {word}"), false).as_slice() {
            [id] => Some((word, *id)),
            _ => None,
        };
        let vocabulary = WORDS.into_iter().filter_map(single).collect();
        Ok(Model { world, clock, requests, prompts, tokenizer, is_pooling, vocabulary })
    }

    fn world(&self) -> MutexGuard<'_, World<'a>> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a request is answered: words by its number, each with its token.
    fn answer(&self, index: usize, count: usize) -> impl Iterator<Item = (&'static str, u32)> {
        let known = self.vocabulary.len().max(1) as u32;
        (0..count).map(move |place| {
            let drawn = (index as u64 * 0x9e37_79b9 + place as u64).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 33;
            let word = self.vocabulary.get((drawn as u32 % known) as usize);
            word.copied().unwrap_or((WORDS[0], place as u32))
        })
    }

    /// The words of an answer, each behind a space but for the first where messages are joined by one.
    fn text(&self, index: usize, count: usize, is_message: bool) -> Vec<u8> {
        let mut text = Vec::with_capacity(5 * count);
        for (word, _) in self.answer(index, count) {
            text.extend_from_slice(if is_message && text.is_empty() { b"" } else { b" " });
            text.extend_from_slice(word.as_bytes());
        }
        text
    }
}

impl<'m> Target for Model<'m> {
    type Worker<'t>
        = Answering<'t, 'm>
    where
        Self: 't;

    fn worker(&self, _: usize, _: usize) -> io::Result<Answering<'_, 'm>> {
        Ok(Answering {
            model: self,
            rows: std::iter::repeat_with(|| None).take(self.requests.len()).collect(),
            supplied: HashMap::new(),
            leaving: BTreeMap::new(),
            silent: 0,
            tokens: 0,
            watches: false,
            heard: Vec::new(),
        })
    }
}

/// The requests under way.
pub(super) struct Answering<'t, 'm> {
    model: &'t Model<'m>,
    /// By the number of the request, those that are under way.
    rows: Vec<Option<Box<Observation>>>,
    /// Requests that were made of answers, with their prompts.
    supplied: HashMap<usize, (Request, Arc<[u32]>)>,
    /// Who leaves when.
    leaving: BTreeMap<(Stamp, usize), ()>,
    /// Requests without a token.
    silent: usize,
    tokens: u64,
    watches: bool,
    heard: Vec<Heard>,
}

impl Answering<'_, '_> {
    fn request(&self, index: usize) -> &Request {
        self.supplied.get(&index).map_or_else(|| &self.model.requests[index], |(request, _)| request)
    }

    fn prompt(&self, index: usize) -> &Arc<[u32]> {
        self.supplied.get(&index).map_or_else(|| &self.model.prompts[index], |(_, prompt)| prompt)
    }

    fn ask(&self, index: usize) -> Ask {
        let request = self.request(index);
        let count = match self.model.is_pooling {
            true => 1,
            false => usize::try_from(request.output_len).unwrap_or(1).max(1),
        };
        let output = self.model.answer(index, count).map(|(_, token)| token).collect();
        Ask { prompt: Arc::clone(self.prompt(index)), output, priority: priority_of(request).unwrap_or(0) }
    }

    /// Moves the clock to the next event, at most to `until`, and takes what is heard then.
    fn step(&mut self, until: Stamp, done: &mut Vec<Observation>) {
        let mut world = self.model.world();
        world.go_on(self.model.clock.now());
        let leaves = self.leaving.keys().next().map(|(at, _)| *at);
        let next = [Some(until), world.next_event(), leaves].into_iter().flatten().min().unwrap_or(until);
        let now = next.max(self.model.clock.now());
        self.model.clock.set(now);
        let mut heard = std::mem::take(&mut self.heard);
        world.hear(now, &mut heard);
        drop(world);
        heard.drain(..).for_each(|heard| self.take(heard, done));
        self.heard = heard;
        self.call_off(now, done);
    }

    fn take(&mut self, heard: Heard, done: &mut Vec<Observation>) {
        let Some(row) = &mut self.rows[heard.at] else { return };
        match &heard.what {
            What::Token { .. } => {
                self.tokens += 1;
                self.silent -= usize::from(row.chunks.is_empty());
                row.chunks.push(heard.when);
            }
            What::Refused(why) => {
                self.silent -= 1;
                row.outcome = Outcome::failed(FailureKind::Http(400), why.clone());
            }
        }
        if heard.is_last() {
            done.extend(self.over(heard.at, heard.when));
        }
    }

    /// The finished row of a request.
    fn over(&mut self, index: usize, now: Stamp) -> Option<Observation> {
        let mut row = *self.rows[index].take()?;
        row.done = now;
        row.first_byte = row.chunks.first().copied();
        row.first_content = row.first_byte;
        let (request, prompt_tokens) = (self.request(index), Some(self.prompt(index).len() as u64));
        row.usage = Usage { prompt_tokens, completion_tokens: Some(row.chunks.len() as u64), ..Usage::default() };
        let is_message = request.chat_messages.is_some() || matches!(request.content, Content::Json(_));
        row.text = self.model.text(index, row.chunks.len(), is_message);
        self.leaving.retain(|(_, one), ()| *one != index);
        Some(row)
    }

    /// Ends the requests whose clients leave now.
    fn call_off(&mut self, now: Stamp, done: &mut Vec<Observation>) {
        while let Some((&(_, index), ())) = self.leaving.first_key_value().filter(|((at, _), ())| *at <= now) {
            self.model.world().cancel(index);
            self.silent -= usize::from(self.rows[index].as_ref().is_some_and(|row| row.chunks.is_empty()));
            let Some(mut row) = self.over(index, now) else { continue };
            row.outcome = Outcome::failed(FailureKind::Cancelled, "called off, as was asked");
            done.push(row);
        }
    }
}

impl Worker for Answering<'_, '_> {
    fn issue(&mut self, mut row: Observation) {
        let (index, now) = (row.index, self.model.clock.now());
        row.sent = now;
        let ask = self.ask(index);
        row.chunks.reserve_exact(ask.output.len());
        self.model.world().send(index, ask, now);
        if let Some(after) = self.request(index).cancel_after.and_then(|after| Duration::try_from_secs_f64(after).ok())
        {
            self.leaving.insert((now + after, index), ());
        }
        self.silent += 1;
        self.rows[index] = Some(Box::new(row));
    }

    fn supply(&mut self, index: usize, request: &Request) {
        let prompt = prompt_ids(request, self.model.tokenizer);
        let request = Request { prompt_len: prompt.len() as u64, ..request.clone() };
        self.supplied.insert(index, (request, prompt));
    }

    fn prefilling(&self) -> usize {
        self.silent
    }

    fn watch_tokens(&mut self) {
        self.watches = true;
        self.model.world().watch_tokens();
    }

    fn poll(&mut self, until: Stamp, done: &mut Vec<Observation>) {
        let until = until.max(self.model.clock.now() + TICK);
        let before = (done.len(), self.tokens);
        while done.len() == before.0 && self.model.clock.now() < until && !(self.watches && self.tokens > before.1) {
            self.step(until, done);
        }
    }

    fn abort(&mut self, done: &mut Vec<Observation>) {
        let now = self.model.clock.now();
        for index in (0..self.rows.len()).filter(|&index| self.rows[index].is_some()).collect::<Vec<_>>() {
            self.model.world().cancel(index);
            let Some(mut row) = self.over(index, now) else { continue };
            row.outcome = Outcome::failed(FailureKind::Aborted, "the run ended");
            done.push(row);
        }
        self.silent = 0;
    }

    fn take_tokens(&mut self) -> u64 {
        std::mem::take(&mut self.tokens)
    }

    fn stats(&self) -> WorkerStats {
        WorkerStats::default()
    }
}
