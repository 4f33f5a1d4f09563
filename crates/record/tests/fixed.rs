//! Results of fixed data: the catalog of metrics, files of other tools, records with groups, and what is read back from them.
//! The numbers were computed by this crate. A change of a key or a formula changes published results, and must be noticed here.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::{Debug, Write};

use tacho_core::json::{Dict, Json, Value, dumps, parse, parse_prefix};
use tacho_core::{FailureKind, Labels, OutputCheck, StageSpan, dict};
use tacho_metrics::statistics::Statistic;
use tacho_metrics::{
    Audio, Caveat, GoodputLimits, Media, MetricKind, MetricSettings, ProbeStatistics, RareFields, Sample, Samples,
    Setup, Task, WindowRule, WorkerUse,
};
use tacho_record::history::{Entry, EntryKind, better, differences, names, series};
use tacho_record::metric::{Known, METRICS, Part, TIMES, Timed, decimals, score_key, unknown};
use tacho_record::points::{self, Point};
use tacho_record::restored::restored;
use tacho_record::tools::{TOOLS, mapped};
use tacho_record::{
    Estimate, Measured, MultiRun, Provenance, ResultFields, ResultKind, RunRecord, ServerFacts, StoredRun, bundle,
    groups, logged, multi_run,
};

/// Words and numbers of a value, numbers to nine digits.
fn words(value: &impl Debug) -> String {
    let text = format!("{value:?}").replace(|c| "(){}[],:\"\\".contains(c), " ");
    let short = |word: &str| match word.parse::<f64>() {
        Ok(number) if word.contains(['.', 'e']) => format!("{:?}", format!("{number:.8e}").parse::<f64>().unwrap()),
        // No number equals it.
        _ if word == "NaN" => "unknown".to_owned(),
        _ => word.to_owned(),
    };
    text.split_ascii_whitespace().map(short).collect::<Vec<_>>().join(" ")
}

#[derive(Default)]
struct Table(String);

impl Table {
    fn add(&mut self, name: &str, value: &impl Debug) {
        writeln!(self.0, "{name}: {}", words(value)).unwrap();
    }

    fn json(&mut self, name: &str, value: &Dict) {
        self.add(name, &dumps(&value.clone().into()));
    }

    /// Compares the table with a golden file; numbers may differ by a millionth.
    fn check(&self, name: &str) {
        let known = std::fs::read_to_string(golden(name)).unwrap();
        let same_word = |(one, other): (&str, &str)| match (one.parse::<f64>(), other.parse::<f64>()) {
            (Ok(one), Ok(other)) => one == other || (one - other).abs() <= 1e-6 * other.abs(),
            _ => one == other,
        };
        let same = |one: &str, other: &str| {
            one.split(' ').count() == other.split(' ').count() && one.split(' ').zip(other.split(' ')).all(same_word)
        };
        for (at, (found, known)) in self.0.lines().zip(known.lines()).enumerate() {
            assert!(same(found, known), "line {} of {name}:\n{found}\nis not\n{known}\n\n{}", at + 1, self.0);
        }
        assert_eq!(self.0.lines().count(), known.lines().count(), "lines of {name}:\n\n{}", self.0);
    }
}

