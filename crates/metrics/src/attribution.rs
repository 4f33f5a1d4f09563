//! Where the time of requests went: the parts of a latency, which add up to it, and their means.

use std::ops::{Index, IndexMut};

use tacho_core::ServerTimes;

tacho_core::named! {
    /// A part of a latency, in the order in which it passes.
    pub enum Part {
        /// From the scheduled time until the client dispatched the request.
        DispatchDelay = "dispatch_delay",
        /// Wait for a concurrency slot of the client.
        SlotWait = "slot_wait",
        /// Connecting: TCP and TLS.
        Connection = "connection",
        /// Network and the server in front of the engine: HTTP, chat template, tokenization.
        FrontEnd = "front_end",
        /// From arrival at the engine until its first iteration.
        Queue = "queue",
        /// The iterations of its prompt, as they would be alone.
        OwnPrefill = "own_prefill",
        /// Prefills of other requests in its iterations.
        OtherPrefills = "other_prefills",
        /// Decode iterations, as they would be alone.
        OwnDecode = "own_decode",
        /// Iterations that are longer because others decode in them.
        BatchGrowth = "batch_growth",
        /// Pauses of a preempted request, and recomputation, its own and that of others.
        Preemption = "preemption",
        /// Iterations that took much longer than their contents explain.
        Stall = "stall",
        /// Delivery: tokens of an iteration arrive one after another, and events without a token end a stream.
        Streaming = "streaming",
        /// The rest.
        Unexplained = "unexplained",
    }
}

/// Highest use of the KV cache below which it held no request back, and from which it did if requests were preempted.
const MIN_CACHE_USE: f64 = 0.9;
const FULL_CACHE_USE: f64 = 0.98;
/// Largest unexplained fraction of a latency whose causes are named.
const MAX_UNEXPLAINED: f64 = 0.25;

/// Number of parts.
pub const PARTS: usize = Part::ALL.len();

impl Part {
    /// Its name in a sentence or a table.
    pub const fn label(self) -> &'static str {
        match self {
            Part::DispatchDelay => "client: dispatch delay",
            Part::SlotWait => "client: wait for a slot",
            Part::Connection => "client: connection",
            Part::FrontEnd => "network and front end",
            Part::Queue => "queue in the engine",
            Part::OwnPrefill => "own prefill",
            Part::OtherPrefills => "prefills of others",
            Part::OwnDecode => "own decode",
            Part::BatchGrowth => "batch growth",
            Part::Preemption => "preemption",
            Part::Stall => "stalls",
            Part::Streaming => "streaming",
            Part::Unexplained => "unexplained",
        }
    }

    /// Whether it is work that the request needs even if it is alone.
    pub const fn is_own_work(self) -> bool {
        matches!(self, Part::OwnPrefill | Part::OwnDecode)
    }
}

/// The parts of one latency in nanoseconds. Integers, so that their sum is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts([i64; PARTS]);

impl Parts {
    /// Their sum: the latency.
    pub fn total(&self) -> i64 {
        self.0.iter().sum()
    }

    /// Adds seconds to a part, rounded to nanoseconds.
    pub fn add(&mut self, part: Part, seconds: f64) {
        self[part] += (seconds * 1e9).round() as i64;
    }

    /// These parts with the rest of a latency as unexplained.
    #[must_use]
    pub fn of(mut self, latency_ns: i64) -> Self {
        self[Part::Unexplained] += latency_ns - self.total();
        self
    }
}

impl Index<Part> for Parts {
    type Output = i64;

    fn index(&self, part: Part) -> &i64 {
        &self.0[part as usize]
    }
}

impl IndexMut<Part> for Parts {
    fn index_mut(&mut self, part: Part) -> &mut i64 {
        &mut self.0[part as usize]
    }
}

