//! Several replicas: calls around the run go to each of them, and requests where the policy says.

use std::time::Duration;

use tacho_client::{Balance, OnReplicaFailure, ReplicaPlan, ReplicaSpec, Url};
use tacho_metrics::Caveat;
use tacho_run::ServePlan;
use tacho_testkit::scripted::Scripted;

use crate::bench::{Manners, plan, record, server};

fn over(servers: &[&Scripted], prompts: i64, balance: Balance, on_failure: OnReplicaFailure) -> ServePlan {
    let spec = |server: &&Scripted| {
        let url = Url::parse(&format!("{}/v1/completions", server.url())).unwrap();
        ReplicaSpec { name: url.peer(), url, base_path: String::new(), proxy: None, address: None }
    };
    let mut plan = plan(servers[0], prompts);
    let list = servers.iter().map(spec).collect();
    plan.endpoint.replicas = ReplicaPlan { list, balance, on_failure, ..ReplicaPlan::default() };
    plan
}

#[test]
fn calls_around_the_run_go_to_every_replica() {
    let metrics =
        |running: u32| Some(format!("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {running}\n"));
    let manners = |running| Manners { profiler: (200, 200), metrics: metrics(running), ..Manners::default() };
    let (one, two) = (server(manners(2)), server(manners(5)));
    let mut plan = over(&[&one, &two], 6, Balance::RoundRobin, OnReplicaFailure::Fail);
    plan.traffic.profile = true;
    plan.traffic.ready_timeout = Duration::from_secs(20);
    plan.traffic.warmups = 2;
    plan.traffic.metrics_interval = Duration::from_millis(50);
    let (record, _) = record(&plan);
    assert_eq!(record.summary.completed, 6);
    for server in [&one, &two] {
        assert_eq!(server.count("/v1/completions"), 1 + 2 + 3, "test, warm-ups and requests: {:?}", server.paths());
        assert_eq!((server.count("/start_profile"), server.count("/stop_profile")), (1, 1));
        let own = server.url().trim_start_matches("http://").to_owned();
        assert!(server.calls().iter().all(|call| call.header("host") == Some(&own)));
    }
    let running = record.measured.server.get("vllm:num_requests_running").unwrap();
    assert!(running.values.iter().all(|&value| value == 7.0), "{:?}", running.values);
}

#[test]
fn a_faster_replica_gets_more_of_the_least_in_flight() {
    let (fast, slow) =
        (server(Manners::default()), server(Manners { wait: Duration::from_millis(60), ..Manners::default() }));
    let mut plan = over(&[&fast, &slow], 120, Balance::LeastInFlight, OnReplicaFailure::Fail);
    plan.traffic.max_concurrency = Some(8);
    let (record, _) = record(&plan);
    assert_eq!(record.summary.completed, 120);
    let (fast, slow) = (fast.count("/v1/completions"), slow.count("/v1/completions"));
    assert!(fast > 2 * slow && slow >= 4, "{fast} {slow}");
}

#[test]
fn errors_before_the_first_token_are_retried_elsewhere() {
    let (good, bad) = (server(Manners::default()), server(Manners { fail_from: Some(5), ..Manners::default() }));
    let mut plan = over(&[&good, &bad], 40, Balance::RoundRobin, OnReplicaFailure::RetryElsewhere);
    plan.traffic.max_concurrency = Some(4);
    let (record, _) = record(&plan);
    assert_eq!((record.summary.completed, good.count("/v1/completions"), bad.count("/v1/completions")), (40, 35, 20));
    assert_eq!(record.measured.samples.iter().map(|sample| sample.retries).sum::<u32>(), 15);
    let named = bad.url().trim_start_matches("http://").to_owned();
    let found = record.caveats.iter().find_map(|caveat| match caveat {
        Caveat::ReplicaUnhealthy { replica, failed, total, .. } => Some((replica.clone(), *failed, *total)),
        _ => None,
    });
    assert_eq!(found, Some((named, 15, 20)));
    // A request that no replica takes fails after one attempt at each.
    let broken = || server(Manners { fail_from: Some(0), ..Manners::default() });
    let (one, two, three) = (broken(), broken(), broken());
    let plan = over(&[&one, &two, &three], 4, Balance::Random, OnReplicaFailure::RetryElsewhere);
    let (record, _) = crate::bench::record(&plan);
    assert_eq!((record.summary.completed, record.summary.failed), (0, 4));
    assert_eq!([one, two, three].map(|server| server.count("/v1/completions")), [4, 4, 4]);
}
