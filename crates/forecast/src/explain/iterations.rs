//! The iterations of an engine, reconstructed from token arrival times: their contents, who was refused, and their costs.

mod async_scheduling;
mod chunks;
mod costs;
mod late;

use std::{collections::VecDeque, ops::Add};

use tacho_engine::Machine;
use tacho_metrics::{attribution::QueueLimit, percentile::percentile};

use super::Stream;
use super::model::{Load, Model, Source};
use crate::fit::Traced;
use crate::fit::limits::budget::{Budget, Chains, Full, Held};
use crate::fit::robust::{median, spread};
use crate::fit::steps::{Cluster, clusters};

/// Iterations of others in which a paused stream has no token, and its pause in iterations, if it was preempted.
const MIN_PAUSE: (usize, f64) = (3, 4.0);
/// Part of the most tokens of an iteration at which it is full.
const FULL: f64 = 0.95;
/// The same of the most sequences: a late token may make one more or less.
const FULL_BATCH: f64 = 0.93;
/// The same of the KV cache: the engine counts blocks.
const FULL_CACHE: f64 = 0.9;
/// Least part of the iterations that refuse a request at which a limit is one, not the largest value by chance.
const MIN_AT_LIMIT: f64 = 0.3;
/// Longest group of iterations that are only known together.
const MAX_GROUP: usize = 64;
/// Standard deviations, and part of the expected time, beyond which an iteration stalled.
const STALL: (f64, f64) = (6.0, 0.5);
/// Standard deviations of an iteration up to which its start is the end of the one before.
const BUSY: f64 = 3.0;
/// Fewest iterations that were filled by a part of a prompt and so show the most tokens of one. With a relative spread up to
/// the first, it is their median, up to the second the next power of two, as most limits are.
const FILLED: (usize, f64, f64) = (5, 0.15, 0.4);
/// Least part of a prompt that is taken for all of it.
const WHOLE: f64 = 0.9;
/// Rounds in which costs and the ends of iterations whose tokens are late are found together.
const LATE_ROUNDS: usize = 3;
/// Distance from a power of two at which a limit is one.
const NEAR_POWER: f64 = 0.08;

/// Usual tokens of a KV block.
const BLOCK: f64 = 16.0;

/// One iteration of the engine; it ends with a cluster of tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Iteration {
    pub(super) start: f64,
    pub(super) end: f64,
    /// Seconds from its end until its tokens arrived, where that is not the end itself.
    late_s: f64,
    /// Whether no stream was in its decode phase before, so that the start is not observed.
    pub(super) is_idle: bool,
    /// Whether every stream had a token.
    is_clear: bool,
    /// Streams in their decode phase.
    running: f64,
    decode: Load,
    /// Prompts whose first token ends it, without their earlier chunks.
    prompts: Load,
    /// A part of the prompt of `head`.
    chunk: Load,
    /// Contexts of preempted streams that return.
    recomputed: Load,
    /// The first queued request that had arrived and got no token.
    head: Option<usize>,
    pub(super) blocked: Option<QueueLimit>,
    /// Expected seconds of the decodes, and what prefills and recomputation add.
    pub(super) decode_s: f64,
    pub(super) prefill_s: f64,
    /// The next three are of an iteration whose start is not observed (`is_idle`).
    /// Whether the engine, with asynchronous scheduling, was busy until it.
    was_busy: bool,
    /// Expected seconds of the parts of its prompt that were computed before the last one: they have no tokens.
    parts_s: f64,
    /// Expected seconds of the last part, which has the first token.
    last_s: f64,
    pub(super) recompute_s: f64,
    pub(super) stall_s: f64,
}

impl Iteration {
    pub(super) fn seconds(&self) -> f64 {
        self.end - self.start
    }

    /// Whether its request met an idle engine, so that it began when the request arrived.
    pub(super) fn met_idle_engine(&self) -> bool {
        self.is_idle && !self.was_busy
    }

    fn sequences(&self) -> f64 {
        self.running + self.prompts.prompts
    }

    /// Tokens in the KV cache; the last block of a sequence is half full.
    fn cache(&self) -> f64 {
        let context = self.decode.context + self.prompts.context + self.recomputed.context;
        context + BLOCK / 2.0 * self.sequences()
    }

    fn contents(&self) -> Load {
        self.decode + self.prompts + self.chunk
    }

    /// Prompt tokens in it.
    pub(super) fn prefill(&self) -> f64 {
        self.prompts.prefill + self.chunk.prefill
    }
}

