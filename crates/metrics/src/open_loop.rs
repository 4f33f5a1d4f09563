//! tacho's own metrics, separate from vLLM's: latencies from the scheduled send time, exact peaks, outcomes, and how
//! well the client kept its schedule.

use std::collections::BTreeMap;

use crate::concurrency::{exact_peak, peak_tokens};
use crate::latency::{collect, collect_some, successes};
use crate::{
    Acceptance, Fluidity, OutputStatistics, Sample, Samples, ScoreStatistics, Setup, Statistics, Task, TokenSource,
};

/// Metrics that vLLM does not report, or reports in a misleading way.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenLoopMetrics {
    /// Requests sent.
    pub requests: u64,
    /// Number of requests by outcome; `complete` first, then the failures by name.
    pub outcomes: Vec<(&'static str, u64)>,
    /// From the scheduled time to the first token event; `None` for pooling.
    pub ttft_from_schedule: Option<Statistics>,
    /// From the scheduled time to the end of the response.
    pub e2el_from_schedule: Statistics,
    /// From sent to the first token with content; only where that is not the first event of each request.
    pub ttft_first_content: Option<Statistics>,
    /// From sent to the first token after the reasoning; only where there was reasoning.
    pub ttft_first_answer: Option<Statistics>,
    /// From the start of the audio input to the first text; only where audio is sent as it is recorded.
    pub ttft_from_audio: Option<Statistics>,
    /// From the end of the audio input to the complete transcript; only where audio is sent as it is recorded.
    pub finalization_latency: Option<Statistics>,
    /// Time between tokens where events brought none or several, each gap divided among the tokens that ended it; and
    /// the source of the token counts.
    pub itl_per_token: Option<(Statistics, TokenSource)>,
    /// Reasoning tokens and other generated tokens; `None` where neither the server nor its events report them.
    pub reasoning_tokens: Option<(u64, u64)>,
    /// Requests that were retried, and the number of retries.
    pub retried: (u64, u64),
    /// From dispatch, before the wait for a slot, to the first token event; `None` for pooling.
    pub ttft_including_client_queue: Option<Statistics>,
    /// From the scheduled time to dispatch, of all requests: the client's own delay.
    pub dispatch_lateness: Statistics,
    /// Time spent connecting, of the requests that had to.
    pub connect: Statistics,
    /// Requests within their limits per second, timed from the schedule; `None` without limits.
    pub goodput_from_schedule: Option<f64>,
    /// End-to-end latency per output token; `None` for pooling.
    pub ntpot: Option<Statistics>,
    /// Fluidity; `None` without goodput limits on TTFT and TPOT.
    pub fluidity: Option<Fluidity>,
    /// Speculative decoding; `None` where the server does not report it per request.
    pub acceptance: Option<Acceptance>,
    /// Outputs compared with their references; `None` without a check.
    pub outputs: Option<OutputStatistics>,
    /// Scores of the graders.
    pub scores: Vec<ScoreStatistics>,
    /// Requests per second as scheduled and as sent; `None` when all were due at once.
    pub rates: Option<Rates>,
    /// Peak number of requests in flight.
    pub peak_concurrency: u64,
    /// Most tokens in any second, wherever it starts; each event weighted by its tokens.
    pub peak_output_tokens_per_s: f64,
    /// Fraction of token events whose bytes came together with those of a later event.
    pub coalesced_fraction: f64,
    /// Successes whose output length the server did not report.
    pub unreported_lengths: u64,
}

/// Scheduled and actual request rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Requests per second as scheduled.
    pub planned: f64,
    /// Requests per second as dispatched, before any wait for a slot.
    pub dispatched: f64,
    /// Requests per second as sent.
    pub delivered: f64,
}

const LATENESS_PERCENTILES: [f64; 2] = [50.0, 99.0];

impl OpenLoopMetrics {
    /// Fraction of coalesced events above which times between tokens mean nothing.
    pub const UNTIMED: f64 = 0.5;

    /// Returns whether the times between tokens are unknown: tokens arrived together, or responses were not streamed.
    pub fn is_untimed(&self, gaps: usize) -> bool {
        gaps == 0 || self.coalesced_fraction > Self::UNTIMED
    }

