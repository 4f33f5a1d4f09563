//! The run over time, in equal steps.

use tacho_core::json::{Dict, Value};
use tacho_metrics::{RunRecord, Sample};

/// Into how many steps a run is cut at least, and at most.
const STEPS: (f64, f64) = (40.0, 300.0);
/// Requests that a step should have, for a rate in it to say something.
const REQUESTS: f64 = 5.0;

/// The moment that times on the page count from: when the first request was due.
pub(super) fn origin(samples: &[Sample]) -> f64 {
    let first = samples.iter().map(|sample| sample.due.min(sample.released)).fold(f64::INFINITY, f64::min);
    if first.is_finite() { first } else { 0.0 }
}

/// What happened in each step; nothing without requests.
pub(super) fn time(record: &RunRecord) -> Option<Dict> {
    let samples = &record.measured.samples;
    let origin = origin(samples);
    let end = samples.iter().map(|sample| sample.done).reduce(f64::max)? - origin;
    let step = readable(end / (samples.len() as f64 / REQUESTS).clamp(STEPS.0, STEPS.1));
    let steps = ((end / step).ceil() as usize).max(1);
    let mut counted = Counted::new(steps, step, end);
    samples.iter().for_each(|sample| counted.add(sample, origin));
    let mut dict = Dict::new();
    dict.set("step", step);
    dict.set("times", floats((0..steps).map(|at| at as f64 * step)));
    for (name, values) in counted.rows {
        dict.set(name, floats(values.into_iter()));
    }
    Some(dict)
}

/// A length that people count in, not below `rough`.
fn readable(rough: f64) -> f64 {
    let power = 10f64.powf(rough.max(1e-6).log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough).unwrap_or(rough)
}

fn floats(values: impl Iterator<Item = f64>) -> Vec<Value> {
    // Four digits are more than a pixel shows.
    let short = |value: f64| if value == 0.0 { 0.0 } else { format!("{value:.4e}").parse().unwrap_or(value) };
    values.map(|value| Value::Float(short(value))).collect()
}

/// Rates and means per step.
struct Counted {
    step: f64,
    end: f64,
    rows: [(&'static str, Vec<f64>); 6],
}

const TOKENS: usize = 0;
const SENT: usize = 1;
const FINISHED: usize = 2;
const FAILED: usize = 3;
const RUNNING: usize = 4;
const WAITING: usize = 5;

impl Counted {
    fn new(steps: usize, step: f64, end: f64) -> Self {
        let names = ["tokens", "sent", "finished", "failed", "running", "waiting"];
        Counted { step, end, rows: names.map(|name| (name, vec![0.0; steps])) }
    }

    fn add(&mut self, sample: &Sample, origin: f64) {
        let (released, sent, done) = (sample.released - origin, sample.sent - origin, sample.done - origin);
        self.event(SENT, sent, 1.0);
        self.event(if sample.success() { FINISHED } else { FAILED }, done, 1.0);
        self.lasting(WAITING, released, sent);
        self.lasting(RUNNING, sent, done);
        if sample.success() {
            // Each event brought its share of the tokens.
            let weight = sample.output_len as f64 / sample.events().max(1) as f64;
            let mut moment = sent + sample.ttft;
            self.event(TOKENS, moment, weight);
            for gap in &sample.itl {
                moment += gap;
                self.event(TOKENS, moment, weight);
            }
        }
    }

    /// The part of a step that belongs to the run: all of it, but for the last. A sliver would show a peak that was not
    /// there, and counts as half a step.
    fn length(&self, at: usize) -> f64 {
        (self.end - at as f64 * self.step).clamp(self.step * 0.5, self.step)
    }

    fn at(&self, moment: f64) -> usize {
        ((moment / self.step).max(0.0) as usize).min(self.rows[0].1.len() - 1)
    }

    fn event(&mut self, row: usize, moment: f64, amount: f64) {
        let at = self.at(moment);
        self.rows[row].1[at] += amount / self.length(at);
    }

    /// Something that lasts counts in each step by the part of it that it fills.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(samples: &[Sample], steps: usize, step: f64, end: f64) -> Counted {
        let mut counted = Counted::new(steps, step, end);
        samples.iter().for_each(|sample| counted.add(sample, 0.0));
        counted
    }

    #[test]
    fn what_lasts_counts_by_the_part_that_it_fills() {
        let sample = Sample {
            released: 0.5,
            sent: 1.0,
            done: 2.5,
            ttft: 0.5,
            itl: vec![0.75],
            output_len: 4,
            ..Sample::default()
        };
        let rows = counted(&[sample], 3, 1.0, 2.5).rows;
        assert_eq!(rows[WAITING].1, [0.5, 0.0, 0.0]);
        assert_eq!(rows[RUNNING].1, [0.0, 1.0, 1.0]);
        // The last step is half as long as the others.
        assert_eq!(rows[TOKENS].1, [0.0, 2.0, 4.0]);
        assert_eq!((rows[SENT].1[1], rows[FINISHED].1[2], rows[FAILED].1[2]), (1.0, 2.0, 0.0));
    }

    #[test]
    fn steps_are_readable() {
        assert_eq!([0.003, 0.19, 1.0, 7.0].map(readable), [0.005, 0.2, 1.0, 10.0]);
    }
}
