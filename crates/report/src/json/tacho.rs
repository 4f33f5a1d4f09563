//! The `tacho` key of a result file: tacho's own metrics, separate from vLLM's.

use tacho_core::json::{Dict, Keyed, ListOf, Merged, Optional, Value};
use tacho_core::{StageSpan, view};
use tacho_metrics::sessions::SessionSummary;
use tacho_metrics::{Bound, MetricKind, MetricSettings, RankUse, Statistics, Steady, SteadyState, Trust};
use tacho_record::metric::{Part, TIMES, Times};
use tacho_record::{Provenance, RunRecord, StoredCaveat};

use super::metrics::{Latencies, Metrics, latency_fields, metric_fields, statistics_fields};
use super::outputs::{Outputs, Score};
use super::telemetry::{MachineSamples, machine_samples};
use super::{Detail, server::ServerSamples};

view! {
    /// tacho's own metrics, without the per-request lists.
    pub(super) struct TachoPart(r: &RunRecord, detail: Detail) {
        /// Version of this object.
        version: u64 = RunRecord::VERSION,
        /// Whether --strict-parity was set.
        strict_parity: bool = r.setup.strict_parity,
        /// Whether a signal ended the run.
        interrupted: bool = r.setup.interrupted,
        /// Start of the run, ISO 8601 in UTC.
        start: String = r.setup.started.clone(),
        /// Digest of what is sent and when: equal digests of one version mean equal requests at equal times.
        workload: Optional<String> = r.workload().map(str::to_owned),
        /// Where the result comes from.
        provenance: Origin = Origin::of(r),
        /// Requests that were sent.
        requests: u64 = r.open_loop.requests,
        /// Requests by outcome: complete, and each kind of failure.
        outcomes: Keyed<u64> = outcomes(r),
        /// Maximum requests in flight at one time.
        peak_concurrency: u64 = r.open_loop.peak_concurrency,
        /// Most output tokens in any second, wherever it starts; counted as tokens.
        peak_output_tokens_per_s: f64 = r.open_loop.peak_output_tokens_per_s,
        /// Goodput with latencies from the scheduled send time, req/s.
        goodput_from_schedule: Option<f64> = r.open_loop.goodput_from_schedule,
        /// Rate of the schedule, req/s; null without one.
        planned_request_rate: Option<f64> = r.open_loop.rates.map(|rates| rates.planned),
        /// Rate at which requests were sent, req/s.
        delivered_request_rate: Option<f64> = r.open_loop.rates.map(|rates| rates.delivered),
        /// Fraction of token events that arrived together with another.
        coalesced_fraction: f64 = r.open_loop.coalesced_fraction,
        /// Responses without a token count from the server.
        unreported_lengths: u64 = r.open_loop.unreported_lengths,
        /// Requests that were sent more than once.
        retried_requests: u64 = r.open_loop.retried.0,
        /// Additional attempts in total.
        retries: u64 = r.open_loop.retried.1,
        /// Where the token counts of itl_per_token come from.
        itl_per_token_source: Optional<String> =
            r.open_loop.itl_per_token.as_ref().map(|(_, source)| source.name().to_owned()),
        /// Output tokens of reasoning.
        reasoning_tokens: Optional<u64> = r.open_loop.reasoning_tokens.map(|(reasoning, _)| reasoning),
        /// Output tokens after reasoning.
        answer_tokens: Optional<u64> = r.open_loop.reasoning_tokens.map(|(_, answer)| answer),
        /// Probe requests that succeeded.
        probe_completed: Optional<u64> = r.measured.probe.map(|probe| probe.completed),
        /// Probe requests that failed.
        probe_failed: Optional<u64> = r.measured.probe.map(|probe| probe.failed),
        latencies: Merged<Latencies<false>> = latencies(r),
        metrics: Merged<Metrics<true>> = metric_fields(r, &[Part::Tacho]),
        /// Connections opened during the run.
        connections_opened: usize = r.open_loop.connect.count,
        /// Steady-state window (MSER-5) and its metrics; missing without one.
        steady_state: Optional<SteadyPart> = r.steady.as_ref().map(SteadyPart::of),
        /// Window in which the run was at full concurrency; null without one.
        full_concurrency: Optional<Option<Dict>> = full_concurrency(r, false),
        /// Confidence level of the intervals.
        confidence: f64 = tacho_metrics::interval::CONFIDENCE,
        /// Confidence interval of each metric: lower and upper bound, `null` where the run is too short to bound it.
        /// Empty for one burst; `caveats` has the reason.
        intervals: Keyed<[Option<f64>; 2]> = intervals(r),
        /// Whether the client kept up.
        client: Optional<Client> = r.trust.as_ref().map(Client::of),
        /// Warnings.
        caveats: Vec<StoredCaveat> = r.caveats.iter().map(StoredCaveat::from).collect(),
        /// Metrics by label and value (class, stage, replica, adapter), with vLLM's keys and intervals.
        groups: Optional<Value> = (!r.groups.is_empty()).then(|| groups(r).into()),
        /// Start of a run with stages, on the clock of the times per request, s.
        origin_s: Optional<f64> = (!r.setup.stages.is_empty()).then_some(r.measured.origin),
        /// Stages of the load.
        stages: Optional<ListOf<Stage>> = (!r.setup.stages.is_empty()).then(|| stages(r)),
        /// Ranks of a distributed run.
        ranks: Optional<Vec<RankUse>> = Some(r.measured.ranks.clone()).filter(|ranks| !ranks.is_empty()),
        /// Session metrics.
        sessions: Optional<SessionSummary> = r.sessions.clone(),
        /// Outputs compared with their references.
        outputs: Optional<Outputs> = r.open_loop.outputs.as_ref().map(|found| Outputs::of(found, r)),
        /// Scores of the outputs.
        scores: Optional<ListOf<Score>> =
            (!r.open_loop.scores.is_empty()).then(|| r.open_loop.scores.iter().map(Score::of).collect()),
        /// Samples of the server's /metrics.
        server_metrics: Optional<ServerSamples> =
            (!r.measured.server.is_empty()).then(|| ServerSamples::of(&r.measured.server, detail)),
        /// Samples of GPUs and machines.
        telemetry: Optional<MachineSamples> = machine_samples(r, detail),
    }
}

