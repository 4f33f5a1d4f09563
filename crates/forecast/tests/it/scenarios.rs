//! Simulated runs with a planted cause: servers, arrivals, and the engine's own record of every iteration as the truth.

use std::{collections::VecDeque, sync::Arc};

use tacho_core::{ServerTimes, Timestamp};
use tacho_engine::{BatchShape, CostModel, Engine, EngineSpec, Finish, Job, SeqId};
use tacho_metrics::attribution::{AttributedRequest, Explained, Part, Parts};
use tacho_metrics::{Gaps, RareFields, Sample};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cause {
    Queueing,
    LongPrefills,
    SmallKvCache,
    Stalls,
    SlowFrontEnd,
    SlowClient,
    Network,
    Nothing,
    Burst,
    BurstInFront,
    ChunkedPrefills,
}

impl Cause {
    pub(crate) const PLANTED: [Cause; 9] = [
        Cause::Queueing,
        Cause::LongPrefills,
        Cause::ChunkedPrefills,
        Cause::SmallKvCache,
        Cause::Stalls,
        Cause::SlowFrontEnd,
        Cause::SlowClient,
        Cause::Network,
        Cause::Burst,
    ];

    /// The part that it makes the largest, and the latency in which it does.
    pub(crate) fn expected(self) -> (Part, Explained) {
        match self {
            Cause::Queueing => (Part::Queue, Explained::P99Ttft),
            Cause::Burst => (Part::Queue, Explained::MeanTtft),
            Cause::LongPrefills | Cause::ChunkedPrefills => (Part::OtherPrefills, Explained::MeanTpot),
            Cause::SmallKvCache => (Part::Preemption, Explained::MeanTpot),
            Cause::Stalls => (Part::Stall, Explained::MeanTpot),
            Cause::SlowFrontEnd | Cause::Network | Cause::BurstInFront => (Part::FrontEnd, Explained::MeanTtft),
            Cause::SlowClient => (Part::DispatchDelay, Explained::MeanTtft),
            Cause::Nothing => (Part::BatchGrowth, Explained::MeanTpot),
        }
    }
}

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

pub(crate) struct Server {
    pub(crate) spec: EngineSpec,
    cost: CostModel,
    noise: f64,
    /// Service time of a front end that takes requests in turn, and a constant, in seconds.
    front: (f64, f64),
    /// Network delay there and back, and mean jitter on the way there.
    network: (f64, f64, f64),
    /// Probability of a stall per iteration, and its mean seconds.
    stalls: (f64, f64),
    /// Mean dispatch delay of the client.
    client: f64,
}

pub(crate) struct Arrival {
    scheduled: f64,
    pub(crate) prompt: usize,
    output: usize,
}

/// A cause, and whether the engine schedules asynchronously.
pub(crate) type Planted = (Cause, bool);