pub(super) struct Timeline<'a> {
    pub(super) streams: &'a [Stream],
    pub(super) iterations: Vec<Iteration>,
    /// Whether an iteration is scheduled when the one before it starts (asynchronous scheduling).
    pub(super) is_async: bool,
    /// The iteration with the first token of each stream, the first one with a part of its prompt, and that with its
    /// last token.
    pub(super) first: Vec<usize>,
    pub(super) admitted: Vec<usize>,
    pub(super) last: Vec<usize>,
    /// Prompt tokens in the iteration with the first token.
    pub(super) remaining: Vec<f64>,
    /// Chunks of prompts before that: iteration and tokens, by stream.
    pub(super) chunks: Vec<Vec<(usize, f64)>>,
    /// Pauses of preempted streams: the iterations of the tokens before and after, by stream.
    pub(super) pauses: Vec<Vec<(usize, usize)>>,
    began: Vec<Vec<usize>>,
    /// Longest iteration whose tokens are late where the next one has prompts, if they are.
    late_up_to: Option<f64>,
    /// Least time from sending to the engine.
    pub(super) least_front: f64,
    /// The largest observed value of each limit; of tokens, infinite unless prompts filled iterations.
    pub(super) caps: [f64; 3],
    /// Bounds of the most tokens, by the iterations of prompts that shared none with another.
    pub(super) held: Option<Held>,
    /// Whether a preempted stream waited in an iteration.
    has_preempted: Vec<bool>,
    /// Median time in which the tokens of an iteration arrived, as a fraction of an iteration.
    pub(super) apart: f64,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(streams: &'a [Stream], is_async: bool) -> Self {
        let traced: Vec<&Traced> = streams.iter().map(|stream| &stream.traced).collect();
        let clusters = joined(clusters(&traced), streams);
        let count = streams.len();
        let mut timeline = Timeline {
            streams,
            iterations: Vec::with_capacity(clusters.len()),
            is_async,
            first: vec![0; count],
            admitted: Vec::new(),
            last: vec![0; count],
            remaining: streams.iter().map(Stream::computed).collect(),
            chunks: vec![Vec::new(); count],
            pauses: vec![Vec::new(); count],
            began: Vec::with_capacity(clusters.len()),
            late_up_to: None,
            least_front: 0.0,
            caps: [0.0, 0.0, f64::INFINITY],
            held: None,
            has_preempted: vec![false; clusters.len()],
            apart: 0.0,
        };
        timeline.read(&clusters);
        timeline.admitted = timeline.first.clone();
        for (from, to) in timeline.pauses.iter().flatten() {
            timeline.has_preempted[from + 1..*to].fill(true);
            timeline.iterations[from + 1..=*to].iter_mut().for_each(|one| one.running -= 1.0);
        }
        if is_async {
            timeline.keep_ended();
        }
        let max = |of: fn(&Iteration) -> f64| {
            let mut values: Vec<f64> = timeline.iterations.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            percentile(&values, 99.0)
        };
        (timeline.caps[0], timeline.caps[1]) = (max(Iteration::sequences), max(Iteration::cache));
        timeline.least_front = timeline.least_front(false);
        timeline.find_heads();
        timeline.find_limits();
        timeline
    }

    fn read(&mut self, clusters: &[Cluster]) {
        let usual = median(clusters.windows(2).map(|pair| pair[1].at - pair[0].at));
        let (mut running, mut before, mut expected) = (0, f64::NEG_INFINITY, 0);
        for (at, cluster) in clusters.iter().enumerate() {
            let start = if before.is_finite() { before } else { cluster.at };
            let mut one = Iteration { start, end: cluster.at, is_idle: running == 0, ..Iteration::default() };
            one.running = running as f64;
            let (mut next, mut late, mut began, mut ended) = (0, 0, Vec::new(), 0);
            for &(stream, index) in &cluster.tokens {
                let (traced, last) = (&self.streams[stream].traced, self.last[stream]);
                let context = traced.prompt as f64 + index as f64;
                self.last[stream] = at;
                ended += usize::from(index + 1 == traced.tokens.len());
                match index {
                    0 => {
                        one.prompts = one.prompts + self.streams[stream].prefill();
                        self.first[stream] = at;
                        began.push(stream);
                    }
                    _ if at - last > MIN_PAUSE.0 && cluster.at - clusters[last].at > MIN_PAUSE.1 * usual => {
                        one.recomputed = one.recomputed + Load::prefill(0.0, context);
                        self.pauses[stream].push((last, at));
                    }
                    _ => {
                        one.decode = one.decode + Load::decode(context);
                        *(if at - last == 1 { &mut next } else { &mut late }) += 1;
                    }
                }
            }
            one.is_clear = next == expected && late == 0 && one.recomputed == Load::default();
            expected = cluster.tokens.len() - ended;
            running = running + began.len() - ended;
            before = cluster.at;
            self.iterations.push(one);
            self.began.push(began);
        }
        let several = clusters.iter().filter(|cluster| cluster.tokens.len() > 1);
        self.apart = median(several.map(|cluster| cluster.until - cluster.at)) / usual.max(f64::MIN_POSITIVE);
    }

    /// A low order statistic of the time from sending to the scheduling of the iteration of the first token: no request can
    /// have needed longer to get to the engine. An idle engine shows it as well, once its starts are known.
    fn least_front(&self, has_starts: bool) -> f64 {
        let wait = |stream: usize| {
            let at = self.first[stream];
            let is_known = has_starts || !self.iterations[at].is_idle;
            let wait = is_known.then(|| self.scheduled(at) - self.streams[stream].traced.sent);
            wait.filter(|wait| *wait > 0.0)
        };
        let mut waits: Vec<f64> = (0..self.streams.len()).filter_map(wait).collect();
        waits.sort_unstable_by(f64::total_cmp);
        waits.get((waits.len() / 100).clamp(1, 5)).copied().unwrap_or(0.0)
    }

    /// Finds the limit at which the engine refused the first refused request of each iteration.
    fn find_limits(&mut self) {
        let mut refused = 0.0;
        let mut at_limit = [0.0; 2];
        // What is full of tokens says nothing about the other limits.
        let others = |at: &usize| self.iterations[*at].head.is_some() && !self.has_full_tokens(*at);
        for at in (0..self.iterations.len()).filter(others) {
            let one = &self.iterations[at];
            refused += one.seconds();
            let limits = [self.is_full(one), self.has_full_cache(at)];
            at_limit.iter_mut().zip(limits).for_each(|(sum, is)| *sum += if is { one.seconds() } else { 0.0 });
        }
        let is_limit = at_limit.map(|seconds| seconds > MIN_AT_LIMIT * refused);
        for at in 0..self.iterations.len() {
            let one = &self.iterations[at];
            self.iterations[at].blocked = match one.head {
                None => None,
                Some(_) if is_limit[0] && self.is_full(one) => Some(QueueLimit::Sequences),
                Some(_) if is_limit[1] && self.has_full_cache(at) => Some(QueueLimit::KvCache),
                Some(_) => self.has_full_tokens(at).then_some(QueueLimit::Tokens),
            };
            // What was refused is admitted when the last sequence of the batch ends: the engine had no idle time.
            if at > 0 && self.iterations[at].is_idle && self.iterations[at - 1].blocked == Some(QueueLimit::Sequences) {
                let start = self.iterations[at - 1].end;
                self.iterations[at] = Iteration { is_idle: false, start, ..self.iterations[at] };
            }
        }
    }

    /// Whether the first refused request would not have fitted in addition to the prompts that began.
    fn has_full_tokens(&self, at: usize) -> bool {
        let one = &self.iterations[at];
        let tokens = |head: usize| (one.decode + one.prompts).tokens() + self.remaining[head];
        one.prompts.prefill > 0.0 && one.head.is_some_and(|head| tokens(head) > FULL * self.caps[2])
    }

    /// The most tokens of an iteration, where iterations with several prompts are full of them though more are queued. A
    /// front end that passes requests on one after another shows no such number: its iterations hold as many as had come.
    fn budget(&self) -> Option<f64> {
        let (mut budget, mut chains) = (Budget::default(), Chains::default());
        for (at, (one, began)) in self.iterations.iter().zip(&self.began).enumerate() {
            let prompts = began.iter().map(|stream| self.streams[*stream].computed());
            let step = one.is_clear.then(|| Full::of(one.decode.decodes as usize, prompts));
            // What an idle engine starts with is not full: of requests that are sent together, one comes first.
            let next = one.head.filter(|_| !one.is_idle && !self.is_full(one) && !self.has_full_cache(at));
            budget.add_step(&mut chains, step, next.map(|head| self.streams[head].computed()));
        }
        budget.infer(None).0.map(|held| held.limit as f64)
    }

    fn is_full(&self, one: &Iteration) -> bool {
        self.caps[0] > 1.0 && one.sequences() >= FULL_BATCH * self.caps[0]
    }

    fn has_full_cache(&self, at: usize) -> bool {
        let one = &self.iterations[at];
        let next = one.head.map_or(0.0, |head| self.streams[head].traced.prompt as f64);
        self.has_preempted[at] || one.cache() + next > FULL_CACHE * self.caps[1]
    }

    fn find_heads(&mut self) {
        let mut order: Vec<usize> = (0..self.streams.len()).collect();
        let sent = |stream: usize| self.streams[stream].traced.sent;
        order.sort_unstable_by(|one, other| sent(*one).total_cmp(&sent(*other)));
        let (mut next, mut pending) = (0, VecDeque::new());
        for at in 0..self.iterations.len() {
            let scheduled = self.scheduled(at);
            let came = |stream: usize| sent(stream) + 0.8 * self.least_front < scheduled;
            while let Some(&stream) = order.get(next).filter(|stream| came(**stream)) {
                pending.push_back(stream);
                next += 1;
            }
            while pending.front().is_some_and(|stream| self.first[*stream] <= at) {
                pending.pop_front();
            }
            // Requests that overtook the first one pile up behind it.
            if pending.len() > 64 && pending.iter().filter(|stream| self.first[**stream] <= at).count() > 32 {
                pending.retain(|stream| self.first[*stream] > at);
            }
            self.iterations[at].head = pending.front().copied();
        }
    }

    /// Estimates the costs, unless a profile has them, and what each iteration spent its time on.
    pub(super) fn price<'m>(&mut self, machine: Option<&'m Machine>) -> Model<'m> {
        let mut model = self.model(machine);
        if self.sends_late(&model) {
            for _ in 0..LATE_ROUNDS {
                self.retime(&model);
                model = self.model(machine);
            }
        }
        self.find_starts(&model);
        // Where every request waits for others, only those that met an idle engine show the way to it.
        let min = self.least_front(true);
        if min > 0.0 && min < 0.5 * self.least_front {
            self.least_front = min;
            self.find_heads();
            self.find_limits();
        }
        let known = machine.map(|machine| machine.engine.max_num_batched_tokens as f64);
        if let Some(max) = known.or_else(|| self.budget()).or_else(|| self.split(&model)) {
            self.caps[2] = max;
            self.find_limits();
            if machine.is_none() {
                model = self.model(None);
            }
            self.split(&model);
        }
        self.iterations.iter_mut().for_each(|one| charge(one, &model));
        model
    }

    fn model<'m>(&self, machine: Option<&'m Machine>) -> Model<'m> {
        let costs = match machine {
            Some(machine) => Source::Profile(&machine.cost),
            None => Source::Estimated(Box::new(self.estimate())),
        };
        let mut model = Model { costs, noise: 0.0 };
        model.noise = self.noise(&model);
        model
    }

    /// Finds the starts of iterations and the parts of prompts in them; returns the most tokens of an iteration, if
    /// prompts fill them.
    fn split(&mut self, model: &Model<'_>) -> Option<f64> {
        self.remaining = self.streams.iter().map(Stream::computed).collect();
        self.chunks.iter_mut().for_each(Vec::clear);
        for (one, began) in self.iterations.iter_mut().zip(&self.began) {
            let whole = |stream: &usize| self.streams[*stream].prefill();
            (one.chunk, one.prompts) = (Load::default(), began.iter().map(whole).fold(Load::default(), Load::add));
        }
        self.find_starts(model);
        for at in 0..self.iterations.len() {
            for began in 0..self.began[at].len() {
                self.place_chunks(model, self.began[at][began], at);
            }
        }
        let mut is_filled = vec![false; self.iterations.len()];
        let parts =
            (0..self.streams.len()).filter(|stream| !self.is_whole(*stream)).flat_map(|stream| &self.chunks[stream]);
        parts.for_each(|(at, _)| is_filled[*at] = true);
        let numbered = || self.iterations.iter().zip(&is_filled);
        let filled = || numbered().filter(|(_, is)| **is).map(|(one, _)| one.contents().tokens());
        if filled().count() < FILLED.0 {
            return None;
        }
        if self.caps[2].is_infinite() {
            self.held = self.bounds(model);
        }
        let middle = median(filled());
        let power = middle.max(1.0).log2().round().exp2();
        match spread(filled()) / middle.max(1.0) {
            _ if (middle / power - 1.0).abs() < NEAR_POWER => Some(power),
            off if off < FILLED.1 => Some(middle),
            off if off < FILLED.2 => Some(power),
            _ => None,
        }
    }

    /// Whether one earlier iteration computed the prompt: its first token was sent late, or the engine schedules ahead. That
    /// says nothing of the most tokens of an iteration.
    fn is_whole(&self, stream: usize) -> bool {
        self.remaining[stream] < (1.0 - WHOLE) * self.streams[stream].computed() && self.chunks[stream].len() == 1
    }

    fn noise(&self, model: &Model<'_>) -> f64 {
        let plain = self.iterations.iter().filter(|one| one.is_clear && !one.is_idle && one.head.is_none());
        spread(plain.map(|one| one.seconds() / model.seconds(&one.contents()).max(1e-9))).max(0.005)
    }

    /// An idle engine starts when a request arrives: its first iteration takes as long as expected, and no longer than since
    /// its last request was sent.
    fn find_starts(&mut self, model: &Model<'_>) {
        let (max, mut before) = (self.caps[2], f64::NEG_INFINITY);
        for (one, began) in self.iterations.iter_mut().zip(&self.began) {
            if one.is_idle {
                let parts = (one.prompts.prefill / max).ceil().clamp(1.0, MAX_GROUP as f64);
                let contexts = (1..parts as usize).map(|part| part as f64 * max);
                one.parts_s =
                    contexts.map(|context| model.seconds(&Load { prompts: 1.0, context, ..Load::default() })).sum();
                let whole = model.seconds(&(one.decode + one.prompts));
                one.last_s = if parts > 1.0 {
                    whole - model.added(&one.decode, &Load::prefill(0.0, (parts - 1.0) * max))
                } else {
                    whole
                };
                let sent = began.iter().map(|stream| self.streams[*stream].traced.sent).fold(before, f64::max);
                let expected = one.end - whole - one.parts_s;
                one.start = expected.max(sent).min(one.end);
                one.was_busy = self.is_async && one.start - before < BUSY * model.noise * (one.end - expected);
            }
            before = one.end;
        }
        // When the next ones are scheduled depends on them.
        if self.is_async {
            self.find_heads();
            self.find_limits();
        }
    }
}

