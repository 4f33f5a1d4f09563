//! Engines that prepare a step while the one before runs, and look at the tokens of that one only then. A step that takes
//! long to prepare holds back the tokens of the step before it and not its own, so that what is seen between two
//! arrivals is not what a step took: steps beside such a one are only known together.

use super::profile::Limits;
use super::steps::{Cluster, Found, Reading, Step, read};
use super::trace::Traced;
use super::{Costs, Estimate, costs, median};

/// Fewer steps than this tell nothing of how they are prepared.
const FEWEST: usize = 8;
/// Requests of a run that are looked at one by one, each beside all others.
const ENOUGH: usize = 1000;
/// A step is held back when it comes this much later than it should.
const HELD_BACK: f64 = 1.2;
/// Less than this share of a step after the end of a preparation, the engine had waited for it,
const SOON: f64 = 0.5;
/// and more than this, it had not.
const LATE: f64 = 1.0;
/// Steps with prompts that follow one another wait for nothing but the engine when they take this many preparations.
const LONG: f64 = 1.5;
/// A step is over before the next is prepared when it takes less than this share of that.
const SHORT: f64 = 0.75;
/// The sizes that engines record kernels up to.
const RECORDED: [f64; 8] = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// What an engine takes to prepare steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ahead {
    /// A step with prompts; nothing where it takes less than the step before.
    pub prepare: Estimate,
    /// The same where the step has no more than so many tokens, for which kernels are recorded.
    pub recorded: Estimate,
    /// So many; 0 where all steps with prompts are prepared alike.
    pub recorded_up_to: usize,
    /// Relative spread of preparations within a run,
    pub noise: f64,
    /// and of what they take in the mean from one run to another.
    pub drift: f64,
    /// What a step takes at least after it is prepared.
    pub drain: Estimate,
}

impl Ahead {
    /// What a step of so many tokens, prompts among them, takes to be prepared.
    pub fn prepares(&self, tokens: f64) -> f64 {
        let recorded = tokens <= self.recorded_up_to as f64;
        if recorded { self.recorded.value } else { self.prepare.value }
    }

    /// What such a step takes at least when it comes to an idle engine.
    pub fn least(&self, tokens: f64) -> f64 {
        let prepares = self.prepares(tokens);
        if prepares > 0.0 { prepares + self.drain.value } else { 0.0 }
    }
}

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
pub(super) fn find(runs: &[Vec<Traced>], limits: &Limits) -> Option<(Vec<Found>, Ahead)> {
    let readings: Vec<Reading> = runs.iter().map(|run| read(run, limits, 1)).collect();
    let plain: Vec<Step> = readings.iter().flat_map(|reading| alone(&reading.steps)).collect();
    let usual = costs(&plain)?;
    let ahead = prepared(&readings, |step| usual.seconds(step), None);
    let found = readings.into_iter().map(|reading| known(reading, &usual, &ahead)).collect();
    Some((found, ahead))
}

/// What preparing takes, by more steps than at first: when costs are known, so are those with prompts that are over sooner
/// than the next is prepared.
pub(super) fn again(runs: &[Vec<Traced>], limits: &Limits, costs: &Costs, free: usize, first: &Ahead) -> Ahead {
    let readings: Vec<Reading> = runs.iter().map(|run| read(run, limits, 1)).collect();
    let takes = |step: &Step| costs.seconds(&Step { computed: step.beyond.when(free), ..*step });
    prepared(&readings, takes, Some(first))
}

fn has_prompts(step: Option<&Option<Step>>) -> bool {
    step.is_some_and(|step| step.is_none_or(|step| step.prefill > 0.0))
}

/// Steps without prompts that neither hold back others nor are held back.
fn alone(steps: &[Option<Step>]) -> impl Iterator<Item = Step> {
    (0..steps.len())
        .filter(|at| !has_prompts(steps.get(*at)) && !has_prompts(steps.get(at + 1)))
        .filter_map(|at| steps[at])
}

fn tokens(step: &Step, cluster: &Cluster) -> f64 {
    step.prefill + cluster.tokens.len() as f64 - cluster.began().count() as f64
}

