//! Warnings about a result, with the numbers behind them.

use tacho_core::FailureKind;

use crate::latency::{collect, successes};
use crate::{Fluidity, Media, OpenLoopMetrics, Sample, Samples, Setup, Statistics, Steady, Task, Trust, TrustVerdict};

/// A reason to doubt a result.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the message says it")]
pub enum Caveat {
    /// The run was stopped before its end.
    Interrupted { finished: u64, requested: i64 },
    /// The run was resumed after a break. The break is cut out of all times. `answered` counts responses since then.
    Resumed { segments: u64, gap_s: f64, resent: u64, answered: u64 },
    /// A stop rule ended the run before its workload did.
    Ended { by: EndedBy, cut_off: u64 },
    /// The metric of `--until` did not reach the requested precision.
    Imprecise { metric: String, wanted: f64, reached: Option<f64> },
    /// Some requests failed.
    RequestsFailed { failed: u64, total: u64, first: String },
    /// The server did not report how many tokens it generated.
    TokensEstimated { responses: u64, total: u64, counted: bool },
    /// Generated audio whose duration is unknown.
    AudioUndecoded { responses: u64, total: u64 },
    /// The server and the tokenizer count different numbers of prompt tokens.
    TokenizerMismatch { prompts: u64, ours: u64, theirs: u64 },
    /// Outputs are longer than the requests ask for.
    OutputsLonger { responses: u64, total: u64, got: u64, asked: u64 },
    /// The server's metrics are not those of one server.
    MetricsMixed { counter: String, from: f64, to: f64 },
    /// Requests were sent more slowly than scheduled.
    RateMissed { planned: f64, delivered: f64, cap: Option<u64> },
    /// A percentile that needs more samples than there are.
    FewSamples { percentile: f64, samples: u64, needed: u64 },
    /// Several token events arrived in one read.
    EventsCoalesced { share: f64 },
    /// The first event has no content, and the first content came later.
    ContentLater { first_ms: f64, content_ms: f64 },
    /// The server reported impossible token counts.
    ImpossibleUsage { responses: u64, total: u64 },
    /// Kernel timestamps contradict this process's clock.
    TimestampAnomaly { reads: u64 },
    /// The log of the run is incomplete.
    LogIncomplete { reason: String },
    /// The command of `--on-row-command` did not get all rows.
    RowCommand { missed: u64, rows: u64, problem: String },
    /// The server's prefix cache held prompts of the run before it began.
    WarmCache { observed: f64, expected: f64 },
    /// Latency kept changing after the warm-up.
    Drift { change: f64 },
    /// Latencies were too strongly autocorrelated to bound them from above.
    Autocorrelated { metric: String, effective: f64 },
    /// The server was close to its capacity, and the run too short to bound its latencies from above.
    NearSaturation { slowdown: f64, relaxations: f64 },
    /// Responses that count as goodput stalled: their means hide it.
    GoodputHidesStalls { stalled: u64, good: u64 },
    /// Speculative decoding was measured on random tokens.
    AcceptanceOnRandomText,
    /// All requests were sent at once: one burst is one observation.
    OneBurst,
    /// Arrivals exceeded completions.
    QueueUnstable { arrived: usize, ended: usize },
    /// The client did not send what was due, so that a growing backlog says nothing about the server.
    ClientAway { requests: usize, seconds: f64 },
    /// A rank was lost.
    RankLost { rank: u64, machine: String, reason: String, missing: u64 },
    /// A replica failed more requests than the others, or was removed.
    ReplicaUnhealthy { replica: String, failed: u64, total: u64, since: f64, removed: bool },
    /// A replica was far slower than the others.
    ReplicaSlow { replica: String, median_ms: f64, others_ms: f64 },
    /// The client distorted what it measured.
    ClientUnreliable { verdict: String },
}

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

    /// Returns whether planned requests are missing or were sent at other times. The end of a requested duration is
    /// planned.
    pub fn leaves_out_requests(&self) -> bool {
        match self {
            Caveat::Ended { by, .. } => *by != EndedBy::Duration,
            other => matches!(other, Caveat::Interrupted { .. } | Caveat::Resumed { .. } | Caveat::RankLost { .. }),
        }
    }

    /// Its code in result files.
    pub fn kind(&self) -> &'static str {
        match self {
            Caveat::Interrupted { .. } => "interrupted",
            Caveat::Resumed { .. } => "resumed",
            Caveat::Ended { by, .. } => by.name(),
            Caveat::Imprecise { .. } => "imprecise",
            Caveat::RequestsFailed { .. } => "requests_failed",
            Caveat::TokensEstimated { .. } => "tokens_estimated",
            Caveat::AudioUndecoded { .. } => "audio_undecoded",
            Caveat::TokenizerMismatch { .. } => "tokenizer_mismatch",
            Caveat::OutputsLonger { .. } => "outputs_longer",
            Caveat::MetricsMixed { .. } => "metrics_mixed",
            Caveat::RateMissed { .. } => "rate_missed",
            Caveat::FewSamples { .. } => "few_samples",
            Caveat::EventsCoalesced { .. } => "events_coalesced",
            Caveat::ContentLater { .. } => "content_later",
            Caveat::ImpossibleUsage { .. } => "impossible_usage",
            Caveat::TimestampAnomaly { .. } => "timestamp_anomaly",
            Caveat::LogIncomplete { .. } => "log_incomplete",
            Caveat::RowCommand { .. } => "row_command",
            Caveat::WarmCache { .. } => "warm_cache",
            Caveat::Drift { .. } => "drift",
            Caveat::Autocorrelated { .. } => "autocorrelated",
            Caveat::NearSaturation { .. } => "near_saturation",
            Caveat::GoodputHidesStalls { .. } => "goodput_hides_stalls",
            Caveat::AcceptanceOnRandomText => "acceptance_on_random_text",
            Caveat::OneBurst => "one_burst",
            Caveat::QueueUnstable { .. } => "queue_unstable",
            Caveat::ClientAway { .. } => "client_away",
            Caveat::RankLost { .. } => "rank_lost",
            Caveat::ReplicaUnhealthy { .. } => "replica_unhealthy",
            Caveat::ReplicaSlow { .. } => "replica_slow",
            Caveat::ClientUnreliable { .. } => "client_unreliable",
        }
    }

    /// The warning as one line.
    pub fn text(&self) -> String {
        match self {
            Caveat::Resumed { segments, gap_s, resent, answered } => {
                // A killed run left no record of its requests in flight.
                let again = match resent {
                    0 => "requests in flight when it began were sent again".to_owned(),
                    known => format!("{known} requests were sent again"),
                };
                let unanswered = if *answered == 0 { "; none completed" } else { "" };
                format!(
                    "the run has {segments} parts: the last break took {gap_s:.0} s, which no time includes, and \
                     {again}{unanswered}"
                )
            }
            Caveat::Ended { by, cut_off } => {
                let left = if *cut_off == 0 {
                    String::new()
                } else {
                    format!("; {cut_off} requests could not finish in the time left to them and are not counted")
                };
                format!("{}{left}", by.text())
            }
            Caveat::Imprecise { metric, wanted, reached } => {
                let known = match reached {
                    Some(reached) => format!("known to {:.1}%", reached * 100.0),
                    None => "not known to any precision".to_owned(),
                };
                let wanted = wanted * 100.0;
                format!("{metric} is {known}, not to the requested {wanted}%: raise --duration")
            }
            Caveat::Interrupted { finished, requested } => {
                format!("the run was interrupted: {finished} of {requested} requests are in this report")
            }
            Caveat::RequestsFailed { failed, total, first } => {
                let reason = if first.is_empty() { "no reason given" } else { first };
                format!("{failed} of {total} requests failed, the first with: {reason}")
            }
            Caveat::WarmCache { observed, expected } => format!(
                "the prefix cache was warm before the run: {:.1}% of the prompt tokens were found in it, of which the \
                 run's own prompts account for {:.1}% at most; --cache-salt random or --reset-prefix-cache rules it out",
                observed * 100.0,
                expected * 100.0
            ),
            Caveat::TokensEstimated { responses, total, counted } => {
                let instead = if *counted { "the tokenizer counted instead" } else { "each counts as one token" };
                format!("the server reported no token count for {responses} of {total} responses; {instead}")
            }
            Caveat::AudioUndecoded { responses, total } => format!(
                "the audio of {responses} of {total} responses is neither WAV nor PCM: its duration, real-time factor and \
                 underruns are not measured; request a \"response_format\" of wav or pcm"
            ),
            Caveat::TokenizerMismatch { prompts, ours, theirs } => {
                let ratio = *theirs as f64 / (*ours).max(1) as f64;
                format!(
                    "the server counts {theirs} tokens in {prompts} of the prompts where the tokenizer counts {ours}, \
                     {ratio:.2} times as many: prompt lengths are not as requested; check --tokenizer, and whether the server counts tokens"
                )
            }
            Caveat::OutputsLonger { responses, total, got, asked } => format!(
                "{responses} of {total} outputs are longer than asked for, such as {got} tokens for {asked}: the server ignores the \
                 field with the limit; --extra-body '{{\"max_tokens\": {asked}}}' sends an older one"
            ),
            Caveat::MetricsMixed { counter, from, to } => format!(
                "{counter} of /metrics fell from {from} to {to} during the run: the server restarted, or a load balancer answers \
                 for several. The server's metrics are left out; pass each replica as --base-url to get them"
            ),
            Caveat::RateMissed { planned, delivered, cap } => {
                let why = cap.map_or_else(String::new, |cap| format!(": --max-concurrency {cap} held the others back"));
                format!("the schedule wanted {planned:.2} requests/s, {delivered:.2} were sent{why}")
            }
            Caveat::FewSamples { percentile, samples, needed } => {
                format!("{samples} samples are too few for a p{percentile}: send at least {needed} requests")
            }
            Caveat::ContentLater { first_ms, content_ms } => format!(
                "TTFT is that of an event without content, such as a role: its median is {first_ms:.0} ms, that of the first \
                 content {content_ms:.0} ms"
            ),
            Caveat::EventsCoalesced { share } if *share > OpenLoopMetrics::UNTIMED => format!(
                "{:.0}% of token events arrived in bundles: TPOT and ITL are not measured; does a proxy buffer or compress the \
                 stream?",
                share * 100.0
            ),
            Caveat::EventsCoalesced { share } => {
                format!("{:.0}% of token events arrived in bundles: their gaps are bounds", share * 100.0)
            }
            Caveat::ImpossibleUsage { responses, total } => {
                format!(
                    "the server reported impossible token counts in {responses} of {total} responses; they are ignored"
                )
            }
            Caveat::RankLost { rank, machine, reason, missing } => {
                let share = match missing {
                    0 => "all rows that it reported are there".to_owned(),
                    1 => "1 request of its share is missing".to_owned(),
                    _ => format!("{missing} requests of its share are missing"),
                };
                format!("rank {rank} on {machine} was lost ({reason}): {share}")
            }
            Caveat::TimestampAnomaly { reads } => format!(
                "the kernel's stamps of {reads} reads contradict this machine's clock (was it set or faked?); their own \
                 times are taken instead"
            ),
            Caveat::LogIncomplete { reason } => format!("the log of this run is not whole: {reason}"),
            Caveat::RowCommand { missed: 0, problem, .. } => format!("--on-row-command {problem}"),
            Caveat::RowCommand { missed, rows, problem } => {
                format!("--on-row-command missed {missed} of {rows} rows: it {problem}")
            }
            Caveat::Drift { change } => format!(
                "no steady state: the mean latency changed by {:+.0}% from the first half of the run to the second, so that a \
                 longer run gives other numbers",
                change * 100.0
            ),
            Caveat::Autocorrelated { metric, effective } => format!(
                "latencies are strongly autocorrelated: {metric} has an effective sample size of {effective:.0}, too few for \
                 upper confidence bounds; run longer or repeat with --num-runs"
            ),
            Caveat::NearSaturation { slowdown, relaxations } => {
                let slower =
                    if slowdown.is_finite() { format!("{slowdown:.1} times") } else { "many times".to_owned() };
                format!(
                    "near saturation: the mean latency is {slower} that of an idle server, and the run lasts {relaxations:.0} \
                     relaxation times of the queue where upper confidence bounds take 40; run longer or repeat with --num-runs"
                )
            }
            Caveat::GoodputHidesStalls { stalled, good } => format!(
                "goodput hides stalls: in {stalled} of {good} requests that meet the SLO, more than a tenth of the tokens missed \
                 their deadlines; see fluid_goodput"
            ),
            Caveat::AcceptanceOnRandomText => "speculative decoding was measured on random tokens: the acceptance, and every \
                 latency that depends on it, says nothing about real text; use --dataset-name spec_bench, sharegpt or custom"
                .to_owned(),
            Caveat::OneBurst => {
                "no confidence intervals: all requests were sent at once, and one burst is one observation; \
                                 use --request-rate or repeat with --num-runs"
                    .to_owned()
            }
            Caveat::QueueUnstable { arrived, ended } => format!(
                "no steady state: in the second half of the schedule {arrived} requests arrived and {ended} completed; latencies \
                 grow for as long as the run goes on"
            ),
            Caveat::ClientAway { requests, seconds } => format!(
                "the client was away for {seconds:.2} s in the second half of the schedule and sent {requests} requests late: \
                 whether the server kept up is unknown"
            ),
            Caveat::ReplicaUnhealthy { replica, failed, total, since, removed } => {
                let removed = if *removed { "; it got no more requests after that" } else { "" };
                format!("replica {replica} failed {failed} of {total} requests from {since:.1} s on{removed}")
            }
            Caveat::ReplicaSlow { replica, median_ms, others_ms } => format!(
                "replica {replica} is slow: its median latency is {median_ms:.0} ms, {:.1} times that of the others",
                median_ms / others_ms
            ),
            Caveat::ClientUnreliable { verdict } => verdict.clone(),
        }
    }
}

