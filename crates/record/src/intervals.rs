//! The confidence intervals of a run's metrics, by their keys.

use tacho_metrics::interval::{CONFIDENCE, Interval, Recorded, Rows, Spread, Values, rate, values};
use tacho_metrics::statistics::Statistic;
use tacho_metrics::{Caveat, MetricKind, Samples, Setup};

use crate::RunRecord;
use crate::number::{self, Known, Part, Timed};

/// The confidence intervals of a run, by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Intervals {
    list: Vec<(String, Interval)>,
    unbounded: Option<(String, f64)>,
}

impl Intervals {
    /// The intervals of all rates and latencies that a run reports.
    pub fn of(record: &RunRecord) -> Self {
        let rows = Recorded::of(&record.measured.samples).within(record.setup.goodput);
        let rates =
            number::part(Part::Totals).filter(|number| number.unit.is_rate() && (number.read)(record).is_some());
        let keys = rates.map(|number| number.key.to_owned()).chain(headlines(&record.setup));
        let mut spreads = Spreads { rows: &rows, duration: record.measured.duration, last: None };
        let mut unbounded: Option<(String, f64)> = None;
        let found = keys.filter_map(|key| {
            let spread = spreads.get(&key)?;
            let effective = spread.too_correlated();
            if let Some(effective) = effective.filter(|size| unbounded.as_ref().is_none_or(|(_, least)| size < least)) {
                unbounded = Some((key.clone(), effective));
            }
            Some((key, Estimate::of(&spread).interval))
        });
        let list = found.collect();
        Intervals { list, unbounded }
    }

    /// The metric with the smallest effective sample size and that size, where autocorrelation left one without an upper
    /// bound.
    pub fn unbounded(&self) -> Option<Caveat> {
        let (metric, effective) = self.unbounded.clone()?;
        Some(Caveat::Autocorrelated { metric, effective })
    }

    /// The interval of a number.
    pub fn get(&self, key: &str) -> Option<Interval> {
        self.list.iter().find(|(name, _)| name == key).map(|(_, interval)| *interval)
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Interval)> {
        self.list.iter().map(|(key, interval)| (key.as_str(), *interval))
    }
}

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Where its true value lies.
    pub interval: Interval,
}

impl Estimate {
    /// A number of a run that is over or in flight; nothing where too little of it is there.
    pub fn from_samples(key: &str, samples: &Samples, duration: f64) -> Option<Self> {
        spread(key, &Recorded::of(samples), duration).map(|spread| Estimate::of(&spread))
    }

    /// The value and the interval of a spread.
    pub fn of(spread: &Spread) -> Self {
        let (low, high) = spread.bounds(CONFIDENCE, 1.0);
        Estimate { value: spread.value, interval: Interval { low, high } }
    }

    /// Half the interval as a fraction of the number.
    pub fn precision(&self) -> f64 {
        (self.interval.high - self.interval.low) / 2.0 / self.value
    }
}

/// The spread of a number in its own unit.
pub(crate) fn spread(key: &str, rows: &impl Rows, duration: f64) -> Option<Spread> {
    Spreads { rows, duration, last: None }.get(key)
}

/// The spreads of several numbers. Those of one family of times have the same values, which are gone through once.
struct Spreads<'a, R> {
    rows: &'a R,
    duration: f64,
    last: Option<(&'static str, Option<Values>)>,
}

impl<R: Rows> Spreads<'_, R> {
    fn get(&mut self, key: &str) -> Option<Spread> {
        match Known::find(key)? {
            Known::Timed(timed) => {
                let family = timed.times.name;
                if self.last.as_ref().is_none_or(|(last, _)| *last != family) {
                    // What is not needed any more goes first.
                    self.last = None;
                    self.last = Some((family, values(self.rows, family)));
                }
                let values = self.last.as_ref()?.1.as_ref()?;
                Spread::of(values, timed.statistic).map(|spread| spread.times(1000.0))
            }
            Known::Row(number) if number.unit.is_rate() => rate(self.rows, key, self.duration),
            _ => None,
        }
    }
}

/// The latencies that a run reports: mean, median and the percentiles asked for, and from due where it is paced.
fn headlines(setup: &Setup) -> Vec<String> {
    let reported = MetricKind::ALL.into_iter().filter(|metric| setup.reports(*metric)).map(MetricKind::name);
    let due: &[&str] = if setup.is_paced() { &["ttft_from_schedule", "e2el_from_schedule"] } else { &[] };
    let statistics = |name: &'static str| {
        let percentiles = setup.metric_percentiles.iter().filter(|percent| **percent != 50.0);
        let percentiles = percentiles.map(|percent| Statistic::Percentile(*percent));
        [Statistic::Mean, Statistic::Percentile(50.0)]
            .into_iter()
            .chain(percentiles)
            .map(move |one| Timed::key(name, one))
    };
    reported.chain(due.iter().copied()).flat_map(statistics).collect()
}
