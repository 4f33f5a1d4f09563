//! Typed access to the fields of a result. A missing value is unknown, never a default.

use tacho_core::json::{Dict, Value};
use tacho_metrics::EndedBy;
use tacho_metrics::interval::Interval;

use crate::metric::Known;

/// Caveats of a run that a rule ended because the server performed badly.
const BAD_ENDS: [&str; 2] = [EndedBy::Failures.name(), EndedBy::Overload.name()];

/// The fields of a result.
#[derive(Debug, Clone, Copy)]
pub struct ResultFields<'r>(pub &'r Dict);

impl<'r> ResultFields<'r> {
    /// A number; numeric strings count too.
    pub fn number(self, key: &str) -> Option<f64> {
        match self.0.get(key).or_else(|| self.own(key))? {
            Value::Str(text) => match text.as_str() {
                "inf" => Some(f64::INFINITY),
                "-inf" => Some(f64::NEG_INFINITY),
                other => other.parse().ok(),
            },
            other => other.as_f64(),
        }
    }

    /// A value of tacho's own part.
    pub fn own(self, key: &str) -> Option<&'r Value> {
        self.0.get("tacho")?.get(key)
    }

    /// The 95% confidence interval that the run stored for a metric.
    pub fn interval(self, key: &str) -> Option<Interval> {
        let bounds = self.own("intervals")?.get(key)?.as_list()?;
        let bound = |at: usize| bounds.get(at).and_then(Value::as_f64);
        Some(Interval { low: bound(0)?, high: bound(1).unwrap_or(f64::INFINITY) })
    }

    /// Whether runs such as this one have intervals of a latency. One burst itself has none.
    pub fn has_intervals(self, key: &str) -> bool {
        self.own("intervals").is_some() && matches!(Known::find(key), Some(Known::Timed(_)))
    }

    /// Number of failed requests and of all.
    pub fn failures(self) -> Option<(u64, u64)> {
        let own = || {
            let outcomes = self.own("outcomes")?.as_dict()?;
            let all: i64 = outcomes.iter().filter_map(|(_, count)| count.as_i64()).sum();
            Some((all - outcomes.get("complete").and_then(Value::as_i64).unwrap_or(0)) as f64)
        };
        let completed = self.number("completed")?;
        let missing = || Some((self.number("num_prompts")? - completed).max(0.0));
        let failed = self.number("failed").or_else(own).or_else(missing)?;
        Some((failed as u64, (completed + failed) as u64))
    }

    /// Returns whether a rule ended the run because the server performed badly.
    pub fn ended_badly(self) -> bool {
        let caveats = self.own("caveats").and_then(Value::as_list).unwrap_or_default();
        let kinds = caveats.iter().filter_map(|caveat| caveat.get("kind")?.as_str());
        kinds.into_iter().any(|kind| BAD_ENDS.contains(&kind))
    }

    /// The verdict on the client, if it was unreliable.
    pub fn unreliable_client(self) -> Option<&'r str> {
        let client = self.own("client")?;
        let doubted = client.get("trustworthy") == Some(&Value::Bool(false));
        doubted.then(|| client.get("verdict").and_then(Value::as_str).unwrap_or("the client was not reliable"))
    }

    /// Scheduled requests per second.
    pub fn planned_rate(self) -> Option<f64> {
        self.own("planned_request_rate")?.as_f64()
    }

    /// Sent requests per second.
    pub fn delivered_rate(self) -> Option<f64> {
        self.own("delivered_request_rate")?.as_f64()
    }

    /// The steady state of the run.
    pub fn steady_state(self) -> Option<SteadyState<'r>> {
        self.own("steady_state").filter(|steady| steady.as_dict().is_some()).map(SteadyState)
    }
}

/// The steady state of a run.
#[derive(Debug, Clone, Copy)]
pub struct SteadyState<'r>(&'r Value);

impl SteadyState<'_> {
    /// A metric of the steady state, if it was reached.
    pub fn reached(self, metric: &str) -> Option<f64> {
        let reached = self.0.get("reached") == Some(&Value::Bool(true));
        self.0.get(metric)?.as_f64().filter(|_| reached)
    }

    /// Requests completed per second.
    pub fn request_throughput(self) -> Option<f64> {
        self.0.get("request_throughput")?.as_f64()
    }

    /// Returns whether the queue did not grow significantly.
    pub fn has_stable_queue(self) -> Option<bool> {
        self.0.get("queue_unstable").map(|unstable| *unstable == Value::Bool(false))
    }

    /// Returns whether the backlog was stable.
    pub fn is_stable(self) -> Option<bool> {
        let drifts = self.0.get("drift").and_then(Value::as_f64).is_some_and(|drift| drift >= 0.0);
        self.has_stable_queue().map(|stable| stable && !drifts)
    }
}
