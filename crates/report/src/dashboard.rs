//! `tacho report`: the tables of vLLM's dashboard from a directory of results.

mod command;

use std::path::Path;

use tacho_core::json::{Dict, Value, dumps, parse};
use tacho_record::ResultKind;

use self::command::Flags;
use crate::tables::headings::{order, row};
use crate::{Error, json::finite, json::write_text, results, tables::markdown::Table};

/// Files that earlier reports and other tools leave next to results.
const NOT_RESULTS: [&str; 5] =
    ["benchmark_results.json", "_sla_summary.json", ".pytorch.json", ".failure.json", ".runs.json"];

/// Returns whether a file is a by-product of tacho or another tool, by its name.
pub fn is_by_product(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    NOT_RESULTS.iter().any(|ending| name.ends_with(ending))
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dashboard {
    /// The rows of all tables, by test name.
    rows: Vec<(ResultKind, Dict)>,
    /// Description of the machine: names and values.
    platform: Vec<(&'static str, Value)>,
    /// Files without a result, and why.
    pub skipped: Vec<(String, String)>,
}

impl Dashboard {
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let mut dashboard = Dashboard::default();
        for path in results::files_in(directory, ".json")? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if is_by_product(&path) {
                continue;
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let mut skip = |error: &Error| dashboard.skipped.push((name.clone(), error.to_string()));
            // One broken file must not prevent the report of all others.
            let commands = commands(&path.with_extension("commands")).inspect_err(&mut skip).unwrap_or_default();
            let Ok(results) = results::read(&path).inspect_err(&mut skip) else { continue };
            let mut found = false;
            for result in results {
                found |= dashboard.add(&stem, result, commands.as_ref());
            }
            if !found {
                dashboard.skipped.push((name, "it holds no result of a benchmark".to_owned()));
            }
        }
        dashboard.rows.sort_by(|(_, a), (_, b)| name_of(a).cmp(name_of(b)));
        Ok(dashboard)
    }

    /// Adds a table of the machine, as names and values.
    pub fn on(self, platform: Vec<(&'static str, Value)>) -> Self {
        Dashboard { platform, ..self }
    }

    fn add(&mut self, stem: &str, mut result: Dict, commands: Option<&Dict>) -> bool {
        let Some(kind) = ResultKind::of(&result) else { return false };
        let flags = |key: &str| commands.and_then(|dict| dict.get(key)).and_then(Value::as_str).map(Flags::parse);
        if kind == ResultKind::Serving {
            if let Some(rate) = result.get("request_rate").cloned() {
                result.set("qps", rate);
            }
            // The suite's metadata for the client repeats the server's command.
            for (key, column) in [("tensor_parallel_size", "tp_size"), ("pipeline_parallel_size", "pp_size")] {
                if let Some(value) = result.text(key).and_then(|text| text.parse::<i64>().ok()) {
                    result.set(column, value);
                }
            }
            let server =
                [("tensor-parallel-size", "tp_size"), ("pipeline-parallel-size", "pp_size"), ("dtype", "dtype")];
            let client = [
                ("dataset-name", "dataset_name"),
                ("random-input-len", "input_len"),
                ("random-output-len", "output_len"),
                ("request-rate", "qps"),
            ];
            for (command, columns) in [("server_command", &server[..]), ("client_command", &client[..])] {
                let Some(flags) = flags(command) else { continue };
                for (flag, column) in columns {
                    if let Some(value) = flags.get(flag) {
                        result.set(*column, value.clone());
                    }
                }
            }
        }
        if kind == ResultKind::Latency {
            in_milliseconds(&mut result);
        }
        if let Some(commands) = commands {
            result.update(commands);
        }
        result.set("test_name", stem);
        if let Some(gpus) = result.text("gpu_type").map(counted) {
            result.set("gpu_type", gpus);
        }
        self.rows.push((kind, row(kind, &result)));
        true
    }

    fn tables(&self) -> [(&'static str, Table); 4] {
        [
            ("latency", ResultKind::Latency),
            ("throughput", ResultKind::Throughput),
            ("serving", ResultKind::Serving),
            ("startup", ResultKind::Startup),
        ]
        .map(|(name, kind)| {
            let rows: Vec<Dict> =
                self.rows.iter().filter(|(other, _)| *other == kind).map(|(_, row)| row.clone()).collect();
            (name, Table::of(&rows, &order(kind)))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The tables as Markdown, followed by all metrics as JSON.
    pub fn markdown(&self) -> String {
        let mut numbers = Dict::new();
        for (name, table) in self.tables() {
            // vLLM's readers know three tables.
            if !(name == "startup" && table.rows.is_empty()) {
                numbers.set(name, by_column(&table));
            }
        }
        let json = dumps(&finite(Value::Dict(numbers))).replace('`', "\\u0060");
        self.tables_markdown() + &format!("## JSON of the tables\n\n```json\n{json}\n```\n")
    }

    pub fn tables_markdown(&self) -> String {
        let mut out = String::new();
        for (name, table) in self.tables().into_iter().filter(|(_, table)| !table.rows.is_empty()) {
            let (first, rest) = name.split_at(1);
            out += &format!("## {}{rest} tests\n\n{}\n", first.to_uppercase(), table.markdown());
        }
        if !self.platform.is_empty() {
            let headings = vec![String::new(), "Platform Info".to_owned()];
            let rows = self.platform.iter().map(|(name, value)| vec![Value::from(*name), value.clone()]).collect();
            out += &format!("## Platform information\n\n{}\n", Table { headings, rows }.markdown());
        }
        out
    }

    /// All rows as a list of objects with headings as keys, as comparisons read them.
    pub fn rows(&self) -> Value {
        let rows = self.tables().into_iter().flat_map(|(_, Table { headings, rows })| {
            rows.into_iter().map(move |cells| Value::Dict(headings.iter().cloned().zip(cells).collect()))
        });
        finite(Value::List(rows.collect()))
    }

    /// Writes both into `directory`.
    pub fn save(&self, directory: &Path) -> Result<(), Error> {
        let write = |name: &str, text: String| write_text(&directory.join(name), &text);
        write("benchmark_results.md", self.markdown())?;
        write("benchmark_results.json", dumps(&self.rows()))
    }
}

fn name_of(row: &Dict) -> &str {
    row.text("Test name").unwrap_or_default()
}

fn commands(path: &Path) -> Result<Option<Dict>, Error> {
    if !path.is_file() {
        return Ok(None);
    }
    match parse(&results::read_text(path)?) {
        Ok(Value::Dict(dict)) => Ok(Some(dict)),
        _ => Err(Error::NotAResult { path: path.to_owned(), problem: "not a JSON object of commands".into() }),
    }
}

fn in_milliseconds(result: &mut Dict) {
    let scaled = |value: &Value| value.as_f64().map(|seconds| seconds * 1000.0);
    if let Some(mean) = result.get("avg_latency").and_then(scaled) {
        result.set("avg_latency", mean);
    }
    let percentiles = result.get("percentiles").and_then(Value::as_dict).cloned().unwrap_or_default();
    for (percent, value) in percentiles.iter() {
        if let Some(value) = scaled(value) {
            result.set(format!("P{percent}"), value);
        }
    }
}

/// `T` on each of four lines is `4xT`.
fn counted(gpus: &str) -> String {
    let lines: Vec<&str> = gpus.lines().filter(|line| !line.is_empty()).collect();
    lines.first().map_or_else(String::new, |first| format!("{}x{first}", lines.len()))
}

/// The table by columns, then row numbers.
fn by_column(table: &Table) -> Dict {
    let column = |at: usize| {
        let cells = table.rows.iter().enumerate().map(|(row, cells)| (row.to_string(), cells[at].clone()));
        Value::Dict(cells.collect())
    };
    table.headings.iter().enumerate().map(|(at, heading)| (heading.clone(), column(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_kinds_become_tables() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write(
            "b.json",
            r#"{"duration": 1.0, "completed": 3, "request_throughput": 3.0, "p99_tpot_ms": 9.5, "request_rate": "inf"}"#,
        );
        write(
            "b.commands",
            r#"{"server_command": "vllm serve m --tensor-parallel-size=2", "gpu_type": "H200\nH200\n",
                "client_command": "vllm bench serve --random-input-len 128 --request-rate 4"}"#,
        );
        write("a.json", r#"{"avg_latency": 0.5, "percentiles": {"50": 0.25, "99": 1.5}}"#);
        write("c.json", r#"{"elapsed_time": 2.0, "requests_per_second": 4.0, "num_requests": 8}"#);
        write("d.json", r#"{"other": 1}"#);
        write("e.json", r#"{"avg_cold_startup_time": 20.5, "avg_warm_startup_time": NaN}"#);
        write("f.json", r#"{"cut sho"#);
        write("g.failure.json", r#"{"error": "x"}"#);
        let dashboard = Dashboard::read(directory.path()).unwrap();
        let text = dashboard.markdown();
        assert!(text.contains("| Test name | Mean latency (ms) | Median latency (ms) | P99 latency (ms) |"), "{text}");
        assert!(text.contains("| b         |       128 |       2 | 2xH200 |         3 |    4 |"), "{text}");
        assert!(text.contains("| e         |                  20.5 |"), "{text}");
        let skipped: Vec<&str> = dashboard.skipped.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(skipped, ["d.json", "f.json"]);
        dashboard.save(directory.path()).unwrap();
        let rows = results::read(&directory.path().join("benchmark_results.json")).unwrap();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[3].get("Mean warm startup (s)"), Some(&Value::Null), "NaN is not valid JSON");
        assert_eq!(rows[2].get("P99"), Some(&Value::Float(9.5)));
        // A second report does not read the first.
        assert_eq!(Dashboard::read(directory.path()).unwrap().rows(), dashboard.rows());
    }
}