    /// Computes the metrics of a run that took `duration` seconds.
    pub fn of(setup: &Setup, samples: &Samples, duration: f64) -> Self {
        let percentiles = setup.metric_percentiles.as_slice();
        let statistics = |of: fn(&Sample) -> f64| Statistics::of(collect(samples, of), percentiles);
        let tokens = |of: fn(&Sample) -> f64| (setup.task == Task::Generation).then(|| statistics(of));
        OpenLoopMetrics {
            requests: samples.len() as u64,
            outcomes: outcomes(samples),
            ttft_from_schedule: tokens(|sample| sample.ttft + since_schedule(sample)),
            e2el_from_schedule: statistics(|sample| sample.latency + since_schedule(sample)),
            ttft_first_content: first_content(samples, percentiles),
            ttft_first_answer: first_answer(samples, percentiles),
            ttft_from_audio: some(samples, percentiles, Sample::ttft_from_audio),
            finalization_latency: some(samples, percentiles, Sample::finalization_latency),
            itl_per_token: per_token(samples, percentiles),
            reasoning_tokens: reasoning_tokens(samples),
            retried: retried(samples),
            ttft_including_client_queue: tokens(|sample| sample.ttft + sample.queue_time()),
            dispatch_lateness: Statistics::of(
                samples.iter().map(|sample| sample.dispatched - sample.scheduled).collect(),
                &LATENESS_PERCENTILES,
            ),
            connect: Statistics::of(
                samples.iter().map(|sample| sample.connect).filter(|&connect| connect > 0.0).collect(),
                percentiles,
            ),
            goodput_from_schedule: setup
                .goodput(samples, duration, since_schedule)
                .filter(|_| setup.task == Task::Generation),
            ntpot: (setup.task == Task::Generation)
                .then(|| Statistics::of(collect_some(samples, per_output_token), percentiles)),
            fluidity: Fluidity::of(setup, samples, duration).filter(|_| setup.task == Task::Generation),
            acceptance: Acceptance::of(samples),
            outputs: OutputStatistics::of(samples),
            scores: ScoreStatistics::all(samples),
            rates: setup.is_paced().then(|| rates(samples)).flatten(),
            peak_concurrency: exact_peak(samples),
            peak_output_tokens_per_s: peak_tokens(samples),
            coalesced_fraction: coalesced_fraction(samples),
            unreported_lengths: successes(samples).filter(|sample| sample.output_tokens.is_none()).count() as u64,
        }
    }
}

/// `None` for a response without tokens.
fn per_output_token(sample: &Sample) -> Option<f64> {
    (sample.output_len > 0).then(|| sample.latency / sample.output_len as f64)
}

fn since_schedule(sample: &Sample) -> f64 {
    sample.sent - sample.scheduled
}

fn outcomes(samples: &Samples) -> Vec<(&'static str, u64)> {
    let mut failures: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut complete = 0;
    for sample in samples {
        match sample.failure {
            Some(failure) => *failures.entry(failure.name()).or_default() += 1,
            None => complete += 1,
        }
    }
    std::iter::once(("complete", complete)).chain(failures).collect()
}

fn first_content(samples: &Samples, percentiles: &[f64]) -> Option<Statistics> {
    let differs = successes(samples).any(|sample| sample.first_content.is_some_and(|first| first != sample.ttft));
    differs.then(|| Statistics::of(collect_some(samples, |sample| sample.first_content), percentiles))
}

fn first_answer(samples: &Samples, percentiles: &[f64]) -> Option<Statistics> {
    let differs = successes(samples)
        .any(|sample| sample.first_answer.is_some_and(|_| sample.first_answer != sample.first_content));
    differs.then(|| Statistics::of(collect_some(samples, |sample| sample.first_answer), percentiles))
}

/// Statistics of a value, if any success has it.
fn some(samples: &Samples, percentiles: &[f64], of: fn(&Sample) -> Option<f64>) -> Option<Statistics> {
    let values = collect_some(samples, of);
    (!values.is_empty()).then(|| Statistics::of(values, percentiles))
}

/// Reasoning tokens and other tokens of the responses whose reasoning is known.
fn reasoning_tokens(samples: &Samples) -> Option<(u64, u64)> {
    let counts =
        |sample: &Sample| sample.reasoning_tokens.map(|tokens| (tokens, sample.output_len.saturating_sub(tokens)));
    successes(samples).filter_map(|sample| counts(&sample)).reduce(|(a, b), (c, d)| (a + c, b + d))
}

/// Requests whose events brought one token each contribute their plain gaps.
fn per_token(samples: &Samples, percentiles: &[f64]) -> Option<(Statistics, TokenSource)> {
    let source = successes(samples).filter_map(|sample| sample.token_gaps().1).max()?;
    Some((Statistics::of_all(|| successes(samples).flat_map(|sample| sample.token_gaps().0), percentiles), source))
}

fn retried(samples: &Samples) -> (u64, u64) {
    let retries = samples.iter().map(|sample| u64::from(sample.retries)).filter(|&retries| retries > 0);
    retries.fold((0, 0), |(requests, total), retries| (requests + 1, total + retries))
}

