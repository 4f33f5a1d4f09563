//! One criterion of an SLO: a metric, a comparison and a target.

use tacho_record::metric::{Known, is_fraction};
use tacho_record::{Error, groups::split};

use crate::operator::{Condition, Operator};

/// A condition on a metric of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    /// Key of the metric.
    pub metric: String,
    operator: Operator,
    target: f64,
}

/// An invalid criterion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{metric:?}: {text:?} is not a valid SLO: write <=, <, >= or > and a number, such as \"<=200\"")]
pub struct BadCriterion {
    /// The key.
    pub metric: String,
    /// The given text.
    pub text: String,
}

impl Criterion {
    /// Parses a condition such as `<=200`.
    pub fn parse(metric: &str, text: &str) -> Result<Self, BadCriterion> {
        let bad = || BadCriterion { metric: metric.to_owned(), text: text.to_owned() };
        let (operator, target) = Operator::split(text.trim()).ok_or_else(bad)?;
        let target = target.trim().parse().ok().filter(|target: &f64| target.is_finite()).ok_or_else(bad)?;
        Ok(Criterion { metric: metric.to_owned(), operator, target })
    }

    /// Whether values must not exceed the target.
    pub fn is_upper(&self) -> bool {
        matches!(self.operator, Operator::AtMost | Operator::Below)
    }

    /// The target.
    pub fn target(&self) -> f64 {
        self.target
    }

    /// The condition without its metric: `<=200.00`, of a fraction `<=0.005`.
    pub fn condition(&self) -> String {
        let sign = self.operator.signs().0;
        if is_fraction(&self.metric) { format!("{sign}{}", self.target) } else { format!("{sign}{:.2}", self.target) }
    }

    /// A value of its metric for a person.
    pub fn value_text(&self, value: f64) -> String {
        Known::find(split(&self.metric).1).map_or_else(|| format!("{value:.2}"), |known| known.text(value, 2))
    }

    /// The latency limit in seconds; `None` for other conditions.
    pub fn limit_seconds(&self) -> Option<f64> {
        (self.is_upper() && self.metric.ends_with("_ms")).then_some(self.target / 1000.0)
    }

    /// Returns whether a value meets it.
    pub fn is_met(&self, value: f64) -> bool {
        self.operator.holds(value, self.target)
    }

    /// Relative distance of a value on the wrong side of the target; positive exactly if it is not met.
    pub fn margin(&self, value: f64) -> f64 {
        let scale = if self.target == 0.0 { 1.0 } else { self.target.abs() };
        let distance = if self.is_upper() { value - self.target } else { self.target - value } / scale;
        match (self.is_met(value), distance.is_nan()) {
            (_, true) => f64::INFINITY,
            // On the target itself a strict comparison fails by an infinitesimal margin.
            (false, _) => distance.max(f64::MIN_POSITIVE),
            (true, _) => distance.min(0.0),
        }
    }

    /// The metric as a label with its limit, such as `p99 TTFT ≤ 200 ms`; other keys are unchanged.
    pub fn described(&self) -> String {
        let sign = self.operator.signs().1;
        let latency = self.metric.strip_suffix("_ms").and_then(|rest| rest.rsplit_once('_'));
        match latency.filter(|(_, metric)| ["ttft", "tpot", "itl", "e2el"].contains(metric)) {
            Some((statistic, metric)) => {
                format!("{statistic} {} {sign} {} ms", metric.to_uppercase(), self.target)
            }
            None if is_fraction(&self.metric) => {
                format!("{} {sign} {}", self.metric.replace('_', " "), self.value_text(self.target))
            }
            None => format!("{} {sign} {}", self.metric, self.target),
        }
    }
}

/// Parses a metric with its condition, such as `p99_ttft_ms<=200` or `p99_ttft<=0.2s`.
impl std::str::FromStr for Criterion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match Condition::parse(text)? {
            Condition { share: true, key, .. } => Err(Error::ShareOf { key }),
            Condition { group, key, operator, limit, .. } => {
                let metric = group.map_or(key.clone(), |group| format!("{group}.{key}"));
                Ok(Criterion { metric, operator, target: limit })
            }
        }
    }
}

impl std::fmt::Display for Criterion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.metric, self.condition())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four_comparisons() {
        for (text, met, missed) in [("<=2", 2.0, 2.1), ("<2", 1.9, 2.0), (">=2", 2.0, 1.9), (">2", 2.1, 2.0)] {
            let criterion = Criterion::parse("m", text).unwrap();
            assert!(criterion.is_met(met) && criterion.margin(met) <= 0.0, "{text}");
            assert!(!criterion.is_met(missed) && criterion.margin(missed) > 0.0, "{text}");
            assert!(criterion.margin(f64::NAN) > 0.0, "{text}");
        }
    }

    #[test]
    fn conditions_have_two_decimals() {
        assert_eq!(Criterion::parse("p99_e2el_ms", "<= 1000").unwrap().to_string(), "p99_e2el_ms<=1000.00");
        assert_eq!(Criterion::parse("p99_ttft_ms", "<=200").unwrap().described(), "p99 TTFT ≤ 200 ms");
        let divergence: Criterion = "output_divergence<=0.5%".parse().unwrap();
        assert_eq!(
            (divergence.to_string(), divergence.described()),
            ("output_divergence<=0.005".into(), "output divergence ≤ 0.5%".into())
        );
        assert_eq!(divergence.value_text(0.1254), "12.5%");
        assert_eq!(Criterion::parse("request_goodput", ">5").unwrap().described(), "request_goodput > 5");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["200", "=200", "<=", "<=x", "<=nan", ""] {
            let error = Criterion::parse("m", text).unwrap_err();
            assert!(error.to_string().contains("\"m\""), "{error}");
        }
    }
}
