//! The rules by which the measurements of a run give warnings.

use tacho_core::FailureKind;

use super::Caveat;
use crate::latency::{collect, successes};
use crate::{Fluidity, Media, OpenLoopMetrics, Sample, Samples, Setup, Statistics, Steady, Task, Trust, TrustVerdict};

/// Least fraction of the planned rate that counts as delivered.
const MIN_DELIVERED: f64 = 0.95;
/// Fraction of coalesced events above which the result carries a warning.
const MAX_COALESCED: f64 = 0.05;

impl Caveat {
    /// All warnings that apply, the most serious first.
    pub fn all(setup: &Setup, samples: &Samples, open_loop: &OpenLoopMetrics, trust: Option<&Trust>) -> Vec<Caveat> {
        [
            interrupted(setup, samples),
            requests_failed(samples),
            tokens_estimated(setup, samples, open_loop),
            audio_undecoded(samples),
            swapped_outputs(open_loop),
            different_outputs(open_loop),
            client_unreliable(trust),
            rate_missed(setup, open_loop, trust),
            few_samples(setup, samples),
            hidden_stalls(open_loop),
            (setup.task == Task::Generation && open_loop.coalesced_fraction > MAX_COALESCED)
                .then_some(Caveat::EventsCoalesced { share: open_loop.coalesced_fraction }),
            content_later(samples, open_loop),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Warnings about the steady-state window. A growing backlog explains a drift and replaces it.
    pub fn of_steady(steady: Option<&Steady>) -> Vec<Caveat> {
        let Some(steady) = steady else { return Vec::new() };
        let backlog =
            steady.backlog.map(|backlog| Caveat::QueueUnstable { arrived: backlog.arrived, ended: backlog.ended });
        let away = steady.away.map(|away| Caveat::ClientAway { requests: away.requests, seconds: away.seconds });
        backlog.or(away).or_else(|| steady.drift.map(|change| Caveat::Drift { change })).into_iter().collect()
    }
}

fn interrupted(setup: &Setup, samples: &Samples) -> Option<Caveat> {
    let finished = || samples.iter().filter(|sample| sample.failure != Some(FailureKind::Aborted)).count() as u64;
    setup
        .interrupted
        .then(|| Caveat::Interrupted { finished: finished(), requested: setup.num_prompts.max(samples.len() as i64) })
}

fn requests_failed(samples: &Samples) -> Option<Caveat> {
    let mut failures = samples.iter().filter(|sample| sample.is_fault());
    let first = failures.next()?.error.lines().next().unwrap_or("").to_owned();
    Some(Caveat::RequestsFailed { failed: failures.count() as u64 + 1, total: samples.len() as u64, first })
}

fn tokens_estimated(setup: &Setup, samples: &Samples, open_loop: &OpenLoopMetrics) -> Option<Caveat> {
    (setup.task == Task::Generation && open_loop.unreported_lengths > 0).then(|| Caveat::TokensEstimated {
        responses: open_loop.unreported_lengths,
        total: successes(samples).count() as u64,
        counted: setup.has_tokenizer(),
    })
}

fn audio_undecoded(samples: &Samples) -> Option<Caveat> {
    let is_unknown = |sample: &Sample| sample.media == Some(Media::Audio(None));
    let responses = successes(samples).filter(|sample| is_unknown(sample)).count() as u64;
    (responses > 0).then(|| Caveat::AudioUndecoded { responses, total: successes(samples).count() as u64 })
}

fn swapped_outputs(open_loop: &OpenLoopMetrics) -> Option<Caveat> {
    let outputs = open_loop.outputs.as_ref().filter(|outputs| outputs.swapped > 0)?;
    Some(Caveat::OutputsSwapped { swapped: outputs.swapped, checked: outputs.differing.of })
}

fn different_outputs(open_loop: &OpenLoopMetrics) -> Option<Caveat> {
    let outputs = open_loop.outputs.as_ref().filter(|outputs| outputs.differing.count > 0.0)?;
    let (different, checked) = (outputs.differing.count as u64, outputs.differing.of);
    Some(Caveat::OutputsDiffer { different, checked, alone: outputs.alone.map(|alone| alone.value) })
}

fn client_unreliable(trust: Option<&Trust>) -> Option<Caveat> {
    let trust = trust.filter(|trust| !trust.is_ok())?;
    Some(Caveat::ClientUnreliable { verdict: trust.text() })
}

/// `None` where the client's verdict already reports it.
fn rate_missed(setup: &Setup, open_loop: &OpenLoopMetrics, trust: Option<&Trust>) -> Option<Caveat> {
    let rates = open_loop.rates.filter(|rates| rates.delivered < rates.planned * MIN_DELIVERED)?;
    let reported = trust.is_some_and(|trust| matches!(trust.verdict, TrustVerdict::RateMissed { .. }));
    let cap = setup.max_concurrency.filter(|_| rates.dispatched >= rates.planned * MIN_DELIVERED);
    (!reported).then_some(Caveat::RateMissed { planned: rates.planned, delivered: rates.delivered, cap })
}

/// Difference of the medians above which the first content counts as later than the first event.
const MIN_LATER: f64 = 1.05;

fn content_later(samples: &Samples, open_loop: &OpenLoopMetrics) -> Option<Caveat> {
    let content_ms = open_loop.ttft_first_content.as_ref()?.median_ms;
    let first_ms = Statistics::of(collect(samples, |sample| sample.ttft), &[]).median_ms;
    (content_ms > first_ms * MIN_LATER).then_some(Caveat::ContentLater { first_ms, content_ms })
}

/// Fraction of good requests above which stalls are worth a warning.
const MAX_STALLED: f64 = 0.05;

fn hidden_stalls(open_loop: &OpenLoopMetrics) -> Option<Caveat> {
    let Fluidity { good, stalled, .. } = open_loop.fluidity?;
    (stalled as f64 > good as f64 * MAX_STALLED).then_some(Caveat::GoodputHidesStalls { stalled, good })
}

/// The p-th percentile needs 100/(100-p) samples to be less than their maximum.
fn few_samples(setup: &Setup, samples: &Samples) -> Option<Caveat> {
    let percentile = setup.metric_percentiles.iter().copied().filter(|&p| p < 100.0).max_by(f64::total_cmp)?;
    let needed = (100.0 / (100.0 - percentile)).round() as u64;
    let samples = successes(samples).count() as u64;
    (samples > 0 && samples < needed).then_some(Caveat::FewSamples { percentile, samples, needed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rates, Sample};

    fn caveats(setup: &Setup, samples: &[Sample], change: impl FnOnce(&mut OpenLoopMetrics)) -> Vec<String> {
        let samples = samples.to_vec().into();
        let mut open_loop = OpenLoopMetrics::of(setup, &samples, 1.0);
        change(&mut open_loop);
        Caveat::all(setup, &samples, &open_loop, None).iter().map(Caveat::text).collect()
    }

    fn good(count: usize) -> Vec<Sample> {
        vec![Sample { output_tokens: Some(3), output_len: 3, ..Sample::default() }; count]
    }

    #[test]
    fn clean_run_has_none() {
        assert!(caveats(&Setup::example(), &good(100), |_| ()).is_empty());
    }

    #[test]
    fn few_samples_depend_on_the_highest_percentile() {
        let setup = Setup { metric_percentiles: vec![50.0, 99.9, 100.0], ..Setup::example() };
        let found = caveats(&setup, &good(999), |_| ());
        assert_eq!(found, ["999 samples are too few for a p99.9: send at least 1000 requests"]);
        assert!(caveats(&setup, &good(1000), |_| ()).is_empty());
    }

    #[test]
    fn failures_name_the_first_line_of_the_first_reason() {
        let mut samples = good(200);
        for at in [3, 7] {
            samples[at].failure = Some(FailureKind::Aborted);
            samples[at].error = format!("reason {at}\nmore");
        }
        let setup = Setup { interrupted: true, num_prompts: 300, ..Setup::example() };
        assert_eq!(
            caveats(&setup, &samples, |_| ()),
            [
                "the run was interrupted: 198 of 300 requests are in this report",
                "2 of 200 requests failed, the first with: reason 3",
            ]
        );
        // A run that only its duration ends has no number of requests.
        let setup = Setup { num_prompts: 200, ..setup };
        assert_eq!(caveats(&setup, &good(200), |_| ()), ["the run was interrupted after 200 requests"]);
    }

    #[test]
    fn missing_token_counts_are_reported() {
        let mut samples = good(100);
        samples[0].output_tokens = None;
        let found = caveats(&Setup::example(), &samples, |_| ());
        assert_eq!(found, ["the server reported no token count for 1 of 100 responses; the tokenizer counted instead"]);
        let pooling = Setup { task: Task::Pooling, ..Setup::example() };
        assert!(caveats(&pooling, &samples, |_| ()).is_empty());
    }

    #[test]
    fn other_tokenizers_are_reported_with_the_ratio() {
        let found = Caveat::TokenizerMismatch { prompts: 3, ours: 100, theirs: 512 }.text();
        assert!(
            found.starts_with("the server counts 512 tokens in 3 of the prompts") && found.contains("5.12"),
            "{found}"
        );
    }

    #[test]
    fn slow_and_coalesced_runs_are_reported() {
        let found = caveats(&Setup::example(), &good(100), |open_loop| {
            open_loop.rates = Some(Rates { planned: 20.0, dispatched: 20.0, delivered: 18.9 });
            open_loop.coalesced_fraction = 0.25;
        });
        assert_eq!(
            found,
            [
                "the schedule wanted 20.00 requests/s, 18.90 were sent",
                "25% of token events arrived in bundles: their gaps are bounds",
            ]
        );
    }

    #[test]
    fn a_first_event_without_content_is_reported_with_both_times() {
        let at = |content: f64| vec![Sample { ttft: 0.037, first_content: Some(content), ..good(1).remove(0) }; 100];
        let found = caveats(&Setup::example(), &at(1.813), |_| ());
        let text = "TTFT is that of an event without content, such as a role: its median is 37 ms, that of the first content 1813 ms";
        assert_eq!(found, [text]);
        assert!(caveats(&Setup::example(), &at(0.038), |_| ()).is_empty());
    }

    #[test]
    fn a_compressed_stream_has_no_times_between_tokens() {
        let found = caveats(&Setup::example(), &good(100), |open_loop| open_loop.coalesced_fraction = 0.97);
        assert!(found[0].contains("TPOT and ITL are not measured") && found[0].contains("compress"), "{found:?}");
    }
}
