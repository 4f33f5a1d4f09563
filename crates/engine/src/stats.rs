//! The engine's statistics, as in `/metrics`.

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

    /// Counts a value several times.
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

    /// Merges two histograms with the same bounds.
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
const LENGTH: &[f64] = &[
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    200.0,
    500.0,
    1000.0,
    2000.0,
    5000.0,
    10_000.0,
    20_000.0,
    50_000.0,
    100_000.0,
    200_000.0,
    500_000.0,
    1_000_000.0,
];
const ITERATION: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

/// A snapshot of the engine's gauges and counters.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// Sequences in the batch.
    pub running: usize,
    /// Sequences that wait to be admitted.
    pub waiting: usize,
    /// Used part of the KV blocks, 0 to 1.
    pub kv_cache_usage: f64,
    pub steps: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_cache_queries: u64,
    /// Prompt tokens found there.
    pub prefix_cache_hits: u64,
    /// Prompt tokens that came from another engine.
    pub external_cache_hits: u64,
    /// Prompt tokens looked up at another engine.
    pub external_cache_queries: u64,
    pub prompt_tokens_cached: u64,
    pub preemptions: u64,
    /// Prompt tokens of sequences that got their first token.
    pub prompt_tokens: u64,
    pub generation_tokens: u64,
    /// Sequences ended by EOS or a stop string.
    pub finished_stop: u64,
    /// Sequences ended by their token limit.
    pub finished_length: u64,
    pub finished_abort: u64,
    /// Arrival to first token, seconds.
    pub time_to_first_token: Histogram,
    /// Token to token, seconds.
    pub inter_token_latency: Histogram,
    /// Arrival to last token, seconds.
    pub e2e_request_latency: Histogram,
    /// Arrival to first admission, seconds.
    pub queue_time: Histogram,
    /// Admission to first token, seconds.
    pub prefill_time: Histogram,
    /// First token to last, seconds.
    pub decode_time: Histogram,
    /// Admission to last token, seconds.
    pub inference_time: Histogram,
    /// First token to last, per token after the first, seconds.
    pub time_per_output_token: Histogram,
    pub request_prompt_tokens: Histogram,
    pub request_generation_tokens: Histogram,
    pub iteration_tokens: Histogram,
}

impl Stats {
    /// The sums of both, fractions included.
    #[must_use]
    pub fn joined(self, other: Stats) -> Stats {
        Stats {
            running: self.running + other.running,
            waiting: self.waiting + other.waiting,
            kv_cache_usage: self.kv_cache_usage + other.kv_cache_usage,
            steps: self.steps + other.steps,
            prefix_cache_queries: self.prefix_cache_queries + other.prefix_cache_queries,
            prefix_cache_hits: self.prefix_cache_hits + other.prefix_cache_hits,
            external_cache_hits: self.external_cache_hits + other.external_cache_hits,
            external_cache_queries: self.external_cache_queries + other.external_cache_queries,
            prompt_tokens_cached: self.prompt_tokens_cached + other.prompt_tokens_cached,
            preemptions: self.preemptions + other.preemptions,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            generation_tokens: self.generation_tokens + other.generation_tokens,
            finished_stop: self.finished_stop + other.finished_stop,
            finished_length: self.finished_length + other.finished_length,
            finished_abort: self.finished_abort + other.finished_abort,
            time_to_first_token: self.time_to_first_token.joined(other.time_to_first_token),
            inter_token_latency: self.inter_token_latency.joined(other.inter_token_latency),
            e2e_request_latency: self.e2e_request_latency.joined(other.e2e_request_latency),
            queue_time: self.queue_time.joined(other.queue_time),
            prefill_time: self.prefill_time.joined(other.prefill_time),
            decode_time: self.decode_time.joined(other.decode_time),
            inference_time: self.inference_time.joined(other.inference_time),
            time_per_output_token: self.time_per_output_token.joined(other.time_per_output_token),
            request_prompt_tokens: self.request_prompt_tokens.joined(other.request_prompt_tokens),
            request_generation_tokens: self.request_generation_tokens.joined(other.request_generation_tokens),
            iteration_tokens: self.iteration_tokens.joined(other.iteration_tokens),
        }
    }
}

impl Default for Stats {
    fn default() -> Self {
        Stats {
            running: 0,
            waiting: 0,
            kv_cache_usage: 0.0,
            steps: 0,
            prefix_cache_queries: 0,
            prefix_cache_hits: 0,
            external_cache_hits: 0,
            external_cache_queries: 0,
            prompt_tokens_cached: 0,
            preemptions: 0,
            prompt_tokens: 0,
            generation_tokens: 0,
            finished_stop: 0,
            finished_length: 0,
            finished_abort: 0,
            time_to_first_token: Histogram::new(FIRST_TOKEN),
            inter_token_latency: Histogram::new(INTER_TOKEN),
            e2e_request_latency: Histogram::new(REQUEST),
            queue_time: Histogram::new(REQUEST),
            prefill_time: Histogram::new(REQUEST),
            decode_time: Histogram::new(REQUEST),
            inference_time: Histogram::new(REQUEST),
            time_per_output_token: Histogram::new(INTER_TOKEN),
            request_prompt_tokens: Histogram::new(LENGTH),
            request_generation_tokens: Histogram::new(LENGTH),
            iteration_tokens: Histogram::new(ITERATION),
        }
    }
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