fn golden(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

#[test]
fn results_are_the_same_as_before() {
    let mut table = Table::default();
    catalog(&mut table);
    tools(&mut table);
    records(&mut table);
    logs(&mut table);
    stored(&mut table);
    several(&mut table);
    history(&mut table);
    table.check("known/records.txt");
}

fn catalog(table: &mut Table) {
    for metric in METRICS {
        let rank = if metric.line.is_empty() { 0 } else { metric.rank };
        let texts = (metric.line, rank, metric.heading, metric.unit.text(), metric.flag, metric.description());
        table.add(metric.key, &(texts, metric.better, metric.part));
    }
    for times in TIMES {
        let keys = [Statistic::Mean, Statistic::Deviation, Statistic::Percentile(50.0), Statistic::Percentile(99.5)]
            .map(|of| times.key(of));
        table.add(
            times.name,
            &(times.label, times.title, times.unit_text(), times.better, times.waits(), times.is_audio(), keys),
        );
        table.add(
            "scaled",
            &(times.scaled(1500.0), Timed::find(&times.key(Statistic::Deviation)).map(|timed| timed.heading())),
        );
    }
    table.add("families", &MetricKind::ALL.map(|kind| tacho_record::metric::Times::of(kind).name));
    let keys = "duration p99_ttft_ms failed accuracy score_tone p50_latency avg_loading_time swapped_outputs request_goodput fluidity_index avg_latency \
        p101_latency p0_latency p100_latency avg__time score_ p99_audio_rtf std_audio_duration_s mean_dispatch_lateness_ms";
    for key in keys.split_ascii_whitespace() {
        let of = |known: Known| {
            let texts = (
                known.unit().text(),
                known.kind().name(),
                known.flag(),
                known.heading(key),
                known.text(0.1234, 2),
                known.text(0.0012, 2),
            );
            (texts, known.better(), known.varies(), known.is_about_outputs(), known.is_of_outputs())
        };
        table.add(key, &Known::find(key).map(of));
    }
    table.add("numbers", &[0.0994, 0.0995, 1.0].map(|share| Known::find("accuracy").unwrap().text(share, 2)));
    table.add(
        "digits",
        &[1234.5, 0.5, 0.01, 0.001_26, 1e-9, 1e-25]
            .map(|number| [decimals(number, 0), decimals(number, 2), decimals(number, 3)]),
    );
    for key in ["p99_tfft_ms", "ttft", "mean_ttft", "request_troughput", "p99_e2el", "x"] {
        table.add("unknown", &unknown(key).to_string());
    }
    table.add("scores", &[score_key("accuracy"), score_key("tone")]);
    table.add(
        "paths",
        &["chat.p99_ttft_ms", "class.a.b.failed", "p99.9_ttft_ms", "chat.p99.9_ttft_ms", "x.y"].map(groups::split),
    );
    table.add("runs", &(multi_run::NUMBERS, multi_run::STEADY));
    table.add("bundles", &bundle::MEMBERS);
    assert_eq!(
        (ResultKind::NAMES.join(" "), EntryKind::NAMES.join(" ")),
        (
            "serving latency throughput startup".to_owned(),
            "serving latency throughput startup search ab-test".to_owned()
        )
    );
}

fn objects(text: &str) -> Vec<Dict> {
    let (mut rest, mut found) = (text.trim_start(), Vec::new());
    while !rest.is_empty() {
        let (value, used) = parse_prefix(rest).unwrap();
        match value {
            Value::List(items) => found.extend(items.into_iter().map(|item| item.as_dict().unwrap().clone())),
            other => found.push(other.as_dict().unwrap().clone()),
        }
        rest = rest[used..].trim_start();
    }
    found
}

/// A result without its lists of requests, of which the sums remain.
fn brief(result: &Dict) -> Dict {
    fn sum(value: &Value) -> f64 {
        value.as_f64().unwrap_or_else(|| value.as_list().map_or(0.0, |list| list.iter().map(sum).sum()))
    }
    let short = |(key, value): (&str, &Value)| {
        let list = value.as_list().map(|list| dict! { "count": list.len(), "sum": sum(value) }.into());
        (key.to_owned(), list.unwrap_or_else(|| value.clone()))
    };
    result.iter().map(short).collect()
}

fn tools(table: &mut Table) {
    for tool in TOOLS {
        table.add(tool.name, &(tool.file, tool.differs));
    }
    let files = [
        "aiperf/profile_export_aiperf.json",
        "aiperf/profile_export.jsonl",
        "guidellm/benchmarks.json",
        "genai-bench/D64_64_text-to-text_num_concurrency_8_time_39s.json",
        "inference-perf/stage_0_lifecycle_metrics.json",
        "inference-perf/per_request_lifecycle_metrics.json",
        "vllm/vllm.json",
    ];
    for file in files {
        let text = std::fs::read_to_string(golden("other-tools").join(file)).unwrap();
        mapped(objects(&text)).unwrap().iter().for_each(|result| table.json(file, &brief(result)));
    }
    let texts = [
        // AIPerf with settings of an older version, and with other units.
        r#"{"aiperf_version": "0.1", "benchmark_duration": {"avg": 10.0, "unit": "sec"}, "request_count": {"avg": 20}, "error_summary": [],
            "input_config": {"loadgen": {"request_rate": 2.5, "concurrency": 4}, "endpoint": {"model_names": ["m"]}}, "total_isl": {"avg": 2000}, "total_osl": {"avg": 300},
            "time_to_first_token": {"unit": "us", "avg": 5000.0, "p99": 9000.0, "std": 100.0}, "request_latency": {"unit": "s", "avg": 1.5, "p50": 1.25}, "goodput": {"avg": 1.5}}"#,
        r#"{"aiperf_version": "0.3", "benchmark_duration": {"avg": 10.0, "unit": "sec"}, "request_count": {"avg": 20}, "error_request_count": {"avg": 3},
            "input_config": {"phases": [{"kind": "warmup", "rate": 9.0}, {"kind": "profiling", "rate": 3.0, "max_concurrency": 7}], "models": {"items": [{"name": "n"}]}},
            "total_usage_prompt_tokens": {"avg": 100}, "total_output_tokens": {"avg": 40}, "inter_token_latency": {"unit": "ms/token", "avg": 5.0}, "start_time": "2026"}"#,
        r#"{"metadata": {"benchmark_phase": "profiling", "request_start_ns": 5000000000}, "metrics": {"request_latency": {"value": 500, "unit": "ms"}, "time_to_first_token":
            {"value": 100000, "unit": "us"}, "inter_chunk_latency": {"value": [100, 300], "unit": "ms"}, "input_sequence_length": {"value": 7}, "output_sequence_length": {"value": 3}}}
            {"metadata": {"benchmark_phase": "warmup", "request_start_ns": 1}, "metrics": {"request_latency": {"value": 500, "unit": "ms"}}}
            {"metadata": {"request_start_ns": 6000000000}, "metrics": {"request_latency": {"value": 2, "unit": "s"}, "usage_prompt_tokens": {"value": 9}}, "error": null}
            {"metadata": {}, "metrics": {"request_latency": {"value": 2, "unit": "s"}}, "error": "x"}"#,
        r#"{"metadata": {"guidellm_version": "0.5"}, "benchmarks": [{"config": {"strategy": {"type_": "concurrent", "streams": 6, "rate": 6.0}, "backend": {"model": "m"}}, "duration": 5.0,
            "metrics": {"request_totals": {"successful": 9, "errored": 1}, "prompt_token_count": {"successful": {"total_sum": 90}}, "output_token_count": {"successful": {"total_sum": 45}},
            "time_to_first_token_ms": {"successful": {"count": 9, "mean": 20.0, "percentiles": {"p99": 30.0}}}, "request_latency": {"successful": {"count": 9, "mean": 0.5}},
            "inter_token_latency_ms": {"successful": {"count": 0, "mean": 0.0}}, "time_per_output_token_ms": {"successful": {"mean": 4.0}}}},
            {"args": {"strategy": {"type_": "constant", "rate": 2.5, "max_concurrency": 9}}, "duration": 4.0, "metrics": {"request_totals": {"successful": 1}},
            "requests": {"successful": [{"info": {"timings": {"request_start": 1.0, "first_token_iteration": 1.25, "request_end": 2.0}}, "input_metrics": {"text_tokens": 5}, "output_metrics": {"text_tokens": 2}}]}},
            {"scheduler": {"strategy": {"type_": "synchronous", "rate": 2.5}}, "duration": 4.0, "metrics": {"request_totals": {"successful": 2}}},
            {"config": {"strategy": {"type_": "throughput", "rate": 1.0, "max_concurrency": 16}}, "duration": 4.0, "metrics": {"request_totals": {"successful": 0}}}]}"#,
        r#"{"_time_unit": "ms", "aggregated_metrics": {"num_concurrency": 4, "run_duration": 8.0, "num_error_requests": 1}, "individual_request_metrics":
            [{"ttft": 100, "e2e_latency": 500, "num_input_tokens": 7, "num_output_tokens": 5}, {"ttft": 200, "e2e_latency": 700, "num_output_tokens": 1, "error_code": 200}, {"error_code": 500}]}"#,
        r#"{"load_summary": {"requested_rate": 3.0}, "benchmark_time_seconds": 10.0, "successes": {"count": 25, "prompt_tokens": {"total": 500}, "throughput": {"input_tokens_per_sec": 49.0,
            "output_tokens_per_sec": 20.0}, "latency": {"time_to_first_token": {"mean": 0.1, "median": 0.09, "p99": 0.2}, "request_latency": {"mean": 1.0, "p90": 2.0}, "inter_token_latency": {"p999": 0.05}}}, "failures": {"count": 2}}"#,
        r#"{"load_summary": {"requested_rate": 3.0, "concurrency": 5}, "benchmark_time_seconds": 10.0, "successes": {"count": 25, "output_tokens": {"total": 99}}}"#,
        r#"[{"start_time": 1.0, "end_time": 3.0, "error": null, "info": {"model": "m", "response_metrics": {"output_token_times": [1.5, 2.0, 2.25], "server_usage": {"prompt_tokens": 11}, "output_tokens": 3}}},
            {"start_time": 2.0, "end_time": 4.0, "error": null, "info": {"chunk_times": [2.5], "input_tokens": 4, "output_tokens": 1}}, {"start_time": 2.0, "end_time": 5.0, "error": null, "info": {}},
            {"start_time": 2.0, "end_time": 9.0, "error": "x", "info": {}}]"#,
        r#"{"mean_e2e_latency_ms": 500.0, "p95_e2e_latency_ms": 800.0, "mean_ttft_ms": 50.0, "std_tpot_ms": 3.0, "median_itl_ms": 9.0, "total_output_tokens": 30, "total_input_tokens": 60, "duration": 4.0, "completed": 2,
            "request_rate": 2.0, "max_concurrency": 3, "server_info": {"model_path": "m"}, "ttfts": [0.1, 0.2, 0.3], "itls": [[0.1, 0.2], [0.3], []], "input_lens": [5, 6, 7], "output_lens": [3, 2, 1], "errors": ["", "", "x"]}"#,
        r#"{"version": "0.2.1", "run": {"time": {"start": "2026-01-02"}}, "scenario": {"load": {"standardized": {"rate_qps": 4.0, "concurrency": 3, "tool": "t", "tool_version": "9"}},
            "stack": [{"standardized": {"model": {"name": "m"}}}]}, "results": {"request_performance": {"aggregate": {"requests": {"total": 40, "failures": 3, "incomplete": 1, "input_length": {"mean": 10.0},
            "output_length": {"mean": 5.0}}, "throughput": {"request_rate": {"mean": 4.0}, "output_token_rate": {"mean": 20.0}, "total_token_rate": {"mean": 60.0}},
            "latency": {"time_to_first_token": {"units": "ms", "mean": 50.0, "p99": 90.0}, "request_latency": {"units": "s", "mean": 2.0}, "time_per_output_token": {"units": "x", "mean": 2.0}}}}}}"#,
        r#"{"version": "0.2", "results": {"request_performance": {"aggregate": {"requests": {"total": 40}, "throughput": {"request_rate": {"mean": 0.0}}}}}}"#,
        r#"{"load_summary": {}, "successes": {}}"#,
        // A part of what tells the file of a tool.
        r#"{"load_summary": {}}"#,
        r#"{"successes": {}}"#,
        r#"{"benchmark_duration": {"avg": 1.0}}"#,
        r#"{"benchmark_duration": {"unit": 3}}"#,
        r#"{"metrics": {"request_latency": {"value": 1, "unit": "s"}}}"#,
        r#"{"metrics": {"request_latency": {"value": 1}}, "metadata": {}}"#,
        r#"{"aggregated_metrics": {}}"#,
        r#"{"individual_request_metrics": []}"#,
        r#"{"metadata": {}, "benchmarks": [{"type_": "other"}]}"#,
        r#"{"benchmarks": [{"type_": "generative_benchmark"}]}"#,
        r#"{"start_time": 1.0, "end_time": 2.0, "info": {}}"#,
        r#"{"start_time": 1.0, "end_time": 2.0, "error": null}"#,
        r#"{"mean_e2e_latency_ms": 1.0}"#,
        r#"{"total_output_tokens": 1}"#,
        r#"{"version": "0.2"}"#,
        r#"{"version": "0.1", "results": {"request_performance": {"aggregate": {}}}}"#,
        r#"{"metadata": {"guidellm_version": "0.5"}, "benchmarks": []}"#,
        r#"{"other": 1}"#,
    ];
    for text in texts {
        match mapped(objects(text)) {
            Ok(results) => results.iter().for_each(|result| table.json("mapped", result)),
            Err(error) => table.add("refused", &error.to_string()),
        }
    }
}

