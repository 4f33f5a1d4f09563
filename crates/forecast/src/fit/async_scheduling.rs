//! Host-side scheduling times of an engine with asynchronous scheduling: a prefill step that is slow to schedule delays the
//! tokens of the step before.

use super::Estimate;
use super::robust::median;
use super::steps::{Reading, Step};

/// Least prefill steps for an estimate.
pub(super) const MIN_SAMPLES: usize = 8;
/// A step is delayed if it takes this many times its expected duration.
pub(super) const DELAYED: f64 = 1.2;
/// If the next step ends within this fraction of a step, the engine was waiting for the scheduler.
const SCHEDULER_BOUND: f64 = 0.5;
/// A step ends before the next is scheduled if it takes less than this fraction of the scheduling time.
const SHORT_STEP: f64 = 0.75;
/// Sizes up to which engines capture full CUDA graphs.
const CAPTURE_SIZES: [f64; 8] = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AsyncScheduling {
    /// Of a prefill step; zero if it is hidden by the step before.
    pub schedule: Estimate,
    /// Of a prefill step that runs as a full CUDA graph.
    pub cudagraph: Estimate,
    /// Most tokens of such a step; 0 if all prefill steps are alike.
    pub cudagraph_max_tokens: usize,
    /// Relative standard deviation within a run.
    pub noise: f64,
    /// Relative standard deviation of the mean between runs.
    pub drift: f64,
    /// Minimum time from launch to token output.
    pub drain: Estimate,
}

impl AsyncScheduling {
    /// Scheduling time of a prefill step with `tokens` tokens.
    pub fn schedule_time(&self, tokens: f64) -> f64 {
        let recorded = tokens <= self.cudagraph_max_tokens as f64;
        if recorded { self.cudagraph.value } else { self.schedule.value }
    }

    /// Minimum duration of such a step on an idle engine.
    pub fn min(&self, tokens: f64) -> f64 {
        let schedule_time = self.schedule_time(tokens);
        if schedule_time > 0.0 { schedule_time + self.drain.value } else { 0.0 }
    }
}

/// Tokens and scheduling time of a prefill step.
#[derive(Debug, Clone, Copy)]
struct SchedulingSample {
    tokens: f64,
    took: f64,
}

#[derive(Debug, Default)]
struct Seen {
    runs: Vec<Vec<SchedulingSample>>,
    /// Durations of the delayed steps, by those expected.
    delays: Vec<f64>,
    /// Times from the end of scheduling to the tokens, where the engine was waiting.
    drained: Vec<f64>,
}

/// Scheduling times of prefill steps, seen as the delay of the step before. That is a decode step, or one that `takes`
/// much less than a scheduling time, as far as it is known `before`.
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
            let is_short = |ahead: &AsyncScheduling| usual < SHORT_STEP * ahead.schedule_time(tokens);
            if next.prefill == 0.0 || reading.has_parts[at + 1] || (step.prefill > 0.0 && !before.is_some_and(is_short))
            {
                continue;
            }
            run.push(SchedulingSample { tokens, took: step.seconds });
            seen.delays.push(step.seconds / usual.max(f64::MIN_POSITIVE));
            if step.prefill == 0.0 && !reading.has_prompts(at + 2) && next.seconds < SCHEDULER_BOUND * usual {
                seen.drained.push(next.seconds);
            }
        }
        seen.runs.push(run);
    }
    seen.estimate()
}

impl Seen {
    fn estimate(&self) -> AsyncScheduling {
        let all: Vec<SchedulingSample> = self.runs.iter().flatten().copied().collect();
        // Scheduling delays most of them.
        if all.len() < MIN_SAMPLES || median(self.delays.iter().copied()) < DELAYED {
            return AsyncScheduling::default();
        }
        let sizes = CAPTURE_SIZES.into_iter().filter_map(|size| separation(&all, size));
        let size = sizes.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(0.0, |(size, _)| size);
        let (below, above) = split_at(&all, size);
        let estimate = AsyncScheduling {
            schedule: mean(&above),
            cudagraph: mean(&below),
            cudagraph_max_tokens: size as usize,
            drain: mean(&self.drained),
            ..AsyncScheduling::default()
        };
        let off = |one: &SchedulingSample| one.took / estimate.schedule_time(one.tokens) - 1.0;
        let runs: Vec<Vec<f64>> = self.runs.iter().map(|run| run.iter().map(off).collect()).collect();
        let (noise, drift) = spreads(&runs);
        AsyncScheduling { noise, drift, ..estimate }
    }
}

/// Scheduling times of steps up to this size, and of larger ones.
fn split_at(seen: &[SchedulingSample], size: f64) -> (Vec<f64>, Vec<f64>) {
    let (below, above): (Vec<SchedulingSample>, Vec<SchedulingSample>) =
        seen.iter().partition(|one| one.tokens <= size);
    let took = |steps: Vec<SchedulingSample>| steps.into_iter().map(|one| one.took).collect();
    (took(below), took(above))
}

/// The t statistic of the difference in scheduling time between steps up to this size and larger ones.
fn separation(seen: &[SchedulingSample], size: f64) -> Option<(f64, f64)> {
    let (below, above) = split_at(seen, size);
    if below.len() < MIN_SAMPLES || above.len() < MIN_SAMPLES {
        return None;
    }
    let [below, above] = [below, above].map(|took| mean(&took));
    let t = (above.value - below.value) / above.half.hypot(below.half).max(f64::MIN_POSITIVE);
    (t > 2.0 && above.value > DELAYED * below.value).then_some((size, t))
}

fn mean(values: &[f64]) -> Estimate {
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count.max(1.0);
    let spread = (values.iter().map(|one| (one - value).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
    Estimate { value, half: 1.96 * spread / count.max(1.0).sqrt() }
}

/// Relative standard deviation within runs, and of the means of runs beyond that.
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
    // The means of short runs vary by the noise alone.
    let between =
        means.iter().map(|(count, mean)| count * mean.powi(2)).sum::<f64>() / all - within * means.len() as f64 / all;
    (within.sqrt(), between.max(0.0).sqrt())
}
