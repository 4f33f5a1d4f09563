//! A batch, run once or several times.

use super::{EngineNote, Interval};
use crate::statistics::mean;

/// A run of `tacho throughput`.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputRecord {
    /// The model.
    pub model_id: String,
    /// What ran it.
    pub engine: EngineNote,
    /// Seconds of each run of the batch.
    pub times: Vec<f64>,
    /// Seconds of it in which the profiler was started and stopped.
    pub profile_seconds: f64,
    /// Requests in the batch.
    pub num_requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Prompt tokens, once per request.
    pub prompt_tokens: u64,
    /// Generated tokens of all sequences.
    pub output_tokens: u64,
    /// Whether media were sent whose tokens no count includes.
    pub media_uncounted: bool,
}

impl ThroughputRecord {
    /// Prompt and output tokens.
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens + self.output_tokens
    }

    /// Seconds of a run, the mean of all.
    pub fn elapsed(&self) -> f64 {
        mean(&self.times)
    }

    /// How well a rate is known: the interval of the mean time, turned over. `amount` is what a run gives.
    pub fn rate_interval(&self, amount: u64) -> Option<Interval> {
        let time = Interval::of(&self.times).filter(|time| time.low > 0.0)?;
        Some(Interval { low: amount as f64 / time.high, high: amount as f64 / time.low })
    }

    /// Requests per second.
    pub fn requests_per_second(&self) -> f64 {
        self.num_requests as f64 / self.elapsed()
    }

    /// Prompt and output tokens per second.
    pub fn tokens_per_second(&self) -> f64 {
        self.total_tokens() as f64 / self.elapsed()
    }

    /// Output tokens per second.
    pub fn output_tokens_per_second(&self) -> f64 {
        self.output_tokens as f64 / self.elapsed()
    }
}
