//! Front-end costs: before the engine, and from the engine to the client.

use tacho_engine::EngineSpec;

use super::regress::{self, Data};
use super::robust::{median, spread};
use super::{
    Costs, Estimate, Found, IdleTtft, Step, async_scheduling::AsyncScheduling, costs::named,
    memory_bound::compute_bound, steps::Burst,
};

/// Least requests to an idle server that separate costs per prompt token and per request.
const MIN_SAMPLES: usize = 8;
/// A first token is bound by the engine if its steps take this many times the scheduling time.
const MIN_ENGINE_BOUND: f64 = 1.25;
/// Least bursts for the shared CPU time.
const MIN_BURSTS: usize = 3;

/// Seconds outside of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Front {
    pub request: Estimate,
    pub prompt_token: Estimate,
    /// Between two tokens of a step as they are sent.
    pub token: Estimate,
    /// CPU time by which concurrent requests delay each other.
    pub shared: Estimate,
    /// First tokens behind the first two; with none they are unknown, not zero.
    pub from: usize,
}

impl Front {
    /// Step costs and front-end costs, from steps and from TTFTs on an idle server jointly: such a TTFT is the steps of
    /// the prompt plus the front end.
    pub(super) fn with_costs(
        found: &[Found],
        idle_ttfts: &[IdleTtft],
        steps: &[Step],
        costs: Costs,
        idle: &Idle<'_>,
    ) -> (Costs, Front) {
        let spacing: Vec<f64> = found.iter().flat_map(|run| run.token_spacing.iter().copied()).collect();
        let token = if spacing.is_empty() { Estimate::default() } else { middle(&spacing) };
        let idle_ttfts = idle.without_outliers(idle_ttfts, &costs);
        let by_engine: Vec<IdleTtft> =
            idle_ttfts.iter().copied().filter(|one| idle.is_engine_bound(one, &costs)).collect();
        let joined = idle.together(steps, &by_engine);
        let (costs, request, prompt_token) = match joined {
            Some(joined) if by_engine.len() == idle_ttfts.len() => joined,
            // Some TTFTs are bound by scheduling: they carry no information about steps, but do about the front end.
            _ => {
                let costs = joined.map_or(costs, |(costs, ..)| costs);
                let (request, prompt_token) = idle.outside_steps(&idle_ttfts, &costs);
                (costs, request, prompt_token)
            }
        };
        let front = Front { request, prompt_token, token, shared: Estimate::default(), from: idle_ttfts.len() };
        let bursts: Vec<Burst> = found.iter().flat_map(|run| run.bursts.iter().copied()).collect();
        let shared = idle.delays(&bursts, &costs, &front);
        (costs, Front { shared, ..front })
    }
}

/// An idle engine with known costs.
pub(super) struct Idle<'a> {
    pub(super) limits: &'a EngineSpec,
    pub(super) free: usize,
    pub(super) ahead: Option<&'a AsyncScheduling>,
}

