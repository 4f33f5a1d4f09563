//! The sides of a comparison: the contents of files and directories, as rows under vLLM's headings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, Value};
use tacho_record::{ResultKind, StoredRun};

use crate::compare::settings::{Settings, settings};
use crate::tables::headings::{has_headings, serving_row};
use crate::{Error, inputs, results, tables::markdown::plain};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) cells: Dict,
    /// The run itself, if the file is a result and not a table.
    pub(super) run: Option<StoredRun>,
}

impl Row {
    fn size(&self) -> usize {
        self.run.as_ref().map_or(0, StoredRun::details)
    }

    /// The kind of result. Rows of tables are serving runs.
    pub(super) fn kind(&self) -> ResultKind {
        self.run.as_ref().and_then(StoredRun::kind).unwrap_or(ResultKind::Serving)
    }

    /// All known settings, including a test's name if there is one.
    pub(super) fn settings(&self) -> Settings {
        let mut all = self.run.as_ref().map(settings).unwrap_or_default();
        all.extend(self.cells.get("Test name").map(|name| ("test".to_owned(), plain(name))));
        all
    }
}

/// One side of a comparison: the results of a file or directory.
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
    pub fn kinds(&self) -> Vec<ResultKind> {
        self.rows.iter().map(Row::kind).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// This side with serving runs only. A table next to its runs has more columns than they do.
    pub(super) fn serving(&self) -> Side {
        let tabled = self.rows.iter().any(|row| row.run.is_none());
        let wanted = |row: &&Row| row.kind() == ResultKind::Serving && (row.run.is_none() || !tabled);
        Side { label: self.label.clone(), rows: self.rows.iter().filter(wanted).cloned().collect() }
    }

    pub fn rows_json(&self) -> Value {
        Value::List(self.rows.iter().map(|row| Value::Dict(row.cells.clone())).collect())
    }
}

/// The warnings of the runs on all sides, with the side's name if there are several.
pub fn warnings(sides: &[Side]) -> Vec<String> {
    let of = |side: &Side| {
        let results = side.rows.iter().filter_map(|row| Some(&row.run.as_ref()?.fields));
        inputs::of_results((sides.len() > 1).then_some(side.label.as_str()), results)
    };
    sides.iter().flat_map(of).collect()
}

/// Reads each path as a side. A single table of several parallel sizes becomes one side per size.
pub fn load(paths: &[PathBuf]) -> Result<Vec<Side>, Error> {
    load_known(paths, vec![None; paths.len()])
}

/// Like [`load`], with known results for some paths: logs, which this crate does not read.
pub fn load_known(paths: &[PathBuf], known: Vec<Option<Dict>>) -> Result<Vec<Side>, Error> {
    let mut sides = Vec::new();
    for ((path, label), known) in paths.iter().zip(labels(paths)).zip(known) {
        let rows = known.map_or_else(|| rows(path), |dict| rows_of(path, vec![dict]))?;
        sides.push(Side { label, rows });
    }
    check_kinds(&sides)?;
    match <[Side; 1]>::try_from(sides) {
        Ok([side]) => Ok(split(side)),
        Err(sides) => Ok(sides),
    }
}

/// Checks that every side has a kind of result in common with the first.
fn check_kinds(sides: &[Side]) -> Result<(), Error> {
    let Some((base, others)) = sides.split_first() else { return Ok(()) };
    let kinds = base.kinds();
    let Some(other) = others.iter().find(|other| !other.kinds().iter().any(|kind| kinds.contains(kind))) else {
        return Ok(());
    };
    let words = |side: &Side| side.kinds().iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" and ");
    let named = |side: &Side| (side.label.clone(), words(side));
    let ((base, base_kinds), (other, other_kinds)) = (named(base), named(other));
    Err(Error::Kinds { base, base_kinds, other, other_kinds })
}

fn rows(path: &Path) -> Result<Vec<Row>, Error> {
    if path.is_dir() {
        return directory_rows(path);
    }
    rows_of(path, results::read(path)?)
}

fn rows_of(path: &Path, dicts: Vec<Dict>) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for dict in dicts {
        let label = || path.display().to_string();
        if has_headings(&dict) {
            // Tables may contain other kinds of results, which have no load level.
            let name = dict.text("Test name").unwrap_or_default().to_lowercase();
            if name.contains("serving") {
                rows.push(Row { cells: dict, run: None });
            }
        } else if let Some(kind) = ResultKind::of(&dict) {
            let run = StoredRun::from_dict(&dict).map_err(|problem| Error::Key { label: label(), problem })?;
            let mut cells = if kind == ResultKind::Serving { serving_row(&dict) } else { Dict::new() };
            if let Some(name) = test_name(path, kind) {
                cells.set("Test name", name);
            }
            rows.push(Row { cells, run: Some(run) });
        }
    }
    if rows.is_empty() {
        let problem =
            "it has the keys of no known result: pass a file of --save-result, --output-json or another tool".into();
        return Err(Error::NotAResult { path: path.to_owned(), problem });
    }
    Ok(rows)
}

