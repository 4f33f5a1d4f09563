//! Stages of a load on the time axis of a run.

use crate::json::{Dict, Value};

/// The label of the requests of a stage.
pub const STAGE: &str = "stage";

/// A stage on the time axis of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StageSpan {
    /// Its name.
    pub name: String,
    /// Its start, in seconds after the start of the run.
    pub start: f64,
    /// Its end.
    pub end: f64,
    /// Number of scheduled requests; zero if responses determine it.
    pub requests: usize,
    /// Its concurrency limit, in a closed loop.
    pub limit: Option<usize>,
    /// Mean requests per second, or the concurrency limit.
    pub mean_load: f64,
    /// Its load in words.
    pub load: String,
}

impl StageSpan {
    /// The stage that `seconds` belongs to. The last one extends to the end of the run.
    pub fn at(stages: &[StageSpan], seconds: f64) -> Option<(usize, &StageSpan)> {
        let place = stages.partition_point(|stage| stage.end <= seconds).min(stages.len().checked_sub(1)?);
        Some((place, &stages[place]))
    }

    /// Its fields in logs and results.
    pub fn to_dict(&self) -> Dict {
        let mut dict = Dict::new();
        dict.set("name", self.name.as_str());
        dict.set("start_s", self.start);
        dict.set("end_s", self.end);
        dict.set("load", self.load.as_str());
        dict.set("mean_load", self.mean_load);
        dict.set("concurrency", self.limit);
        dict.set("planned_requests", self.requests);
        dict
    }

    /// Reads what [`StageSpan::to_dict`] wrote; `None` if a field is missing.
    pub fn from_value(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
        let number = |key: &str| value.get(key)?.as_f64();
        let count = |key: &str| usize::try_from(value.get(key)?.as_i64()?).ok();
        Some(StageSpan {
            name: text("name")?,
            start: number("start_s")?,
            end: number("end_s")?,
            requests: count("planned_requests")?,
            limit: count("concurrency"),
            mean_load: number("mean_load")?,
            load: text("load")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_found_by_time_and_come_back() {
        let stage = |name: &str, start, end, limit| StageSpan {
            name: name.to_owned(),
            start,
            end,
            limit,
            load: "5 req/s".to_owned(),
            ..StageSpan::default()
        };
        let stages = [stage("a", 0.0, 2.0, None), stage("b", 2.0, 5.0, Some(8))];
        let at = |seconds| StageSpan::at(&stages, seconds).map(|(place, stage)| (place, stage.name.as_str()));
        assert_eq!(
            [at(0.0), at(1.9), at(2.0), at(9.0)],
            [Some((0, "a")), Some((0, "a")), Some((1, "b")), Some((1, "b"))]
        );
        assert_eq!(StageSpan::at(&[], 1.0), None);
        for stage in stages {
            assert_eq!(StageSpan::from_value(&stage.to_dict().into()), Some(stage));
        }
        assert_eq!(StageSpan::from_value(&Value::Null), None);
    }
}