/// Requests of three classes in two stages, with failures, scores and a cache.
fn samples() -> Samples {
    let one = |at: usize| {
        let (scheduled, wait) = (0.1 * at as f64, 0.001 * (at * 7919 % 97) as f64);
        let (ttft, tokens) = (0.05 + wait, 3 + at % 7);
        let gaps = vec![0.01 + 0.0001 * (at % 11) as f64; tokens - 1];
        let failed = at % 13 == 5;
        let latency = if failed { 0.0 } else { ttft + gaps.iter().sum::<f64>() };
        let stage = if at < 60 { "low" } else { "high" };
        let labels = Labels::NONE
            .with("class", ["chat", "batch", "code"][at % 3])
            .with("stage", stage)
            .with("replica", ["a:1", "b:1"][at % 2]);
        let check = OutputCheck {
            reference: at as u32,
            first_difference: at.is_multiple_of(9).then_some(4),
            alone_differs: Some(at.is_multiple_of(27)),
            ..OutputCheck::default()
        };
        let scores = parse(&format!("{{\"accuracy\": {}, \"tone\": {:?}}}", at % 2, 0.1 * (at % 5) as f64)).ok();
        Sample {
            index: at,
            scheduled,
            dispatched: scheduled + 0.0001,
            sent: scheduled + 0.0002 + 0.001 * (at % 3) as f64,
            done: scheduled + 0.0002 + 0.001 * (at % 3) as f64 + latency,
            ttft,
            latency,
            itl: gaps.into(),
            output_len: if failed { 0 } else { tokens as u64 },
            output_tokens: Some(tokens as u64).filter(|_| !failed),
            prompt_len: 40 + at as u64,
            cached_tokens: Some(16),
            retries: u32::from(at % 10 == 3),
            failure: failed.then_some(FailureKind::TimedOut),
            rare: RareFields {
                labels,
                check: Some(check),
                scores,
                error: if failed { "late".to_owned() } else { String::new() },
                ..RareFields::default()
            }
            .into(),
            ..Sample::default()
        }
    };
    (0..130).map(one).collect()
}

