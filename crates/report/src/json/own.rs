//! The `tacho` key of a result file: tacho's own metrics, separate from vLLM's.

use tacho_core::StageSpan;
use tacho_core::json::{Codec, Dict, Flat, Json, Value};
use tacho_metrics::{Bound, Interval, MetricKind, Statistics, Steady, Trust};
use tacho_record::RunRecord;
use tacho_record::metric::{Part, TIMES, Times};

use super::columns::{self, Column};
use super::fields::Fields;
use super::{Detail, group_fields, metric_fields, statistics_fields};
use super::{server, telemetry};

/// The object under the key.
pub(super) fn fields(record: &RunRecord, detail: Detail) -> Fields {
    let mut fields = Fields::default();
    fields.set("version", RunRecord::VERSION);
    fields.set("strict_parity", record.setup.strict_parity);
    fields.set("interrupted", record.setup.interrupted);
    fields.set("start", record.setup.started.as_str());
    if let Some(workload) = record.workload() {
        fields.set("workload", workload);
    }
    fields.set("provenance", record.provenance_json());
    fields.set("requests", record.open_loop.requests);
    fields.set("outcomes", outcomes(record));
    peaks_and_rates(record, &mut fields);
    own_metrics(record, &mut fields);
    fields.set("connections_opened", record.open_loop.connect.count);
    if let Some(steady) = &record.steady {
        fields.set("steady_state", steady_fields(steady));
    }
    if let Some(state) = record.steady_state.as_ref().filter(|state| !state.requested) {
        fields.set("full_concurrency", crate::json::full_concurrency::json(state));
    }
    fields.set("confidence", tacho_metrics::interval::CONFIDENCE);
    fields.set("intervals", intervals(record));
    if let Some(trust) = &record.trust {
        fields.set("client", client(trust));
    }
    fields.set("caveats", caveats(record));
    if !record.groups.is_empty() {
        fields.set("groups", groups(record));
    }
    if !record.setup.stages.is_empty() {
        fields.set("origin_s", record.measured.origin);
        fields.set("stages", stages(record));
    }
    if !record.measured.ranks.is_empty() {
        fields.set("ranks", record.measured.ranks.to_json());
    }
    if let Some(sessions) = &record.sessions {
        fields.set("sessions", sessions.to_json());
    }
    if !record.measured.server.is_empty() {
        fields.set("server_metrics", server::metrics(&record.measured.server, detail));
    }
    if !record.measured.telemetry.is_empty() {
        fields.set("telemetry", telemetry::telemetry(record, detail));
    }
    if detail == Detail::PerRequest {
        fields.set("scheduled", Column::Scheduled);
        fields.set("dispatched", Column::Dispatched);
        fields.set("sent", Column::Sent);
        fields.set("first_content", Column::FirstContent);
        fields.set("done", Column::Done);
        fields.set("outcome", Column::Outcomes);
        fields.set("request_retries", Column::Retries);
        columns::media(record).for_each(|(key, column)| fields.set(key, column));
        if !record.groups.is_empty() {
            fields.set("labels", Column::Labels);
        }
        if record.sessions.is_some() {
            fields.set("session", Column::Sessions);
            fields.set("turn", Column::Turns);
            fields.set("cached_tokens", Column::CachedTokens);
        }
    }
    fields
}

/// The steady state of the run.
fn steady_fields(steady: &Steady) -> Fields {
    let mut fields = Fields::default();
    fields.set("rule", tacho_metrics::steady::RULE);
    fields.set("reached", steady.reached);
    fields.set("start_s", steady.start);
    fields.set("end_s", steady.end);
    fields.set("requests", steady.requests);
    fields.set("request_throughput", steady.request_throughput);
    statistics_fields(&mut fields, Times::of(MetricKind::Ttft), &steady.ttft);
    statistics_fields(&mut fields, Times::of(MetricKind::E2el), &steady.e2el);
    fields.set("drift", steady.drift);
    fields.set("queue_unstable", steady.backlog.is_some());
    fields
}

/// Latencies and other metrics that vLLM does not write.
fn own_metrics(record: &RunRecord, fields: &mut Fields) {
    for (times, statistics) in statistics(record) {
        statistics_fields(fields, times, statistics);
        fields.set(&format!("max_{}_ms", times.name), statistics.max_ms);
    }
    metric_fields(record, Part::Own, fields);
}

/// The groups by label and value, each with vLLM's keys.
fn groups(record: &RunRecord) -> Fields {
    let mut all = Fields::default();
    for key in record.group_keys() {
        let mut named = Fields::default();
        for group in record.groups_by(key) {
            let mut fields = group_fields(&group.record);
            own_metrics(&group.record, &mut fields);
            fields.set("outcomes", outcomes(&group.record));
            fields.set("intervals", intervals(&group.record));
            named.set(&group.name, fields);
        }
        all.set(key, named);
    }
    all
}

