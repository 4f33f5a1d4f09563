//! Time to recover after a heavy stage.

use std::borrow::Cow;

use tacho_core::stage::StageSpan;

use crate::{Sample, Samples};

/// A request is slow when its TTFT exceeds this factor times the median of the stage before.
pub const RECOVERY_FACTOR: f64 = 1.5;
/// Requests after the last slow one that show that the server has recovered.
pub const RECOVERED_REQUESTS: usize = 10;
/// Share of slow requests while the server is degraded.
const DEGRADED_SHARE: f64 = 0.99;
/// Log-likelihood ratio that shows a degraded server: odds of about 1,000 to 1.
const EVIDENCE: f64 = 7.0;

/// Whether recovery is defined for the stage at `place`: it is heavier than the one before, and another one follows.
pub fn can_recover(stages: &[StageSpan], index: usize) -> bool {
    index + 1 < stages.len() && rises(stages, index)
}

fn rises(stages: &[StageSpan], index: usize) -> bool {
    index > 0 && stages[index].mean_load > stages[index - 1].mean_load
}

/// The seconds that each stage takes to recover: from its end until the last request of the run of slow requests that
/// the stage left behind; zero if it left none. The search ends where the load rises again. `None` where recovery is
/// not defined or not known, or where fewer than [`RECOVERED_REQUESTS`] follow the last slow request. `origin` is the
/// start of the run on the clock of the samples.
pub fn recoveries(stages: &[StageSpan], samples: &Samples, origin: f64) -> Vec<Option<f64>> {
    let mut found = vec![None; stages.len()];
    if !(0..stages.len()).any(|index| can_recover(stages, index)) {
        return found;
    }
    let requests = first_tokens(stages, samples, origin);
    let between = |from: f64, to: f64| {
        let [first, end] = [from, to].map(|time| requests.partition_point(|request| request.0 < time));
        &requests[first..end.max(first)]
    };
    // From when on the stage before shows a normal server: after it recovered from an earlier one.
    let mut normal_from = Some(f64::NEG_INFINITY);
    for index in (0..stages.len()).filter(|index| can_recover(stages, *index)) {
        let (before, stage) = (&stages[index - 1], &stages[index]);
        let horizon = (index + 1..stages.len()).find(|later| rises(stages, *later));
        let horizon = horizon.map_or(f64::INFINITY, |later| stages[later].start);
        let baseline = normal_from.map_or(&[][..], |from| between(from.max(before.start), before.end));
        found[index] = Slowness::of(baseline).and_then(|slow| slow.recovery(between(stage.start, horizon), stage.end));
        normal_from =
            if rises(stages, index + 1) { Some(stage.start) } else { found[index].map(|time| stage.end + time) };
    }
    found
}

/// When each request joins the load, in order, and its TTFT from then on. A failure never has a first token.
fn first_tokens(stages: &[StageSpan], samples: &Samples, origin: f64) -> Vec<(f64, f64)> {
    let first_token = |sample: Cow<'_, Sample>| {
        let start = if stages[0].limit.is_some() { sample.sent } else { sample.scheduled };
        let ttft = if sample.success() { sample.sent - start + sample.ttft } else { f64::INFINITY };
        (start - origin, ttft)
    };
    let mut requests: Vec<(f64, f64)> = samples.iter().map(first_token).collect();
    requests.sort_by(|one, other| one.0.total_cmp(&other.0));
    requests
}

/// What each request says about the server: the logarithm of how much likelier its TTFT is when the server is degraded
/// than in the stage before.
struct Slowness {
    level: f64,
    slow: f64,
    normal: f64,
    /// Evidence that a run of slow requests needs: more than chance and more than any of the stage before.
    needed: f64,
}

impl Slowness {
    fn of(baseline: &[(f64, f64)]) -> Option<Self> {
        let level = median(baseline)? * RECOVERY_FACTOR;
        let slow = baseline.iter().filter(|request| request.1 > level).count();
        let share = ((slow + 1) as f64 / (baseline.len() + 2) as f64).min(0.5);
        let [slow, normal] = [DEGRADED_SHARE / share, (1.0 - DEGRADED_SHARE) / (1.0 - share)].map(f64::ln);
        let mut this = Slowness { level, slow, normal, needed: EVIDENCE };
        let mut run = 0.0;
        for request in baseline {
            run = this.of_request(request) + f64::max(run, 0.0);
            this.needed = this.needed.max(run);
        }
        Some(this)
    }

    fn of_request(&self, request: &(f64, f64)) -> f64 {
        if request.1 > self.level { self.slow } else { self.normal }
    }

    /// The time from `end` to the last request of the likeliest run of slow requests that begins before `end`.
    fn recovery(&self, requests: &[(f64, f64)], end: f64) -> Option<f64> {
        let (mut run, mut best, mut last) = (0.0_f64, 0.0_f64, 0);
        for (index, request) in requests.iter().enumerate() {
            let within = request.0 < end;
            run = self.of_request(request) + if within { run.max(0.0) } else { run };
            if within || run >= best {
                (best, last) = (run, index);
            }
        }
        if best < self.needed {
            return (!requests.is_empty()).then_some(0.0);
        }
        (requests.len() > last + RECOVERED_REQUESTS).then(|| (requests[last].0 - end).max(0.0))
    }
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

    /// A queue with one server that takes `service` seconds: the TTFT of requests at the given times.
    fn queue(times: &[f64], service: f64) -> Samples {
        let mut free = 0.0_f64;
        let served = times.iter().enumerate().map(|(index, &time)| {
            free = free.max(time) + service;
            let due = 100.0 + time;
            Sample { index, scheduled: due, dispatched: due, sent: due, ttft: free - time, ..Sample::default() }
        });
        served.collect()
    }

