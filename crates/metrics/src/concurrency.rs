//! Peaks: vLLM's one-second buckets, the busiest second wherever it starts, and the exact number of requests in flight.

use crate::{Sample, Samples, latency::successes};

/// Events and requests in each second after the first request was sent; successes only.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PerSecond {
    /// Token events.
    pub events: Vec<u64>,
    /// Requests that were in flight at any time of the second; may exceed the peak concurrency.
    pub requests: Vec<u64>,
}

impl PerSecond {
    /// Fills the buckets.
    pub fn of(samples: &Samples) -> Self {
        let Some((start, end)) = span(samples) else { return PerSecond::default() };
        let count = (end - start).ceil() as usize + 1;
        let mut buckets = PerSecond { events: vec![0; count], requests: Vec::new() };
        // Differences first, summed below: a request may span many seconds.
        let mut changes = vec![0i64; count + 1];
        for sample in successes(samples) {
            each_event(&sample, |time| {
                // Gaps may add up to more than the latency. Events past the last bucket are not counted.
                buckets.events.get_mut((time - start) as usize).into_iter().for_each(|events| *events += 1);
            });
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

    /// vLLM's `max_output_tokens_per_s`: the peak second, counted in events.
    pub fn peak_events(&self) -> f64 {
        self.events.iter().copied().max().unwrap_or(0) as f64
    }

    /// vLLM's `max_concurrent_requests`: most requests in any one second.
    pub fn peak_requests(&self) -> u64 {
        self.requests.iter().copied().max().unwrap_or(0)
    }
}

/// First send and last token of the successes.
fn span(samples: &Samples) -> Option<(f64, f64)> {
    let spans = successes(samples).map(|sample| (sample.sent, sample.sent + sample.latency));
    spans.reduce(|(start, end), (sent, last)| (start.min(sent), end.max(last)))
}

fn each_event(sample: &Sample, mut see: impl FnMut(f64)) {
    let mut time = sample.sent + sample.ttft;
    see(time);
    for gap in &sample.itl {
        time += gap;
        see(time);
    }
}

/// Positions of the moving second in a run.
const MAX_STEPS: f64 = 1e7;

/// Most output tokens in any second, wherever it starts; each event weighs its share of the request's output length.
/// The second moves by milliseconds, in long runs by more.
pub fn peak_tokens(samples: &Samples) -> f64 {
    let Some((start, end)) = span(samples) else { return 0.0 };
    let fits = |steps: &usize| (end - start) * *steps as f64 <= MAX_STEPS;
    let steps: usize = [1000, 100, 10].into_iter().find(fits).unwrap_or(1);
    let mut tokens = vec![0.0_f32; ((end - start) * steps as f64) as usize + 1];
    let last = tokens.len() - 1;
    for sample in successes(samples) {
        let weight = sample.output_len as f64 / sample.events() as f64;
        each_event(&sample, |time| tokens[(((time - start) * steps as f64) as usize).min(last)] += weight as f32);
    }
    let (mut window, mut peak) = (0.0_f64, 0.0_f64);
    for at in 0..tokens.len() {
        window += f64::from(tokens[at]) - at.checked_sub(steps).map_or(0.0, |left| f64::from(tokens[left]));
        peak = peak.max(window);
    }
    peak
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
    /// The changes of at most `max` spans.
    pub(crate) fn of(max: usize, spans: impl Iterator<Item = (f64, f64)>) -> Self {
        let (mut starts, mut ends) = (Vec::with_capacity(max), Vec::with_capacity(max));
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
        assert_eq!((buckets.peak_events(), buckets.peak_requests()), (3.0, 2));
        assert_eq!(peak_tokens(&samples), 12.0, "from 0.5 s on: all events of both");
    }

    #[test]
    fn the_busiest_second_starts_anywhere() {
        // A token every 10 ms from 0.5 s to 1.5 s: 50 in either whole second, 100 between them.
        let burst = Sample { output_len: 100, ..sample(0.0, 0.5005, &[0.01; 99], 1.4905) };
        let samples = [burst, sample(0.0, 0.1, &[], 4.0)].into();
        assert_eq!((PerSecond::of(&samples).peak_events(), peak_tokens(&samples)), (51.0, 100.0));
        assert_eq!(peak_tokens(&Samples::default()), 0.0);
    }

    #[test]
    fn exact_peak_does_not_count_requests_that_follow_each_other() {
        let samples = [sample(0.0, 0.1, &[], 0.25), sample(0.25, 0.1, &[], 0.25), sample(0.3, 0.1, &[], 0.1)].into();
        assert_eq!(exact_peak(&samples), 2);
        assert_eq!(PerSecond::of(&samples).peak_requests(), 3);
        assert_eq!(exact_peak(&Samples::default()), 0);
    }
}
