//! All metrics of a run in which everything occurs, its warnings, and the names in files.

use tacho_core::json::{Json, dumps, parse};
use tacho_core::{Drafts, FailureKind, Flaw, Labels, Observation, OutputCheck, StageSpan, Timestamp};
use tacho_metrics::attribution::{AttributedRequest, Attribution, Explained, Part, Parts, QueueLimit};
use tacho_metrics::concurrency::{PerSecond, exact_peak, peak_tokens};
use tacho_metrics::multi_turn::{TurnSample, TurnTokens};
use tacho_metrics::offline::{self, OfflineKind, Phase, Start, Startup, Throughput, encoder_calls, stage_statistics};
use tacho_metrics::replicas::{self, ReplicaHealth};
use tacho_metrics::sessions::{SessionStep, Steps};
use tacho_metrics::structured::{JudgedResponse, StructuredSummary, Verdict};
use tacho_metrics::trust::TrustVerdict;
use tacho_metrics::vocabulary::{self, Concept};
use tacho_metrics::{
    Audio, Caveat, DiffusionCounters, DiffusionStatistics, Fluidity, GoodputLimits, Media, MetricKind, MetricSettings,
    OpenLoopMetrics, PerToken, ProbeStatistics, RareFields, Rates, Sample, Samples, SeriesKind, ServerMetrics, Setup,
    SpeculativeCounters, SpeculativeStatistics, Steady, Summary, Task, Telemetry, TimestampedBy, TokenSource, Trust,
    WorkerUse, outputs::Dependence, server_metrics, trust,
};

use crate::{Table, open_loop, setup};

#[test]
fn summaries_are_the_same_as_before() {
    let mut table = Table::default();
    all_metrics(&mut table);
    media(&mut table);
    sessions(&mut table);
    structured(&mut table);
    trust_of_clients(&mut table);
    warnings(&mut table);
    attribution(&mut table);
    servers(&mut table);
    turns_and_offline(&mut table);
    tacho_testkit::assert_golden_numbers("known/summaries.txt", &table.0);
}

/// A run with failures, retries, classes, replicas, reasoning, drafts, checks and scores.
fn varied() -> Samples {
    let mut samples = open_loop(120, 60.0, 13);
    samples.change(|samples| {
        for sample in samples {
            let at = sample.index;
            sample.dispatched = sample.scheduled + 0.0005 * (at % 5) as f64;
            sample.sent = sample.dispatched + 0.002 * (at % 3) as f64;
            sample.done = sample.sent + sample.latency;
            let failures =
                [(17, 5, FailureKind::TimedOut), (29, 7, FailureKind::Cancelled), (31, 9, FailureKind::Aborted)];
            sample.failure = failures.into_iter().find(|(of, rest, _)| at % of == *rest).map(|(.., failure)| failure);
            if sample.failure.is_some() {
                (sample.latency, sample.output_len, sample.output_tokens) = (0.0, 0, None);
            }
            (sample.retries, sample.coalesced) = (u32::from(at % 10 == 3) * 2, (at % 4) as u32);
            sample.connect = if at % 6 == 0 { 0.003 } else { 0.0 };
            sample.first_content = Some(sample.ttft + if at % 2 == 0 { 0.005 } else { 0.0 });
            sample.first_answer = (at % 5 == 0).then_some(sample.ttft + 0.03);
            sample.has_text = at % 7 != 0;
            sample.output_tokens = sample.output_tokens.filter(|_| at % 11 != 4);
            sample.cached_tokens = Some((at % 3 * 16) as u64);
            sample.num_input_sequences = 1 + (at % 2) as u64;
            let labels =
                Labels::NONE.with("class", ["chat", "batch"][at % 2]).with("replica", ["a:1", "b:1"][at / 2 % 2]);
            let (differs, number) = (at % 4 == 1, at as f64);
            sample.rare = RareFields {
                labels,
                per_token: (at % 9 == 2).then(|| PerToken { source: TokenSource::Usage, gaps: vec![0.002, 0.004] }),
                reasoning_tokens: (at % 5 == 0).then_some(2),
                drafts: Some(Drafts { steps: Some(2 + (at % 3) as u32), tokens: 8, accepted: (at % 8) as u32 }),
                input_audio_duration: 0.5,
                input_end: (at % 8 == 0).then_some(0.01),
                check: (at % 3 == 0).then(|| OutputCheck {
                    reference: at as u32 / 6,
                    first_difference: differs.then_some(at as u32),
                    edits: 3,
                    alone_differs: (at % 6 == 3).then_some(at % 4 == 1),
                    belongs_to: (at % 25 == 9).then_some(1),
                    flaws: if differs { 1 << Flaw::Garbled as u32 } else { 0 },
                    first_token: differs.then_some(at as u32 / 2),
                    mean_kl: Some(0.001 * number),
                    max_kl: Some(0.01 * number),
                    ..OutputCheck::default()
                }),
                scores: parse(&format!("{{\"accuracy\": {}, \"tone\": {:?}}}", at % 2, 0.25 * (at % 4) as f64)).ok(),
                error: if sample.failure.is_some() { "late\nmore".to_owned() } else { String::new() },
                ..RareFields::default()
            }
            .into();
        }
    });
    samples
}

