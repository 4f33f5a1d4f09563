//! Cost model of a server from client-side measurements: engine steps are reconstructed from token arrival times, and their
//! durations are regressed on the contents of the batch. Pure functions of samples.

mod async_scheduling;
mod async_steps;
mod batch_of_one;
mod experiment;
mod front;
mod interference;
pub mod limits;
mod memory_bound;
mod padding;
mod prefix_caching;
mod profile;
mod regress;
mod slowdown;
mod step_comparison;
mod steps;
mod trace;

pub use async_scheduling::AsyncScheduling;
pub use experiment::{Experiment, LEVELS, Length, Load, MAX_ROUNDS, Server};
pub use front::Front;
pub use limits::KnownLimits;
pub use memory_bound::ComputeBound;
pub use padding::padded;
pub use prefix_caching::caches;
pub use profile::Profile;
pub use regress::Estimate;
pub use step_comparison::{StepComparison, compare_steps};
pub use steps::{Found, IdleTtft, Step, find};
pub use trace::{Traced, of_result, of_rows};

pub use tacho_engine::Slowdown;

use std::collections::{BTreeMap, HashSet};

use tacho_engine::EngineSpec;

use front::Idle;
use interference::interfered;
use regress::Data;

const MIN_STEPS: usize = 50;
/// Steps further off than this many robust standard deviations are outliers.
const OUTLIER_DEVIATIONS: f64 = 6.0;
/// One of this many steps is held out.
const HELD_OUT: usize = 5;
/// Largest median relative error of held-out steps of a good fit.
pub const MAX_HELD_OUT_ERROR: f64 = 0.1;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    #[error("the result has no list {name:?}; save it with --save-result --save-detailed")]
    NoList { name: &'static str },
    #[error(
        "an event carries {per_event:.1} tokens on average, so that steps cannot be separated; \
         restart the server with --stream-interval 1 and without speculative decoding"
    )]
    Bundled { per_event: f64 },
    #[error(
        "{steps} complete steps were found, at least {MIN_STEPS} are needed; measure longer, or at more concurrencies"
    )]
    TooFew { steps: usize },
    #[error("the steps are too similar to separate their costs; measure at several concurrencies and prompt lengths")]
    Alike,
}

/// Step costs, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Costs {
    pub fixed: Estimate,
    pub prefill: Estimate,
    pub sequence: Estimate,
    /// Per token of context.
    pub kv: Estimate,
    /// Per prompt token and token of context it attends to.
    pub attention: Estimate,
    /// Extra per back-to-back prefill step under asynchronous scheduling.
    pub back_to_back_prefill: Estimate,
}

impl Costs {
    pub fn seconds(&self, step: &Step) -> f64 {
        self.fixed.value * step.count
            + self.prefill.value * step.computed
            + self.sequence.value * step.sequences
            + self.kv.value * step.kv
            + self.attention.value * step.attention
            + self.back_to_back_prefill.value * step.back_to_back_prefill
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    pub costs: Costs,
    /// Decode batches are padded to CUDA-graph capture sizes up to this one; 0 if they are not.
    pub padded_up_to: usize,
    /// Tokens of a prefill step at the roofline ridge point; below it the step is memory-bound.
    pub memory_bound: usize,
    /// Time that a batch-1 decode step saves.
    pub single: Estimate,
    /// Costs of a request outside of steps.
    pub front: Front,
    /// Host-side scheduling times, if scheduling is asynchronous.
    pub async_scheduling: Option<AsyncScheduling>,
    /// Relative standard deviation of steps within a window.
    pub noise: f64,
    /// Slowdown over time, if it changed.
    pub slowdown: Option<Slowdown>,
    pub steps: usize,
    pub unclear: usize,
    pub outliers: usize,
    /// Fraction of steps excluded because of interference, and their slowdown.
    pub interference: (f64, f64),
    /// Relative error of held-out steps: median and p90.
    pub held_out: (f64, f64),
    /// Most sequences in a step.
    pub widest: usize,
}

impl Fitted {
    /// Returns whether held-out steps are predicted well and most steps are free of interference.
    pub fn is_good(&self) -> bool {
        self.held_out.0 <= MAX_HELD_OUT_ERROR && self.interference.0 <= 0.5
    }

