//! What can be wrong with a schedule.

/// Why no schedule could be made or driven.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rate is not a positive number.
    #[error("request rate {rate} is not positive: give requests per second above 0, or inf")]
    BadRate {
        /// The rate in force for the request.
        rate: f64,
    },
    /// The burstiness is not a positive number.
    #[error("burstiness {burstiness} is not positive: 1 is a Poisson process, less is burstier, inf is constant")]
    BadBurstiness {
        /// The value given.
        burstiness: f64,
    },
    /// A ramp that starts at no requests at all.
    #[error("a ramp-up cannot start at 0 requests/s: the first request would never be due")]
    RampFromZero,
    /// A due time that is not a finite number.
    #[error("request {index} is due at {seconds} s, which is not a time")]
    BadTime {
        /// Which request.
        index: usize,
        /// Its planned time.
        seconds: f64,
    },
    /// A due time that nobody will live to see.
    #[error("request {index} would be due {seconds:.3e} s after the start: raise the request rate, or check the times")]
    TooFar {
        /// Which request.
        index: usize,
        /// Its planned time.
        seconds: f64,
    },
    /// A worker could not be started.
    #[error("worker {id} of {of} cannot be started: use fewer --workers, or raise the system's limits")]
    Worker {
        /// Which one.
        id: usize,
        /// How many were wanted.
        of: usize,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}