/// The rule that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// `--duration`.
    Duration,
    /// `--until`.
    Precision,
    /// `--stop-on-failures`.
    Failures,
    /// `--stop-on-overload`.
    Overload,
    /// `--on-lost-rank stop`.
    LostRank,
}

impl EndedBy {
    /// All of them.
    pub const ALL: [EndedBy; 5] =
        [EndedBy::Duration, EndedBy::Precision, EndedBy::Failures, EndedBy::Overload, EndedBy::LostRank];

    /// The name in result files.
    pub const fn name(self) -> &'static str {
        match self {
            EndedBy::Duration => "ended_by_duration",
            EndedBy::Precision => "ended_by_precision",
            EndedBy::Failures => "ended_by_failures",
            EndedBy::Overload => "ended_by_overload",
            EndedBy::LostRank => "ended_by_lost_rank",
        }
    }

    fn text(self) -> &'static str {
        match self {
            EndedBy::Duration => "the time of the run was over",
            EndedBy::LostRank => "the run was ended because a rank was lost",
            EndedBy::Precision => "the run ended when its metric was known precisely enough",
            EndedBy::Failures => "the run was ended because too many requests failed",
            EndedBy::Overload => {
                "the run was ended because the server did not keep up: its backlog grew. The latencies only reflect how \
                 long the run was"
            }
        }
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
        let said = caveats(&setup, &good(999), |_| ());
        assert_eq!(said, ["999 samples are too few for a p99.9: send at least 1000 requests"]);
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
    }

    #[test]
    fn missing_token_counts_are_reported() {
        let mut samples = good(100);
        samples[0].output_tokens = None;
        let said = caveats(&Setup::example(), &samples, |_| ());
        assert_eq!(said, ["the server reported no token count for 1 of 100 responses; the tokenizer counted instead"]);
        let pooling = Setup { task: Task::Pooling, ..Setup::example() };
        assert!(caveats(&pooling, &samples, |_| ()).is_empty());
    }

    #[test]
    fn other_tokenizers_are_reported_with_the_ratio() {
        let said = Caveat::TokenizerMismatch { prompts: 3, ours: 100, theirs: 512 }.text();
        assert!(
            said.starts_with("the server counts 512 tokens in 3 of the prompts") && said.contains("5.12"),
            "{said}"
        );
    }

    #[test]
    fn slow_and_coalesced_runs_are_reported() {
        let said = caveats(&Setup::example(), &good(100), |open_loop| {
            open_loop.rates = Some(Rates { planned: 20.0, dispatched: 20.0, delivered: 18.9 });
            open_loop.coalesced_fraction = 0.25;
        });
        assert_eq!(
            said,
            [
                "the schedule wanted 20.00 requests/s, 18.90 were sent",
                "25% of token events arrived in bundles: their gaps are bounds",
            ]
        );
    }

    #[test]
    fn a_first_event_without_content_is_reported_with_both_times() {
        let at = |content: f64| vec![Sample { ttft: 0.037, first_content: Some(content), ..good(1).remove(0) }; 100];
        let said = caveats(&Setup::example(), &at(1.813), |_| ());
        let text = "TTFT is that of an event without content, such as a role: its median is 37 ms, that of the first content 1813 ms";
        assert_eq!(said, [text]);
        assert!(caveats(&Setup::example(), &at(0.038), |_| ()).is_empty());
    }

    #[test]
    fn a_compressed_stream_has_no_times_between_tokens() {
        let said = caveats(&Setup::example(), &good(100), |open_loop| open_loop.coalesced_fraction = 0.97);
        assert!(said[0].contains("TPOT and ITL are not measured") && said[0].contains("compress"), "{said:?}");
    }
}
