//! Structured output: vLLM's metrics, and the fraction of valid responses.

use crate::{MetricKind, Sample, Samples, Setup, Statistics, Summary, latency::tpot, percentile::percentile};

/// One response. Its sample counts the tokens of the text by the client's tokenizer, and has no times if it failed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JudgedResponse {
    /// Its times, lengths and text.
    pub sample: Sample,
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
    /// The metrics of every run.
    pub summary: Summary,
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
    pub responses: usize,
    /// Responses whose validity is known.
    pub judged: usize,
    /// Those that parse, if JSON was requested.
    pub parse: usize,
    /// Those that satisfy the constraint.
    pub valid: usize,
}

impl Correct {
    fn of<'a>(responses: impl Iterator<Item = &'a JudgedResponse>) -> Self {
        responses.filter(|response| response.sample.success()).fold(Correct::default(), |sum, response| Correct {
            responses: sum.responses + 1,
            judged: sum.judged + usize::from(response.verdict.obeys.is_some()),
            parse: sum.parse + usize::from(response.verdict.parses == Some(true)),
            valid: sum.valid + usize::from(response.verdict.obeys == Some(true)),
        })
    }

    /// Percentage of known responses that satisfy the constraint.
    pub fn rate(&self) -> Option<f64> {
        (self.judged > 0).then(|| 100.0 * self.valid as f64 / self.judged as f64)
    }
}

impl StructuredSummary {
    /// Computes the metrics.
    pub fn of(responses: &[JudgedResponse], setup: &Setup, duration: f64) -> Self {
        let samples: Samples = responses.iter().map(|response| response.sample.clone()).collect();
        let summary = Summary::of(setup, &samples, duration);
        let scored: Vec<bool> = responses.iter().filter_map(|response| response.verdict.loose).collect();
        let right = scored.iter().filter(|right| **right).count();
        let first_tokens = |fresh: bool| {
            let mine = |response: &&JudgedResponse| {
                response.sample.success() && response.constrained && response.fresh == fresh
            };
            Statistics::of(responses.iter().filter(mine).map(|response| response.sample.ttft).collect(), &[])
        };
        // Always in this order.
        let kinds = [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el].into_iter();
        let requested = kinds.filter(|kind| setup.percentile_metrics.contains(kind));
        StructuredSummary {
            latencies: requested.filter_map(|kind| Some((kind, summary.statistics(kind)?.clone()))).collect(),
            loose_rate: (!scored.is_empty()).then(|| right as f64 / scored.len() as f64 * 100.0),
            ttft: Description::of(samples.iter().map(|sample| sample.ttft).collect()),
            tpot: Description::of(samples.iter().map(|sample| tpot(&sample).unwrap_or(0.0)).collect()),
            fresh: first_tokens(true),
            familiar: first_tokens(false),
            constrained: Correct::of(responses.iter().filter(|response| response.constrained)),
            unconstrained: Correct::of(responses.iter().filter(|response| !response.constrained)),
            summary,
        }
    }
}