/// The attribution of one request.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AttributedRequest {
    /// Its index in the workload.
    pub index: usize,
    /// When it was sent, in seconds from the start of the run.
    pub sent: f64,
    /// Prompt tokens.
    pub prompt: u64,
    /// Cached prompt tokens, where the server reports them.
    pub cached: Option<u64>,
    /// The server's own times, where it reports them per request.
    pub server: ServerTimes,
    /// Gaps between its tokens.
    pub gaps: u64,
    /// Nanoseconds of stalls before its first iteration: the engine counts them as queue.
    pub stalled_in_queue: i64,
    /// The parts of its TTFT.
    pub ttft: Parts,
    /// The parts of its end-to-end latency.
    pub e2el: Parts,
}

tacho_core::named! {
    /// The limit of the engine at which requests were queued.
    pub enum QueueLimit {
        /// The most sequences of an iteration.
        Sequences = "sequences",
        /// The KV cache.
        KvCache = "kv_cache",
        /// The most tokens of an iteration.
        Tokens = "tokens",
    }
}

/// The attribution of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attribution {
    /// Its successful requests.
    pub requests: Vec<AttributedRequest>,
    /// Whether latencies count from the scheduled time, as in an open loop; otherwise from sending.
    pub from_schedule: bool,
    /// Seconds from TTFT as reported to the first token, on average, where events without content come much earlier.
    /// TTFT counts to the first token here.
    pub content_lag: Option<f64>,
    /// Relative standard uncertainty of each part, from the cost model.
    pub relative: [f64; PARTS],
    /// Standard uncertainty of each part in seconds per request: of the times that split the wait for the first token.
    pub absolute: [f64; PARTS],
    /// Seconds of iterations in which requests were queued, by limit, and its observed value.
    pub limits: Vec<(QueueLimit, f64, f64)>,
    /// Reconstructed iterations.
    pub iterations: usize,
    /// Seconds per prompt token and the median iteration, by the cost model.
    pub per_prompt_token: f64,
    /// Median duration of an iteration, in seconds.
    pub iteration: f64,
}

tacho_core::named! {
    /// A latency whose parts are reported.
    pub enum Explained {
        /// Mean TTFT.
        MeanTtft = "mean_ttft",
        /// Mean TTFT of the slowest 1%: the requests at or above the rank of the p99.
        P99Ttft = "p99_ttft",
        /// Mean time per output token.
        MeanTpot = "mean_tpot",
        /// Mean end-to-end latency.
        MeanE2el = "mean_e2el",
        /// Mean end-to-end latency of the slowest 1%.
        P99E2el = "p99_e2el",
    }
}

/// The mean of the parts of several requests, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Breakdown {
    /// Number of requests.
    pub requests: usize,
    /// Mean of each part.
    pub parts: [f64; PARTS],
    /// Half-width of the 95% uncertainty of each part.
    pub half: [f64; PARTS],
}

impl Breakdown {
    /// The latency: the sum of the parts.
    pub fn total(&self) -> f64 {
        self.parts.iter().sum()
    }

    /// A part's fraction of the latency.
    pub fn share(&self, part: Part) -> f64 {
        self.parts[part as usize] / self.total().max(f64::MIN_POSITIVE)
    }

    /// Whether so much of it has no cause that none can be named.
    pub fn is_unexplained(&self) -> bool {
        self.share(Part::Unexplained).abs() > MAX_UNEXPLAINED
    }

    /// The largest part that is not the request's own work; `None` where nothing was added to it.
    pub fn largest(&self) -> Option<Part> {
        let others = Part::ALL.into_iter().filter(|part| !part.is_own_work());
        let value = |part: &Part| self.parts[*part as usize];
        others.max_by(|one, other| value(one).total_cmp(&value(other))).filter(|part| value(part) > 0.0)
    }
}

