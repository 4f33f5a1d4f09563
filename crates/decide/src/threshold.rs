//! Thresholds: conditions under which a run fails. A metric with an interval may be inconclusive; a count is exact.

use tacho_metrics::{Samples, interval::Interval};
use tacho_record::{Error, Estimate, RunRecord, StoredRun, metric::Known};

use crate::operator::{Condition, Operator};

/// A condition under which a run fails: `p99_ttft_ms>300`, `p99_ttft>0.3s`, `failed>1%`,
/// `request_throughput<20`.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The original text.
    pub text: String,
    /// The group it applies to (`chat`, `class.chat`); `None` for the whole run.
    pub group: Option<String>,
    /// Key of the metric.
    pub key: String,
    operator: Operator,
    limit: f64,
    /// Whether the limit is a fraction of all requests.
    share: bool,
}

/// The result of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The condition is significantly false: the run passes.
    Kept,
    /// The condition is significantly true: the run fails.
    Broken,
    /// The interval contains the limit, or there is no interval.
    Inconclusive,
}

/// A threshold and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The threshold.
    pub threshold: Threshold,
    /// The metric's value; `None` if the run does not have it, for instance without successful requests.
    pub value: Option<f64>,
    /// Its confidence interval, if it has one.
    pub interval: Option<Interval>,
    /// The result.
    pub standing: Standing,
    /// Why an interval that the metric needs is missing.
    no_interval: Option<&'static str>,
}

const BURST: &str = "one burst is one observation; send with --request-rate or --max-concurrency";
const BRIEF: &str = "the result has none; keep its log next to it, or save it with --save-detailed";
const SHORT: &str = "the run is too short for one; send more requests";

impl Threshold {
    /// Parses a condition; the metric must exist.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let Condition { group, key, operator, limit, share } = Condition::parse(text)?;
        Known::require(&key)?;
        if share && !matches!(&*key, "failed" | "completed") {
            return Err(Error::ShareOf { key });
        }
        Ok(Threshold { text: text.trim().to_owned(), group, key, operator, limit, share })
    }

    /// Evaluates it on a run.
    pub fn on_record(&self, record: &RunRecord) -> Finding {
        let Some(path) = &self.group else { return self.on_part(record, &record.measured.samples) };
        match record.group(path) {
            Some(group) => self.on_part(&group.record, &record.group_samples(group)),
            None => self.find(None, Ok(None), 0.0),
        }
    }

    fn on_part(&self, record: &RunRecord, samples: &Samples) -> Finding {
        let all = (record.summary.completed + record.summary.failed) as f64;
        let value = Known::find(&self.key).and_then(|known| known.read(record));
        // A percentile that was not requested is computed from the requests.
        let estimate = Estimate::from_samples(&self.key, samples, record.measured.duration);
        let interval = record.intervals.get(&self.key).or(estimate.map(|estimate| estimate.interval));
        let value = value.or(estimate.map(|estimate| estimate.value));
        self.find(value, self.of_burst(record.is_burst()).map(|()| interval), all)
    }

    /// Evaluates it on a stored run. A file without single requests has the stored intervals, or none.
    pub fn on_stored(&self, run: &StoredRun) -> Result<Finding, Error> {
        let missing = |path: &String| Error::NoGroup { path: path.clone(), names: run.group_names() };
        let part = self.group.as_ref().map(|path| run.group(path).ok_or_else(|| missing(path))).transpose()?;
        let run = part.as_ref().unwrap_or(run);
        let known = Known::require(&self.key)?;
        if run.kind().is_some_and(|kind| kind != known.kind()) {
            let kind = run.kind().map_or("", |kind| kind.name());
            return Err(Error::Foreign { key: self.key.clone(), kind });
        }
        let spread = run.spread(&self.key).map(|spread| Estimate::of(&spread));
        let empty = matches!(known, Known::Timed(_)) && run.is_empty();
        let value = run.number(&self.key).or_else(|| spread.map(|estimate| estimate.value));
        if value.is_none() && !empty {
            return Err(Error::Missing { key: self.key.clone() });
        }
        let interval = run.interval(&self.key).or_else(|| spread.map(|estimate| estimate.interval));
        let all = run.failures().map_or(f64::NAN, |(_, all)| all as f64);
        let interval = self.of_burst(run.is_burst()).and_then(|()| match interval {
            None if run.has_intervals(&self.key) => Err(if run.is_detailed() { SHORT } else { BRIEF }),
            _ => Ok(interval),
        });
        Ok(self.find(value.filter(|_| !empty), interval, all))
    }

    /// A latency or rate of one burst is one observation, which says nothing of the next.
    fn of_burst(&self, is_burst: bool) -> Result<(), &'static str> {
        if is_burst && Known::find(&self.key).is_some_and(Known::varies) { Err(BURST) } else { Ok(()) }
    }

    /// Judges a value by its interval, if such metrics have one; `Err` says why it is missing.
    fn find(&self, value: Option<f64>, interval: Result<Option<Interval>, &'static str>, all: f64) -> Finding {
        let (interval, no_interval) = interval.map_or_else(|reason| (None, Some(reason)), |interval| (interval, None));
        let value = value.map(|value| if self.share { 100.0 * value / all } else { value });
        let holds = |value: f64| self.operator.holds(value, self.limit);
        let standing = match (value, interval) {
            (Some(value), _) if value.is_nan() => Standing::Inconclusive,
            (None, _) => Standing::Inconclusive,
            _ if no_interval.is_some() => Standing::Inconclusive,
            (Some(_), Some(Interval { low, high })) => match (holds(low), holds(high)) {
                (true, true) => Standing::Broken,
                (false, false) => Standing::Kept,
                _ => Standing::Inconclusive,
            },
            (Some(value), None) if holds(value) => Standing::Broken,
            (Some(_), None) => Standing::Kept,
        };
        Finding { threshold: self.clone(), value, interval, standing, no_interval }
    }
}