/// A server and a load in which one cause dominates, drawn by seed.
pub(crate) fn scenario((cause, ahead): Planted, seed: u64, requests: usize) -> (Server, Vec<Arrival>, Random) {
    let mut random = Random(seed.wrapping_mul(1_000_003) + cause as u64 * 77);
    let scale = random.between(0.5, 2.0);
    let cost = CostModel {
        fixed_ns: 8e6 * scale,
        per_prefill_token_ns: 30e3 * scale * random.between(0.6, 1.5),
        per_sequence_ns: 150e3 * scale * random.between(0.5, 2.0),
        per_kv_token_ns: 150.0 * scale,
        per_attention_ns: 2.0 * scale,
        ..CostModel::FREE
    };
    let mut server = Server {
        spec: EngineSpec {
            num_blocks: 65_536,
            enable_prefix_caching: false,
            async_scheduling: ahead,
            ..EngineSpec::default()
        },
        cost,
        noise: random.between(0.005, 0.03),
        front: (0.0, random.between(0.5e-3, 3e-3)),
        network: (0.2e-3, 0.2e-3, 0.05e-3),
        stalls: (0.0, 0.0),
        client: 0.1e-3,
    };
    let (mut prompts, mut outputs, mut utilization) = ((50.0, 600.0), (20.0, 150.0), random.between(0.2, 0.5));
    // Requests that are sent at once, and the seconds from one burst to the next.
    let mut burst = None;
    let mut long = 0.0;
    match cause {
        Cause::Queueing => {
            server.spec.max_num_seqs = random.between(6.0, 24.0) as usize;
            utilization = random.between(0.95, 1.3);
        }
        Cause::LongPrefills => {
            long = random.between(0.15, 0.3);
            server.spec.max_num_batched_tokens = if random.unit() < 0.5 { 8192 } else { 2048 };
            utilization = random.between(0.15, 0.3);
        }
        Cause::ChunkedPrefills => {
            prompts = (200.0, random.between(2000.0, 6000.0));
            server.spec.max_num_batched_tokens = [512, 1000, 1024, 2048][(random.unit() * 4.0) as usize];
            utilization = random.between(0.1, 0.2);
        }
        Cause::SmallKvCache => {
            (prompts, outputs) = ((20.0, 120.0), (150.0, 500.0));
            server.spec.num_blocks = random.between(100.0, 200.0) as usize;
            utilization = random.between(1.1, 1.6);
        }
        Cause::Stalls => server.stalls = (random.between(0.01, 0.03), random.between(0.3, 0.8) * scale),
        Cause::SlowFrontEnd => server.front = (random.between(10e-3, 30e-3), random.between(40e-3, 150e-3)),
        Cause::SlowClient => server.client = random.between(0.05, 0.2),
        Cause::Network => server.network = (random.between(0.03, 0.08), random.between(0.03, 0.08), 5e-3),
        Cause::Burst | Cause::BurstInFront => {
            burst = Some((random.between(60.0, 300.0) as usize, 25.0 * scale));
            server.spec.max_num_seqs = 256;
            server.spec.max_num_batched_tokens = [1024, 2000, 4096][(random.unit() * 3.0) as usize];
            if cause == Cause::BurstInFront {
                server.front = (random.between(10e-3, 30e-3) * scale, random.between(1e-3, 50e-3));
            }
        }
        Cause::Nothing => utilization = random.between(0.5, 0.8),
    }
    // Slots of the batch, and the seconds that a request holds one.
    let output = (outputs.0 + outputs.1) / 2.0;
    let slots = match cause {
        Cause::Queueing => server.spec.max_num_seqs as f64,
        Cause::SmallKvCache => server.spec.num_blocks as f64 * 16.0 / (70.0 + output / 2.0),
        _ => 16.0,
    };
    let iteration = (cost.fixed_ns + slots * (cost.per_sequence_ns + 200.0 * cost.per_kv_token_ns)) / 1e9;
    let mut rate = utilization * slots / (output * iteration + 300.0 * cost.per_prefill_token_ns / 1e9);
    if cause == Cause::SlowFrontEnd {
        rate = rate.min(random.between(0.5, 0.8) / server.front.0);
    }
    let mut scheduled = 0.0;
    let arrivals = (0..requests).map(|at| {
        scheduled = match burst {
            Some((size, period)) => (at / size) as f64 * period,
            None => scheduled + random.exponential(1.0 / rate),
        };
        let is_long = random.unit() < long;
        let prompt = if is_long { random.between(3000.0, 12_000.0) } else { random.between(prompts.0, prompts.1) };
        Arrival { scheduled, prompt: prompt as usize, output: random.between(outputs.0, outputs.1) as usize }
    });
    let arrivals = arrivals.collect();
    (server, arrivals, random)
}

impl Server {
    /// An engine that schedules asynchronously and takes this many iterations to schedule one with prompts, and a part of one
    /// from then to its tokens.
    pub(crate) fn schedules_slowly(&mut self, iterations: f64) {
        self.spec.async_scheduling = true;
        self.noise = 0.0;
        self.cost.schedule_ns = iterations * (self.cost.fixed_ns + 8.0 * self.cost.per_sequence_ns);
        self.cost.drain_ns = 0.25 * self.cost.fixed_ns;
    }
}

/// An iteration of the engine: when it ran, and the seconds of each kind of work in it.
pub(crate) struct Iteration {
    start: f64,
    end: f64,
    stall: f64,
    base: f64,
    decode: f64,
    prefill: f64,
    recompute: f64,
    /// New prompt tokens.
    pub(crate) tokens: f64,
    /// When it was computed: with slow scheduling its tokens come later.
    done: f64,
}

/// What happened to a request.
#[derive(Default, Clone)]
pub(crate) struct Life {
    sent: f64,
    client: f64,
    arrived: f64,
    /// Own prompt tokens by iteration.
    prefill: Vec<(usize, f64)>,
    /// Iterations of its tokens, and when they reached the client.
    tokens: Vec<(usize, f64)>,
    /// Iterations in which it recomputed.
    recomputed: Vec<usize>,
    /// The engine's own times.
    times: ServerTimes,
}

