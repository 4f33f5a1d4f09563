//! The confidence intervals of a run's metrics, by their keys.

use tacho_metrics::interval::{
    CONFIDENCE, Interval, Recorded, Rows, Saturation, Spread, Values, few_queues, rate, values,
};
use tacho_metrics::statistics::Statistic;
use tacho_metrics::{Caveat, MetricKind, Samples};

use crate::RunRecord;
use crate::metric::{self, Known, Part, TIMES, Times};

/// The confidence intervals of a run, by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Intervals {
    list: Vec<(String, Interval)>,
    caveat: Option<Caveat>,
}

impl Intervals {
    /// The intervals of all rates and latencies that a run reports; none of one burst, which is one observation.
    pub fn of(record: &RunRecord) -> Self {
        if record.is_burst() {
            return Intervals { list: Vec::new(), caveat: Some(Caveat::OneBurst) };
        }
        let rows = Recorded::of(&record.measured.samples).within(&record.setup);
        let parts = [Part::Totals, Part::Audio, Part::Images].into_iter().flat_map(metric::part);
        let rates = parts.filter(|metric| metric.unit.is_rate() && (metric.read)(record).is_some());
        let keys = rates.map(|metric| metric.key.to_owned()).chain(headlines(record));
        let mut spreads = Spreads::of(&rows, record.measured.duration);
        let mut correlated: Option<(String, f64)> = None;
        let found = keys.filter_map(|key| {
            let spread = spreads.get(&key)?;
            let effective = spread.too_correlated();
            if let Some(effective) = effective.filter(|size| correlated.as_ref().is_none_or(|(_, least)| size < least))
            {
                correlated = Some((key.clone(), effective));
            }
            Some((key, Estimate::of(&spread).interval))
        });
        let mut list: Vec<(String, Interval)> = found.collect();
        list.extend(costs(record, &list));
        let correlated = correlated.map(|(metric, effective)| Caveat::Autocorrelated { metric, effective });
        let caveat = spreads.open.flatten().or(correlated);
        Intervals { list, caveat }
    }

    /// Why intervals or their upper bounds are missing. Of autocorrelation, it names the metric with the smallest effective
    /// sample size.
    pub fn caveat(&self) -> Option<Caveat> {
        self.caveat.clone()
    }

    /// The interval of a metric.
    pub fn get(&self, key: &str) -> Option<Interval> {
        self.list.iter().find(|(name, _)| name == key).map(|(_, interval)| *interval)
    }

    /// All intervals in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Interval)> {
        self.list.iter().map(|(key, interval)| (key.as_str(), *interval))
    }
}

/// The intervals of costs, from those of the throughputs that they are the inverse of.
fn costs(record: &RunRecord, known: &[(String, Interval)]) -> Vec<(String, Interval)> {
    let Some(price) = record.setup.price_per_hour else { return Vec::new() };
    let pairs = [
        ("cost_per_request", "request_throughput", 1.0),
        ("cost_per_million_output_tokens", "output_throughput", 1e6),
        ("cost_per_million_tokens", "total_token_throughput", 1e6),
    ];
    let cost = |(key, rate, units): (&str, &str, f64)| {
        let Interval { low, high } = known.iter().find(|(name, _)| name == rate)?.1;
        let at = |rate: f64| if rate > 0.0 { price / 3600.0 * units / rate } else { f64::INFINITY };
        Some((key.to_owned(), Interval { low: at(high), high: at(low) }))
    };
    pairs.into_iter().filter_map(cost).collect()
}

/// A metric with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// The confidence interval.
    pub interval: Interval,
}

impl Estimate {
    /// The estimate of a metric from a finished or running run; `None` with too few samples.
    pub fn from_samples(key: &str, samples: &Samples, duration: f64) -> Option<Self> {
        spread(key, &Recorded::of(samples), duration).map(|spread| Estimate::of(&spread))
    }

    /// The value and the interval of a spread.
    pub fn of(spread: &Spread) -> Self {
        let (low, high) = spread.bounds(CONFIDENCE, 1.0);
        Estimate { value: spread.value, interval: Interval { low, high } }
    }

    /// Relative half-width of the interval.
    pub fn precision(&self) -> f64 {
        (self.interval.high - self.interval.low) / 2.0 / self.value
    }
}

/// The spread of a metric in its own unit.
pub(crate) fn spread(key: &str, rows: &impl Rows, duration: f64) -> Option<Spread> {
    Spreads::of(rows, duration).get(key)
}

/// The spreads of several metrics. Metrics of one family have the same values, which are read once.
struct Spreads<'a, R> {
    rows: &'a R,
    duration: f64,
    last: Option<(&'static str, Option<Values>)>,
    /// Why metrics that include waiting have no upper bound. Looked for once.
    open: Option<Option<Caveat>>,
}

/// Families that do not wait in the server's queue: their means are known near saturation too.
const WITHOUT_QUEUE: [&str; 4] = ["tpot", "itl", "audio_duration", "audio_underrun"];

impl<'a, R: Rows> Spreads<'a, R> {
    fn of(rows: &'a R, duration: f64) -> Self {
        Spreads { rows, duration, last: None, open: None }
    }