fn setup() -> Setup {
    let limits = |ttft| GoodputLimits { ttft_ms: Some(ttft), ..GoodputLimits::default() };
    let stage = |name: &str, start, end, load| StageSpan {
        name: name.to_owned(),
        start,
        end,
        mean_load: load,
        load: format!("{load} req/s"),
        requests: 60,
        ..StageSpan::default()
    };
    Setup {
        request_rate: 10.0,
        max_concurrency: Some(32),
        num_prompts: 130,
        metric_percentiles: vec![90.0, 99.0],
        stages: vec![stage("low", 0.0, 6.0, 10.0), stage("high", 6.0, 12.5, 11.0)],
        metrics: MetricSettings {
            goodput: Some(limits(100.0)),
            class_goodput: vec![("batch".to_owned(), limits(60.0))],
            price_per_hour: Some(7.2),
            gpus: Some(2),
            ..MetricSettings::default()
        },
        workload: Some("v2:ab".to_owned()),
        ..Setup::example()
    }
}

fn measured() -> Measured {
    let worker = WorkerUse { busy: 0.2, events: 600, kernel_timestamps: true, connections: 4, ..WorkerUse::default() };
    let probe = ProbeStatistics { completed: 3, failed: 1, median_ms: 5.0, p99_ms: 7.0, max_ms: 8.0 };
    Measured { samples: samples(), duration: 13.2, workers: vec![worker], probe: Some(probe), ..Measured::default() }
}

/// All metrics of a record by key, and its intervals.
fn values(record: &RunRecord) -> impl Debug {
    let rows = METRICS.iter().filter_map(|metric| Some((metric.key, (metric.read)(record)?)));
    let timed = |key: &String| Some((key.clone(), Known::find(key)?.read(record)?));
    let keys = TIMES
        .iter()
        .flat_map(|times| [Statistic::Mean, Statistic::Deviation, Statistic::Percentile(90.0)].map(|of| times.key(of)));
    let times: Vec<_> = keys.filter_map(|key| timed(&key)).collect();
    let intervals = record.intervals.iter().map(|(key, interval)| (key.to_owned(), interval.low, interval.high));
    (rows.collect::<Vec<_>>(), times, intervals.collect::<Vec<_>>(), record.caveats.clone(), record.intervals.caveat())
}