/// Joins clusters that late tokens split: every stream of an iteration has a token in the next.
fn joined(clusters: Vec<Cluster>, streams: &[Stream]) -> Vec<Cluster> {
    let usual = median(clusters.windows(2).map(|pair| pair[1].at - pair[0].at));
    let mut joined: Vec<Cluster> = Vec::with_capacity(clusters.len());
    let mut seen = vec![usize::MAX; streams.len()];
    for cluster in clusters {
        let number = joined.len().wrapping_sub(1);
        let is_last = |(stream, index): &(usize, usize)| index + 1 == streams[*stream].traced.tokens.len();
        let is_split = joined.last().is_some_and(|before| {
            cluster.at - before.at < 0.5 * usual
                && !before.tokens.iter().all(is_last)
                && cluster.tokens.iter().all(|(stream, _)| seen[*stream] != number)
        });
        let number = if is_split { number } else { joined.len() };
        cluster.tokens.iter().for_each(|(stream, _)| seen[*stream] = number);
        match joined.last_mut().filter(|_| is_split) {
            Some(before) => {
                before.until = cluster.until;
                before.tokens.extend(cluster.tokens);
            }
            None => joined.push(cluster),
        }
    }
    joined
}

fn charge(one: &mut Iteration, model: &Model<'_>) {
    let seconds = one.seconds();
    one.decode_s = model.seconds(&one.decode);
    one.prefill_s = model.added(&one.decode, &(one.prompts + one.chunk)) + if one.is_idle { one.parts_s } else { 0.0 };
    // Blocks of a preempted stream may still be cached: it recomputes at most its context.
    let rest = (seconds - one.decode_s - one.prefill_s).max(0.0);
    one.recompute_s = model.added(&one.contents(), &one.recomputed).min(rest);
    let expected = one.decode_s + one.prefill_s + one.recompute_s;
    let over = seconds - expected;
    if over > (STALL.0 * model.noise).max(STALL.1) * expected && !one.is_idle {
        one.stall_s = over;
    } else if over < -STALL.0 * model.noise * expected {
        // Cached prompts that the server does not report, or a part of an iteration whose tokens came apart.
        one.prefill_s = (one.prefill_s + over).max(0.0);
        one.decode_s = one.decode_s.min(seconds - one.prefill_s);
    }
}
