//! `--sweep-max-concurrency` and `--sweep-request-rate`: a series of loads, each with a separate result, and a
//! summary table. `--compare`: compares two results.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use tacho_core::json::dumps_indented;
use tacho_record::points::Point;
use tacho_report::compare::{CompareSpec, side_by_side, verdicts};
use tacho_report::{json::write_text, names, results, style::harmless_line, tables::points};
use tacho_run::serve::{Contact, prepare};
use tacho_sim::Server;

use super::repeats::{named, once, result_path};
use super::{inform, plan};
use crate::{args::serve::ServeArgs, commands::compare::sides::sides, exit::Exit, interrupt::Interrupt};

/// Runs the loads in order. A load that fails is recorded, and the next one runs.
pub(super) fn run(args: &ServeArgs, simulator: Option<&Server>, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let loads = &args.points.loads;
    if args.tacho.dry_run {
        return dry_run(args, simulator);
    }
    let (mut rows, mut files, mut worst, mut last) = (Vec::new(), Vec::new(), Exit::Done, None);
    for (at, load) in loads.iter().enumerate() {
        let point = named(&args.at(*load), &load.name().replace(' ', ""));
        inform(args, &format!("{} ({} of {})", load.name(), at + 1, loads.len()));
        let requested = &args.points.percentiles;
        match once(&point, simulator, interrupt) {
            Ok((record, exit)) => {
                files.push(result_path(&point, &record).map(|path| path.to_string_lossy().into_owned()));
                rows.push(Point::of(load.name(), load.value(), &record, requested));
                last = Some(record);
                worst = if exit == Exit::Done { worst } else { exit };
                if exit == Exit::Interrupted {
                    break;
                }
            }
            Err(error) => {
                inform(args, &format!("{}: {error:#}", load.name()));
                files.push(None);
                rows.push(Point::failed(load.name(), load.value(), format!("{error:#}"), requested));
            }
        }
    }
    let title = format!(
        "{} Sweep ({} points)",
        if loads[0].key() == "request_rate" { "Request Rate" } else { "Concurrency" },
        rows.len()
    );
    let text = points::text(&title, &rows);
    if args.outputs.owns_stdout() {
        io::stderr().write_all(text.as_bytes())?
    } else {
        tacho_report::out().write_all(text.as_bytes())?
    }
    if let Some(record) = last.as_ref().filter(|_| files.iter().any(Option::is_some)) {
        let directory = args.report.result_dir.as_ref().map(PathBuf::from);
        let whole = names::result_path(&record.setup, directory.as_deref(), args.report.result_filename.as_deref());
        let path = whole.with_extension("sweep.json");
        let json = dumps_indented(&points::json(loads[0].key(), &rows, &files), 4);
        write_text(&path, &json)?;
        inform(args, &format!("saved: {}   (all loads together)", path.display()));
    }
    let failed: Vec<&str> = rows.iter().filter(|row| row.failure.is_some()).map(|row| row.name.as_str()).collect();
    if failed.is_empty() {
        Ok(worst)
    } else {
        Err(anyhow!("{} of {} loads failed: {}", failed.len(), rows.len(), failed.join(", ")))
    }
}

fn dry_run(args: &ServeArgs, simulator: Option<&Server>) -> anyhow::Result<Exit> {
    for load in &args.points.loads {
        let point = args.at(*load);
        inform(args, &load.name());
        let plan = plan::of(&point, simulator)?;
        let prepared = prepare(&plan, Contact::Minimal, &super::screen(&point)?)?;
        super::dry_run::print(&plan, &prepared)?;
    }
    Ok(Exit::Done)
}

/// Compares two results: the table of vLLM's Rust client, and whether the differences are significant.
pub(super) fn compare(files: &[PathBuf]) -> anyhow::Result<Exit> {
    let [base, new] = files else { return Err(anyhow!("--compare takes two results")) };
    let sides = sides(files)?;
    let mut text = side_by_side(&last(base)?, &last(new)?);
    let spec = CompareSpec::usual();
    for verdict in verdicts(&sides, &spec)? {
        text += &format!("{}\n", harmless_line(&verdict.sentence(&spec)));
    }
    tacho_report::out().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

fn last(path: &Path) -> anyhow::Result<tacho_core::json::Dict> {
    if let Some(result) = crate::commands::compare::sides::of_log(path)? {
        return Ok(result);
    }
    results::read(path)?.pop().ok_or_else(|| anyhow!("{}: contains no result", path.display()))
}
