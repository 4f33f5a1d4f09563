//! The distribution of requests, without sockets.

use super::*;
use crate::BackendKind;

fn spec(port: u16) -> ReplicaSpec {
    let url = Url::parse(&format!("http://127.0.0.1:{port}/v1/completions")).unwrap();
    ReplicaSpec { name: url.peer(), url, base_path: String::new(), proxy: None, address: None }
}

fn endpoint(plan: ReplicaPlan) -> EndpointSpec {
    EndpointSpec { replicas: plan, ..EndpointSpec::new(spec(1).url, BackendKind::OpenAi) }
}

fn replicas(count: u16, balance: Balance, on_failure: OnReplicaFailure) -> Replicas {
    let list = (1..=count).map(spec).collect();
    Replicas::find(&endpoint(ReplicaPlan { list, balance, on_failure, seed: 7, ..ReplicaPlan::default() })).unwrap()
}

fn planned(balance: Balance, requests: &[Request]) -> Vec<usize> {
    let replicas = replicas(3, balance, OnReplicaFailure::Fail);
    requests.iter().enumerate().map(|(at, request)| replicas.choose(replicas.assignment(at, request))).collect()
}

fn counts(chosen: &[usize]) -> [usize; 3] {
    [0, 1, 2].map(|replica| chosen.iter().filter(|&&one| one == replica).count())
}

/// Requests of 300 sessions with three turns each, or of 300 prefixes with three prompts each.
fn requests() -> Vec<Request> {
    let one = |at: usize| Request {
        session: Some(format!("session {}", at % 300)),
        ..Request::text(format!("system prompt {:03}; question {at}", at % 300), 1, 1)
    };
    (0..900).map(one).collect()
}

#[test]
fn each_policy_uses_all_replicas_evenly() {
    let alone: Vec<Request> = requests().into_iter().map(|one| Request { session: None, ..one }).collect();
    assert_eq!(counts(&planned(Balance::RoundRobin, &alone)), [300; 3]);
    assert_eq!(planned(Balance::RoundRobin, &alone)[..4], [0, 1, 2, 0]);
    // Steps of sessions take turns in the order in which they are sent.
    assert_eq!(counts(&planned(Balance::RoundRobin, &requests())), [300; 3]);
    assert_eq!(counts(&planned(Balance::LeastInFlight, &alone)), [300; 3]);
    for balance in [Balance::Session, Balance::Prefix(17), Balance::Random] {
        let counts = counts(&planned(balance, &requests()));
        assert!(counts.iter().all(|&count| (210..390).contains(&count)), "{balance:?}: {counts:?}");
    }
}

#[test]
fn sessions_and_prefixes_stay_on_their_replica() {
    for balance in [Balance::Session, Balance::Prefix(17)] {
        let chosen = planned(balance, &requests());
        assert!((0..600).all(|at| chosen[at] == chosen[at + 300]), "{balance:?}");
    }
    // A longer prefix takes in the question, which differs.
    let chosen = planned(Balance::Prefix(64), &requests());
    assert!((0..600).any(|at| chosen[at] != chosen[at + 300]));
    let ids = |last: u32| Request { content: Content::Ids(vec![1, 2, 3, last]), ..Request::text("", 4, 1) };
    let many: Vec<Request> = (0..50).map(ids).collect();
    assert_eq!(counts(&planned(Balance::Prefix(12), &many)).iter().filter(|&&count| count > 0).count(), 1);
    assert_eq!(counts(&planned(Balance::Prefix(16), &many)).iter().filter(|&&count| count > 0).count(), 3);
}

