//! Decisions about fixed data: agreement, change points, dependence of outputs, gates, thresholds and checks. The numbers were
//! computed by this crate, and its methods were checked on simulated data. A change of a formula changes verdicts, and must be
//! noticed here.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::{Debug, Write};

use tacho_core::json::{Dict, Value, parse};
use tacho_core::{FailureKind, Labels, Observation, Outcome, OutputCheck, RequestInfo, Timestamp, Usage, dict};
use tacho_decide::agreement::{Agreement, agreement, overall};
use tacho_decide::compare::{Confidence, Effect, Terms, compare, shared_keys};
use tacho_decide::gate::{Decision, FailureRule, Failures, Judgment, Rule, judge, judge_pairs};
use tacho_decide::outputs::{Checked, judge_rows, questions};
use tacho_decide::search::{self, Criterion, Levels, load_value};
use tacho_decide::threshold::Threshold;
use tacho_decide::trend::changes;
use tacho_decide::verify::{
    self, Check, Expected, Plan, Planned, RowAudit, SeenRow, differences, ended_early, settings_differ, verdict,
};
use tacho_metrics::ranks::RankUse;
use tacho_metrics::{RareFields, Sample, Samples, Setup, WorkerUse};
use tacho_pyrand::Generator;
use tacho_record::{Measured, RunRecord, StoredRun};

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
}

#[test]
fn decisions_are_the_same_as_before() {
    let mut table = Table::default();
    agreements(&mut table);
    trends(&mut table);
    outputs(&mut table);
    comparisons(&mut table);
    gates(&mut table);
    thresholds(&mut table);
    checks_of_rows(&mut table);
    checks_of_records(&mut table);
    loads(&mut table);
    tacho_testkit::assert_golden_numbers("known/decisions.txt", &table.0);
}

fn exponential(random: &mut Generator) -> f64 {
    -(1.0 - random.random()).ln()
}

/// Requests whose times are `factor` times as long, with noise of a run of its own.
fn run(count: usize, factor: f64, seed: u64) -> Samples {
    let mut random = Generator::new(seed);
    let one = |index: usize| {
        let ttft = 0.02 * (1 + index % 5) as f64 * factor * (0.8 + 0.4 * random.random());
        let tokens = 2 + index % 9;
        let gaps: Vec<f64> = (1..tokens).map(|_| 0.01 * factor * (0.8 + 0.4 * random.random())).collect();
        let (sent, latency) = (0.1 * index as f64, ttft + gaps.iter().sum::<f64>());
        Sample {
            index,
            scheduled: sent,
            dispatched: sent,
            sent,
            done: sent + latency,
            ttft,
            latency,
            itl: gaps.into(),
            output_len: tokens as u64,
            output_tokens: Some(tokens as u64),
            prompt_len: 100,
            failure: (index % 23 == 7).then_some(FailureKind::TimedOut),
            ..Sample::default()
        }
    };
    (0..count).map(one).collect()
}

fn agreements(table: &mut Table) {
    let base = run(90, 1.0, 1);
    for (name, factors, margin) in [
        ("equal", &[1.0][..], 0.05),
        ("slower", &[1.2], 0.05),
        ("on the margin", &[1.05], 0.05),
        ("several", &[0.98, 1.03, 1.01], 0.1),
        ("several faster", &[0.7, 0.72, 0.69, 0.71], 0.1),
    ] {
        let new: Vec<Samples> = factors.iter().zip(2..).map(|(factor, seed)| run(90, *factor, seed)).collect();
        let new: Vec<&Samples> = new.iter().collect();
        for confidence in [Confidence::USUAL, Confidence::from_percent(80.0).unwrap()] {
            let found = agreement(&base, &new, |key| key != "mean_e2el_ms" || factors.len() > 1, margin, confidence);
            table.add(name, &(overall(&found), &found));
        }
    }
    for count in [3, 4, 5, 19, 21, 40] {
        table.add("few", &agreement(&run(count, 1.0, 1), &[&run(count, 1.1, 2)], |_| true, 0.1, Confidence::USUAL));
    }
}

