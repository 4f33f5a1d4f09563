//! `tacho sweep serve`, `serve_workload`, `serve_sla`, and `startup`: run commands over parameter sets.

pub(super) mod bench;
mod command;
mod experiment;
mod files;
pub(super) mod outcome;
pub(crate) mod plot;
pub(crate) mod plot_pareto;
pub(crate) mod ranks;
pub(super) mod running;

use std::{fs, path::Path};

use anyhow::{anyhow, bail};
use tacho_core::json::Dict;
use tacho_decide::search::{Criterion, SearchAnswer};
use tacho_metrics::statistics::Statistic;
use tacho_record::metric::Known;
use tacho_report::plots::{search, svg};
use tacho_report::{Progress, html::chart_page, json::write_text, plots::sweep::read_sweep};
use tacho_run::experiment::{
    Address, AfterBench, Links, ParamSet, Processes, Report, ResetKind, Supervised, Tools, apply, option, parse_params,
    split,
};
use tacho_run::sweep::{
    SearchFlags, SlaPlan, StartupPlan, SweepPlan, WorkloadPlan, filter_params, parse_targets, serve, sla, startup,
    workload,
};

use crate::args::sweep::{StartupSweepArgs, SweepArgs, SweepKind};
use crate::commands::screen::{Lines, Screen};
use crate::exit::{Exit, Misused, misused, saved};
use crate::{args::shared::live::LiveArgs, commands::history::store::Store, commands::supervise, interrupt::Interrupt};
pub(super) use bench::Commands;
pub(super) use command::is_tacho;
use experiment::Experiment;
pub(super) use experiment::{make_directory, newest};
pub(super) use files::Files;

pub(crate) fn run(args: &SweepArgs) -> anyhow::Result<Exit> {
    // A signal terminates the program immediately: files are written atomically, and the supervisors stop the child
    // processes.
    let interrupt = Interrupt::catch()?;
    let membership = ranks::membership(args)?;
    if let Some(membership) = membership.as_ref().filter(|membership| membership.rank > 0) {
        return ranks::follow(membership, &split("--bench-cmd", &args.bench_cmd)?, &interrupt);
    }
    let experiment = Experiment::locate(&args.flags.output)?;
    let plan = plan(args, &experiment)?;
    let targets = match &args.kind {
        SweepKind::Sla { params, .. } => {
            let text = read(params).map_err(|error| Misused(format!("--sla-params {error}")))?;
            parse_targets(Path::new(params), &text)?
        }
        _ => Vec::new(),
    };
    let simulated = plan.serve_cmd.as_deref().is_some_and(is_tacho);
    let sink = screen(&args.flags.output.live, args.flags.output.dry_run)?;
    let mut commands = Commands::new(&plan.supervised, args.flags.server_ready_timeout.value, simulated, &sink);
    check(&plan, &commands)?;
    commands.ranks = ranks::conduct(membership, &plan)?;
    commands.searches = matches!(args.kind, SweepKind::Sla { .. });
    check_targets(&plan, &targets)?;
    if let SweepKind::Workload { variable, .. } | SweepKind::Sla { variable, .. } = &args.kind {
        variable.check(&plan.bench_sets, "the search over load levels")?;
    }
    let dry_run = plan.dry_run;
    let store = if dry_run { None } else { Store::of(&args.flags.output.history)? };
    if !dry_run {
        if !simulated {
            warn_of_port(&plan)?;
        }
        if plan.serve_cmd.is_none() {
            let patience = args.flags.server_ready_timeout.typed().copied().unwrap_or(0);
            running::reach(&running::addresses(&plan.bench_cmd)?, patience, "--server-ready-timeout")?;
        }
        experiment.open(&args.kind, &plan)?;
        interrupt.farewell(experiment.farewell());
    }
    let files = Files::new(plan.experiment.clone());
    let files = if commands.searches { files.of_search(store) } else { files.with(store) };
    let (report, answers) = run_kind(&args.kind, plan, targets, commands.tools(&files))?;
    sink.close();
    files.keep(&answers);
    if !dry_run {
        files.conclude(commands.searches);
    }
    let exit = verdict(&report)?;
    // An SLO that no load meets fails the sweep, regardless of single runs.
    Ok(if exit == Exit::Done { commands.code() } else { exit })
}

fn run_kind(
    kind: &SweepKind,
    sweep: SweepPlan,
    targets: Vec<Vec<Criterion>>,
    tools: Tools<'_>,
) -> anyhow::Result<(Report, Vec<SearchAnswer>)> {
    match *kind {
        SweepKind::Serve => Ok((serve(&sweep, tools)?, Vec::new())),
        SweepKind::Workload { variable, iterations, label } => {
            let at_once = is_tacho(&sweep.bench_cmd);
            Ok((workload(&WorkloadPlan { sweep, variable, iterations, label, at_once }, tools)?, Vec::new()))
        }
        SweepKind::Sla { variable, tolerance, seconds, budget, .. } => {
            let flags = SearchFlags { slo: "--sla-params", budget: "--sla-budget", seconds: "--sla-seconds" };
            let plan =
                SlaPlan { sweep, variable, targets, tolerance, seconds, budget, first_run: None, ramps: false, flags };
            let found = sla(&plan, tools)?;
            if !plan.sweep.dry_run {
                draw(&plan.sweep.experiment, "sla_summary.json")?;
            }
            Ok(found)
        }
    }
}

