//! Structured output: vLLM's metrics, and the fraction of valid responses.

use crate::percentile::percentile;
use crate::{GoodputLimits, MetricKind, Statistics};

/// One response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Whether the request succeeded.
    pub success: bool,
    /// The text; empty where it failed.
    pub text: String,
    /// Tokens of the prompt.
    pub prompt_len: u64,
    /// Tokens of the text, by the client's tokenizer.
    pub output_len: u64,
    /// Seconds to the first token event.
    pub ttft: f64,
    /// Seconds to the last one.
    pub latency: f64,
    /// Seconds between token events.
    pub itl: Vec<f64>,
    /// Why it failed; empty for a success.
    pub error: String,
    /// The dataset's expected text, if any.
    pub expected: Option<String>,
    /// Whether the request carried its constraint.
    pub constrained: bool,
    /// Whether it was the first request of the run with its constraint.
    pub fresh: bool,
    /// Validity of the text.
    pub verdict: Verdict,
}

/// Validity of a text. `None` where it is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// vLLM's looser score.
    pub loose: Option<bool>,
    /// Whether it is valid JSON, if JSON was requested.
    pub parses: Option<bool>,
    /// Whether it satisfies the constraint.
    pub obeys: Option<bool>,
}

impl Answer {
    /// Seconds per token after the first; 0 where there is only one.
    pub fn tpot(&self) -> f64 {
        if self.success && self.output_len > 1 {
            (self.latency - self.ttft) / (self.output_len - 1) as f64
        } else {
            0.0
        }
    }
}

/// pandas' description of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Description {
    /// Number of values.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// Their sample standard deviation; NaN for a single value.
    pub std: f64,
    /// Minimum, quartiles and maximum.
    pub quartiles: [f64; 5],
}

impl Description {
    /// Describes values.
    pub fn of(mut values: Vec<f64>) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let spread: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        values.sort_by(f64::total_cmp);
        let quartiles = [0.0, 25.0, 50.0, 75.0, 100.0].map(|percent| percentile(&values, percent));
        Description { count, mean, std: (spread / (count - 1.0)).sqrt(), quartiles }
    }
}

/// The metrics of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StructuredSummary {
    /// Successful requests.
    pub completed: usize,
    /// Tokens of their prompts.
    pub total_input: u64,
    /// Tokens of their texts.
    pub total_output: u64,
    /// Successful requests per second.
    pub request_throughput: f64,
    /// Requests per second that met all SLOs, if there are any.
    pub goodput: Option<f64>,
    /// Generated tokens per second.
    pub output_throughput: f64,
    /// Tokens per second.
    pub total_throughput: f64,
    /// The requested latency metrics.
    pub latencies: Vec<(MetricKind, Statistics)>,
    /// vLLM's score in percent, over all requests; `None` if nothing is scored.
    pub loose_rate: Option<f64>,
    /// TTFTs of all requests, failures as 0.
    pub ttft: Description,
    /// TPOTs of all requests, failures as 0.
    pub tpot: Description,
    /// TTFTs with a constraint that is new to the server in this run, including its compilation.
    pub fresh: Statistics,
    /// TTFTs with a constraint that the server has already compiled.
    pub familiar: Statistics,
    /// Responses to constrained requests.
    pub constrained: Correct,
    /// Responses to unconstrained requests.
    pub unconstrained: Correct,
}

/// Valid responses, failures excluded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Correct {
    /// Number of responses.
    pub answers: usize,
    /// Responses whose validity is known.
    pub judged: usize,
    /// Those that parse, if JSON was requested.
    pub parse: usize,
    /// Those that satisfy the constraint.
    pub obey: usize,
}

impl Correct {
    fn of<'a>(answers: impl Iterator<Item = &'a Answer>) -> Self {
        answers.filter(|answer| answer.success).fold(Correct::default(), |sum, answer| Correct {
            answers: sum.answers + 1,
            judged: sum.judged + usize::from(answer.verdict.obeys.is_some()),
            parse: sum.parse + usize::from(answer.verdict.parses == Some(true)),
            obey: sum.obey + usize::from(answer.verdict.obeys == Some(true)),
        })
    }

    /// Percentage of known responses that satisfy the constraint.
    pub fn rate(&self) -> Option<f64> {
        (self.judged > 0).then(|| 100.0 * self.obey as f64 / self.judged as f64)
    }
}

impl StructuredSummary {
    /// Computes the metrics.
    pub fn of(
        answers: &[Answer],
        duration: f64,
        metrics: &[MetricKind],
        percentiles: &[f64],
        goodput: Option<&GoodputLimits>,
    ) -> Self {
        let done: Vec<&Answer> = answers.iter().filter(|answer| answer.success).collect();
        let total_input: u64 = done.iter().map(|answer| answer.prompt_len).sum();
        let total_output: u64 = done.iter().map(|answer| answer.output_len).sum();
        let scored: Vec<bool> = answers.iter().filter_map(|answer| answer.verdict.loose).collect();
        let right = scored.iter().filter(|right| **right).count();
        let first_tokens = |fresh: bool| {
            let mine = done.iter().filter(|answer| answer.constrained && answer.fresh == fresh);
            Statistics::of(mine.map(|answer| answer.ttft).collect(), &[])
        };
        StructuredSummary {
            completed: done.len(),
            total_input,
            total_output,
            request_throughput: done.len() as f64 / duration,
            goodput: goodput.map(|limits| done.iter().filter(|answer| meets(answer, limits)).count() as f64 / duration),
            output_throughput: total_output as f64 / duration,
            total_throughput: (total_input + total_output) as f64 / duration,
            // Always in this order.
            latencies: [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el]
                .into_iter()
                .filter(|kind| metrics.contains(kind))
                .map(|kind| (kind, latency(kind, &done, percentiles)))
                .collect(),
            loose_rate: (!scored.is_empty()).then(|| right as f64 / scored.len() as f64 * 100.0),
            ttft: Description::of(answers.iter().map(|answer| answer.ttft).collect()),
            tpot: Description::of(answers.iter().map(Answer::tpot).collect()),
            fresh: first_tokens(true),
            familiar: first_tokens(false),
            constrained: Correct::of(answers.iter().filter(|answer| answer.constrained)),
            unconstrained: Correct::of(answers.iter().filter(|answer| !answer.constrained)),
        }
    }
}

fn meets(answer: &Answer, limits: &GoodputLimits) -> bool {
    let within = |limit: Option<f64>, seconds: f64| limit.is_none_or(|limit| seconds <= limit / 1000.0);
    within(limits.ttft_ms, answer.ttft)
        && within(limits.tpot_ms, answer.tpot())
        && within(limits.e2el_ms, answer.latency)
}

fn latency(kind: MetricKind, done: &[&Answer], percentiles: &[f64]) -> Statistics {
    let seconds: Vec<f64> = match kind {
        MetricKind::Ttft => done.iter().map(|answer| answer.ttft).collect(),
        MetricKind::Tpot => done.iter().filter(|answer| answer.output_len > 1).map(|answer| answer.tpot()).collect(),
        MetricKind::Itl => done.iter().flat_map(|answer| answer.itl.iter().copied()).collect(),
        _ => done.iter().map(|answer| answer.latency).collect(),
    };
    Statistics::of(seconds, percentiles)
}
