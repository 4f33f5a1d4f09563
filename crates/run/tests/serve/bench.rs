//! A scripted server that generates text, plans for it, and the events of a run.

use std::{io::Write, net::TcpStream, sync::Mutex, time::Duration};

use tacho_client::{BackendKind, EndpointSpec, Url};
use tacho_core::{EventSink, Note, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::{MetricKind, MetricSettings};
use tacho_record::RunRecord;
use tacho_run::serve::{Contact, prepare, run};
use tacho_run::{Error, ModelPlan, ReportPlan, ServePlan, StopPlan, TokenizerPlan, TrafficPlan, WorkloadPlan};
use tacho_testkit::place::wait_for;
use tacho_testkit::scripted::{Keep, Scripted};
use tacho_testkit::wire::{Seen, write_plain};
use tacho_workload::{RandomSpec, RangeRatio, WorkloadSpec, hub::Hub};

/// Behavior of the scripted server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manners {
    /// Delay before the first token.
    pub(crate) wait: Duration,
    /// Completions from this call on fail with status 500.
    pub(crate) fail_from: Option<usize>,
    /// The statuses of `/start_profile` and `/stop_profile`.
    pub(crate) profiler: (u16, u16),
    /// The content of `/metrics`, if it exists.
    pub(crate) metrics: Option<String>,
    /// Further members of the last event.
    pub(crate) last: &'static str,
}