fn trends(table: &mut Table) {
    let series = |levels: &[(usize, f64)], noise: f64, seed: u64| {
        let mut random = Generator::new(seed);
        let values = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
        values.map(|level| level + noise * (random.random() - 0.5)).collect::<Vec<f64>>()
    };
    table.add("one change", &changes(&series(&[(20, 10.0), (20, 11.0)], 0.5, 1)));
    table.add("two changes", &changes(&series(&[(20, 10.0), (25, 12.0), (30, 9.0)], 0.5, 2)));
    table.add("at the end", &changes(&series(&[(30, 10.0), (3, 14.0)], 0.5, 3)));
    table.add("differences", &changes(&series(&[(15, -1.0), (15, 1.0)], 0.5, 4)));
    table.add("steps", &changes(&[vec![1.0; 12], vec![2.0; 12]].concat()));
    table.add("small", &changes(&series(&[(20, 10.0), (20, 10.15)], 0.5, 5)));
    table.add("twelve", &changes(&series(&[(6, 10.0), (6, 20.0)], 0.5, 6)));
    assert!(changes(&series(&[(6, 10.0), (5, 20.0)], 0.5, 6)).is_empty(), "eleven are too few");
}

fn outputs(table: &mut Table) {
    let rows = |seed: u64, chance: fn(usize) -> f64, copies: usize| {
        let mut random = Generator::new(seed);
        let row = |at: usize| Checked {
            reference: (at / copies) as u32,
            differs: random.random() < chance(at),
            alone: at.is_multiple_of(2).then_some(at.is_multiple_of(14)),
            in_flight: (at % 10) as f64,
            sent: at as f64,
            groups: vec![
                ("class".to_owned(), ["chat", "batch"][at % 2].to_owned()),
                ("replica".to_owned(), format!("r{}", at % 3)),
            ],
        };
        (0..240).map(row).collect::<Vec<Checked>>()
    };
    table.add("no effect", &judge_rows(&rows(1, |_| 0.3, 2)));
    table.add("load", &judge_rows(&rows(2, |at| 0.08 * (at % 10) as f64, 1)));
    table.add("class", &judge_rows(&rows(3, |at| if at % 2 == 0 { 0.6 } else { 0.1 }, 4)));
    table.add("replica and time", &judge_rows(&rows(4, |at| if at % 3 == 1 { 0.5 } else { 0.001 * at as f64 }, 2)));
    table.add("none differs", &judge_rows(&rows(5, |_| 0.0, 2)));
    table.add("few", &judge_rows(&rows(1, |_| 0.5, 2)[..9]));
    let mut samples = run(80, 1.0, 9);
    samples.change(|samples| {
        for sample in samples {
            let at = sample.index;
            let differs = (at % 4 == 1 || at % 10 == 8).then_some(at as u32);
            let check = OutputCheck {
                reference: at as u32 / 2,
                first_difference: differs,
                alone_differs: Some(at % 9 == 0),
                ..OutputCheck::default()
            };
            let labels = if at % 3 == 0 { Labels::NONE.with("adapter", "a") } else { Labels::NONE };
            sample.cached_tokens = (at % 4 < 2).then_some((at % 2) as u64);
            sample.rare = RareFields { check: Some(check), labels, ..RareFields::default() }.into();
        }
    });
    let record = RunRecord::compute(Setup::example(), Measured { samples, duration: 9.0, ..Measured::default() });
    table.add("of a record", &questions(&record));
}

/// A detailed result of `count` requests.
fn detailed(count: usize, factor: f64, seed: u64, rate: Option<f64>) -> Dict {
    let mut random = Generator::new(seed);
    let mut list = |of: &mut dyn FnMut(usize, &mut Generator) -> f64| {
        (0..count).map(|at| Value::Float(of(at, &mut random))).collect::<Value>()
    };
    let ttfts = list(&mut |_, random| 0.05 * factor * (0.5 + exponential(random)));
    let latencies = list(&mut |_, random| factor * (0.4 + 0.1 * exponential(random)));
    let mut now = 0.0;
    let starts = list(&mut |_, random| {
        now += exponential(random) / 10.0;
        now
    });
    let duration = count as f64 / 10.0;
    let completed = count as u64;
    dict! {
        "duration": duration,
        "completed": completed,
        "failed": 2_u64,
        "num_prompts": completed + 2,
        "request_rate": rate.map_or_else(|| Value::from("inf"), Value::Float),
        "max_concurrency": 8_u64,
        "request_throughput": completed as f64 / duration,
        "output_throughput": 11.0 * completed as f64 / duration,
        "latencies": latencies,
        "ttfts": ttfts,
        "start_times": starts,
        "input_lens": (0..count).map(|_| Value::Int(100)).collect::<Value>(),
        "output_lens": (0..count).map(|_| Value::Int(11)).collect::<Value>(),
    }
}