/// Runs the engine; returns its iterations and what happened to each request.
pub(crate) fn run(
    server: &Server,
    arrivals: &[Arrival],
    random: &mut Random,
    seed: u64,
) -> (Vec<Iteration>, Vec<Life>) {
    let mut lives = vec![Life::default(); arrivals.len()];
    let mut free = 0.0_f64;
    for (life, arrival) in lives.iter_mut().zip(arrivals) {
        life.client = random.exponential(server.client);
        life.sent = arrival.scheduled + life.client;
    }
    let mut order: Vec<usize> = (0..arrivals.len()).collect();
    order.sort_by(|one, other| lives[*one].sent.total_cmp(&lives[*other].sent));
    for &at in &order {
        let there = lives[at].sent + server.network.0 + random.exponential(server.network.2);
        free = free.max(there) + server.front.0;
        lives[at].arrived = free + server.front.1;
    }
    order.sort_by(|one, other| lives[*one].arrived.total_cmp(&lives[*other].arrived));
    let mut engine = Engine::new(server.spec.clone(), server.cost).unwrap();
    engine.set_noise(server.noise, None, seed);
    engine.record_batches();
    let (mut now, mut next, mut iterations, mut events) = (0.0_f64, 0, Vec::new(), Vec::new());
    // Iterations whose tokens are not out, and the seconds of stalls: a clock of the engine's own stands still in them.
    let (mut in_flight, mut stalled) = (VecDeque::new(), 0.0);
    let time = |seconds: f64| Timestamp((seconds * 1e9).round() as u64);
    loop {
        while let Some(&at) = order.get(next).filter(|at| lives[**at].arrived <= now) {
            let prompt: Arc<[u32]> = (0..arrivals[at].prompt as u32).collect();
            let output: Vec<u32> = (0..arrivals[at].output as u32).collect();
            let job = Job::generate(prompt, output.into(), Finish::Length);
            engine.submit(SeqId(at as u64), job, time(now - stalled)).unwrap();
            next += 1;
        }
        let Some(step) = engine.begin_step(time(now - stalled)) else {
            let Some(&at) = order.get(next) else { return (iterations, lives) };
            now = lives[at].arrived;
            continue;
        };
        let lands = !server.spec.async_scheduling || !in_flight.is_empty();
        if step.batch.sequences > 0 {
            let number = iterations.len();
            let before = in_flight.back().map_or(now, |at: &usize| iterations[*at].done);
            iterations.push(iteration(server, &engine, now, before));
            in_flight.push_back(number);
            for one in engine.batch() {
                let life = &mut lives[one.id.0 as usize];
                match (one.is_decode, one.is_recomputed) {
                    (true, _) => {}
                    (_, true) => life.recomputed.push(number),
                    _ => life.prefill.push((number, one.tokens as f64)),
                }
            }
        }
        now += step.takes.as_secs_f64();
        engine.end_step(time(now - stalled), &mut events);
        let Some(number) = lands.then(|| in_flight.pop_front()).flatten() else { continue };
        let stall = if random.unit() < server.stalls.0 { server.stalls.1 * random.between(0.5, 1.5) } else { 0.0 };
        (now, stalled) = (now + stall, stalled + stall);
        let before = if number > 0 { iterations[number - 1].end } else { 0.0 };
        let one: &mut Iteration = &mut iterations[number];
        (one.start, one.end, one.stall) = (one.start.max(before), now, stall);
        if server.cost.schedule_ns > 0.0 {
            // What prompts add is also the time that the engine waits for their scheduling.
            one.end = one.done;
            one.prefill = if one.tokens > 0.0 { one.end - one.start - one.decode } else { 0.0 };
        }
        for (place, event) in events.drain(..).enumerate() {
            let reached = now + server.network.1 + place as f64 * 5e-6 + random.between(0.0, 0.1e-3);
            let life = &mut lives[event.id.0 as usize];
            life.tokens.push((number, reached));
            life.times = event.times.unwrap_or(life.times);
        }
    }
}

/// The iteration that the engine scheduled now.
fn iteration(server: &Server, engine: &Engine, start: f64, before: f64) -> Iteration {
    let mut shape = BatchShape::default();
    let (mut attention, mut seconds) = (0.0, Vec::new());
    let is_kind = [
        |one: &tacho_engine::Scheduled| one.is_decode,
        |one: &tacho_engine::Scheduled| !one.is_decode && !one.is_recomputed,
        |one: &tacho_engine::Scheduled| one.is_recomputed,
    ];
    seconds.push(server.cost.time(&shape, 0.0).as_secs_f64());
    for is in is_kind {
        for one in engine.batch().iter().filter(|one| is(one)) {
            shape.sequences += 1;
            shape.kv_tokens += one.computed + one.tokens;
            match one.is_decode {
                true => shape.decode_sequences += 1,
                false => {
                    shape.prefill_tokens += one.tokens;
                    attention += one.tokens as f64 * (one.computed as f64 + (one.tokens as f64 + 1.0) / 2.0);
                }
            }
        }
        seconds.push(server.cost.time(&shape, attention).as_secs_f64());
    }
    let tokens = engine.batch().iter().filter(|one| is_kind[1](one)).map(|one| one.tokens as f64).sum();
    let [base, decode, prefill, all] = [seconds[0], seconds[1], seconds[2], seconds[3]];
    let (prefill, recompute) = (prefill - decode, all - prefill);
    let scheduled = start + server.cost.schedule(&shape).as_secs_f64();
    let done = (before.max(start) + all).max(scheduled + server.cost.drain().as_secs_f64());
    Iteration { start, end: start, stall: 0.0, base, decode, prefill, recompute, tokens, done }
}