/// The stages of the load, with their time to recover.
fn stages(record: &RunRecord) -> Vec<Value> {
    let times = record.recoveries.iter().copied().chain(std::iter::repeat(None));
    let stage = |(stage, time): (&StageSpan, Option<f64>)| {
        let mut dict = Dict::new();
        Flat::set(&mut dict, "", stage);
        dict.set("recovery_s", time);
        Value::Dict(dict)
    };
    record.setup.stages.iter().zip(times).map(stage).collect()
}

fn finite(value: f64) -> Value {
    Value::from(Some(value).filter(|value| value.is_finite()))
}

/// Lower and upper bound by key; `null` if the run is too short for an upper bound.
fn intervals(record: &RunRecord) -> Dict {
    let pair = |(key, interval): (&str, Interval)| {
        (key.to_owned(), Value::List(vec![finite(interval.low), finite(interval.high)]))
    };
    record.intervals.iter().map(pair).collect()
}

fn outcomes(record: &RunRecord) -> Dict {
    record.open_loop.outcomes.iter().map(|&(name, count)| (name.to_owned(), Value::from(count))).collect()
}

fn peaks_and_rates(record: &RunRecord, fields: &mut Fields) {
    let open_loop = &record.open_loop;
    fields.set("peak_concurrency", open_loop.peak_concurrency);
    fields.set("peak_output_tokens_per_s", open_loop.peak_output_tokens_per_s);
    fields.set("goodput_from_schedule", open_loop.goodput_from_schedule);
    fields.set("planned_request_rate", open_loop.rates.map(|rates| rates.planned));
    fields.set("delivered_request_rate", open_loop.rates.map(|rates| rates.delivered));
    fields.set("coalesced_fraction", open_loop.coalesced_fraction);
    fields.set("unreported_lengths", open_loop.unreported_lengths);
    fields.set("retried_requests", open_loop.retried.0);
    fields.set("retries", open_loop.retried.1);
    if let Some((_, source)) = &open_loop.itl_per_token {
        fields.set("itl_per_token_source", source.name());
    }
    if let Some((reasoning, answer)) = open_loop.reasoning_tokens {
        fields.set("reasoning_tokens", reasoning);
        fields.set("answer_tokens", answer);
    }
    if let Some(probe) = record.measured.probe {
        fields.set("probe_completed", probe.completed);
        fields.set("probe_failed", probe.failed);
    }
}

/// The latencies by name: tacho's own, and those that vLLM measures but does not always write.
fn statistics(record: &RunRecord) -> Vec<(&'static Times, &Statistics)> {
    let wanted = |times: &&Times| match times.name {
        "ttft" | "tpot" | "itl" => !record.setup.has_tokenizer(),
        "e2el" => false,
        _ => !times.is_audio(),
    };
    TIMES.iter().filter(wanted).filter_map(|times| Some((times, (times.read)(record)?))).collect()
}

/// The client's self-assessment.
fn client(trust: &Trust) -> Dict {
    let mut client = Dict::new();
    client.set("trustworthy", trust.is_ok());
    client.set("word", trust.verdict.word());
    client.set("verdict", trust.text());
    if let Some(bounds) = &trust.bounds {
        let pair = |bound: &Bound| (bound.key(), Value::List(vec![bound.low_ms.into(), finite(bound.high_ms)]));
        client.set("bounds", bounds.iter().map(pair).collect::<Dict>());
    }
    client.set("clock_source", trust.timestamps.name());
    for (name, statistics) in [("lateness", &trust.lateness), ("wake_lag", &trust.wake_lag)] {
        let percentile = |percent| statistics.as_ref().and_then(|statistics| statistics.percentile_ms(percent));
        client.set(format!("p50_{name}_ms"), percentile(50.0));
        client.set(format!("p99_{name}_ms"), percentile(99.0));
        client.set(format!("max_{name}_ms"), statistics.as_ref().map(|statistics| statistics.max_ms));
    }
    client.set("late_coalesced_fraction", trust.late_coalesced_fraction);
    client.set("busy", trust.busy.iter().map(|&busy| Value::from(busy)).collect::<Vec<_>>());
    client.set("connections", trust.connections);
    client.set("connect_failures", trust.connect_failures);
    client.set("arrival_distance", trust.arrival_distance);
    if let Some(bound) = trust.clock_bound_ms {
        client.set("clock_bound_ms", bound);
    }
    client
}

fn caveats(record: &RunRecord) -> Vec<Value> {
    let entry = |caveat: &tacho_metrics::Caveat| {
        let mut entry = Dict::new();
        entry.set("kind", caveat.kind());
        entry.set("text", caveat.text());
        Value::Dict(entry)
    };
    record.caveats.iter().map(entry).collect()
}
