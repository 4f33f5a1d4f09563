//! Front-end costs: before the engine, and from the engine to the client.

use super::async_scheduling::AsyncScheduling;
use super::memory_bound::beyond;
use super::regress::{self, Data};
use super::steps::Burst;
use super::{Alone, Costs, Estimate, Found, Limits, Step, median, named, spread};

/// Fewest requests to an idle server that separate costs per prompt token and per request.
const FEWEST: usize = 8;
/// A first token is that of the engine's work when this takes so many times as long as preparing it.
const LONGER: f64 = 1.25;
/// Fewest bursts for the shared CPU time.
const FEWEST_BURSTS: usize = 3;

/// Seconds outside of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Front {
    /// Per request.
    pub request: Estimate,
    /// Per prompt token.
    pub prompt_token: Estimate,
    /// Between two tokens of a step as they are sent.
    pub token: Estimate,
    /// CPU time by which concurrent requests delay each other.
    pub shared: Estimate,
    /// First tokens behind the first two; with none they are unknown, not zero.
    pub from: usize,
}

impl Front {
    /// The costs of steps and what is outside of them, told by steps and by first tokens at an idle server together: such a
    /// token takes the steps of its prompt, and what a request takes beside them.
    pub(super) fn with_costs(
        found: &[Found],
        alone: &[Alone],
        steps: &[Step],
        costs: Costs,
        idle: &Idle<'_>,
    ) -> (Costs, Front) {
        let apart: Vec<f64> = found.iter().flat_map(|run| run.apart.iter().copied()).collect();
        let token = if apart.is_empty() { Estimate::default() } else { middle(&apart) };
        let alone = idle.usual(alone, &costs);
        let by_engine: Vec<Alone> = alone.iter().copied().filter(|one| idle.is_engines(one, &costs)).collect();
        let joined = idle.together(steps, &by_engine);
        let (costs, request, prompt_token) = match joined {
            Some(joined) if by_engine.len() == alone.len() => joined,
            // Some took what preparing them takes: those tell nothing of steps, and as much as others of what is beside.
            _ => {
                let costs = joined.map_or(costs, |(costs, ..)| costs);
                let (request, prompt_token) = idle.beside(&alone, &costs);
                (costs, request, prompt_token)
            }
        };
        let front = Front { request, prompt_token, token, shared: Estimate::default(), from: alone.len() };
        let bursts: Vec<Burst> = found.iter().flat_map(|run| run.bursts.iter().copied()).collect();
        let shared = idle.delays(&bursts, &costs, &front);
        (costs, Front { shared, ..front })
    }
}

/// An idle engine and what it makes of a prompt.
pub(super) struct Idle<'a> {
    pub(super) limits: &'a Limits,
    pub(super) free: usize,
    pub(super) ahead: Option<&'a AsyncScheduling>,
}