/// Limits for all, and others for the class `batch`.
fn limited() -> Setup {
    let limits = |ttft, tpot| GoodputLimits { ttft_ms: Some(ttft), tpot_ms: Some(tpot), e2el_ms: None };
    let metrics = MetricSettings {
        goodput: Some(limits(50.0, 11.0)),
        class_goodput: vec![("batch".to_owned(), limits(30.0, 10.0))],
        ..MetricSettings::default()
    };
    Setup { metrics, request_rate: 60.0, max_concurrency: Some(64), num_prompts: 130, ..setup(0.0) }
}

fn all_metrics(table: &mut Table) {
    let (samples, setup) = (varied(), limited());
    for task in [Task::Generation, Task::Pooling] {
        let setup = Setup { task, ..setup.clone() };
        table.add("vLLM's metrics", &Summary::of(&setup, &samples, 2.5));
        table.add("own metrics", &OpenLoopMetrics::of(&setup, &samples, 2.5));
    }
    let buckets = PerSecond::of(&samples);
    table.add("peaks", &(buckets.peak_events(), buckets.peak_requests(), exact_peak(&samples), peak_tokens(&samples)));
    let late: Samples = [0.0, 0.25, 0.999, 1.0, 3.5]
        .map(|sent| Sample {
            sent,
            latency: 0.75,
            done: sent + 0.75,
            ttft: 0.5,
            itl: vec![0.25].into(),
            output_len: 4,
            ..Sample::default()
        })
        .into();
    let buckets = PerSecond::of(&late);
    table.add("buckets", &(buckets, exact_peak(&late), peak_tokens(&late)));
    table.add("probes", &ProbeStatistics::of(vec![0.25, 0.75, 0.3], 3));
    let metric = |kind| setup.reports(kind) as u8;
    table.add("reported metrics", &MetricKind::ALL.map(metric));
}

fn media(table: &mut Table) {
    let mut samples = varied();
    samples.change(|samples| {
        for sample in samples {
            let (at, seconds) = (sample.index as u64, 0.2 + 0.01 * sample.index as f64);
            let audio =
                Audio { frames: 240 * at, duration: seconds, underrun: 0.05 * (at % 4) as f64, underruns: at % 3 };
            sample.media = match at % 4 {
                0 => Some(Media::Images(at % 3)),
                1 => Some(Media::Audio(None)),
                2 => None,
                _ => Some(Media::Audio(Some(audio))),
            };
        }
    });
    let setup = Setup { task: Task::Media, ..limited() };
    table.add("media", &Summary::of(&setup, &samples, 2.5));
    let open_loop = OpenLoopMetrics::of(&setup, &samples, 2.5);
    table.add("warnings of media", &Caveat::all(&setup, &samples, &open_loop, None));
}

fn sessions(table: &mut Table) {
    let step = |index: usize| {
        let before = (index % 4).checked_sub(1).map(|_| index - 1);
        SessionStep {
            session: index / 4,
            turn: index % 4,
            child: index % 4 == 2,
            at: Some(0.1 * (index % 4) as f64),
            parents: before.iter().map(|before| (*before, 0.02 * (index % 3) as f64)).collect(),
            sends: index % 24 != 23,
            own: vec![(index as u64 % 8, 40)],
            before: before.iter().map(|before| (*before, 0)).collect(),
            ..SessionStep::default()
        }
    };
    let steps = Steps { steps: (0..120).map(step).collect(), indices: (0..120).collect(), ..Steps::default() };
    let samples: Samples =
        varied().iter().filter(|one| one.index < 100 && one.index % 24 != 23).map(|one| one.into_owned()).collect();
    for block in [None, Some(32)] {
        table.add("sessions", &dumps(&steps.summary(&samples, block).to_json()));
    }
    let mut named = samples;
    steps.name(&mut named);
    table.add("names of sessions", &named.iter().take(6).map(|one| one.session).collect::<Vec<_>>());
    assert!(SessionStep::have_order(&steps.steps));
}

