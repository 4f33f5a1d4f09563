//! The confidence intervals of a run's metrics, by their keys.

use tacho_metrics::interval::{
    CONFIDENCE, FewQueues, Interval, Recorded, Rows, Saturation, Spread, Values, few_queues, rate, values,
};
use tacho_metrics::{Caveat, MetricKind, Samples, statistics::Statistic};

use crate::RunRecord;
use crate::metric::{self, Known, Part, TIMES, Times};

/// The confidence intervals of a run, by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Intervals {
    list: Vec<(String, Interval)>,
    caveat: Option<Caveat>,
}

impl Intervals {
    /// The intervals of all rates and latencies that a run reports, where they say something; none of one burst, which is one
    /// observation.
    pub fn of(record: &RunRecord) -> Self {
        let mut all = Intervals::of_times(record);
        all.list.extend(fractions(record));
        all
    }

    fn of_times(record: &RunRecord) -> Self {
        if record.is_burst() {
            return Intervals { list: Vec::new(), caveat: Some(Caveat::OneBurst) };
        }
        // Where the queue grows, every number depends on the length of the run; the warning says so.
        if record.steady.as_ref().is_some_and(|steady| steady.backlog.is_some()) {
            return Intervals::default();
        }
        let rows = Recorded::of(&record.measured.samples).within(&record.setup);
        let parts = [Part::Totals, Part::Audio, Part::Images].into_iter().flat_map(metric::part);
        let rates = parts.filter(|metric| metric.unit.is_rate() && (metric.read)(record).is_some());
        let keys = rates.map(|metric| metric.key.to_owned()).chain(headlines(record));
        let mut spreads = Spreads::of(&rows, record.measured.duration);
        let found = keys.filter_map(|key| {
            let spread = spreads.get(&key).filter(|spread| !spread.is_vague())?;
            Some((key, Estimate::of(&spread).interval))
        });
        let mut list: Vec<(String, Interval)> = found.collect();
        list.extend(costs(record, &list));
        Intervals { list, caveat: spreads.caveat() }
    }

    /// Why intervals or their upper bounds are missing.
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

/// The intervals of what was found in the outputs, which one burst has as well.
fn fractions(record: &RunRecord) -> Vec<(String, Interval)> {
    let outputs = record.open_loop.outputs.as_ref();
    let found = outputs.map(|outputs| ("output_divergence".to_owned(), outputs.differing.interval));
    let alone = outputs.and_then(|outputs| Some(("output_divergence_alone".to_owned(), outputs.alone?.interval)));
    let scores = record.open_loop.scores.iter().map(|score| (metric::score_key(&score.name), score.mean.interval));
    found.into_iter().chain(alone).chain(scores).collect()
}

/// The intervals of costs, from those of the throughputs that they are the inverse of.
fn costs(record: &RunRecord, known: &[(String, Interval)]) -> Vec<(String, Interval)> {
    let Some(price) = record.setup.metrics.price_per_hour else { return Vec::new() };
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
    /// Whether the interval says too little to be reported. It still decides what it can.
    pub is_vague: bool,
}

impl Estimate {
    /// The estimate of a metric from a finished or running run; `None` with too few samples.
    pub fn from_samples(key: &str, samples: &Samples, duration: f64) -> Option<Self> {
        spread(key, &Recorded::of(samples), duration).map(|spread| Estimate::of(&spread))
    }

    /// The value and the interval of a spread.
    pub fn of(spread: &Spread) -> Self {
        let (low, high) = spread.bounds(CONFIDENCE, 1.0);
        Estimate { value: spread.value, interval: Interval { low, high }, is_vague: spread.is_vague() }
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
    last: Option<Family>,
    /// Whether the server was near saturation, which leaves metrics that include waiting without upper bounds. Looked for once.
    saturation: Option<Option<Saturation>>,
    /// The few queues that leave TTFT without upper bounds.
    few: Option<FewQueues>,
}

/// The values of one family of metrics, and what bounds all of them.
struct Family {
    times: &'static Times,
    values: Option<Values>,
    few: Option<FewQueues>,
    /// The spreads of [`BOUNDS`].
    percentiles: Vec<(f64, Spread)>,
}

/// Percentiles whose bounds hold for lower percentiles and the mean, or for higher percentiles.
const BOUNDS: [f64; 3] = [50.0, 90.0, 99.0];
/// Requests per run that see an event which the run may have missed by chance.
const MISSED: f64 = 1.0;

impl<'a, R: Rows> Spreads<'a, R> {
    fn of(rows: &'a R, duration: f64) -> Self {
        Spreads { rows, duration, last: None, saturation: None, few: None }
    }