/// Rates over the span from the first request to the last; `None` for a single request.
fn rates(samples: &Samples) -> Option<Rates> {
    let mut spans = [(f64::INFINITY, f64::NEG_INFINITY); 3];
    for sample in samples {
        for ((first, last), time) in spans.iter_mut().zip([sample.scheduled, sample.dispatched, sample.sent]) {
            (*first, *last) = (first.min(time), last.max(time));
        }
    }
    let [planned, dispatched, delivered] =
        spans.map(|(first, last)| (last > first).then(|| (samples.len() - 1) as f64 / (last - first)));
    Some(Rates { planned: planned?, dispatched: dispatched?, delivered: delivered? })
}

fn coalesced_fraction(samples: &Samples) -> f64 {
    let counts = successes(samples).map(|sample| (sample.events(), u64::from(sample.coalesced)));
    let (events, coalesced) = counts.fold((0, 0), |sums, counts| (sums.0 + counts.0, sums.1 + counts.1));
    if events == 0 { 0.0 } else { coalesced as f64 / events as f64 }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use tacho_core::FailureKind;

    fn sample(scheduled: f64, dispatched: f64, sent: f64, latency: f64) -> Sample {
        Sample { scheduled, dispatched, sent, latency, ttft: latency / 2.0, done: sent + latency, ..Sample::default() }
    }

    #[test]
    fn latencies_from_schedule_include_every_delay_of_the_client() {
        let samples = [sample(0.0, 0.25, 0.75, 1.0)].into();
        let open_loop = OpenLoopMetrics::of(&Setup::example(), &samples, 2.0);
        assert_eq!(open_loop.e2el_from_schedule.mean_ms, 1750.0);
        assert_eq!(open_loop.ttft_from_schedule.unwrap().mean_ms, 1250.0);
        assert_eq!(open_loop.ttft_including_client_queue.unwrap().mean_ms, 1000.0);
        assert_eq!(open_loop.dispatch_lateness.max_ms, 250.0);
    }

    #[test]
    fn rates_compare_scheduled_and_sent() {
        let one = || Samples::from([sample(0.0, 0.0, 0.0, 0.5)]);
        let more = [sample(0.5, 0.5, 1.0, 0.5), sample(1.0, 1.0, 2.0, 0.5)];
        let samples = one().iter().map(Cow::into_owned).chain(more).collect();
        let paced = Setup { request_rate: 2.0, ..Setup::example() };
        assert_eq!(
            OpenLoopMetrics::of(&paced, &samples, 2.5).rates,
            Some(Rates { planned: 2.0, dispatched: 2.0, delivered: 1.0 })
        );
        assert_eq!(OpenLoopMetrics::of(&paced, &one(), 2.5).rates, None);
        assert_eq!(OpenLoopMetrics::of(&Setup::example(), &samples, 2.5).rates, None);
    }

    #[test]
    fn first_content_is_reported_only_where_it_differs() {
        let role_first = Sample { first_content: Some(0.75), ..sample(0.0, 0.0, 0.0, 1.0) };
        let same = Sample { first_content: Some(0.5), ..sample(0.0, 0.0, 0.0, 1.0) };
        let open_loop = |samples: &Samples| OpenLoopMetrics::of(&Setup::example(), samples, 1.0).ttft_first_content;
        assert_eq!(open_loop(&[same.clone()].into()), None);
        assert_eq!(open_loop(&[role_first, same].into()).unwrap().mean_ms, 625.0);
    }

    #[test]
    fn outcomes_are_counted_by_kind() {
        let failed = |kind| Sample { failure: Some(kind), ..Sample::default() };
        let samples = [
            failed(FailureKind::Http(500)),
            Sample::default(),
            failed(FailureKind::TimedOut),
            failed(FailureKind::Http(404)),
        ]
        .into();
        let open_loop = OpenLoopMetrics::of(&Setup::example(), &samples, 1.0);
        assert_eq!(open_loop.outcomes, [("complete", 1), ("http_error", 2), ("timed_out", 1)]);
        assert_eq!(open_loop.requests, 4);
    }

    #[test]
    fn shares_of_tokens_and_events_are_those_worked_out_by_hand() {
        let of = |output_len| per_output_token(&Sample { latency: 2.0, output_len, ..Sample::default() });
        assert_eq!([of(0), of(1), of(4)], [None, Some(2.0), Some(0.5)]);
        let blurred = Sample { itl: vec![0.1; 3].into(), coalesced: 1, ..Sample::default() };
        assert_eq!(coalesced_fraction(&[blurred.clone(), Sample { coalesced: 0, ..blurred }].into()), 0.125);
        assert_eq!(coalesced_fraction(&Samples::default()), 0.0);
    }
}