    /// Evenly spaced requests per second of stages of ten seconds; with `jitter`, a gap varies by that share of it.
    fn arrivals(loads: &[f64], jitter: f64) -> Vec<f64> {
        let mut state = 1_u64;
        let mut noise = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        let mut stage = |(index, &load): (usize, &f64)| {
            let times =
                (0..(10.0 * load) as usize).map(|at| 10.0 * index as f64 + (at as f64 + 0.5 + jitter * noise()) / load);
            times.collect::<Vec<_>>()
        };
        loads.iter().enumerate().flat_map(&mut stage).collect()
    }

    #[test]
    fn recovery_ends_with_the_last_slow_request_of_a_queue() {
        // Capacity 20/s. Ten seconds of the spike leave a queue of 10 × (spike − 20), which drains at 20 − load.
        for (load, spike) in
            [(2.0, 23.0), (2.0, 25.0), (5.0, 23.0), (5.0, 27.0), (10.0, 22.0), (10.0, 25.0), (12.0, 23.0)]
        {
            for jitter in [0.0, 0.9] {
                let samples = queue(&arrivals(&[load, spike, load], jitter), 0.05);
                let drained = 10.0 * (spike - 20.0) / (20.0 - load);
                let found = recoveries(&stages(&[load, spike, load]), &samples, 100.0)[1].unwrap();
                let gap = (1.0 + jitter) / load;
                assert!((found - drained).abs() <= gap + 0.1, "{load}, {spike}, {jitter}: {found} for {drained}");
                let slow = samples.iter().filter(|sample| sample.ttft > 0.075 && sample.scheduled > 120.0);
                let last = slow.map(|sample| sample.scheduled).last().unwrap() - 120.0;
                assert!((found - last).abs() <= gap || jitter > 0.0, "{found} for {last}");
            }
        }
    }

    #[test]
    fn a_stage_has_the_recovery_of_its_own_queue_only() {
        // Neither the ramp nor the last rise degrades the server; the spike between them does, for 2.31 s.
        let loads = [5.0, 10.0, 23.0, 7.0, 9.0, 5.0];
        let samples = queue(&arrivals(&loads, 0.0), 0.05);
        let found = recoveries(&stages(&loads), &samples, 100.0);
        assert_eq!([found[0], found[1], found[3], found[4], found[5]], [None, Some(0.0), None, Some(0.0), None]);
        assert!((found[2].unwrap() - 30.0 / 13.0).abs() < 0.15, "{found:?}");
        // The second spike is compared with the part of the drain that is normal.
        let loads = [5.0, 24.0, 5.0, 24.0, 5.0];
        let found = recoveries(&stages(&loads), &queue(&arrivals(&loads, 0.0), 0.05), 100.0);
        assert!(found[1].is_some() && (found[1].unwrap() - found[3].unwrap()).abs() < 0.2, "{found:?}");
        // A stage that is slow until a heavier one begins has not recovered, as far as is known.
        let loads = [5.0, 22.0, 30.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0];
        let found = recoveries(&stages(&loads), &queue(&arrivals(&loads, 0.0), 0.05), 100.0);
        assert_eq!(found[1], None);
    }

    #[test]
    fn recovery_is_immediate_or_never() {
        let calm = samples(40, |_| 0.1);
        assert_eq!(recoveries(&stages(&[5.0, 50.0, 5.0]), &calm, 100.0)[1], Some(0.0));
        // One slow request in ten is normal if the stage before had them too.
        let noisy = samples(40, |time| if (time * 10.0) as usize % 10 == 3 { 1.0 } else { 0.1 });
        assert_eq!(recoveries(&stages(&[5.0, 50.0, 5.0]), &noisy, 100.0)[1], Some(0.0));
        let broken = samples(40, |time| if time > 10.0 { 1.0 } else { 0.1 });
        assert_eq!(recoveries(&stages(&[5.0, 50.0, 5.0]), &broken, 100.0), [None; 3]);
        // Nothing follows, or too little to tell, or there is no level before.
        assert_eq!(recoveries(&stages(&[5.0, 50.0]), &calm, 100.0), [None; 2]);
        let short = samples(21, |time| if time > 10.0 && time < 20.2 { 1.0 } else { 0.1 });
        assert_eq!(recoveries(&stages(&[5.0, 50.0, 5.0]), &short, 100.0), [None; 3]);
        assert_eq!(recoveries(&stages(&[0.0, 50.0, 5.0]), &Samples::default(), 100.0), [None; 3]);
        assert_eq!(recoveries(&[], &calm, 100.0), []);
    }

    #[test]
    fn a_server_that_fails_has_not_recovered() {
        let calm = samples(40, |_| 0.1);
        let failing = calm.iter().map(|sample| {
            let late = sample.scheduled > 119.0 && sample.scheduled < 125.0;
            Sample { failure: late.then_some(tacho_core::FailureKind::Http(503)), ..sample.into_owned() }
        });
        let found = recoveries(&stages(&[5.0, 50.0, 5.0, 5.0]), &failing.collect(), 100.0)[1].unwrap();
        assert!((4.9..=5.0).contains(&found), "{found}");
    }

    #[test]
    fn a_slow_request_counts_by_how_rare_it_was_before() {
        // None of 8 requests is slow: a share of 1 in 10.
        let before = Slowness::of(&[(0.0, 1.0); 8]).unwrap();
        assert_eq!((before.slow, before.normal), ((DEGRADED_SHARE / 0.1).ln(), ((1.0 - DEGRADED_SHARE) / 0.9).ln()));
        assert_eq!((before.level, before.needed), (RECOVERY_FACTOR, EVIDENCE));
    }
}