#[test]
fn the_seed_determines_a_random_distribution() {
    let with = |seed| {
        let list = (1..=3).map(spec).collect();
        let plan = ReplicaPlan { list, balance: Balance::Random, seed, ..ReplicaPlan::default() };
        let replicas = Replicas::find(&endpoint(plan)).unwrap();
        let request = Request::text("", 1, 1);
        (0..200).map(|at| replicas.choose(replicas.assignment(at, &request))).collect::<Vec<_>>()
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn the_replica_of_a_request_does_not_depend_on_its_rank() {
    let request = Request::text("", 1, 1);
    for balance in [Balance::RoundRobin, Balance::Random] {
        let chosen = |shard: Shard, count: usize| {
            let list = (1..=3).map(spec).collect();
            let plan = ReplicaPlan { list, balance, seed: 7, shard, ..ReplicaPlan::default() };
            let replicas = Replicas::find(&endpoint(plan)).unwrap();
            (0..count).map(|at| replicas.choose(replicas.assignment(at, &request))).collect::<Vec<_>>()
        };
        let alone = chosen(Shard::Whole, 60);
        for ranks in [2, 3, 4] {
            for first in 0..ranks {
                let own: Vec<usize> = (first..60).step_by(ranks).map(|index| alone[index]).collect();
                assert_eq!(
                    chosen(Shard::Strided { first, step: ranks }, own.len()),
                    own,
                    "{balance:?} {first} of {ranks}"
                );
            }
        }
        let left = [7, 40, 41];
        assert_eq!(chosen(Shard::Listed(left.into()), 3), left.map(|index| alone[index]));
    }
}

#[test]
fn without_a_replica_only_its_sessions_move() {
    let [two, three] = [2, 3].map(|count| replicas(count, Balance::Session, OnReplicaFailure::Fail));
    for (at, request) in requests().iter().enumerate() {
        let before = three.choose(three.assignment(at, request));
        let after = two.choose(two.assignment(at, request));
        assert!(before == 2 || before == after, "request {at}: {before} {after}");
    }
}

#[test]
fn the_least_loaded_replica_is_next() {
    let replicas = replicas(3, Balance::LeastInFlight, OnReplicaFailure::Fail);
    let assignment = replicas.assignment(0, &Request::text("", 1, 1));
    let first: Vec<usize> = (0..6).map(|_| replicas.choose(assignment)).collect();
    assert_eq!(counts(&first), [2, 2, 2]);
    replicas.leave(1);
    replicas.leave(1);
    replicas.leave(2);
    assert_eq!(replicas.choose(assignment), 1);
    let next = [replicas.choose(assignment), replicas.choose(assignment)];
    assert!(next.contains(&1) && next.contains(&2), "{next:?}");
}

#[test]
fn a_removed_replica_gets_nothing_and_stays_removed() {
    for balance in [Balance::RoundRobin, Balance::LeastInFlight, Balance::Session, Balance::Random] {
        let replicas = replicas(3, balance, OnReplicaFailure::Remove);
        let chosen = || {
            let indices = requests().into_iter().enumerate().map(|(at, request)| replicas.assignment(at, &request));
            counts(&indices.map(|assignment| replicas.choose(assignment)).collect::<Vec<_>>())
        };
        (0..REMOVED_AFTER - 1).for_each(|_| replicas.connect_failed(1));
        assert!(chosen()[1] > 0);
        // A connection in between: the failures are not in a row.
        replicas.connected(1);
        replicas.connect_failed(1);
        assert!(chosen()[1] > 0);
        (0..REMOVED_AFTER).for_each(|_| replicas.connect_failed(1));
        replicas.connected(1);
        let counts = chosen();
        assert!(counts[1] == 0 && counts[0] > 250 && counts[2] > 250, "{balance:?}: {counts:?}");
        assert_eq!(replicas.health().iter().map(|one| one.removed).collect::<Vec<_>>(), [false, true, false]);
    }
    let all = replicas(2, Balance::RoundRobin, OnReplicaFailure::Remove);
    (0..REMOVED_AFTER).for_each(|_| [0, 1].into_iter().for_each(|replica| all.connect_failed(replica)));
    assert!(
        all.choose(all.assignment(0, &Request::text("", 1, 1))) < 2,
        "with none left, requests fail where they were to go"
    );
}

#[test]
fn attempts_elsewhere_visit_each_other_replica_once() {
    let replicas = replicas(4, Balance::Random, OnReplicaFailure::RetryElsewhere);
    for at in 0..40 {
        let assignment = replicas.assignment(at, &Request::text("", 1, 1));
        let first = replicas.choose(assignment);
        let mut visited = vec![first];
        visited.extend((0..replicas.alternatives()).map(|retries| replicas.choose_again(assignment, first, retries)));
        visited.sort_unstable();
        assert_eq!(visited, [0, 1, 2, 3]);
    }
}

#[test]
fn a_request_for_another_replica_differs_in_path_and_host_only() {
    let mut list: Vec<ReplicaSpec> = (1..=2).map(spec).collect();
    list[1].url = Url::parse("http://other:9/x/v1/completions").unwrap();
    list[1].address = Some(([127, 0, 0, 1], 9).into());
    let replicas = Replicas::find(&endpoint(ReplicaPlan { list: list.clone(), ..ReplicaPlan::default() })).unwrap();
    let one: Arc<[u8]> = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:1\r\nA: b\r\n\r\n{}"[..].into();
    let other = replicas[1].readdressed(&one);
    assert_eq!(&other[..], b"POST /x/v1/completions HTTP/1.1\r\nHost: other:9\r\nA: b\r\n\r\n{}");
    assert_eq!(replicas[0].readdressed(&other), one);
    list[1].url.credentials = Some(("u".to_owned(), "p".into()));
    let mixed = Replicas::find(&endpoint(ReplicaPlan { list, ..ReplicaPlan::default() }));
    assert!(matches!(mixed, Err(Error::ReplicaCredentials)));
}
