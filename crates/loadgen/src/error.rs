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
    /// A worker could not be started.
    #[error("worker {id} of {of} cannot be started: use fewer --workers, or raise the system's limits")]
    Worker { id: usize, of: usize, source: std::io::Error },
}