fn structured(table: &mut Table) {
    let response = |sample: Sample| {
        let at = sample.index;
        let known = |of: usize| (!at.is_multiple_of(of)).then_some(at.is_multiple_of(2));
        let verdict = Verdict { loose: known(5), parses: known(3), obeys: known(7) };
        JudgedResponse { sample, expected: None, constrained: at % 4 != 1, fresh: at % 8 == 2, verdict }
    };
    let responses: Vec<_> = varied().iter().map(|sample| response(sample.into_owned())).collect();
    let found = StructuredSummary::of(&responses, &limited(), 2.5);
    table.add("structured", &(found.loose_rate, found.ttft, found.tpot, found.fresh, found.familiar));
    table.add("valid", &(found.constrained, found.constrained.rate(), found.unconstrained, found.unconstrained.rate()));
    table.add("requested", &found.latencies);
}

fn trust_of_clients(table: &mut Table) {
    let (mut samples, setup) = (varied(), limited());
    samples.change(|samples| {
        for sample in samples.iter_mut().filter(|sample| sample.index % 4 == 0) {
            sample.itl = sample.itl.iter().enumerate().map(|(at, gap)| if at % 3 == 0 { 0.0 } else { gap }).collect();
        }
    });
    let summary = Summary::of(&setup, &samples, 2.5);
    let own = OpenLoopMetrics::of(&setup, &samples, 2.5);
    let worker = |busy, late_coalesced, kernel_timestamps| WorkerUse {
        busy,
        late_coalesced,
        kernel_timestamps,
        wake_lags: vec![0.001, 0.002, 0.004],
        late_spans: if late_coalesced > 0 { vec![0.02, 0.03] } else { vec![] },
        events: 700,
        coalesced: 90,
        connections: 5,
        connect_failures: 1,
    };
    let clients = [worker(0.3, 0, true), worker(0.3, 300, true), worker(0.7, 300, true), worker(0.7, 0, false)];
    for client in &clients {
        let found = Trust::of(&setup, &samples, &summary, &own, &[client.clone(), worker(0.2, 0, true)]).unwrap();
        table.add("client", &(found.text(), found.effect(), found.verdict.word()));
        table.add("its trust", &found);
    }
    assert!(Trust::of(&setup, &samples, &summary, &own, &[]).is_none());
    // Later than the schedule by `late` s, or at the `stretch`-fold of its gaps.
    let moved = |late: f64, stretch: f64, jitter: f64| {
        let mut samples = open_loop(400, 60.0, 14);
        samples.change(|samples| {
            for sample in samples {
                let noise = jitter * (sample.index * 7919 % 13) as f64;
                sample.dispatched = sample.scheduled * stretch + late + noise;
                sample.sent = sample.dispatched;
            }
        });
        let own = OpenLoopMetrics::of(&setup, &samples, 2.5);
        let found = Trust::of(&setup, &samples, &Summary::of(&setup, &samples, 2.5), &own, &clients[..1]).unwrap();
        (found.text(), found.verdict, found.arrival_distance)
    };
    for (late, stretch, jitter) in
        [(0.0, 1.0, 0.0), (0.004, 1.0, 0.0), (0.1, 1.0, 0.0), (0.0, 1.04, 0.0), (-0.5, 1.06, 0.0), (-0.004, 1.0, 0.003)]
    {
        table.add("load", &moved(late, stretch, jitter));
    }
    table.add("verdicts", &TrustVerdict::WORDS);
    table.add(
        "large errors",
        &[(2.0, 0.1), (2.0, 0.11), (2.3, 0.11), (1.0, 0.09)].map(|(value, off)| trust::bounds::is_large(value, off)),
    );
}

