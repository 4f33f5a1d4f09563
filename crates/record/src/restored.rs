//! A detailed result of vLLM or tacho, read back as a record for reports that need single requests.

use tacho_core::json::{Dict, Json, Value};
use tacho_core::{FailureKind, bounded::RunTime};
use tacho_metrics::{
    MetricKind, MetricSettings, RareFields, Sample, Samples, SeriesKind, ServerMetrics, Setup, Task, TaskSummary,
    Telemetry, server_metrics::Series, statistics::Statistic,
};

use crate::metric::{Timed, Times};
use crate::{Error, Measured, Provenance, ResultFields, RunRecord, stored::Lists};

/// A restored record, and the texts in its file.
#[derive(Debug)]
pub struct Restored {
    /// The record.
    pub record: RunRecord,
    /// The client's self-assessment.
    pub client: Option<String>,
    /// Warnings in the file.
    pub warnings: Vec<String>,
}

/// The record of a detailed result; `None` if the file lacks the times of its requests.
pub fn restored(dict: &Dict, change: impl FnOnce(&mut Setup)) -> Result<Option<Restored>, Error> {
    if ["latencies", "ttfts", "itls", "input_lens", "output_lens"].iter().any(|key| dict.get(key).is_none()) {
        return Ok(None);
    }
    let mut setup = setup(dict);
    change(&mut setup);
    let tacho = dict.get("tacho");
    let duration = dict.get("duration").and_then(Value::as_f64).unwrap_or(0.0);
    let (server, telemetry) = (server(tacho).unwrap_or_default(), telemetry(tacho).unwrap_or_default());
    let origin = tacho.and_then(|tacho| tacho.get("origin_s")?.as_f64()).unwrap_or(0.0);
    let measured = Measured { samples: samples(dict)?, duration, origin, server, telemetry, ..Measured::default() };
    let mut record = RunRecord::compute(setup, measured);
    record.provenance = provenance(dict);
    if let (TaskSummary::Generation(generation), None) = (&mut record.summary.task, &record.setup.metrics.goodput) {
        generation.request_goodput = dict.get("request_goodput").and_then(Value::as_f64);
    }
    let warnings = ResultFields(dict).caveats();
    if warnings.is_some() {
        // The original run knew more than its file contains.
        record.caveats.clear();
    }
    let warnings = warnings.into_iter().flatten().map(|caveat| caveat.text).collect();
    let client = tacho.and_then(|tacho| tacho.get("client")?.text("verdict").map(str::to_owned));
    Ok(Some(Restored { record, client, warnings }))
}

/// The provenance that a result states.
pub fn provenance(dict: &Dict) -> Provenance {
    dict.get("tacho").map(crate::logged::provenance).unwrap_or_default()
}

/// The settings in a result.
pub fn setup(dict: &Dict) -> Setup {
    let text = |key: &str| dict.text(key).map(str::to_owned);
    let number = |key: &str| dict.get(key).and_then(Value::as_f64);
    let tacho = |key: &str| dict.get("tacho").and_then(|tacho| tacho.get(key));
    let flag = |key: &str| tacho(key) == Some(&Value::Bool(true));
    let reported = |kind: &MetricKind| dict.get(&Times::of(*kind).key(Statistic::Mean)).is_some();
    Setup {
        date: text("date").unwrap_or_default(),
        started: tacho("start").and_then(Value::as_str).map(str::to_owned).or_else(|| text("date")).unwrap_or_default(),
        backend: text("backend").or_else(|| text("endpoint_type")).unwrap_or_default(),
        label: text("label"),
        model_id: text("model_id").unwrap_or_default(),
        tokenizer_id: text("tokenizer_id"),
        num_prompts: dict.get("num_prompts").and_then(Value::as_i64).unwrap_or(0),
        metadata: metadata(dict),
        request_rate: number("request_rate").unwrap_or(f64::INFINITY),
        burstiness: number("burstiness").unwrap_or(1.0),
        max_concurrency: dict.get("max_concurrency").and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok()),
        ramp_up: None,
        rps_change_events: Vec::new(),
        stages: tacho("stages").and_then(|stages| Vec::from_json(stages).ok()).unwrap_or_default(),
        self_timed: false,
        task: Task::Generation,
        percentile_metrics: MetricKind::ALL.into_iter().filter(reported).collect(),
        metric_percentiles: percentiles(dict),
        metrics: tacho("provenance").and_then(|stated| MetricSettings::from_json(stated).ok()).unwrap_or_default(),
        strict_parity: flag("strict_parity"),
        interrupted: flag("interrupted"),
        workload: tacho("workload").and_then(Value::as_str).map(str::to_owned),
    }
}