view! {
    /// The provenance with the settings of metrics.
    struct Origin(r: &RunRecord) {
        provenance: Merged<Provenance> = r.provenance.clone(),
        /// Tokenizer.
        tokenizer: Optional<String> = r.setup.tokenizer_id.clone(),
        settings: Merged<MetricSettings> = r.setup.metrics.clone(),
    }
}

view! {
    /// The steady-state window by MSER-5.
    struct SteadyPart(steady: &Steady) {
        /// Method that found the window.
        rule: String = tacho_metrics::steady::RULE.to_owned(),
        /// Whether the run reached a steady state.
        reached: bool = steady.reached,
        /// Start of the window, s.
        start_s: f64 = steady.start,
        /// End of the window, s.
        end_s: f64 = steady.end,
        /// Requests sent in the window.
        requests: usize = steady.requests,
        /// Completions in the window, req/s.
        request_throughput: f64 = steady.request_throughput,
        latencies: Merged<Latencies<false>> = steady_latencies(steady),
        /// Relative change of latency between the halves of the window.
        drift: Option<f64> = steady.drift,
        /// Whether the queue kept growing.
        queue_unstable: bool = steady.backlog.is_some(),
    }
}

view! {
    /// The client's self-assessment.
    struct Client(trust: &Trust) {
        /// Whether the verdict is ok.
        trustworthy: bool = trust.is_ok(),
        /// The verdict: one of the words under [client verdict](metrics.md#client-verdict).
        word: String = trust.verdict.word().to_owned(),
        /// The verdict, with its effect.
        verdict: String = trust.text(),
        /// The range in which each printed latency lies if a client without delays measures it, ms. Absent where
        /// unknown.
        bounds: Optional<Keyed<[Option<f64>; 2]>> = trust.bounds.as_ref().map(|all| all.iter().map(bound).collect()),
        /// Who takes receive timestamps: the kernel or the client.
        clock_source: String = trust.timestamps.name().to_owned(),
        /// Delay between scheduled and actual send, median, ms.
        p50_lateness_ms: Option<f64> = percentile(&trust.lateness, 50.0),
        /// The same, p99, ms.
        p99_lateness_ms: Option<f64> = percentile(&trust.lateness, 99.0),
        /// The same, maximum, ms.
        max_lateness_ms: Option<f64> = trust.lateness.as_ref().map(|lateness| lateness.max_ms),
        /// Delay between receive timestamp and processing, median, ms.
        p50_wake_lag_ms: Option<f64> = percentile(&trust.wake_lag, 50.0),
        /// The same, p99, ms.
        p99_wake_lag_ms: Option<f64> = percentile(&trust.wake_lag, 99.0),
        /// The same, maximum, ms.
        max_wake_lag_ms: Option<f64> = trust.wake_lag.as_ref().map(|lag| lag.max_ms),
        /// Fraction of events that were read together because the client was late.
        late_coalesced_fraction: f64 = trust.late_coalesced_fraction,
        /// Fraction of time that each worker was busy.
        busy: Vec<f64> = trust.busy.clone(),
        /// Connections in the pool.
        connections: u64 = trust.connections,
        /// Connections that could not be opened.
        connect_failures: u64 = trust.connect_failures,
        /// Kolmogorov-Smirnov distance between planned and actual gaps.
        arrival_distance: Option<f64> = trust.arrival_distance,
        /// Bound on the clock difference between ranks, ms.
        clock_bound_ms: Optional<f64> = trust.clock_bound_ms,
    }
}