fn stored(count: usize, factor: f64, seed: u64) -> StoredRun {
    StoredRun::from_dict(&detailed(count, factor, seed, None)).unwrap()
}

fn text_run(text: &str) -> StoredRun {
    StoredRun::from_dict(parse(text).unwrap().as_dict().unwrap()).unwrap()
}

const TERMS: Terms = Terms { confidence: Confidence::USUAL, noise: None };

/// What a report shows of an effect.
fn shown(effect: &Effect) -> impl Debug {
    let numbers = (effect.base, effect.new, effect.change, effect.interval);
    let verdicts = [0.0, 0.02, 0.2].map(|margin| effect.verdict(margin).text());
    (numbers, effect.scale, effect.basis_text(), effect.is_of_the_same(), verdicts)
}

fn comparisons(table: &mut Table) {
    let (base, new) = ([stored(200, 1.0, 1), stored(150, 1.0, 2)], [stored(200, 1.1, 3), stored(150, 1.15, 4)]);
    table.add("keys", &shared_keys(&base, &new));
    for key in shared_keys(&base, &new) {
        table.add(&key, &shown(&compare(&key, &base, &new, TERMS).unwrap()));
        table.add("of one run", &shown(&compare(&key, &base[..1], &new[..1], TERMS).unwrap()));
    }
    let offered = |factor, seed| StoredRun::from_dict(&detailed(100, factor, seed, Some(10.5))).unwrap();
    table
        .add("offered", &shown(&compare("request_throughput", &[offered(1.0, 1)], &[offered(1.2, 2)], TERMS).unwrap()));
    table.add(
        "offered tokens",
        &shown(&compare("output_throughput", &[offered(1.0, 1)], &[offered(1.2, 2)], TERMS).unwrap()),
    );
    let latency = |scale: f64| {
        let text = format!(
            r#"{{"avg_latency": {scale}, "latencies": [{scale}, {scale}], "percentiles": {{"50": {scale}, "90": 2.0, "99": 2.5}}}}"#
        );
        [text_run(&text)]
    };
    table.add("keys of latency", &shared_keys(&latency(1.0), &latency(1.5)));
    let throughput = [text_run(
        r#"{"elapsed_time": 3.0, "num_requests": 8, "requests_per_second": 2.7, "tokens_per_second": 50.0}"#,
    )];
    table.add("keys of throughput", &shared_keys(&throughput, &throughput));
    let startup = [text_run(
        r#"{"avg_cold_startup_time": 9.0, "avg_cold_compilation_time": 0.0, "avg_warm_startup_time": 4.0, "avg_model_loading_time": 2.0}"#,
    )];
    table.add("keys of startup", &shared_keys(&startup, &startup));
    let checked = |count: u64, of: u64| {
        let mut run = text_run(
            r#"{"duration": 1.0, "completed": 100, "failed": 0, "tacho": {"version": 1, "workload": "v2:a"}}"#,
        );
        run.set_share("output_divergence", tacho_metrics::Share::of(count, of).unwrap());
        [run]
    };
    table.add("keys of outputs", &shared_keys(&checked(5, 100), &checked(9, 100)));
    table.add("divergence", &shown(&compare("output_divergence", &checked(5, 100), &checked(19, 100), TERMS).unwrap()));
    let confidence = |percent: f64| {
        Confidence::from_percent(percent).map(|one| (one.percent(), one.share(), one.each_of(3).percent()))
    };
    table.add("confidence", &[49.9, 50.0, 95.0, 99.9, 99.95].map(confidence));
}

