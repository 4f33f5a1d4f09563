//! Forecasts of other settings against engines that really have them, in virtual time.

use tacho_core::{Timestamp, json::Value};
use tacho_engine::simulation::{Arrival, Router, SendPolicy, simulate};
use tacho_engine::{EngineSpec, Machine};
use tacho_forecast::fit::KnownLimits;
use tacho_forecast::what_if::{Setting, WhatIf, WhatIfError, fitted};
use tacho_metrics::{Gaps, Sample, Setup};
use tacho_record::{Measured, RunRecord, metric::Known};

use crate::planted::{planted, requests};

/// Requests at a steady rate, and a run of them.
fn arrivals(count: usize, rate: f64, seed: u64) -> Vec<Arrival> {
    let mut all = requests(count, seed);
    all.iter_mut().enumerate().for_each(|(at, one)| one.due = Timestamp::from_secs(at as f64 / rate));
    all
}

fn run(machine: &Machine, arrivals: &[Arrival], (replicas, seed): (usize, u64)) -> RunRecord {
    let policy = SendPolicy { max_concurrency: None, replicas, router: Router::RoundRobin, seed };
    let completions = simulate(machine, arrivals, &policy).unwrap();
    let sample = |(index, (arrival, found)): (usize, (&Arrival, &tacho_engine::simulation::Completion))| {
        let times: Vec<f64> = found.tokens.iter().map(|token| token.secs()).collect();
        let (sent, last) = (found.sent.secs(), times[times.len() - 1]);
        Sample {
            index,
            scheduled: sent,
            dispatched: sent,
            sent,
            done: last,
            ttft: times[0] - sent,
            latency: last - sent,
            itl: Gaps::from(times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()),
            prompt_len: arrival.prompt.len() as u64,
            output_len: times.len() as u64,
            ..Sample::default()
        }
    };
    let samples: Vec<Sample> = arrivals.iter().zip(&completions).enumerate().map(sample).collect();
    let duration = samples.iter().map(|sample| sample.done).fold(0.0, f64::max);
    let setup = Setup { request_rate: 4.0, max_concurrency: None, ..Setup::example() };
    RunRecord::compute(setup, Measured { samples: samples.into(), duration, ..Measured::default() })
}

/// A recorded run of a real server.
fn recorded(recording: &Value) -> RunRecord {
    let sample = |(index, row): (usize, &Value)| {
        let row: Vec<f64> = row.as_list().unwrap().iter().map(|value| value.as_f64().unwrap() / 1e4).collect();
        let (sent, ttft, gaps) = (row[0], row[2], &row[3..]);
        let latency = ttft + gaps.iter().sum::<f64>();
        Sample {
            index,
            scheduled: sent,
            dispatched: sent,
            sent,
            done: sent + latency,
            ttft,
            latency,
            itl: Gaps::from(gaps.to_vec()),
            prompt_len: (row[1] * 1e4) as u64,
            output_len: gaps.len() as u64 + 1,
            ..Sample::default()
        }
    };
    let samples: Vec<Sample> =
        recording.get("requests").unwrap().as_list().unwrap().iter().enumerate().map(sample).collect();
    let duration = samples.iter().map(|sample| sample.done).fold(0.0, f64::max);
    let setup = Setup { request_rate: f64::INFINITY, max_concurrency: Some(16), ..Setup::example() };
    RunRecord::compute(setup, Measured { samples: samples.into(), duration, ..Measured::default() })
}