fn records(table: &mut Table) {
    let record = RunRecord::compute(setup(), measured());
    table.add("record", &values(&record));
    table.add(
        "about it",
        &(
            record.measured.cache_hit_rate(),
            record.is_burst(),
            record.workload(),
            record.recoveries.clone(),
            record.group_keys(),
        ),
    );
    for group in &record.groups {
        let setup = &group.record.setup;
        table.add(
            "group",
            &(
                &group.key,
                &group.name,
                group.record.measured.duration,
                setup.num_prompts,
                setup.max_concurrency,
                setup.self_timed,
            ),
        );
        table.add("its metrics", &values(&group.record));
    }
    for group in record.classes_by_stage() {
        table.add(
            &group.name,
            &(
                group.key,
                group.record.measured.duration,
                group.record.summary.completed,
                group.record.summary.request_throughput,
            ),
        );
    }
    let whole = |key: &str| {
        Estimate::from_samples(key, &record.measured.samples, 13.2)
            .map(|found| (found.value, found.interval, found.precision(), found.is_vague))
    };
    table.add(
        "estimates",
        &["p75_ttft_ms", "mean_e2el_ms", "std_itl_ms", "request_throughput", "failed", "p99.9_e2el_ms"].map(whole),
    );
    let burst = Setup { request_rate: f64::INFINITY, max_concurrency: None, stages: vec![], ..setup() };
    let burst = RunRecord::compute(burst, measured());
    table.add("burst", &(burst.is_burst(), burst.intervals.caveat(), burst.intervals.iter().count()));
    let users = Setup { request_rate: f64::INFINITY, max_concurrency: Some(2), stages: vec![], ..setup() };
    let mut users = RunRecord::compute(users, measured());
    users.find_window(WindowRule { threshold: 0.5, min: None }, true);
    table.add("window", &(users.is_burst(), users.window(), users.steady_state.as_ref().map(|state| state.requested)));
    let pooling = RunRecord::compute(Setup { task: Task::Pooling, ..setup() }, measured());
    table.add("pooling", &values(&pooling));
    let media = |index: usize| {
        let audio = Audio { frames: 240, duration: 0.5 + 0.01 * index as f64, underrun: 0.05, underruns: 1 };
        if index.is_multiple_of(2) { Media::Audio(Some(audio)) } else { Media::Images(2) }
    };
    let mut with_media = samples();
    with_media.change(|samples| samples.iter_mut().for_each(|one| one.media = Some(media(one.index))));
    let with_media = Measured { samples: with_media, ..measured() };
    table.add("media", &values(&RunRecord::compute(Setup { task: Task::Media, ..setup() }, with_media)));
    table.add("predicted", &(record.is_predicted(), record.answered_probes()));
}

fn logs(table: &mut Table) {
    let mut record = RunRecord::compute(setup(), measured());
    record.provenance = Provenance {
        tacho: Some("0.1.0".to_owned()),
        dataset: Some("random".to_owned()),
        seed: Some(3),
        server: ServerFacts {
            engine: Some("vLLM".to_owned()),
            gpus: Some("H200".to_owned()),
            ..ServerFacts::default()
        },
        ..Provenance::default()
    };
    record.add_caveat(Caveat::EndedByDuration { cut_off: 2 });
    table.json("log", &logged::closing(&record));
    table.json("plan", &logged::plan(&record.setup, &record.provenance));
    table.add("stack", &(record.provenance.server.stack(), record.provenance.server.name()));
    let again = parse(&dumps(&logged::closing(&record).into())).unwrap();
    assert_eq!(
        (logged::setup(&again), logged::provenance(&again)),
        (Ok(record.setup.clone()), record.provenance.clone())
    );
    assert_eq!(logged::caveats(&again).unwrap(), [Caveat::EndedByDuration { cut_off: 2 }]);
    assert_eq!(logged::measured(&again).unwrap(), Measured { samples: Samples::default(), ..record.measured });
    let mut closing = logged::closing(&RunRecord::compute(setup(), measured()));
    let scores = [(12, Value::Float(0.5)), (3, dict! { "tone": 0.25 }.into())].into_iter().collect();
    logged::close_scores(&mut closing, &scores);
    assert_eq!(logged::scores(&closing.into()), scores);
}

