//! Speculative decoding as the server reports it for each response. A mean over requests does not favor long responses,
//! as the server's counters do.

use crate::{Samples, latency::successes, percentile::percentile};

/// How many drafted tokens were accepted in the responses of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Acceptance {
    /// Responses with a report.
    pub responses: u64,
    /// Accepted fraction of all drafted tokens.
    pub rate: f64,
    /// Acceptance lengths of the responses; `None` where the server does not report steps.
    pub length: Option<AcceptanceLength>,
}

/// Tokens per verification step, by response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AcceptanceLength {
    /// The mean over responses.
    pub mean: f64,
    /// The median over responses.
    pub median: f64,
    /// A tenth of the responses are below it.
    pub p10: f64,
}

impl Acceptance {
    /// `None` without a report.
    pub(crate) fn of(samples: &Samples) -> Option<Self> {
        let (mut tokens, mut accepted, mut responses, mut lengths) = (0_u64, 0_u64, 0, Vec::new());
        for drafts in successes(samples).filter_map(|sample| sample.drafts) {
            responses += 1;
            tokens += u64::from(drafts.tokens);
            accepted += u64::from(drafts.accepted);
            lengths.extend(drafts.acceptance_length());
        }
        lengths.sort_by(f64::total_cmp);
        let length = (!lengths.is_empty()).then(|| AcceptanceLength {
            mean: lengths.iter().sum::<f64>() / lengths.len() as f64,
            median: percentile(&lengths, 50.0),
            p10: percentile(&lengths, 10.0),
        });
        (tokens > 0).then(|| Acceptance { responses, rate: accepted as f64 / tokens as f64, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RareFields, Sample};
    use tacho_core::Drafts;

    #[test]
    fn lengths_weigh_responses_and_the_rate_weighs_tokens() {
        let sample = |steps: Option<u32>, tokens: u32, accepted: u32| Sample {
            rare: RareFields { drafts: Some(Drafts { steps, tokens, accepted }), ..RareFields::default() }.into(),
            ..Sample::default()
        };
        let of = |samples: Vec<Sample>| Acceptance::of(&samples.into_iter().collect());
        let found = of(vec![sample(Some(10), 30, 30), sample(Some(90), 270, 0), Sample::default()]).unwrap();
        assert_eq!((found.responses, found.rate), (2, 0.1));
        let AcceptanceLength { mean, median, p10 } = found.length.unwrap();
        assert_eq!((mean, median), (2.5, 2.5));
        assert!((p10 - 1.3).abs() < 1e-9);
        assert_eq!(of(vec![sample(None, 4, 2)]).unwrap().length, None);
        assert_eq!(of(vec![Sample::default()]), None);
    }
}
