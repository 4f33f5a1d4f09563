//! The server's profiler: started before the requests, stopped after them, however the run ends.

use std::time::Duration;

use tacho_loadgen::{ScheduleSpec, StopSignal};
use tacho_testkit::scripted::Scripted;

use crate::bench::{Manners, ask_after, measure, plan, record, server};

/// Returns whether all requests are between the profiler's calls.
fn around(server: &Scripted) -> bool {
    let paths = server.paths();
    let start = paths.iter().position(|path| path == "/start_profile").unwrap();
    let stop = paths.iter().position(|path| path == "/stop_profile").unwrap();
    let inside = paths[start..stop].iter().filter(|path| *path == "/v1/completions").count();
    inside == server.count("/v1/completions")
        && server.count("/start_profile") == 1
        && server.count("/stop_profile") == 1
}

#[test]
fn it_runs_around_the_requests() {
    let server = server(Manners { profiler: (200, 200), ..Manners::default() });
    let mut plan = plan(&server, 3);
    plan.traffic.profile = true;
    let (_, notes) = record(&plan);
    assert!(around(&server), "{:?}", server.paths());
    assert!(notes.has("Profiler started") && notes.has("Profiler stopped"));
}

#[test]
fn the_profiler_is_not_called_by_default() {
    let server = server(Manners::default());
    record(&plan(&server, 1));
    assert_eq!(server.count("/start_profile") + server.count("/stop_profile"), 0);
}

#[test]
fn a_refusal_is_not_taken_for_its_absence() {
    let refusing = server(Manners { profiler: (200, 500), ..Manners::default() });
    let mut plan = plan(&refusing, 1);
    plan.traffic.profile = true;
    let (_, notes) = record(&plan);
    assert!(notes.has("the server answered HTTP 500 to /stop_profile"), "{:?}", notes.notes());
    assert!(!notes.has("the server has no profiler to control"));
    let without = server(Manners { profiler: (404, 404), ..Manners::default() });
    plan.endpoint.url = tacho_client::Url::parse(&format!("{}/v1/completions", without.url())).unwrap();
    let (_, notes) = record(&plan);
    assert!(notes.has("the server has no profiler to control"));
}

#[test]
fn a_stopped_run_stops_it() {
    let server = server(Manners { wait: Duration::from_millis(30), profiler: (200, 200), ..Manners::default() });
    let mut plan = plan(&server, 200);
    plan.traffic.profile = true;
    plan.traffic.schedule = ScheduleSpec::Rate { rate: 20.0, burstiness: f64::INFINITY };
    let stop = StopSignal::default();
    ask_after(&server, 5, &stop, 1);
    let (record, _) = measure(&plan, &stop);
    assert!(record.unwrap().setup.interrupted);
    assert!(around(&server), "{:?}", server.paths());
}

#[test]
fn setup_errors_show_before_any_call_to_the_server() {
    let server = server(Manners { profiler: (200, 200), ..Manners::default() });
    let mut plan = plan(&server, 3);
    plan.traffic.profile = true;
    plan.traffic.max_concurrency = Some(usize::MAX);
    plan.endpoint.ca_file = Some("/nowhere/at/all.pem".into());
    plan.endpoint.url = tacho_client::Url::parse(&format!("https://{}/v1/completions", server.address)).unwrap();
    let (result, _) = measure(&plan, &StopSignal::default());
    assert!(result.is_err());
    assert!(server.calls().is_empty(), "{:?}", server.paths());
}

/// A plan with a profile that waits for two running requests, and a server that reports `running` of them.
fn waiting(running: u64, wait: Duration) -> (Scripted, tacho_run::ServePlan) {
    let page = format!("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {running}\n");
    let server = server(Manners { wait, profiler: (200, 200), metrics: Some(page), ..Manners::default() });
    let mut plan = plan(&server, 2);
    plan.traffic.profile = true;
    plan.traffic.profile_when = Some(tacho_run::BusyProfile { running: 2, lasting: Duration::from_millis(50) });
    (server, plan)
}

#[test]
fn a_profile_of_a_busy_server_begins_when_it_is_and_lasts_as_asked() {
    let (server, plan) = waiting(3, Duration::from_millis(800));
    let (_, notes) = record(&plan);
    assert_eq!((server.count("/start_profile"), server.count("/stop_profile")), (1, 1), "{:?}", server.paths());
    assert!(notes.has("Profiler started") && notes.has("Profiler stopped"), "{:?}", notes.notes());
}

#[test]
fn a_server_that_is_never_busy_is_reported_and_not_profiled() {
    let (server, plan) = waiting(1, Duration::from_millis(100));
    let (_, notes) = record(&plan);
    assert_eq!(server.count("/start_profile"), 0);
    let idle = "no profile was made: the server never served 2 requests at once; lower --profile-batch-threshold";
    assert!(notes.has(idle), "{:?}", notes.notes());
}