/// A detailed result with everything that is read back.
fn detailed() -> Dict {
    let text = r#"{"date": "20260102-030405", "backend": "openai", "label": "l", "model_id": "m", "tokenizer_id": "t", "num_prompts": 7, "k": "v", "request_rate": 2.0, "burstiness": 0.5, "max_concurrency": 9,
        "duration": 4.0, "completed": 4, "failed": 1, "request_throughput": 1.0, "request_goodput": 0.75, "mean_ttft_ms": 300.0, "p75_ttft_ms": 400.0, "p99.5_e2el_ms": 900.0, "mean_e2el_ms": 800.0,
        "latencies": [1.0, 2.0, 0.0, 1.5, 0.75], "ttfts": [0.25, 0.5, 0.0, 0.3, 0.2], "itls": [[0.25, 0.5], [1.5], [], [0.4, 0.4, 0.4], [0.55]], "queue_times": [0.125, 0.5, 0.0, 0.0, 0.25],
        "start_times": [10.125, 11.5, 12.0, 12.25, 13.0], "errors": ["", "", "bad", "", ""], "input_lens": [10, 20, 0, 30, 40], "output_lens": [3, 2, 0, 4, 1],
        "tacho": {"version": 1, "start": "2026-01-02T03:04:00Z", "interrupted": true, "strict_parity": true, "workload": "v2:cd", "origin_s": 10.0, "planned_request_rate": 2.0, "delivered_request_rate": 1.5,
            "scheduled": [0.0, 0.5, 1.0, 1.5, 2.0], "dispatched": [0.0, 0.5, 1.0, 1.75, 2.0], "sent": [0.125, 1.0, 1.0, 1.75, 2.25], "done": [1.2, 3.0, 1.5, 3.3, 3.1], "outcome": ["complete", "complete", "timed_out", "complete", "complete"],
            "request_retries": [0, 1, 0, 0, 2], "labels": [{"class": "a"}, {"class": "b"}, {"class": "a"}, {"class": "a"}, {"class": "b"}],
            "outcomes": {"complete": 4, "timed_out": 1}, "steady_state": {"reached": true, "queue_unstable": false, "drift": 0.1, "request_throughput": 1.1, "mean_ttft_ms": 290.0},
            "client": {"verdict": "client: ok", "word": "ok", "trustworthy": true}, "caveats": [{"kind": "drift", "text": "it drifts"}], "intervals": {"mean_ttft_ms": [250.0, 350.0], "mean_e2el_ms": [700.0, null]},
            "long_run": {"p99_ttft_ms": {"value": 1.5, "explained": 0.9}}, "scores": [{"key": "score_tone", "count": 4, "mean": 0.5}],
            "groups": {"class": {"a": {"mean_ttft_ms": 275.0, "completed": 2, "intervals": {"mean_ttft_ms": [200.0, 300.0]}, "outcomes": {"complete": 2}}, "b": {"mean_ttft_ms": 350.0}}},
            "server_metrics": {"times": [0.0, 1.0], "series": {"a": [1, null], "b_total": [2, 5], "short": [1]}, "summary": {"a": {}, "b_total": {"delta": 3}, "short": {}}},
            "provenance": {"dataset": "d", "server": {"engine": "vLLM", "version": "1"}}}}"#;
    parse(text).unwrap().as_dict().unwrap().clone()
}

