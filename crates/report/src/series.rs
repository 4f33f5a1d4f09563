//! A run over time in equal steps, for pages and the terminal.

use tacho_metrics::{Sample, Samples, percentile::percentile};

/// Least requests per step for a meaningful rate.
const REQUESTS: f64 = 5.0;

/// The origin of times: the scheduled time of the first request.
pub(crate) fn origin(samples: &Samples) -> f64 {
    let first = samples.iter().map(|sample| sample.scheduled.min(sample.dispatched)).fold(f64::INFINITY, f64::min);
    if first.is_finite() { first } else { 0.0 }
}

pub(crate) struct OverTime {
    /// Length of a step in seconds.
    pub(crate) step: f64,
    /// End of the run in seconds.
    pub(crate) end: f64,
    /// Rates and means by name.
    pub(crate) rows: [(&'static str, Vec<f64>); 6],
}

pub(crate) const TOKENS: usize = 0;
const SENT: usize = 1;
/// Requests that finished per second.
pub(crate) const FINISHED: usize = 2;
const FAILED: usize = 3;
/// Requests in flight.
pub(crate) const RUNNING: usize = 4;
/// Requests that wait for a slot.
pub(crate) const WAITING: usize = 5;

impl OverTime {
    /// The series of `samples` with a number of steps within these bounds; `None` without requests.
    pub(crate) fn of(samples: &Samples, (min, max): (f64, f64)) -> Option<Self> {
        let origin = origin(samples);
        let end = samples.iter().map(|sample| sample.done).reduce(f64::max)? - origin;
        let step = readable(end / (samples.len() as f64 / REQUESTS).clamp(min, max));
        // A very short last step would show a misleading rate.
        let mut over = OverTime::new(((end / step).round() as usize).max(1), step, end);
        samples.iter().for_each(|sample| over.add(&sample, origin));
        Some(over)
    }

    fn new(steps: usize, step: f64, end: f64) -> Self {
        let names = ["tokens", "sent", "finished", "failed", "running", "waiting"];
        OverTime { step, end, rows: names.map(|name| (name, vec![0.0; steps])) }
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.rows[row].1
    }

    fn add(&mut self, sample: &Sample, origin: f64) {
        let (dispatched, sent, done) = (sample.dispatched - origin, sample.sent - origin, sample.done - origin);
        self.event(SENT, sent, 1.0);
        self.event(if sample.success() { FINISHED } else { FAILED }, done, 1.0);
        self.lasting(WAITING, dispatched, sent);
        self.lasting(RUNNING, sent, done);
        if sample.success() {
            // Each event counts its share of the tokens.
            let weight = sample.output_len as f64 / sample.events().max(1) as f64;
            let mut time = sent + sample.ttft;
            self.event(TOKENS, time, weight);
            for gap in &sample.itl {
                time += gap;
                self.event(TOKENS, time, weight);
            }
        }
    }

    /// Length of a step: the last one ends with the run.
    fn length(&self, at: usize) -> f64 {
        if at + 1 == self.rows[0].1.len() { self.end - at as f64 * self.step } else { self.step }.max(1e-9)
    }

    fn at(&self, time: f64) -> usize {
        ((time / self.step).max(0.0) as usize).min(self.rows[0].1.len() - 1)
    }

    fn event(&mut self, row: usize, time: f64, amount: f64) {
        let at = self.at(time);
        self.rows[row].1[at] += amount / self.length(at);
    }

    /// Adds an interval to each step by the fraction of the step that it covers.
    fn lasting(&mut self, row: usize, from: f64, to: f64) {
        if to <= from {
            return;
        }
        for at in self.at(from)..=self.at(to) {
            let (start, length) = (at as f64 * self.step, self.length(at));
            let part = to.min(start + length) - from.max(start);
            self.rows[row].1[at] += part.max(0.0) / length;
        }
    }
}

/// Latencies of the requests sent in each step, in ms; NaN in a step without any.
pub(crate) struct LatencyOverTime {
    rows: Vec<(&'static str, Vec<f64>, Vec<f64>)>,
}

pub(crate) const UPPER_PERCENTILE: f64 = 90.0;

/// A latency of a request in seconds, if it has one.
type Latency = fn(&Sample) -> Option<f64>;

impl LatencyOverTime {
    /// Median and upper percentile of each latency, in the steps of `over`.
    pub(crate) fn of(samples: &Samples, over: &OverTime) -> Self {
        let origin = origin(samples);
        let steps = over.rows[0].1.len();
        let kinds: [(&'static str, Latency); 3] = [
            ("ttft", |sample| Some(sample.ttft).filter(|ttft| *ttft > 0.0)),
            ("tpot", tacho_metrics::latency::tpot),
            ("e2el", |sample| Some(sample.latency)),
        ];
        let rows = kinds.map(|(name, of)| {
            let mut steps = vec![Vec::new(); steps];
            for sample in samples.iter().filter(|sample| sample.success()) {
                if let Some(seconds) = of(&sample) {
                    steps[over.at(sample.sent - origin)].push(seconds * 1e3);
                }
            }
            let at = |times: &mut Vec<f64>, percent| {
                times.sort_unstable_by(f64::total_cmp);
                if times.is_empty() { f64::NAN } else { percentile(times, percent) }
            };
            let median = steps.iter_mut().map(|times| at(times, 50.0)).collect();
            (name, median, steps.iter_mut().map(|times| at(times, UPPER_PERCENTILE)).collect())
        });
        LatencyOverTime { rows: rows.to_vec() }
    }

    pub(crate) fn median(&self, name: &str) -> &[f64] {
        self.rows.iter().find(|row| row.0 == name).map_or(&[], |row| &row.1)
    }

    /// Name, median and upper percentile of each latency that the run has.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&'static str, &[f64], &[f64])> {
        let any = |row: &&(&'static str, Vec<f64>, Vec<f64>)| row.1.iter().any(|value| value.is_finite());
        self.rows.iter().filter(any).map(|(name, median, upper)| (*name, median.as_slice(), upper.as_slice()))
    }
}

/// A round length for people, at least `rough`.
fn readable(rough: f64) -> f64 {
    let power = 10f64.powf(rough.max(1e-6).log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough).unwrap_or(rough)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(samples: &Samples, steps: usize, step: f64, end: f64) -> OverTime {
        let mut counted = OverTime::new(steps, step, end);
        samples.iter().for_each(|sample| counted.add(&sample, 0.0));
        counted
    }

    #[test]
    fn intervals_count_by_the_covered_fraction_of_a_step() {
        let sample = Sample {
            dispatched: 0.5,
            sent: 1.0,
            done: 2.5,
            ttft: 0.5,
            itl: vec![0.75].into(),
            output_len: 4,
            ..Sample::default()
        };
        let rows = counted(&[sample].into(), 3, 1.0, 2.5).rows;
        assert_eq!(rows[WAITING].1, [0.5, 0.0, 0.0]);
        assert_eq!(rows[RUNNING].1, [0.0, 1.0, 1.0]);
        // The last step is half as long as the others.
        assert_eq!(rows[TOKENS].1, [0.0, 2.0, 4.0]);
        assert_eq!((rows[SENT].1[1], rows[FINISHED].1[2], rows[FAILED].1[2]), (1.0, 2.0, 0.0));
    }

    #[test]
    fn a_short_last_step_is_not_a_peak() {
        let one = |done: f64| Sample { done, latency: done, ..Sample::default() };
        let samples: Samples = (1..=41).map(|at| one(f64::from(at) * 0.25)).chain([one(10.26)]).collect();
        let over = OverTime::of(&samples, (10.0, 10.0)).unwrap();
        let finished = &over.rows[FINISHED].1;
        assert!(finished.iter().all(|rate| *rate <= 6.0), "{finished:?}");
    }

    #[test]
    fn steps_are_readable() {
        assert_eq!([0.003, 0.19, 1.0, 7.0].map(readable), [0.005, 0.2, 1.0, 10.0]);
    }
}
