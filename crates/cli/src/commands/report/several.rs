//! Several results on one page: a summary of the difference and overlaid distributions.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use tacho_report::compare::{CompareSpec, Comparison, are_repeats, by_difference, verdicts, warnings};
use tacho_report::json::write_whole;
use tacho_report::style::harmless_line;

use crate::args::report::ReportCommandArgs;
use crate::commands::compare::sides::{detailed, sides};
use crate::exit::{Exit, saved};

/// Compares the results with the first one as baseline.
///
/// Runs of one configuration in `one_directory` are repeats, which are not compared with each other.
pub(super) fn report(files: &[PathBuf], one_directory: bool, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    if let Some(flag) = args.log_flags.iter().find(|flag| **flag != "--html") {
        bail!("{flag} is for one run, and {} were given", files.len());
    }
    let Some(page) = &args.outputs.page else {
        bail!("several results are shown on one page: add --html FILE (tacho compare prints tables)")
    };
    args.outputs.check()?;
    let spec = CompareSpec::usual();
    // The log of a run has per-request times, which allow more precise verdicts.
    let sides = by_difference(detailed(files, sides(files)?));
    let repeats = are_repeats(&sides, one_directory);
    let verdicts = if repeats { Vec::new() } else { verdicts(&sides, &spec)? };
    let comparison = Comparison::new(&sides, &spec)?;
    for warning in warnings(&sides) {
        writeln!(tacho_report::out(), "{warning}")?;
    }
    for verdict in &verdicts {
        writeln!(tacho_report::out(), "{}", harmless_line(&verdict.sentence(&spec)))?;
    }
    let text = comparison.html(&sides, &verdicts, &spec);
    write_whole(page, |out| out.write_all(text.as_bytes()))?;
    saved(page);
    Ok(Exit::Done)
}
