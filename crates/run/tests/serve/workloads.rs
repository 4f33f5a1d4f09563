//! Sources of requests, and the control calls around them.

use std::{path::Path, time::Duration};

use tacho_core::{event::Note, json::Dict};
use tacho_metrics::Caveat;
use tacho_record::RunRecord;
use tacho_run::serve::{Contact, prepare, save_workload};
use tacho_run::{Error, WorkloadPlan};
use tacho_workload::{CustomReplaySpec, CustomSpec, Selection, WorkloadSpec};

use crate::bench::{Manners, measure, plan, random, record, server};

/// Prompts of a file, at its times.
pub(crate) fn timed(path: &Path, prompts: i64) -> WorkloadPlan {
    let selection =
        Selection { seed: 0, num_prompts: prompts, shuffle: false, oversample: false, request_id_prefix: "r-".into() };
    let custom = CustomSpec {
        path: path.to_owned(),
        selection,
        output_len: Some(2),
        chat_template: false,
        template_variables: None,
    };
    let spec = Box::new(WorkloadSpec::CustomReplay(CustomReplaySpec { custom, time_scale: 1.0 }));
    WorkloadPlan::Sample { spec, num_prompts: prompts, align: false, self_timed: true }
}

#[test]
fn sampled_requests_are_sent_once_each_and_nothing_else_is() {
    let server = server(Manners::default());
    let (record, _) = record(&plan(&server, 8));
    let mut ids: Vec<_> = server
        .calls()
        .iter()
        .filter(|seen| seen.path() == "/v1/completions")
        .map(|seen| seen.header("x-request-id").unwrap().to_owned())
        .collect();
    ids.sort();
    assert_eq!(ids, (0..8).map(|at| format!("r-{at}")).collect::<Vec<_>>());
    assert!(server.calls().iter().all(|seen| seen.json()["model"] == "m" || seen.body.is_empty()));
    assert_eq!(record.summary.completed, 8);
    assert_eq!(record.measured.samples.iter().map(|sample| sample.output_len).sum::<u64>(), 24);
}

#[test]
fn a_saved_workload_gives_the_same_bodies() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.jsonl");
    let bodies = |of: WorkloadPlan| {
        let server = server(Manners::default());
        let mut plan = plan(&server, 6);
        plan.workload = of;
        save_workload(&plan, &prepare(&plan, Contact::Server, &()).unwrap(), Dict::new(), &path).unwrap();
        record(&plan);
        let mut bodies: Vec<_> =
            server.calls().into_iter().filter(|seen| seen.path() == "/v1/completions").map(|seen| seen.body).collect();
        bodies.sort();
        bodies
    };
    let first = bodies(random(6));
    assert_eq!(first.len(), 6);
    assert_eq!(first, bodies(WorkloadPlan::File { path: path.clone(), time_scale: 1.0 }));
}

#[test]
fn the_server_is_warmed_up_before_it_is_measured() {
    let server = server(Manners::default());
    let mut plan = plan(&server, 4);
    plan.traffic.ready_timeout = Duration::from_secs(10);
    plan.traffic.warmups = 3;
    let (record, notes) = record(&plan);
    assert_eq!(server.count("/v1/completions"), 1 + 3 + 4);
    assert_eq!(record.summary.completed, 4);
    let texts = ["Initial test run completed.", "Warming up with 3 requests...", "Starting main benchmark run..."];
    for note in texts.map(Note::from).into_iter().chain([Note::WarmupDone]) {
        assert!(notes.has(note.clone()), "{note:?}");
    }
}

#[test]
fn the_first_model_is_used_by_default() {
    let server = server(Manners::default());
    let mut plan = plan(&server, 2);
    plan.model.model = None;
    let (record, notes) = record(&plan);
    assert_eq!(record.setup.model_id, "org/model");
    assert!(notes.has("First model name: served, first model id: org/model"));
    let asked = server.calls();
    assert!(asked.iter().filter(|seen| !seen.body.is_empty()).all(|seen| seen.json()["model"] == "served"));
}

#[test]
fn an_empty_workload_is_an_error_before_anything_is_sent() {
    let server = server(Manners::default());
    let (result, _) = measure(&plan(&server, 0), &Default::default());
    assert!(matches!(result, Err(Error::EmptyWorkload)), "{result:?}");
    assert!(server.calls().is_empty());
}

#[test]
fn acceptance_is_measured_per_request_and_doubted_on_random_text() {
    let last = r#", "metrics": {"speculative_decoding": {"num_spec_steps": 4, "num_draft_tokens": 12, "num_accepted_draft_tokens": 6}}"#;
    let server = server(Manners { last, ..Manners::default() });
    let (measured, _) = record(&plan(&server, 8));
    let found = measured.open_loop.acceptance.unwrap();
    assert_eq!((found.responses, found.rate, found.length.map(|length| length.mean)), (8, 0.5, Some(2.5)));
    let doubted = |record: &RunRecord| record.caveats.contains(&Caveat::AcceptanceOnRandomText);
    assert!(doubted(&measured), "{:?}", measured.caveats);
    let (plain, _) = record(&plan(&crate::bench::server(Manners::default()), 8));
    assert_eq!((plain.open_loop.acceptance, doubted(&plain)), (None, false));
}