fn warnings(table: &mut Table) {
    table.add("codes", &Caveat::CODES);
    let (samples, setup) = (varied(), Setup { interrupted: true, ..limited() });
    let own = OpenLoopMetrics::of(&setup, &samples, 2.5);
    let texts = |all: Vec<Caveat>| all.iter().map(|one| (one.kind(), one.severity(), one.text())).collect::<Vec<_>>();
    table.add("warnings", &texts(Caveat::all(&setup, &samples, &own, None)));
    let changed = |change: fn(&mut OpenLoopMetrics)| {
        let mut own = own.clone();
        change(&mut own);
        texts(Caveat::all(&Setup { interrupted: false, ..setup.clone() }, &samples, &own, None)).split_off(4)
    };
    let rates = |dispatched, delivered| Some(Rates { planned: 20.0, dispatched, delivered });
    table.add("no rate", &changed(|own| own.rates = None));
    for change in [
        |own: &mut OpenLoopMetrics| own.rates = None,
        |own: &mut OpenLoopMetrics| own.coalesced_fraction = 0.05,
        |own: &mut OpenLoopMetrics| own.coalesced_fraction = 0.51,
        |own: &mut OpenLoopMetrics| own.fluidity = Some(Fluidity { index: 0.9, goodput: 1.0, good: 100, stalled: 5 }),
        |own: &mut OpenLoopMetrics| own.fluidity = Some(Fluidity { index: 0.9, goodput: 1.0, good: 100, stalled: 6 }),
    ] {
        table.add("changed", &changed(change));
    }
    for (dispatched, delivered) in [(19.0, 19.0), (19.0, 18.9), (18.9, 18.9)] {
        let own = OpenLoopMetrics { rates: rates(dispatched, delivered), ..own.clone() };
        table.add(
            "rates",
            &texts(Caveat::all(&Setup { interrupted: false, ..setup.clone() }, &samples, &own, None)).split_off(4),
        );
    }
    let steady = Steady::of(&setup, &open_loop(600, 120.0, 4)).unwrap();
    table.add("overload", &texts(Caveat::of_steady(Some(&steady))));
    table.add("drift", &texts(Caveat::of_steady(Some(&Steady { backlog: None, drift: Some(0.2), ..steady }))));
    let health = |name: &str, moved, since, removed| ReplicaHealth { name: name.to_owned(), moved, since, removed };
    table.add("replicas", &texts(replicas::caveats(&samples, &[], 0.1)));
    table.add(
        "moved",
        &texts(replicas::caveats(&samples, &[health("a:1", 9, Some(0.5), false), health("b:1", 0, None, true)], 0.1)),
    );
    let mut slow = open_loop(80, 60.0, 15);
    slow.change(|samples| {
        for sample in samples {
            sample.latency = if sample.index % 2 == 0 { 0.25 } else { 0.1 } + 0.0001 * sample.index as f64;
            sample.labels = Labels::NONE.with("replica", ["a:1", "b:1"][sample.index % 2]);
        }
    });
    table.add("slow replica", &replicas::caveats(&slow, &[], 0.0));
}

fn attribution(table: &mut Table) {
    let request = |index: usize, scale: f64| {
        let (mut ttft, mut e2el) = (Parts::default(), Parts::default());
        for (at, part) in Part::ALL.into_iter().enumerate() {
            ttft.add(part, scale * 0.001 * ((index * 7 + at * 3) % 11) as f64);
            e2el.add(part, scale * 0.002 * ((index * 5 + at * 4) % 13) as f64);
        }
        let e2el = e2el.of(400_000_000);
        AttributedRequest { index, gaps: (index % 4) as u64, ttft, e2el, ..AttributedRequest::default() }
    };
    let run = |scale: f64, count: usize, lag| Attribution {
        requests: (0..count).map(|index| request(index, scale)).collect(),
        from_schedule: true,
        content_lag: lag,
        relative: std::array::from_fn(|at| 0.01 * scale * at as f64),
        absolute: std::array::from_fn(|at| 0.0001 * scale * (at + 1) as f64),
        limits: vec![(QueueLimit::Sequences, 2.0 * scale, 16.0), (QueueLimit::Tokens, 1.0, 2048.0 * scale)],
        iterations: 100,
        per_prompt_token: 1e-5 * scale,
        iteration: 0.01 * scale,
    };
    let mut all = run(1.0, 150, None);
    all.append(run(2.0, 60, Some(0.02)));
    for what in Explained::ALL {
        let found = all.breakdown(what).unwrap();
        table.add(
            what.name(),
            &(found, found.total(), found.share(Part::Queue), found.is_unexplained(), found.largest()),
        );
    }
    table.add("limit", &(all.limit(), all.content_lag, all.iterations, all.per_prompt_token, all.iteration));
    let settled = |max, preempted| {
        let mut run = run(1.0, 1, None);
        run.limits.push((QueueLimit::KvCache, 1.5, 9600.0));
        run.settle_cache(max, preempted);
        (run.limit(), run.limits)
    };
    let cases = [(None, true), (Some(0.89), true), (Some(0.9), true), (Some(0.98), true), (Some(0.98), false)];
    table.add("caches", &cases.map(|(max, preempted)| settled(max, preempted)));
    table.add("labels", &Part::ALL.map(|part| (part.name(), part.label(), part.is_own_work())));
}

