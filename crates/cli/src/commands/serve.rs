//! `tacho serve`: benchmarks a server or the simulator.

mod charts;
mod destination;
pub(super) mod dry_run;
pub(super) mod log;
pub(super) mod plan;
mod points;
pub(crate) mod predict;
pub(super) mod ranks;
mod remedy;
mod repeats;
#[cfg(test)]
mod replay_tests;
mod replicas;
mod sessions;
pub(super) mod simulator;
pub(super) mod workload;

use std::path::Path;

use anyhow::anyhow;
use tacho_core::{EventSink, RunEvent, json::Dict, secret::redact_args};
use tacho_decide::threshold::Finding;
use tacho_fleet::Membership;
use tacho_loadgen::StopSignal;
use tacho_metrics::{Caveat, Trust};
use tacho_record::RunRecord;
use tacho_report::export::otlp::{Origin, metrics, traces};
use tacho_report::{Progress, html::run::About, json::ResultFile, style::harmless_line};
use tacho_run::serve::{Contact, Prepared, prepare, run as run_serve, save_workload};
use tacho_run::{ServePlan, otlp::Collector};
use tacho_sim::Server;

use super::outputs::{command_line, recorded_command, tacho_command};
use super::{check::code, screen::Screen};
use crate::args::serve::{Decided, ServeArgs};
use crate::exit::{self, Advised, Exit, shown};
use crate::{args::shared::tags::WINDOW, interrupt::Interrupt};
use destination::Destination;

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    if let Some(files) = &args.points.compare {
        return points::compare(files);
    }
    let resumed = log::resumed(args)?;
    let args = resumed.as_ref().unwrap_or(args);
    let interrupt = Interrupt::catch()?;
    let membership = ranks::membership(args)?;
    if let Some(membership) = membership.as_ref().filter(|membership| membership.rank > 0) {
        return ranks::share(args, membership, &tacho_command(&args.values), &interrupt);
    }
    // Keep the listener open until everything is saved: closing it lets the other ranks exit.
    let membership = membership.map(Membership::listening).transpose()?;
    let screen = screen(args)?;
    if let Some(notice) = membership.as_ref().and_then(|membership| membership.notice.clone()) {
        screen.event(RunEvent::warning(notice));
    }
    for notice in args.notices() {
        screen.event(RunEvent::warning(notice));
    }
    if args.has_moderate_load() {
        inform(args, &moderate(args));
    }
    // vLLM prints its arguments; results and logs contain them anyway.
    if args.tacho.strict_parity && !args.outputs.owns_stdout() {
        screen.event(RunEvent::status(args.namespace_line()));
    }
    let destination = Destination::open(args)?;
    args.outputs.check()?;
    let simulator = simulator::start(args)?;
    if !args.points.loads.is_empty() {
        drop(screen);
        return points::run(args, simulator.as_ref(), &interrupt);
    }
    if args.repeats.runs > 1 && !args.tacho.dry_run {
        drop(screen);
        return repeats::run(args, simulator.as_ref(), &interrupt);
    }
    let log = log::plan(args, &tacho_command(&args.values));
    let plan = ServePlan { log, ranks: membership, ..plan::of(args, simulator.as_ref())? };
    let contact = if args.tacho.dry_run { Contact::Minimal } else { Contact::Server };
    let prepared = prepare(&plan, contact, &screen)?;
    save(args, &plan, &prepared)?;
    if args.tacho.dry_run {
        let unwritten = unwritten(args);
        if !unwritten.is_empty() {
            inform(args, &format!("--dry-run: nothing is written for {}", unwritten.join(", ")));
        }
        return dry_run::print(&plan, &prepared);
    }
    measure(args, &plan, prepared, &interrupt, &screen, &destination).map(|(_, exit)| exit)
}

fn save(args: &ServeArgs, plan: &ServePlan, prepared: &Prepared) -> anyhow::Result<()> {
    let Some(path) = &args.tacho.save_workload else { return Ok(()) };
    save_workload(plan, prepared, settings(args, plan, prepared), Path::new(path))?;
    inform(args, &format!("saved: {path}   (send it again: tacho serve --workload FILE)"));
    Ok(())
}

/// The settings of a saved workload.
pub(super) fn settings(args: &ServeArgs, plan: &ServePlan, prepared: &Prepared) -> Dict {
    args.settings(&Decided {
        model_id: &prepared.model_id,
        model_name: &prepared.model_name,
        cache_salt: args.tacho.cache_salt.as_ref().and_then(|_| plan.traffic.payload.extra_body.text("cache_salt")),
        max_concurrency: plan.traffic.max_concurrency,
    })
}

