//! The latencies of single requests and their lists over a run, in vLLM's definitions.

use std::borrow::Cow;

use crate::{Gaps, Sample, Samples};

/// The successful samples, in request order.
pub fn successes(samples: &Samples) -> impl Iterator<Item = Cow<'_, Sample>> {
    samples.iter().filter(|sample| sample.success())
}

/// Time per output token after the first; `None` for responses of one token or none.
pub fn tpot(sample: &Sample) -> Option<f64> {
    (sample.output_len > 1).then(|| (sample.latency - sample.ttft) / (sample.output_len - 1) as f64)
}

/// `of` over the successes.
pub fn collect(samples: &Samples, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
    collect_some(samples, |sample| Some(of(sample)))
}

/// `of` over the successes that have a value.
pub fn collect_some(samples: &Samples, of: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
    // Allocated once: a growing list is copied.
    let mut values = Vec::with_capacity(samples.len());
    values.extend(successes(samples).filter_map(|sample| of(&sample)));
    values
}

/// The TPOTs of the successes that have one.
pub fn tpots(samples: &Samples) -> Vec<f64> {
    collect_some(samples, tpot)
}

/// The gaps of all successes in request order.
pub fn itls(samples: &Samples) -> impl Iterator<Item = f64> {
    successes(samples).flat_map(|sample| {
        Gaps::iter_of(match sample {
            Cow::Borrowed(sample) => Cow::Borrowed(&sample.itl),
            Cow::Owned(sample) => Cow::Owned(sample.itl),
        })
    })
}
