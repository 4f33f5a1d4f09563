//! What an engine takes to prepare its steps, where it does that while the one before runs: the tokens of that one come so
//! much later.

use super::Estimate;
use super::steps::{Reading, Step};

/// Fewer steps than this tell nothing of how they are prepared.
pub(super) const FEWEST: usize = 8;
/// A step is held back when it comes this much later than it should.
pub(super) const HELD_BACK: f64 = 1.2;
/// Less than this share of a step after the end of a preparation, the engine had waited for it.
const SOON: f64 = 0.5;
/// A step is over before the next is prepared when it takes less than this share of that.
const SHORT: f64 = 0.75;
/// The sizes that engines record kernels up to.
const RECORDED: [f64; 8] = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// What an engine takes to prepare steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AsyncScheduling {
    /// A step with prompts; nothing where it takes less than the step before.
    pub schedule: Estimate,
    /// The same where the step has no more than so many tokens, for which kernels are recorded.
    pub cudagraph: Estimate,
    /// So many; 0 where all steps with prompts are prepared alike.
    pub cudagraph_max_tokens: usize,
    /// Relative spread of preparations within a run,
    pub noise: f64,
    /// and of what they take in the mean from one run to another.
    pub drift: f64,
    /// What a step takes at least after it is prepared.
    pub drain: Estimate,
}

impl AsyncScheduling {
    /// What a step of so many tokens, prompts among them, takes to be prepared.
    pub fn prepares(&self, tokens: f64) -> f64 {
        let recorded = tokens <= self.cudagraph_max_tokens as f64;
        if recorded { self.cudagraph.value } else { self.schedule.value }
    }

    /// What such a step takes at least when it comes to an idle engine.
    pub fn least(&self, tokens: f64) -> f64 {
        let prepares = self.prepares(tokens);
        if prepares > 0.0 { prepares + self.drain.value } else { 0.0 }
    }
}

/// A step with prompts that was prepared: its tokens of any kind, and what that took.
#[derive(Debug, Clone, Copy)]
struct Prepared {
    tokens: f64,
    took: f64,
}

/// What runs tell of preparations.
#[derive(Debug, Default)]
struct Seen {
    runs: Vec<Vec<Prepared>>,
    /// What the steps that were held back would have taken, in all.
    expected: f64,
    /// From the end of a preparation that the engine had waited for to its tokens.
    drained: Vec<f64>,
}

/// What steps with prompts took to be prepared: the step before them came so much later. That is one without prompts, or
/// one that `takes` much less than a preparation by what is known `before`.
pub(super) fn prepared(
    readings: &[Reading],
    takes: impl Fn(&Step) -> f64,
    before: Option<&AsyncScheduling>,
) -> AsyncScheduling {
    let mut seen = Seen::default();
    for reading in readings {
        let mut run = Vec::new();
        for at in 0..reading.steps.len().saturating_sub(1) {
            let [Some(step), Some(next)] = &reading.steps[at..=at + 1] else { continue };
            let (tokens, usual) = (reading.tokens(at + 1), takes(step));
            let is_short = |ahead: &AsyncScheduling| usual < SHORT * ahead.prepares(tokens);
            if next.prefill == 0.0 || (step.prefill > 0.0 && !before.is_some_and(is_short)) {
                continue;
            }
            run.push(Prepared { tokens, took: step.seconds });
            seen.expected += usual;
            if step.prefill == 0.0 && !reading.has_prompts(at + 2) && next.seconds < SOON * usual {
                seen.drained.push(next.seconds);
            }
        }
        seen.runs.push(run);
    }
    seen.told()
}

impl Seen {
    fn told(&self) -> AsyncScheduling {
        let all: Vec<Prepared> = self.runs.iter().flatten().copied().collect();
        let took: f64 = all.iter().map(|one| one.took).sum();
        if all.len() < FEWEST || took < HELD_BACK * self.expected {
            return AsyncScheduling::default();
        }
        let sizes = RECORDED.into_iter().filter_map(|size| apart(&all, size));
        let size = sizes.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(0.0, |(size, _)| size);
        let (below, above) = parted(&all, size);
        let told = AsyncScheduling {
            schedule: mean(&above),
            cudagraph: mean(&below),
            cudagraph_max_tokens: size as usize,
            drain: mean(&self.drained),
            ..AsyncScheduling::default()
        };
        let off = |one: &Prepared| one.took / told.prepares(one.tokens) - 1.0;
        let runs: Vec<Vec<f64>> = self.runs.iter().map(|run| run.iter().map(off).collect()).collect();
        let (noise, drift) = spreads(&runs);
        AsyncScheduling { noise, drift, ..told }
    }
}

/// What steps of no more than so many tokens took, and the others.
fn parted(seen: &[Prepared], size: f64) -> (Vec<f64>, Vec<f64>) {
    let (below, above): (Vec<Prepared>, Vec<Prepared>) = seen.iter().partition(|one| one.tokens <= size);
    let took = |steps: Vec<Prepared>| steps.into_iter().map(|one| one.took).collect();
    (took(below), took(above))
}

/// How surely steps of no more than so many tokens are prepared sooner than the others.
fn apart(seen: &[Prepared], size: f64) -> Option<(f64, f64)> {
    let (below, above) = parted(seen, size);
    if below.len() < FEWEST || above.len() < FEWEST {
        return None;
    }
    let [below, above] = [below, above].map(|took| mean(&took));
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

/// How far values are off within their runs, and the means of runs from each other beyond that.
fn spreads(runs: &[Vec<f64>]) -> (f64, f64) {
    let (mut within, mut free, mut means) = (0.0, 0.0, Vec::new());
    for run in runs.iter().filter(|run| run.len() > 1) {
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
