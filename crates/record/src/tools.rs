//! Results of other tools as vLLM's keys. Each metric is mapped by its definition, not by its name; one that a tool does
//! not have is absent. Where a file has its requests, statistics are computed from them as for tacho's own.

mod aiperf;
mod benchmark_report;
mod genai_bench;
mod guidellm;
mod inference_perf;
mod sglang;

use tacho_core::dict;
use tacho_core::json::{Dict, FieldError, Json, Value};
use tacho_metrics::{Caveat, Statistics, statistics::Statistic};

use crate::{Error, StoredCaveat, metric::TIMES};

/// A kind of file of another tool.
pub struct Tool {
    /// The name of the tool.
    pub name: &'static str,
    /// The file that is read, as in the documentation.
    pub file: &'static str,
    /// Where its metrics differ from tacho's, as a sentence.
    pub differs: &'static str,
    /// Whether an object is of such a file.
    recognizes: fn(&Dict) -> bool,
    /// The results in the objects of a file.
    read: fn(&[Dict]) -> Result<Vec<Mapped>, FieldError>,
}

/// All kinds of files.
pub static TOOLS: &[Tool] = &[
    aiperf::SUMMARY,
    aiperf::REQUESTS,
    guidellm::REPORT,
    genai_bench::RUN,
    inference_perf::SUMMARY,
    inference_perf::REQUESTS,
    sglang::RESULT,
    benchmark_report::REPORT,
];

/// The results of a file, in vLLM's keys. Those of vLLM and tacho, and objects that are no results, come back
/// unchanged. Fails for a file of another tool that lacks a needed value.
pub fn mapped(dicts: Vec<Dict>) -> Result<Vec<Dict>, Error> {
    let Some(tool) = dicts.first().and_then(|first| TOOLS.iter().find(|tool| (tool.recognizes)(first))) else {
        return Ok(dicts);
    };
    let results = (tool.read)(&dicts).map_err(|problem| Error::OtherTool { tool: tool.name, problem })?;
    Ok(results.into_iter().map(|result| result.dict(tool)).collect())
}

/// Longest text that is taken from a file.
const LONGEST_TEXT: usize = 200;
/// Percentiles that are computed from requests.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];
/// Latency families, with their keys in the reports of inference-perf and llm-d.
const LATENCIES: [(&str, &str); 5] = [
    ("ttft", "time_to_first_token"),
    ("tpot", "time_per_output_token"),
    ("itl", "inter_token_latency"),
    ("ntpot", "normalized_time_per_output_token"),
    ("e2el", "request_latency"),
];

/// One result of another tool.
#[derive(Default)]
struct Mapped {
    version: Option<String>,
    date: Option<String>,
    model: Option<String>,
    /// Requests per second; absent for a closed loop.
    rate: Option<f64>,
    concurrency: Option<f64>,
    duration: f64,
    completed: f64,
    failed: Option<f64>,
    input_tokens: Option<f64>,
    output_tokens: Option<f64>,
    /// Further metrics by their keys, in milliseconds and per second.
    metrics: Dict,
    requests: Vec<Request>,
}

/// A successful request, in seconds and tokens.
struct Request {
    start: Option<f64>,
    ttft: Option<f64>,
    latency: f64,
    itl: Option<Vec<f64>>,
    input: Option<f64>,
    output: Option<f64>,
}

impl Request {
    fn tpot(&self) -> Option<f64> {
        let tokens = self.output.filter(|tokens| *tokens > 1.0)?;
        Some((self.latency - self.ttft?) / (tokens - 1.0))
    }
}

impl Mapped {
    /// A result of requests: their totals, and the time from the first start to the last end.
    fn of_requests(requests: Vec<Request>, failed: usize) -> Self {
        let total = |of: fn(&Request) -> Option<f64>| requests.iter().map(of).sum();
        let starts = requests.iter().filter_map(|request| request.start);
        let ends = requests.iter().filter_map(|request| Some(request.start? + request.latency));
        let span = ends.fold(0.0, f64::max) - starts.fold(f64::INFINITY, f64::min);
        Mapped {
            duration: if span.is_finite() { span } else { 0.0 },
            completed: requests.len() as f64,
            failed: Some(failed as f64),
            input_tokens: total(|request| request.input),
            output_tokens: total(|request| request.output),
            requests,
            ..Mapped::default()
        }
    }

    /// Takes over the statistics of a distribution, in units of `ms` milliseconds.
    fn times(&mut self, family: &str, of: Option<&Value>, ms: f64) {
        let times = TIMES.iter().find(|times| times.name == family).expect("families are in the table");
        for (name, value) in of.and_then(Value::as_dict).into_iter().flat_map(Dict::iter) {
            if let Some((statistic, value)) = statistic(name).zip(finite(value)) {
                self.metrics.set(times.key(statistic), value * ms);
            }
        }
    }

    fn metric(&mut self, key: &str, value: Option<f64>) {
        value.into_iter().for_each(|value| self.metrics.set(key, value));
    }

