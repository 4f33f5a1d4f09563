//! Every metric of a run has a known answer here: its value in a record whose measurements are given.

use tacho_core::{Labels, OutputCheck, json::parse};
use tacho_metrics::sessions::{SessionStep, SessionSummary};
use tacho_metrics::{
    Acceptance, AcceptanceLength, Audio, DiffusionStatistics, Fluidity, GoodputLimits, Media, MetricSettings,
    ProbeStatistics, RareFields, Sample, Setup, SpeculativeStatistics, Task,
};
use tacho_record::metric::{METRICS, Part, Timed, lines};
use tacho_record::{Measured, ResultFields, RunRecord};

/// Two requests of a run of 10 s, one of each class: TTFT 0.5 s, latency 1.75 s and 3 s, 11 output tokens.
fn samples() -> Vec<Sample> {
    let one = |index: usize, latency: f64, class| Sample {
        index,
        scheduled: index as f64,
        sent: index as f64,
        done: index as f64 + latency,
        ttft: 0.5,
        latency,
        output_len: 11,
        prompt_len: 200,
        num_input_sequences: 3,
        itl: vec![(latency - 0.5) / 10.0; 10].into(),
        rare: RareFields { labels: Labels::NONE.with("class", class), ..RareFields::default() }.into(),
        ..Sample::default()
    };
    vec![one(0, 1.75, "chat"), one(1, 3.0, "batch")]
}

fn record(task: Task, samples: Vec<Sample>) -> RunRecord {
    let metrics = MetricSettings {
        goodput: Some(GoodputLimits { ttft_ms: None, tpot_ms: None, e2el_ms: Some(2000.0) }),
        price_per_hour: Some(3.6),
        gpus: Some(4),
        ..MetricSettings::default()
    };
    let measured = Measured {
        samples: samples.into(),
        duration: 10.0,
        speculative: Some(SpeculativeStatistics {
            acceptance_rate: 60.0,
            acceptance_length: 2.5,
            drafts: 10,
            draft_tokens: 40,
            accepted_tokens: 24,
            per_position: vec![0.5],
        }),
        diffusion: Some(DiffusionStatistics {
            committed_throughput: 1.5,
            steps_per_canvas: 2.5,
            committed_per_step: 3.5,
            committed_tokens: 4,
            denoising_steps: 5,
            canvas_positions: 6,
        }),
        probe: Some(ProbeStatistics { completed: 8, failed: 1, median_ms: 1.0, p99_ms: 2.0, max_ms: 3.0 }),
        missed_rows: Some(7),
        ..Measured::default()
    };
    RunRecord::compute(Setup { task, metrics, ..Setup::example() }, measured)
}

fn generation() -> RunRecord {
    let mut record = record(Task::Generation, samples());
    record.open_loop.fluidity = Some(Fluidity { index: 0.75, goodput: 0.1, good: 1, stalled: 0 });
    let length = AcceptanceLength { mean: 2.0, median: 3.0, p10: 1.0 };
    record.open_loop.acceptance = Some(Acceptance { responses: 2, rate: 0.25, length: Some(length) });
    let steps = [0, 1].map(|session| SessionStep { session, sends: true, ..SessionStep::default() });
    let samples = samples();
    let sent: Vec<(usize, &Sample)> = samples.iter().enumerate().collect();
    record.sessions = Some(SessionSummary::of(&steps, &sent, None));
    record
}

fn media() -> RunRecord {
    let audio = Audio { frames: 24_000, duration: 4.0, underrun: 0.5, underruns: 2 };
    let media = [Media::Images(3), Media::Audio(Some(audio))];
    let with =
        |(sample, media)| Sample { rare: RareFields { media: Some(media), ..RareFields::default() }.into(), ..sample };
    record(Task::Media, samples().into_iter().zip(media).map(with).collect())
}

/// The output of the second request differs and belongs to the first; both differ alone. A quarter of the answers is right.
fn checked() -> RunRecord {
    let with = |(sample, first_difference, accuracy): (Sample, Option<u32>, f64)| {
        let check = OutputCheck {
            reference: sample.index as u32,
            first_difference,
            alone_differs: Some(true),
            belongs_to: first_difference.map(|_| 0),
            mean_kl: Some(accuracy),
            max_kl: Some(2.0 * accuracy),
            ..OutputCheck::default()
        };
        let scores = parse(&format!("{{\"accuracy\": {accuracy}}}")).ok();
        Sample { rare: RareFields { check: Some(check), scores, ..RareFields::default() }.into(), ..sample }
    };
    let found = [(None, 0.5), (Some(3), 0.0)];
    let samples = samples().into_iter().zip(found).map(|(sample, (differs, score))| (sample, differs, score));
    record(Task::Generation, samples.map(with).collect())
}

