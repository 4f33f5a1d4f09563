//! The sides of a comparison: what files and folders hold, as rows under vLLM's headings.

use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, Value};
use tacho_metrics::StoredRun;

use crate::headings::{has_headings, is_serving_result, serving_row};
use crate::{Error, results};

/// One result of a side.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Its values under headings.
    pub(super) cells: Dict,
    /// The run itself, where the file is of a run and not of a table.
    pub(super) run: Option<StoredRun>,
}

/// One side of a comparison: the results of a file or folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Its name, different from all others.
    pub label: String,
    pub(super) rows: Vec<Row>,
}

impl Side {
    /// The runs of this side, without rows of tables.
    pub fn runs(&self) -> Vec<StoredRun> {
        self.rows.iter().filter_map(|row| row.run.clone()).collect()
    }
}

impl Side {
    /// Its rows as a table that comparisons read.
    pub fn rows_json(&self) -> Value {
        Value::List(self.rows.iter().map(|row| Value::Dict(row.cells.clone())).collect())
    }
}

/// Reads each path as a side. A single table of several parallel sizes becomes one side per size.
pub fn load(paths: &[PathBuf]) -> Result<Vec<Side>, Error> {
    let mut sides = Vec::new();
    for (path, label) in paths.iter().zip(labels(paths)) {
        sides.push(Side { label, rows: rows(path)? });
    }
    match <[Side; 1]>::try_from(sides) {
        Ok([side]) => Ok(split(side)),
        Err(sides) => Ok(sides),
    }
}

fn rows(path: &Path) -> Result<Vec<Row>, Error> {
    if path.is_dir() {
        return folder_rows(path);
    }
    let mut rows = Vec::new();
    for dict in results::read(path)? {
        let label = || path.display().to_string();
        if has_headings(&dict) {
            // Tables hold other kinds of results too, which have no load level.
            let name = dict.get("Test name").and_then(Value::as_str).unwrap_or_default().to_lowercase();
            if name.contains("serving") {
                rows.push(Row { cells: dict, run: None });
            }
        } else if is_serving_result(&dict) {
            let run = StoredRun::from_dict(&dict).map_err(|problem| Error::Key { label: label(), problem })?;
            rows.push(Row { cells: serving_row(&dict), run: Some(run) });
        }
    }
    if rows.is_empty() {
        let problem = "no serving result in it: duration, completed and request_throughput are missing".into();
        return Err(Error::NotAResult { path: path.to_owned(), problem });
    }
    Ok(rows)
}

/// The results directly in a folder, or those of a sweep below it.
fn folder_rows(folder: &Path) -> Result<Vec<Row>, Error> {
    let summaries = results::files_below(folder, "summary.json")?;
    let files = if summaries.is_empty() { results::files_in(folder, ".json")? } else { summaries };
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !file.to_string_lossy().ends_with(".pytorch.json")) {
        match rows(file) {
            Ok(rows) => found.extend(rows),
            // Other JSON files may lie there too.
            Err(Error::NotAResult { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if found.is_empty() {
        return Err(Error::NotAResult { path: folder.to_owned(), problem: "no serving results in this folder".into() });
    }
    Ok(found)
}

/// Short names: the folder of a table, the file's own name otherwise, the whole path where those are not unique.
fn labels(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        let folder = path.parent().filter(|parent| *parent != Path::new(""));
        match folder {
            Some(folder) if path.file_name().is_some_and(|name| name == "benchmark_results.json") => {
                folder.display().to_string()
            }
            _ => {
                path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
            }
        }
    };
    let mut names: Vec<String> = paths.iter().map(short).collect();
    for at in 0..names.len() {
        if names.iter().filter(|name| **name == short(&paths[at])).count() > 1 {
            for other in (0..names.len()).rev().filter(|&other| short(&paths[other]) == short(&paths[at])) {
                names[other] = paths[other].display().to_string();
            }
        }
    }
    for at in 1..names.len() {
        let same = names[..at].iter().filter(|name| **name == names[at]).count();
        if same > 0 {
            names[at] = format!("{} ({})", names[at], same + 1);
        }
    }
    names
}

/// One side per tensor and pipeline parallel size, where there are several.
fn split(side: Side) -> Vec<Side> {
    let size = |row: &Row, names: [&str; 3]| {
        names.iter().find_map(|name| row.cells.get(name).and_then(Value::as_f64)).unwrap_or(1.0)
    };
    let label = |row: &Row| {
        let tensor = size(row, ["TP Size", "tp_size", "tensor_parallel_size"]);
        let pipeline = size(row, ["PP Size", "pp_size", "pipeline_parallel_size"]);
        format!("tp{tensor}_pp{pipeline}")
    };
    let mut names: Vec<String> = side.rows.iter().map(label).collect();
    names.sort();
    names.dedup();
    if names.len() < 2 {
        return vec![side];
    }
    let of = |name: &String| side.rows.iter().filter(|row| label(row) == *name).cloned().collect();
    names.iter().map(|name| Side { label: name.clone(), rows: of(name) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_unique() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(labels(&paths(&["r/a.json", "b.json"])), ["a", "b"]);
        assert_eq!(labels(&paths(&["x/benchmark_results.json", "y/benchmark_results.json"])), ["x", "y"]);
        assert_eq!(labels(&paths(&["x/a.json", "y/a.json", "c.json"])), ["x/a.json", "y/a.json", "c"]);
        assert_eq!(labels(&paths(&["a.json", "a.json"])), ["a.json", "a.json (2)"]);
    }
}
