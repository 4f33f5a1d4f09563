//! Stages of a load on the time axis of a run.

/// The label of the requests of a stage.
pub const STAGE: &str = "stage";

crate::record! {
    /// A stage on the time axis of a run.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct StageSpan {
        /// Its name, and that of its group under groups.stage.
        pub name: String,
        /// Its start, in seconds after the start of the run.
        pub start as "start_s": f64,
        /// Its end, s.
        pub end as "end_s": f64,
        /// Its load in words.
        pub load: String,
        /// Mean requests per second, or the concurrency limit.
        pub mean_load: f64,
        /// Its concurrency limit; null for a rate.
        pub limit as "concurrency": Option<usize>,
        /// Number of scheduled requests; 0 with a concurrency limit.
        pub requests as "planned_requests": usize,
    }
}

impl StageSpan {
    /// The stage that `seconds` belongs to. The last one extends to the end of the run.
    pub fn at(stages: &[StageSpan], seconds: f64) -> Option<(usize, &StageSpan)> {
        let index = stages.partition_point(|stage| stage.end <= seconds).min(stages.len().checked_sub(1)?);
        Some((index, &stages[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_found_by_time() {
        let stage = |name: &str, start, end, limit| StageSpan {
            name: name.to_owned(),
            start,
            end,
            limit,
            load: "5 req/s".to_owned(),
            ..StageSpan::default()
        };
        let stages = [stage("a", 0.0, 2.0, None), stage("b", 2.0, 5.0, Some(8))];
        let at = |seconds| StageSpan::at(&stages, seconds).map(|(index, stage)| (index, stage.name.as_str()));
        assert_eq!(
            [at(0.0), at(1.9), at(2.0), at(9.0)],
            [Some((0, "a")), Some((0, "a")), Some((1, "b")), Some((1, "b"))]
        );
        assert_eq!(StageSpan::at(&[], 1.0), None);
    }
}