fn stored(table: &mut Table) {
    let run = StoredRun::from_dict(&detailed()).unwrap();
    table.add(
        "stored",
        &(
            run.kind(),
            run.details(),
            run.failures(),
            run.is_empty(),
            run.is_detailed(),
            run.workload(),
            run.provenance(),
        ),
    );
    table.add(
        "load",
        &(run.is_burst(), run.offered_rate(), run.kept_up(), run.is_paced(), run.has_other_workload_version()),
    );
    table.add("times", &MetricKind::ALL.map(|kind| run.times_ms(kind)));
    let keys = [
        "mean_ttft_ms",
        "p75_ttft_ms",
        "a.mean_ttft_ms",
        "class.b.mean_ttft_ms",
        "score_tone",
        "max_concurrency",
        "missing",
    ];
    table.add(
        "numbers",
        &keys.map(|key| {
            (run.number(key), run.interval(key), run.has_intervals(key), run.spread(key).map(|spread| spread.value))
        }),
    );
    let view = run.view();
    let steady = view
        .steady_state()
        .map(|steady| (steady.reached("mean_ttft_ms"), steady.request_throughput(), steady.is_stable()));
    table.add(
        "fields",
        &(
            view.planned_rate(),
            view.delivered_rate(),
            view.long_run("p99_ttft_ms"),
            view.score_count("score_tone"),
            view.ended_badly(),
            steady,
        ),
    );
    table.add("caveats", &view.caveats());
    table.add("samples", &run.samples());
    table.add("names of groups", &run.group_names());
    let group = run.group("class.a").unwrap();
    table.json("group", &group.fields);
    table.add("its times", &(group.times_ms(MetricKind::Ttft), group.failures(), group.is_paced()));
    let pooled = StoredRun::pooled(&[run.clone(), run.clone()]);
    table.json("pooled", &pooled.fields);
    table.add("its samples", &pooled.samples().iter().map(|sample| (sample.sent, sample.latency)).collect::<Vec<_>>());
    let found = restored(&detailed(), |setup| setup.self_timed = true).unwrap().unwrap();
    table.add("restored", &(&found.record.setup, &found.record.measured, &found.client, &found.warnings));
    table.add("its metrics", &values(&found.record));
    for missing in ["latencies", "ttfts", "itls", "input_lens", "output_lens"] {
        let mut without = detailed();
        without.remove(missing);
        assert!(restored(&without, |_| ()).unwrap().is_none(), "{missing}");
    }
    // vLLM's own file: no times of tacho.
    let mut plain = detailed();
    plain.remove("tacho");
    let found = restored(&plain, |_| ()).unwrap().unwrap();
    table.add("restored from vLLM", &found.record.measured.samples);
    for wrong in [
        r#"{"latencies": [1.0], "queue_times": [1.0, 2.0]}"#,
        r#"{"latencies": ["x"]}"#,
        r#"{"latencies": [1.0], "itls": [1.0]}"#,
        r#"{"latencies": [1.0], "tacho": {"version": 1, "labels": [{"a": 1}]}}"#,
        r#"{"mean_ttft_ms": -1.0}"#,
        r#"{"duration": 1.0, "tacho": {"version": 3}}"#,
    ] {
        table.add("refused", &StoredRun::from_dict(parse(wrong).unwrap().as_dict().unwrap()).unwrap_err().to_string());
    }
    // Every condition under which a run is one burst, and each that prevents it.
    let burst = |more: &str| {
        let text =
            format!(r#"{{"request_rate": "inf", "completed": 3, "failed": 1, "latencies": [1.0, 2.0, 3.0]{more}}}"#);
        text_run(&text).is_burst()
    };
    let conditions = [
        "",
        r#", "max_concurrency": 3"#,
        r#", "max_concurrency": 4"#,
        r#", "ramp_up_strategy": "linear""#,
        r#", "tacho": {"version": 1, "session": [0, 0, 1]}"#,
        r#", "tacho": {"version": 1, "sessions": {}}"#,
        r#", "tacho": {"version": 1}"#,
    ];
    table.add("bursts", &conditions.map(burst));
    let burst = |change: fn(&mut Setup), sessions: bool| {
        let mut setup = Setup { request_rate: f64::INFINITY, max_concurrency: None, stages: vec![], ..setup() };
        change(&mut setup);
        let mut samples: Samples = samples().iter().take(20).map(|one| one.into_owned()).collect();
        samples.change(|samples| samples.iter_mut().for_each(|one| one.session = sessions.then_some((0, 0))));
        RunRecord::compute(setup, Measured { samples, duration: 3.0, ..Measured::default() }).is_burst()
    };
    let changes: [fn(&mut Setup); 5] = [
        |_| (),
        |setup| setup.request_rate = 3.0,
        |setup| setup.self_timed = true,
        |setup| setup.max_concurrency = Some(19),
        |setup| setup.max_concurrency = Some(20),
    ];
    table.add("bursts of records", &(changes.map(|change| burst(change, false)), burst(|_| (), true)));
    let same = |one: &str, other: &str| text_run(one).is_same_run(&text_run(other));
    let timed = r#"{"duration": 2.0, "completed": 3, "label": "a"}"#;
    let others = [
        timed,
        r#"{"duration": 2.0, "p99_ttft_ms": 5.0}"#,
        r#"{"duration": 3.0, "completed": 3}"#,
        r#"{"completed": 3}"#,
        r#"{"x": 1}"#,
    ];
    table.add("same runs", &others.map(|other| (same(timed, other), same(other, timed), same(other, other))));
    let detailed = |text: &str| text_run(text).details();
    let details = [
        r#"{"a": 1, "latencies": [1.0, 2.0]}"#,
        r#"{"latencies": [1.0], "ttfts": [0.5]}"#,
        r#"{"latencies": [1.0], "start_times": [0.5]}"#,
    ];
    table.add("details", &details.map(detailed));
    let queues = ["", r#", "drift": -0.1"#, r#", "drift": 0.0"#].map(|drift| {
        format!(
            r#"{{"request_rate": 2.0, "tacho": {{"version": 1, "steady_state": {{"queue_unstable": false{drift}}}}}}}"#
        )
    });
    table.add(
        "queues",
        &queues.map(|text| {
            (text_run(&text).kept_up(), text_run(&text).view().steady_state().map(|steady| steady.is_stable()))
        }),
    );
    let kinds = [
        r#"{"avg_latency": 1, "percentiles": {}}"#,
        r#"{"avg_warm_startup_time": 1}"#,
        r#"{"elapsed_time": 1, "requests_per_second": 1}"#,
        r#"{"duration": 1}"#,
    ];
    table.add("kinds", &kinds.map(|text| ResultKind::of(parse(text).unwrap().as_dict().unwrap())));
}

fn text_run(text: &str) -> StoredRun {
    StoredRun::from_dict(parse(text).unwrap().as_dict().unwrap()).unwrap()
}

fn several(table: &mut Table) {
    let run = |scale: f64| {
        let mut samples = samples();
        samples.change(|samples| {
            samples
                .iter_mut()
                .for_each(|sample| (sample.ttft, sample.latency) = (sample.ttft * scale, sample.latency * scale))
        });
        RunRecord::compute(setup(), Measured { samples, ..measured() })
    };
    let runs = [run(1.0), run(1.1), run(0.95)];
    table.add("several", &MultiRun::of(&runs));
    table.add("one", &MultiRun::of(&runs[..1]).get("mean_ttft_ms").map(|spread| (spread, spread.variation())));
    table.add("variation", &MultiRun::of(&runs).get("mean_ttft_ms").and_then(|spread| spread.variation()));
    let points = [1.0, 1.1].map(|scale| Point::of(format!("scale {scale}"), scale, &run(scale), &[99.0, 50.0]));
    table.add("points", &points);
    table.add("best", &points::best(&points).map(|(point, rate)| (point.load, rate)));
    table.add("failed point", &Point::failed("x".to_owned(), 4.0, "why".to_owned(), &[75.0]));
}

