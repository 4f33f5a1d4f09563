//! Errors of schedules and workers.

/// Why a schedule cannot be planned or run.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Error {
    /// The rate is not a positive number.
    #[error("request rate {rate} is not positive: use a rate above 0 requests/s, or inf")]
    BadRate { rate: f64 },
    /// The burstiness is not a positive number.
    #[error("burstiness {burstiness} is not positive: 1 is a Poisson process, less is burstier, inf is constant")]
    BadBurstiness { burstiness: f64 },
    /// A ramp that starts at 0 requests/s.
    #[error("a ramp-up cannot start at 0 requests/s: the first request would never be sent")]
    RampFromZero,
    /// A scheduled time that is not finite.
    #[error("request {index} is scheduled at {seconds} s, which is not a valid time")]
    BadTime { index: usize, seconds: f64 },
    /// A scheduled time years ahead.
    #[error("request {index} is scheduled {seconds:.3e} s after the start: raise the request rate, or check the times")]
    TooFar { index: usize, seconds: f64 },
    /// A stage that cannot be planned.
    #[error("stage {name:?}: {problem}")]
    Stage { name: String, problem: &'static str },
    /// Stages that do not fit together.
    #[error("{problem}")]
    Stages { problem: &'static str },
    /// A workload of another size than its schedule.
    #[error(
        "the schedule needs {needed} requests and the workload has {found}: change the durations or rates, or use a dataset \
         with enough rows"
    )]
    StageRequests { needed: usize, found: usize },
    /// A worker could not be started.
    #[error("worker {id} of {of} cannot be started: use fewer --workers, or raise the system's limits")]
    Worker { id: usize, of: usize, source: std::io::Error },
}
