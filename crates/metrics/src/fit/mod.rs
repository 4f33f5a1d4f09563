//! What a server's steps cost, learned from outside: steps are found in the arrival times of tokens, and their length is
//! fitted by what was in them. Pure functions of samples.

mod profile;
mod regress;
mod steps;
mod trace;

pub use profile::{Limits, Profile};
pub use regress::Estimate;
pub use steps::{Alone, Found, Step, find};
pub use trace::{Traced, of_result};

/// Fewer steps than this say nothing.
const FEWEST_STEPS: usize = 50;
/// Steps this many robust deviations off are left out of the fit and counted.
const OUTLIER: f64 = 6.0;
/// Every so many steps one is held out.
const HELD_OUT: usize = 5;

/// Why nothing could be fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// A result without lists.
    #[error("the result has no list {name:?}; save it with --save-result --save-detailed")]
    NoList {
        /// The list.
        name: &'static str,
    },
    /// Events with several tokens.
    #[error(
        "an event carries {per_event:.1} tokens on average, so that steps cannot be told apart; \
         restart the server with --stream-interval 1 and without speculative decoding"
    )]
    Bundled {
        /// Tokens per event.
        per_event: f64,
    },
    /// Too little was seen.
    #[error(
        "{steps} whole steps were found, at least {FEWEST_STEPS} are needed; measure longer, or at more concurrencies"
    )]
    TooFew {
        /// Steps found.
        steps: usize,
    },
    /// The steps were all alike.
    #[error("the steps are too alike to tell what they cost; measure at several concurrencies and prompt lengths")]
    Alike,
}

/// What steps cost, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Costs {
    /// Any step.
    pub fixed: Estimate,
    /// A prompt token.
    pub prefill: Estimate,
    /// A sequence.
    pub sequence: Estimate,
    /// A token of context.
    pub kv: Estimate,
    /// A prompt token, times a token of context that it looks at.
    pub attention: Estimate,
}

impl Costs {
    /// How long a step takes.
    pub fn seconds(&self, step: &Step) -> f64 {
        self.fixed.value
            + self.prefill.value * step.prefill
            + self.sequence.value * step.sequences
            + self.kv.value * step.kv
            + self.attention.value * step.attention
    }
}

/// A fitted server.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// What steps cost.
    pub costs: Costs,
    /// Seconds that a request takes outside of steps, and per prompt token.
    pub front: (Estimate, Estimate),
    /// How many first tokens that is from; with none the front is unknown, not free.
    pub front_from: usize,
    /// Relative spread of steps about the model.
    pub noise: f64,
    /// Steps it was fitted on.
    pub steps: usize,
    /// Steps left out as unclear.
    pub unclear: usize,
    /// Steps left out as too far off.
    pub outliers: usize,
    /// Relative error of held-out steps: the median, and nine in ten.
    pub held_out: (f64, f64),
    /// The most sequences seen at once.
    pub widest: usize,
}

/// Fits a server by several runs against it; no step has more than `budget` tokens.
///
/// # Errors
/// When the runs do not tell enough.
pub fn fit(runs: &[Vec<Traced>], budget: usize) -> Result<Fitted, FitError> {
    let mut all = Found::default();
    for run in runs {
        let found = find(run, budget);
        all.steps.extend(found.steps);
        all.alone.extend(found.alone);
        all.unclear += found.unclear;
        all.widest = all.widest.max(found.widest);
    }
    if all.steps.len() < FEWEST_STEPS {
        return Err(FitError::TooFew { steps: all.steps.len() });
    }
    let rough = costs(&all.steps).ok_or(FitError::Alike)?;
    let (kept, outliers) = without_outliers(&all.steps, &rough);
    let held_out = held_out_error(&kept).ok_or(FitError::Alike)?;
    let costs = costs(&kept).ok_or(FitError::Alike)?;
    let noise = spread(kept.iter().map(|step| (step.seconds / costs.seconds(step)).ln()));
    Ok(Fitted {
        front: front(&all.alone, &costs, budget),
        front_from: all.alone.len(),
        costs,
        noise,
        steps: kept.len(),
        unclear: all.unclear,
        outliers,
        held_out,
        widest: all.widest,
    })
}

fn costs(steps: &[Step]) -> Option<Costs> {
    let rows: Vec<[f64; 5]> =
        steps.iter().map(|step| [1.0, step.prefill, step.sequences, step.kv, step.attention]).collect();
    let seconds: Vec<f64> = steps.iter().map(|step| step.seconds).collect();
    let [fixed, prefill, sequence, kv, attention] = regress::fit(&rows, &seconds)?;
    Some(Costs { fixed, prefill, sequence, kv, attention })
}

fn without_outliers(steps: &[Step], rough: &Costs) -> (Vec<Step>, usize) {
    let off = |step: &Step| (step.seconds / rough.seconds(step)).ln();
    let (middle, limit) = (median(steps.iter().map(off)), OUTLIER * spread(steps.iter().map(off)).max(1e-3));
    let kept: Vec<Step> = steps.iter().copied().filter(|step| (off(step) - middle).abs() <= limit).collect();
    let outliers = steps.len() - kept.len();
    (kept, outliers)
}

/// The error of steps that the fit has not seen.
fn held_out_error(steps: &[Step]) -> Option<(f64, f64)> {
    let numbered = || steps.iter().enumerate();
    let seen: Vec<Step> = numbered().filter(|(at, _)| at % HELD_OUT != 0).map(|(_, step)| *step).collect();
    let costs = costs(&seen)?;
    let mut errors: Vec<f64> = numbered()
        .filter(|(at, _)| at % HELD_OUT == 0)
        .map(|(_, step)| (costs.seconds(step) / step.seconds - 1.0).abs())
        .collect();
    errors.sort_by(f64::total_cmp);
    Some((*errors.get(errors.len() / 2)?, *errors.get(errors.len() * 9 / 10)?))
}

/// What a first token takes beyond its step.
fn front(alone: &[Alone], costs: &Costs, budget: usize) -> (Estimate, Estimate) {
    let budget = budget.max(1) as f64;
    let beyond = |one: &Alone| {
        let (mut done, mut seconds) = (0.0, 0.0);
        while done < one.prompt {
            let chunk = (one.prompt - done).min(budget);
            let attention = chunk * (done + (chunk + 1.0) / 2.0);
            done += chunk;
            seconds += costs.seconds(&Step { seconds: 0.0, prefill: chunk, sequences: 1.0, kv: done, attention });
        }
        (one.ttft - seconds).max(1e-6)
    };
    let rows: Vec<[f64; 2]> = alone.iter().map(|one| [1.0, one.prompt]).collect();
    let targets: Vec<f64> = alone.iter().map(beyond).collect();
    match regress::fit(&rows, &targets) {
        Some([request, token]) if alone.len() >= 8 => (request, token),
        _ if alone.is_empty() => (Estimate::default(), Estimate::default()),
        _ => (Estimate { value: median(targets.into_iter()), half: 0.0 }, Estimate::default()),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    if values.is_empty() { 0.0 } else { values[values.len() / 2] }
}

/// The deviation that a normal distribution with the same middle half would have.
fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let middle = median(values.iter().copied());
    1.4826 * median(values.iter().map(|value| (value - middle).abs()))
}
