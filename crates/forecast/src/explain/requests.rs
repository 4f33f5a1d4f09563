//! The parts of each request's latency, from the iterations that it waited for or took part in.

mod in_turn;

use tacho_metrics::Attribution;
use tacho_metrics::attribution::{AttributedRequest, PARTS, Part, Parts, QueueLimit};

use super::Stream;
use super::iterations::{Iteration, Timeline};
use super::model::{Load, Model};
use crate::fit::robust::{median, spread};

/// Successive iterations without a refusal at a limit: they would have admitted a request that had arrived.
const MIN_OPEN: usize = 3;
/// Fewest waits that determine the usual time to the engine.
const MIN_WAITS: usize = 8;
/// Square of the robust standard deviation of a uniform distribution of width one.
const UNIFORM: f64 = 0.1374;
/// Standard deviations of the time to the engine, and part of the usual wait, beyond which an idle engine stalled.
const HICCUP: (f64, f64) = (6.0, 1.0);
/// Least time at a limit that is one, as a part of the run and of the time that requests were queued: the lower one counts.
const MIN_LIMITED: (f64, f64) = (0.005, 0.1);

/// Sums over all iterations up to each, so that those of a request are two lookups.
struct Sums {
    decode: Vec<f64>,
    prefill: Vec<f64>,
    recompute: Vec<f64>,
    stall: Vec<f64>,
}

impl Sums {
    fn of(iterations: &[Iteration]) -> Self {
        let sums = |of: fn(&Iteration) -> f64| {
            let add = |sum: &mut f64, one: &Iteration| {
                *sum += of(one);
                Some(*sum)
            };
            std::iter::once(0.0).chain(iterations.iter().scan(0.0, add)).collect()
        };
        Sums {
            decode: sums(|one| one.decode_s),
            prefill: sums(|one| one.prefill_s),
            recompute: sums(|one| one.recompute_s),
            stall: sums(|one| one.stall_s),
        }
    }
}

/// The sum over the iterations after `from` up to `to`.
fn between(sums: &[f64], from: usize, to: usize) -> f64 {
    sums[to + 1] - sums[from + 1]
}

struct Split<'a> {
    timeline: &'a Timeline<'a>,
    model: &'a Model<'a>,
    sums: Sums,
    /// The last of [`MIN_OPEN`] iterations up to each one that would have admitted a request.
    open: Vec<Option<usize>>,
    /// Time of each request in a front end that takes them in turn; zero where it does not.
    turns: Vec<f64>,
    /// Usual time from sending to the engine without that, and its standard deviation between requests.
    front: f64,
    front_spread: f64,
    from_schedule: bool,
}

pub(super) fn attribute(timeline: &Timeline<'_>, model: &Model<'_>, from_schedule: bool) -> Attribution {
    let mut open = Vec::with_capacity(timeline.iterations.len());
    let (mut last, mut run) = (None, 0);
    for (at, one) in timeline.iterations.iter().enumerate() {
        run = if one.blocked.is_none() { run + 1 } else { 0 };
        last = if run >= MIN_OPEN { Some(at) } else { last };
        open.push(last);
    }
    let sums = Sums::of(&timeline.iterations);
    let turns = vec![0.0; timeline.streams.len()];
    let mut split = Split { timeline, model, sums, open, turns, front: 0.0, front_spread: 0.0, from_schedule };
    let all = || (0..timeline.streams.len()).filter(|stream| timeline.streams[*stream].is_attributed);
    let iteration = median(timeline.iterations.iter().map(Iteration::seconds));
    let observed: Vec<Observed> = all().filter_map(|stream| split.observed_front(stream)).collect();
    let is_known = observed.len() >= MIN_WAITS;
    if is_known && let Some(turns) = in_turn::turns(timeline.streams, &observed, iteration) {
        split.turns = turns;
    }
    let waits: Vec<f64> = observed.iter().map(|one| one.middle - split.turns[one.stream]).collect();
    if is_known {
        let width = median(observed.iter().map(|one| one.width));
        split.front = median(waits.iter().copied()).max(0.0);
        split.front_spread = (spread(waits.iter().copied()).powi(2) - UNIFORM * width * width).max(0.0).sqrt();
    } else {
        split.front = timeline.least_front;
    }
    let requests: Vec<AttributedRequest> = all().map(|stream| split.request(stream)).collect();
    let error = match is_known {
        true => 1.2533 * spread(waits.iter().copied()) / (waits.len() as f64).sqrt() + 0.02 * iteration,
        false => 0.3 * iteration,
    };
    let ((relative, absolute), limits) = (split.uncertainty(error), split.limits(&requests));
    Attribution {
        requests,
        from_schedule,
        content_lag: None,
        relative,
        absolute,
        limits,
        iterations: timeline.iterations.len(),
        per_prompt_token: model.added(&Load::default(), &Load::prefill(0.0, 1000.0)) / 1000.0,
        iteration,
    }
}

/// The time from sending to the engine, where its bounds are at most an iteration apart.
#[derive(Debug, Clone, Copy)]
struct Observed {
    stream: usize,
    middle: f64,
    width: f64,
}