    fn get(&mut self, key: &str) -> Option<Spread> {
        match Known::find(key)? {
            Known::Timed(timed) => {
                let family = timed.times.name;
                let waits = !WITHOUT_QUEUE.contains(&family);
                let open = waits && self.open.get_or_insert_with(|| open(self.rows)).is_some();
                if self.last.as_ref().is_none_or(|(last, _)| *last != family) {
                    // Frees the previous family first.
                    self.last = None;
                    self.last = Some((family, values(self.rows, family)));
                }
                let values = self.last.as_ref()?.1.as_ref()?;
                let spread = Spread::of(values, timed.statistic)?.times(timed.times.scaled(1000.0));
                Some(if open { spread.unbounded() } else { spread })
            }
            Known::Row(metric) if metric.unit.is_rate() => rate(self.rows, key, self.duration),
            _ => None,
        }
    }
}

/// Why a run is too short to bound latencies from above, if it is.
fn open(rows: &impl Rows) -> Option<Caveat> {
    let saturated = Saturation::of(rows)
        .map(|found| Caveat::NearSaturation { slowdown: found.slowdown, relaxations: found.relaxations });
    let few =
        || few_queues(rows).map(|effective| Caveat::Autocorrelated { metric: "p99_ttft_ms".to_owned(), effective });
    saturated.or_else(few)
}

/// The latency metrics that a run reports: mean, median and the requested percentiles; also from the scheduled send
/// time if the load is paced.
fn headlines(record: &RunRecord) -> Vec<String> {
    let setup = &record.setup;
    let reported = MetricKind::ALL.into_iter().filter(|metric| setup.reports(*metric)).map(Times::of);
    let reported = reported.filter(|times| !times.is_audio() || (times.read)(record).is_some());
    let scheduled = ["ttft_from_schedule", "e2el_from_schedule"];
    let has = |times: &&Times| scheduled.contains(&times.name) && (times.read)(record).is_some();
    let scheduled = TIMES.iter().filter(|times| setup.is_paced() && has(times));
    let statistics = |times: &'static Times| {
        let percentiles = setup.metric_percentiles.iter().filter(|percent| **percent != 50.0);
        let percentiles = percentiles.map(|percent| Statistic::Percentile(*percent));
        [Statistic::Mean, Statistic::Percentile(50.0)].into_iter().chain(percentiles).map(move |one| times.key(one))
    };
    reported.chain(scheduled).flat_map(statistics).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;
    use tacho_metrics::{Sample, Setup};

    /// Requests that one server answers one after the other, 10 ms each, `gap` seconds apart.
    fn record(gap: f64, setup: Setup) -> RunRecord {
        let mut free = 0.0_f64;
        let mut next = |at: u32| {
            let scheduled = f64::from(at) * gap;
            free = free.max(scheduled) + 0.01 + f64::from(at * 7 % 10) / 1e4;
            let (latency, done) = (free - scheduled, free);
            Sample {
                scheduled,
                dispatched: scheduled,
                sent: scheduled,
                ttft: latency,
                latency,
                done,
                ..Sample::default()
            }
        };
        let samples = (0..200).map(&mut next).collect::<Vec<_>>().into();
        RunRecord::compute(setup, Measured { samples, duration: 200.0 * gap.max(0.01), ..Measured::default() })
    }

    #[test]
    fn one_burst_has_no_intervals_and_no_steady_part() {
        let kinds = |record: &RunRecord| record.caveats.iter().map(Caveat::kind).collect::<Vec<_>>();
        let burst = record(0.0, Setup::example());
        assert!(burst.intervals.iter().next().is_none() && burst.steady.is_none());
        assert!(kinds(&burst).contains(&"one_burst"), "{:?}", kinds(&burst));
        assert!(!["drift", "autocorrelated"].iter().any(|kind| kinds(&burst).contains(kind)), "{:?}", kinds(&burst));
        let paced = record(0.02, Setup { request_rate: 50.0, ..Setup::example() });
        assert!(paced.intervals.get("request_throughput").is_some() && paced.steady.is_some());
        assert!(!kinds(&paced).contains(&"one_burst"));
        let users = record(0.0, Setup { max_concurrency: Some(8), ..Setup::example() });
        assert!(users.intervals.get("request_throughput").is_some(), "eight users wait for each other");
    }

    /// In 400 seconds there are two queues of six seconds, or none.
    #[test]
    fn few_queues_leave_all_latencies_that_wait_without_upper_bounds() {
        let queued = |at: u32| {
            let place = at % 2000;
            if place < 60 { 0.02 + 0.02 * f64::from(place) } else { 0.02 + 0.001 * f64::from(at * 7 % 10) }
        };
        let record = |wait: &dyn Fn(u32) -> f64| {
            let sample = |at: u32| {
                let (scheduled, ttft) = (f64::from(at) * 0.1, wait(at));
                let (latency, done) = (ttft + 0.5, scheduled + ttft + 0.5);
                Sample { scheduled, dispatched: scheduled, sent: scheduled, ttft, latency, done, ..Sample::default() }
            };
            let samples = (0..4000).map(sample).collect::<Vec<_>>().into();
            let setup = Setup { request_rate: 10.0, ..Setup::example() };
            RunRecord::compute(setup, Measured { samples, duration: 400.5, ..Measured::default() })
        };
        let few = record(&queued);
        for key in ["mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_e2el_ms", "p99_e2el_ms"] {
            assert!(few.intervals.get(key).is_none_or(|one| one.high.is_infinite()), "{key}");
        }
        assert!(few.intervals.get("mean_ttft_ms").is_some());
        let caveat = few.intervals.caveat();
        assert!(
            matches!(&caveat, Some(Caveat::Autocorrelated { metric, .. }) if metric == "p99_ttft_ms"),
            "{caveat:?}"
        );
        let none = record(&|at| queued(at % 1900 + 60));
        assert!(none.intervals.get("mean_ttft_ms").unwrap().high.is_finite());
    }
}
