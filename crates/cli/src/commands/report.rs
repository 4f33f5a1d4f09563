//! `tacho report`: reports a run from its log or result, several results on one page, or the tables of a directory.

mod log;
mod offline;
mod result;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use tacho_core::json::{Dict, Value, dumps};
use tacho_record::ResultKind;
use tacho_report::compare::{CompareSpec, Comparison, are_repeats, by_difference, verdicts, warnings};
use tacho_report::dashboard::{Dashboard, is_by_product};
use tacho_report::plots::sweep::{Combination, read_sweep};
use tacho_report::{export::benchmark_report, json::write_text, results, style::harmless_line};
use tacho_rowlog::Stored;

use super::{platform, sweep::outcome::table};
use crate::args::report::ReportCommandArgs;
use crate::commands::compare::sides::{detailed, of_log, sides};
use crate::exit::{Exit, note, saved, show};

pub(crate) fn run(args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    if let Some(missing) = args.paths.iter().find(|path| !path.exists()) {
        bail!("{} does not exist: pass a result, a log, or a directory of results", missing.display());
    }
    // A shell pattern such as `dir/*.json` also matches files that are not results.
    let wanted = |path: &&PathBuf| args.paths.len() == 1 || !is_by_product(path);
    let paths: Vec<PathBuf> = args.paths.iter().filter(wanted).cloned().collect();
    if let Some(target) = &args.flags.save_benchmark_report {
        return save_benchmark_report(&paths, target);
    }
    let logs = paths.iter().filter(|path| Stored::is_log(path)).count();
    match paths.as_slice() {
        [path] if logs == 1 => {
            let stored = Stored::open(path)?;
            match offline::about(&stored) {
                Some(about) => offline::report(path, &stored, about, args),
                None => log::report(&paths, args),
            }
        }
        paths if logs == paths.len() => log::report(paths, args),
        [file] if file.is_file() => result::report(file, args),
        files if logs < files.len() && files.iter().all(|path| path.is_file() || Stored::is_log(path)) => {
            report_several(files, false, args)
        }
        [directory] if args.log_flags.is_empty() => tables(directory, args),
        [directory] => inside(directory, args),
        paths => {
            let other = paths.iter().find(|path| !Stored::is_log(path)).unwrap_or(&paths[0]);
            bail!(
                "{} is not the log of a run: pass only logs, only result files, or one directory of results",
                other.display()
            )
        }
    }
}

fn save_benchmark_report(paths: &[PathBuf], target: &Path) -> anyhow::Result<Exit> {
    let [path] = paths else { bail!("--save-benchmark-report is for one run, and {} were given", paths.len()) };
    let results = of_log(path)?.map_or_else(|| results::read(path), |result| Ok(vec![result]))?;
    match results.as_slice() {
        [result] if ResultKind::of(result) == Some(ResultKind::Serving) => benchmark_report::save(result, target)?,
        [_] => bail!("{} is not the result of a serving run", path.display()),
        several => bail!("{} holds {} results: a benchmark report is of one run", path.display(), several.len()),
    }
    saved(target);
    Ok(Exit::Done)
}

fn inside(directory: &Path, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "json") && is_result(path));
    files.sort();
    match files.as_slice() {
        [] => bail!(
            "{} is for runs, and {} holds no result of one: pass a result, or the directory that --log wrote{}",
            args.log_flags.join(", "),
            directory.display(),
            if directory.join("sweep.json").exists() { ", or draw the sweep with tacho sweep plot --html" } else { "" }
        ),
        [file] => result::report(file, args),
        several => report_several(several, true, args),
    }
}

fn is_result(path: &Path) -> bool {
    let read = results::read(path);
    read.is_ok_and(|dicts| dicts.len() == 1 && ResultKind::of(&dicts[0]) == Some(ResultKind::Serving))
}

/// Prints the runs of a sweep in the sweep's summary table.
fn sweep(directory: &Path, combinations: Vec<Combination>, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    if args.flags.save {
        bail!("--save: the tables of a sweep are saved already: {}", directory.join("summary.csv").display());
    }
    let rows: Vec<Dict> = combinations.into_iter().flat_map(|combination| combination.runs).collect();
    let mut out = tacho_report::out();
    if args.prints_markdown() {
        show(&table(&rows))?;
    }
    if args.flags.json {
        writeln!(out, "{}", dumps(&Value::List(rows.into_iter().map(Value::Dict).collect())))?;
    }
    note(&format!("pictures: tacho sweep plot {0}, tacho sweep plot_pareto {0}", directory.display()));
    Ok(Exit::Done)
}

fn tables(directory: &Path, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    let dashboard = Dashboard::read(directory)?.on(platform::rows());
    if dashboard.is_empty()
        && let Ok(combinations) = read_sweep(directory)
    {
        return sweep(directory, combinations, args);
    }
    for (name, reason) in &dashboard.skipped {
        tracing::warn!("Skipping {name}: {reason}");
    }
    if dashboard.is_empty() {
        bail!(
            "no results in {}: pass a directory with the .json files of runs, or the log of a run",
            directory.display()
        );
    }
    let mut out = tacho_report::out();
    if args.prints_markdown() {
        // vLLM's script prints the rows as JSON below the tables, for programs.
        let is_read = out.is_terminal() && !args.flags.markdown;
        show(&if is_read { dashboard.tables_markdown() } else { dashboard.markdown() })?;
    }
    if args.flags.json {
        writeln!(out, "{}", dumps(&dashboard.rows()))?;
    }
    if args.flags.save {
        dashboard.save(directory)?;
        saved(directory.join("benchmark_results.md"));
        saved(directory.join("benchmark_results.json"));
    }
    Ok(Exit::Done)
}

/// Compares the results on one page, with the first one as baseline.
///
/// Runs of one configuration in `one_directory` are repeats, which are not compared with each other.
fn report_several(files: &[PathBuf], one_directory: bool, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    if let Some(flag) = args.log_flags.iter().find(|flag| **flag != "--html") {
        bail!("{flag} is for one run, and {} were given", files.len());
    }
    let Some(page) = &args.outputs.page else {
        bail!("several results are shown on one page: add --html FILE (tacho compare prints tables)")
    };
    args.outputs.check()?;
    for line in write_several(files, one_directory, page)? {
        writeln!(tacho_report::out(), "{line}")?;
    }
    saved(page);
    Ok(Exit::Done)
}

/// Writes the page of several results. Returns the warnings of the runs and the verdicts.
pub(in crate::commands) fn write_several(
    files: &[PathBuf],
    one_directory: bool,
    page: &Path,
) -> anyhow::Result<Vec<String>> {
    let spec = CompareSpec::usual();
    // The log of a run has per-request times, which allow more precise verdicts.
    let sides = by_difference(detailed(files, sides(files)?));
    let repeats = are_repeats(&sides, one_directory);
    let verdicts = if repeats { Vec::new() } else { verdicts(&sides, &spec)? };
    let comparison = Comparison::new(&sides, &spec)?;
    let text = comparison.html(&sides, &verdicts, &spec);
    write_text(page, &text)?;
    let sentences = verdicts.iter().map(|verdict| harmless_line(&verdict.sentence(&spec)));
    Ok(warnings(&sides).into_iter().chain(sentences).collect())
}
