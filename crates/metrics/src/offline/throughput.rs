//! A batch, run once or several times.

use crate::{Interval, statistics::mean};

/// The runs of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Throughput {
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
    /// Whether media were sent whose tokens are not counted.
    pub media_uncounted: bool,
}

impl Throughput {
    /// Prompt and output tokens.
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens + self.output_tokens
    }

    /// Seconds of a run, the mean of all.
    pub fn elapsed(&self) -> f64 {
        mean(&self.times)
    }

    /// Confidence interval of a rate, from the rates of the runs. `amount` is the amount per run.
    pub fn rate_interval(&self, amount: u64) -> Option<Interval> {
        let rates: Vec<f64> = self.times.iter().map(|seconds| amount as f64 / seconds).collect();
        Interval::of_mean(&rates)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_several_runs_have_an_interval() {
        let record = |times: &[f64]| Throughput {
            times: times.to_vec(),
            profile_seconds: 0.0,
            num_requests: 10,
            failed: 0,
            prompt_tokens: 60,
            output_tokens: 40,
            media_uncounted: false,
        };
        assert_eq!(record(&[2.0]).rate_interval(100), None);
        let three = record(&[2.0, 2.5, 2.0]);
        let interval = three.rate_interval(three.total_tokens()).unwrap();
        assert!(interval.low < three.tokens_per_second() && three.tokens_per_second() < interval.high, "{interval:?}");
        assert_eq!(record(&[0.1, 10.0]).rate_interval(100).unwrap().low, 0.0);
    }
}