impl Finding {
    /// The finding as one line.
    pub fn text(&self) -> String {
        let word = match self.standing {
            Standing::Kept => "ok       ",
            Standing::Broken => "FAILED   ",
            Standing::Inconclusive => "inconclusive",
        };
        let unit = match (self.threshold.share, Known::find(&self.threshold.key)) {
            (true, _) => "% of requests",
            (false, known) => known.map_or("", |known| known.unit().text()),
        };
        let Threshold { text, key, group, share, .. } = &self.threshold;
        let known = Known::find(key).filter(|_| !share);
        let shown = |number: f64| match known {
            _ if !number.is_finite() => "no upper bound".to_owned(),
            Some(known) => known.text(number, 2),
            None => format!("{number:.2}"),
        };
        let none = || match group {
            Some(group) => format!("unknown: no successful request of {group}"),
            None => "no successful request".to_owned(),
        };
        let value = self.value.map_or_else(none, |value| format!("{} {unit}", shown(value)));
        let interval = self.interval.filter(|_| self.value.is_some());
        let missing = self.no_interval.filter(|_| self.value.is_some_and(f64::is_finite));
        let interval = match interval {
            Some(all) => format!(", 95% confidence interval {} to {}", shown(all.low), shown(all.high)),
            None => missing.map_or_else(String::new, |reason| format!(", no interval: {reason}")),
        };
        format!("{word} fail if {text}: {key} is {}{interval}", value.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn stored(text: &str) -> StoredRun {
        StoredRun::from_dict(parse(text).unwrap().as_dict().unwrap()).unwrap()
    }

    #[test]
    fn conditions_are_a_number_a_sign_and_a_limit() {
        let read = |text: &str| Threshold::parse(text).map(|one| (one.key, one.operator, one.limit, one.share));
        assert_eq!(read("p99_ttft_ms>300"), Ok(("p99_ttft_ms".into(), Operator::Above, 300.0, false)));
        assert_eq!(read(" failed >= 1 % "), Ok(("failed".into(), Operator::AtLeast, 1.0, true)));
        assert_eq!(read("request_throughput<=2e1"), Ok(("request_throughput".into(), Operator::AtMost, 20.0, false)));
        for text in ["p99_ttft_ms", "p99_ttft_ms=3", ">3", "failed>", "failed>x", "failed>nan"] {
            assert!(matches!(Threshold::parse(text), Err(Error::Threshold { .. })), "{text}");
        }
        assert!(matches!(Threshold::parse("p99_tfft_ms>3"), Err(Error::Unknown { .. })));
        assert!(matches!(Threshold::parse("p99_ttft_ms>3%"), Err(Error::ShareOf { .. })));
    }

    #[test]
    fn an_interval_on_both_sides_is_inconclusive_and_a_count_is_a_fact() {
        let run = stored(
            r#"{"duration": 1.0, "completed": 98, "failed": 2, "request_throughput": 98.0, "p99_ttft_ms": 290.0,
                "mean_ttft_ms": 100.0, "tacho": {"version": 1, "intervals": {"p99_ttft_ms": [280.0, 310.0]}}}"#,
        );
        let standing = |text: &str| Threshold::parse(text).unwrap().on_stored(&run).map(|finding| finding.standing);
        assert_eq!(standing("p99_ttft_ms>300"), Ok(Standing::Inconclusive));
        assert_eq!(standing("p99_ttft_ms>311"), Ok(Standing::Kept));
        assert_eq!(standing("p99_ttft_ms>250"), Ok(Standing::Broken));
        assert_eq!(standing("failed>1%"), Ok(Standing::Broken));
        assert_eq!(standing("failed>2%"), Ok(Standing::Kept));
        assert_eq!(standing("failed>1"), Ok(Standing::Broken));
        assert_eq!(standing("mean_ttft_ms>99"), Ok(Standing::Inconclusive), "its interval is withheld");
        let text = Threshold::parse("mean_ttft_ms>99").unwrap().on_stored(&run).unwrap().text();
        assert!(
            text.ends_with(
                "no interval: the result has none; keep its log next to it, or save it with --save-detailed"
            )
        );
        assert!(matches!(standing("p50_itl_ms>1"), Err(Error::Missing { .. })));
        assert!(matches!(standing("avg_latency>1"), Err(Error::Foreign { .. })));
    }

    #[test]
    fn one_burst_passes_and_fails_nothing() {
        let burst = r#"{"duration": 1.0, "completed": 98, "failed": 2, "request_rate": "inf", "max_concurrency": null,
            "request_throughput": 98.0, "p99_ttft_ms": 290.0, "tacho": {"version": 1, "intervals": {}}}"#;
        let found =
            |text: &str, threshold: &str| Threshold::parse(threshold).unwrap().on_stored(&stored(text)).unwrap();
        for threshold in ["p99_ttft_ms>300", "p99_ttft_ms>1", "request_throughput<1"] {
            assert_eq!(found(burst, threshold).standing, Standing::Inconclusive, "{threshold}");
        }
        assert!(found(burst, "p99_ttft_ms>300").text().contains("one burst is one observation"));
        assert_eq!(found(burst, "failed>1").standing, Standing::Broken);
        let users = burst.replace("null", "8");
        let users = users.replace("{}", r#"{"p99_ttft_ms": [280.0, 299.0]}"#);
        assert_eq!(found(&users, "p99_ttft_ms>300").standing, Standing::Kept, "eight users wait for each other");
    }

    #[test]
    fn an_open_interval_is_never_fine() {
        let run = stored(
            r#"{"duration": 1.0, "completed": 98, "failed": 0, "request_rate": 44.0, "p99_ttft_ms": 290.0,
                "tacho": {"version": 1, "intervals": {"p99_ttft_ms": [280.0, null]}}}"#,
        );
        let standing = |text: &str| Threshold::parse(text).unwrap().on_stored(&run).unwrap().standing;
        assert_eq!(standing("p99_ttft_ms>1000000"), Standing::Inconclusive);
        assert_eq!(standing("p99_ttft_ms>200"), Standing::Broken);
    }

    #[test]
    fn zeros_of_an_empty_sample_pass_nothing() {
        let run =
            stored(r#"{"duration": 1.0, "completed": 0, "failed": 9, "request_throughput": 0.0, "p99_ttft_ms": 0.0}"#);
        let finding = Threshold::parse("p99_ttft_ms>300").unwrap().on_stored(&run).unwrap();
        assert_eq!((finding.standing, finding.value), (Standing::Inconclusive, None));
        assert!(finding.text().contains("no successful request"), "{}", finding.text());
        assert_eq!(
            Threshold::parse("request_throughput<1").unwrap().on_stored(&run).unwrap().standing,
            Standing::Broken
        );
    }
}