/// The live view of consecutive benchmarks.
pub(super) fn screen(live: &LiveArgs, dry_run: bool) -> anyhow::Result<Screen> {
    Ok(Screen::open(&live.unless(dry_run), false, Progress::Shown)?.with(Lines::Kept))
}

pub(crate) fn run_startup(args: &StartupSweepArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let sink = screen(&args.output.live, args.output.dry_run)?;
    let filtered = |path: Option<&str>| -> anyhow::Result<Vec<ParamSet>> {
        let filter = |set: &ParamSet| filter_params(set, args.strict_params, &sink);
        Ok(sets(path)?.iter().map(filter).collect::<Result<_, _>>()?)
    };
    let command = split("--startup-cmd", &args.startup_cmd.value)?;
    let experiment = Experiment::locate(&args.output)?;
    let plan = StartupPlan {
        command,
        serve_sets: filtered(args.serve_params.as_deref())?,
        startup_sets: filtered(args.startup_params.as_deref())?,
        experiment: experiment.path.clone(),
        num_runs: args.output.num_runs.value,
        dry_run: args.output.dry_run,
    };
    for set in plan.serve_sets.iter().chain(&plan.startup_sets) {
        apply("--startup-cmd", &plan.command, set)?;
    }
    if !plan.dry_run {
        experiment.make()?;
        interrupt.farewell(experiment.farewell());
    }
    let store = if plan.dry_run { None } else { Store::of(&args.output.history)? };
    let files = Files::new(plan.experiment.clone()).with(store);
    let supervised = supervised(args.output.show_stdout)?;
    let bench = Processes { supervised: &supervised, variables: &[], replaced: !args.startup_cmd.is_set };
    // A start-up benchmark starts its engine itself: no server is started.
    let host = Commands::new(&supervised, 0, false, &sink);
    let report = startup(&plan, Tools { bench: &bench, ..host.tools(&files) })?;
    sink.close();
    files.keep(&[]);
    if !plan.dry_run {
        files.conclude(false);
    }
    verdict(&report)
}

fn plan(args: &SweepArgs, experiment: &Experiment) -> anyhow::Result<SweepPlan> {
    let serve_cmd = match &args.flags.serve_cmd {
        Some(command) => Some(split("--serve-cmd", command)?),
        None => args.flags.sim.then(|| vec!["tacho".to_owned(), "sim".to_owned()]),
    };
    let dry_run = args.flags.output.dry_run;
    let after = match (&args.flags.after_bench_cmd, &serve_cmd) {
        (Some(command), _) => AfterBench::Command(split("--after-bench-cmd", command)?),
        (None, Some(server)) if args.flags.sim || is_tacho(server) => AfterBench::Reset(ResetKind::Call),
        (None, Some(server)) if !dry_run => AfterBench::Reset(ResetKind::of(server)?),
        _ => AfterBench::Reset(ResetKind::Nothing),
    };
    Ok(SweepPlan {
        bench_cmd: split("--bench-cmd", &args.bench_cmd)?,
        serve_cmd,
        after,
        supervised: supervised(args.flags.output.show_stdout)?,
        serve_sets: sets(args.flags.serve_params.as_deref())?,
        bench_sets: sets(args.flags.bench_params.as_deref())?,
        links: Links::parse(&args.flags.link_vars)?,
        experiment: experiment.path.clone(),
        num_runs: args.flags.output.num_runs.value,
        warmup_prompts: args.flags.warmup_num_prompts,
        continue_on_error: args.flags.continue_on_error,
        dry_run,
    })
}

/// Validates all commands before the first one runs.
fn check(plan: &SweepPlan, commands: &Commands<'_>) -> anyhow::Result<()> {
    plan.check()?;
    for set in &plan.bench_sets {
        commands.check(&apply("--bench-cmd", &plan.bench_cmd, set)?)?;
    }
    for set in &plan.serve_sets {
        plan.server_command(set)?.map_or(Ok(()), |command| commands.check_server(&command))?;
    }
    let server = plan.serve_cmd.as_deref().unwrap_or_default();
    if plan.dry_run { Ok(()) } else { commands.check_client(&plan.bench_cmd, server) }
}