/// The name of a test, which distinguishes runs whose results do not contain their settings: a suite names its files
/// after tests, a sweep names its directories after combinations.
fn test_name(path: &Path, kind: ResultKind) -> Option<String> {
    let name = match path.file_name().is_some_and(|name| name == "summary.json") {
        true if kind == ResultKind::Startup => path.parent().and_then(Path::file_name),
        _ => path.file_stem().filter(|_| path.with_extension("commands").is_file()),
    };
    name.map(|name| name.to_string_lossy().into_owned())
}

/// The results directly in a directory, or those of a sweep below it.
fn directory_rows(directory: &Path) -> Result<Vec<Row>, Error> {
    let summaries = results::files_below(directory, "summary.json")?;
    let files = if summaries.is_empty() { results::files_in(directory, ".json")? } else { summaries };
    let mut found = Vec::new();
    let is_result =
        |file: &&PathBuf| ![".pytorch.json", ".runs.json"].iter().any(|end| file.to_string_lossy().ends_with(end));
    for file in files.iter().filter(is_result) {
        match rows(file) {
            Ok(rows) => found.extend(rows),
            // Other JSON files may be there too.
            Err(Error::NotAResult { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if found.is_empty() {
        return Err(Error::NotAResult {
            path: directory.to_owned(),
            problem: "it is a directory without results".into(),
        });
    }
    // A run may be there with its summary, or twice.
    let mut once: Vec<Row> = Vec::new();
    for row in found {
        let same = |known: &&mut Row| known.run.as_ref().zip(row.run.as_ref()).is_some_and(|(a, b)| a.is_same_run(b));
        match once.iter_mut().find(same) {
            Some(known) if known.size() < row.size() => *known = row,
            Some(_) => {}
            None => once.push(row),
        }
    }
    Ok(once)
}

/// Short names: the directory of a table, otherwise the file name, or the whole path if those are not unique.
fn labels(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        let directory = path.parent().filter(|parent| *parent != Path::new(""));
        match directory {
            Some(directory) if path.file_name().is_some_and(|name| name == "benchmark_results.json") => {
                directory.display().to_string()
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

/// One side per tensor and pipeline parallel size, if there are several.
fn split(side: Side) -> Vec<Side> {
    let size = |row: &Row, names: [&str; 3]| {
        names.iter().find_map(|name| row.cells.get(name).and_then(Value::as_f64)).unwrap_or(1.0)
    };
    let label = |row: &Row| {
        let tensor = size(row, ["TP Size", "tp_size", "tensor_parallel_size"]);
        let pipeline = size(row, ["PP Size", "pp_size", "pipeline_parallel_size"]);
        format!("tp{tensor}_pp{pipeline}")
    };
    let mut sizes: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in &side.rows {
        sizes.entry(label(row)).or_default().push(row.clone());
    }
    if sizes.len() < 2 { vec![side] } else { sizes.into_iter().map(|(label, rows)| Side { label, rows }).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_need_a_kind_in_common() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let latency = file("l.json", r#"{"avg_latency": 1.0, "latencies": [1.0], "percentiles": {"99": 1.0}}"#);
        let throughput = file("t.json", r#"{"elapsed_time": 1.0, "requests_per_second": 2.0}"#);
        let text = load(&[latency.clone(), throughput.clone()]).unwrap_err().to_string();
        assert_eq!(text, "l holds latency results and t throughput results: pass results of one kind");
        let sides = load(&[latency, directory.path().to_owned()]).unwrap();
        assert_eq!(sides[1].kinds(), [ResultKind::Latency, ResultKind::Throughput]);
        let other = file("x.json", "{}");
        assert!(load(&[throughput, other]).unwrap_err().to_string().contains("x.json is not a result file"));
    }

    #[test]
    fn labels_are_unique() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(labels(&paths(&["r/a.json", "b.json"])), ["a", "b"]);
        assert_eq!(labels(&paths(&["x/benchmark_results.json", "y/benchmark_results.json"])), ["x", "y"]);
        assert_eq!(labels(&paths(&["x/a.json", "y/a.json", "c.json"])), ["x/a.json", "y/a.json", "c"]);
        assert_eq!(labels(&paths(&["a.json", "a.json"])), ["a.json", "a.json (2)"]);
    }
}