fn servers(table: &mut Table) {
    let page = |at: i64| {
        let gauge = |name: &str, value: f64| format!("# TYPE {name} gauge\n{name}{{engine=\"0\"}} {value}\n");
        let counter = |name: &str, value: i64| format!("# TYPE {name} counter\n{name} {value}\n");
        let histogram = |name: &str, sum: f64, count: i64| {
            format!("# TYPE {name} histogram\n{name}_bucket{{le=\"1\"}} 2\n{name}_sum {sum}\n{name}_count {count}\n")
        };
        [
            gauge("vllm:num_requests_running", 3.0 + at as f64),
            gauge("vllm:num_requests_waiting", 2.0 * at as f64),
            gauge("vllm:kv_cache_usage_perc", 0.25),
            counter("vllm:prefix_cache_queries_total", 100 * at),
            counter("vllm:prefix_cache_hits_total", 25 * at),
            counter("vllm:num_preemptions_total", 5 + at),
            counter("vllm:prompt_tokens_total", 1000 * at),
            counter("vllm:generation_tokens_total", 700 * at * at),
            histogram("vllm:request_queue_time_seconds", 0.5 * at as f64, 10 * at),
            histogram("vllm:request_prefill_time_seconds", 1.5 * at as f64, 10 * at),
            histogram("vllm:request_decode_time_seconds", 4.5 * at as f64, 10 * at),
            gauge("vllm:cache_config_info", 1.0),
            gauge("python_gc", 1.0),
        ]
        .concat()
    };
    let mut vllm = ServerMetrics::default();
    [0, 1, 3].into_iter().for_each(|at| vllm.add(at as f64 * 0.5, &page(at)));
    table.add("vLLM", &(vllm.tracks("server"), vllm.now(), vllm.prefix_cache_hit_rate()));
    let phase = |phase| (vllm.phase_seconds(phase), vllm.phase_count(phase));
    table.add("phases", &vocabulary::Phase::ALL.map(phase));
    table.add(
        "series",
        &vllm.series.iter().map(|series| (&series.name, series.kind, series.mean(), series.max())).collect::<Vec<_>>(),
    );
    let names = "sglang:num_running_reqs sglang:num_queue_reqs sglang:token_usage sglang:prompt_tokens_total \
        sglang:cached_tokens_total sglang:num_retracted_reqs_total sglang:generation_tokens_total tgi_batch_current_size tgi_queue_size \
        vllm:gpu_cache_usage_perc tgi_request_input_length_sum tgi_request_generated_tokens_sum";
    let concepts = [
        Concept::Running,
        Concept::Waiting,
        Concept::KvUse,
        Concept::PrefixQueries,
        Concept::PrefixHits,
        Concept::Preemptions,
        Concept::PromptTokens,
        Concept::GenerationTokens,
    ];
    for name in names.split_ascii_whitespace() {
        let mut server = ServerMetrics::default();
        let histogram = name.strip_suffix("_sum");
        let (of, kind) = (histogram.unwrap_or(name), if histogram.is_some() { "histogram" } else { "gauge" });
        server.add(0.0, &format!("# TYPE {of} {kind}\n{name} 4\n"));
        table.add(
            name,
            &concepts.into_iter().filter(|concept| server.by_concept(*concept).is_some()).collect::<Vec<_>>(),
        );
    }
    let engines = ["vllm:a 1", "sglang:a 1", "tgi_a 1", "trtllm_a 1", "# HELP vllm:a"];
    table.add("engines", &engines.map(server_metrics::engine));
    let spec = |text: &str, scale: i64| {
        let line = |name: &str, value: i64| format!("vllm:spec_decode_{name}_total{text} {}\n", value * scale);
        let at = |position, value| {
            format!("vllm:spec_decode_num_accepted_tokens_per_pos_total{{position=\"{position}\"}} {}\n", value * scale)
        };
        [line("num_drafts", 10), line("num_draft_tokens", 30), line("num_accepted_tokens", 12), at(0, 8), at(1, 3)]
            .concat()
    };
    let [before, after] =
        [("", 1), ("{a=\"b\"}", 4)].map(|(text, scale)| SpeculativeCounters::parse(&spec(text, scale)).unwrap());
    table.add(
        "drafts",
        &(SpeculativeStatistics::between(&before, &after), SpeculativeStatistics::between(&after, &after)),
    );
    table.add("counters of drafts", &after);
    let counters = |steps, positions, committed| DiffusionCounters { steps, positions, committed };
    table.add("canvases", &DiffusionStatistics::between(counters(10, 640, 32), counters(110, 7040, 1632), 4.0));
}

