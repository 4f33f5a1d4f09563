//! Lookup of a metric by its key, and suggestions for unknown keys.

use std::collections::BTreeSet;
use tacho_core::Mutex;

use super::{Better, METRICS, Metric, Part, TIMES, Timed, Unit};
use crate::{Error, ResultKind, RunRecord, groups::split};

/// A metric that a result can have.
#[derive(Clone, Copy)]
pub enum Known {
    /// An individual row.
    Row(&'static Metric),
    /// A statistic of a latency family.
    Timed(Timed),
    /// A statistic of an offline latency run (`p99_latency`), in seconds.
    Latency,
    /// The mean of a score of `--grade-command` (`score_NAME`).
    Score(&'static str),
    /// A startup phase (`avg_…_time`), in seconds; engines may report additional phases.
    Phase,
}

impl Known {
    /// The metric with this key.
    pub fn find(key: &str) -> Option<Self> {
        let row = METRICS.iter().find(|metric| metric.key == key).map(Known::Row);
        row.or_else(|| Timed::find(key).map(Known::Timed)).or_else(|| {
            let inside = |start: &str, end: &str| key.strip_prefix(start)?.strip_suffix(end);
            if let Some(name) = inside(SCORE, "").filter(|name| !name.is_empty()) {
                return Some(Known::Score(interned(name)));
            }
            let percent = inside("p", "_latency").and_then(|text| text.parse::<f64>().ok());
            match percent {
                Some(percent) if (0.0..=100.0).contains(&percent) => Some(Known::Latency),
                _ => inside("avg_", "_time").filter(|phase| !phase.is_empty()).map(|_| Known::Phase),
            }
        })
    }

    /// Like [`Known::find`], with an error that lists the known names.
    pub fn require(key: &str) -> Result<Self, Error> {
        Known::find(key).ok_or_else(|| unknown(key))
    }

    /// Like [`Known::require`], for metrics that have a better direction. The metric may be one of a group.
    pub fn judged(key: &str) -> Result<(Self, Better), Error> {
        let known = Known::require(split(key).1)?;
        match known.better() {
            Better::Neither => Err(Error::Neither { key: key.to_owned() }),
            better => Ok((known, better)),
        }
    }

    /// The direction in which it improves.
    pub fn better(self) -> Better {
        match self {
            Known::Row(metric) => metric.better,
            Known::Timed(timed) => timed.times.better,
            Known::Score(_) => Better::More,
            Known::Latency | Known::Phase => Better::Less,
        }
    }

    /// Returns whether it varies from run to run, so that its value in one burst decides nothing; a count is a fact.
    pub fn varies(self) -> bool {
        let own = matches!(self, Known::Row(Metric { part: Part::Tacho, .. })) && !self.is_about_outputs();
        own || matches!(self, Known::Timed(_)) || self.unit().is_rate()
    }

    /// Its unit.
    pub fn unit(self) -> Unit {
        match self {
            Known::Row(metric) => metric.unit,
            Known::Timed(timed) => timed.times.unit,
            Known::Score(_) => Unit::Plain,
            Known::Latency | Known::Phase => Unit::Seconds,
        }
    }

    /// Returns whether it describes outputs, which the client's speed and the timing of one burst cannot change.
    pub fn is_about_outputs(self) -> bool {
        const FURTHER: [&str; 3] = ["swapped_outputs", "mean_kl_divergence", "max_kl_divergence"];
        self.is_of_outputs() || matches!(self, Known::Row(metric) if FURTHER.contains(&metric.key))
    }

    /// Returns whether it is a mean over outputs: a fraction of them, or a score. Its change is a difference, not a ratio.
    pub fn is_of_outputs(self) -> bool {
        self.unit() == Unit::Fraction || matches!(self, Known::Score(_))
    }

    /// The kind of results that have it.
    pub fn kind(self) -> ResultKind {
        match self {
            Known::Row(Metric { part: Part::Offline(kind), .. }) => *kind,
            Known::Row(_) | Known::Timed(_) | Known::Score(_) => ResultKind::Serving,
            Known::Latency => ResultKind::Latency,
            Known::Phase => ResultKind::Startup,
        }
    }

    /// The flag of `tacho serve` without which no run has it; empty if there is none.
    pub fn flag(self) -> &'static str {
        match self {
            Known::Row(metric) => metric.flag,
            Known::Score(_) => "--grade-command",
            Known::Timed(_) | Known::Latency | Known::Phase => "",
        }
    }

    /// Its heading in tables; the key itself if it has none.
    pub fn heading(self, key: &str) -> String {
        match self {
            Known::Row(metric) => metric.heading.to_owned(),
            Known::Timed(timed) => timed.heading(),
            Known::Latency | Known::Phase | Known::Score(_) => key.to_owned(),
        }
    }

    /// A value for a person: fractions as percentages, others with `digits` after the point.
    pub fn text(self, value: f64, digits: usize) -> String {
        match self.unit() {
            Unit::Fraction if value.abs() >= 0.0995 => format!("{:.1}%", value * 100.0),
            Unit::Fraction => format!("{}%", (value * 1e4).round() / 100.0),
            _ => decimals(value, digits),
        }
    }

    /// Its value in a record; `None` if it is missing or the sample is empty.
    pub fn read(self, record: &RunRecord) -> Option<f64> {
        match self {
            Known::Row(metric) => (metric.read)(record).and_then(super::Amount::as_f64),
            Known::Timed(timed) => timed.read(record),
            Known::Score(name) => super::score(record, name).and_then(super::Amount::as_f64),
            Known::Latency | Known::Phase => None,
        }
    }
}

/// A number with `digits` decimal places, or with as many as show two digits of a small one.
pub fn decimals(value: f64, digits: usize) -> String {
    let needed = if value == 0.0 { 0.0 } else { 1.0 - value.abs().log10().floor() };
    let digits = if needed > digits as f64 + 1.0 && needed < 20.0 { needed as usize } else { digits };
    format!("{value:.digits$}")
}

/// Whether a metric, possibly of a group, is a fraction.
pub fn is_fraction(key: &str) -> bool {
    Known::find(split(key).1).is_some_and(|known| known.unit() == Unit::Fraction)
}

/// The prefix of the keys of scores.
pub(crate) const SCORE: &str = "score_";

/// A name that lives as long as the program; there are as many as distinct names are asked for.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    names.get(name).copied().unwrap_or_else(|| {
        let name: &'static str = Box::leak(name.into());
        names.insert(name);
        name
    })
}

