//! Result files: checked before the run, written after it, with a fallback if writing fails.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use tacho_record::RunRecord;
use tacho_report::json::{Detail, SaveMode, save, try_writing};
use tacho_report::{export::pytorch, names};

use crate::{args::serve::ServeArgs, commands::history::store::Store, commands::sweep::make_directory, exit::Misused};

/// Directory and name of the result file and its side files, `None` if no file is requested; and the history.
pub(super) struct Destination {
    file: Option<ResultFile>,
    history: Option<Store>,
}

struct ResultFile {
    directory: Option<PathBuf>,
    /// `None` if only side files are requested.
    mode: Option<SaveMode>,
}

impl Destination {
    /// Creates the directory and checks that it is writable before the run starts.
    pub(super) fn open(args: &ServeArgs) -> anyhow::Result<Self> {
        let (report, history) = (&args.report, Store::of(&args.history)?);
        let mode = match (report.append_result, report.save_result) {
            (true, _) => Some(SaveMode::Append),
            (false, true) => Some(SaveMode::Overwrite),
            (false, false) => None,
        };
        if mode.is_none() && !report.plot_timeline && !report.plot_dataset_stats {
            return Ok(Destination { file: None, history });
        }
        let directory = report.result_dir.as_ref().map(PathBuf::from);
        if let Some(directory) = &directory {
            if directory.is_file() {
                return Err(Misused(format!("--result-dir {} is a file: pass a directory", directory.display())).into());
            }
            make_directory(directory, "--result-dir")?;
        }
        let named = directory.clone().unwrap_or_default().join(report.result_filename.as_deref().unwrap_or("x"));
        let parent = named.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        try_writing(parent).with_context(|| {
            format!("cannot write results into {}: check --result-dir and --result-filename", parent.display())
        })?;
        if report.result_filename.is_some() && named.is_dir() {
            return Err(anyhow!("{} is a directory, not a file: check --result-filename", named.display()));
        }
        Ok(Destination { file: Some(ResultFile { directory, mode }), history })
    }

    /// The path of the result file, whether or not the file itself is requested.
    pub(super) fn path(&self, args: &ServeArgs, record: &RunRecord) -> Option<PathBuf> {
        let location = self.file.as_ref()?;
        let name = args.report.result_filename.as_deref().filter(|name| !name.is_empty());
        let path = names::result_path(&record.setup, location.directory.as_deref(), name);
        // A name given by the user already includes the run's name; a file shared by all runs does not.
        let run_name = args.name.as_deref().filter(|_| name.is_none() && !args.report.append_result);
        Some(run_name.map_or(path.clone(), |run_name| of_run(&path, run_name)))
    }

    /// Writes the result and its side file and returns the path. Falls back to another location if that fails.
    pub(super) fn save(&self, args: &ServeArgs, record: &RunRecord) -> anyhow::Result<Option<PathBuf>> {
        let Some(mode) = self.file.as_ref().and_then(|location| location.mode) else { return Ok(None) };
        let Some(path) = self.path(args, record) else { return Ok(None) };
        let detail = detail(args);
        if let Err(error) = save(record, &path, detail, mode) {
            return Err(rescue(record, &path, detail, error.into()));
        }
        self.save_side(args, record)?;
        Ok(Some(path))
    }

    /// Adds the result to the history, after it was saved.
    pub(super) fn keep(&self, args: &ServeArgs, record: &RunRecord) {
        if let Some(store) = &self.history {
            store.keep_and_print(&super::result(args, record), None, self.path(args, record).as_deref());
        }
    }

    /// Writes the side file of the result, if it is requested.
    pub(super) fn save_side(&self, args: &ServeArgs, record: &RunRecord) -> anyhow::Result<()> {
        let wanted = std::env::var_os("SAVE_TO_PYTORCH_BENCHMARK_FORMAT").is_some_and(|value| !value.is_empty());
        if let Some(path) = self.path(args, record).filter(|_| wanted) {
            let (side, name) = (path.with_extension("pytorch.json"), args.report.result_filename.as_deref());
            pytorch::save(record, detail(args), &args.final_namespace(), name, &side)?;
        }
        Ok(())
    }
}

pub(super) fn detail(args: &ServeArgs) -> Detail {
    if args.report.save_detailed { Detail::PerRequest } else { Detail::Brief }
}

/// Saves the result elsewhere if its disk is full or gone: completely to the system's temporary directory, otherwise
/// a reduced result there or at the original path. Never overwrites a file.
fn rescue(record: &RunRecord, path: &Path, requested: Detail, error: anyhow::Error) -> anyhow::Error {
    let name = path.file_name().unwrap_or(OsStr::new("tacho-result.json"));
    let refuge = std::env::temp_dir().join(name);
    for (detail, location) in [(requested, &*refuge), (Detail::Brief, path), (Detail::Brief, &refuge)] {
        for location in free_names(location) {
            if save(record, &location, detail, SaveMode::New).is_ok() {
                let what = if detail != requested { "the result without its details" } else { "the result" };
                return anyhow::anyhow!("{error:#}; {what} was saved to {} instead", location.display());
            }
        }
    }
    anyhow::anyhow!("{error:#}; it could not be saved elsewhere either: the report on the screen is all there is")
}

/// The name and alternatives in case it is taken.
fn free_names(path: &Path) -> impl Iterator<Item = PathBuf> {
    let (stem, ending) = (path.file_stem().unwrap_or_default().to_owned(), path.extension().map(OsStr::to_owned));
    let numbered = path.to_owned();
    let like = (1..10).map(move |number| {
        let mut name = stem.clone();
        name.push(format!("-{}-{number}", std::process::id()));
        let mut like = numbered.with_file_name(name);
        like.set_extension(ending.clone().unwrap_or_default());
        like
    });
    std::iter::once(path.to_owned()).chain(like)
}

/// For the second run, `a/b.json` becomes `a/b-run2.json`.
pub(super) fn of_run(path: &Path, name: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    path.with_file_name(format!("{stem}-{name}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_its_own_file() {
        assert_eq!(of_run(Path::new("a/b.json"), "run2"), Path::new("a/b-run2.json"));
        assert_eq!(of_run(Path::new("logs"), "run1"), Path::new("logs-run1"));
    }
}
