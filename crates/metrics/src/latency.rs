//! The latencies of single requests and their lists over a run, in vLLM's definitions.

use crate::Sample;

/// The successful samples, in request order.
pub fn successes(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(|sample| sample.success())
}

/// Time per output token after the first; nothing for answers of one token or none.
pub fn tpot(sample: &Sample) -> Option<f64> {
    (sample.output_len > 1).then(|| (sample.latency - sample.ttft) / (sample.output_len - 1) as f64)
}

/// `of` over the successes.
pub fn collect(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Vec<f64> {
    successes(samples).map(of).collect()
}

/// The TPOTs of the successes that have one.
pub fn tpots(samples: &[Sample]) -> Vec<f64> {
    successes(samples).filter_map(tpot).collect()
}

/// The gaps of all successes, one after the other.
pub fn itls(samples: &[Sample]) -> impl Iterator<Item = f64> {
    successes(samples).flat_map(|sample| &sample.itl)
}