impl Attribution {
    /// Adds the requests of another run of the same configuration.
    pub fn append(&mut self, other: Attribution) {
        let (own, more) = (self.requests.len() as f64, other.requests.len() as f64);
        let mix = |one: f64, two: f64| (one * own + two * more) / (own + more).max(1.0);
        (0..PARTS).for_each(|at| self.relative[at] = mix(self.relative[at], other.relative[at]));
        (0..PARTS).for_each(|at| self.absolute[at] = mix(self.absolute[at], other.absolute[at]));
        self.per_prompt_token = mix(self.per_prompt_token, other.per_prompt_token);
        self.iteration = mix(self.iteration, other.iteration);
        let lag = |lag: Option<f64>| lag.unwrap_or(0.0);
        if self.content_lag.is_some() || other.content_lag.is_some() {
            self.content_lag = Some(mix(lag(self.content_lag), lag(other.content_lag)));
        }
        self.from_schedule = if self.requests.is_empty() { other.from_schedule } else { self.from_schedule };
        self.iterations += other.iterations;
        self.requests.extend(other.requests);
        for (limit, seconds, value) in other.limits {
            match self.limits.iter_mut().find(|(known, ..)| *known == limit) {
                Some(known) => (known.1, known.2) = (known.1 + seconds, known.2.max(value)),
                None => self.limits.push((limit, seconds, value)),
            }
        }
    }

    /// Decides by what the server reports whether its KV cache was the limit: its highest use, as a fraction, and whether
    /// it preempted requests. From outside, a full cache looks like a full batch where all requests have one length.
    pub fn settle_cache(&mut self, max: Option<f64>, has_preempted: bool) {
        let seconds = |from: QueueLimit, limits: &mut Vec<(QueueLimit, f64, f64)>| {
            let found = limits.iter_mut().find(|(limit, ..)| *limit == from);
            found.map_or(0.0, |found| std::mem::take(&mut found.1))
        };
        if max.is_some_and(|max| max < MIN_CACHE_USE) {
            seconds(QueueLimit::KvCache, &mut self.limits);
        }
        if has_preempted && max.is_some_and(|max| max >= FULL_CACHE_USE) {
            let of_batch = seconds(QueueLimit::Sequences, &mut self.limits);
            let cache = self.limits.iter_mut().find(|(limit, ..)| *limit == QueueLimit::KvCache);
            cache.into_iter().for_each(|cache| cache.1 += of_batch);
        }
    }

    /// The limit at which requests were queued for the most time, with its observed value.
    pub fn limit(&self) -> Option<(QueueLimit, f64)> {
        let max = self.limits.iter().filter(|(_, seconds, _)| *seconds > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        max.map(|(limit, _, value)| (*limit, *value))
    }

    /// The mean parts of a latency; `None` if no request has it.
    pub fn breakdown(&self, what: Explained) -> Option<Breakdown> {
        let of = |request: &AttributedRequest| match what {
            Explained::MeanTtft | Explained::P99Ttft => request.ttft,
            _ => request.e2el,
        };
        match what {
            Explained::MeanTtft | Explained::MeanE2el => self.mean(self.requests.iter().map(of)),
            Explained::P99Ttft | Explained::P99E2el => {
                let mut all: Vec<Parts> = self.requests.iter().map(of).collect();
                all.sort_unstable_by_key(|parts| std::cmp::Reverse(parts.total()));
                all.truncate(all.len().div_ceil(100));
                self.mean(all.into_iter())
            }
            Explained::MeanTpot => self.tpot(),
        }
    }

    fn mean(&self, all: impl Iterator<Item = Parts>) -> Option<Breakdown> {
        let (mut sums, mut count) = ([0i128; PARTS], 0);
        for parts in all {
            sums.iter_mut().zip(parts.0).for_each(|(sum, part)| *sum += i128::from(part));
            count += 1;
        }
        (count > 0).then(|| self.with_uncertainty(count, sums.map(|sum| sum as f64 / count as f64 / 1e6), true))
    }

    /// Parts of the time after the first token, per token.
    fn tpot(&self) -> Option<Breakdown> {
        let (mut sums, mut count) = ([0.0; PARTS], 0);
        for request in self.requests.iter().filter(|request| request.gaps > 0) {
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum += (request.e2el.0[at] - request.ttft.0[at]) as f64 / request.gaps as f64;
            }
            count += 1;
        }
        (count > 0).then(|| self.with_uncertainty(count, sums.map(|sum| sum / count as f64 / 1e6), false))
    }

