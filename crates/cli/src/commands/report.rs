//! `tacho report`: the tables of a folder.

use std::io::{self, Write};

use anyhow::bail;
use tacho_core::json::dumps;
use tacho_report::dashboard::Dashboard;

use super::platform;
use crate::args::report::ReportCommandArgs;
use crate::exit::Exit;

/// Reads the folder, then prints or writes its tables.
pub(crate) fn run(args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    let dashboard = Dashboard::read(&args.folder)?.on(platform::rows());
    for (name, reason) in &dashboard.skipped {
        tracing::warn!("Skipping {name}: {reason}");
    }
    if dashboard.is_empty() {
        bail!("no results in {}: give a folder that holds the .json files of runs", args.folder.display());
    }
    let mut out = io::stdout();
    if args.markdown {
        out.write_all(dashboard.markdown().as_bytes())?;
    }
    if args.json {
        writeln!(out, "{}", dumps(&dashboard.rows()))?;
    }
    if args.save {
        dashboard.save(&args.folder)?;
    }
    Ok(Exit::Done)
}
