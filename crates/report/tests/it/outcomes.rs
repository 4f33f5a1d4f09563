//! `report/`: fixed outcomes, and the printed lines and the result that follow from them.

use tacho_core::json::{Dict, Value};
use tacho_metrics::{
    DiffusionCounters, DiffusionStatistics, GoodputLimits, MetricKind, Setup, SpeculativeCounters,
    SpeculativeStatistics, Task,
};
use tacho_record::{Measured, RunRecord};
use tacho_report::console::vllm_report;
use tacho_report::json::{Detail, ResultFile};
use tacho_testkit::golden_files;

use crate::given::{assert_same, float, list, percentiles, plain_setup, read, sample, text, whole};

fn setup(case: &Value) -> Setup {
    let pooling = text(case, "task") == "pooling";
    let default = if pooling { "e2el" } else { "ttft,tpot,itl" };
    let or = |key: &str, default: &str| case.get(key).and_then(Value::as_str).unwrap_or(default).to_owned();
    let goodput = case.get("goodput").map(|limits| {
        let limit = |name: &str| limits.get(name).and_then(Value::as_f64);
        GoodputLimits { ttft_ms: limit("ttft"), tpot_ms: limit("tpot"), e2el_ms: limit("e2el") }
    });
    Setup {
        task: if pooling { Task::Pooling } else { Task::Generation },
        tokenizer_id: (case.get("tokenizer") != Some(&Value::Bool(false))).then(|| "t".to_owned()),
        percentile_metrics: MetricKind::parse_list(&or("percentile_metrics", default)),
        metric_percentiles: percentiles(&or("metric_percentiles", "99")),
        max_concurrency: case.get("max_concurrency").map(whole),
        metrics: goodput.map(Into::into).unwrap_or_default(),
        ..plain_setup()
    }
}

fn record(case: &Value) -> RunRecord {
    let result = case.get("result").unwrap();
    let lengths = list(result, "output_lens");
    let length = |at: usize| lengths.get(at).map_or(0, whole);
    let outputs = list(case, "outputs").iter().enumerate();
    let duration = float(result, "duration");
    // Two scrapes before the run and two after: speculative, then diffusion.
    let body = |at: usize| list(case, "metrics_bodies").get(at).and_then(Value::as_str).unwrap_or("");
    let speculative = || {
        let (before, after) = (SpeculativeCounters::parse(body(0))?, SpeculativeCounters::parse(body(2))?);
        SpeculativeStatistics::between(&before, &after)
    };
    let diffusion = || {
        DiffusionStatistics::between(DiffusionCounters::parse(body(1))?, DiffusionCounters::parse(body(3))?, duration)
    };
    let measured = Measured {
        samples: outputs.map(|(at, output)| sample(output, float(output, "arrival_time"), length(at))).collect(),
        duration,
        speculative: speculative(),
        diffusion: diffusion(),
        probe: None,
        ..Measured::default()
    };
    RunRecord::compute(setup(case), measured)
}

/// The keys after those of the setup.
fn results(file: &ResultFile<'_>) -> Value {
    let dict = file.to_dict();
    let entries = dict.iter().skip_while(|(key, _)| *key != "duration");
    Value::Dict(entries.map(|(key, value)| (key.to_owned(), value.clone())).collect::<Dict>())
}

#[test]
fn outcomes_give_vllms_lines_and_numbers() {
    let files = golden_files("report", ".json");
    assert!(!files.is_empty());
    for path in files {
        let case = read(&path);
        let name = text(&case, "name");
        let record = record(&case);
        let printed: Vec<&str> = list(&case, "console").iter().filter_map(Value::as_str).collect();
        let ours = vllm_report(&record);
        assert_eq!(ours.lines().collect::<Vec<_>>(), printed, "{name}");
        let file = ResultFile::vllm(&record, Detail::PerRequest);
        assert_same(&results(&file), case.get("result").unwrap(), 1e-15, name);
    }
}
