//! `--num-runs`: repeats a benchmark with a separate result per run, and summarizes them.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tacho_core::json::{Dict, dumps_indented};
use tacho_record::{MultiRun, RunRecord};
use tacho_report::json::{Detail, ResultFile, write_text};
use tacho_report::{card, inputs, multi_run, names};
use tacho_run::ServePlan;
use tacho_run::serve::{Contact, prepare};
use tacho_sim::Server;

use super::destination::{Destination, of_run};
use super::{inform, log, measure, plan, save, screen};
use crate::args::serve::{self, ServeArgs};
use crate::{commands::outputs::tacho_command, commands::report, exit::Exit, interrupt::Interrupt};

/// Runs the repetitions in order. Stops after an interrupted run or one without a successful request.
pub(super) fn run(args: &ServeArgs, simulator: Option<&Server>, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let (mut records, mut files, mut worst) = (Vec::new(), Vec::new(), Exit::Done);
    for number in 1..=args.repeats.runs {
        let run_args = numbered(args, number);
        inform(args, &format!("run {number} of {}", args.repeats.runs));
        let (record, exit) =
            once(&run_args, simulator, interrupt).with_context(|| format!("run {number} of {}", args.repeats.runs))?;
        files.extend(result_path(&run_args, &record));
        records.push(record);
        worst = worst.or_worse(exit);
        if exit == Exit::Interrupted {
            break;
        }
    }
    conclude(args, &records, &files)?;
    Ok(worst)
}

pub(super) fn once(
    args: &ServeArgs,
    simulator: Option<&Server>,
    interrupt: &Interrupt,
) -> anyhow::Result<(RunRecord, Exit)> {
    let screen = screen(args)?;
    let destination = Destination::open(args)?;
    let log = log::plan(args, &tacho_command(&args.values));
    let plan = ServePlan { log, ..plan::of(args, simulator)? };
    let prepared = prepare(&plan, Contact::Server, &screen)?;
    save(args, &plan, &prepared)?;
    measure(args, &plan, prepared, interrupt, &screen, &destination)
}

/// The arguments of one repetition: separate files, and a separate seed if requested.
fn numbered(args: &ServeArgs, number: usize) -> ServeArgs {
    let mut run_args = named(args, &format!("run{number}"));
    if args.repeats.vary_seed {
        run_args.load.seed = args.load.seed.saturating_add(number as i64 - 1);
    }
    run_args
}

/// The arguments of the run `name`, with separate files.
pub(super) fn named(args: &ServeArgs, name: &str) -> ServeArgs {
    let mut run_args = args.clone();
    run_args.name = Some(name.to_owned());
    let files = [&mut run_args.outputs.requests, &mut run_args.outputs.page, &mut run_args.outputs.card];
    files.into_iter().flatten().for_each(|path| *path = of_run(path, name));
    if let Some(serve::Destination::File(path)) = &mut run_args.outputs.summary {
        *path = of_run(path, name);
    }
    let text = |path: &String| of_run(Path::new(path), name).to_string_lossy().into_owned();
    run_args.tacho.log = args.tacho.log.as_ref().map(text);
    run_args.tacho.save_workload = args.tacho.save_workload.as_ref().map(text);
    // With a single result file, all runs are appended to it.
    if !args.report.append_result {
        run_args.report.result_filename =
            args.report.result_filename.as_ref().filter(|name| !name.is_empty()).map(text);
    }
    run_args
}

pub(super) fn result_path(args: &ServeArgs, record: &RunRecord) -> Option<PathBuf> {
    let destination = Destination::open(args).ok()?;
    destination.path(args, record).filter(|_| args.report.save_result || args.report.append_result)
}

fn conclude(args: &ServeArgs, records: &[RunRecord], files: &[PathBuf]) -> anyhow::Result<()> {
    let runs = MultiRun::of(records);
    let results: Vec<Dict> = records.iter().map(|record| ResultFile::new(record, Detail::Brief).to_dict()).collect();
    let text = multi_run::text(&runs, &inputs::of_results(None, &results));
    if args.outputs.owns_stdout() {
        std::io::stderr().write_all(text.as_bytes())?;
    } else {
        tacho_report::out().write_all(text.as_bytes())?;
    }
    if let Some(path) = args.outputs.card.as_ref().filter(|_| records.len() > 1) {
        card::save_runs(records, path)?;
        inform(args, &format!("saved: {}   (all runs on one card)", path.display()));
    }
    let Some(last) = records.last().filter(|_| !files.is_empty()) else { return Ok(()) };
    let directory = args.report.result_dir.as_ref().map(PathBuf::from);
    let whole = names::result_path(&last.setup, directory.as_deref(), args.report.result_filename.as_deref());
    let path = whole.with_extension("runs.json");
    let names: Vec<String> = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    let json = dumps_indented(&multi_run::json(&runs, &names), 4);
    write_text(&path, &json)?;
    inform(args, &format!("saved: {}   (all runs together)", path.display()));
    if let Some(page) = args.outputs.page.as_ref().filter(|_| files.len() > 1) {
        report::write_several(files, true, page)?;
        inform(args, &format!("saved: {}   (all runs on one page)", page.display()));
    }
    Ok(())
}
