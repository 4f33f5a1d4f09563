//! The real client, as `tacho serve` uses it, on one worker.

use tacho_client::backends::built_in_file;
use tacho_client::{BackendKind, Client, ClientPlan, EndpointSpec, PayloadSpec, TimestampSource, Url};
use tacho_core::{Counters, Kept, Request, SystemClock};
use tacho_loadgen::{Drive, ScheduleSpec, StopSignal, drive};
use tacho_pyrand::RandomState;
use tacho_sim::reference_server::send_times;

use crate::{Load, Seen, server::Server, system};

/// Runs a load by the built-in completions backend.
pub(crate) fn run(load: Load) -> Seen {
    run_by(load, BackendKind::OpenAi)
}

/// Runs a load by the same backend as a file.
pub(crate) fn run_by_file(load: Load) -> Seen {
    let file = built_in_file("openai").unwrap();
    run_by(load, BackendKind::from_text(file, "openai").unwrap())
}

fn run_by(load: Load, backend: BackendKind) -> Seen {
    let server = Server::start(load);
    let clock = SystemClock::start();
    let requests = vec![Request::text("p", 32, load.tokens as i64); load.streams];
    let plan = ClientPlan { preconnect: load.streams, spare: false, at_most: Some(load.streams) };
    let payload = PayloadSpec { model: "reference".into(), ..PayloadSpec::default() };
    let client = Client::new(EndpointSpec { backend, ..endpoint(&server) }, &payload, &requests, plan, clock).unwrap();
    let at_once = ScheduleSpec::Rate { rate: f64::INFINITY, burstiness: 1.0 };
    let timeline = at_once.plan(load.streams, &mut RandomState::new(0)).unwrap();
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let drive_plan = Drive::of(&timeline, &clock, &stop, &counters);
    let before = system::cpu_time();
    let mut kept = Kept::default();
    let driven = drive(&client, &drive_plan, &mut kept).unwrap();
    let cpu = system::cpu_time() - before;
    let blurred = driven.workers.iter().map(|worker| worker.late_coalesced).sum();
    let mut seen = Seen { cpu, blurred, ..Seen::default() };
    for row in &kept.into_rows() {
        assert!(row.outcome.is_complete(), "{:?}", row.outcome);
        seen.tokens += row.chunks.len();
        seen.gaps.extend(row.chunks.windows(2).map(|pair| pair[1].0 - pair[0].0));
        seen.truth.extend(send_times(&row.text).windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)));
    }
    assert_eq!(seen.tokens, load.streams * load.tokens);
    seen
}

pub(crate) fn endpoint(server: &Server) -> EndpointSpec {
    let url = Url::parse(&format!("http://{}/v1/completions", server.address)).unwrap();
    EndpointSpec { timestamps: timestamps(), ..EndpointSpec::new(url, BackendKind::OpenAi) }
}

fn timestamps() -> TimestampSource {
    if std::env::var_os("TACHO_BENCH_USER_STAMPS").is_some() { TimestampSource::User } else { TimestampSource::Kernel }
}