view! {
    struct Stage(span: &StageSpan, recovery: Option<f64>) {
        span: Merged<StageSpan> = span.clone(),
        /// Time to recover after a stage that is heavier than the one before, s; 0 if it did not degrade, null if never
        /// or undefined.
        recovery_s: Option<f64> = recovery,
    }
}

fn stages(record: &RunRecord) -> Vec<Dict> {
    let times = record.recoveries.iter().copied().chain(std::iter::repeat(None));
    record.setup.stages.iter().zip(times).map(|(span, time)| Stage::of(span, time)).collect()
}

/// The window at full concurrency, where a flag requested it or not; the inner value is `None` if the run never
/// reached its concurrency limit.
pub(super) fn full_concurrency(record: &RunRecord, requested: bool) -> Option<Option<Dict>> {
    let state: &SteadyState = record.steady_state.as_ref().filter(|state| state.requested == requested)?;
    Some(state.window.as_ref().map(super::full_concurrency::json))
}

fn steady_latencies(steady: &Steady) -> Dict {
    let mut fields = Dict::new();
    statistics_fields(&mut fields, Times::of(MetricKind::Ttft), &steady.ttft);
    statistics_fields(&mut fields, Times::of(MetricKind::E2el), &steady.e2el);
    fields
}

/// The latencies that vLLM does not write: tacho's own, and those that vLLM measures but does not always write.
fn latencies(record: &RunRecord) -> Dict {
    let wanted = |times: &&Times| match times.name {
        "ttft" | "tpot" | "itl" => !record.setup.has_tokenizer(),
        "e2el" => false,
        _ => !times.is_audio(),
    };
    let mut fields = Dict::new();
    for (times, statistics) in TIMES.iter().filter(wanted).filter_map(|times| Some((times, (times.read)(record)?))) {
        statistics_fields(&mut fields, times, statistics);
        fields.set(format!("max_{}_ms", times.name), statistics.max_ms);
    }
    fields
}

view! {
    /// The metrics of a group of requests.
    struct GroupPart(r: &RunRecord) {
        vllm_metrics: Merged<Metrics<false>> =
            metric_fields(r, &[Part::Totals, Part::Peaks, Part::Audio, Part::Images]),
        vllm_latencies: Merged<Latencies<true>> = latency_fields(r),
        latencies: Merged<Latencies<false>> = latencies(r),
        metrics: Merged<Metrics<true>> = metric_fields(r, &[Part::Tacho]),
        outcomes: Keyed<u64> = outcomes(r),
        intervals: Keyed<[Option<f64>; 2]> = intervals(r),
        /// Scores of the outputs.
        scores: Optional<ListOf<Score>> =
            (!r.open_loop.scores.is_empty()).then(|| r.open_loop.scores.iter().map(Score::of).collect()),
    }
}

/// The groups by label and value, each with vLLM's keys.
fn groups(record: &RunRecord) -> Dict {
    let named = |key: &str| -> Dict {
        record.groups_by(key).map(|group| (group.name.clone(), GroupPart::of(&group.record).into())).collect()
    };
    record.group_keys().into_iter().map(|key| (key.to_owned(), named(key).into())).collect()
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

fn intervals(record: &RunRecord) -> Vec<(String, [Option<f64>; 2])> {
    let intervals = record.intervals.iter();
    intervals.map(|(key, interval)| (key.to_owned(), [interval.low, interval.high].map(finite))).collect()
}

fn outcomes(record: &RunRecord) -> Vec<(String, u64)> {
    record.open_loop.outcomes.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
}

fn bound(bound: &Bound) -> (String, [Option<f64>; 2]) {
    (bound.key(), [Some(bound.low_ms), finite(bound.high_ms)])
}

fn percentile(statistics: &Option<Statistics>, percent: f64) -> Option<f64> {
    statistics.as_ref()?.percentile_ms(percent)
}
