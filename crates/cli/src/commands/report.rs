//! `tacho report`: a logged run anew, or the tables of a folder.

mod log;

use std::io::{self, Write};
use std::path::Path;

use anyhow::bail;
use tacho_core::json::dumps;
use tacho_report::dashboard::Dashboard;
use tacho_rowlog::Stored;

use super::platform;
use crate::args::report::ReportCommandArgs;
use crate::exit::Exit;

/// Reports what the paths hold.
pub(crate) fn run(args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    let logs = args.paths.iter().filter(|path| Stored::is_log(path)).count();
    match args.paths.as_slice() {
        paths if logs == paths.len() => log::report(paths, &args.log),
        [folder] if args.log_flags.is_empty() => tables(folder, args),
        [folder] => bail!(
            "{} is for the log of a run, and {} holds none: give the folder that --log wrote",
            args.log_flags.join(", "),
            folder.display()
        ),
        paths => {
            let other = paths.iter().find(|path| !Stored::is_log(path)).unwrap_or(&paths[0]);
            bail!("{} is no log of a run: give logs alone, or one folder of results", other.display())
        }
    }
}

/// Reads a folder of results, then prints or writes its tables.
fn tables(folder: &Path, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    let dashboard = Dashboard::read(folder)?.on(platform::rows());
    for (name, reason) in &dashboard.skipped {
        tracing::warn!("Skipping {name}: {reason}");
    }
    if dashboard.is_empty() {
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
    }
    Ok(Exit::Done)
}
