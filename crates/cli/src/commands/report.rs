//! `tacho report`: a run anew from its log or its result, several results on one page, or the tables of a folder.

mod log;
mod offline;
mod result;
mod several;

use std::io::{self, Write};
use std::path::Path;

use anyhow::bail;
use tacho_core::json::{Dict, Value, dumps};
use tacho_report::dashboard::Dashboard;
use tacho_report::plots::sweep::{Combination, read_sweep};
use tacho_rowlog::Stored;

use super::platform;
use super::sweep::outcome::table;
use crate::args::report::ReportCommandArgs;
use crate::exit::{Exit, saved, tell};

/// Reports what the paths hold.
pub(crate) fn run(args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    if let Some(missing) = args.paths.iter().find(|path| !path.exists()) {
        bail!("there is no file or folder {}", missing.display());
    }
    let logs = args.paths.iter().filter(|path| Stored::is_log(path)).count();
    match args.paths.as_slice() {
        [path] if logs == 1 => {
            let stored = Stored::open(path)?;
            match offline::about(&stored) {
                Some(about) => offline::report(path, &stored, about, args),
                None => log::report(&args.paths, &args.log),
            }
        }
        paths if logs == paths.len() => log::report(paths, &args.log),
        [file] if file.is_file() => result::report(file, args),
        files if logs < files.len() && files.iter().all(|path| path.is_file() || Stored::is_log(path)) => {
            several::report(files, args)
        }
        [folder] if args.log_flags.is_empty() => tables(folder, args),
        [folder] => bail!(
            "{} is for the log of a run, and {} holds none: give the folder that --log wrote{}",
            args.log_flags.join(", "),
            folder.display(),
            if folder.join("sweep.json").exists() { ", or draw the sweep with tacho sweep plot --html" } else { "" }
        ),
        paths => {
            let other = paths.iter().find(|path| !Stored::is_log(path)).unwrap_or(&paths[0]);
            bail!(
                "{} is no log of a run: give logs alone, result files alone, or one folder of results",
                other.display()
            )
        }
    }
}

/// The runs of a sweep, in the table that the sweep ended with.
fn sweep(folder: &Path, combinations: Vec<Combination>, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    if args.save {
        bail!("--save: the tables of a sweep are saved already: {}", folder.join("summary.csv").display());
    }
    let rows: Vec<Dict> = combinations.into_iter().flat_map(|combination| combination.runs).collect();
    let mut out = io::stdout();
    if args.markdown {
        out.write_all(table(&rows).as_bytes())?;
    }
    if args.json {
        writeln!(out, "{}", dumps(&Value::List(rows.into_iter().map(Value::Dict).collect())))?;
    }
    tell(&format!("pictures: tacho sweep plot {0}, tacho sweep plot_pareto {0}", folder.display()));
    Ok(Exit::Done)
}

/// Reads a folder of results, then prints or writes its tables.
fn tables(folder: &Path, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    let dashboard = Dashboard::read(folder)?.on(platform::rows());
    for (name, reason) in &dashboard.skipped {
        tracing::warn!("Skipping {name}: {reason}");
    }
    if dashboard.is_empty() {
        if let Ok(combinations) = read_sweep(folder) {
            return sweep(folder, combinations, args);
        }
        bail!(
            "no results in {}: give a folder that holds the .json files of runs, or the log of a run",
            folder.display()
        );
    }
    let mut out = io::stdout();
    if args.markdown {
        out.write_all(dashboard.markdown().as_bytes())?;
    }
    if args.json {
        writeln!(out, "{}", dumps(&dashboard.rows()))?;
    }
    if args.save {
        dashboard.save(folder)?;
        saved(folder.join("benchmark_results.md"));
        saved(folder.join("benchmark_results.json"));
    }
    Ok(Exit::Done)
}