fn history(table: &mut Table) {
    let entry = |text: &str, tags: &[(&str, &str)]| {
        let tags: Vec<_> = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Entry::new(parse(text).unwrap().as_dict().unwrap(), "2026-11-03T10:20:30Z", "a/r.json", &tags)
    };
    let serving = r#"{"model_id": "m", "backend": "b", "label": "l", "request_rate": 2.0, "max_concurrency": 8, "num_prompts": 5, "burstiness": 1.0, "duration": 2.0, "completed": 4, "request_throughput": 2.0,
        "output_throughput": 80.0, "mean_tpot_ms": 20.0, "run_number": 1, "max-num-seqs": 8, "backend": "c", "tensor_parallel_size": 4, "tacho": {"output_divergence": 0.5, "workload": "v2:ab",
        "caveats": [{"kind": "requests_failed", "text": ""}, {"kind": "drift", "text": ""}], "telemetry": {"joules_per_output_token": 1.5}, "provenance": {"dataset": "d", "server": {"engine": "e"}},
        "client": {"word": "STARVED", "bounds": {"mean_tpot_ms": [15.0, 20.0]}}}}"#;
    let first = entry(serving, &[("commit", "0123456789abcdef"), ("api_key", "s"), ("branch", "main")]).unwrap();
    table.add("entry", &dumps(&first.to_json()));
    table.add(
        "its name",
        &(
            first.name(),
            first.about("kind"),
            first.about("branch"),
            first.about("model_id"),
            first.metric("mean_tpot_ms"),
        ),
    );
    let texts = [
        r#"{"avg_latency": 1.5, "percentiles": {"50": 1.0}, "model_id": "m"}"#,
        r#"{"avg_cold_startup_time": 9.0, "avg_warm_startup_time": 4.0}"#,
        r#"{"elapsed_time": 3.0, "num_requests": 8, "requests_per_second": 2.7, "tokens_per_second": 50.0}"#,
        r#"{"criteria": ["a", "b"], "variable": "request_rate", "verdict": "found", "max_measured": 12.5, "estimate": 13.0, "achieved": {"p99_ttft_ms": 150.0}}"#,
        r#"{"criteria": ["a"], "variable": "request_rate", "verdict": "inconclusive", "max_measured": 12.5, "estimate": 13.0}"#,
        r#"{"type": "ab-test", "stopped": "decided", "pairs": 4, "rules": [{"metric": "mean_tpot_ms", "b": 11.0, "change": 0.1}]}"#,
        r#"{"type": "ab-test", "stopped": "failed", "pairs": 4}"#,
        r#"{"type": "ab-test", "stopped": "decided", "pairs": 0}"#,
        r#"{"duration": 2.0, "completed": 0, "request_throughput": 0.0}"#,
        r#"{"duration": 2.0, "completed": 1, "request_throughput": 0.5, "tacho": {"interrupted": true}}"#,
        r#"{"criteria": ["a"], "variable": "x"}"#,
    ];
    for text in texts {
        match entry(text, &[]) {
            Ok(mut entry) => {
                entry.settings_of(&first);
                table.add("entry", &dumps(&entry.to_json()));
            }
            Err(error) => table.add("not added", &error.to_string()),
        }
    }
    let second = entry(&serving.replace("\"m\"", "\"n\""), &[("commit", "2"), ("branch", "dev")]).unwrap();
    let all = [first, second];
    table.add("series", &names(&series(&all, &[])));
    table.add("across", &names(&series(&all, &["branch".to_owned(), "model_id".to_owned()])));
    table.add("differences", &differences(&all[0], &all[1]));
    table.add(
        "values",
        &series(&all, &[])
            .iter()
            .map(|one| one.values("request_throughput").1.len() + 10 * one.values("mean_tpot_ms").2)
            .collect::<Vec<_>>(),
    );
    table.add(
        "directions",
        &[
            "capacity",
            "capacity_estimate",
            "tokens_per_second_per_user",
            "joules_per_output_token",
            "change_mean_tpot_ms",
            "failed",
            "x",
        ]
        .map(better),
    );
    assert!(
        all[0].fits(&[("branch".to_owned(), "main".to_owned())])
            && !all[0].fits(&[("branch".to_owned(), "dev".to_owned())])
    );
    let fields = |text: &str| ResultFields(parse(text).unwrap().as_dict().unwrap()).failures();
    let counts = [
        r#"{"completed": 3, "failed": 2, "num_prompts": 9}"#,
        r#"{"completed": 3, "num_prompts": 9}"#,
        r#"{"completed": 3, "tacho": {"outcomes": {"complete": 3, "x": 4}}}"#,
        r#"{"completed": 3}"#,
        "{}",
    ];
    table.add("failures", &counts.map(fields));
}

#[test]
fn parts_of_the_catalog_are_contiguous() {
    let mut parts: Vec<Part> = METRICS.iter().map(|metric| metric.part).collect();
    parts.dedup();
    let known = parts.iter().enumerate().all(|(at, part)| !parts[..at].contains(part));
    assert!(known, "{parts:?}");
}

#[test]
fn files_of_older_versions_lack_keys() {
    let provenance = Provenance::from_json(&parse("{}").unwrap()).unwrap();
    assert_eq!(
        (provenance, ServerFacts::from_json(&parse("{}").unwrap())),
        (Provenance::default(), Ok(ServerFacts::default()))
    );
    let text = r#"{"duration": 2.0, "speculative": null, "diffusion": null, "probe": null, "workers": []}"#;
    let measured = Measured::from_json(&parse(text).unwrap()).unwrap();
    assert_eq!(measured, Measured { duration: 2.0, ..Measured::default() });
    assert_eq!((measured.origin, measured.missed_rows, measured.ranks.len()), (0.0, None, 0));
    let text = r#"{"version": 1, "id": "a", "time": "t", "source": "s", "kind": "serving"}"#;
    let entry = Entry::from_json(&parse(text).unwrap()).unwrap();
    assert!(entry.tags.is_empty() && entry.settings.is_empty() && entry.metrics.is_empty());
    assert!(entry.warnings.is_empty() && entry.doubtful.is_empty());
}
