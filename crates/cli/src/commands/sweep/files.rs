//! Files of an experiment. Each is written atomically, and an interrupted run does not count as a result.

use std::path::{Path, PathBuf};
use std::{cell::RefCell, fs};

use tacho_core::json::{Dict, Json, Value, dumps_indented, parse};
use tacho_decide::search::SearchAnswer;
use tacho_report::tables::sweep::{stats_csv, summary_csv};
use tacho_report::{inputs, json::write_text};
use tacho_run::experiment::{Archive, Failure};

use super::outcome;
use crate::{commands::history::store::Store, exit};

#[derive(Default)]
pub(crate) struct Files {
    pub(crate) experiment: PathBuf,
    /// The rows of the table as last written.
    rows: RefCell<Vec<Dict>>,
    history: Option<Store>,
    is_search: bool,
    /// The last result, if there is a history.
    last: RefCell<Option<Dict>>,
    /// What the history said about each result.
    kept: RefCell<Vec<Result<String, String>>>,
}

impl Files {
    pub(crate) fn new(experiment: PathBuf) -> Self {
        Files { experiment, ..Files::default() }
    }

    /// The same with a history that every result is added to.
    pub(crate) fn with(self, history: Option<Store>) -> Self {
        Files { history, ..self }
    }

    /// The same for a search, of which only the answers are added: its runs are of loads that it tried.
    pub(crate) fn of_search(self, history: Option<Store>) -> Self {
        Files { is_search: true, ..self.with(history) }
    }

    /// Adds the answers of a search to the history, and says what was added.
    pub(crate) fn keep(&self, answers: &[SearchAnswer]) {
        for answer in answers {
            self.add(&answer.to_json().as_dict().cloned().unwrap_or_default(), &self.experiment);
        }
        let kept = self.kept.take();
        let (count, problem) = (kept.iter().flatten().count(), kept.into_iter().find_map(Result::err));
        if let Some(store) = self.history.as_ref().filter(|_| count > 0) {
            exit::note(&format!(
                "added to {}: {count} {}",
                store.location(),
                if count == 1 { "entry" } else { "entries" }
            ));
        }
        problem.iter().for_each(|line| exit::note(line));
    }

    fn add(&self, result: &Dict, path: &Path) {
        let kept = self.history.as_ref().map(|store| store.keep(result, self.last.borrow().as_ref(), Some(path)));
        self.kept.borrow_mut().extend(kept);
    }

    /// Prints the summary table, unless a search printed its levels, and the location to standard error; standard output
    /// has what vLLM's script prints.
    pub(crate) fn conclude(&self, is_search: bool) {
        let (rows, location) = (self.rows.borrow(), self.experiment.display());
        if rows.is_empty() {
            return;
        }
        if !is_search {
            exit::note(&format!("\n{}", outcome::table(&rows)));
            inputs::of_results(None, rows.iter()).iter().for_each(|line| exit::note(line));
        }
        exit::note(&format!("saved: {location}   (pictures: tacho sweep plot {location})"));
    }
}

/// Marker next to a result: the run is not complete while it exists.
fn mark(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.begun"))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    make_directory(path)?;
    write_text(path, text).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Failure::new("OSError", format!("{error}{cause}"))
    })
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(|error| Failure::io(directory.display(), &error))
}

impl Archive for Files {
    fn value(&self, path: &Path) -> Option<Value> {
        parse(&fs::read_to_string(path).ok()?).ok()
    }

    fn result(&self, path: &Path) -> Option<Dict> {
        if mark(path).exists() {
            return None;
        }
        self.value(path)?.as_dict().cloned()
    }

    fn directories(&self, path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().is_dir()).filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn begin(&self, path: &Path) -> Result<(), Failure> {
        make_directory(path)?;
        fs::write(mark(path), b"").map_err(|error| Failure::io(path.display(), &error))?;
        // A partial file of an earlier attempt must not be read as this one's.
        let _ = fs::remove_file(path);
        Ok(())
    }

    fn measured(&self, path: &Path) -> Result<Dict, Failure> {
        let text = fs::read_to_string(path).map_err(|_| {
            Failure::new("FileNotFoundError", format!("the benchmark wrote no result to {}", path.display()))
        })?;
        match parse(&text) {
            Ok(Value::Dict(result)) => Ok(result),
            Ok(_) => Err(Failure::new("ValueError", format!("{} is not a JSON object", path.display()))),
            Err(fault) => Err(Failure::new("JSONDecodeError", format!("{}: {fault}", path.display()))),
        }
    }

    fn complete(&self, path: &Path, result: &Dict) -> Result<(), Failure> {
        write(path, &dumps_indented(&Value::Dict(result.clone()), 4))?;
        fs::remove_file(mark(path)).map_err(|error| Failure::io(path.display(), &error))?;
        *self.last.borrow_mut() = self.history.as_ref().map(|_| result.clone());
        if !self.is_search {
            self.add(result, path);
        }
        Ok(())
    }

    fn discard(&self, path: &Path) {
        // Remove the result first: without its marker it would count.
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(mark(path));
    }

    fn text(&self, path: &Path, text: &str) -> Result<(), Failure> {
        write(path, text)
    }

    fn table(&self, rows: &[Dict]) -> Result<(), Failure> {
        *self.rows.borrow_mut() = rows.to_vec();
        write(&self.experiment.join("summary.csv"), &summary_csv(rows))?;
        if rows.is_empty() { Ok(()) } else { write(&self.experiment.join("summary_stats.csv"), &stats_csv(rows)) }
    }
}