impl Split<'_> {
    /// Bounds of the time from sending to the engine: it arrived before its first iteration, and after the last one that
    /// would have admitted it.
    fn bounds(&self, stream: usize) -> (f64, f64) {
        let wait = |at: usize| (self.timeline.scheduled(at) - self.timeline.streams[stream].traced.sent).max(0.0);
        let admitted = self.timeline.admitted[stream];
        let high = wait(admitted);
        let low = admitted.checked_sub(1).and_then(|before| self.open[before]).map_or(0.0, wait);
        (low.min(high), high)
    }

    fn observed_front(&self, stream: usize) -> Option<Observed> {
        let wait = |at: usize| self.timeline.scheduled(at) - self.timeline.streams[stream].traced.sent;
        let admitted = self.timeline.admitted[stream];
        let high = wait(admitted);
        if self.timeline.iterations[admitted].met_idle_engine() {
            return (high >= 0.0).then_some(Observed { stream, middle: high, width: 0.0 });
        }
        // A bound before sending is one too: without it the middle would be too high.
        let before = admitted.checked_sub(1).filter(|before| self.open[*before] == Some(*before))?;
        let low = wait(before);
        let observed = Observed { stream, middle: (low + high) / 2.0, width: high - low };
        (!self.timeline.streams[stream].is_retried && high >= 0.0).then_some(observed)
    }

    /// The time from sending to the engine, and the rest of the wait if an idle engine stalled. Between the bounds, it is
    /// the usual time where requests are alike, and the middle where they differ by more than an iteration.
    fn front(&self, stream: usize) -> (f64, f64) {
        let ((low, high), usual) = (self.bounds(stream), self.front + self.turns[stream]);
        let one = &self.timeline.iterations[self.timeline.admitted[stream]];
        if one.met_idle_engine() {
            let longest = usual + HICCUP.0 * self.front_spread + HICCUP.1 * (usual + one.seconds());
            return if high > longest { (usual, high - usual) } else { (high, 0.0) };
        }
        let (variance, width) = (self.front_spread.powi(2), high - low);
        if usual < low {
            return ((low + high) / 2.0, 0.0);
        }
        let weight = variance / (variance + width * width / 12.0).max(f64::MIN_POSITIVE);
        ((usual + weight * ((low + high) / 2.0 - usual)).clamp(low, high), 0.0)
    }

    fn request(&self, stream: usize) -> AttributedRequest {
        let one = &self.timeline.streams[stream];
        let before = self.before_sending(one);
        let (ttft, stalled_in_queue) = if one.is_retried { <_>::default() } else { self.first_token(stream) };
        let mut e2el = ttft;
        self.decode(stream, &mut e2el);
        let with_client = |mut parts: Parts, arrived: usize, latency: i64| {
            let event = one.traced.sent + latency as f64 / 1e9;
            parts.add(Part::Streaming, (event - self.timeline.iterations[arrived].end).max(0.0));
            let mut parts = parts.of(latency);
            before.iter().for_each(|(part, nanos)| parts[*part] += nanos);
            parts
        };
        AttributedRequest {
            index: one.index,
            sent: one.traced.sent,
            prompt: one.traced.prompt,
            cached: one.cached,
            server: one.times,
            gaps: one.traced.tokens.len() as u64 - 1,
            stalled_in_queue,
            ttft: with_client(ttft, self.timeline.first[stream], one.ttft_ns),
            e2el: with_client(e2el, self.timeline.last[stream], one.latency_ns),
        }
    }

    /// The client's delays before sending, which count in an open loop.
    fn before_sending(&self, one: &Stream) -> [(Part, i64); 2] {
        let nanos = |seconds: f64| if self.from_schedule { (seconds * 1e9).round() as i64 } else { 0 };
        [(Part::DispatchDelay, nanos(one.client[0])), (Part::SlotWait, nanos(one.client[1]))]
    }

    /// From sending to the end of the iteration with the first token, and the nanoseconds of stalls before its first one.
    fn first_token(&self, stream: usize) -> (Parts, i64) {
        let (timeline, mut parts) = (self.timeline, Parts::default());
        let one = &timeline.streams[stream];
        let ((front, hiccup), admitted) = (self.front(stream), timeline.admitted[stream]);
        let connect = one.client[2].min(front);
        parts.add(Part::Connection, connect);
        parts.add(Part::FrontEnd, front - connect);
        let start = timeline.iterations[admitted].start;
        let stalled = if hiccup > 0.0 { hiccup } else { self.stalls(one.traced.sent + front, admitted) };
        parts.add(Part::Stall, stalled);
        let stalled_in_queue = parts[Part::Stall];
        parts.add(Part::Queue, start - one.traced.sent - front - stalled);
        let base = self.model.seconds(&Load::default());
        let mut chunks = timeline.chunks[stream].iter().copied().peekable();
        for at in admitted..=timeline.first[stream] {
            let iteration = &timeline.iterations[at];
            let chunk = chunks.next_if(|chunk| chunk.0 == at).map_or(0.0, |chunk| chunk.1);
            let own = if at == timeline.first[stream] { timeline.remaining[stream] } else { chunk };
            let share = (own / iteration.prefill().max(own).max(1.0)).clamp(0.0, 1.0);
            parts.add(Part::OwnPrefill, base + share * iteration.prefill_s);
            parts.add(Part::OtherPrefills, (1.0 - share) * iteration.prefill_s);
            parts.add(Part::BatchGrowth, iteration.decode_s - base);
            parts.add(Part::Preemption, iteration.recompute_s);
            parts.add(Part::Stall, iteration.stall_s);
        }
        (parts, stalled_in_queue)
    }

    /// Seconds of stalls from a time to the start of an iteration.
    fn stalls(&self, from: f64, until: usize) -> f64 {
        let iterations = &self.timeline.iterations;
        let first = iterations[..until].partition_point(|one| one.end <= from);
        if first >= until {
            return 0.0;
        }
        let one = &iterations[first];
        let part = ((one.end - from) / one.seconds().max(1e-9)).clamp(0.0, 1.0);
        self.sums.stall[until] - self.sums.stall[first + 1] + part * one.stall_s
    }

    /// From the iteration of the first token to that of the last.
    fn decode(&self, stream: usize, parts: &mut Parts) {
        let timeline = self.timeline;
        let (first, last) = (timeline.first[stream], timeline.last[stream]);
        let traced = &timeline.streams[stream].traced;
        let context = traced.prompt as f64 + traced.tokens.len() as f64 / 2.0;
        let alone = self.model.seconds(&Load::decode(context));
        let sums = |from: usize, to: usize| {
            [&self.sums.decode, &self.sums.prefill, &self.sums.recompute].map(|sums| between(sums, from, to))
        };
        let [mut decode, mut prefill, mut recompute] = sums(first, last);
        let count = (traced.tokens.len() - 1 - timeline.pauses[stream].len()) as f64;
        for &(from, to) in &timeline.pauses[stream] {
            let [of_decode, of_prefill, of_recompute] = sums(from, to);
            (decode, prefill, recompute) = (decode - of_decode, prefill - of_prefill, recompute - of_recompute);
            let pause = timeline.iterations[to].end - timeline.iterations[from].end;
            parts.add(Part::OwnDecode, alone);
            parts.add(Part::Preemption, pause - alone - between(&self.sums.stall, from, to));
        }
        parts.add(Part::OwnDecode, count * alone);
        parts.add(Part::BatchGrowth, decode - count * alone);
        parts.add(Part::OtherPrefills, prefill);
        parts.add(Part::Preemption, recompute);
        parts.add(Part::Stall, between(&self.sums.stall, first, last));
    }

    /// Standard uncertainties: relative ones from the cost model, and seconds from the time to the engine.
    fn uncertainty(&self, front: f64) -> ([f64; PARTS], [f64; PARTS]) {
        let (fixed, prefill) = self.model.errors();
        let base = self.model.seconds(&Load::decode(0.0)).max(1e-9);
        let count = self.timeline.iterations.len().max(1) as f64;
        let growth = (self.sums.decode.last().copied().unwrap_or(0.0) / count - base).max(base * 0.05);
        let (mut relative, mut absolute) = ([0.0; PARTS], [0.0; PARTS]);
        let model = [
            (Part::OwnPrefill, prefill.max(0.02)),
            (Part::OtherPrefills, prefill.max(0.02)),
            (Part::OwnDecode, (fixed / base).max(0.02)),
            (Part::BatchGrowth, (fixed / growth).clamp(0.02, 1.0)),
            (Part::Preemption, 0.05),
            (Part::Stall, self.model.noise.max(0.02)),
        ];
        model.into_iter().for_each(|(part, error)| relative[part as usize] = error);
        [Part::FrontEnd, Part::Queue].iter().for_each(|part| absolute[*part as usize] = front);
        (relative, absolute)
    }

    /// Seconds of iterations in which each limit refused a request, and its observed value. Few of them are chance, and a limit
    /// on tokens that was not found is not known to be one.
    fn limits(&self, requests: &[AttributedRequest]) -> Vec<(QueueLimit, f64, f64)> {
        let all = || self.timeline.iterations.iter();
        let queued: i64 = requests.iter().map(|request| request.ttft[Part::Queue]).sum();
        let min = (MIN_LIMITED.0 * all().map(Iteration::seconds).sum::<f64>()).min(MIN_LIMITED.1 * queued as f64 / 1e9);
        let seconds = |limit: QueueLimit| all().filter(|one| one.blocked == Some(limit)).map(Iteration::seconds).sum();
        let caps = QueueLimit::ALL.into_iter().zip(self.timeline.caps).map(|(limit, cap)| (limit, seconds(limit), cap));
        caps.map(|(limit, seconds, cap): (_, f64, f64)| {
            (limit, if cap.is_finite() && seconds > min { seconds } else { 0.0 }, cap)
        })
        .collect()
    }
}