/// Its API server shares a core with the engine, which delays the iteration in progress when a request arrives: that looks like
/// asynchronous scheduling.
#[test]
fn forecasts_of_a_real_server_do_not_take_a_busy_core_for_asynchronous_scheduling() {
    let recording = tacho_core::json::parse(include_str!("vllm_cpu.json")).unwrap();
    let record = recorded(&recording);
    let errors = |async_scheduling| {
        let mut known = KnownLimits { async_scheduling, ..KnownLimits::default() };
        known.learn("max_num_seqs", 8, "flag");
        known.learn("max_num_batched_tokens", 2048, "flag");
        let model = fitted(&record, &mut known).unwrap().0;
        let what_if = WhatIf::new(&record, &model, Router::RoundRobin).unwrap();
        let mut errors = Vec::new();
        for measured in recording.get("measured").unwrap().as_list().unwrap() {
            let number = |name: &str| measured.get(name).unwrap().as_f64().unwrap();
            let limit = |setting: Setting, name: &str| setting.with(name, &number(name).to_string()).unwrap();
            let setting = limit(limit(Setting::default(), "max_num_seqs"), "max_num_batched_tokens");
            let forecast = what_if.forecast(&setting).unwrap();
            let error = |name: &str| (forecast.value(name).unwrap().expected / number(name)).ln().abs();
            errors.push((error("mean_tpot_ms"), error("mean_ttft_ms"), number("max_num_seqs") < 16.0));
        }
        errors
    };
    for stated in [None, Some(false)] {
        let errors = errors(stated);
        assert_eq!(errors.iter().filter(|error| error.0 < 0.1).count(), 7, "{errors:?}");
        // With a slot for every request nothing queues, and the model has no front end that shares a core.
        assert!(errors.iter().all(|error| error.1 < 0.1 || !error.2), "{errors:?}");
    }
    assert!(errors(Some(true)).iter().filter(|error| error.0 < 0.1).count() < 6);
}

fn with(machine: &Machine, change: impl Fn(&mut EngineSpec)) -> Machine {
    let mut machine = machine.clone();
    change(&mut machine.engine);
    machine
}

fn known(machine: &Machine) -> KnownLimits {
    let mut known = KnownLimits::default();
    known.learn("max_num_seqs", machine.engine.max_num_seqs, "flag");
    known.learn("max_num_batched_tokens", machine.engine.max_num_batched_tokens, "flag");
    known
}

fn what_if(record: &RunRecord, machine: &Machine) -> WhatIf {
    let (model, error) = fitted(record, &mut known(machine)).unwrap();
    assert!(error < 0.1, "{error}");
    WhatIf::new(record, &model, Router::RoundRobin).unwrap()
}

/// From a batch of 8 that queues: eight other settings, each next to the engine that has it.
#[test]
fn forecasts_hold_on_engines_with_the_setting() {
    let machine = with(&planted(), |engine| (engine.max_num_seqs, engine.max_num_batched_tokens) = (8, 2048));
    let arrivals = arrivals(240, 4.5, 7);
    let forecaster = what_if(&run(&machine, &arrivals, (1, 11)), &machine);
    let settings: [(&str, &str, usize); 8] = [
        ("max_num_seqs", "6", 1),
        ("max_num_seqs", "12", 1),
        ("max_num_seqs", "16", 1),
        ("max_num_seqs", "32", 1),
        ("max_num_batched_tokens", "256", 1),
        ("max_num_batched_tokens", "8192", 1),
        ("enable_chunked_prefill", "false", 1),
        ("max_num_seqs", "8", 2),
    ];
    let (mut errors, mut inside, mut all) = (Vec::new(), 0, 0);
    let mut ranks: Vec<(f64, f64)> = Vec::new();
    for (name, value, replicas) in settings {
        let setting = Setting { replicas: Some(replicas), ..Setting::default().with(name, value).unwrap() };
        let forecast = forecaster.forecast(&setting).unwrap();
        let other = with(&machine, |engine| match name {
            "max_num_seqs" => engine.max_num_seqs = value.parse().unwrap(),
            "max_num_batched_tokens" => engine.max_num_batched_tokens = value.parse().unwrap(),
            _ => engine.enable_chunked_prefill = false,
        });
        let truth = run(&other, &arrivals, (replicas, 23));
        for metric in ["mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "output_throughput"] {
            let measured = Known::find(metric).unwrap().read(&truth).unwrap();
            let found = forecast.value(metric).unwrap();
            errors.push((found.expected / measured).ln().abs());
            inside += usize::from((found.low..=found.high).contains(&measured));
            all += 1;
            if metric == "mean_e2el_ms" {
                ranks.push((found.expected, measured));
            }
        }
    }
    let within = errors.iter().filter(|error| **error < 0.1).count();
    assert!(within * 10 >= errors.len() * 9, "{within} of {}: {errors:?}", errors.len());
    assert!(inside * 10 >= all * 8, "{inside} of {all}");
    let pairs = ranks.iter().enumerate().flat_map(|(at, one)| ranks[..at].iter().map(move |other| (one, other)));
    let agree: Vec<bool> = pairs.map(|(one, other)| (one.0 < other.0) == (one.1 < other.1)).collect();
    let tau = 2.0 * agree.iter().filter(|same| **same).count() as f64 / agree.len() as f64 - 1.0;
    assert!(tau >= 0.8, "{tau} {ranks:?}");
}

