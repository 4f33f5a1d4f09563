//! Sides of a comparison: result files, directories, and logs.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tacho_core::json::Dict;
use tacho_report::compare::{Side, load_known};
use tacho_report::json::{Detail, ResultFile};
use tacho_report::results;
use tacho_rowlog::Stored;
use tacho_run::rebuild::{Changes, rebuild};

use crate::commands::sim::hub;

pub(crate) fn sides(files: &[PathBuf]) -> anyhow::Result<Vec<Side>> {
    let known = files.iter().map(|file| of_log(file));
    Ok(load_known(files, known.collect::<anyhow::Result<_>>()?)?)
}

/// Returns the result of a log, or `None` if the path is not a log.
pub(crate) fn of_log(path: &Path) -> anyhow::Result<Option<Dict>> {
    Stored::is_log(path).then(|| logged(path)).transpose()
}

/// Adds per-request times to the sides that have a log next to the result.
pub(crate) fn detailed(files: &[PathBuf], sides: Vec<Side>) -> Vec<Side> {
    let known: Vec<Option<Dict>> = files.iter().map(|file| per_request(file)).collect();
    if known.iter().all(Option::is_none) {
        return sides;
    }
    match load_known(files, known) {
        Ok(found) if found.len() == sides.len() => found,
        _ => sides,
    }
}

fn per_request(file: &Path) -> Option<Dict> {
    if Stored::is_log(file) {
        return logged(file).ok();
    }
    let [dict] = <[Dict; 1]>::try_from(results::read(file).ok()?).ok()?;
    logged(&log_of(file, &dict)?).ok()
}

fn logged(directory: &Path) -> anyhow::Result<Dict> {
    let run = rebuild(directory, &Changes::default(), &hub(), &()).with_context(|| directory.display().to_string())?;
    Ok(ResultFile::new(&run.record, Detail::PerRequest).to_dict())
}

/// Returns the log next to a result if it has the same name and belongs to the same run.
pub(crate) fn log_of(path: &Path, dict: &Dict) -> Option<PathBuf> {
    let date = dict.text("date")?;
    let same = |directory: &PathBuf| {
        let stored = Stored::open(directory).ok()?;
        let setup = tacho_record::logged::setup(stored.closing()?).ok()?;
        (setup.date == date).then_some(())
    };
    let numbered = (2..100).map(|number| path.with_extension(format!("{number}.rows")));
    let places = std::iter::once(path.with_extension("rows")).chain(numbered);
    places
        .take_while(|directory| directory.exists())
        .find(|directory| Stored::is_log(directory) && same(directory).is_some())
}