/// A server that completes requests with the requested number of tokens.
pub(crate) fn server(manners: Manners) -> Scripted {
    let asked = Mutex::new(0);
    Scripted::start(move |seen, stream| {
        let plain = |stream: &mut TcpStream, status, body: &str| {
            write_plain(stream, status, "Said", "application/json", body.as_bytes())
                .map_or(Keep::Close, |()| Keep::Open)
        };
        match seen.path() {
            "/v1/models" => plain(stream, 200, r#"{"data": [{"id": "served", "root": "org/model"}]}"#),
            "/version" => plain(stream, 200, r#"{"version": "9.8.7"}"#),
            "/start_profile" => plain(stream, manners.profiler.0, ""),
            "/stop_profile" => plain(stream, manners.profiler.1, ""),
            "/metrics" if manners.metrics.is_some() => {
                plain(stream, 200, manners.metrics.as_deref().unwrap_or_default())
            }
            "/v1/completions" => {
                let mut asked = asked.lock().unwrap();
                *asked += 1;
                let fails = manners.fail_from.is_some_and(|from| *asked > from);
                drop(asked);
                if fails { plain(stream, 500, "broken") } else { generate(seen, stream, &manners) }
            }
            _ => plain(stream, 404, "{}"),
        }
    })
}

fn generate(seen: &Seen, stream: &mut TcpStream, manners: &Manners) -> Keep {
    let count = seen.json()["max_tokens"].as_u64().unwrap_or(1);
    std::thread::sleep(manners.wait);
    let mut events: Vec<String> =
        (0..count).map(|at| format!("data: {{\"choices\": [{{\"index\": 0, \"text\": \" t{at}\"}}]}}\n\n")).collect();
    let usage = format!("{{\"prompt_tokens\": 4, \"completion_tokens\": {count}}}");
    events.push(format!("data: {{\"choices\": [], \"usage\": {usage}{}}}\n\n", manners.last));
    events.push("data: [DONE]\n\n".to_owned());
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for event in &events {
        write!(answer, "{:x}\r\n{event}\r\n", event.len()).unwrap();
    }
    answer.extend_from_slice(b"0\r\n\r\n");
    stream.write_all(&answer).map_or(Keep::Close, |()| Keep::Open)
}

/// All requests at once, no ready check, no background tasks.
pub(crate) fn plan(server: &Scripted, prompts: i64) -> ServePlan {
    let url = Url::parse(&format!("{}/v1/completions", server.url())).unwrap();
    let timeout = Duration::from_secs(60);
    ServePlan {
        endpoint: EndpointSpec { timeout, connect_timeout: timeout, ..EndpointSpec::new(url, BackendKind::OpenAi) },
        base_path: String::new(),
        model: ModelPlan { model: Some("m".into()), served_name: None },
        tokenizer: TokenizerPlan::Builtin,
        hub: Hub::from_variables(|_| None),
        workload: random(prompts),
        replayed: None,
        lora: None,
        max_model_len: None,
        seed: 0,
        traffic: traffic(),
        report: ReportPlan {
            label: None,
            metadata: Vec::new(),
            percentile_metrics: vec![MetricKind::Ttft, MetricKind::E2el],
            metric_percentiles: vec![99.0],
            metrics: MetricSettings::default(),
            keep_texts: false,
            provenance: None,
        },
        log: None,
        check: None,
        grade: None,
        row_command: None,
        ranks: None,
    }
}

pub(crate) fn random(prompts: i64) -> WorkloadPlan {
    let spec = RandomSpec {
        seed: 0,
        num_prompts: prompts,
        input_len: 4,
        output_len: 3,
        prefix_len: 0,
        range_ratio: RangeRatio::parse("0").unwrap(),
        batch_size: 1,
        request_id_prefix: "r-".into(),
        token_ids: false,
        cached: None,
        length_plan: tacho_workload::LengthPlan::default(),
    };
    let spec = Box::new(WorkloadSpec::Random(spec));
    WorkloadPlan::Sample { spec, num_prompts: prompts, align: false, self_timed: false }
}

fn traffic() -> TrafficPlan {
    let stops = StopPlan { drain: Duration::from_secs(20), ..StopPlan::default() };
    TrafficPlan { workers: Some(2), stops, ..TrafficPlan::at_once() }
}

/// Records the events of a run.
#[derive(Default)]
pub(crate) struct RecordedNotes {
    notes: Mutex<Vec<Note>>,
    /// The total of the last phase that began.
    total: Mutex<Option<u64>>,
}

impl RecordedNotes {
    pub(crate) fn notes(&self) -> Vec<Note> {
        self.notes.lock().unwrap().clone()
    }

    /// The number of requests that views of the run's progress were told.
    pub(crate) fn total(&self) -> Option<u64> {
        *self.total.lock().unwrap()
    }

    pub(crate) fn has(&self, note: impl Into<Note>) -> bool {
        self.notes().contains(&note.into())
    }
}

impl EventSink for RecordedNotes {
    fn event(&self, event: RunEvent) {
        if let RunEvent::Started { total, .. } = event {
            *self.total.lock().unwrap() = Some(total);
        } else if let RunEvent::Status(note) | RunEvent::Warning(note) = event {
            // vLLM's own line, whatever a terminal shows instead.
            let note = if let Note::Preamble { vllm, .. } = note { Note::Text(vllm) } else { note };
            self.notes.lock().unwrap().push(note);
        }
    }
}

/// Requests a stop `times` times once the server has seen this many requests.
pub(crate) fn ask_after(server: &Scripted, requests: usize, stop: &StopSignal, times: usize) {
    let (calls, stop) = (server.watch(), stop.clone());
    std::thread::spawn(move || {
        wait_for("the requests", || calls.count("/v1/completions") >= requests);
        (0..times).for_each(|_| stop.request_stop());
    });
}

/// Prepares and runs a plan.
pub(crate) fn measure(plan: &ServePlan, stop: &StopSignal) -> (Result<RunRecord, Error>, RecordedNotes) {
    let notes = RecordedNotes::default();
    let record = prepare(plan, Contact::Server, &notes).and_then(|prepared| run(plan, prepared, stop, &notes));
    (record, notes)
}

/// Runs a plan that must succeed.
pub(crate) fn record(plan: &ServePlan) -> (RunRecord, RecordedNotes) {
    let (record, notes) = measure(plan, &StopSignal::default());
    (record.unwrap(), notes)
}