/// Warns if tacho's client sends to another port than the one that the server's command names.
fn warn_of_port(plan: &SweepPlan) -> anyhow::Result<()> {
    for (serve, bench) in plan.serve_sets.iter().zip(&plan.bench_sets) {
        let Some(command) = plan.server_command(serve)? else { break };
        let serve = Address::of(&command)?;
        let bench = apply("--bench-cmd", &plan.bench_cmd, bench)?;
        let (own, named) = (is_tacho(&bench), option(&bench, "--base-url").is_some());
        if let Some(sends) = Address::of(&bench).ok().filter(|sends| own && !named && sends.port != serve.port) {
            let (port, sends) = (serve.port, sends.port);
            tracing::warn!("--bench-cmd sends to port {sends} and --serve-cmd names port {port}: pass --port to both");
            break;
        }
    }
    Ok(())
}

/// Draws a chart of each search whose answer is in this file of an experiment.
pub(super) fn draw(experiment: &Path, answers: &str) -> anyhow::Result<()> {
    let entries = tacho_report::results::read(&experiment.join(answers))?;
    let mut charts = Vec::new();
    let combinations = read_sweep(experiment).unwrap_or_default();
    let runs: Vec<&Dict> = combinations.iter().flat_map(|combination| &combination.runs).collect();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(chart) = search::chart(entry, &runs) {
            let path = experiment.join(format!("sla_{at}.svg"));
            write_text(&path, &svg(&chart.scene()))?;
            charts.push(chart);
        }
    }
    if !charts.is_empty() {
        let path = experiment.join("sla.html");
        let page = chart_page(&search::head(&entries[0], &runs), &charts);
        write_text(&path, &page)?;
        saved(&path);
    }
    Ok(())
}

/// Rejects SLOs on metrics that the benchmark does not report, before the first run.
fn check_targets(plan: &SweepPlan, targets: &[Vec<Criterion>]) -> anyhow::Result<()> {
    let serves = plan.bench_cmd.iter().any(|word| word == "serve");
    for set in plan.bench_sets.iter().filter(|_| serves) {
        let command = apply("--bench-cmd", &plan.bench_cmd, set)?;
        let names = option(&command, "--percentile-metrics").unwrap_or("ttft,tpot,itl").to_owned();
        let percentiles = option(&command, "--metric-percentiles").unwrap_or("99").to_owned();
        for criterion in targets.iter().flatten() {
            let known = Known::find(tacho_record::groups::split(&criterion.metric).1);
            let flag = known.map_or("", Known::flag);
            let has_flag = command.iter().any(|word| word.split('=').next() == Some(flag));
            if !flag.is_empty() && !has_flag {
                misused!(
                    "--sla-params {}: the metric is reported only with {flag}: add {flag} to --bench-cmd",
                    criterion.metric
                );
            }
            let Some(Known::Timed(timed)) = known else { continue };
            let name = timed.times.name;
            if timed.times.title.is_empty() || !names.split(',').any(|one| one == name) {
                misused!(
                    "--sla-params {}: the benchmark does not report it; add --percentile-metrics {names},{name} to --bench-cmd",
                    criterion.metric
                );
            }
            let wanted = |one: &str, percent: f64| one.trim().parse::<f64>().is_ok_and(|one| one == percent);
            if let Statistic::Percentile(percent) = timed.statistic
                && criterion.metric.starts_with('p')
                && !percentiles.split(',').any(|one| wanted(one, percent))
            {
                misused!(
                    "--sla-params {}: the benchmark does not report it; add --metric-percentiles {percentiles},{percent} to --bench-cmd",
                    criterion.metric
                );
            }
        }
    }
    Ok(())
}

/// Starts third-party commands under the supervisor.
pub(super) fn supervised(show_stdout: bool) -> anyhow::Result<Supervised> {
    Ok(Supervised { supervisor: supervise::launcher()?, show_stdout })
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).map_err(|error| anyhow!("{path}: cannot be read: {error}"))
}

/// The sets of a parameter file, or one empty set without a file.
pub(super) fn sets(path: Option<&str>) -> anyhow::Result<Vec<ParamSet>> {
    let Some(path) = path else { return Ok(vec![ParamSet::default()]) };
    let sets = parse_params(Path::new(path), &read(path)?)?;
    let hidden = sets.iter().any(|set| set.shown() != *set.values());
    let twice = sets.iter().enumerate().find(|(at, set)| sets[..*at].iter().any(|other| other.name() == set.name()));
    if let Some((_, set)) = twice.filter(|_| hidden) {
        bail!(
            "{path}: two sets are called {:?} once their secrets are hidden: set a _benchmark_name in each",
            set.name()
        );
    }
    Ok(sets)
}

/// The exit code of an experiment, or its error.
pub(super) fn verdict(report: &Report) -> anyhow::Result<Exit> {
    match &report.failures[..] {
        [] if report.unmet > 0 => Ok(Exit::Gate),
        [] => Ok(Exit::Done),
        failures => {
            let kept = if report.results > 0 { "the other results are kept" } else { "there are no results" };
            Err(anyhow!("{} failed; {kept}; use --resume to try again:\n  {}", failures.len(), failures.join("\n  ")))
        }
    }
}