/// The user's own keys are between these two.
fn metadata(dict: &Dict) -> Vec<(String, String)> {
    let between = dict.iter().skip_while(|(key, _)| *key != "num_prompts").skip(1);
    let metadata = between.take_while(|(key, _)| *key != "request_rate");
    metadata.filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned()))).collect()
}

fn percentiles(dict: &Dict) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for (key, _) in dict.iter().filter(|(key, _)| key.starts_with('p')) {
        if let Some(Timed { statistic: Statistic::Percentile(percent), .. }) = Timed::find(key)
            && !found.contains(&percent)
        {
            found.push(percent);
        }
    }
    found.sort_by(f64::total_cmp);
    found
}

fn samples(dict: &Dict) -> Result<Samples, Error> {
    let lists = Lists::of(dict)?;
    let count = lists.latencies.len();
    let (ttfts, queue) = (lists.numbers("ttfts")?, lists.numbers("queue_times")?);
    let (inputs, outputs) = (lists.numbers("input_lens")?, lists.numbers("output_lens")?);
    let (starts, retries) = (lists.numbers("start_times")?, lists.numbers("tacho.request_retries")?);
    let (scheduled, dispatched) = (lists.numbers("tacho.scheduled")?, lists.numbers("tacho.dispatched")?);
    let (sent, done) = (lists.numbers("tacho.sent")?, lists.numbers("tacho.done")?);
    let (errors, outcomes) = (lists.texts("errors")?, lists.texts("tacho.outcome")?);
    let (gaps, labels) = (lists.gaps()?, lists.labels()?);
    // The origin of vLLM's times is arbitrary.
    let origin = (0..count).filter_map(|at| Some(starts.at(at)? - queue.at(at).unwrap_or(0.0)));
    let origin = if sent.is_empty() { origin.fold(f64::INFINITY, f64::min) } else { 0.0 };
    let origin = if origin.is_finite() { origin } else { 0.0 };
    let sample = |index: usize| {
        let itl = gaps.get(index).cloned().unwrap_or_default();
        let text = |list: &[String]| list.get(index).cloned().unwrap_or_default();
        let (error, outcome) = (text(&errors), text(&outcomes));
        let sent = sent.at(index).or_else(|| Some(starts.at(index)? - origin)).unwrap_or(0.0);
        let (latency, ttft) = (lists.latencies[index], ttfts.at(index).unwrap_or(0.0));
        let dispatched = dispatched.at(index).unwrap_or(sent - queue.at(index).unwrap_or(0.0));
        let done = done.at(index).unwrap_or(sent + latency.max(ttft + itl.iter().sum::<f64>()));
        let times = [sent, dispatched, done, latency, ttft].into_iter().chain(itl.iter().copied());
        if let Some(odd) = times.into_iter().find(|time| !(*time >= -1.0 && RunTime::holds(time.max(0.0)))) {
            return Err(Error::Impossible { key: format!("a time of request {index}"), value: format!("{odd} s") });
        }
        Ok(Sample {
            index,
            scheduled: scheduled.at(index).unwrap_or(dispatched),
            dispatched,
            sent,
            done,
            ttft,
            latency,
            output_len: outputs.at(index).unwrap_or(0.0) as u64,
            prompt_len: inputs.at(index).unwrap_or(0.0) as u64,
            retries: retries.at(index).unwrap_or(0.0) as u32,
            failure: failure(&outcome, &error),
            itl: itl.into(),
            rare: RareFields { error, labels: labels.get(index).cloned().unwrap_or_default(), ..RareFields::default() }
                .into(),
            ..Sample::default()
        })
    };
    (0..count).map(sample).collect()
}

/// vLLM's files state that a request failed, but not how.
fn failure(outcome: &str, error: &str) -> Option<FailureKind> {
    match outcome {
        "" => (!error.is_empty()).then_some(FailureKind::Http(0)),
        "complete" => None,
        other => Some(FailureKind::from_name(other, 0).unwrap_or(FailureKind::Malformed)),
    }
}

