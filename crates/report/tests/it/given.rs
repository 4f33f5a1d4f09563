//! Setups and samples from recorded argument lists and outcomes.

use std::path::Path;

use tacho_core::FailureKind;
use tacho_core::json::{self, Value};
use tacho_metrics::{GoodputLimits, MetricKind, MetricSettings, RampUp, RareFields, RateChange, Sample, Setup, Task};
use tacho_testkit::golden_path;

/// A golden JSON file with Python's distinctions of numbers.
pub(crate) fn golden(name: &str) -> Value {
    read(&golden_path(name))
}

pub(crate) fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    json::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_list).unwrap_or(&[])
}

pub(crate) fn float(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

pub(crate) fn whole(value: &Value) -> u64 {
    value.as_i64().unwrap().try_into().unwrap()
}

/// The flags of a recorded command line.
pub(crate) struct Flags<'a>(Vec<&'a str>);

impl<'a> Flags<'a> {
    pub(crate) fn of(case: &'a Value) -> Self {
        Flags(list(case, "argv").iter().filter_map(Value::as_str).collect())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&'a str> {
        let Some(at) = self.0.iter().position(|word| *word == name) else { return Vec::new() };
        self.0[at + 1..].iter().copied().take_while(|word| !word.starts_with("--")).collect()
    }

    pub(crate) fn one(&self, name: &str) -> Option<&'a str> {
        self.all(name).first().copied()
    }

    /// The setup of these flags, as far as a report shows it.
    pub(crate) fn setup(&self) -> Setup {
        let backend = self.one("--backend").unwrap_or("openai");
        let pooling = ["embeddings", "pooling", "rerank"].iter().any(|part| backend.contains(part));
        let default = if pooling { "e2el" } else { "ttft,tpot,itl" };
        let whole = |name: &str| self.one(name).map(|value| value.parse::<i64>().unwrap());
        let model = self.one("--model").unwrap_or("");
        Setup {
            backend: backend.into(),
            label: self.one("--label").map(str::to_owned),
            model_id: model.into(),
            tokenizer_id: (!self.has("--skip-tokenizer-init"))
                .then(|| self.one("--tokenizer").unwrap_or(model).to_owned()),
            num_prompts: whole("--num-prompts").unwrap_or(1000),
            metadata: self.all("--metadata").into_iter().filter_map(metadata).collect(),
            request_rate: self.one("--request-rate").map_or(f64::INFINITY, |rate| rate.parse().unwrap()),
            burstiness: self.one("--burstiness").map_or(1.0, |factor| factor.parse().unwrap()),
            max_concurrency: whole("--max-concurrency").map(|limit| limit.try_into().unwrap()),
            ramp_up: self.one("--ramp-up-strategy").map(|strategy| RampUp {
                strategy: strategy.into(),
                start_rps: whole("--ramp-up-start-rps").unwrap(),
                end_rps: whole("--ramp-up-end-rps").unwrap(),
            }),
            task: if pooling { Task::Pooling } else { Task::Generation },
            percentile_metrics: MetricKind::parse_list(self.one("--percentile-metrics").unwrap_or(default)),
            metric_percentiles: percentiles(self.one("--metric-percentiles").unwrap_or("99")),
            metrics: goodput(&self.all("--goodput")).map(MetricSettings::from).unwrap_or_default(),
            ..plain_setup()
        }
    }
}

pub(crate) fn plain_setup() -> Setup {
    Setup {
        date: "DATE".into(),
        started: "2026-01-02T03:04:05Z".into(),
        model_id: "m".into(),
        tokenizer_id: Some("t".into()),
        num_prompts: 1,
        percentile_metrics: MetricKind::parse_list("ttft,tpot,itl"),
        strict_parity: true,
        ..Setup::example()
    }
}

fn metadata(item: &str) -> Option<(String, String)> {
    item.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
}

pub(crate) fn percentiles(list: &str) -> Vec<f64> {
    list.split(',').map(|percentile| percentile.parse().unwrap()).collect()
}

fn goodput(items: &[&str]) -> Option<GoodputLimits> {
    let limit = |name: &str| {
        let found = items.iter().filter_map(|item| item.split_once(':')).find(|(key, _)| *key == name);
        found.map(|(_, value)| value.parse().unwrap())
    };
    let limits = GoodputLimits { ttft_ms: limit("ttft"), tpot_ms: limit("tpot"), e2el_ms: limit("e2el") };
    (!items.is_empty()).then_some(limits)
}

/// The rate changes in a result file, with the times of the recorded run.
pub(crate) fn rate_changes(result: &Value) -> Vec<RateChange> {
    let change =
        |event: &Value| RateChange { rps: float(event, "rps") as i64, timestamp: text(event, "timestamp").into() };
    list(result, "rps_change_events").iter().map(change).collect()
}

/// A synthetic outcome, dispatched at `released`; missing fields have vLLM's defaults.
pub(crate) fn sample(output: &Value, dispatched: f64, output_len: u64) -> Sample {
    let success = output.get("success") == Some(&Value::Bool(true));
    let sent = float(output, "start_time");
    Sample {
        scheduled: dispatched,
        dispatched,
        sent,
        done: sent + float(output, "latency"),
        ttft: float(output, "ttft"),
        itl: list(output, "itl").iter().filter_map(Value::as_f64).collect(),
        latency: float(output, "latency"),
        output_tokens: Some(float(output, "output_tokens") as u64).filter(|&tokens| tokens > 0),
        output_len,
        prompt_len: output.get("prompt_len").map_or(0, whole),
        num_input_sequences: output.get("num_input_sequences").map_or(1, whole),
        failure: (!success).then_some(FailureKind::Malformed),
        rare: RareFields {
            input_audio_duration: float(output, "input_audio_duration"),
            error: text(output, "error").into(),
            text: text(output, "generated_text").into(),
            ..RareFields::default()
        }
        .into(),
        ..Sample::default()
    }
}

/// Asserts that two values are equal, keys in the same order, floats within `tolerance`.
pub(crate) fn assert_same(ours: &Value, theirs: &Value, tolerance: f64, at: &str) {
    match (ours, theirs) {
        (Value::Float(a), Value::Float(b)) => {
            assert!(a == b || (a - b).abs() <= tolerance * (1.0 + b.abs()), "{at}: {a} is not {b}");
        }
        (Value::List(a), Value::List(b)) => {
            assert_eq!(a.len(), b.len(), "{at}");
            a.iter().zip(b).enumerate().for_each(|(i, (a, b))| assert_same(a, b, tolerance, &format!("{at}[{i}]")));
        }
        (Value::Dict(a), Value::Dict(b)) => {
            let keys = |dict: &tacho_core::json::Dict| dict.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
            assert_eq!(keys(a), keys(b), "{at}");
            a.iter().zip(b.iter()).for_each(|((key, a), (_, b))| assert_same(a, b, tolerance, &format!("{at}.{key}")));
        }
        _ => assert_eq!(ours, theirs, "{at}"),
    }
}
