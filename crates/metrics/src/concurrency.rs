//! Peaks: vLLM's one-second buckets, and the exact number of requests under way.

use crate::Sample;
use crate::latency::successes;

/// What happened in each second after the first request was sent; successes only.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PerSecond {
    /// Token events.
    pub events: Vec<u64>,
    /// Tokens, each event weighing its share of the request's output length.
    pub tokens: Vec<f64>,
    /// Requests that touched the second at all; may exceed what ran at any one moment.
    pub requests: Vec<u64>,
}

impl PerSecond {
    /// Fills the buckets.
    pub fn of(samples: &[Sample]) -> Self {
        let start = successes(samples).map(|sample| sample.sent).fold(f64::INFINITY, f64::min);
        let end = successes(samples).map(|sample| sample.sent + sample.latency).fold(f64::NEG_INFINITY, f64::max);
        if start > end {
            return PerSecond::default();
        }
        let count = (end - start).ceil() as usize + 1;
        let mut buckets = PerSecond { events: vec![0; count], tokens: vec![0.0; count], requests: Vec::new() };
        // Changes first, summed up below: a request may span many seconds.
        let mut changes = vec![0i64; count + 1];
        for sample in successes(samples) {
            buckets.add_tokens(sample, start);
            changes[(sample.sent - start) as usize] += 1;
            changes[(sample.sent + sample.latency - start) as usize + 1] -= 1;
        }
        let mut under_way = 0;
        buckets.requests = changes[..count]
            .iter()
            .map(|change| {
                under_way += change;
                under_way as u64
            })
            .collect();
        buckets
    }

    fn add_tokens(&mut self, sample: &Sample, start: f64) {
        let weight = sample.output_len as f64 / sample.events() as f64;
        let mut time = sample.sent + sample.ttft;
        self.add_event(time - start, weight);
        for gap in &sample.itl {
            time += gap;
            self.add_event(time - start, weight);
        }
    }

    fn add_event(&mut self, second: f64, weight: f64) {
        // Gaps may add up to more than the latency; what lies past the last bucket is not counted.
        if let Some(events) = self.events.get_mut(second as usize) {
            *events += 1;
            self.tokens[second as usize] += weight;
        }
    }

    /// vLLM's `max_output_tokens_per_s`: the fullest second, counted in events.
    pub fn peak_events(&self) -> f64 {
        self.events.iter().copied().max().unwrap_or(0) as f64
    }

    /// The fullest second, counted in tokens.
    pub fn peak_tokens(&self) -> f64 {
        self.tokens.iter().copied().fold(0.0, f64::max)
    }

    /// vLLM's `max_concurrent_requests`: the second touched by most requests.
    pub fn peak_requests(&self) -> u64 {
        self.requests.iter().copied().max().unwrap_or(0)
    }
}

/// The most requests, failed ones too, that were under way at one moment.
pub fn exact_peak(samples: &[Sample]) -> u64 {
    let mut moments: Vec<(f64, i64)> =
        samples.iter().flat_map(|sample| [(sample.sent, 1), (sample.done, -1)]).collect();
    // An end and a start at the same moment do not overlap: -1 sorts before 1.
    moments.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut under_way, mut peak) = (0i64, 0i64);
    for (_, change) in moments {
        under_way += change;
        peak = peak.max(under_way);
    }
    peak as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sent: f64, ttft: f64, itl: &[f64], latency: f64) -> Sample {
        Sample { sent, ttft, itl: itl.into(), latency, done: sent + latency, output_len: 6, ..Sample::default() }
    }

    #[test]
    fn buckets_count_events_and_touched_seconds() {
        let samples = [sample(0.0, 0.5, &[0.4, 0.4], 1.3), sample(0.9, 0.2, &[0.1], 0.3)];
        let buckets = PerSecond::of(&samples);
        assert_eq!(
            (buckets.events.as_slice(), buckets.requests.as_slice()),
            ([2, 3, 0].as_slice(), [2, 2, 0].as_slice())
        );
        assert_eq!((buckets.peak_events(), buckets.peak_requests(), buckets.peak_tokens()), (3.0, 2, 8.0));
    }

    #[test]
    fn exact_peak_does_not_count_requests_that_follow_each_other() {
        let samples = [sample(0.0, 0.1, &[], 0.25), sample(0.25, 0.1, &[], 0.25), sample(0.3, 0.1, &[], 0.1)];
        assert_eq!(exact_peak(&samples), 2);
        assert_eq!(PerSecond::of(&samples).peak_requests(), 3);
        assert_eq!(exact_peak(&[]), 0);
    }
}
