//! What a search reads of a stored result. A value that is not there is unknown, never fine.

use tacho_core::json::{Dict, Value};
use tacho_metrics::EndedBy;

/// Largest fraction of requests that may fail at a level.
const MAX_FAILED: f64 = 0.01;
/// Caveats of a run that a rule ended because the server did badly.
const BAD_ENDS: [&str; 2] = [EndedBy::Failures.name(), EndedBy::Overload.name()];

fn own<'r>(result: &'r Dict, key: &str) -> Option<&'r Value> {
    result.get("tacho")?.get(key)
}

/// A top-level number.
pub(super) fn number(result: &Dict, key: &str) -> Option<f64> {
    result.get(key).and_then(Value::as_f64)
}

/// A number of tacho's own part.
pub(super) fn own_number(result: &Dict, key: &str) -> Option<f64> {
    own(result, key).and_then(Value::as_f64)
}

/// The steady state of a run, as far as its result has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct SteadyState<'r>(&'r Value);

impl<'r> SteadyState<'r> {
    pub(super) fn of(result: &'r Dict) -> Option<Self> {
        own(result, "steady_state").filter(|steady| steady.as_dict().is_some()).map(SteadyState)
    }

    /// A number of the steady state, where it was reached.
    pub(super) fn reached(self, metric: &str) -> Option<f64> {
        let reached = self.0.get("reached") == Some(&Value::Bool(true));
        self.0.get(metric)?.as_f64().filter(|_| reached)
    }

    pub(super) fn request_throughput(self) -> Option<f64> {
        self.0.get("request_throughput")?.as_f64()
    }

    /// Whether the backlog stayed where it was; unknown where the result does not say.
    pub(super) fn is_stable(self) -> Option<bool> {
        let grew = self.0.get("queue_unstable")?;
        let drifts = self.0.get("drift").and_then(Value::as_f64).is_some_and(|drift| drift >= 0.0);
        Some(*grew == Value::Bool(false) && !drifts)
    }
}

/// The 95% interval of a metric; an end that is not known is none.
pub(super) fn interval(result: &Dict, metric: &str) -> Option<(f64, Option<f64>)> {
    let bounds = own(result, "intervals")?.get(metric)?.as_list()?;
    let bound = |at: usize| bounds.get(at).and_then(Value::as_f64);
    Some((bound(0)?, bound(1)))
}

/// Whether too many requests failed, or a rule ended the run because the server did badly. The latencies of the other
/// requests say nothing then.
pub(super) fn has_failures(result: &Dict) -> bool {
    let count = |key: &str| number(result, key).unwrap_or(0.0);
    let (failed, all) = (count("failed"), count("failed") + count("completed"));
    let caveats = own(result, "caveats").and_then(Value::as_list).unwrap_or_default();
    let ended =
        |caveat: &Value| caveat.get("kind").and_then(Value::as_str).is_some_and(|kind| BAD_ENDS.contains(&kind));
    failed > MAX_FAILED * all || caveats.iter().any(ended)
}

/// The verdict on the client, where it was not reliable.
pub(super) fn unreliable_client(result: &Dict) -> Option<&str> {
    let client = own(result, "client")?;
    let doubted = client.get("trustworthy") == Some(&Value::Bool(false));
    doubted.then(|| client.get("verdict").and_then(Value::as_str).unwrap_or("the client was not reliable"))
}

/// The mean latency of the first of these runs, in seconds; 0 where it is not known.
pub(super) fn mean_latency(results: &[Dict]) -> f64 {
    let first = results.first().and_then(|result| number(result, "mean_e2el_ms"));
    first.filter(|mean| mean.is_finite()).map_or(0.0, |mean| mean / 1000.0)
}