/// The key of a metric, the run, and its value there.
type Answer = (&'static str, fn() -> RunRecord, f64);

#[test]
fn every_metric_has_a_known_answer() {
    let answers: [Answer; 58] = [
        ("duration", generation, 10.0),
        ("completed", generation, 2.0),
        ("failed", generation, 0.0),
        ("total_input_tokens", generation, 400.0),
        ("total_output_tokens", generation, 22.0),
        ("total_input_sequences", || record(Task::Pooling, samples()), 6.0),
        ("request_throughput", generation, 0.2),
        ("request_goodput", generation, 0.1),
        ("output_throughput", generation, 2.2),
        ("input_sequence_throughput", || record(Task::Pooling, samples()), 0.6),
        ("total_token_throughput", generation, 42.2),
        ("max_output_tokens_per_s", generation, 9.0),
        ("max_concurrent_requests", generation, 2.0),
        ("rtfx", generation, 0.0),
        ("probe_completed", generation, 8.0),
        ("probe_failed", generation, 1.0),
        ("probe_median_e2el_ms", generation, 1.0),
        ("probe_p99_e2el_ms", generation, 2.0),
        ("probe_max_e2el_ms", generation, 3.0),
        ("spec_decode_acceptance_rate", generation, 60.0),
        ("spec_decode_acceptance_length", generation, 2.5),
        ("spec_decode_num_drafts", generation, 10.0),
        ("spec_decode_draft_tokens", generation, 40.0),
        ("spec_decode_accepted_tokens", generation, 24.0),
        ("diffusion_committed_throughput", generation, 1.5),
        ("diffusion_steps_per_canvas", generation, 2.5),
        ("diffusion_committed_per_step", generation, 3.5),
        ("diffusion_committed_tokens", generation, 4.0),
        ("diffusion_denoising_steps", generation, 5.0),
        ("diffusion_canvas_positions", generation, 6.0),
        ("total_audio_duration_s", media, 4.0),
        ("total_audio_frames", media, 24_000.0),
        ("audio_throughput", media, 0.4),
        ("audio_continuity_ok_rate", media, 0.0),
        ("total_images", media, 3.0),
        ("image_throughput", media, 0.3),
        ("audio_underruns", media, 2.0),
        ("row_command_missed", generation, 7.0),
        ("fluidity_index", generation, 0.75),
        ("fluid_goodput", generation, 0.1),
        // Speeds of 11/1.75 and 11/3 tokens per second.
        ("class_fairness", generation, (1.0 / 1.75 + 1.0 / 3.0_f64).powi(2) / (2.0 * (1.0 / 3.0625 + 1.0 / 9.0))),
        ("draft_acceptance_rate", generation, 25.0),
        ("mean_acceptance_length", generation, 2.0),
        ("median_acceptance_length", generation, 3.0),
        ("p10_acceptance_length", generation, 1.0),
        ("output_divergence", checked, 0.5),
        ("output_divergence_alone", checked, 1.0),
        ("mean_kl_divergence", checked, 0.25),
        ("max_kl_divergence", checked, 1.0),
        ("swapped_outputs", checked, 1.0),
        ("accuracy", checked, 0.25),
        ("jobs_per_hour", generation, 720.0),
        ("jobs_per_hour_per_user", generation, 3600.0 / 2.375),
        ("jobs_per_hour_per_gpu", generation, 180.0),
        ("output_throughput_per_gpu", generation, 0.55),
        ("cost_per_request", generation, 0.005),
        ("cost_per_million_output_tokens", generation, 1000.0 / 2.2),
        ("cost_per_million_tokens", generation, 1000.0 / 42.2),
    ];
    let table = METRICS.iter().filter(|metric| !matches!(metric.part, Part::Offline(_)));
    assert_eq!(table.clone().map(|metric| metric.key).collect::<Vec<_>>(), answers.map(|(key, ..)| key));
    let mut wrong = Vec::new();
    for (metric, (key, record, expected)) in table.zip(answers) {
        let found = (metric.read)(&record()).and_then(|amount| amount.as_f64());
        if !found.is_some_and(|found| (found - expected).abs() <= 1e-9 * expected.abs()) {
            wrong.push((key, found, expected));
        }
    }
    assert_eq!(wrong, []);
}

#[test]
fn metrics_that_a_run_does_not_have_are_left_out() {
    let mut record = generation();
    record.setup.metrics = MetricSettings::default();
    (record.measured.probe, record.sessions) =
        (Some(ProbeStatistics { completed: 0, ..record.measured.probe.unwrap() }), None);
    record.groups.truncate(1);
    for key in ["cost_per_request", "output_throughput_per_gpu", "jobs_per_hour", "probe_failed", "class_fairness"] {
        let metric = METRICS.iter().find(|metric| metric.key == key).unwrap();
        assert_eq!((metric.read)(&record), None, "{key}");
    }
}

#[test]
fn the_report_has_the_metrics_with_a_label_in_its_own_order() {
    let keys = |part| lines(&[part]).into_iter().map(|metric| metric.key).collect::<Vec<_>>();
    let totals = [
        "completed",
        "failed",
        "duration",
        "total_input_tokens",
        "total_output_tokens",
        "request_throughput",
        "input_sequence_throughput",
        "request_goodput",
        "output_throughput",
        "total_token_throughput",
    ];
    assert_eq!((keys(Part::Totals), keys(Part::Tacho)), (totals.to_vec(), Vec::new()));
}

#[test]
fn stored_intervals_come_back() {
    let text = r#"{"tacho": {"intervals": {"a": [1.0, 2.0], "b": [1.0, null], "c": [null, 2.0]}}}"#;
    let result = parse(text).unwrap();
    let interval = |key| ResultFields(result.as_dict().unwrap()).interval(key).map(|found| (found.low, found.high));
    assert_eq!(["a", "b", "c"].map(interval), [Some((1.0, 2.0)), Some((1.0, f64::INFINITY)), None]);
}

#[test]
fn headings_of_latencies_name_the_statistic() {
    let heading = |key: &str| Timed::find(key).map(|timed| timed.heading());
    let named = ["mean_ttft_ms", "median_ttft_ms", "p75_ttft_ms", "p99.9_tpot_ms"].map(|key| heading(key).unwrap());
    assert_eq!(named, ["Mean TTFT (ms)", "Median TTFT (ms)", "P75 TTFT (ms)", "P99.9 TPOT (ms)"]);
    assert_eq!((heading("p100.5_ttft_ms"), heading("p_ttft_ms"), heading("p50_ttft")), (None, None, None));
}