impl Idle<'_> {
    /// TTFTs without outliers, such as stalls of the machine.
    fn without_outliers(&self, idle_ttfts: &[IdleTtft], costs: &Costs) -> Vec<IdleTtft> {
        let excess: Vec<f64> = idle_ttfts.iter().map(|one| self.excess(one, costs) / one.ttft).collect();
        let (middle, limit) = (median(excess.iter().copied()), 2.5 * spread(excess.iter().copied()).max(0.01));
        idle_ttfts
            .iter()
            .zip(&excess)
            .filter(|(_, excess)| (*excess - middle).abs() <= limit)
            .map(|(one, _)| *one)
            .collect()
    }

    /// Least duration of a prefill step, by its scheduling time.
    fn min(&self, step: &Step) -> f64 {
        self.ahead.map_or(0.0, |ahead| ahead.min(step.prefill))
    }

    fn takes(&self, step: &Step, costs: &Costs) -> f64 {
        costs.seconds(step).max(self.min(step))
    }

    /// Returns whether a TTFT is bound by the engine's work and not by scheduling.
    fn is_engine_bound(&self, one: &IdleTtft, costs: &Costs) -> bool {
        self.prompt_steps(one.prompt).iter().all(|step| costs.seconds(step) >= MIN_ENGINE_BOUND * self.min(step))
    }

    fn together(&self, steps: &[Step], idle_ttfts: &[IdleTtft]) -> Option<(Costs, Estimate, Estimate)> {
        if idle_ttfts.len() < MIN_SAMPLES {
            return None;
        }
        let of_step = |step: &Step| {
            let [fixed, prefill, sequence, kv, attention, back_to_back_prefill] = step.row();
            [fixed, prefill, sequence, kv, attention, back_to_back_prefill, 0.0, 0.0]
        };
        let of_alone = |one: &IdleTtft| {
            let mut row = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, one.prompt];
            self.prompt_steps(one.prompt)
                .iter()
                .map(of_step)
                .for_each(|step| row.iter_mut().zip(step).for_each(|(sum, part)| *sum += part));
            row
        };
        let rows = steps.iter().map(of_step).chain(idle_ttfts.iter().map(of_alone)).collect();
        let targets = steps.iter().map(|step| step.seconds).chain(idle_ttfts.iter().map(|one| one.ttft)).collect();
        let windows =
            Some(steps.iter().map(|step| step.window).chain(idle_ttfts.iter().map(|one| one.window)).collect());
        let [fixed, prefill, sequence, kv, attention, back_to_back_prefill, request, prompt_token] =
            regress::fit(&Data { rows, targets, windows })?;
        Some((named([fixed, prefill, sequence, kv, attention, back_to_back_prefill]), request, prompt_token))
    }

    /// Front-end time of TTFTs: per request, and per prompt token.
    fn outside_steps(&self, idle_ttfts: &[IdleTtft], costs: &Costs) -> (Estimate, Estimate) {
        let excess: Vec<f64> = idle_ttfts.iter().map(|one| self.excess(one, costs)).collect();
        let rows = idle_ttfts.iter().map(|one| [1.0, one.prompt]).collect();
        let fitted = || regress::fit(&Data { rows, targets: excess.clone(), windows: None });
        match excess.len() {
            0 => (Estimate::default(), Estimate::default()),
            MIN_SAMPLES.. => {
                fitted().map_or((middle(&excess), Estimate::default()), |[request, token]| (request, token))
            }
            _ => (middle(&excess), Estimate::default()),
        }
    }

    /// TTFT minus the steps of the prompt.
    fn excess(&self, one: &IdleTtft, costs: &Costs) -> f64 {
        let seconds: f64 = self.prompt_steps(one.prompt).iter().map(|step| self.takes(step, costs)).sum();
        (one.ttft - seconds).max(1e-6)
    }

    /// Delay per simultaneous request: the first token of a burst is late by all of its requests, since the front end
    /// works on them in turn.
    fn delays(&self, bursts: &[Burst], costs: &Costs, front: &Front) -> Estimate {
        if bursts.len() < MIN_BURSTS || front.from == 0 {
            return Estimate::default();
        }
        let late = |burst: &Burst| {
            let prompt = burst.step.prefill / burst.step.sequences.max(1.0);
            // The next step is scheduled before the tokens of this one are read.
            let next = self.ahead.map_or(0.0, |ahead| {
                let rest = burst.rest.min(self.limits.max_num_batched_tokens as f64);
                ahead.schedule_time(burst.step.prefill) + if rest > 0.0 { ahead.schedule_time(rest) } else { 0.0 }
            });
            let computed = compute_bound(burst.step.prefill, 0.0, self.free as f64);
            let engine = self.takes(&Step { computed, ..burst.step }, costs).max(next);
            burst.first - engine - front.request.value - front.prompt_token.value * prompt
        };
        let each: Vec<f64> = bursts.iter().map(|burst| late(burst) / (burst.count - 1.0)).collect();
        let weight = |burst: &Burst| (burst.count - 1.0).powi(2);
        let all: f64 = bursts.iter().map(weight).sum();
        let value = bursts.iter().zip(&each).map(|(burst, each)| weight(burst) * each).sum::<f64>() / all;
        let off =
            bursts.iter().zip(&each).map(|(burst, each)| weight(burst) * (each - value).powi(2)).sum::<f64>() / all;
        let half = 1.96 * (off / (bursts.len() - 1) as f64).sqrt();
        if value > half { Estimate { value, half } } else { Estimate::default() }
    }

    fn prompt_steps(&self, prompt: f64) -> Vec<Step> {
        let budget = self.limits.max_num_batched_tokens.max(1) as f64;
        let (mut done, mut steps) = (0.0, Vec::new());
        while done < prompt {
            let chunk = (prompt - done).min(budget);
            let mut step = Step::one();
            step.add_prompt(done, chunk);
            step.computed = compute_bound(chunk, 0.0, self.free as f64);
            step.back_to_back_prefill = if self.ahead.is_some() && done > 0.0 { 1.0 } else { 0.0 };
            done += chunk;
            steps.push(step);
        }
        steps
    }
}

/// The median and its error.
fn middle(values: &[f64]) -> Estimate {
    let half = 1.96 * 1.2533 * spread(values.iter().copied()) / (values.len() as f64).sqrt();
    Estimate { value: median(values.iter().copied()), half }
}