fn server(tacho: Option<&Value>) -> Option<ServerMetrics> {
    let stored = tacho?.get("server_metrics")?;
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let times: Vec<f64> = stored.get("times")?.as_list()?.iter().map(number).collect();
    let series = stored.get("series")?.as_dict()?.iter().filter_map(|(name, values)| {
        let grows = stored.get("summary")?.get(name)?.get("delta").is_some();
        let kind = if grows { SeriesKind::Counter } else { SeriesKind::Gauge };
        let values: Vec<f64> = values.as_list()?.iter().map(number).collect();
        (values.len() == times.len()).then(|| Series { name: name.to_owned(), kind, values })
    });
    Some(ServerMetrics { series: series.collect(), times })
}

fn telemetry(tacho: Option<&Value>) -> Option<Telemetry> {
    Telemetry::from_json(tacho?.get("telemetry")?.get("series")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn of(text: &str) -> Result<Option<Restored>, Error> {
        restored(parse(text).unwrap().as_dict().unwrap(), |_| ())
    }

    const VLLM: &str = r#"{"date": "d", "backend": "vllm", "model_id": "m", "tokenizer_id": "m", "num_prompts": 2, "env": "a",
        "request_rate": "inf", "max_concurrency": 4, "duration": 2.0, "mean_ttft_ms": 1, "p99_ttft_ms": 2, "p50_ttft_ms": 2,
        "latencies": [0.5, 0.0], "ttfts": [0.25, 0.0], "itls": [[0.25], []], "start_times": [101.0, 100.5],
        "queue_times": [0.5, 0.5], "errors": ["", "Bad Request"], "input_lens": [4, 5], "output_lens": [2, 0]}"#;

    #[test]
    fn a_detailed_result_is_a_record_again() {
        let record = of(VLLM).unwrap().unwrap().record;
        let samples: Vec<_> = record.measured.samples.iter().collect();
        assert_eq!((samples[0].dispatched, samples[0].sent, samples[0].done), (0.5, 1.0, 1.5));
        assert_eq!((samples[1].dispatched, samples[1].failure), (0.0, Some(FailureKind::Http(0))));
        assert_eq!((record.summary.completed, record.summary.failed), (1, 1));
        assert_eq!(record.setup.metadata, [("env".to_owned(), "a".to_owned())]);
        assert_eq!(record.setup.metric_percentiles, [50.0, 99.0]);
        assert!(record.setup.request_rate.is_infinite() && record.trust.is_none());
    }

    #[test]
    fn missing_or_invalid_fields_are_errors() {
        assert!(of(r#"{"latencies": [1.0], "duration": 1.0}"#).unwrap().is_none());
        let short = of(&VLLM.replace("[0.25, 0.0]", "[0.25]")).unwrap_err().to_string();
        assert_eq!(short, "ttfts has 1 entries where 2 requests are recorded");
        let text = of(&VLLM.replace("[0.25, 0.0]", "[0.25, \"x\"]")).unwrap_err().to_string();
        assert_eq!(text, "ttfts is not a list of numbers");
        let endless = of(&VLLM.replace("[0.5, 0.0]", "[1e300, 0.0]")).unwrap_err().to_string();
        assert!(endless.starts_with("a time of request 0 is "), "{endless}");
    }

    #[test]
    fn settings_and_times_come_from_the_file() {
        let tacho = r#""tacho": {"strict_parity": true, "interrupted": false, "outcome": ["complete", "http_error"]}}"#;
        let text = VLLM.replacen("\"queue_times\": [0.5, 0.5], ", "", 1);
        let record = of(&format!("{}, {tacho}", text.trim_end_matches('}'))).unwrap().unwrap().record;
        assert!(record.setup.strict_parity && !record.setup.interrupted);
        let samples: Vec<_> = record.measured.samples.iter().collect();
        assert_eq!(samples[1].failure, Some(FailureKind::Http(0)));
        // Without queue times, times count from the first start.
        assert_eq!((samples[0].dispatched, samples[1].dispatched), (0.5, 0.0));
        let unstarted = of(&text.replacen("\"start_times\": [101.0, 100.5],", "", 1)).unwrap().unwrap().record;
        assert!(unstarted.measured.samples.iter().all(|sample| (sample.sent, sample.dispatched) == (0.0, 0.0)));
        assert_eq!(failure("unheard of", ""), Some(FailureKind::Malformed));
    }
}
