//! Fluidity: how many tokens arrive by their deadlines. A mean per request, such as TPOT, hides stalls; this does not.

use crate::{Sample, Samples, Setup, latency::successes, throughput::per_second};

/// Least index of a response that counts as fluid.
const FLUID: f64 = 0.9;

/// Fluidity of the responses of a run with goodput limits on TTFT and TPOT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fluidity {
    /// Mean fluidity index.
    pub index: f64,
    /// Requests per second that meet their limits and are fluid, if they have limits on both.
    pub goodput: f64,
    /// Requests that meet their limits.
    pub good: u64,
    /// Those of them that are not fluid.
    pub stalled: u64,
}

impl Fluidity {
    /// Computes it; `None` without successes that have limits on both.
    pub(crate) fn of(setup: &Setup, samples: &Samples, duration: f64) -> Option<Self> {
        let (mut sum, mut count, mut good, mut fluid) = (0.0, 0_u64, 0, 0);
        for sample in successes(samples) {
            let Some(limits) = setup.limits_of(&sample) else { continue };
            let index = limits.ttft_ms.zip(limits.tpot_ms).map(|(ttft, tpot)| index(&sample, ttft / 1e3, tpot / 1e3));
            if let Some(index) = index {
                (sum, count) = (sum + index, count + 1);
            }
            if limits.met(&sample, 0.0) {
                good += 1;
                fluid += u64::from(index.is_none_or(|index| index >= FLUID));
            }
        }
        let goodput = per_second(fluid as f64, duration);
        (count > 0).then(|| Fluidity { index: sum / count as f64, goodput, good, stalled: good - fluid })
    }
}

/// The fraction of token events that arrive by their deadlines. The first is due after the TTFT limit, each other one a
/// TPOT limit after the deadline before: early tokens build up slack, as in a client's buffer. After a miss, deadlines
/// count from the late arrival, so that one stall is one miss.
fn index(sample: &Sample, ttft: f64, tpot: f64) -> f64 {
    let (mut arrival, mut deadline) = (sample.ttft, ttft);
    let mut met = 0;
    let gaps = sample.itl.to_vec();
    for event in 0..=gaps.len() {
        met += usize::from(arrival <= deadline);
        deadline = deadline.max(arrival) + tpot;
        arrival += gaps.get(event).copied().unwrap_or(0.0);
    }
    met as f64 / (gaps.len() + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GoodputLimits;

    fn response(ttft: f64, itl: Vec<f64>) -> Sample {
        let (output_len, latency) = (itl.len() as u64 + 1, ttft + itl.iter().sum::<f64>());
        Sample { ttft, latency, output_len, itl: itl.into(), ..Sample::default() }
    }

    #[test]
    fn early_tokens_build_up_slack_and_a_stall_is_one_miss() {
        let of = |ttft, itl: Vec<f64>| index(&response(ttft, itl), 0.25, 0.5);
        assert_eq!(of(0.25, vec![0.5; 3]), 1.0);
        assert_eq!(of(0.5, vec![0.5; 3]), 0.75, "only the first is late");
        // Two tokens come half a second early each: a gap of 1.5 s is in time.
        assert_eq!(of(0.25, vec![0.0, 0.0, 1.5]), 1.0);
        assert_eq!(of(0.25, vec![0.0, 0.0, 1.75]), 0.75);
        assert_eq!(of(0.25, vec![2.0, 0.5, 0.5]), 0.75, "deadlines restart after the stall");
    }

    #[test]
    fn goodput_that_hides_stalls_is_seen() {
        let limits = GoodputLimits { ttft_ms: Some(250.0), tpot_ms: Some(500.0), e2el_ms: None };
        let setup = Setup { metrics: limits.into(), ..Setup::example() };
        // The mean gap is within the limit, but every other token is late.
        let stalled = response(0.25, vec![0.625, 0.125, 0.75, 0.25, 0.625, 0.125]);
        let samples = Samples::from([response(0.25, vec![0.5; 6]), stalled]);
        let found = Fluidity::of(&setup, &samples, 2.0).unwrap();
        assert_eq!((found.good, found.stalled, found.goodput), (2, 1, 0.5));
        assert!(found.index < 1.0 && found.index > 0.5, "{}", found.index);
        assert_eq!(Fluidity::of(&Setup::example(), &samples, 2.0), None);
    }
}
