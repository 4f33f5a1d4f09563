//! Steps of an engine with asynchronous scheduling, which reads the tokens of a step after the next is scheduled. A
//! step that is slow to schedule delays the tokens of the step before and not its own. The time between two arrivals is
//! then not the duration of a step: adjacent steps are known only together.

use super::async_scheduling::{AsyncScheduling, DELAYED, MIN_SAMPLES, prepared};
use super::costs::{Costs, costs};
use super::steps::{Cluster, Found, Reading, Step, read};
use super::{robust::median, trace::Traced};
use tacho_engine::EngineSpec;

/// Most requests of a run that are examined one by one against all others.
const MAX_EXAMINED: usize = 1000;
/// Tokens that come more than this fraction of a step after the end of scheduling did not wait for it.
const MAX_LATE: f64 = 1.0;
/// Back-to-back prefill steps that take this many scheduling times are bound by the engine.
const ENGINE_BOUND: f64 = 1.5;

/// Returns whether steps before prefill steps are late, as if they had waited for the scheduling of the next.
pub(super) fn holds_back(runs: &[Vec<Traced>], limits: &EngineSpec) -> bool {
    let mut late = Vec::new();
    for run in runs {
        let Reading { steps, .. } = read(run, limits, 0);
        for at in 1..steps.len().saturating_sub(1) {
            let [Some(step), Some(next)] = &steps[at..=at + 1] else { continue };
            let before = steps[at.saturating_sub(8)..=at].windows(2).filter_map(|pair| match pair {
                [Some(one), Some(next)] if one.prefill == 0.0 && next.prefill == 0.0 => Some(one.seconds),
                _ => None,
            });
            let usual: Vec<f64> = before.collect();
            if step.prefill == 0.0 && next.prefill > 0.0 && usual.len() >= 3 {
                late.push(step.seconds / median(usual.into_iter()));
            }
        }
    }
    late.len() >= MIN_SAMPLES && median(late.into_iter()) > DELAYED
}

/// Mean number of steps from the arrival of a request to its first token, over requests that found a running batch with
/// room and an empty queue; `None` with too few. `front` is the front-end time of a request.
pub(super) fn steps_to_first(runs: &[Vec<Traced>], limits: &EngineSpec, front: impl Fn(f64) -> f64) -> Option<f64> {
    let mut counts = Vec::new();
    for run in runs {
        let Reading { clusters, .. } = read(run, limits, 0);
        let waits = |one: &Traced, now: f64| one.sent <= now && one.tokens.first().is_some_and(|first| *first > now);
        let runs = |one: &Traced, now: f64| {
            one.tokens.first().is_some_and(|first| *first <= now) && one.tokens.last() > Some(&now)
        };
        let lone = |(at, cluster): (usize, &Cluster)| {
            let mut began = cluster.began();
            let request = began.next()?;
            began.next().is_none().then_some((at, request))
        };
        for (at, request) in clusters.iter().enumerate().filter_map(lone).take(MAX_EXAMINED) {
            let one = &run[request];
            let came = one.sent + front(one.prompt as f64);
            let upon = clusters.partition_point(|cluster| cluster.at <= came);
            let others = run.iter().filter(|other| runs(other, came)).count();
            let free = others > 0
                && others < limits.max_num_seqs
                && one.prompt as usize + others <= limits.max_num_batched_tokens
                && run.iter().filter(|other| waits(other, came)).count() == 1;
            if free && upon > 0 && upon <= at {
                counts.push((at - upon + 1) as f64);
            }
        }
    }
    (counts.len() >= 2 * MIN_SAMPLES).then(|| counts.iter().sum::<f64>() / counts.len() as f64)
}

/// The runs of an engine with asynchronous scheduling: known steps, alone or together, and scheduling times.
pub(super) fn find(runs: &[Vec<Traced>], limits: &EngineSpec) -> Option<(Vec<Found>, AsyncScheduling)> {
    let readings: Vec<Reading> = runs.iter().map(|run| read(run, limits, 1)).collect();
    let plain: Vec<Step> = readings.iter().flat_map(undelayed).collect();
    let usual = costs(&plain)?;
    let ahead = prepared(&readings, |step| usual.seconds(step), None);
    let found = readings.into_iter().map(|reading| known(reading, &usual, &ahead)).collect();
    Some((found, ahead))
}

/// Scheduling times from more steps: once costs are known, prefill steps that end before the next is scheduled count
/// too.
pub(super) fn again(
    runs: &[Vec<Traced>],
    limits: &EngineSpec,
    costs: &Costs,
    free: usize,
    first: &AsyncScheduling,
) -> AsyncScheduling {
    let readings: Vec<Reading> = runs.iter().map(|run| read(run, limits, 1)).collect();
    let takes = |step: &Step| costs.seconds(&Step { computed: step.compute_bound.when(free), ..*step });
    prepared(&readings, takes, Some(first))
}

/// Decode steps that neither delay others nor are delayed.
fn undelayed(reading: &Reading) -> impl Iterator<Item = Step> {
    (0..reading.steps.len())
        .filter(|at| !reading.has_prompts(*at) && !reading.has_prompts(at + 1))
        .filter_map(|at| reading.steps[at])
}

/// Steps whose duration is that of the engine's work: those without adjacent prefill steps, and groups from one of
/// these to the next, unless the engine had to wait for the scheduler.
fn known(reading: Reading, usual: &Costs, ahead: &AsyncScheduling) -> Found {
    let (steps, mut found, mut at) = (&reading.steps, Vec::new(), 0);
    while at < steps.len() {
        let first = at;
        at += 1;
        let Some(step) = steps[first].filter(|step| step.prefill == 0.0) else { continue };
        if !reading.has_prompts(first + 1) {
            found.push(step);
            continue;
        }
        let mut whole = step;
        let mut waited = false;
        while let Some(Some(next)) = steps.get(at).filter(|_| reading.has_prompts(at)) {
            let last = !reading.has_prompts(at + 1);
            // Another follows: it was scheduled before this one's tokens were read.
            waited |= match last {
                true => next.seconds < MAX_LATE * usual.seconds(&step),
                false => next.seconds < ENGINE_BOUND * ahead.schedule_time(reading.tokens(at + 1)),
            };
            let back_to_back_prefill = if at > first + 1 { 1.0 } else { 0.0 };
            whole.add(&Step { back_to_back_prefill, ..*next });
            at += 1;
            if last {
                found.extend((!waited).then_some(whole));
                break;
            }
        }
    }
    Found { steps: found, ..reading.found }
}