/// What a gate prints of a decision.
fn decided((failures, decisions): (Failures, Vec<Decision>)) -> impl Debug {
    let one = |decision: &Decision| {
        let (rule, effect) = (&decision.rule, &decision.effect);
        let limits = (rule.key.clone(), rule.limit_text(), rule.allowance(effect), effect.change, effect.interval);
        (limits, decision.judgment, decision.alone, decision.remedy, decision.left_out(9))
    };
    (failures, Judgment::overall(&failures, &decisions), decisions.iter().map(one).collect::<Vec<_>>())
}

fn gates(table: &mut Table) {
    let rules = |texts: &[&str]| texts.iter().map(|text| Rule::parse(text).unwrap()).collect::<Vec<Rule>>();
    let all = rules(&["mean_e2el_ms:5%", "mean_ttft_ms:20ms", "p99_e2el_ms:10%", "request_throughput:1req/s"]);
    let gate = |rules: &[Rule], failures: &FailureRule, base: &[StoredRun], new: &[StoredRun]| {
        decided(judge(rules, failures, base, new, TERMS).unwrap())
    };
    let usual = FailureRule::default();
    for (count, factor) in [(100, 1.0), (100, 1.04), (400, 1.04), (400, 1.06), (100, 1.3), (3000, 1.02), (2, 1.0)] {
        table.add("gate", &gate(&all, &usual, &[stored(count, 1.0, 1)], &[stored(count, factor, 2)]));
    }
    let several = |factor: f64, seed: u64| (seed..seed + 4).map(|seed| stored(90, factor, seed)).collect::<Vec<_>>();
    table.add("gate of several runs", &gate(&all, &usual, &several(1.0, 1), &several(1.06, 11)));
    table.add(
        "gate of one number",
        &gate(
            &rules(&["p99_ttft_ms:5%"]),
            &usual,
            &[text_run(r#"{"p99_ttft_ms": 9.0}"#)],
            &[text_run(r#"{"p99_ttft_ms": 9.1}"#)],
        ),
    );
    for count in [1, 2, 4, 9] {
        let (base, new) =
            ((0..count).map(|seed| stored(60, 1.0, seed)), (0..count).map(|seed| stored(60, 1.05, 50 + seed)));
        let found =
            judge_pairs(&all[..2], &usual, &base.collect::<Vec<_>>(), &new.collect::<Vec<_>>(), Confidence::USUAL);
        table.add("pairs", &decided(found.unwrap()));
    }
    let failed = |completed: u64, failed: u64| {
        [text_run(&format!(
            r#"{{"duration": 1.0, "completed": {completed}, "failed": {failed}, "mean_tpot_ms": 5.0}}"#
        ))]
    };
    for (base, new, max) in [
        ((100, 0), (95, 5), None),
        ((100, 0), (90, 10), None),
        ((50, 50), (52, 48), None),
        ((100, 0), (99, 1), Some(0.01)),
        ((100, 0), (98, 2), Some(0.01)),
        ((100, 0), (0, 100), None),
    ] {
        let (base, new) = (failed(base.0, base.1), failed(new.0, new.1));
        table.add("failures", &gate(&rules(&["mean_tpot_ms:5%"]), &FailureRule { max }, &base, &new));
    }
    for text in [
        "p99_ttft_ms:5%",
        "p99_ttft_ms:0.5ms",
        "accuracy:1.5pp",
        "request_throughput: 2 req/s",
        "spec_decode_acceptance_rate:2pp",
    ] {
        let rule = Rule::parse(text).unwrap();
        table.add("limit", &(rule.limit, rule.limit_text()));
    }
}

fn thresholds(table: &mut Table) {
    let text = r#"{"duration": 1.0, "completed": 98, "failed": 2, "request_rate": 44.0, "request_throughput": 98.0, "p99_ttft_ms": 290.0, "mean_ttft_ms": 0.012,
        "tacho": {"version": 1, "accuracy": 0.25, "intervals": {"p99_ttft_ms": [280.0, 310.0], "mean_e2el_ms": [5.0, null], "accuracy": [0.2, 0.3]},
        "groups": {"class": {"chat": {"p99_ttft_ms": 120.0, "completed": 0, "failed": 3, "intervals": {}}}}}}"#;
    let (brief, detailed) = (text_run(text), stored(60, 1.0, 3));
    for condition in [
        "p99_ttft_ms>300",
        "p99_ttft<=0.29s",
        "p99_ttft_ms>=311",
        "mean_ttft_ms<1",
        "failed>1%",
        "failed>=2%",
        "completed<98",
        "accuracy<20%",
        "accuracy<0.31",
        "chat.p99_ttft_ms>100",
        "request_throughput<97",
        "duration>900ms",
    ] {
        let found = Threshold::parse(condition)
            .unwrap()
            .on_stored(&brief)
            .map(|found| (found.standing, found.value, found.interval, found.text()));
        table.add(condition, &found.map_err(|error| error.to_string()));
    }
    for condition in
        ["mean_ttft_ms>80", "p90_ttft_ms>100", "p99_e2el_ms<100", "request_throughput>12", "output_throughput<1"]
    {
        let found = Threshold::parse(condition).unwrap().on_stored(&detailed).unwrap();
        table.add(condition, &(found.standing, found.value, found.interval, found.text()));
    }
    let setup = Setup { request_rate: 10.0, ..Setup::example() };
    let record = RunRecord::compute(setup, Measured { samples: run(90, 1.0, 1), duration: 9.5, ..Measured::default() });
    for condition in
        ["mean_ttft_ms>80", "p75_ttft_ms>100", "failed>=4", "failed>5%", "request_throughput<9", "chat.p99_ttft_ms>1"]
    {
        let found = Threshold::parse(condition).unwrap().on_record(&record);
        table.add(condition, &(found.standing, found.value, found.interval, found.text()));
    }
    for condition in ["p99_ttft>3", "p99_ttft_ms>3x", "request_throughput<3s", "failed>1ms", ">3", "failed>inf"] {
        table.add(condition, &Threshold::parse(condition).map_err(|error| error.to_string()));
    }
}

const ORIGIN: Timestamp = Timestamp(1 << 30);

fn row(index: usize) -> Observation {
    let at = |steps: u64| Timestamp(ORIGIN.0 + (index as u64 * 10_000 + steps) * 1024);
    Observation {
        first_byte: Some(at(990)),
        chunks: (0..10).map(|event| at(1000 + 100 * event)).collect(),
        first_content: Some(at(1100)),
        done: at(2000),
        usage: Usage { prompt_tokens: Some(8), completion_tokens: Some(10), ..Usage::default() },
        outcome: Outcome::Complete,
        ..Observation::dispatched(index, at(0), at(10))
    }
}

fn plan(count: usize, duration: Option<f64>) -> Plan {
    let one = |index: usize| Planned {
        due: Some(index as f64 * 10_000.0 * 1024.0 / 1e9),
        prompt_len: 8,
        output_len: 10,
        content: index as u64 % 3,
    };
    Plan { requests: (0..count).map(one).collect(), endless: false, duration }
}

fn checks_of_rows(table: &mut Table) {
    let request = RequestInfo { prompt_len: 8, output_len: 10, ..RequestInfo::default() };
    let audit = |plan: &Plan, rows: &[Observation], run: Expected| {
        let ranks = [RankUse { clock_bound_ms: Some(0.01), clock_drift_ms: Some(-0.02), ..RankUse::default() }];
        let mut audit = RowAudit::new(Some(plan)).of_ranks(&ranks);
        rows.iter().for_each(|row| audit.take(SeenRow::of_log(&request, row, ORIGIN)));
        let found = audit.findings(&run);
        (audit.rows(), verdict(&found), found)
    };
    let expected = Expected { requests: Some(6), duration: 1.0, in_order: true, ..Expected::default() };
    type Edit = fn(&mut Vec<Observation>);
    let edits: [(&str, Edit); 16] = [
        ("as they were", |_| ()),
        ("a row less", |rows| drop(rows.remove(2))),
        ("a row twice", |rows| rows.push(row(3))),
        ("a row too many", |rows| rows.push(row(6))),
        ("byte before sending", |rows| rows[1].first_byte = Some(Timestamp(rows[1].sent.0 - 3000 * 1024))),
        ("dispatch before schedule", |rows| rows[1].dispatched.0 -= 2000 * 1024),
        ("sent before dispatch", |rows| rows[1].sent.0 -= 2000 * 1024),
        ("content before event", |rows| rows[1].first_content = Some(Timestamp(rows[1].sent.0 - 1024))),
        ("end before last event", |rows| rows[1].done.0 -= 1200 * 1024),
        ("within the slack", |rows| rows[1].done.0 -= 200 * 1024),
        ("events fall", |rows| rows[4].chunks.swap(3, 4)),
        ("off the grid", |rows| rows[5].done.0 += 100),
        ("later than planned", |rows| rows[0].shift(|time| Timestamp(time.0 + 100 * 1024))),
        ("as late as clocks allow", |rows| rows[0].shift(|time| Timestamp(time.0 + 40 * 1024))),
        ("fewer tokens than events", |rows| rows[0].usage.completion_tokens = Some(5)),
        ("not complete", |rows| rows[0].outcome = Outcome::failed(FailureKind::Aborted, "x")),
    ];
    for (name, edit) in edits {
        let mut rows: Vec<Observation> = (0..6).map(row).collect();
        edit(&mut rows);
        table.add(name, &audit(&plan(6, None), &rows, expected.clone()));
    }
    let rows: Vec<Observation> = [0, 1, 2, 2].map(row).to_vec();
    let early = Expected { ended_early: true, ..expected.clone() };
    table.add("ended early", &audit(&plan(6, None), &rows, early.clone()));
    table.add("resumed", &audit(&plan(6, None), &rows, Expected { resumed: true, ..early }));
    table.add("of a duration", &audit(&plan(6, Some(0.235)), &rows[..3], expected.clone()));
    table.add(
        "endless",
        &audit(&Plan { endless: true, ..plan(2, None) }, &rows[..3], Expected { requests: None, ..expected.clone() }),
    );
    let other = RequestInfo { prompt_len: 9, output_len: 4, ..RequestInfo::default() };
    let mut lengths = RowAudit::new(None);
    lengths.take(SeenRow::of_log(&other, &row(0), ORIGIN));
    table.add(
        "without a plan",
        &lengths.findings(&Expected { duration: 0.002, requests: Some(70), ..Expected::default() }),
    );
    table.add("a row of a log", &SeenRow::of_log(&request, &row(1), ORIGIN));
    for sample in run(9, 1.0, 1).iter().skip(6) {
        table.add("a row of a result", &SeenRow::of_sample(&sample, 0.25));
    }
}

fn checks_of_records(table: &mut Table) {
    // Rows of prompts that repeat after three, `first` s per token for new ones and `again` s for repeated ones.
    let audited = |plan: &'static Plan, first: f64, again: f64| {
        let mut audit = RowAudit::new(Some(plan));
        for index in 0..30 {
            let (sent, each) = (index as f64, if index < 3 { first } else { again });
            let sample = Sample {
                index,
                scheduled: sent,
                dispatched: sent,
                sent,
                ttft: 0.1,
                latency: 0.1 + 9.0 * each,
                done: sent + 0.1 + 9.0 * each,
                output_len: 10,
                itl: vec![each; 9].into(),
                ..Sample::default()
            };
            audit.take(SeenRow::of_sample(&sample, 0.0));
        }
        audit
    };
    let repeated: &'static Plan = Box::leak(Box::new(plan(30, None)));
    let record = |tokens: u64, decode: f64, workers: Vec<WorkerUse>| {
        let mut measured = Measured { duration: 40.0, samples: run(30, 1.0, 1), workers, ..Measured::default() };
        for (time, scale) in [(0.0, 0), (40.0, 1)] {
            let timer = |phase: &str, sum: f64| {
                format!(
                    "# TYPE vllm:request_{phase}_time_seconds histogram\nvllm:request_{phase}_time_seconds_sum {}\nvllm:request_{phase}_time_seconds_count {}\n",
                    sum * scale as f64,
                    30 * scale
                )
            };
            let page = format!(
                "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total {}\n",
                tokens * scale
            );
            measured
                .server
                .add(time, &[page, timer("queue", 0.3), timer("prefill", 1.2), timer("decode", decode)].concat());
        }
        RunRecord::compute(Setup::example(), measured)
    };
    let client = |busy, late_coalesced| {
        vec![WorkerUse { busy, events: 400, late_coalesced, kernel_timestamps: true, ..WorkerUse::default() }]
    };
    for (name, first, again, tokens, decode) in [
        ("engine", 0.01, 0.01, 300, 2.0),
        ("repeats are fast", 0.01, 0.0009, 300, 0.2),
        ("a tenth", 0.01, 0.001, 300, 0.2),
        ("all are fast", 0.0001, 0.0001, 300, 0.02),
        ("fast and not generated", 0.01, 0.0001, 100, 0.05),
        ("half generated", 0.01, 0.01, 150, 2.0),
        ("less than half generated", 0.01, 0.01, 149, 2.0),
        ("more generated", 0.01, 0.01, 307, 2.0),
        ("little less generated", 0.01, 0.01, 294, 2.0),
        ("timers say more", 0.01, 0.01, 300, 5.0),
    ] {
        table.add(name, &verify::of_record(&record(tokens, decode, client(0.2, 0)), &audited(repeated, first, again)));
    }
    for workers in [vec![], client(0.9, 200), client(0.2, 19), client(0.2, 21)] {
        table.add("client", &verify::of_record(&record(300, 2.0, workers), &audited(repeated, 0.01, 0.01)));
    }
    let interrupted = RunRecord::compute(Setup { interrupted: true, ..Setup::example() }, Measured::default());
    assert!(ended_early(&interrupted) && !ended_early(&record(300, 2.0, vec![])));
    let dict = |text: &str| parse(text).unwrap().as_dict().unwrap().clone();
    let stated = dict(r#"{"a": 1.0, "b": [1, 2.0], "c": {"d": "x", "e": null}, "f": [1], "g": {"h": 1}, "i": 5}"#);
    let again = dict(r#"{"a": 1.001, "b": [1, 2.5], "c": {"d": "y", "e": null}, "f": [1, 2], "g": [1], "j": 6}"#);
    for (whole, tolerance) in [(true, 0.0), (false, 0.0), (false, 0.001), (false, 0.0009), (false, 0.3)] {
        table.add("stated", &differences(&stated, &again, whole, tolerance));
    }
    let value = |text: &str| Some(text.to_owned());
    table.add("settings", &settings_differ("rate", &[("log", value("1")), ("plan", None), ("result", value("2"))]));
    assert_eq!(settings_differ("rate", &[("log", value("1")), ("plan", None), ("result", value("1"))]), None);
}

fn loads(table: &mut Table) {
    for (first, max) in [(0.37, 100.0), (7.0, 100.0), (42.0, 1e4), (600.0, 700.0)] {
        let levels = [Levels::rates(first, max), Levels::whole_rates(first, max), Levels::users(first, max)];
        table.add("loads", &levels);
    }
    table.add("steps", &[0.000_012, 0.0456, 3.333, 9.96, 33.33, 99.96, 333.33].map(search::rate_step));
    table.add("values", &[0.0, 5.0, 2.5, 1e15, 1e16, f64::INFINITY].map(load_value));
    for text in [
        "p99_ttft_ms<=200",
        "p99_ttft<0.2s",
        "request_goodput>=5",
        "output_divergence<=0.5%",
        "chat.mean_tpot_ms<20",
        "p50_e2el_ms>0",
    ] {
        let criterion: Criterion = text.parse().unwrap();
        let values = [0.0, 0.004, 5.0, 19.0, 200.0, 201.0, f64::NAN];
        let met = values.map(|value| (criterion.is_met(value), criterion.margin(value)));
        table.add(text, &(criterion.to_string(), criterion.described(), criterion.is_upper(), criterion.target(), met));
    }
}

#[test]
fn names_in_files_stay() {
    let checks = "bytes_changed signature settings_differ metrics_differ rows_missing times_impossible plan_differs seed_differs \
        plan_unknown seed_unchecked client_unreliable server_contradicts server_counters tokens_differ response_cache run_incomplete";
    assert_eq!(Check::NAMES.join(" "), checks);
    assert_eq!(Agreement::NAMES, ["AGREES", "DIFFERS", "INCONCLUSIVE"]);
    assert_eq!(search::StopReason::NAMES, ["precision", "budget", "runs", "infeasible", "unlimited"]);
    assert_eq!(search::Verdict::NAMES, ["found", "infeasible", "unlimited", "inconclusive"]);
}
