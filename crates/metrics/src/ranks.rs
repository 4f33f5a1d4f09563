//! Statistics of each rank of a run: its requests, dispatch delay, load, and clock error bound.

use tacho_core::json::{Dict, Value};

use crate::Statistics;

/// Reported percentiles of lateness.
const PERCENTILES: [f64; 2] = [50.0, 99.0];

/// One rank of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankUse {
    /// Its number.
    pub rank: u64,
    /// Its machine.
    pub machine: String,
    /// Requests assigned to it.
    pub planned: u64,
    /// Those that are in the result.
    pub requests: u64,
    /// From the scheduled time to dispatch, in ms: median, 99th percentile, maximum; `None` without a schedule.
    pub lateness_ms: Option<[f64; 3]>,
    /// Busy fraction of its busiest worker; `None` if not reported.
    pub busy: Option<f64>,
    /// Its clock relative to rank 0's; rank 0 has none.
    pub clock: Option<RankClock>,
    /// Why it was lost, if it was.
    pub lost: Option<String>,
}

/// A rank's clock relative to rank 0's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RankClock {
    /// Bound on the error of the rank's times on rank 0's clock, ms.
    pub bound_ms: f64,
    /// Change of the offset during the run, ms.
    pub drift_ms: f64,
    /// Offset of its wall clock from rank 0's, and the bound on it, ms.
    pub calendar_ms: Option<(f64, f64)>,
}

impl RankUse {
    /// The reported lateness of requests, from seconds.
    pub fn lateness(seconds: Vec<f64>) -> Option<[f64; 3]> {
        let statistics = (!seconds.is_empty()).then(|| Statistics::of(seconds, &PERCENTILES))?;
        let [(_, median), (_, tail)] = statistics.percentiles_ms[..] else { return None };
        Some([median, tail, statistics.max_ms])
    }

    /// The object in result files and logs.
    pub fn to_dict(&self) -> Dict {
        let mut dict = Dict::new();
        dict.set("rank", self.rank);
        dict.set("machine", self.machine.as_str());
        dict.set("planned", self.planned);
        dict.set("requests", self.requests);
        let [median, tail, most] = self.lateness_ms.map_or([None; 3], |lateness| lateness.map(Some));
        dict.set("p50_lateness_ms", median);
        dict.set("p99_lateness_ms", tail);
        dict.set("max_lateness_ms", most);
        dict.set("busy", self.busy);
        dict.set("clock_bound_ms", self.clock.map(|clock| clock.bound_ms));
        dict.set("clock_drift_ms", self.clock.map(|clock| clock.drift_ms));
        let calendar = self.clock.and_then(|clock| clock.calendar_ms);
        dict.set("calendar_offset_ms", calendar.map(|(ahead, _)| ahead));
        dict.set("calendar_bound_ms", calendar.map(|(_, bound)| bound));
        dict.set("lost", self.lost.as_deref());
        dict
    }

    /// Reads what [`RankUse::to_dict`] wrote.
    pub fn from_value(value: &Value) -> Option<RankUse> {
        let float = |key: &str| value.get(key).and_then(Value::as_f64);
        let count = |key: &str| value.get(key).and_then(Value::as_i64).and_then(|number| u64::try_from(number).ok());
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let lateness = float("p50_lateness_ms").zip(float("p99_lateness_ms")).zip(float("max_lateness_ms"));
        let clock = float("clock_bound_ms").zip(float("clock_drift_ms"));
        Some(RankUse {
            rank: count("rank")?,
            machine: text("machine")?,
            planned: count("planned")?,
            requests: count("requests")?,
            lateness_ms: lateness.map(|((median, tail), most)| [median, tail, most]),
            busy: float("busy"),
            clock: clock.map(|(bound_ms, drift_ms)| RankClock {
                bound_ms,
                drift_ms,
                calendar_ms: float("calendar_offset_ms").zip(float("calendar_bound_ms")),
            }),
            lost: text("lost"),
        })
    }
}

/// Bound on the difference between times of different ranks; `None` for one rank, or where a clock is unknown.
pub fn clock_bound_ms(ranks: &[RankUse]) -> Option<f64> {
    let others = ranks.iter().filter(|rank| rank.rank != 0 && rank.requests > 0);
    others.map(|rank| rank.clock.map(|clock| clock.bound_ms)).reduce(|most, bound| Some(most?.max(bound?))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_come_back() {
        let full = RankUse {
            rank: 3,
            machine: "node3".into(),
            planned: 10,
            requests: 9,
            lateness_ms: Some([0.1, 0.2, 0.3]),
            busy: Some(0.5),
            clock: Some(RankClock { bound_ms: 0.02, drift_ms: -0.001, calendar_ms: Some((50.0, 0.03)) }),
            lost: Some("it ended".into()),
        };
        for rank in [full.clone(), RankUse::default()] {
            assert_eq!(RankUse::from_value(&rank.to_dict().into()), Some(rank));
        }
        assert_eq!(RankUse::from_value(&Value::Null), None);
        assert_eq!(clock_bound_ms(&[RankUse::default(), full.clone()]), Some(0.02));
        assert_eq!(clock_bound_ms(&[full.clone(), RankUse { clock: None, ..full }]), None);
        assert_eq!(clock_bound_ms(&[]), None);
        assert_eq!(RankUse::lateness(vec![0.001, 0.003]), Some([2.0, 2.98, 3.0]));
    }
}
