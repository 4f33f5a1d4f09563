//! The same batch against a server, once or several times: what each pass took, and what the cache did.

use tacho_core::Request;
use tacho_core::json::{Dict, Value};
use tacho_metrics::Statistics;
use tacho_record::RunRecord;
use tacho_report::style::{title, two, value_line};
use tacho_text::Tokenizer;
use tacho_workload::PrefixSharing;

use super::milliseconds;

/// What vLLM counts where a connector brings KV from elsewhere.
const EXTERNAL: &str = "vllm:external_prefix_cache_hits_total";

/// One pass.
pub(super) struct Pass {
    name: &'static str,
    seconds: f64,
    requests: usize,
    failed: usize,
    input: u64,
    output: u64,
    ttft: Statistics,
    /// Share of the prompt tokens that came from the cache, where the server says.
    observed: Option<f64>,
    /// Prompt tokens that came from beyond the engine's own cache, where the server counts them.
    external: Option<f64>,
    /// The most that an unlimited cache could have served.
    expected: f64,
}

impl Pass {
    /// What a run came to. `expected` is the share of tokens that the cache could serve.
    pub(super) fn of(name: &'static str, record: &RunRecord, expected: f64) -> Pass {
        let samples = &record.measured.samples;
        let done: Vec<_> = samples.iter().filter(|sample| sample.success()).collect();
        Pass {
            name,
            seconds: record.measured.duration,
            requests: done.len(),
            failed: samples.len() - done.len(),
            input: done.iter().map(|sample| sample.prompt_len).sum(),
            output: done.iter().map(|sample| sample.output_len).sum(),
            ttft: Statistics::of(done.iter().map(|sample| sample.ttft).collect(), &[99.0]),
            observed: record.measured.cache_hit_rate(),
            external: record.measured.server.get(EXTERNAL).and_then(|series| series.growth()),
            expected,
        }
    }

    /// Its lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![title(&format!(" {} ", self.name), '-')];
        lines.push(value_line("Wall time (s):", format!("{:.4}", self.seconds)));
        lines.push(value_line("Requests (req/s):", two(self.requests as f64 / self.seconds)));
        lines.push(value_line("Input (tok/s):", two(self.input as f64 / self.seconds)));
        lines.push(value_line("Output (tok/s):", two(self.output as f64 / self.seconds)));
        lines.push(value_line("First token, mean (ms):", milliseconds(&self.ttft, self.ttft.mean_ms)));
        let p99 = self.ttft.percentile_ms(99.0).unwrap_or(f64::NAN);
        lines.push(value_line("First token, P99 (ms):", milliseconds(&self.ttft, p99)));
        let observed = self.observed.map_or_else(|| "not reported".to_owned(), |share| two(share * 100.0));
        lines.push(value_line("Cache hits, observed (%):", observed));
        lines.push(value_line("Cache hits, at most (%):", two(self.expected * 100.0)));
        lines.extend(
            self.external
                .filter(|tokens| *tokens > 0.0)
                .map(|tokens| value_line("From beyond its own (tokens):", tokens)),
        );
        if self.failed > 0 {
            lines.push(value_line("Requests without an answer:", self.failed));
        }
        lines
    }

    /// The same for a file.
    pub(super) fn to_dict(&self) -> Value {
        let mut dict = Dict::new();
        dict.set("pass", self.name);
        dict.set("elapsed_time", self.seconds);
        dict.set("completed", self.requests);
        dict.set("failed", self.failed);
        dict.set("total_input_tokens", self.input);
        dict.set("total_output_tokens", self.output);
        let known = |value: f64| (self.ttft.count > 0).then_some(value);
        dict.set("mean_ttft_ms", known(self.ttft.mean_ms));
        dict.set("median_ttft_ms", known(self.ttft.median_ms));
        dict.set("p99_ttft_ms", self.ttft.percentile_ms(99.0));
        dict.set("prefix_cache_hit_rate", self.observed);
        dict.set("prefix_cache_hit_rate_limit", self.expected);
        dict.set("external_prefix_cache_hits", self.external);
        Value::Dict(dict)
    }

    /// A warning where a pass that should have been cold found more in the cache than its own prompts put there.
    pub(super) fn doubt(&self) -> Option<String> {
        let observed = self.observed.filter(|observed| *observed > self.expected + 0.01)?;
        Some(format!(
            "the cache was warm before the {} pass: {:.1} % of the tokens were found in it, and the prompts themselves \
             can only account for {:.1} %; pass --reset-prefix-cache or --cache-salt",
            self.name,
            observed * 100.0,
            self.expected * 100.0
        ))
    }

    /// How long it took.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// How many times as long as another.
    pub(super) fn times(&self, other: &Pass) -> f64 {
        self.seconds / other.seconds
    }
}

/// Shares of tokens that an unlimited cache could serve: of the list sent for the first time, and sent again.
pub(super) fn expected(requests: &[Request], tokenizer: Option<&Tokenizer>) -> (f64, f64) {
    let Some(tokenizer) = tokenizer else { return (0.0, 0.0) };
    let once = PrefixSharing::new(requests, tokenizer);
    let twice = PrefixSharing::new(&[requests, requests].concat(), tokenizer);
    let again = (twice.cached - once.cached) as f64 / once.tokens.max(1) as f64;
    (once.cached_share(), again)
}
