//! The multi-turn benchmark: clients that run conversations, each with at most one request in flight.

mod client;
mod clients;
mod messages;

use std::{sync::Arc, time::Duration};

use tacho_client::{Client as HttpClient, ClientPlan, EndpointSpec, PayloadSpec};
use tacho_core::live::LiveRecorder;
use tacho_core::rows::Watcher;
use tacho_core::{Clock, Counters, EventSink, Observation, RowSink, RunEvent, SystemClock, Work};
use tacho_loadgen::{Drive, ScheduleSpec, StopSignal, drive_model};
use tacho_metrics::multi_turn::TurnSample;
use tacho_pyrand::RandomState;
use tacho_text::Tokenizer;
use tacho_workload::sessions::Conversation;

pub use client::ClientSpec;

use crate::Error;
use clients::Clients;

#[derive(Debug, Clone)]
pub struct MultiTurnPlan {
    pub endpoint: EndpointSpec,
    pub model_name: String,
    /// Seed of random choices and pauses.
    pub seed: u32,
    pub num_clients: usize,
    pub client: ClientSpec,
    /// Whether all first turns are sent before the measurement.
    pub warmup_step: bool,
    pub early_stop: bool,
    /// Tokens to generate: 0 as recorded, negative without limit.
    pub limit_max_tokens: i64,
    /// Whether responses must have exactly this length.
    pub exact_lengths: bool,
    pub stream: bool,
    pub send_conversation_id: bool,
    /// Whether a response that differs from the recorded one is a failure.
    pub verify_output: bool,
    pub print_content: bool,
    /// Whether each client's actions are printed.
    pub verbose: bool,
}

#[derive(Debug, Default)]
pub struct MultiTurnResult {
    /// A sample per successful exchange, in the order in which they ended.
    pub samples: Vec<TurnSample>,
    /// Completed conversations, with the server's responses.
    pub finished: Vec<Conversation>,
    pub num_conversations: usize,
    pub successes: usize,
    /// Causes of failed exchanges, with their counts.
    pub failures: Vec<(String, usize)>,
    /// Conversations abandoned in the middle when their client ended.
    pub abandoned: usize,
    pub retries: usize,
    /// Duration of the warm-up in seconds, if there was one.
    pub warmup_runtime_sec: Option<f64>,
    pub interrupted: bool,
}

impl MultiTurnResult {
    pub(crate) fn failed(&mut self, reason: &str) {
        match self.failures.iter_mut().find(|(known, _)| known == reason) {
            Some((_, count)) => *count += 1,
            None => self.failures.push((reason.to_owned(), 1)),
        }
    }
}

/// Runs the conversations. A final question without a recorded response must have been removed.
pub fn run(
    plan: &MultiTurnPlan,
    conversations: &[Conversation],
    tokenizer: &Tokenizer,
    stop: &StopSignal,
    sink: &(dyn EventSink + Sync),
) -> Result<MultiTurnResult, Error> {
    let clock = SystemClock::start();
    let payload = PayloadSpec { model: plan.model_name.clone(), ..PayloadSpec::default() };
    let connections = ClientPlan { preconnect: plan.num_clients, spare: false, at_most: Some(plan.num_clients) };
    let http = HttpClient::new(plan.endpoint.clone(), &payload, &[], connections, clock)?;
    let phase = |spec: &ClientSpec, early_stop: bool, conversations: Vec<Conversation>, work: Work| {
        let clients = Clients::new(plan, spec, early_stop, clock, tokenizer, conversations, sink);
        run_phase(clients, &http, clock, stop, work)
    };
    if !plan.warmup_step {
        return phase(&plan.client, plan.early_stop, conversations.to_vec(), Work::Benchmark);
    }
    let first = ClientSpec { max_active: 1, max_turns: Some(1), skip_first: false, ..plan.client.clone() };
    let began = clock.now();
    let warm = phase(&first, false, conversations.to_vec(), Work::WarmUp)?;
    let warmup = clock.now().secs_since(began);
    if warm.interrupted {
        return Ok(MultiTurnResult { warmup_runtime_sec: Some(warmup), samples: Vec::new(), ..warm });
    }
    let rest = ClientSpec { skip_first: true, ..plan.client.clone() };
    let result = phase(&rest, plan.early_stop, warm.finished, Work::Benchmark)?;
    Ok(MultiTurnResult { warmup_runtime_sec: Some(warmup), ..result })
}

/// Runs one phase on the common event loop. A stop lets requests in flight end; a second one aborts them.
fn run_phase(
    mut clients: Clients<'_>,
    http: &HttpClient,
    clock: SystemClock,
    stop: &StopSignal,
    work: Work,
) -> Result<MultiTurnResult, Error> {
    let counters = Arc::<Counters>::default();
    let total = clients.expected();
    clients.sink.event(RunEvent::Started { work, total, counters: counters.clone() });
    let timeline = ScheduleSpec::Replay(Vec::new()).plan(0, &mut RandomState::new(0))?;
    let drive = Drive { grace: Duration::MAX, ..Drive::of(&timeline, &clock, stop, &counters) };
    drive_model(http, &drive, &mut clients, &mut Shown(LiveRecorder::new(&counters)))?;
    clients.sink.event(RunEvent::Finished);
    Ok(clients.finish(stop.draining()))
}

/// Records rows for the live view.
struct Shown<'a>(LiveRecorder<'a>);

impl RowSink for Shown<'_> {
    fn rows(&mut self, rows: Vec<Observation>) {
        self.0.rows(&rows);
    }
}

#[cfg(test)]
mod tests;
