//! The output of the scenario commands: passes over the same requests, and priority classes.

pub mod structured;

use tacho_core::json::{Dict, Value, float_repr};
use tacho_core::{Request, dict};
use tacho_metrics::{MetricKind, Sample, Statistics, Summary};
use tacho_record::RunRecord;

use crate::style::{title, two, value_line};

/// vLLM's counter of prompt tokens whose KV a connector loaded.
const EXTERNAL: &str = "vllm:external_prefix_cache_hits_total";

/// The lines that vLLM's script prints about the prompts before repeating them.
pub fn sampled(requests: &[Request], repeats: usize) -> Vec<String> {
    let mut lens: Vec<u64> = requests.iter().map(|request| request.prompt_len).collect();
    lens.sort_unstable();
    // All prompts are repeated equally often.
    let distinct: Vec<u64> = lens.iter().copied().step_by(repeats.max(1)).collect();
    let mean = distinct.iter().sum::<u64>() as f64 / distinct.len().max(1) as f64;
    let at = |place: usize| distinct.get(place).copied().unwrap_or(0);
    vec![
        format!("Sampled {} requests.", distinct.len()),
        format!("Average input length: {}", float_repr(mean)),
        format!("P50 input length: {}", at(distinct.len() / 2)),
        format!("Min Prompt Length: {}", at(0)),
        format!("Max Prompt Length: {}", at(distinct.len().saturating_sub(1))),
        "Testing filtered requests".to_owned(),
    ]
}

/// A run over the requests of a scenario.
pub struct Pass<'a> {
    pub name: &'static str,
    pub record: &'a RunRecord,
    /// The hit rate of an unbounded cache.
    pub limit: f64,
}

impl Pass<'_> {
    /// Fraction of prompt tokens from the cache, if the server reports it.
    fn observed(&self) -> Option<f64> {
        self.record.measured.cache_hit_rate()
    }

    /// Prompt tokens from outside the engine's own cache, if the server counts them.
    fn external(&self) -> Option<f64> {
        self.record.measured.server.get(EXTERNAL).and_then(|series| series.growth())
    }

    pub fn lines(&self) -> Vec<String> {
        let (summary, seconds) = (&self.record.summary, self.record.measured.duration);
        let rate = |count: u64| two(count as f64 / seconds);
        let mut lines = vec![title(&format!(" {} ", self.name), '-')];
        lines.push(value_line("Wall time (s):", format!("{seconds:.4}")));
        lines.push(value_line("Request throughput (req/s):", rate(summary.completed)));
        lines.push(value_line("Input token throughput (tok/s):", rate(summary.total_input)));
        lines.push(value_line("Output token throughput (tok/s):", rate(output(summary))));
        lines.extend(time_lines(summary, MetricKind::Ttft, &["Mean", "P99"]));
        let observed = self.observed().map_or_else(|| "not reported".to_owned(), |share| two(share * 100.0));
        lines.push(value_line("Cache hits, observed (%):", observed));
        lines.push(value_line("Cache hits, upper bound (%):", two(self.limit * 100.0)));
        let external = self.external().filter(|tokens| *tokens > 0.0);
        lines.extend(external.map(|tokens| value_line("External cache hits (tokens):", tokens)));
        if summary.failed > 0 {
            lines.push(value_line("Failed requests:", summary.failed));
        }
        lines
    }

    pub fn to_json(&self) -> Value {
        let summary = &self.record.summary;
        let mut dict = dict! {
            "pass": self.name,
            "elapsed_time": self.record.measured.duration,
            "completed": summary.completed,
            "failed": summary.failed,
            "total_input_tokens": summary.total_input,
            "total_output_tokens": output(summary),
        };
        set_times(&mut dict, summary, MetricKind::Ttft);
        dict.update(&dict! {
            "prefix_cache_hit_rate": self.observed(),
            "prefix_cache_hit_rate_limit": self.limit,
            "external_prefix_cache_hits": self.external(),
        });
        Value::Dict(dict)
    }

    /// A warning if a cold pass had more cache hits than its own prompts explain.
    pub fn warning(&self) -> Option<String> {
        let observed = self.observed().filter(|observed| *observed > self.limit + 0.01)?;
        Some(format!(
            "the cache was warm before the {} pass: {:.1}% of the tokens were found in it, and the prompts themselves \
             can only account for {:.1}%; pass --reset-prefix-cache or --cache-salt",
            self.name,
            observed * 100.0,
            self.limit * 100.0
        ))
    }
}

/// The first and the second pass, with the ratio of their durations; lines and file.
pub fn two_passes(first: &Pass<'_>, second: &Pass<'_>) -> (Vec<String>, Dict) {
    let ratio = first.record.measured.duration / second.record.measured.duration;
    let mut lines = [first.lines(), second.lines()].concat();
    lines.push(title("", '-'));
    lines.push(value_line("Speed-up (first / second):", format!("{ratio:.2}")));
    lines.push(title("", '='));
    (lines, dict! { "passes": vec![first.to_json(), second.to_json()], "speed_up": Value::Float(ratio) })
}

/// A pass over documents, after one that filled the cache in `warmup` seconds; `fresh` marks the first request of
/// each document. Lines and file.
pub fn documents(pass: &Pass<'_>, warmup: f64, fresh: &[bool]) -> (Vec<String>, Dict) {
    let mut lines = pass.lines();
    for (name, wanted) in [("Mean TTFT, new document (ms):", true), ("Mean TTFT, cached document (ms):", false)] {
        let samples = pass.record.measured.samples.iter().zip(fresh);
        let times = samples.filter(|(sample, fresh)| sample.success() && **fresh == wanted);
        let times = Statistics::of(times.map(|(sample, _)| sample.ttft).collect(), &[]);
        lines.push(value_line(name, known(&times, times.mean_ms)));
    }
    lines.push(title("", '='));
    (lines, dict! { "warm_up_time": warmup, "passes": vec![pass.to_json()] })
}

