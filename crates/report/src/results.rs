//! Reads result files of vLLM, tacho and other tools, with one object or several, and files of rows.

use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, Value, parse, parse_prefix};
use tacho_record::bundle::{Bundle, RESULT};

use crate::Error;

/// All results of a file: one, a list, or a sequence as `--append-result` writes it. Those of other tools get vLLM's keys.
pub fn read(path: &Path) -> Result<Vec<Dict>, Error> {
    let text = read_text(path)?;
    let bad = |problem: String| Error::NotAResult { path: path.to_owned(), problem };
    let mut values = Vec::new();
    let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    match parse(&text) {
        Ok(value) => values.push(value),
        Err(_) if is_yaml => {
            let document = tacho_core::yaml::document(&text);
            let document = document.map_err(|error| bad(format!("line {}: {}", error.line, error.problem)))?;
            values.extend(document.map(|node| node.value()));
        }
        Err(whole) => {
            let mut rest = text.trim_start();
            while !rest.is_empty() {
                let (value, used) = parse_prefix(rest).map_err(|_| bad(format!("not JSON: {whole}")))?;
                values.push(value);
                rest = rest[used..].trim_start();
            }
        }
    }
    let mut dicts = Vec::new();
    for value in values {
        match value {
            Value::Dict(dict) => dicts.push(dict),
            Value::List(items) => {
                for (at, item) in items.into_iter().enumerate() {
                    let Value::Dict(dict) = item else { return Err(bad(format!("entry {at} is not an object"))) };
                    dicts.push(dict);
                }
            }
            _ => return Err(bad("neither an object nor a list of objects".into())),
        }
    }
    if dicts.is_empty() {
        return Err(bad("empty".into()));
    }
    if let [summary] = &dicts[..]
        && let (Some(_), Some(Value::List(files))) = (summary.get("num_runs"), summary.get("files"))
    {
        let files: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
        return Err(bad(format!("it is the summary of several runs: pass their results: {}", files.join(" "))));
    }
    tacho_record::tools::mapped(dicts).map_err(|problem| bad(problem.to_string()))
}

pub fn read_text(path: &Path) -> Result<String, Error> {
    let bytes = tacho_core::files::read_data(path).map_err(|source| unreadable(path, source))?;
    String::from_utf8(bytes).map_err(|error| {
        let is_bundle = Bundle::read(error.as_bytes()).is_ok();
        let bundle = format!("it is a bundle: check it with tacho verify, or unzip {RESULT} from it");
        let problem = if is_bundle { bundle } else { "not UTF-8 text".into() };
        Error::NotAResult { path: path.to_owned(), problem }
    })
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    let path = path.to_owned();
    match source.kind() {
        std::io::ErrorKind::NotFound => Error::Missing { path },
        _ => Error::Read { path, source },
    }
}

/// The files directly in a directory with this suffix, sorted. A name that starts with a dot is a temporary file.
pub fn files_in(directory: &Path, ending: &str) -> Result<Vec<PathBuf>, Error> {
    files(directory, false, &|name| name.ends_with(ending) && !name.starts_with('.'))
}

/// Files with this exact name anywhere below a directory, sorted.
pub fn files_below(directory: &Path, name: &str) -> Result<Vec<PathBuf>, Error> {
    files(directory, true, &|found| found == name)
}

fn files(directory: &Path, below: bool, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| unreadable(directory, source);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if below && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // Request logs contain files with the same names.
            if !tacho_rowlog::Stored::is_log(&path) {
                found.extend(files(&path, below, wanted)?);
            }
        } else if wanted(&path.file_name().unwrap_or_default().to_string_lossy()) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: impl AsRef<[u8]>) -> Result<usize, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        std::fs::write(&path, text).unwrap();
        read(&path).map(|dicts| dicts.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn one_object_a_list_or_one_per_line() {
        assert_eq!(of(r#"{"a": NaN}"#), Ok(1));
        assert_eq!(of(r#"[{"a": 1}, {"a": 2}]"#), Ok(2));
        assert_eq!(of("{\"a\": 1}\n{\"a\": 2}\n{}"), Ok(3));
    }

    #[test]
    fn faults_name_the_file() {
        for text in ["", "nope", "[1]", "3", "{\"a\": 1} x", "[]"] {
            let error = of(text).unwrap_err();
            assert!(error.contains("r.json"), "{error}");
        }
    }

    #[test]
    fn other_files_of_a_run_are_named() {
        let error = of(r#"{"version": 1, "num_runs": 2, "files": ["m-run1.json", "m-run2.json"], "metrics": {}}"#);
        assert!(error.as_ref().unwrap_err().ends_with("pass their results: m-run1.json m-run2.json"), "{error:?}");
        let member = tacho_record::zip::Member { name: RESULT.to_owned(), content: vec![0xff; 9] };
        let error = of(tacho_record::bundle::pack(&[member], "0.1.0", "", None));
        assert!(error.as_ref().unwrap_err().contains("it is a bundle"), "{error:?}");
        assert!(of([0xff, 0xfe]).unwrap_err().contains("not UTF-8 text"));
    }
}
