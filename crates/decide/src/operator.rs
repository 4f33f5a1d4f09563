//! Conditions as typed: a metric, a comparison operator and a limit.

use tacho_record::metric::{Known, Unit, is_fraction};
use tacho_record::{Error, groups::split};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    AtMost,
    AtLeast,
    Below,
    Above,
}

/// The operators as typed and as printed, in the order in which they are matched.
const OPERATORS: [(Operator, &str, &str); 4] = [
    (Operator::AtMost, "<=", "≤"),
    (Operator::AtLeast, ">=", "≥"),
    (Operator::Below, "<", "<"),
    (Operator::Above, ">", ">"),
];

impl Operator {
    /// The operator at the start of a text, and what follows it.
    pub(crate) fn split(text: &str) -> Option<(Self, &str)> {
        OPERATORS.into_iter().find_map(|(operator, sign, _)| Some((operator, text.strip_prefix(sign)?)))
    }

    /// As typed and as printed.
    pub(crate) fn signs(self) -> (&'static str, &'static str) {
        OPERATORS
            .into_iter()
            .find(|(operator, ..)| *operator == self)
            .map_or(("", ""), |(_, typed, printed)| (typed, printed))
    }

    pub(crate) fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Operator::AtMost => value <= limit,
            Operator::AtLeast => value >= limit,
            Operator::Below => value < limit,
            Operator::Above => value > limit,
        }
    }
}

/// A condition as typed: `p99_ttft_ms<=200`, with a unit `p99_ttft<=0.2s`, of a group `chat.p99_ttft_ms<=200`, or of a
/// fraction of all requests `failed>1%`. The metric need not exist.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    pub(crate) group: Option<String>,
    pub(crate) key: String,
    pub(crate) operator: Operator,
    /// In the unit of the metric.
    pub(crate) limit: f64,
    /// Whether the limit is a percentage of all requests.
    pub(crate) share: bool,
}

impl Condition {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Threshold { text: text.to_owned() };
        let (metric, rest) = text.split_at(text.find(['<', '>']).ok_or_else(wrong)?);
        let (operator, limit) = Operator::split(rest).ok_or_else(wrong)?;
        let number = limit.trim_end_matches(|c: char| c.is_alphabetic() || "%/ ".contains(c));
        let unit = limit[number.len()..].trim();
        let limit: f64 = number.trim().parse().ok().filter(|limit: &f64| limit.is_finite()).ok_or_else(wrong)?;
        if metric.trim().is_empty() {
            return Err(wrong());
        }
        let (metric, scale) = in_unit(metric.trim(), unit)?;
        let (group, key) = split(&metric);
        let share = unit == "%" && !is_fraction(key);
        let (group, key) = (group.map(str::to_owned), key.to_owned());
        Ok(Condition { group, key, operator, limit: limit * scale, share })
    }
}

/// The metric whose limit has this unit, possibly of a group, and what converts the limit to the metric's own unit.
fn in_unit(metric: &str, unit: &str) -> Result<(String, f64), Error> {
    let known = |metric: &str| Known::find(split(metric).1).map(Known::unit);
    let in_ms = format!("{metric}_ms");
    let (key, metric_unit) = match known(metric) {
        None if !["", "%"].contains(&unit) && known(&in_ms).is_some() => (in_ms, Some(Unit::Milliseconds)),
        metric_unit => (metric.to_owned(), metric_unit),
    };
    let scale = match (metric_unit, unit) {
        (Some(Unit::Fraction), "%") => 0.01,
        (_, "" | "%") | (None, _) => 1.0,
        (Some(Unit::Milliseconds), "s") => 1000.0,
        (Some(Unit::Seconds), "ms") => 0.001,
        (Some(metric_unit), unit) if metric_unit.text() == unit => 1.0,
        (Some(metric_unit), unit) => {
            return Err(Error::ConditionUnit { key, metric_unit: metric_unit.text(), unit: unit.to_owned() });
        }
    };
    Ok((key, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_the_unit_of_the_metric_or_their_own() {
        let read = |text: &str| Condition::parse(text).map(|one| (one.key, one.limit));
        let ttft = |limit: f64| Ok(("p99_ttft_ms".to_owned(), limit));
        for text in
            ["p99_ttft_ms<=200", "p99_ttft_ms <= 200 ms", "p99_ttft<=200ms", "p99_ttft<=0.2s", "p99_ttft_ms<=0.2s"]
        {
            assert_eq!(read(text), ttft(200.0), "{text}");
        }
        let share = Condition::parse("output_divergence>1%").unwrap();
        assert_eq!((share.limit, share.share), (0.01, false));
        assert_eq!(read("avg_latency<1500ms"), Ok(("avg_latency".to_owned(), 1.5)));
        assert_eq!(read("request_throughput>=20req/s"), Ok(("request_throughput".to_owned(), 20.0)));
        let of_group = Condition::parse("chat.p99_ttft>0.3s").unwrap();
        assert_eq!((of_group.group.as_deref(), &*of_group.key, of_group.limit), (Some("chat"), "p99_ttft_ms", 300.0));
        for text in ["request_throughput>=20ms", "p99_ttft_ms<=2req/s", "p99_ttft_ms<=2min", "p99_ttft<=5parsec"] {
            assert!(matches!(read(text), Err(Error::ConditionUnit { .. })), "{text}: {:?}", read(text));
        }
        assert_eq!(read("p99_ttft<=200"), Ok(("p99_ttft".to_owned(), 200.0)), "no such metric, as the caller says");
    }
}
