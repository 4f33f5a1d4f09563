//! Cost model of a server from client-side measurements: engine steps are reconstructed from token arrival times, and their
//! durations are regressed on the contents of the batch. Pure functions of samples.

mod async_scheduling;
mod async_steps;
mod batch_of_one;
pub(crate) mod costs;
mod error;
mod experiment;
mod fitted;
mod front;
mod interference;
pub mod limits;
mod memory_bound;
mod padding;
mod prefix_caching;
mod profile;
mod regress;
pub(crate) mod robust;
mod slowdown;
mod step_comparison;
pub(crate) mod steps;
mod trace;

pub use async_scheduling::AsyncScheduling;
pub use costs::Costs;
pub use error::{FitError, MAX_HELD_OUT_ERROR};
pub use experiment::{Experiment, LEVELS, Length, Load, MAX_ROUNDS, Server};
pub use fitted::Fitted;
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

use costs::{costs, exact, robust};
use error::MIN_STEPS;
use front::Idle;
use interference::interfered;
use robust::{median, spread};

/// Steps further off than this many robust standard deviations are outliers.
const OUTLIER_DEVIATIONS: f64 = 6.0;
/// One of this many steps is held out.
const HELD_OUT: usize = 5;

/// Fits the cost model of a server with these limits to several runs. Whether it schedules asynchronously is read from
/// the runs if it is not stated.
pub fn fit(runs: &[Vec<Traced>], limits: &EngineSpec, async_scheduling: Option<bool>) -> Result<Fitted, FitError> {
    let (mut found, ahead) = read(runs, limits, async_scheduling);
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

/// Reads runs as steps, of an engine with asynchronous scheduling if that is stated or if they show it.
fn read(runs: &[Vec<Traced>], limits: &EngineSpec, stated: Option<bool>) -> (Vec<Found>, Option<AsyncScheduling>) {
    let found: Vec<Found> = runs.iter().map(|run| find(run, limits)).collect();
    let is_ahead = stated.unwrap_or_else(|| async_steps::holds_back(runs, limits) || comes_late(runs, &found, limits));
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