/// The error about an unknown key, with a suggestion if one is similar.
pub fn unknown(key: &str) -> Error {
    let with_unit = format!("{key}_ms");
    let missing = [with_unit.clone(), format!("mean_{with_unit}")].into_iter().find(|name| Known::find(name).is_some());
    Error::Unknown { key: key.to_owned(), close: missing.or_else(|| close(key)).or_else(|| close(&with_unit)) }
}

/// The name with the smallest edit distance, if that is small.
fn close(key: &str) -> Option<String> {
    let word = key.split('_').next().unwrap_or("mean");
    let words = [word, "mean", "median", "std", "p99"];
    let times = TIMES.iter().flat_map(|times| words.map(|word| format!("{word}_{}{}", times.name, times.suffix())));
    let known =
        METRICS.iter().map(|metric| metric.key.to_owned()).chain(times).filter(|name| Known::find(name).is_some());
    let best = known.map(|name| (strsim::levenshtein(key, &name), name)).min()?;
    (best.0 <= 3 && best.0 * 3 <= key.len()).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use tacho_metrics::statistics::Statistic;

    use super::*;

    #[test]
    fn a_small_number_keeps_two_digits() {
        let found = [3.4e-5, 0.0149, 0.06, 2.346, 0.0, 123.0, -2e-3, f64::INFINITY].map(|value| decimals(value, 2));
        assert_eq!(found, ["0.000034", "0.01", "0.06", "2.35", "0.00", "123.00", "-0.0020", "inf"]);
    }

    #[test]
    fn every_key_is_found_and_occurs_once() {
        for (at, metric) in METRICS.iter().enumerate() {
            assert!(matches!(Known::find(metric.key), Some(Known::Row(found)) if found.key == metric.key));
            assert!(METRICS[..at].iter().all(|other| other.key != metric.key), "{}", metric.key);
        }
        for times in TIMES {
            assert!(matches!(Known::find(&times.key(Statistic::Percentile(99.9))), Some(Known::Timed(found))
                if found.times.name == times.name && found.statistic == Statistic::Percentile(99.9)));
        }
    }

    #[test]
    fn directions_are_those_of_the_rows() {
        let better = |key: &str| Known::find(key).unwrap().better();
        assert_eq!(better("total_token_throughput"), Better::More);
        assert_eq!(better("p99_ttft_ms"), Better::Less);
        assert_eq!(better("failed"), Better::Less);
        assert_eq!(better("spec_decode_num_drafts"), Better::Neither);
        assert_eq!(better("total_input_tokens"), Better::Neither);
        assert_eq!(better("max_concurrent_requests"), Better::Neither);
        assert_eq!(better("avg_model_loading_time"), Better::Less);
        assert!(matches!(Known::judged("total_output_tokens"), Err(Error::Neither { .. })));
    }

    #[test]
    fn errors_about_unknown_names_suggest_a_known_one() {
        for key in ["p101_ttft_ms", "p99_ttft", "thruput", "", "avg__tim"] {
            assert!(Known::find(key).is_none(), "{key}");
        }
        for key in ["p99_tfft_ms", "p99_ttft", "p99_tttf"] {
            let text = unknown(key).to_string();
            assert!(text.ends_with(": did you mean p99_ttft_ms? tacho help metrics lists all"), "{text}");
        }
        assert!(unknown("ttft").to_string().contains("did you mean mean_ttft_ms?"));
        assert!(!unknown("nonsense_altogether").to_string().contains("did you mean"));
    }
}
