//! Token arrival times of each request: the input of a fit.

use tacho_core::{Observation, json::Value};

use super::error::FitError;
use tacho_metrics::Sample;

/// One request: send time, prompt tokens, and token arrival times in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traced {
    pub sent: f64,
    pub prompt: u64,
    pub tokens: Vec<f64>,
}

impl Traced {
    pub fn of_sample(sample: &Sample) -> Option<Traced> {
        let whole = sample.success() && sample.latency > 0.0;
        whole.then(|| Traced::from_gaps(sample.sent, sample.prompt_len, sample.ttft, &sample.itl.to_vec()))
    }

    fn from_gaps(sent: f64, prompt: u64, ttft: f64, gaps: &[f64]) -> Traced {
        let first = sent + ttft;
        let later = gaps.iter().scan(first, |at, gap| {
            *at += gap;
            Some(*at)
        });
        Traced { sent, prompt, tokens: std::iter::once(first).chain(later).collect() }
    }
}

/// The traces of rows, each with its prompt tokens.
pub fn of_rows<'a>(rows: impl Iterator<Item = (u64, &'a Observation)>) -> Result<Vec<Traced>, FitError> {
    let (mut traced, mut tokens, mut events) = (Vec::new(), 0.0, 0.0);
    for (prompt, row) in rows.filter(|(_, row)| row.outcome.is_complete() && !row.chunks.is_empty()) {
        tokens += row.usage.completion_tokens.unwrap_or(row.chunks.len() as u64) as f64;
        events += row.chunks.len() as f64;
        let at = row.chunks.iter().map(|timestamp| timestamp.secs()).collect();
        traced.push(Traced { sent: row.sent.secs(), prompt: row.usage.prompt_tokens.unwrap_or(prompt), tokens: at });
    }
    check_bundles(tokens, events)?;
    Ok(traced)
}

/// The traces of a result that was saved with its lists (`--save-detailed`).
pub fn of_result(result: &Value) -> Result<Vec<Traced>, FitError> {
    let list = |name: &'static str| result.get(name).and_then(Value::as_list).ok_or(FitError::NoList { name });
    let (sent, ttfts, itls) = (list("start_times")?, list("ttfts")?, list("itls")?);
    let (inputs, outputs) = (list("input_lens")?, list("output_lens")?);
    let errors = result.get("errors").and_then(Value::as_list).unwrap_or(&[]);
    let count = [sent.len(), ttfts.len(), itls.len(), inputs.len(), outputs.len()].into_iter().min().unwrap_or(0);
    let (mut traced, mut tokens, mut events) = (Vec::new(), 0.0, 0.0);
    for at in 0..count {
        let number = |list: &[Value]| list[at].as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        let failed = errors.get(at).and_then(Value::as_str).is_some_and(|error| !error.is_empty());
        let gaps: Option<Vec<f64>> = itls[at].as_list().map(|gaps| gaps.iter().filter_map(Value::as_f64).collect());
        let all = (number(sent), number(ttfts), number(inputs), number(outputs), gaps);
        let (Some(sent), Some(ttft), Some(input), Some(output), Some(gaps)) = all else { continue };
        if failed || output < 1.0 || ttft <= 0.0 {
            continue;
        }
        tokens += output;
        events += gaps.len() as f64 + 1.0;
        traced.push(Traced::from_gaps(sent, input as u64, ttft, &gaps));
    }
    check_bundles(tokens, events)?;
    Ok(traced)
}

/// Rejects responses whose events carry several tokens.
pub(super) fn check_bundles(tokens: f64, events: f64) -> Result<(), FitError> {
    if events > 0.0 && tokens / events > 1.1 {
        return Err(FitError::Bundled { per_event: tokens / events });
    }
    Ok(())
}