/// The true parts of a request, by the definitions of the documentation.
pub(crate) fn truth(
    server: &Server,
    iterations: &[Iteration],
    index: usize,
    life: &Life,
    prompt: usize,
) -> AttributedRequest {
    let mut ttft = Parts::default();
    let (admitted, first) = (life.prefill[0].0, life.tokens[0].0);
    ttft.add(Part::DispatchDelay, life.client);
    ttft.add(Part::FrontEnd, life.arrived - life.sent + server.network.1);
    // Stalls are at the end of an iteration.
    let stalled = |from: f64, one: &Iteration| (one.end - from.max(one.end - one.stall)).clamp(0.0, one.stall);
    let begun = iterations.partition_point(|one| one.end <= life.arrived);
    let stalls: f64 = iterations[begun.min(admitted)..admitted].iter().map(|one| stalled(life.arrived, one)).sum();
    ttft.add(Part::Stall, stalls);
    ttft.add(Part::Queue, iterations[admitted].start - life.arrived - stalls);
    for (at, one) in iterations.iter().enumerate().take(first + 1).skip(admitted) {
        let own = life.prefill.iter().find(|part| part.0 == at).map_or(0.0, |part| part.1);
        let share = own / one.tokens.max(1.0);
        ttft.add(Part::OwnPrefill, one.base + share * one.prefill);
        ttft.add(Part::OtherPrefills, (1.0 - share) * one.prefill);
        ttft.add(Part::BatchGrowth, one.decode - one.base);
        ttft.add(Part::Preemption, one.recompute);
        ttft.add(Part::Stall, one.stall);
    }
    let mut e2el = ttft;
    let alone = |context: f64| {
        let shape =
            BatchShape { decode_sequences: 1, sequences: 1, kv_tokens: context as usize, ..BatchShape::default() };
        server.cost.time(&shape, 0.0).as_secs_f64()
    };
    for (place, pair) in life.tokens.windows(2).enumerate() {
        let (from, to, own) = (pair[0].0, pair[1].0, alone((prompt + place + 1) as f64));
        let stall: f64 = iterations[from + 1..=to].iter().map(|one| one.stall).sum();
        e2el.add(Part::OwnDecode, own);
        e2el.add(Part::Stall, stall);
        if to > from + 1 || life.recomputed.contains(&to) {
            e2el.add(Part::Preemption, iterations[to].end - iterations[from].end - own - stall);
            continue;
        }
        let one = &iterations[to];
        e2el.add(Part::OtherPrefills, one.prefill);
        e2el.add(Part::BatchGrowth, one.decode - own);
        e2el.add(Part::Preemption, one.recompute);
    }
    let whole = |mut parts: Parts, (number, reached): (usize, f64)| {
        parts.add(Part::Streaming, reached - iterations[number].end - server.network.1);
        parts.of(((reached - life.sent + life.client) * 1e9).round() as i64)
    };
    let (ttft, e2el) = (whole(ttft, life.tokens[0]), whole(e2el, *life.tokens.last().unwrap()));
    let gaps = life.tokens.len() as u64 - 1;
    AttributedRequest { index, prompt: prompt as u64, gaps, ttft, e2el, ..AttributedRequest::default() }
}

pub(crate) fn sample(index: usize, arrival: &Arrival, life: &Life) -> Sample {
    // Timestamps are whole nanoseconds.
    let nanos = |seconds: f64| (seconds * 1e9).round() / 1e9;
    let times: Vec<f64> = life.tokens.iter().map(|token| nanos(token.1)).collect();
    let sent = nanos(life.sent);
    Sample {
        index,
        scheduled: nanos(arrival.scheduled),
        dispatched: sent,
        sent,
        ttft: times[0] - sent,
        latency: times[times.len() - 1] - sent,
        itl: times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Gaps>(),
        prompt_len: arrival.prompt as u64,
        output_len: times.len() as u64,
        rare: RareFields { times: life.times, ..RareFields::default() }.into(),
        ..Sample::default()
    }
}