/// What steps with prompts took to be prepared: the step before them came so much later. That is one without prompts, or
/// one that `takes` much less than a preparation by what is known `before`.
fn prepared(readings: &[Reading], takes: impl Fn(&Step) -> f64, before: Option<&Ahead>) -> Ahead {
    let (mut seen, mut runs): (Vec<(f64, f64)>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut expected, mut drained) = (0.0, Vec::new());
    for Reading { clusters, steps, .. } in readings {
        runs.push(seen.len());
        for at in 0..steps.len().saturating_sub(1) {
            let [Some(step), Some(next)] = &steps[at..=at + 1] else { continue };
            let (in_next, usual) = (tokens(next, &clusters[at + 1]), takes(step));
            let is_short = |ahead: &Ahead| usual < SHORT * ahead.prepares(in_next);
            if next.prefill == 0.0 || (step.prefill > 0.0 && !before.is_some_and(is_short)) {
                continue;
            }
            seen.push((in_next, step.seconds));
            expected += usual;
            if step.prefill == 0.0 && !has_prompts(steps.get(at + 2)) && next.seconds < SOON * usual {
                drained.push(next.seconds);
            }
        }
    }
    if seen.len() < FEWEST || seen.iter().map(|(_, took)| took).sum::<f64>() < HELD_BACK * expected {
        return Ahead::default();
    }
    let split =
        RECORDED.into_iter().filter_map(|size| apart(&seen, size)).max_by(|one, other| one.1.total_cmp(&other.1));
    let (below, above): (Vec<_>, Vec<_>) =
        seen.iter().partition(|(tokens, _)| split.is_some_and(|(size, _)| *tokens <= size));
    let took = |steps: &[(f64, f64)]| steps.iter().map(|(_, took)| *took).collect::<Vec<f64>>();
    let (recorded, prepare) = (mean(&took(&below)), mean(&took(&above)));
    let usual =
        |tokens: f64| if split.is_some_and(|(size, _)| tokens <= size) { recorded.value } else { prepare.value };
    let off: Vec<f64> = seen.iter().map(|(tokens, took)| took / usual(*tokens) - 1.0).collect();
    let ends = runs.iter().skip(1).copied().chain([off.len()]);
    let (noise, drift) = spreads(runs.iter().zip(ends).map(|(from, to)| &off[*from..to]));
    let drain = if drained.is_empty() { Estimate::default() } else { mean(&drained) };
    Ahead { prepare, recorded, recorded_up_to: split.map_or(0, |(size, _)| size as usize), noise, drift, drain }
}

/// How far values are off within their runs, and the means of runs from each other beyond that.
fn spreads<'a>(runs: impl Iterator<Item = &'a [f64]>) -> (f64, f64) {
    let (mut within, mut free, mut means) = (0.0, 0.0, Vec::new());
    for run in runs.filter(|run| run.len() > 1) {
        let (count, mean) = (run.len() as f64, run.iter().sum::<f64>() / run.len() as f64);
        within += run.iter().map(|off| (off - mean).powi(2)).sum::<f64>();
        free += count - 1.0;
        means.push((count, mean));
    }
    if free == 0.0 {
        return (0.0, 0.0);
    }
    let within = within / free;
    let all: f64 = means.iter().map(|(count, _)| count).sum();
    // Runs of few are off by the noise of those.
    let between =
        means.iter().map(|(count, mean)| count * mean.powi(2)).sum::<f64>() / all - within * means.len() as f64 / all;
    (within.sqrt(), between.max(0.0).sqrt())
}

/// How surely steps of no more than so many tokens are prepared sooner than the others.
fn apart(seen: &[(f64, f64)], size: f64) -> Option<(f64, f64)> {
    let (below, above): (Vec<_>, Vec<_>) = seen.iter().partition(|(tokens, _)| *tokens <= size);
    if below.len() < FEWEST || above.len() < FEWEST {
        return None;
    }
    let [below, above] = [below, above].map(|steps| mean(&steps.iter().map(|(_, took)| *took).collect::<Vec<f64>>()));
    let surely = (above.value - below.value) / above.half.hypot(below.half).max(f64::MIN_POSITIVE);
    (surely > 2.0 && above.value > HELD_BACK * below.value).then_some((size, surely))
}

/// The mean with its interval.
fn mean(values: &[f64]) -> Estimate {
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count.max(1.0);
    let spread = (values.iter().map(|one| (one - value).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
    Estimate { value, half: 1.96 * spread / count.max(1.0).sqrt() }
}

/// Steps whose length is that of the engine's work: those beside no prompts, and from one of these to the next all that lie
/// between, unless the engine had to wait for a preparation.
fn known(reading: Reading, usual: &Costs, ahead: &Ahead) -> Found {
    let Reading { clusters, steps, mut found } = reading;
    found.steps = Vec::new();
    let mut at = 0;
    while at < steps.len() {
        let first = at;
        at += 1;
        let Some(step) = steps[first].filter(|step| step.prefill == 0.0) else { continue };
        if !has_prompts(steps.get(first + 1)) {
            found.steps.push(step);
            continue;
        }
        let mut whole = step;
        let mut waited = false;
        while let Some(Some(next)) = steps.get(at).filter(|_| has_prompts(steps.get(at))) {
            let last = !has_prompts(steps.get(at + 1));
            // Another follows: its preparation has passed before this one's tokens came.
            waited |= match last {
                true => next.seconds < LATE * usual.seconds(&step),
                false => next.seconds < LONG * ahead.prepares(tokens(next, &clusters[at])),
            };
            whole.add(next);
            at += 1;
            if last {
                found.steps.extend((!waited).then_some(whole));
                break;
            }
        }
    }
    found
}