/// What a run with `--sim` and no load flag sends.
fn moderate(args: &ServeArgs) -> String {
    let (load, dataset) = (&args.load, &args.dataset);
    format!(
        "--sim without a load: {} requests, {} per second, {} input and {} output tokens (vLLM's default: --num-prompts 1000 \
         --request-rate inf --random-input-len 1024 --random-output-len 128)",
        load.num_prompts,
        load.request_rate,
        dataset.input_len(),
        dataset.output_len()
    )
}

/// Output flags that require a real run.
fn unwritten(args: &ServeArgs) -> Vec<&'static str> {
    let (report, outputs) = (&args.report, &args.outputs);
    let flags = [
        ("--save-result", report.save_result),
        ("--append-result", report.append_result),
        ("--plot-timeline", report.plot_timeline),
        ("--plot-dataset-stats", report.plot_dataset_stats),
        ("--report", outputs.page.is_some()),
        ("--card", outputs.card.is_some()),
        ("--save-requests", outputs.requests.is_some()),
        ("--history", args.history.directory.is_some()),
    ];
    flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
}

fn screen(args: &ServeArgs) -> anyhow::Result<Screen> {
    let progress = if args.report.disable_tqdm { Progress::Hidden } else { Progress::Shown };
    Screen::open(&args.live.unless(args.tacho.dry_run), args.tacho.quiet || args.outputs.owns_stdout(), progress)
}

fn measure(
    args: &ServeArgs,
    plan: &ServePlan,
    prepared: Prepared,
    interrupt: &Interrupt,
    screen: &Screen,
    destination: &Destination,
) -> anyhow::Result<(RunRecord, Exit)> {
    let note = charts::dataset_note(args, &prepared)?;
    interrupt.measuring();
    let record = run_serve(plan, prepared, &interrupt.stop, screen);
    screen.close();
    let record = with_window(args, record.map_err(|error| remedy::advised(args, error))?);
    // Write the file first: a closed pipe must not cost the result.
    let saved = destination.save(args, &record);
    destination.keep(args, &record);
    args.outputs.print(&record)?;
    if let Some(path) = saved? {
        inform(args, &format!("saved: {}   (tacho compare OTHER THIS)", shown(&path)));
    }
    args.outputs.write(&record, &About::default())?;
    screen.link_report(&record);
    export_otlp(args, &record);
    let path = destination.path(args, &record);
    if let Some(log) = log::settle(plan, args, path.as_deref()) {
        let given_up = record.caveats.iter().any(|caveat| matches!(caveat, Caveat::LogIncomplete { .. }));
        let (word, what) = match given_up {
            true => ("incomplete", "requests until it could not be written"),
            false => ("saved", "every request"),
        };
        inform(args, &format!("{word}: {}   ({what}: tacho report DIR)", shown(&log)));
    }
    if let Some(path) = &path {
        charts::draw(args, &record, &note, path, screen)?;
    }
    if let Some(member) = &plan.ranks {
        member.release();
    }
    let exit = held(args, &record)?;
    // A grader that was stopped leaves the run whole and its result without scores.
    let is_ungraded = exit == Exit::Done && plan.grade.is_some();
    Ok((record, if is_ungraded { interrupt.or(exit) } else { exit }))
}

/// Adds the steady-state window to the record, if the run can have one.
pub(super) fn with_window(args: &ServeArgs, mut record: RunRecord) -> RunRecord {
    if let Some(rule) = args.repeats.window() {
        record.find_window(rule, args.values.first_tagged(WINDOW).is_some());
    }
    record
}

/// Evaluates the `--fail-if` conditions and prints findings to standard error, which keeps the report parsable.
fn findings(args: &ServeArgs, record: &RunRecord) -> anyhow::Result<Vec<Finding>> {
    let findings: Vec<Finding> = args.thresholds()?.iter().map(|threshold| threshold.on_record(record)).collect();
    for finding in &findings {
        exit::note(&harmless_line(&finding.text()));
    }
    Ok(findings)
}

/// Runs a benchmark inside another command, against its simulator if there is one. With `save` the result is saved as
/// the arguments request; otherwise that is up to the caller. The exit code reflects failed conditions.
pub(crate) fn run_inside(
    args: &ServeArgs,
    command: &[String],
    simulator: Option<&Server>,
    membership: Option<Membership>,
    save: bool,
    sink: &dyn EventSink,
) -> anyhow::Result<(RunRecord, Exit)> {
    let destination = Destination::open(args)?;
    let own = if simulator.is_none() { simulator::start(args)? } else { None };
    let mut plan = plan::of(args, simulator.or(own.as_ref()))?;
    let command = recorded_command(command, &args.values);
    if let Some(provenance) = &mut plan.report.provenance {
        provenance.command = command_line(&redact_args(&command));
    }
    let plan = ServePlan { log: log::plan(args, &command), ranks: membership, ..plan };
    let prepared = prepare(&plan, Contact::Server, sink)?;
    let note = charts::dataset_note(args, &prepared)?;
    let record = with_window(args, run_serve(&plan, prepared, &StopSignal::default(), sink)?);
    if save {
        destination.save(args, &record)?;
    } else {
        destination.save_side(args, &record)?;
    }
    let path = destination.path(args, &record);
    log::settle(&plan, args, path.as_deref());
    if let Some(path) = &path {
        charts::draw(args, &record, &note, path, sink)?;
    }
    let exit = held(args, &record)?;
    Ok((record, exit))
}