    fn get(&mut self, key: &str) -> Option<Spread> {
        match Known::find(key)? {
            Known::Timed(timed) => {
                if self.last.as_ref().is_none_or(|last| last.times.name != timed.times.name) {
                    // Frees the previous family first.
                    self.last = None;
                    self.last = Some(self.family(timed.times));
                }
                let (family, scale) = (self.last.as_ref()?, timed.times.scaled(1000.0));
                let spread = self.single(family, timed.statistic)?;
                let (percent, highest) = match timed.statistic {
                    Statistic::Percentile(percent) => (percent, percent),
                    // Less than a hundredth of the requests lies beyond the p99.
                    Statistic::Mean => (f64::NEG_INFINITY, 90.0),
                    Statistic::Deviation => return Some(spread.times(scale)),
                };
                let side = |holds: &dyn Fn(f64) -> bool| {
                    let kept = family.percentiles.iter().filter(|(bound, _)| holds(*bound));
                    kept.map(|(_, spread)| spread.clone().times(scale)).collect::<Vec<_>>()
                };
                let (below, above) = (side(&|bound| bound < percent), side(&|bound| bound > highest));
                Some(spread.times(scale).between(below, above))
            }
            Known::Row(metric) if metric.unit.is_rate() => rate(self.rows, key, self.duration),
            _ => None,
        }
    }

    fn family(&mut self, times: &'static Times) -> Family {
        let waits = times.waits();
        let few = if waits { few_queues(self.rows, times.name) } else { None };
        self.few = self.few.or(few);
        if waits && self.saturation.is_none() {
            self.saturation = Some(Saturation::of(self.rows));
        }
        let mut family = Family { times, values: values(self.rows, times.name), few, percentiles: Vec::new() };
        let bounds = BOUNDS.iter().map(|percent| (*percent, self.single(&family, Statistic::Percentile(*percent))));
        family.percentiles = bounds.filter_map(|(percent, spread)| Some((percent, spread?))).collect();
        family
    }

    /// The spread of a statistic by itself, in seconds.
    fn single(&self, family: &Family, statistic: Statistic) -> Option<Spread> {
        let waits = family.times.waits();
        let spread = Spread::of(family.values.as_ref()?, statistic)?;
        let few = family.few.is_some_and(|few| !few.bounds(statistic));
        let spread = match waits && (few || self.saturation.flatten().is_some()) {
            true => spread.unbounded(),
            false => spread,
        };
        // Waiting for the next completion takes 1 / throughput.
        let count = self.rows.count() as f64;
        let missed = MISSED * self.duration / (count * count);
        Some(if waits && self.rows.paced() && statistic == Statistic::Mean { spread.or_missed(missed) } else { spread })
    }

    /// Why latencies that wait have no upper bounds.
    fn caveat(&self) -> Option<Caveat> {
        let saturated = self.saturation.flatten();
        let saturated =
            saturated.map(|found| Caveat::NearSaturation { slowdown: found.slowdown, relaxations: found.relaxations });
        let few = self.few.filter(|few| few.is_short && self.rows.count() >= MIN_WARNED);
        let few = few.map(|few| Caveat::Autocorrelated { metric: "mean_ttft_ms".to_owned(), effective: few.effective });
        saturated.or(few)
    }
}

/// Fewest requests of a run that is said to be too short: it is plain of shorter ones.
const MIN_WARNED: usize = 200;

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
        let users = record(0.012, Setup { max_concurrency: Some(8), ..Setup::example() });
        assert!(users.intervals.get("request_throughput").is_some(), "eight users wait for each other");
    }

    /// In 400 seconds there are two queues of six seconds, or none.
    #[test]
    fn few_queues_leave_what_depends_on_them_without_upper_bounds() {
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
        let is_open = |key: &str| few.intervals.get(key).is_none_or(|one| one.high.is_infinite());
        for key in ["mean_ttft_ms", "p99_ttft_ms", "mean_e2el_ms", "p99_e2el_ms"] {
            assert!(is_open(key), "{key}");
        }
        let none = record(&|at| queued(at % 1900 + 60));
        assert!(none.intervals.get("mean_ttft_ms").unwrap().high.is_finite());
    }

    #[test]
    fn a_cost_lies_between_those_of_the_ends_of_its_rate() {
        let mut setup = Setup::example();
        setup.metrics.price_per_hour = Some(7.2);
        let record = RunRecord::compute(setup, Measured::default());
        let known = [("request_throughput".to_owned(), Interval { low: 1.0, high: 4.0 })];
        let found = costs(&record, &known);
        assert_eq!(found, [("cost_per_request".to_owned(), Interval { low: 0.0005, high: 0.002 })]);
        let stalled = [("request_throughput".to_owned(), Interval { low: 0.0, high: 4.0 })];
        assert_eq!(costs(&record, &stalled)[0].1.high, f64::INFINITY);
    }
}
