//! `tacho history add`: results of files, logs and directories.

use std::path::{Path, PathBuf};

use anyhow::bail;
use tacho_core::json::Dict;
use tacho_report::{dashboard::is_by_product, results};

use super::store::Store;
use crate::exit::{Exit, note, shown};
use crate::{args::history::AddArgs, commands::compare::sides::of_log};

/// Adds every result, and fails at the end if a path that was named has none.
pub(crate) fn run(args: &AddArgs) -> anyhow::Result<Exit> {
    let is_there = args.history.directory().exists();
    let store = Store::open(args.history.clone(), &args.tags, args.git)?;
    let mut without = Vec::new();
    for path in &args.results {
        match add(&store, path) {
            Ok(0) => without.push(format!("{} holds no result", shown(path))),
            Ok(_) => {}
            Err(error) => {
                let (path, error) = (shown(path), format!("{error:#}"));
                without.push(if error.starts_with(&path) { error } else { format!("{path}: {error}") });
            }
        }
    }
    if without.len() < args.results.len() || is_there {
        store.history.reindex()?;
    } else {
        store.history.remove_empty();
    }
    if !without.is_empty() {
        bail!("{}", without.join("; "));
    }
    Ok(Exit::Done)
}

/// Adds the results of a path. Returns their number.
fn add(store: &Store, path: &Path) -> anyhow::Result<usize> {
    if let Some(result) = of_log(path)? {
        return one(store, &result, None, path).map(|()| 1);
    }
    if !path.is_dir() {
        let found = results::read(path)?;
        found.iter().try_for_each(|result| one(store, result, None, path))?;
        return Ok(found.len());
    }
    let runs = results::files_below(path, "summary.json")?;
    let last = runs.last().and_then(|file| results::read(file).ok()?.pop());
    let answers: Vec<PathBuf> = ["capacity.json", "sla_summary.json"].map(|name| path.join(name)).into();
    // The runs of a search are of loads that it tried: its result is the answer.
    if let Some(answer) = answers.iter().find(|file| file.is_file()) {
        let found = results::read(answer)?;
        found.iter().try_for_each(|result| one(store, result, last.as_ref(), answer))?;
        return Ok(found.len());
    }
    let files = if runs.is_empty() { results::files_in(path, ".json")? } else { runs };
    let mut count = 0;
    // Other files may be there too.
    for file in files.iter().filter(|file| !is_by_product(file)) {
        let found = results::read(file).unwrap_or_default();
        count += found.iter().filter(|result| one(store, result, None, file).is_ok()).count();
    }
    Ok(count)
}

fn one(store: &Store, result: &Dict, run: Option<&Dict>, from: &Path) -> anyhow::Result<()> {
    let (entry, is_new) = store.add(result, run, from)?;
    let word = if is_new { "added" } else { "there already, with the new tags" };
    note(&format!("{word}: {}   ({})", entry.id, shown(from)));
    Ok(())
}
