//! What a request takes outside of steps: before the engine, and from the engine to the client.

use super::{Alone, Costs, Estimate, Found, Limits, Step, median, regress};

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
    /// What is left of first tokens at an idle server, and how far apart the tokens of a step come.
    pub(super) fn of(found: &[Found], costs: &Costs, limits: &Limits) -> Front {
        let alone: Vec<Alone> = found.iter().flat_map(|run| run.alone.iter().copied()).collect();
        let apart: Vec<f64> = found.iter().flat_map(|run| run.apart.iter().copied()).collect();
        let token = if apart.is_empty() { Estimate::default() } else { middle(&apart) };
        let targets: Vec<f64> = alone.iter().map(|one| beyond(one, costs, limits)).collect();
        let rows: Vec<[f64; 2]> = alone.iter().map(|one| [1.0, one.prompt]).collect();
        let (request, prompt_token) = match regress::fit(&rows, &targets) {
            Some([request, prompt_token]) if alone.len() >= FEWEST => (request, prompt_token),
            _ if alone.is_empty() => (Estimate::default(), Estimate::default()),
            _ => (middle(&targets), Estimate::default()),
        };
        Front { request, prompt_token, token, from: alone.len() }
    }
}

/// The median, with what it may be off by.
fn middle(values: &[f64]) -> Estimate {
    let half = 1.96 * 1.2533 * super::spread(values.iter().copied()) / (values.len() as f64).sqrt();
    Estimate { value: median(values.iter().copied()), half }
}

/// What a first token takes beyond the steps of its prompt.
fn beyond(one: &Alone, costs: &Costs, limits: &Limits) -> f64 {
    let budget = limits.max_num_batched_tokens.max(1) as f64;
    let (mut done, mut seconds) = (0.0, 0.0);
    while done < one.prompt {
        let chunk = (one.prompt - done).min(budget);
        let mut step = Step::default();
        step.add_prompt(done, chunk);
        done += chunk;
        seconds += costs.seconds(&step);
    }
    (one.ttft - seconds).max(1e-6)
}
