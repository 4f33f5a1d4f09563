//! One phase: all clients on one thread, each sending, waiting for its answer, or pausing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tacho_client::Client as HttpClient;
use tacho_core::live::LiveRecorder;
use tacho_core::rows::Watcher;
use tacho_core::{
    Clock, Counters, EventSink, FailureKind, Observation, Outcome, RunEvent, SystemClock, Timestamp, Work,
};
use tacho_loadgen::{StopSignal, Target, Worker};
use tacho_metrics::multi_turn::{TurnSample, TurnTokens};
use tacho_text::Tokenizer;
use tacho_workload::sessions::Conversation;

use super::client::{Attempt, Client, ClientSpec, Step, Then};
use super::{MultiTurnPlan, MultiTurnResult, body};
use crate::Error;

/// The longest wait, so that a stop is noticed.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// It pauses until then, and takes its next conversation.
    Pausing(Timestamp),
    /// It retries at that time.
    Retrying(Timestamp),
    /// It waits for an answer.
    Waiting,
    /// It has ended.
    Ended,
}

/// A phase in progress.
pub(super) struct Talk<'p> {
    pub(super) plan: &'p MultiTurnPlan,
    http: &'p HttpClient,
    clock: SystemClock,
    tokenizer: &'p Tokenizer,
    /// With the server's answers in place of the recorded ones as they come.
    pub(super) conversations: Vec<Conversation>,
    pub(super) clients: Vec<Client<'p>>,
    states: Vec<State>,
    /// What each client is about to hear the answer of: conversation and messages.
    pub(super) sent: Vec<(usize, usize)>,
    /// When each conversation sent its last request, where that is reported.
    pub(super) asked: HashMap<usize, Timestamp>,
    pub(super) result: MultiTurnResult,
    /// Progress, for the display.
    counters: Arc<Counters>,
    pub(super) sink: &'p dyn EventSink,
}

impl<'p> Talk<'p> {
    pub(super) fn new(
        plan: &'p MultiTurnPlan,
        spec: &'p ClientSpec,
        http: &'p HttpClient,
        clock: SystemClock,
        tokenizer: &'p Tokenizer,
        conversations: Vec<Conversation>,
        sink: &'p dyn EventSink,
    ) -> Self {
        let count = plan.num_clients;
        let result = MultiTurnResult { num_conversations: conversations.len(), ..MultiTurnResult::default() };
        Talk {
            plan,
            http,
            clock,
            tokenizer,
            conversations,
            clients: (0..count).map(|id| Client::new(spec, plan.seed, id)).collect(),
            states: vec![State::Pausing(Timestamp::ZERO); count],
            sent: vec![(0, 0); count],
            asked: HashMap::new(),
            result,
            counters: Arc::default(),
            sink,
        }
    }

    /// Holds all conversations, or those that the first client to end leaves time for.
    pub(super) fn run(
        mut self,
        mut tasks: VecDeque<usize>,
        early_stop: bool,
        stop: &StopSignal,
        work: Work,
    ) -> Result<MultiTurnResult, Error> {
        self.sink.event(RunEvent::Started { work, total: self.expected(&tasks), counters: self.counters.clone() });
        let worker = self.http.worker(0, 1).map_err(|source| tacho_loadgen::Error::Worker { id: 0, of: 1, source })?;
        let mut worker = worker;
        let mut rows = Vec::new();
        let mut first_ended = false;
        while self.states.iter().any(|state| *state != State::Ended) {
            let now = self.clock.now();
            if stop.immediate() {
                worker.abort(&mut rows);
                self.result.interrupted = true;
                break;
            }
            for id in 0..self.clients.len() {
                match self.states[id] {
                    State::Pausing(until) if until <= now => {
                        let stopped = stop.draining() || (early_stop && first_ended);
                        first_ended |= self.begin(id, &mut tasks, stopped, &mut worker);
                    }
                    State::Retrying(until) if until <= now => self.send(id, &mut worker),
                    _ => {}
                }
            }
            let wake = |state: &State| match state {
                State::Pausing(until) | State::Retrying(until) => *until,
                State::Waiting | State::Ended => Timestamp::NEVER,
            };
            let next = self.states.iter().map(wake).min().unwrap_or(Timestamp::NEVER);
            worker.poll(next.min(self.clock.now() + MAX_SLEEP), &mut rows);
            for row in rows.drain(..) {
                first_ended |= self.heard(&row);
            }
        }
        self.sink.event(RunEvent::Finished);
        self.result.interrupted |= stop.draining();
        self.result.successes = self.clients.iter().map(|client| client.successes).sum();
        self.result.abandoned = self.clients.iter().map(Client::abandoned).sum();
        Ok(self.result)
    }

    /// The time.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Exchanges there will be at most.
    fn expected(&self, tasks: &VecDeque<usize>) -> u64 {
        let Some(spec) = self.clients.first().map(Client::spec) else { return 0 };
        let all: usize = tasks.iter().map(|&at| spec.exchanges(self.conversations[at].messages.len())).sum();
        let most = spec.max_requests.map_or(usize::MAX, |most| most.saturating_mul(self.clients.len()));
        all.min(most) as u64
    }