/// Upstream's line about a batch of requests, and its file.
pub fn throughput<'r>(requests: impl IntoIterator<Item = &'r Request>, seconds: f64) -> (String, Dict) {
    let tokens = |request: &Request| request.prompt_len.saturating_add_signed(request.output_len);
    let (requests, tokens) =
        requests.into_iter().fold((0_usize, 0), |(count, sum), request| (count + 1, sum + tokens(request)));
    let (per_second, tokens_per_second) = (requests as f64 / seconds, tokens as f64 / seconds);
    let file = dict! {
        "elapsed_time": seconds,
        "num_requests": requests,
        "total_num_tokens": tokens,
        "requests_per_second": per_second,
        "tokens_per_second": tokens_per_second,
    };
    (format!("Throughput: {per_second:.2} requests/s, {tokens_per_second:.2} tokens/s"), file)
}

/// The latencies of each priority, and the fraction of inversions; lines, and keys for `file`.
pub fn priorities(priorities: &[i64], record: &RunRecord, file: &mut Dict) -> Vec<String> {
    let samples: Vec<(i64, Sample)> =
        priorities.iter().copied().zip(record.measured.samples.iter().map(std::borrow::Cow::into_owned)).collect();
    let mut each: Vec<i64> = priorities.to_vec();
    each.sort_unstable();
    each.dedup();
    let class = |priority: i64| {
        let mine = samples.iter().filter(|(own, _)| *own == priority).map(|(_, sample)| sample.clone());
        (priority, Summary::of(&record.setup, &mine.collect(), record.measured.duration))
    };
    let classes: Vec<(i64, Summary)> = each.into_iter().map(class).collect();
    let inversions = inversions(&samples);
    let preempted = record.measured.server.get("vllm:num_preemptions_total").and_then(|series| series.growth());
    let mut lines: Vec<String> =
        classes.iter().flat_map(|(priority, summary)| class_lines(*priority, summary)).collect();
    lines.push(title("", '-'));
    lines.push(value_line("Priority inversions (%):", two(inversions * 100.0)));
    lines.extend(preempted.map(|count| value_line("Preemptions:", count)));
    lines.push(title("", '='));
    let class_json = |(priority, summary): &(i64, Summary)| class_json(*priority, summary);
    let classes = classes.iter().map(class_json).collect::<Vec<Value>>();
    file.update(&dict! { "classes": classes, "inversions": inversions, "preemptions": preempted });
    lines
}

fn class_lines(priority: i64, summary: &Summary) -> Vec<String> {
    let mut lines = vec![
        title(&format!(" Priority {priority} "), '-'),
        value_line("Requests:", summary.completed + summary.failed),
        value_line("Failed requests:", summary.failed),
    ];
    lines.extend(time_lines(summary, MetricKind::Ttft, &["Mean", "Median", "P99"]));
    lines.extend(time_lines(summary, MetricKind::E2el, &["Mean", "P99"]));
    lines
}

fn class_json(priority: i64, summary: &Summary) -> Value {
    let mut dict = dict! {
        "priority": priority,
        "requests": summary.completed + summary.failed,
        "failed": summary.failed,
    };
    set_times(&mut dict, summary, MetricKind::Ttft);
    set_times(&mut dict, summary, MetricKind::E2el);
    Value::Dict(dict)
}

/// Fraction of pairs in which a request got its first token before a more urgent one that arrived no later.
fn inversions(samples: &[(i64, Sample)]) -> f64 {
    let done = samples.iter().filter(|(_, sample)| sample.success());
    let seen: Vec<(i64, f64, f64)> =
        done.map(|(priority, sample)| (*priority, sample.sent, sample.sent + sample.ttft)).collect();
    let (mut pairs, mut wrong) = (0_u64, 0_u64);
    for (urgent, came, served) in &seen {
        for (other, later, before) in &seen {
            if urgent < other && came <= later {
                pairs += 1;
                wrong += u64::from(before < served);
            }
        }
    }
    if pairs == 0 { 0.0 } else { wrong as f64 / pairs as f64 }
}

fn output(summary: &Summary) -> u64 {
    summary.generation().map_or(0, |generation| generation.total_output)
}

/// A time in milliseconds, or that nothing was measured.
fn known(times: &Statistics, value: f64) -> String {
    if times.count == 0 { "none".to_owned() } else { two(value) }
}

fn time_lines(summary: &Summary, kind: MetricKind, which: &[&str]) -> Vec<String> {
    let Some(times) = summary.statistics(kind) else { return Vec::new() };
    let line = |which: &&str| {
        let value = match *which {
            "Mean" => times.mean_ms,
            "Median" => times.median_ms,
            _ => times.percentile_ms(99.0).unwrap_or(f64::NAN),
        };
        value_line(&format!("{which} {} (ms):", kind.name().to_uppercase()), known(times, value))
    };
    which.iter().map(line).collect()
}

fn set_times(dict: &mut Dict, summary: &Summary, kind: MetricKind) {
    let (Some(times), name) = (summary.statistics(kind), kind.name()) else { return };
    let known = |value: f64| (times.count > 0).then_some(value);
    dict.set(format!("mean_{name}_ms"), known(times.mean_ms));
    dict.set(format!("median_{name}_ms"), known(times.median_ms));
    dict.set(format!("p99_{name}_ms"), times.percentile_ms(99.0));
}