    fn dict(self, tool: &Tool) -> Dict {
        let duration = self.duration;
        let per_second = |total: f64| (duration > 0.0).then(|| total / duration);
        let name = self.version.as_ref().map_or_else(|| tool.name.to_owned(), |text| format!("{} {text}", tool.name));
        let caveat = Caveat::OtherDefinitions { tool: name.clone(), differences: tool.differs.to_owned() };
        let count = |number: f64| Value::Int(number as i64);
        let tokens = self.input_tokens.zip(self.output_tokens).map(|(input, output)| input + output);
        let mut result = dict! {
            "date"?: self.date,
            "tool": name,
            "model_id"?: self.model,
            "request_rate": self.rate.map_or_else(|| Value::from("inf"), Value::Float),
            "max_concurrency"?: self.concurrency.map(count),
            "duration": duration,
            "completed": count(self.completed),
            "failed"?: self.failed.map(count),
            "total_input_tokens"?: self.input_tokens.map(count),
            "total_output_tokens"?: self.output_tokens.map(count),
            "request_throughput": per_second(self.completed).unwrap_or(0.0),
            "output_throughput"?: self.output_tokens.and_then(per_second),
            "total_token_throughput"?: tokens.and_then(per_second),
            ..self.metrics
        };
        if !self.requests.is_empty() {
            lists(&mut result, &self.requests);
        }
        result.set("tacho", dict! { "caveats": Value::List(vec![StoredCaveat::from(&caveat).to_json()]) });
        result
    }
}

/// Sets the statistics of requests, and the lists that all requests have.
fn lists(result: &mut Dict, requests: &[Request]) {
    let mut statistics = |family: &str, seconds: Vec<f64>| {
        if seconds.is_empty() {
            return;
        }
        let found = Statistics::of(seconds, &PERCENTILES);
        result.set(format!("mean_{family}_ms"), found.mean_ms);
        result.set(format!("median_{family}_ms"), found.median_ms);
        result.set(format!("std_{family}_ms"), found.std_ms);
        for (percent, value) in found.percentiles_ms {
            result.set(format!("p{percent}_{family}_ms"), value);
        }
    };
    statistics("ttft", requests.iter().filter_map(|request| request.ttft).collect());
    statistics("tpot", requests.iter().filter_map(Request::tpot).collect());
    statistics("itl", requests.iter().flat_map(|request| request.itl.iter().flatten()).copied().collect());
    statistics("e2el", requests.iter().map(|request| request.latency).collect());
    let column = |of: fn(&Request) -> Option<Value>| requests.iter().map(of).collect::<Option<Vec<Value>>>();
    let columns = [
        ("latencies", column(|request| Some(request.latency.into()))),
        ("ttfts", column(|request| request.ttft.map(Value::from))),
        ("itls", column(|request| Some(request.itl.as_ref()?.iter().copied().collect()))),
        ("start_times", column(|request| request.start.map(Value::from))),
        ("input_lens", column(|request| request.input.map(|tokens| Value::Int(tokens as i64)))),
        ("output_lens", column(|request| request.output.map(|tokens| Value::Int(tokens as i64)))),
    ];
    for (key, list) in columns {
        list.into_iter().for_each(|list| result.set(key, Value::List(list)));
    }
}

/// The statistic under a name such as `avg`, `std_dev`, `p95`, `p99.9`, `p99p9` or `p999`.
fn statistic(name: &str) -> Option<Statistic> {
    Some(match name {
        "mean" | "avg" => Statistic::Mean,
        "median" => Statistic::Percentile(50.0),
        "std" | "stddev" | "std_dev" => Statistic::Deviation,
        _ => {
            let digits = name.strip_prefix('p')?;
            let percent: f64 = digits.replace('p', ".").parse().ok()?;
            let is_thousandths = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
            let percent = if is_thousandths && digits != "100" { percent / 10.0 } else { percent };
            Statistic::Percentile(Some(percent).filter(|percent| (0.0..=100.0).contains(percent))?)
        }
    })
}

/// The value at a path such as `run.items.0.name`.
fn at<'v>(dict: &'v Dict, path: &str) -> Option<&'v Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    rest.into_iter().flat_map(|rest| rest.split('.')).try_fold(dict.get(first)?, |value, part| match value {
        Value::List(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

/// A number that a metric can have.
fn finite(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

fn number(dict: &Dict, path: &str) -> Option<f64> {
    finite(at(dict, path)?)
}

fn needed(dict: &Dict, path: &str) -> Result<f64, FieldError> {
    number(dict, path).ok_or_else(|| FieldError::new("a number").at(path))
}

fn text(dict: &Dict, path: &str) -> Option<String> {
    Some(at(dict, path)?.as_str()?.chars().take(LONGEST_TEXT).collect())
}

/// How many milliseconds a unit has: `ms`, `s`, `s/token`, and others of a time.
fn milliseconds(unit: &str) -> Option<f64> {
    match unit.split('/').next()? {
        "ms" => Some(1.0),
        "s" | "sec" => Some(1e3),
        "us" => Some(1e-3),
        "ns" => Some(1e-6),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
