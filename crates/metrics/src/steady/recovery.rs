//! Time to recover after a heavy stage.

use tacho_core::stage::StageSpan;

use crate::Samples;

/// Requests of the moving window.
pub const RECOVERY_WINDOW: usize = 20;
/// A server has recovered when the median TTFT of the window is at most this factor times that of the stage before.
pub const RECOVERY_FACTOR: f64 = 1.5;

/// Whether recovery is defined for the stage at `place`: it is heavier than the one before, and another one follows.
pub fn can_recover(stages: &[StageSpan], place: usize) -> bool {
    place > 0 && place + 1 < stages.len() && stages[place].mean_load > stages[place - 1].mean_load
}

/// The seconds that each stage takes to recover: from its end until the first of [`RECOVERY_WINDOW`] consecutive
/// requests whose median TTFT is at most [`RECOVERY_FACTOR`] times that of the stage before. `None` where that is not
/// defined, not known, or does not happen. `origin` is the start of the run on the clock of the samples.
pub fn recoveries(stages: &[StageSpan], samples: &Samples, origin: f64) -> Vec<Option<f64>> {
    if !(0..stages.len()).any(|place| can_recover(stages, place)) {
        return vec![None; stages.len()];
    }
    // The time at which a request joins the load, and its TTFT from then on. A failure never has a first token.
    let mut first_tokens: Vec<(f64, f64)> = samples
        .iter()
        .map(|sample| {
            let start = if stages[0].limit.is_some() { sample.sent } else { sample.scheduled };
            let ttft = if sample.success() { sample.sent - start + sample.ttft } else { f64::INFINITY };
            (start - origin, ttft)
        })
        .collect();
    first_tokens.sort_by(|one, other| one.0.total_cmp(&other.0));
    let after = |seconds: f64| first_tokens.partition_point(|request| request.0 < seconds);
    let recovery = |place: usize| {
        let before = &stages[place - 1];
        let level = median(&first_tokens[after(before.start)..after(before.end)])? * RECOVERY_FACTOR;
        let mut windows = first_tokens[after(stages[place].end)..].windows(RECOVERY_WINDOW);
        let recovered = windows.find(|window| median(window).is_some_and(|ttft| ttft <= level))?;
        Some(recovered[0].0 - stages[place].end)
    };
    (0..stages.len()).map(|place| can_recover(stages, place).then(|| recovery(place)).flatten()).collect()
}

/// The median TTFT; `None` without requests.
fn median(requests: &[(f64, f64)]) -> Option<f64> {
    let mut times: Vec<f64> = requests.iter().map(|request| request.1).collect();
    times.sort_by(f64::total_cmp);
    let middle = times.len().checked_sub(1)? / 2;
    Some((times[middle] + times[times.len() / 2]) / 2.0).filter(|median| median.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    fn stages(loads: &[f64]) -> Vec<StageSpan> {
        let stage = |(at, &mean_load): (usize, &f64)| StageSpan {
            start: 10.0 * at as f64,
            end: 10.0 * (at + 1) as f64,
            mean_load,
            ..StageSpan::default()
        };
        loads.iter().enumerate().map(stage).collect()
    }

    /// Ten requests per second with a TTFT as a function of their time; the clock starts at 100 s.
    fn samples(seconds: usize, ttft: impl Fn(f64) -> f64) -> Samples {
        let sample = |index: usize| {
            let time = index as f64 / 10.0 + 0.05;
            let due = 100.0 + time;
            Sample { index, scheduled: due, dispatched: due, sent: due, ttft: ttft(time), ..Sample::default() }
        };
        (0..seconds * 10).map(sample).collect()
    }

    #[test]
    fn recovery_ends_when_the_queue_has_drained() {
        // The queue of the spike from 10 to 20 s lasts until 24 s.
        let samples = samples(40, |time| if (10.0..24.0).contains(&time) { 1.0 } else { 0.1 });
        let found = recoveries(&stages(&[5.0, 50.0, 5.0, 5.0]), &samples, 100.0);
        // The median of a window of 2 s is low from 23.05 s on: ten of its requests are slow, ten are not.
        let seconds = found[1].unwrap();
        assert!((3.0..=4.1).contains(&seconds), "{found:?}");
        assert_eq!([found[0], found[2], found[3]], [None; 3]);
    }

    #[test]
    fn recovery_is_immediate_or_never() {
        let calm = samples(40, |_| 0.1);
        assert!(recoveries(&stages(&[5.0, 50.0, 5.0]), &calm, 100.0)[1].unwrap() < 0.1);
        let broken = samples(40, |time| if time > 10.0 { 1.0 } else { 0.1 });
        assert_eq!(recoveries(&stages(&[5.0, 50.0, 5.0]), &broken, 100.0), [None; 3]);
        // Nothing follows, or too little to tell, or there is no level before.
        assert_eq!(recoveries(&stages(&[5.0, 50.0]), &calm, 100.0), [None; 2]);
        assert_eq!(recoveries(&stages(&[5.0, 50.0, 5.0]), &samples(21, |_| 0.1), 100.0), [None; 3]);
        assert_eq!(recoveries(&stages(&[0.0, 50.0, 5.0]), &Samples::default(), 100.0), [None; 3]);
        assert_eq!(recoveries(&[], &calm, 100.0), []);
    }

    #[test]
    fn a_server_that_fails_has_not_recovered() {
        let calm = samples(40, |_| 0.1);
        let failing = calm.iter().map(|sample| {
            let late = sample.scheduled > 120.0 && sample.scheduled < 125.0;
            Sample { failure: late.then_some(tacho_core::FailureKind::Http(503)), ..sample.into_owned() }
        });
        let found = recoveries(&stages(&[5.0, 50.0, 5.0, 5.0]), &failing.collect(), 100.0)[1].unwrap();
        assert!((4.0..=5.1).contains(&found), "{found}");
    }
}
