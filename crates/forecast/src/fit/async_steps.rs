//! Engines that prepare a step while the one before runs, and look at the tokens of that one only then. A step that takes
//! long to prepare holds back the tokens of the step before it and not its own, so that what is seen between two
//! arrivals is not what a step took: steps beside such a one are only known together.

use super::async_scheduling::{AsyncScheduling, FEWEST, HELD_BACK, prepared};
use super::profile::Limits;
use super::steps::{Cluster, Found, Reading, Step, read};
use super::trace::Traced;
use super::{Costs, costs, median};

/// Requests of a run that are looked at one by one, each beside all others.
const ENOUGH: usize = 1000;
/// More than this share of a step after the end of a preparation, the engine had not waited for it.
const LATE: f64 = 1.0;
/// Steps with prompts that follow one another wait for nothing but the engine when they take this many preparations.
const LONG: f64 = 1.5;

/// Whether steps before those with prompts come late, as if they had waited for the preparation of what follows.
pub(super) fn holds_back(runs: &[Vec<Traced>], limits: &Limits) -> bool {
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
    late.len() >= FEWEST && median(late.into_iter()) > HELD_BACK
}

/// Steps from the one that a request came upon to the one that brought its first token, in the mean over requests that found
/// others at work, room beside them and nobody waiting; none where there are too few. `front` is what a request takes to the
/// engine.
pub(super) fn steps_to_first(runs: &[Vec<Traced>], limits: &Limits, front: impl Fn(f64) -> f64) -> Option<f64> {
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
        for (at, request) in clusters.iter().enumerate().filter_map(lone).take(ENOUGH) {
            let one = &run[request];
            let came = one.sent + front(one.prompt as f64);
            let upon = clusters.partition_point(|cluster| cluster.at <= came);
            let beside = run.iter().filter(|other| runs(other, came)).count();
            let free = beside > 0
                && beside < limits.max_num_seqs
                && one.prompt as usize + beside <= limits.max_num_batched_tokens
                && run.iter().filter(|other| waits(other, came)).count() == 1;
            if free && upon > 0 && upon <= at {
                counts.push((at - upon + 1) as f64);
            }
        }
    }
    (counts.len() >= 2 * FEWEST).then(|| counts.iter().sum::<f64>() / counts.len() as f64)
}

/// The runs of an engine that prepares ahead: steps that are known, alone or together, and what preparing takes.
pub(super) fn find(runs: &[Vec<Traced>], limits: &Limits) -> Option<(Vec<Found>, AsyncScheduling)> {
    let readings: Vec<Reading> = runs.iter().map(|run| read(run, limits, 1)).collect();
    let plain: Vec<Step> = readings.iter().flat_map(undelayed).collect();
    let usual = costs(&plain)?;
    let ahead = prepared(&readings, |step| usual.seconds(step), None);
    let found = readings.into_iter().map(|reading| known(reading, &usual, &ahead)).collect();
    Some((found, ahead))
}

/// What preparing takes, by more steps than at first: when costs are known, so are those with prompts that are over sooner
/// than the next is prepared.
pub(super) fn again(
    runs: &[Vec<Traced>],
    limits: &Limits,
    costs: &Costs,
    free: usize,
    first: &AsyncScheduling,
) -> AsyncScheduling {
    let readings: Vec<Reading> = runs.iter().map(|run| read(run, limits, 1)).collect();
    let takes = |step: &Step| costs.seconds(&Step { computed: step.beyond.when(free), ..*step });
    prepared(&readings, takes, Some(first))
}

/// Steps without prompts that neither hold back others nor are held back.
fn undelayed(reading: &Reading) -> impl Iterator<Item = Step> {
    (0..reading.steps.len())
        .filter(|at| !reading.has_prompts(*at) && !reading.has_prompts(at + 1))
        .filter_map(|at| reading.steps[at])
}

/// Steps whose length is that of the engine's work: those beside no prompts, and from one of these to the next all that lie
/// between, unless the engine had to wait for a preparation.
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
            // Another follows: its preparation has passed before this one's tokens came.
            waited |= match last {
                true => next.seconds < LATE * usual.seconds(&step),
                false => next.seconds < LONG * ahead.prepares(reading.tokens(at + 1)),
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
