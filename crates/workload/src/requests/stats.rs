//! Statistics of a workload: the number of requests and their lengths.

use tacho_core::{Content, Request};

use crate::{Error, Requests};

const BINS: usize = 10;

#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadStats {
    pub count: usize,
    pub total_prompt_tokens: u64,
    pub total_output_tokens: u64,
    /// Prompt lengths; `None` for an empty workload.
    pub prompt_len: Option<LengthStats>,
    /// Output lengths; `None` for an empty workload.
    pub output_len: Option<LengthStats>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LengthStats {
    pub min: u64,
    pub mean: f64,
    pub median: f64,
    /// The 99th percentile, linearly interpolated.
    pub p99: f64,
    pub max: u64,
    pub histogram: Histogram,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// First length of the first bin.
    pub start: u64,
    pub width: u64,
    pub counts: Vec<usize>,
}

impl WorkloadStats {
    pub fn of(requests: &Requests) -> Result<Self, Error> {
        let (mut prompts, mut outputs) = (Vec::new(), Vec::new());
        requests.each(|_, request| {
            prompts.push(request.prompt_len);
            outputs.push(request.output_len.max(0).unsigned_abs());
            Ok::<_, Error>(())
        })?;
        Ok(WorkloadStats {
            count: prompts.len(),
            total_prompt_tokens: prompts.iter().sum(),
            total_output_tokens: outputs.iter().sum(),
            prompt_len: LengthStats::new(prompts),
            output_len: LengthStats::new(outputs),
        })
    }
}

impl LengthStats {
    fn new(mut lengths: Vec<u64>) -> Option<Self> {
        lengths.sort_unstable();
        let (&min, &max) = (lengths.first()?, lengths.last()?);
        let mean = lengths.iter().map(|&length| length as f64).sum::<f64>() / lengths.len() as f64;
        Some(LengthStats {
            min,
            mean,
            median: percentile(&lengths, 50.0),
            p99: percentile(&lengths, 99.0),
            max,
            histogram: Histogram::new(&lengths, min, max),
        })
    }
}

impl Histogram {
    fn new(lengths: &[u64], min: u64, max: u64) -> Self {
        let width = (max - min + 1).div_ceil(BINS as u64);
        let bins = (max - min) / width + 1;
        let mut counts = vec![0; bins as usize];
        for length in lengths {
            counts[((length - min) / width) as usize] += 1;
        }
        Histogram { start: min, width, counts }
    }
}

fn percentile(sorted: &[u64], percent: f64) -> f64 {
    let position = (sorted.len() - 1) as f64 * percent / 100.0;
    let (below, above) = (sorted[position.floor() as usize] as f64, sorted[position.ceil() as usize] as f64);
    below + (above - below) * (position - position.floor())
}

/// Fraction of all prompt characters (IDs for prompts of IDs) that repeat the prefix of another request's prompt; with
/// a tokenizer, [`crate::PrefixSharing`] is more precise.
///
/// In sorted order, each prompt has its longest common prefix with a neighbor, so one pass is enough.
pub fn shared_text(requests: &[Request]) -> f64 {
    let mut prompts: Vec<Vec<u8>> = requests.iter().map(|request| prompt_bytes(&request.content)).collect();
    prompts.sort_unstable();
    let total: usize = prompts.iter().map(Vec::len).sum();
    let common = |pair: &[Vec<u8>]| pair[0].iter().zip(&pair[1]).take_while(|(left, right)| left == right).count();
    let shared: usize = prompts.windows(2).map(common).sum();
    if total == 0 { 0.0 } else { shared as f64 / total as f64 }
}

fn prompt_bytes(content: &Content) -> Vec<u8> {
    match content {
        Content::Text(text) => text.as_bytes().to_vec(),
        Content::Texts(texts) => texts.concat().into_bytes(),
        Content::Ids(ids) => ids.iter().flat_map(|id| id.to_be_bytes()).collect(),
        Content::Json(value) => tacho_core::json::dumps(value).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(prompts: &[(&str, u64, i64)]) -> Vec<Request> {
        prompts.iter().map(|&(prompt, len, output)| Request::text(prompt, len, output)).collect()
    }

    #[test]
    fn lengths_are_summarized() {
        let stats =
            WorkloadStats::of(&requests(&[("a", 1, 5), ("b", 3, 5), ("c", 2, 5), ("d", 100, 5)]).into()).unwrap();
        assert_eq!((stats.count, stats.total_prompt_tokens, stats.total_output_tokens), (4, 106, 20));
        let lengths = stats.prompt_len.unwrap();
        assert_eq!((lengths.min, lengths.mean, lengths.median, lengths.max), (1, 26.5, 2.5, 100));
        assert!((lengths.p99 - 97.09).abs() < 1e-9);
        assert_eq!(lengths.histogram, Histogram { start: 1, width: 10, counts: vec![3, 0, 0, 0, 0, 0, 0, 0, 0, 1] });
        assert_eq!(stats.output_len.unwrap().histogram.counts, [4]);
    }

    #[test]
    fn shared_beginnings_count_once_per_repetition() {
        assert_eq!(shared_text(&requests(&[("abcx", 1, 1), ("zz", 1, 1), ("abcy", 1, 1)])), 0.3);
    }

    #[test]
    fn empty_workload_has_no_lengths() {
        let stats = WorkloadStats::of(&Requests::default()).unwrap();
        assert_eq!((stats.count, stats.prompt_len, shared_text(&[])), (0, None, 0.0));
    }
}