fn turns_and_offline(table: &mut Table) {
    let mut row = Observation::dispatched(3, Timestamp(1_000_000), Timestamp(2_000_000));
    (row.sent, row.done) = (Timestamp(3_500_000), Timestamp(93_500_000));
    for (text, at) in [("", 13), ("a b c", 33), ("", 40), (" d e", 53), (" f", 83)] {
        row.text.extend(text.bytes());
        row.text_ends.push(row.text.len() as u32);
        row.chunks.push(Timestamp(at * 1_000_000));
    }
    let words = |text: &str| text.split_whitespace().count() as u64;
    let tokens = TurnTokens { messages: 3, input: 40, last: 10 };
    let of = |row: &Observation| TurnSample::of(row, tokens, &words, "talk", 2);
    table.add("turn", &(dumps(&of(&row).to_json().into()), of(&row).metrics(), of(&row).end_time_ms()));
    row.text_ends.clear();
    row.first_content = Some(Timestamp(23_500_000));
    table.add("turn without ends", &of(&row));
    row.chunks.clear();
    table.add("turn that is not streamed", &of(&row));
    let start = |scale: f64| Start {
        startup: 4.0 * scale,
        compilation: 2.0 * scale,
        encoder_compilation: 0.5,
        import: 1.0,
        wall: 6.0,
    };
    let startup = Startup { cold: vec![start(1.0), start(1.5)], warm: vec![start(0.5)], failures: vec![] };
    table.add("starts", &[Phase::Cold, Phase::Warm].map(|phase| (phase.name(), startup.metrics(phase))));
    table.add("a start in a file", &dumps(&start(1.0).to_json()));
    let batch = Throughput {
        times: vec![2.0, 2.5, 3.0],
        profile_seconds: 0.0,
        num_requests: 40,
        failed: 4,
        prompt_tokens: 1000,
        output_tokens: 500,
        media_uncounted: false,
    };
    let rates = (batch.requests_per_second(), batch.tokens_per_second(), batch.output_tokens_per_second());
    table.add("batch", &(rates, batch.total_tokens(), batch.elapsed(), batch.rate_interval(40)));
    let empty = OfflineKind::Throughput(Throughput { failed: 40, ..batch });
    assert!(empty.is_empty() && !OfflineKind::Startup(startup).is_empty());
    table.add("offline percentiles", &offline::percentiles(&[3.0, 1.0, 2.0, 10.0]));
    let request = |text: &str| ("r".to_owned(), parse(text).unwrap().as_dict().unwrap().clone());
    let stages = [
        request(
            r#"{"get_mm_hashes_secs": 0.001, "get_cache_missing_items_secs": 0.002, "apply_hf_processor_secs": 0.004, "merge_mm_kwargs_secs": 0.008,
            "apply_prompt_updates_secs": 0.016, "num_encoder_calls": 2, "encoder_forward": 0.5}"#,
        ),
        request(r#"{"preprocessor_total_secs": 0.1, "apply_hf_processor_secs": 0.09, "num_encoder_calls": 1}"#),
    ];
    table.add("stages", &(stage_statistics(&stages, &[50.0, 99.0]), encoder_calls(&stages)));
    table.add("drift", &offline::drift(&[1.0, 1.1, 1.2, 1.25, 1.4, 1.5]));
}

