//! Replicas that failed or were slow, compared with the others.

use std::collections::BTreeMap;

use crate::{Caveat, Samples, percentile::median};

/// The label of a sample that names its replica: the last one of a request that was sent again.
pub const REPLICA: &str = "replica";
/// Least fraction of failures of an unhealthy replica; it must also be twice that of the others.
const UNHEALTHY: f64 = 0.05;
/// Least ratio of a slow replica's median latency to that of the others.
const SLOW: f64 = 2.0;
/// Fewest responses for a median that is compared.
const MIN_RESPONSES: usize = 20;

/// What the client knows about a replica and rows do not show.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReplicaHealth {
    /// Its name.
    pub name: String,
    /// Failed attempts of requests that were then sent to another replica.
    pub moved: u64,
    /// The first of them, in seconds since the run's origin.
    pub since: Option<f64>,
    /// Whether it was removed after failed connections.
    pub removed: bool,
}

#[derive(Default)]
struct Tally {
    requests: u64,
    failed: u64,
    since: Option<f64>,
    latencies: Vec<f64>,
    removed: bool,
}

/// Warnings about replicas that failed or were slow. `origin` is the start of the run on the clock of the samples.
pub fn caveats(samples: &Samples, health: &[ReplicaHealth], origin: f64) -> Vec<Caveat> {
    let tallies = tallies(samples, health, origin);
    if tallies.len() < 2 {
        return Vec::new();
    }
    let unhealthy = tallies.iter().filter_map(|(name, tally)| unhealthy(name, tally, &tallies));
    let slow = tallies.keys().filter_map(|name| slow(name, &tallies));
    unhealthy.chain(slow).collect()
}

fn tallies(samples: &Samples, health: &[ReplicaHealth], origin: f64) -> BTreeMap<String, Tally> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let earlier = |known: Option<f64>, time: f64| Some(known.map_or(time, |known| known.min(time)));
    for one in health {
        let tally = tallies.entry(one.name.clone()).or_default();
        (tally.requests, tally.failed, tally.since, tally.removed) = (one.moved, one.moved, one.since, one.removed);
    }
    for sample in samples.iter() {
        let Some(name) = sample.labels.get(REPLICA) else { continue };
        let tally = tallies.entry(name.to_owned()).or_default();
        tally.requests += 1;
        if sample.is_fault() {
            tally.failed += 1;
            tally.since = earlier(tally.since, sample.done - origin);
        } else if sample.success() && sample.retries == 0 {
            // Its latency would include the attempt at another replica.
            tally.latencies.push(sample.latency);
        }
    }
    tallies.values_mut().for_each(|tally| tally.latencies.sort_unstable_by(f64::total_cmp));
    tallies
}

fn unhealthy(name: &str, tally: &Tally, all: &BTreeMap<String, Tally>) -> Option<Caveat> {
    let share = |failed: u64, requests: u64| failed as f64 / requests.max(1) as f64;
    let others = all.iter().filter(|(other, _)| *other != name);
    let (failed, requests) = others.fold((0, 0), |sum, (_, other)| (sum.0 + other.failed, sum.1 + other.requests));
    let own = share(tally.failed, tally.requests);
    let is_worse = own >= UNHEALTHY && own >= 2.0 * share(failed, requests);
    (tally.removed || is_worse).then(|| Caveat::ReplicaUnhealthy {
        replica: name.to_owned(),
        failed: tally.failed,
        total: tally.requests,
        since: tally.since.unwrap_or(0.0),
        removed: tally.removed,
    })
}

fn slow(name: &str, all: &BTreeMap<String, Tally>) -> Option<Caveat> {
    let own = &all.get(name)?.latencies;
    let mut others: Vec<f64> =
        all.iter().filter(|(other, _)| *other != name).flat_map(|(_, tally)| &tally.latencies).copied().collect();
    others.sort_unstable_by(f64::total_cmp);
    if own.len() < MIN_RESPONSES || others.len() < MIN_RESPONSES {
        return None;
    }
    let (own, others) = (median(own) * 1e3, median(&others) * 1e3);
    (own >= SLOW * others).then(|| Caveat::ReplicaSlow { replica: name.to_owned(), median_ms: own, others_ms: others })
}

#[cfg(test)]
mod tests {
    use tacho_core::{FailureKind, Labels};

    use super::*;
    use crate::Sample;

    /// The warm-up took a minute.
    const ORIGIN: f64 = 60.0;

    fn samples(name: &str, count: usize, failed: usize, latency: f64) -> Vec<Sample> {
        let labels = Labels::default().with(REPLICA, name);
        let one = |at: usize| {
            let failure = (at >= count - failed).then_some(FailureKind::Connect);
            let latency = if failure.is_some() { 0.0 } else { latency };
            Sample { failure, latency, done: ORIGIN + at as f64, ..Sample::default() }.labeled(labels.clone())
        };
        (0..count).map(one).collect()
    }

    fn texts(parts: &[Vec<Sample>], health: &[ReplicaHealth]) -> Vec<String> {
        caveats(&parts.concat().into(), health, ORIGIN).iter().map(Caveat::text).collect()
    }

    #[test]
    fn a_replica_that_fails_more_than_the_others_is_named() {
        let good = samples("a:1", 400, 2, 0.1);
        let bad = texts(&[good.clone(), samples("b:1", 400, 120, 0.1)], &[]);
        assert_eq!(bad.len(), 1, "{bad:?}");
        assert!(bad[0].contains("b:1 failed 120 of 400") && bad[0].contains("280.0 s"), "{bad:?}");
        // Where all fail alike, it is not about one of them.
        assert!(texts(&[samples("a:1", 400, 100, 0.1), samples("b:1", 400, 120, 0.1)], &[]).is_empty());
        assert!(texts(&[samples("b:1", 400, 120, 0.1)], &[]).is_empty());
    }

    #[test]
    fn attempts_that_another_replica_took_over_count_as_failures() {
        let health =
            |name: &str, moved, removed| ReplicaHealth { name: name.to_owned(), moved, since: Some(3.0), removed };
        let parts = [samples("a:1", 400, 0, 0.1), samples("b:1", 100, 0, 0.1)];
        let moved = texts(&parts, &[health("a:1", 0, false), health("b:1", 100, false)]);
        assert!(moved.len() == 1 && moved[0].contains("b:1 failed 100 of 200"), "{moved:?}");
        let removed = texts(&parts, &[health("a:1", 0, false), health("b:1", 0, true)]);
        assert!(removed.len() == 1 && removed[0].contains("no more requests"), "{removed:?}");
    }

    #[test]
    fn a_replica_that_is_far_slower_than_the_others_is_named() {
        let slow = texts(&[samples("a:1", 50, 0, 0.1), samples("b:1", 50, 0, 0.11), samples("c:1", 50, 0, 0.3)], &[]);
        assert!(slow.len() == 1 && slow[0].contains("c:1"), "{slow:?}");
        assert!(texts(&[samples("a:1", 50, 0, 0.1), samples("c:1", 19, 0, 0.3)], &[]).is_empty());
    }
}