    fn with_uncertainty(&self, requests: usize, parts: [f64; PARTS], has_first: bool) -> Breakdown {
        let mut half = [0.0; PARTS];
        for (at, half) in half.iter_mut().enumerate() {
            let absolute = if has_first { self.absolute[at] * 1e3 } else { 0.0 };
            *half = 1.96 * (self.relative[at] * parts[at]).hypot(absolute);
        }
        // What the others miss ends up here.
        half[Part::Unexplained as usize] = half.iter().map(|half| half * half).sum::<f64>().sqrt();
        Breakdown { requests, parts, half }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(index: usize, queue: i64, prefill: i64, decode: i64) -> AttributedRequest {
        let mut ttft = Parts::default();
        (ttft[Part::Queue], ttft[Part::OwnPrefill]) = (queue, prefill);
        let mut e2el = ttft;
        e2el[Part::OwnDecode] = decode;
        AttributedRequest { index, gaps: 2, ttft, e2el, ..AttributedRequest::default() }
    }

    fn run() -> Attribution {
        let one = |at: usize| request(at, at as i64 * 1_000_000, 2_000_000, 8_000_000);
        Attribution { requests: (0..200).map(one).collect(), ..Attribution::default() }
    }

    #[test]
    fn the_slowest_percent_is_at_or_above_the_rank_of_the_p99() {
        let run = run();
        let slow = run.breakdown(Explained::P99Ttft).unwrap();
        assert_eq!((slow.requests, slow.total()), (2, 200.5));
        assert_eq!((slow.parts[Part::Queue as usize], slow.largest()), (198.5, Some(Part::Queue)));
        let tpot = run.breakdown(Explained::MeanTpot).unwrap();
        assert_eq!((tpot.total(), tpot.largest()), (4.0, None), "own work is not a cause");
        assert_eq!(Attribution::default().breakdown(Explained::MeanTtft), None);
    }

    #[test]
    fn the_rest_is_unexplained_and_the_sum_exact() {
        let mut parts = Parts::default();
        parts.add(Part::Queue, 0.1234567894);
        let parts = parts.of(200_000_000);
        assert_eq!((parts.total(), parts[Part::Unexplained]), (200_000_000, 76_543_211));
    }

    #[test]
    fn the_server_knows_whether_its_cache_was_full() {
        let limit = |max: Option<f64>, has_preempted: bool| {
            let limits = vec![(QueueLimit::Sequences, 3.0, 18.0), (QueueLimit::KvCache, 1.0, 9600.0)];
            let mut run = Attribution { limits, ..Attribution::default() };
            run.settle_cache(max, has_preempted);
            (run.limit().unwrap(), run.limits[1].1)
        };
        let (batch, cache) = ((QueueLimit::Sequences, 18.0), (QueueLimit::KvCache, 9600.0));
        assert_eq!(limit(None, true), (batch, 1.0));
        assert_eq!((limit(Some(0.5), true), limit(Some(1.0), false)), ((batch, 0.0), (batch, 1.0)));
        assert_eq!(limit(Some(1.0), true), (cache, 4.0));
    }

    #[test]
    fn runs_are_pooled() {
        let mut both = run();
        both.append(run());
        assert_eq!(both.breakdown(Explained::MeanTtft).unwrap().requests, 400);
        assert_eq!(both.breakdown(Explained::MeanE2el).unwrap().total(), 99.5 + 2.0 + 8.0);
    }
}