#[test]
fn names_in_files_and_flags_stay() {
    let names: [(&str, &[&str]); 10] = [
        ("gauge counter", &SeriesKind::NAMES),
        ("queue prefill decode", &vocabulary::Phase::NAMES),
        (
            "ttft tpot itl e2el client_queue_time e2el_including_client_queue audio_ttfp audio_rtf audio_duration audio_underrun",
            &MetricKind::NAMES,
        ),
        ("sequences kv_cache tokens", &QueueLimit::NAMES),
        ("mean_ttft p99_ttft mean_tpot mean_e2el p99_e2el", &Explained::NAMES),
        ("yes no inconclusive", &Dependence::NAMES),
        ("kernel user", &TimestampedBy::NAMES),
        ("cold warm", &Phase::NAMES),
        ("events usage logprobs retokenised", &TokenSource::NAMES),
        (
            "dispatch_delay slot_wait connection front_end queue own_prefill other_prefills own_decode batch_growth preemption stall \
             streaming unexplained",
            &Part::NAMES,
        ),
    ];
    for (expected, found) in names {
        assert_eq!(found.join(" "), expected);
    }
    // The keys of a full setup and of the load of a worker.
    let stage = StageSpan { name: "peak".to_owned(), limit: Some(4), ..StageSpan::default() };
    let keys = |value: tacho_core::json::Value| {
        let dict = value.as_dict().unwrap().iter().map(|(key, _)| key.to_owned());
        dict.collect::<Vec<String>>().join(" ")
    };
    let worker = WorkerUse { late_spans: vec![1e-6], ..WorkerUse::default() };
    assert_eq!(
        keys(worker.to_json()),
        "busy wake_lags_ns late_spans_ns events coalesced late_coalesced connections connect_failures kernel_stamps"
    );
    assert_eq!(keys(stage.to_json()), "name start_s end_s load mean_load concurrency planned_requests");
    let metadata = vec![("k".to_owned(), "v".to_owned())];
    let setup = Setup { metadata, stages: vec![stage], ..limited() };
    let text = tacho_core::json::dumps(&setup.to_json());
    for part in [
        r#""metadata": [{"key": "k", "value": "v"}]"#,
        r#""goodput": {"ttft_ms": 50.0, "tpot_ms": 11.0}"#,
        r#""class_goodput": {"batch""#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn files_of_older_versions_lack_keys() {
    fn read<T: Json>(text: &str) -> T {
        T::from_json(&parse(text).unwrap()).unwrap()
    }
    assert_eq!(read::<MetricSettings>("{}"), MetricSettings::default());
    assert_eq!(read::<GoodputLimits>("{}"), GoodputLimits { ttft_ms: None, tpot_ms: None, e2el_ms: None });
    let settings = read::<MetricSettings>("{}");
    assert_eq!((settings.goodput, settings.class_goodput, settings.playback_buffer), (None, vec![], 0.0));
    assert_eq!((settings.price_per_hour, settings.gpus), (None, None));
    let telemetry = read::<Telemetry>(r#"{"gpus": [], "times": [], "tracks": []}"#);
    assert_eq!((telemetry.driver, telemetry.cuda), (None, None));
    let step = read::<SessionStep>(r#"{"session": 1, "turn": 2, "parents": [[0, 1.5]], "sends": true}"#);
    assert_eq!(
        step,
        SessionStep { session: 1, turn: 2, parents: vec![(0, 1.5)], sends: true, ..SessionStep::default() }
    );
    let before =
        read::<SessionStep>(r#"{"session": 1, "turn": 2, "parents": [], "sends": true, "before": [3, [4, 1]]}"#).before;
    assert_eq!(before, [(3, 0), (4, 1)]);
    let worker = r#"{"busy": 0.5, "wake_lags_ns": [1500], "events": 1, "coalesced": 2, "late_coalesced": 3, "connections": 4,
        "connect_failures": 5, "kernel_stamps": true}"#;
    let worker = read::<WorkerUse>(worker);
    assert_eq!((worker.wake_lags, worker.late_spans, worker.kernel_timestamps), (vec![1.5e-6], vec![], true));
}