/// Runs a benchmark on which another command reports; an error if no request succeeded.
pub(super) fn run_block(args: &ServeArgs, stop: &StopSignal, sink: &dyn EventSink) -> anyhow::Result<RunRecord> {
    let plan = plan::of(args, None)?;
    let prepared = prepare(&plan, Contact::Server, sink)?;
    let record =
        with_window(args, run_serve(&plan, prepared, stop, sink).map_err(|error| remedy::advised(args, error))?);
    verdict(args, &record)?;
    Ok(record)
}

pub(crate) fn result(args: &ServeArgs, record: &RunRecord) -> Dict {
    ResultFile::new(record, destination::detail(args)).to_dict()
}

/// The exit code of a completed run: whether it was measurable, and whether conditions failed.
fn held(args: &ServeArgs, record: &RunRecord) -> anyhow::Result<Exit> {
    let findings = findings(args, record)?;
    let exit = verdict(args, record)?;
    Ok(if exit == Exit::Done { code(&findings, args.tacho.allow_inconclusive) } else { exit })
}

/// Whether a run was whole; an error if no request succeeded.
pub(in crate::commands) fn verdict(args: &ServeArgs, record: &RunRecord) -> anyhow::Result<Exit> {
    if record.setup.interrupted {
        return Ok(Exit::Interrupted);
    }
    if let Some(lost) = record.caveats.iter().find(|caveat| matches!(caveat, Caveat::RankLost { .. })) {
        return Err(anyhow!("the run is not whole: {}", lost.text()));
    }
    let samples = &record.measured.samples;
    match samples.iter().find(|sample| !sample.success()) {
        Some(first) if answered(record) == 0 => {
            let text = match record.summary.completed {
                0 => format!("all {} requests failed; the first one: {}", samples.len(), first.error),
                _ => format!("all resumed requests failed; the first one: {}", first.error),
            };
            Err(Advised::new(text, remedy::remedy(args, &first)).into())
        }
        _ if record.caveats.iter().any(is_failed_rule) => Ok(Exit::Gate),
        _ if args.tacho.require_trustworthy && !record.trust.as_ref().is_some_and(Trust::is_ok) => Ok(Exit::Gate),
        _ => Ok(Exit::Done),
    }
}

/// Requests that completed in this run, without those before a resume.
fn answered(record: &RunRecord) -> u64 {
    let since = |caveat: &Caveat| match caveat {
        Caveat::Resumed { answered, .. } => Some(*answered),
        _ => None,
    };
    record.caveats.iter().find_map(since).unwrap_or(record.summary.completed)
}

/// Whether the run was stopped because of failures or overload.
pub(crate) fn is_failed_rule(caveat: &Caveat) -> bool {
    caveat.is_bad_end()
}

/// Prints a location to standard error: scripts parse the report.
fn inform(args: &ServeArgs, text: &str) {
    if !(args.tacho.quiet || args.tacho.strict_parity) {
        exit::note(text);
    }
}

/// `--otlp`: exports the metrics, and the requests as spans. An unreachable collector never fails the run.
fn export_otlp(args: &ServeArgs, record: &RunRecord) {
    let Some(address) = &args.telemetry.otlp else { return };
    match try_export(address, args.telemetry.spans, record) {
        Ok(spans) => tracing::info!(spans, "series sent to the collector"),
        Err(error) => exit::note(&format!("warning: --otlp: {error:#}")),
    }
}

/// Returns the number of spans sent.
fn try_export(address: &str, spans: bool, record: &RunRecord) -> anyhow::Result<usize> {
    let collector = Collector::at(address)?;
    let began = record.setup.started.parse::<jiff::Timestamp>().unwrap_or_else(|_| jiff::Timestamp::now());
    let origin = Origin(i64::try_from(began.as_nanosecond()).unwrap_or(i64::MAX));
    collector.post("metrics", &metrics(record, origin))?;
    for body in traces(record, origin).iter().filter(|_| spans) {
        collector.post("traces", body)?;
    }
    Ok(if spans { record.measured.samples.len() } else { 0 })
}
