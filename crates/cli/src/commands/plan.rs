//! `tacho plan`: maps flags to `tacho_forecast::plan` and prints the result.

use std::path::Path;

use anyhow::Context;
use tacho_core::json::Value;
use tacho_forecast::plan::{Level, Plan, PlanSpec, Planner, REQUESTS, Rate, Violation};
use tacho_record::{StoredRun, metric::Known};
use tacho_report::html::{Head, Tone, chart_page};
use tacho_report::plots::load::{LoadCurve, chart};
use tacho_report::plots::{png, svg};
use tacho_report::{compare::load, inputs, tables::markdown::Table};
use tacho_run::experiment::split;

use super::{outputs::check_writable, say, serve::predict::Workload, values_for};
use crate::{
    args, args::error::ArgumentError, args::plan::PlanArgs, args::serve::ServeArgs, args::shared::tags::SHAPES_LOAD,
    exit::Exit, interrupt::Interrupt,
};

const COLUMNS: [&str; 5] = ["median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms", "output_throughput"];

/// Headings of the columns; latencies are in ms.
const HEADINGS: [&str; 6] = ["req/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "output tok/s"];

pub(crate) fn run(plan: &PlanArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    let (args, workload) = (&plan.flags, workload(plan)?);
    args.plot.as_deref().map_or(Ok(()), check_writable)?;
    let planner = Planner::new(spec(plan, &workload)?)?;
    let measured: Vec<Measured> = args.measured.iter().map(|path| measured(path)).collect::<anyhow::Result<_>>()?;
    let none = |why: String| say(&[why]).map(|()| Exit::Gate);
    let ((replicas, range), largest, headroom, limiting) = match planner.plan()? {
        Plan::Feasible { replicas, largest_rate, headroom, limiting } => (replicas, largest_rate, headroom, limiting),
        Plan::Infeasible(violations) => {
            return none(format!("no rate meets the SLOs: a single request violates {}", joined(&violations)));
        }
        Plan::TooFewReplicas => {
            let max = args.max_replicas;
            return none(format!("{max} replicas do not sustain {} requests/s within the SLOs", args.rate));
        }
    };
    let (limiting, suffix) = match limiting.is_empty() {
        true => ("none up to +5% load".to_owned(), ""),
        false => (joined(&limiting), ", at 5% more load"),
    };
    let levels = planner.levels(largest.value)?;
    let Rate { value, low, high } = largest;
    let (rate_range, range) = (format!("95% range {low:.2}–{high:.2}"), format!("95% range {}–{}", range[0], range[1]));
    let mut lines = vec![
        format!("replicas for {} requests/s: {replicas} ({range}; {})", args.rate, args.router.name()),
        format!("largest sustainable rate of one replica: {value:.2} requests/s ({rate_range})"),
        format!("headroom of {replicas}: {:+.0}%", headroom * 100.0),
        format!("limiting factor: {limiting}{suffix}"),
        "latency of one replica by load, in ms (95% range):".to_owned(),
    ];
    lines.splice(0..0, planner.is_repeated().then(|| repeated(planner.spec().arrivals.len())));
    let table = table(&levels);
    lines.extend(table.markdown().lines().map(str::to_owned));
    lines.extend(compared(&planner, &measured)?);
    let warnings = inputs::of_results(Some("measured"), measured.iter().map(|one| &one.run.fields));
    lines.extend(warnings.iter().cloned());
    let machine = &planner.spec().machine.name;
    lines.push(format!("predicted with profile {machine}, not measured"));
    if let Some(path) = &args.plot {
        // The first violated SLO; its value and the other violations are below it.
        let (factor, reached) = limiting.split_once(" (").unwrap_or((&limiting, ""));
        let at = if reached.is_empty() { String::new() } else { reached.replacen(')', "", 1) + suffix };
        let head = Head::new(format!("Capacity plan: {replicas} replicas for {} requests/s", args.rate))
            .fact("profile", machine.as_str())
            .fact("workload", workload.join(" "))
            .fact("router", args.router.name())
            .fact("tacho", env!("CARGO_PKG_VERSION"))
            .inputs(warnings.clone())
            .verdict(Tone::Good, &format!("{replicas} replicas meet the SLOs."), Some("Simulated, not measured."), None)
            .card("Replicas", &replicas.to_string(), &format!("{range}, headroom {:+.0}%", headroom * 100.0))
            .card("Sustainable rate of one replica", &format!("{value:.2} requests/s"), &rate_range)
            .card("Limiting factor", factor, &at);
        draw(&head, &curves(&planner, &levels, &measured), table, path)?;
        lines.push(format!("chart: {}", path.display()));
    }
    say(&lines)?;
    Ok(Exit::Done)
}

fn repeated(count: usize) -> String {
    format!(
        "warning: the workload has only {count} requests, which are repeated: its rare bursts and long requests are missing, so that the \
         sustainable rate is too high; {} or more are enough",
        REQUESTS.end()
    )
}

fn joined(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join(", ")
}

/// The workload as a command line of `tacho serve`.
fn workload(args: &PlanArgs) -> anyhow::Result<Vec<String>> {
    let mut argv = match &args.flags.bench_cmd {
        Some(text) => split("--bench-cmd", text)?,
        None if args.workload.is_empty() => vec!["serve".to_owned(), "--ignore-eos".to_owned()],
        None => [vec!["serve".to_owned()], args.workload.clone()].concat(),
    };
    if argv.first().is_some_and(|word| word == "tacho") {
        argv.remove(0);
    }
    Ok(argv)
}

/// Builds the plan. The workload's rate is replaced by one request per second, which is then scaled, and its number of
/// requests by as many as the simulations use.
fn spec(args: &PlanArgs, workload: &[String]) -> anyhow::Result<PlanSpec> {
    let flags = &args.flags;
    let added = ["--sim", "--sim-profile", &flags.sim_profile, "--request-rate", "1"];
    let argv = [workload, &added.map(str::to_owned)].concat();
    let invalid = |allowed: &str| ArgumentError::range("--bench-cmd", format!("{:?}", workload.join(" ")), allowed);
    let sessions = "independent requests: sessions cannot be scaled to a rate, see tacho predict";
    if argv.iter().any(|word| word == "--multi-turn" || word.starts_with("--sessions")) {
        return Err(invalid(sessions).into());
    }
    let values = values_for(&args::serve::TABLE, &argv)?;
    let values =
        values.ok_or_else(|| invalid("a command line of tacho serve, such as 'serve --random-input-len 512'"))?;
    if let Some(flag) = values.first_tagged(SHAPES_LOAD) {
        return Err(ArgumentError::other(format!(
            "a plan does not support {flag} in --bench-cmd: requests come at the rates that the plan simulates; remove it, or see \
             tacho predict"
        ))
        .into());
    }
    let mut bench = ServeArgs::read_simulated(values)?;
    bench.load.num_prompts = bench.load.num_prompts.max(*REQUESTS.end() as i64);
    let workload = Workload::of(&bench)?;
    if workload.is_sessions() {
        return Err(invalid(sessions).into());
    }
    Ok(PlanSpec {
        arrivals: workload.arrivals(),
        machine: workload.machine,
        rate: flags.rate,
        slos: flags.slos.clone(),
        router: flags.router,
        max_replicas: flags.max_replicas,
    })
}

/// Curves of the metrics with an SLO, with the measured values.
fn curves(planner: &Planner, levels: &[Level], measured: &[Measured]) -> Vec<LoadCurve> {
    let slos = &planner.spec().slos;
    let mut metrics: Vec<&str> = slos.iter().map(|slo| slo.metric.as_str()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let curve = |metric: &str| LoadCurve {
        label: Known::find(metric).map_or_else(|| metric.to_owned(), |known| known.heading(metric)),
        limits: slos.iter().filter(|slo| slo.metric == metric).map(|slo| (slo.target(), slo.described())).collect(),
        predicted: levels.iter().map(|level| (level.rate, level.range(metric))).collect(),
        measured: measured
            .iter()
            .filter_map(|one| Some((one.rate, one.run.number(metric)?, one.name.clone())))
            .collect(),
    };
    metrics.into_iter().map(curve).collect()
}

/// Measured values with the predictions at the same rate.
fn compared(planner: &Planner, measured: &[Measured]) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for one in measured {
        let level = planner.level(one.rate, 1)?;
        let pair = |key: &&str| {
            let predicted = Some(level.range(key)[1]).filter(|value| value.is_finite())?;
            let real = one.run.number(key)?;
            Some(format!("{key} {real:.1} ({predicted:.1}, {:+.0}%)", (predicted / real - 1.0) * 100.0))
        };
        let pairs: Vec<String> = COLUMNS.iter().filter_map(pair).collect();
        lines.push(format!("  {} at {:.2} requests/s: {}", one.name, one.rate, pairs.join(", ")));
    }
    if !lines.is_empty() {
        lines.insert(0, "measured (predicted at that rate, prediction error):".to_owned());
    }
    Ok(lines)
}

fn table(levels: &[Level]) -> Table {
    let row = |level: &Level| {
        let rate = [Value::Float(rounded(level.rate))].into_iter();
        rate.chain(COLUMNS.map(|key| cell(level.range(key)))).collect()
    };
    Table { headings: HEADINGS.map(str::to_owned).to_vec(), rows: levels.iter().map(row).collect() }
}

/// A range, or a single number if the simulations agree.
fn cell([min, _, max]: [f64; 3]) -> Value {
    match (format!("{min:.1}"), format!("{max:.1}")) {
        (min, max) if min != max => Value::from(format!("{min}–{max}")),
        _ => Value::Float(rounded(min)),
    }
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

struct Measured {
    name: String,
    rate: f64,
    run: StoredRun,
}

fn measured(path: &Path) -> anyhow::Result<Measured> {
    let sides = load(&[path.to_owned()])?;
    let [run] = <[StoredRun; 1]>::try_from(sides.iter().flat_map(|side| side.runs()).collect::<Vec<_>>())
        .map_err(|runs| anyhow::anyhow!("--measured {} holds {} runs, not one", path.display(), runs.len()))?;
    let rate = run.number("request_rate").filter(|rate| rate.is_finite());
    let rate = rate.with_context(|| {
        format!("--measured {} has no finite request rate: measure with --request-rate", path.display())
    })?;
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Measured { name, rate, run })
}

/// Writes the chart in the format of its file extension.
fn draw(head: &Head, curves: &[LoadCurve], table: Table, path: &Path) -> anyhow::Result<()> {
    let Some(mut chart) = chart(curves) else { return Ok(()) };
    chart.table = table;
    let bytes = match path.extension().and_then(|ending| ending.to_str()) {
        Some("png") => png(&chart.scene(), 150.0)?,
        Some("html") => chart_page(head, &[chart]).into_bytes(),
        _ => svg(&chart.scene()).into_bytes(),
    };
    std::fs::write(path, bytes).with_context(|| format!("the chart cannot be written to {}", path.display()))
}
