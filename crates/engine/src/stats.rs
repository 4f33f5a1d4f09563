//! The engine's statistics, as in `/metrics`.

use std::ops::Add;

/// Values counted in buckets, as Prometheus does.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// An empty histogram with these upper bounds, and a bucket for everything above.
    pub fn new(bounds: &'static [f64]) -> Self {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub fn observe(&mut self, value: f64) {
        self.observe_times(value, 1);
    }

    pub fn observe_times(&mut self, value: f64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += times;
        // Added one by one, for the same rounding.
        (0..times).for_each(|_| self.sum += value);
    }

    /// Upper bounds with the number of values up to each; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        }))
    }

    fn joined(mut self, other: Histogram) -> Histogram {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.sum += other.sum;
        self
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }
}

// vLLM's bucket bounds.
const FIRST_TOKEN: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
const INTER_TOKEN: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const REQUEST: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
const LENGTH: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
const ITERATION: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

/// Declares the statistics once: how each starts, and the sum of two engines'.
macro_rules! stats {
    ($($(#[doc = $doc:literal])* $name:ident: $kind:ty = $start:expr, $joined:path;)*) => {
        /// A snapshot of the engine's gauges and counters.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: $kind,)*
        }

        impl Stats {
            /// The sums of both, fractions included.
            #[must_use]
            pub fn joined(self, other: Stats) -> Stats {
                Stats { $($name: $joined(self.$name, other.$name),)* }
            }
        }

        impl Default for Stats {
            fn default() -> Self {
                Stats { $($name: $start,)* }
            }
        }
    };
}

stats! {
    running: usize = 0, Add::add;
    /// Sequences that wait to be admitted.
    waiting: usize = 0, Add::add;
    /// Used part of the KV blocks, 0 to 1.
    kv_cache_usage: f64 = 0.0, Add::add;
    steps: u64 = 0, Add::add;
    /// Prompt tokens looked up in the prefix cache.
    prefix_cache_queries: u64 = 0, Add::add;
    /// Prompt tokens found there.
    prefix_cache_hits: u64 = 0, Add::add;
    /// Prompt tokens that came from another engine.
    external_cache_hits: u64 = 0, Add::add;
    /// Prompt tokens looked up at another engine.
    external_cache_queries: u64 = 0, Add::add;
    prompt_tokens_cached: u64 = 0, Add::add;
    preemptions: u64 = 0, Add::add;
    /// Prompt tokens of sequences that got their first token.
    prompt_tokens: u64 = 0, Add::add;
    generation_tokens: u64 = 0, Add::add;
    /// Sequences ended by EOS or a stop string.
    finished_stop: u64 = 0, Add::add;
    /// Sequences ended by their token limit.
    finished_length: u64 = 0, Add::add;
    finished_abort: u64 = 0, Add::add;
    /// Arrival to first token, seconds.
    time_to_first_token: Histogram = Histogram::new(FIRST_TOKEN), Histogram::joined;
    /// Token to token, seconds.
    inter_token_latency: Histogram = Histogram::new(INTER_TOKEN), Histogram::joined;
    /// Arrival to last token, seconds.
    e2e_request_latency: Histogram = Histogram::new(REQUEST), Histogram::joined;
    /// Arrival to first admission, seconds.
    queue_time: Histogram = Histogram::new(REQUEST), Histogram::joined;
    /// Admission to first token, seconds.
    prefill_time: Histogram = Histogram::new(REQUEST), Histogram::joined;
    /// First token to last, seconds.
    decode_time: Histogram = Histogram::new(REQUEST), Histogram::joined;
    /// Admission to last token, seconds.
    inference_time: Histogram = Histogram::new(REQUEST), Histogram::joined;
    /// First token to last, per token after the first, seconds.
    time_per_output_token: Histogram = Histogram::new(INTER_TOKEN), Histogram::joined;
    request_prompt_tokens: Histogram = Histogram::new(LENGTH), Histogram::joined;
    request_generation_tokens: Histogram = Histogram::new(LENGTH), Histogram::joined;
    iteration_tokens: Histogram = Histogram::new(ITERATION), Histogram::joined;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_the_bucket_whose_bound_they_do_not_exceed() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 9.0].into_iter().for_each(|value| histogram.observe(value));
        let buckets: Vec<_> = histogram.cumulative().collect();
        assert_eq!(buckets, [(1.0, 2), (2.0, 3), (f64::INFINITY, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (4, 12.0));
    }
}
