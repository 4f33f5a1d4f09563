//! Files of an experiment. Each is written atomically, and an interrupted run does not count as a result.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, Value, dumps_indented, parse};
use tacho_report::inputs;
use tacho_report::json::write_text;
use tacho_report::tables::sweep::{stats_csv, summary_csv};
use tacho_run::experiment::{Archive, Failure};

use super::outcome;
use crate::exit;

pub(crate) struct Files {
    pub(crate) experiment: PathBuf,
    /// The rows of the table as last written.
    rows: RefCell<Vec<Dict>>,
}

impl Files {
    pub(crate) fn new(experiment: PathBuf) -> Self {
        Files { experiment, rows: RefCell::default() }
    }

    /// Prints the summary table, unless a search printed its levels, and the location to standard error; standard output
    /// has what vLLM's script prints.
    pub(crate) fn conclude(&self, is_search: bool) {
        let (rows, place) = (self.rows.borrow(), self.experiment.display());
        if rows.is_empty() {
            return;
        }
        if !is_search {
            exit::note(&format!("\n{}", outcome::table(&rows)));
            inputs::of_results(None, rows.iter()).iter().for_each(|line| exit::note(line));
        }
        exit::note(&format!("saved: {place}   (pictures: tacho sweep plot {place})"));
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
        fs::remove_file(mark(path)).map_err(|error| Failure::io(path.display(), &error))
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
