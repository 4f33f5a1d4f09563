//! Requests of several priority classes.

use std::path::PathBuf;

use tacho_core::Request;
use tacho_core::json::{Dict, Value};
use tacho_pyrand::Random;

use super::pairs;
use crate::{Error, sampling::chat::LengthFilter, sampling::context::SampleContext, sampling::sampled::Sampled};

#[derive(Debug, Clone, PartialEq)]
pub enum PrioritySource {
    /// One short word repeated, with a nominal number of tokens.
    Synthetic { input_len: usize, output_len: i64 },
    Recorded {
        path: PathBuf,
        /// Output tokens, overriding the length of the recorded response.
        output_len: Option<i64>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct PrioritizationSpec {
    /// Seed of order and priorities.
    pub seed: u64,
    pub num_prompts: usize,
    pub source: PrioritySource,
    /// Fraction of each class, the most urgent first. Upstream has two classes of one half each.
    pub weights: Vec<f64>,
}

/// Generates the requests; the priority of each is drawn when it is taken.
pub(crate) fn sample(spec: &PrioritizationSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("prioritization");
    let random = &mut context.globals.py;
    *random = Random::new(spec.seed);
    let mut requests = Vec::new();
    match &spec.source {
        PrioritySource::Synthetic { input_len, output_len } => {
            let prompt = "hi".repeat(input_len.saturating_sub(1));
            for _ in 0..spec.num_prompts {
                requests.push(spec.prioritized(Request::text(prompt.as_str(), *input_len as u64, *output_len), random));
            }
        }
        PrioritySource::Recorded { path, output_len } => {
            let tokenizer = tokenizer?;
            let mut pairs = pairs::read(path)?;
            random.shuffle(&mut pairs);
            for (question, answer) in pairs {
                if requests.len() == spec.num_prompts {
                    break;
                }
                let prompt_len = tokenizer.count(&question, true);
                let output_len = output_len.unwrap_or_else(|| tokenizer.count(&answer, true) as i64);
                if LengthFilter::CONVERSATION.keeps(prompt_len, usize::try_from(output_len).unwrap_or(0)) {
                    requests.push(spec.prioritized(Request::text(question, prompt_len as u64, output_len), random));
                }
            }
        }
    }
    Ok(Sampled::of(requests))
}

impl PrioritizationSpec {
    fn prioritized(&self, request: Request, random: &mut Random) -> Request {
        let total: f64 = self.weights.iter().sum();
        let drawn = random.random() * total;
        let mut reached = 0.0;
        let class = self.weights.iter().position(|weight| {
            reached += weight;
            drawn < reached
        });
        with_priority(request, class.unwrap_or(self.weights.len() - 1) as i64)
    }
}

/// Adds a priority to a request's body; lower values are served first.
pub(crate) fn with_priority(request: Request, priority: i64) -> Request {
    let mut overrides = match &request.overrides {
        Some(Value::Dict(dict)) => dict.clone(),
        _ => Dict::new(),
    };
    overrides.set("priority", priority);
    Request { overrides: Some(Value::Dict(overrides)), ..request }
}

pub fn priority_of(request: &Request) -> Option<i64> {
    request.overrides.as_ref()?.get("priority")?.as_i64()
}