#[test]
fn a_search_finds_settings_that_meet_an_slo() {
    let machine = with(&planted(), |engine| (engine.max_num_seqs, engine.max_num_batched_tokens) = (8, 2048));
    let arrivals = arrivals(240, 4.5, 7);
    let forecaster = what_if(&run(&machine, &arrivals, (1, 11)), &machine);
    let slos = ["p99_ttft_ms<=400".parse().unwrap()];
    let found = forecaster.search(&slos, 4).unwrap();
    let best = found.first().unwrap();
    assert_eq!(best.replicas, Some(1), "{best}");
    let limit = |name: &str| best.limits.iter().find(|(known, _)| *known == name).unwrap().1;
    let chosen = with(&machine, |engine| {
        (engine.max_num_seqs, engine.max_num_batched_tokens) = (limit("max_num_seqs"), limit("max_num_batched_tokens"));
    });
    let truth = run(&chosen, &arrivals, (1, 23));
    let p99 = Known::find("p99_ttft_ms").unwrap().read(&truth).unwrap();
    assert!(p99 <= 400.0, "{p99} with {best}");
    assert!(forecaster.search(&["p99_ttft_ms<=1".parse().unwrap()], 2).unwrap().is_empty());
}

#[test]
fn what_has_no_basis_is_refused() {
    let machine = planted();
    let record = run(&machine, &arrivals(120, 3.0, 3), (1, 1));
    let forecaster = what_if(&record, &machine);
    let cached = Setting::default().with("enable-prefix-caching", "on").unwrap();
    assert!(matches!(forecaster.forecast(&cached), Err(WhatIfError::NoPrefixes)));
    let small = Setting::default().with("num_gpu_blocks", "4").unwrap();
    assert!(matches!(forecaster.forecast(&small), Err(WhatIfError::Rejected { .. })));
    assert!(matches!(Setting::default().with("gpu_memory_utilization", "0.9"), Err(WhatIfError::Name { .. })));
    assert!(matches!(Setting::default().with("max_num_seqs", "many"), Err(WhatIfError::Value { .. })));
    let fast = Machine { cost: tacho_engine::CostModel { fixed_ns: 1e6, ..machine.cost }, ..machine.clone() };
    let unlike = WhatIf::new(&record, &fast, Router::RoundRobin);
    assert!(matches!(unlike, Err(WhatIfError::Unlike { .. })));
    let turns = |sample: Sample| Sample {
        rare: tacho_metrics::RareFields { session: Some((0, 0)), ..Default::default() }.into(),
        ..sample
    };
    let samples: Vec<Sample> = record.measured.samples.iter().map(|sample| turns(sample.into_owned())).collect();
    let sessions = RunRecord::compute(
        Setup::example(),
        Measured { samples: samples.into(), duration: 1.0, ..Measured::default() },
    );
    assert!(matches!(WhatIf::new(&sessions, &machine, Router::RoundRobin), Err(WhatIfError::Sessions)));
    assert_eq!(Setting::default().with("num_gpu_blocks", "9").unwrap().flags(), ["--num-gpu-blocks-override", "9"]);
    assert_eq!(cached.to_string(), "enable_prefix_caching=true");
}