impl Idle<'_> {
    /// Those first tokens that are not far off from the others: a stall of the machine tells nothing of the server.
    fn usual(&self, alone: &[Alone], costs: &Costs) -> Vec<Alone> {
        let beyond: Vec<f64> = alone.iter().map(|one| self.beyond(one, costs) / one.ttft).collect();
        let (middle, limit) = (median(beyond.iter().copied()), 2.5 * spread(beyond.iter().copied()).max(0.01));
        alone.iter().zip(&beyond).filter(|(_, beyond)| (*beyond - middle).abs() <= limit).map(|(one, _)| *one).collect()
    }

    /// What a step of prompts takes at least, since it has to be prepared.
    fn least(&self, step: &Step) -> f64 {
        self.ahead.map_or(0.0, |ahead| ahead.least(step.prefill))
    }

    fn takes(&self, step: &Step, costs: &Costs) -> f64 {
        costs.seconds(step).max(self.least(step))
    }

    /// Whether a first token waited for the engine's work and not for its preparation.
    fn is_engines(&self, one: &Alone, costs: &Costs) -> bool {
        self.prompt_steps(one.prompt).iter().all(|step| costs.seconds(step) >= LONGER * self.least(step))
    }

    fn together(&self, steps: &[Step], alone: &[Alone]) -> Option<(Costs, Estimate, Estimate)> {
        if alone.len() < FEWEST {
            return None;
        }
        let of_step = |step: &Step| {
            let [fixed, prefill, sequence, kv, attention, back_to_back_prefill] = step.row();
            [fixed, prefill, sequence, kv, attention, back_to_back_prefill, 0.0, 0.0]
        };
        let of_alone = |one: &Alone| {
            let mut row = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, one.prompt];
            self.prompt_steps(one.prompt)
                .iter()
                .map(of_step)
                .for_each(|step| row.iter_mut().zip(step).for_each(|(sum, part)| *sum += part));
            row
        };
        let rows = steps.iter().map(of_step).chain(alone.iter().map(of_alone)).collect();
        let targets = steps.iter().map(|step| step.seconds).chain(alone.iter().map(|one| one.ttft)).collect();
        let moments = Some(steps.iter().map(|step| step.moment).chain(alone.iter().map(|one| one.moment)).collect());
        let [fixed, prefill, sequence, kv, attention, back_to_back_prefill, request, prompt_token] =
            regress::fit(&Data { rows, targets, moments })?;
        Some((named([fixed, prefill, sequence, kv, attention, back_to_back_prefill]), request, prompt_token))
    }

    /// What first tokens take beside the steps of their prompts: of a request, and of a token of its prompt.
    fn beside(&self, alone: &[Alone], costs: &Costs) -> (Estimate, Estimate) {
        let beyond: Vec<f64> = alone.iter().map(|one| self.beyond(one, costs)).collect();
        let rows = alone.iter().map(|one| [1.0, one.prompt]).collect();
        let fitted = || regress::fit(&Data { rows, targets: beyond.clone(), moments: None });
        match beyond.len() {
            0 => (Estimate::default(), Estimate::default()),
            FEWEST.. => fitted().map_or((middle(&beyond), Estimate::default()), |[request, token]| (request, token)),
            _ => (middle(&beyond), Estimate::default()),
        }
    }

    /// What a first token takes beyond the steps of its prompt.
    fn beyond(&self, one: &Alone, costs: &Costs) -> f64 {
        let seconds: f64 = self.prompt_steps(one.prompt).iter().map(|step| self.takes(step, costs)).sum();
        (one.ttft - seconds).max(1e-6)
    }

    /// By how much each request delays those it comes together with: of many that come at once, the first token is late by
    /// all of them, since a front end works on them in turn.
    fn delays(&self, bursts: &[Burst], costs: &Costs, front: &Front) -> Estimate {
        if bursts.len() < FEWEST_BURSTS || front.from == 0 {
            return Estimate::default();
        }
        let late = |burst: &Burst| {
            let prompt = burst.step.prefill / burst.step.sequences.max(1.0);
            // The next step is prepared before the tokens of this one are looked at.
            let next = self.ahead.map_or(0.0, |ahead| {
                let rest = burst.rest.min(self.limits.max_num_batched_tokens as f64);
                ahead.prepares(burst.step.prefill) + if rest > 0.0 { ahead.prepares(rest) } else { 0.0 }
            });
            let computed = beyond(burst.step.prefill, 0.0, self.free as f64);
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

    /// The steps of a prompt that is alone.
    fn prompt_steps(&self, prompt: f64) -> Vec<Step> {
        let budget = self.limits.max_num_batched_tokens.max(1) as f64;
        let (mut done, mut steps) = (0.0, Vec::new());
        while done < prompt {
            let chunk = (prompt - done).min(budget);
            let mut step = Step::one();
            step.add_prompt(done, chunk);
            step.computed = beyond(chunk, 0.0, self.free as f64);
            step.back_to_back_prefill = if self.ahead.is_some() && done > 0.0 { 1.0 } else { 0.0 };
            done += chunk;
            steps.push(step);
        }
        steps
    }
}

/// The median, with what it may be off by.
fn middle(values: &[f64]) -> Estimate {
    let half = 1.96 * 1.2533 * spread(values.iter().copied()) / (values.len() as f64).sqrt();
    Estimate { value: median(values.iter().copied()), half }
}