    /// Counts a response for the display.
    fn count(&self, row: &Observation, then: &Then) {
        let add = |counter: &AtomicU64, count: u64| counter.fetch_add(count, Ordering::Relaxed);
        self.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        add(&self.counters.tokens, row.chunks.len() as u64);
        if !matches!(then, Then::Again(_)) {
            add(&self.counters.finished, 1);
            add(&self.counters.failed, u64::from(row.outcome.failure().is_some()));
            LiveRecorder::new(&self.counters).rows(std::slice::from_ref(row));
        }
    }

    /// Lets a client take its next conversation; returns whether it has ended instead.
    fn begin(
        &mut self,
        id: usize,
        tasks: &mut VecDeque<usize>,
        stopped: bool,
        worker: &mut <HttpClient as Target>::Worker<'p>,
    ) -> bool {
        let length = |at: usize| self.conversations[at].messages.len();
        let held = self.clients[id].active().len();
        let step = self.clients[id].next(tasks, &length, stopped);
        self.report_start(id, held);
        match step {
            Step::End(why) => {
                self.report_end(id, Some(why));
                self.states[id] = State::Ended;
                true
            }
            Step::Send { conversation, messages } => {
                self.sent[id] = (conversation, messages);
                self.report_request(id);
                self.send(id, worker);
                false
            }
        }
    }

    fn send(&mut self, id: usize, worker: &mut <HttpClient as Target>::Worker<'p>) {
        self.report_messages(id);
        let (conversation, messages) = self.sent[id];
        let Conversation { id: name, messages: all } = &self.conversations[conversation];
        let recorded = all.get(messages).map_or(0, |answer| self.tokenizer.count(answer, false) as u64);
        let max_tokens = body::max_tokens(self.plan, recorded);
        let text = body::body(self.plan, name, &all[..messages], max_tokens);
        let session = self.plan.send_conversation_id.then_some(("X-Session-ID", name.as_str()));
        let now = self.clock.now();
        worker.supply_body(id, &text, session, max_tokens.unwrap_or(0) as usize, !self.plan.stream);
        worker.issue(Observation::dispatched(id, now, now));
        self.counters.in_flight.fetch_add(1, Ordering::Relaxed);
        self.states[id] = State::Waiting;
    }

    /// Takes a response; returns whether its client has ended.
    fn heard(&mut self, row: &Observation) -> bool {
        let id = row.index;
        let (conversation, messages) = self.sent[id];
        let attempt = self.judge(row, conversation, messages);
        if attempt == Attempt::Good {
            self.keep(row, conversation, messages, id);
        }
        self.report_response(id, row, attempt);
        let length = self.conversations[conversation].messages.len();
        let now = self.clock.now();
        let later = |seconds: f64| now + Duration::from_secs_f64(seconds);
        let then = self.clients[id].came_out(attempt, length);
        self.count(row, &then);
        match then {
            Then::Again(pause) => {
                self.result.retries += 1;
                self.states[id] = State::Retrying(later(pause));
                false
            }
            Then::Next { pause, published } => {
                if attempt != Attempt::Good {
                    self.result.failed(&reason(row));
                }
                if let Some(conversation) = published {
                    self.report_complete(id, conversation);
                    self.result.finished.push(self.conversations[conversation].clone());
                }
                self.states[id] = State::Pausing(later(pause));
                false
            }
            Then::Leave => {
                self.result.failed(&reason(row));
                self.report_end(id, None);
                self.states[id] = State::Ended;
                true
            }
        }
    }

    fn judge(&self, row: &Observation, conversation: usize, messages: usize) -> Attempt {
        let recorded = self.conversations[conversation].messages.get(messages);
        match &row.outcome {
            Outcome::Complete if self.plan.stream && row.text.is_empty() => Attempt::Rejected,
            Outcome::Complete if self.plan.verify_output && recorded.is_none_or(|text| text.as_bytes() != row.text) => {
                Attempt::Broken
            }
            Outcome::Complete => Attempt::Good,
            Outcome::Failed(failure) => match failure.kind {
                FailureKind::Http(_) | FailureKind::Empty => Attempt::Rejected,
                _ => Attempt::Broken,
            },
        }
    }

    /// Makes a sample of an answer and puts it into the conversation.
    fn keep(&mut self, row: &Observation, conversation: usize, messages: usize, id: usize) {
        let count = |text: &str| self.tokenizer.count(text, false) as u64;
        let Conversation { id: name, messages: all } = &mut self.conversations[conversation];
        let sent = &all[..messages];
        let tokens = TurnTokens {
            messages: messages as u64,
            input: sent.iter().map(|text| count(text)).sum(),
            last: sent.last().map_or(0, |text| count(text)),
        };
        self.result.samples.push(TurnSample::of(row, tokens, &count, name, id));
        if let Some(answer) = all.get_mut(messages) {
            *answer = String::from_utf8_lossy(&row.text).into_owned();
        }
    }
}

pub(super) fn reason(row: &Observation) -> String {
    match row.outcome.failure() {
        Some(failure) => failure.message.clone(),
        None if row.text.is_empty() => "the answer held no text".to_owned(),
        None => "the answer differs from the recorded one".to_owned(),
    }
}