    /// Time to first token of a prompt on an idle engine that computes `computed` of its tokens in one step.
    pub fn first_token(&self, prompt: f64, computed: f64) -> f64 {
        let mut step = Step { sequences: 1.0, prefill: computed, kv: prompt, ..Step::one() };
        step.attention = computed * (prompt - computed / 2.0);
        step.computed = memory_bound::compute_bound(computed, 0.0, self.memory_bound as f64);
        let least = self.async_scheduling.map_or(0.0, |ahead| ahead.least(computed));
        self.costs.seconds(&step).max(least) + self.front.request.value + self.front.prompt_token.value * prompt
    }
}

/// Fits the cost model of a server with these limits to several runs.
pub fn fit(runs: &[Vec<Traced>], limits: &EngineSpec) -> Result<Fitted, FitError> {
    let (mut found, ahead) = read(runs, limits);
    slowdown::assign_windows(&mut found);
    let count = found.iter().map(|run| run.steps.len()).sum();
    if count < MIN_STEPS {
        return Err(FitError::TooFew { steps: count });
    }
    let padded_up_to = padding::detect(&mut found);
    let single = batch_of_one::detect(&mut found);
    let free = memory_bound::detect(&mut found);
    let (kept, interfered) = without_interference(&found)?;
    let idle_ttfts = without_interference_before(&found, &kept);
    let rough = robust(&kept).ok_or(FitError::Alike)?;
    let (kept, outliers) = without_outliers(&kept, &rough);
    let held_out = held_out_error(&kept).ok_or(FitError::Alike)?;
    let costs = exact(&kept).ok_or(FitError::Alike)?;
    let idle = Idle { limits, free, ahead: ahead.as_ref() };
    let (costs, front) = Front::with_costs(&found, &idle_ttfts, &kept, costs, &idle);
    let ahead = ahead.map(|first| async_steps::again(runs, limits, &costs, free, &first));
    let noise = slowdown::noise(&kept, &costs);
    Ok(Fitted {
        front,
        memory_bound: free,
        single,
        async_scheduling: ahead,
        costs,
        padded_up_to,
        noise,
        slowdown: slowdown::estimate(&found, &costs, noise),
        steps: kept.len(),
        unclear: found.iter().map(|run| run.unclear).sum(),
        outliers,
        interference: interfered,
        held_out,
        widest: found.iter().map(|run| run.widest).max().unwrap_or(0),
    })
}

/// Reads runs as steps, of an engine with asynchronous scheduling if they show it.
fn read(runs: &[Vec<Traced>], limits: &EngineSpec) -> (Vec<Found>, Option<AsyncScheduling>) {
    let found: Vec<Found> = runs.iter().map(|run| find(run, limits)).collect();
    let is_ahead = async_steps::holds_back(runs, limits) || comes_late(runs, &found, limits);
    match is_ahead.then(|| async_steps::find(runs, limits)).flatten() {
        Some((found, ahead)) => (found, Some(ahead)),
        None => (found, None),
    }
}

/// Returns whether first tokens come one step later than with synchronous scheduling.
fn comes_late(runs: &[Vec<Traced>], found: &[Found], limits: &EngineSpec) -> bool {
    let steps: Vec<Step> = found.iter().flat_map(|run| run.steps.iter().copied()).collect();
    let idle_ttfts: Vec<IdleTtft> = found.iter().flat_map(|run| run.idle_ttfts.iter().copied()).collect();
    let Some(rough) = robust(&steps).filter(|_| steps.len() >= MIN_STEPS && !idle_ttfts.is_empty()) else {
        return false;
    };
    let (_, front) = Front::with_costs(&[], &idle_ttfts, &steps, rough, &Idle { limits, free: 0, ahead: None });
    let to_engine = |prompt: f64| front.request.value + front.prompt_token.value * prompt;
    // Two steps with synchronous scheduling, three with asynchronous.
    async_steps::steps_to_first(runs, limits, to_engine).is_some_and(|steps| steps > 2.5)
}

/// The steps without interference; the fraction of the others, and their slowdown.
fn without_interference(found: &[Found]) -> Result<(Vec<Step>, (f64, f64)), FitError> {
    let loads = loads(found);
    let all = || loads.iter().flatten().copied();
    let mut kept: Vec<Step> = all().collect();
    let mut slow = Vec::new();
    for _ in 0..3 {
        let rough = robust(&kept).ok_or(FitError::Alike)?;
        let interfering: Vec<bool> = loads.iter().flat_map(|steps| interfered(steps, &rough)).collect();
        kept = all().zip(&interfering).filter(|(_, slow)| !**slow).map(|(step, _)| step).collect();
        slow = all()
            .zip(&interfering)
            .filter(|(_, slow)| **slow)
            .map(|(step, _)| step.seconds / rough.seconds(&step))
            .collect();
    }
    let share = slow.len() as f64 / (kept.len() + slow.len()).max(1) as f64;
    Ok((kept, (share, if slow.is_empty() { 1.0 } else { median(slow.into_iter()) })))
}

/// First tokens at an idle server whose next step is without interference.
fn without_interference_before(found: &[Found], kept: &[Step]) -> Vec<IdleTtft> {
    let name = |step: &Step| (step.at.to_bits(), step.seconds.to_bits());
    let kept: HashSet<(u64, u64)> = kept.iter().map(name).collect();
    let next = |run: &Found, one: &IdleTtft| run.steps.iter().find(|step| step.at > one.at).map(name);
    let is_calm = |run: &Found, one: &&IdleTtft| next(run, one).is_none_or(|next| kept.contains(&next));
    found.iter().flat_map(|run| run.idle_ttfts.iter().filter(|one| is_calm(run, one)).copied()).collect()
}

/// Steps grouped by load: a short run may have interference throughout.
fn loads(found: &[Found]) -> Vec<Vec<Step>> {
    let mut loads: BTreeMap<i64, Vec<Step>> = BTreeMap::new();
    for run in found {
        let time: f64 = run.steps.iter().map(|step| step.seconds).sum();
        let mean =
            run.steps.iter().map(|step| step.sequences * step.seconds).sum::<f64>() / time.max(f64::MIN_POSITIVE);
        loads.entry((mean.max(1.0).log2() * 1.5).round() as i64).or_default().extend(&run.steps);
    }
    loads.into_values().collect()
}

fn data(steps: &[Step], windows: Option<Vec<usize>>) -> Data<6> {
    Data {
        rows: steps.iter().map(Step::row).collect(),
        targets: steps.iter().map(|step| step.seconds).collect(),
        windows,
    }
}

fn named([fixed, prefill, sequence, kv, attention, back_to_back_prefill]: [Estimate; 6]) -> Costs {
    Costs { fixed, prefill, sequence, kv, attention, back_to_back_prefill }
}

/// Costs by generalized least squares, with errors correlated within windows.
fn exact(steps: &[Step]) -> Option<Costs> {
    let windows = steps.iter().map(|step| step.window).collect();
    regress::fit(&data(steps, Some(windows))).map(named)
}

/// Costs by least squares with independent errors.
fn costs(steps: &[Step]) -> Option<Costs> {
    regress::fit(&data(steps, None)).map(named)
}

/// Costs by least squares, with iterative trimming of outliers.
fn robust(steps: &[Step]) -> Option<Costs> {
    let mut near = costs(steps)?;
    for _ in 0..4 {
        let off = |step: &Step| (step.seconds / near.seconds(step)).ln();
        let (middle, limit) = (median(steps.iter().map(off)), 2.5 * spread(steps.iter().map(off)).max(1e-3));
        let kept: Vec<Step> = steps.iter().copied().filter(|step| (off(step) - middle).abs() <= limit).collect();
        near = costs(&kept)?;
    }
    Some(near)
}

fn without_outliers(steps: &[Step], rough: &Costs) -> (Vec<Step>, usize) {
    let off = |step: &Step| (step.seconds / rough.seconds(step)).ln();
    let (middle, limit) = (median(steps.iter().map(off)), OUTLIER_DEVIATIONS * spread(steps.iter().map(off)).max(1e-3));
    let kept: Vec<Step> = steps.iter().copied().filter(|step| (off(step) - middle).abs() <= limit).collect();
    let outliers = steps.len() - kept.len();
    (kept, outliers)
}

/// Relative errors of held-out steps: median and p90.
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

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    if values.is_empty() { 0.0 } else { values[values.len() / 2] }
}

/// Robust standard deviation: 1.4826 times the median absolute deviation.
fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let middle = median(values.iter().copied());
    1.4826 * median(values.iter().map(|value| (value - middle).abs()))
}
