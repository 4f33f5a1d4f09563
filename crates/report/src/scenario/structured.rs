//! The report and the result file of structured output: those of vLLM's script, then tacho's additions.

use tacho_core::dict;
use tacho_core::json::{Dict, Json, Value, float_repr};
use tacho_metrics::structured::{Correct, Description, JudgedResponse, StructuredSummary};
use tacho_metrics::{Sample, Statistics};
use tacho_record::metric::{TIMES, Times};

use crate::style::{percent, title, two, value_line};

/// The settings in the report and the file name.
#[derive(Debug, Clone, PartialEq)]
pub struct StructuredSetup {
    pub backend: String,
    pub model_id: String,
    pub tokenizer_id: String,
    pub dataset: &'static str,
    pub num_prompts: i64,
    pub output_len: i64,
    /// Fraction of constrained requests; `None` if constraints are disabled.
    pub ratio: Option<f64>,
    pub request_rate: f64,
    /// Shape of the distribution of gaps.
    pub burstiness: f64,
    pub max_concurrency: Option<i64>,
    pub profiled: bool,
}

impl StructuredSetup {
    pub fn file_name(&self) -> String {
        let ratio = self.ratio.map_or_else(|| "0".to_owned(), float_repr);
        let model = self.model_id.rsplit('/').next().unwrap_or_default();
        format!(
            "{ratio}so_{}_{}qps_{model}_{}_{}_out{}.txt",
            self.backend,
            float_repr(self.request_rate),
            self.dataset,
            self.num_prompts,
            self.output_len
        )
    }

    pub fn traffic(&self) -> Vec<String> {
        let process = if self.burstiness == 1.0 { "Poisson process" } else { "Gamma distribution" };
        vec![
            format!("Traffic request rate: {}", float_repr(self.request_rate)),
            format!("Burstiness factor: {} ({process})", float_repr(self.burstiness)),
            format!(
                "Maximum request concurrency: {}",
                self.max_concurrency.map_or_else(|| "None".to_owned(), |limit| limit.to_string())
            ),
        ]
    }
}

/// The table, the score, and the valid responses.
pub fn console(setup: &StructuredSetup, summary: &StructuredSummary, duration: f64) -> Vec<String> {
    let mut lines = vec![title(" Serving Benchmark Result ", '=')];
    let (all, generation) = (&summary.summary, summary.summary.generation());
    lines.push(value_line("Successful requests:", all.completed));
    lines.extend(setup.max_concurrency.map(|limit| value_line("Maximum request concurrency:", limit)));
    if setup.request_rate.is_finite() {
        lines.push(value_line("Request rate configured (RPS):", two(setup.request_rate)));
    }
    lines.push(value_line("Benchmark duration (s):", two(duration)));
    lines.push(value_line("Total input tokens:", all.total_input));
    lines.extend(generation.map(|of| value_line("Total generated tokens:", of.total_output)));
    lines.push(value_line("Request throughput (req/s):", two(all.request_throughput)));
    lines.extend(goodput(summary).map(|goodput| value_line("Request goodput (req/s):", two(goodput))));
    lines.extend(generation.map(|of| value_line("Output token throughput (tok/s):", two(of.output_throughput))));
    lines.push(value_line("Total token throughput (tok/s):", two(all.total_token_throughput)));
    for (kind, statistics) in &summary.latencies {
        let times = TIMES.iter().find(|times| times.name == kind.name());
        lines.extend(times.map(|times| title(times.title, '-')));
        lines.extend(times.into_iter().flat_map(|times| metric_lines(times.label, statistics)));
    }
    lines.push(title("", '='));
    lines.extend(setup.profiled.then(|| "Stopping profiler...".to_owned()));
    let score = summary.loose_rate.map_or_else(|| "None".to_owned(), float_repr);
    lines.push(format!("correct_rate(%) {score} "));
    lines.push(String::new());
    lines
}

fn goodput(summary: &StructuredSummary) -> Option<f64> {
    summary.summary.generation()?.request_goodput
}

fn metric_lines(name: &str, statistics: &Statistics) -> Vec<String> {
    let mut lines = vec![
        value_line(&format!("Mean {name} (ms):"), two(statistics.mean_ms)),
        value_line(&format!("Median {name} (ms):"), two(statistics.median_ms)),
    ];
    let percentiles = statistics.percentiles_ms.iter();
    lines.extend(percentiles.map(|(asked, ms)| value_line(&format!("P{} {name} (ms):", percent(*asked)), two(*ms))));
    lines
}

