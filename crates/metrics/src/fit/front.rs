//! What a request takes outside of steps: before the engine, and from the engine to the client.

use super::regress::{self, Data};
use super::{Alone, Costs, Estimate, Found, Limits, Step, median, spread};

/// Requests to an idle server that tell a cost per prompt token from one per request.
const FEWEST: usize = 8;

/// Seconds outside of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Front {
    /// Of any request.
    pub request: Estimate,
    /// Of a token of its prompt.
    pub prompt_token: Estimate,
    /// Between two tokens of a step on their way out.
    pub token: Estimate,
    /// How many first tokens the first two are from; with none they are unknown, not free.
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
        limits: &Limits,
    ) -> (Costs, Front) {
        let apart: Vec<f64> = found.iter().flat_map(|run| run.apart.iter().copied()).collect();
        let token = if apart.is_empty() { Estimate::default() } else { middle(&apart) };
        let from = alone.len();
        match together(steps, &usual(alone, &costs, limits), limits) {
            Some((costs, request, prompt_token)) => (costs, Front { request, prompt_token, token, from }),
            None => {
                let beyond: Vec<f64> = alone.iter().map(|one| beyond(one, &costs, limits)).collect();
                let request = if beyond.is_empty() { Estimate::default() } else { middle(&beyond) };
                (costs, Front { request, prompt_token: Estimate::default(), token, from })
            }
        }
    }
}

/// Those first tokens that are not far off from the others: a stall of the machine tells nothing of the server.
fn usual(alone: &[Alone], costs: &Costs, limits: &Limits) -> Vec<Alone> {
    let beyond: Vec<f64> = alone.iter().map(|one| beyond(one, costs, limits) / one.ttft).collect();
    let (middle, limit) = (median(beyond.iter().copied()), 2.5 * spread(beyond.iter().copied()).max(0.01));
    alone.iter().zip(&beyond).filter(|(_, beyond)| (*beyond - middle).abs() <= limit).map(|(one, _)| *one).collect()
}

fn together(steps: &[Step], alone: &[Alone], limits: &Limits) -> Option<(Costs, Estimate, Estimate)> {
    if alone.len() < FEWEST {
        return None;
    }
    let of_step = |step: &Step| [1.0, step.prefill, step.sequences, step.kv, step.attention, 0.0, 0.0];
    let of_alone = |one: &Alone| {
        let mut row = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, one.prompt];
        prompt_steps(one, limits)
            .iter()
            .map(of_step)
            .for_each(|step| row.iter_mut().zip(step).for_each(|(sum, part)| *sum += part));
        row
    };
    let rows = steps.iter().map(of_step).chain(alone.iter().map(of_alone)).collect();
    let targets = steps.iter().map(|step| step.seconds).chain(alone.iter().map(|one| one.ttft)).collect();
    let moments = Some(steps.iter().map(|step| step.moment).chain(alone.iter().map(|one| one.moment)).collect());
    let [fixed, prefill, sequence, kv, attention, request, prompt_token] =
        regress::fit(&Data { rows, targets, moments })?;
    Some((Costs { fixed, prefill, sequence, kv, attention }, request, prompt_token))
}

/// The median, with what it may be off by.
fn middle(values: &[f64]) -> Estimate {
    let half = 1.96 * 1.2533 * spread(values.iter().copied()) / (values.len() as f64).sqrt();
    Estimate { value: median(values.iter().copied()), half }
}

/// What a first token takes beyond the steps of its prompt.
fn beyond(one: &Alone, costs: &Costs, limits: &Limits) -> f64 {
    let seconds: f64 = prompt_steps(one, limits).iter().map(|step| costs.seconds(step)).sum();
    (one.ttft - seconds).max(1e-6)
}

/// The steps of a prompt that is alone.
fn prompt_steps(one: &Alone, limits: &Limits) -> Vec<Step> {
    let budget = limits.max_num_batched_tokens.max(1) as f64;
    let (mut done, mut steps) = (0.0, Vec::new());
    while done < one.prompt {
        let chunk = (one.prompt - done).min(budget);
        let mut step = Step::default();
        step.add_prompt(done, chunk);
        done += chunk;
        steps.push(step);
    }
    steps
}
