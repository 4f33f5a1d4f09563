//! Peaks: vLLM's one-second buckets, and the exact number of requests in flight.

use crate::latency::successes;
use crate::{Sample, Samples};

/// Events, tokens and requests in each second after the first request was sent; successes only.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PerSecond {
    /// Token events.
    pub events: Vec<u64>,
    /// Tokens, each event weighing its share of the request's output length.
    pub tokens: Vec<f64>,
    /// Requests that were in flight at any time of the second; may exceed the peak concurrency.
    pub requests: Vec<u64>,
}

impl PerSecond {
    /// Fills the buckets.
    pub fn of(samples: &Samples) -> Self {
        let spans = successes(samples).map(|sample| (sample.sent, sample.sent + sample.latency));
        let (start, end) = spans
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(start, end), (sent, last)| (start.min(sent), end.max(last)));
        if start > end {
            return PerSecond::default();
        }
        let count = (end - start).ceil() as usize + 1;
        let mut buckets = PerSecond { events: vec![0; count], tokens: vec![0.0; count], requests: Vec::new() };
        // Differences first, summed below: a request may span many seconds.
        let mut changes = vec![0i64; count + 1];
        for sample in successes(samples) {
            buckets.add_tokens(&sample, start);
            changes[(sample.sent - start) as usize] += 1;
            changes[(sample.sent + sample.latency - start) as usize + 1] -= 1;
        }
        let mut in_flight = 0;
        buckets.requests = changes[..count]
            .iter()
            .map(|change| {
                in_flight += change;
                in_flight as u64
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
        // Gaps may add up to more than the latency. Events past the last bucket are not counted.
        if let Some(events) = self.events.get_mut(second as usize) {
            *events += 1;
            self.tokens[second as usize] += weight;
        }
    }

    /// vLLM's `max_output_tokens_per_s`: the peak second, counted in events.
    pub fn peak_events(&self) -> f64 {
        self.events.iter().copied().max().unwrap_or(0) as f64
    }

    /// The peak second, counted in tokens.
    pub fn peak_tokens(&self) -> f64 {
        self.tokens.iter().copied().fold(0.0, f64::max)
    }

    /// vLLM's `max_concurrent_requests`: most requests in any one second.
    pub fn peak_requests(&self) -> u64 {
        self.requests.iter().copied().max().unwrap_or(0)
    }
}

/// Peak number of requests in flight, failed ones included.
pub fn exact_peak(samples: &Samples) -> u64 {
    let mut peak = 0;
    let spans = samples.iter().map(|sample| (sample.sent, sample.done));
    Changes::of(samples.len(), spans).each(|_, _, in_flight| peak = peak.max(in_flight));
    peak.max(0) as u64
}

/// Start and end times of requests.
pub(crate) struct Changes {
    starts: Vec<f64>,
    ends: Vec<f64>,
}

impl Changes {
    /// The changes of at most `most` spans.
    pub(crate) fn of(most: usize, spans: impl Iterator<Item = (f64, f64)>) -> Self {
        let (mut starts, mut ends) = (Vec::with_capacity(most), Vec::with_capacity(most));
        for (start, end) in spans {
            starts.push(start);
            ends.push(end);
        }
        [&mut starts, &mut ends].into_iter().for_each(|times| times.sort_unstable_by(f64::total_cmp));
        Changes { starts, ends }
    }

    /// Calls `see` for each change in order: its time, and the requests in flight before and after it. An end and a
    /// start at the same time do not overlap: ends come first.
    pub(crate) fn each(&self, mut see: impl FnMut(f64, i64, i64)) {
        let (mut starts, mut ends) = (self.starts.iter().peekable(), self.ends.iter().peekable());
        let mut in_flight = 0;
        loop {
            let ended = match (starts.peek(), ends.peek()) {
                (Some(start), Some(end)) => end.total_cmp(start).is_le(),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (None, None) => return,
            };
            let (times, change) = if ended { (&mut ends, -1) } else { (&mut starts, 1) };
            let Some(time) = times.next() else { return };
            see(*time, in_flight, in_flight + change);
            in_flight += change;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sent: f64, ttft: f64, itl: &[f64], latency: f64) -> Sample {
        Sample { sent, ttft, itl: itl.into(), latency, done: sent + latency, output_len: 6, ..Sample::default() }
    }

    #[test]
    fn buckets_count_events_and_touched_seconds() {
        let samples = [sample(0.0, 0.5, &[0.4, 0.4], 1.3), sample(0.9, 0.2, &[0.1], 0.3)].into();
        let buckets = PerSecond::of(&samples);
        assert_eq!(
            (buckets.events.as_slice(), buckets.requests.as_slice()),
            ([2, 3, 0].as_slice(), [2, 2, 0].as_slice())
        );
        assert_eq!((buckets.peak_events(), buckets.peak_requests(), buckets.peak_tokens()), (3.0, 2, 8.0));
    }

    #[test]
    fn exact_peak_does_not_count_requests_that_follow_each_other() {
        let samples = [sample(0.0, 0.1, &[], 0.25), sample(0.25, 0.1, &[], 0.25), sample(0.3, 0.1, &[], 0.1)].into();
        assert_eq!(exact_peak(&samples), 2);
        assert_eq!(PerSecond::of(&samples).peak_requests(), 3);
        assert_eq!(exact_peak(&Samples::default()), 0);
    }
}