/// What vLLM's score does not report: schema-valid responses, and failed requests.
pub fn judgment(summary: &StructuredSummary) -> Vec<String> {
    let mut lines = vec![title(" tacho ", '=')];
    let rows = [("Constrained", &summary.constrained), ("Unconstrained", &summary.unconstrained)];
    for (name, correct) in rows.into_iter().filter(|(_, correct)| correct.responses > 0) {
        lines.push(value_line(&format!("{name} answers:"), correct.responses));
        lines.push(value_line("  that are JSON, where asked for:", correct.parse));
        let rate = correct.rate().map_or_else(|| "not judged".to_owned(), |rate| format!("{rate:.2}%"));
        lines.push(value_line("  that obey the constraint:", rate));
    }
    for (name, times) in
        [("TTFT, new constraint (ms):", &summary.fresh), ("TTFT, known constraint (ms):", &summary.familiar)]
    {
        lines.extend((times.count > 0).then(|| value_line(name, two(times.mean_ms))));
    }
    lines.push(value_line("Failed requests:", summary.summary.failed));
    lines.push(title("", '='));
    lines
}

/// The result file: vLLM's keys, then goodput, validity and failures under `tacho`.
pub fn result(
    setup: &StructuredSetup,
    summary: &StructuredSummary,
    responses: &[JudgedResponse],
    duration: f64,
) -> Dict {
    let (all, generation) = (&summary.summary, summary.summary.generation());
    let list = |value: &dyn Fn(&Sample) -> Value| -> Vec<Value> {
        responses.iter().map(|response| value(&response.sample)).collect()
    };
    let mut file = dict! {
        "outputs": responses.iter().map(output).collect::<Vec<Value>>(),
        "backend": setup.backend.as_str(),
        "model_id": setup.model_id.as_str(),
        "tokenizer_id": setup.tokenizer_id.as_str(),
        "num_prompts": setup.num_prompts,
        "request_rate": crate::json::rate(setup.request_rate),
        "burstiness": setup.burstiness,
        "max_concurrency": setup.max_concurrency,
        "correct_rate(%)": summary.loose_rate,
        "duration": duration,
        "completed": all.completed,
        "total_input_tokens": all.total_input,
        "total_output_tokens": generation.map(|of| of.total_output),
        "request_throughput": all.request_throughput,
        "output_throughput": generation.map(|of| of.output_throughput),
        "total_token_throughput": all.total_token_throughput,
        "ttft_description": description(&summary.ttft),
        "tpot_description": description(&summary.tpot),
        "input_lens": list(&|sample| sample.prompt_len.into()),
        "output_lens": list(&|sample| sample.output_len.into()),
        "ttfts": list(&|sample| sample.ttft.into()),
        "itls": list(&|sample| sample.itl.to_vec().to_json()),
        "errors": list(&|sample| sample.error.as_str().into()),
    };
    for (kind, statistics) in &summary.latencies {
        crate::json::statistics_fields(&mut file, Times::of(*kind), statistics);
    }
    file
}

/// The part that vLLM does not save.
pub fn tacho_part(summary: &StructuredSummary) -> Dict {
    let correct = |correct: &Correct| {
        Value::Dict(dict! {
            "answers": correct.responses,
            "judged": correct.judged,
            "parse_valid": correct.parse,
            "constraint_valid": correct.valid,
            "constraint_valid_rate": correct.rate(),
        })
    };
    let mean = |times: &Statistics| (times.count > 0).then_some(times.mean_ms);
    dict! {
        "request_goodput": goodput(summary),
        "failed": summary.summary.failed,
        "mean_ttft_new_constraint_ms": mean(&summary.fresh),
        "mean_ttft_known_constraint_ms": mean(&summary.familiar),
        "constrained": correct(&summary.constrained),
        "unconstrained": correct(&summary.unconstrained),
    }
}

fn output(response: &JudgedResponse) -> Value {
    Value::Dict(dict! {
        "generated": String::from_utf8_lossy(&response.sample.text).as_ref(),
        "expected": response.expected.clone(),
        "correctness": response.verdict.loose.map_or(Value::Null, Value::Bool),
    })
}

fn description(of: &Description) -> Value {
    let mut dict = dict! { "count": of.count, "mean": of.mean, "std": of.std };
    for (name, value) in ["min", "25%", "50%", "75%", "max"].into_iter().zip(of.quartiles) {
        dict.set(name, value);
    }
    Value::Dict(dict)
}

#[cfg(test)]
mod tests;
