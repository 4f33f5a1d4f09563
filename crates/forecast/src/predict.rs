//! A workload predicted by simulating it several times.

use tacho_engine::Machine;
use tacho_record::RunRecord;

use crate::{PredictionInterval, simulated_run::SimulatedRun};

/// Most output tokens of all rounds of simulations.
const MAX_TOKENS: i64 = 1_000_000;
/// Most rounds of simulations: short runs vary more and are cheap to simulate.
const MAX_ROUNDS: i64 = 5;
/// A run at constant speed is typical if the prediction intervals, widened by this factor, contain its metrics. Slow
/// phases can move the tail of a run at varying speed far beyond anything that a constant speed gives.
const TOLERANCE: f64 = 1.05;

/// The metrics with a prediction interval.
pub const METRICS: [&str; 11] = [
    "request_throughput",
    "output_throughput",
    "mean_ttft_ms",
    "median_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "median_e2el_ms",
    "p99_e2el_ms",
];

#[derive(Debug)]
pub struct Prediction {
    /// A typical run: the simulation nearest to the expected values, or one at constant speed if the speed varies little.
    pub record: RunRecord,
    /// Whether the speed varies so much that no run at constant speed is typical.
    pub is_uneven: bool,
    /// Metrics with their prediction intervals; empty if nothing is random.
    pub intervals: Vec<(&'static str, PredictionInterval)>,
    /// Number of simulations behind the intervals.
    pub simulations: usize,
    /// All simulations, those without an interval included.
    pub runs: usize,
}

impl Prediction {
    /// Predicts a workload with `output_tokens` tokens of output. `simulate` runs it on a machine with a seed: the
    /// simulations differ in noise and in the fitted parameters, within their uncertainty.
    pub fn of<E>(
        machine: &Machine,
        output_tokens: i64,
        mut simulate: impl FnMut(&Machine, u64) -> Result<RunRecord, E>,
    ) -> Result<Self, E> {
        let versions: Vec<Machine> = if machine.is_noisy() { machine.versions().collect() } else { Vec::new() };
        let rounds = (MAX_TOKENS / (output_tokens * versions.len() as i64).max(1)).clamp(1, MAX_ROUNDS);
        let runs = (0..rounds).flat_map(|_| &versions).zip(1..);
        let mut records: Vec<RunRecord> =
            runs.map(|(version, seed)| simulate(version, seed)).collect::<Result<_, E>>()?;
        // Runs at a varying speed differ too much for one of them to be typical.
        let steady = match machine.slowdown.is_some() || records.is_empty() {
            true => Some(simulate(&machine.steady(), 1)?),
            false => None,
        };
        let values = values(&records);
        let (simulations, runs) = (records.len(), records.len() + usize::from(steady.is_some()));
        let mut intervals = intervals(&values);
        let constant = steady.as_ref().map(SimulatedRun::of_record);
        let at = |metric: &str| constant.as_ref().and_then(|run| run.value(metric));
        let represented = |(metric, interval): &(&'static str, PredictionInterval)| {
            at(metric).is_none_or(|value| (interval.low / TOLERANCE..=interval.high * TOLERANCE).contains(&value))
        };
        let is_uneven = !intervals.iter().all(represented);
        for (metric, interval) in intervals.iter_mut().filter(|_| !is_uneven) {
            let inside = at(metric).filter(|value| (interval.low..=interval.high).contains(value));
            interval.expected = inside.unwrap_or(interval.expected);
        }
        let record = match steady {
            Some(steady) if !is_uneven => steady,
            _ => records.swap_remove(typical(&values)),
        };
        Ok(Prediction { record, is_uneven, intervals, simulations, runs })
    }
}

/// The values of a metric over simulations; `None` if one of them does not have it.
type Values = Option<Vec<f64>>;

fn values(records: &[RunRecord]) -> [Values; METRICS.len()] {
    let runs: Vec<SimulatedRun> = records.iter().map(SimulatedRun::of_record).collect();
    METRICS.map(|metric| runs.iter().map(|run| run.value(metric)).collect())
}

/// Prediction intervals of the metrics that every simulation has.
fn intervals(values: &[Values]) -> Vec<(&'static str, PredictionInterval)> {
    let interval =
        |(metric, values): (&&'static str, &Values)| Some((*metric, PredictionInterval::of(values.as_ref()?)?));
    METRICS.iter().zip(values).filter_map(interval).collect()
}

/// The simulation nearest to the means of all metrics, each in units of its standard deviation.
fn typical(values: &[Values]) -> usize {
    let mut distance = vec![0.0; values.iter().flatten().map(Vec::len).max().unwrap_or(0)];
    for values in values.iter().flatten() {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        for (distance, value) in distance.iter_mut().zip(values).filter(|_| squares > 0.0) {
            *distance += (value - mean).powi(2) / squares;
        }
    }
    (0..distance.len()).min_by(|one, other| distance[*one].total_cmp(&distance[*other])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_engine::Slowdown;
    use tacho_metrics::{Sample, Setup};
    use tacho_record::Measured;

    /// Slow phases give the tail of runs at varying speed, and a run at constant speed has none.
    #[test]
    fn an_expected_value_lies_in_its_interval() {
        let text = r#"{"tacho_profile": 2, "name": "mine", "cost": {"fixed_us": 1000.0}, "noise": 0.01}"#;
        let machine = Machine::parse(text, "p.json").unwrap();
        let uneven = Machine { slowdown: Some(Slowdown { factors: vec![1.0, 3.0], seconds: 1.0 }), ..machine };
        let simulate = |slow: f64| {
            move |machine: &Machine, seed: u64| {
                let wait = if machine.slowdown.is_some() { slow + 0.0005 * seed as f64 } else { 0.04 };
                let sample =
                    Sample { ttft: wait, latency: 3.0 * wait, done: 3.0 * wait, output_len: 11, ..Sample::default() };
                let measured =
                    Measured { samples: vec![sample; 20].into(), duration: 1.0 + wait, ..Measured::default() };
                Ok::<_, ()>(RunRecord::compute(Setup::example(), measured))
            }
        };
        for (slow, is_uneven) in [(0.3, true), (0.03, false)] {
            let found = Prediction::of(&uneven, 220, simulate(slow)).unwrap();
            assert_eq!(found.is_uneven, is_uneven);
            let run = SimulatedRun::of_record(&found.record);
            assert!(found.intervals.iter().any(|(metric, _)| *metric == "p99_ttft_ms"));
            for (metric, PredictionInterval { expected, low, high }) in &found.intervals {
                let shown = run.value(metric).unwrap();
                assert!(
                    (*low..=*high).contains(expected) && (*low..=*high).contains(&shown),
                    "{metric} {expected} {shown}"
                );
            }
        }
    }

    #[test]
    fn the_typical_simulation_is_the_nearest_to_all_means() {
        let values = [Some(vec![1.0, 2.0, 3.0]), Some(vec![10.0, 19.0, 30.0]), None];
        assert_eq!(typical(&values), 1);
        assert_eq!(typical(&[None]), 0);
    }

    #[test]
    fn intervals_leave_out_metrics_that_a_simulation_lacks() {
        let mut values: [Values; METRICS.len()] = std::array::from_fn(|_| None);
        values[2] = Some(vec![10.0, 11.0, 12.0]);
        let found = intervals(&values);
        assert_eq!(found.len(), 1);
        let (metric, interval) = found[0];
        assert_eq!(metric, "mean_ttft_ms");
        assert!(interval.low < 10.0 && (10.9..11.1).contains(&interval.expected) && interval.high > 12.0);
    }
}
