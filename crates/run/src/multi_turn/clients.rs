//! The clients as a load model: each sends, waits for its response, or pauses.

use std::collections::{HashMap, VecDeque};

use tacho_core::json::{Value, write_value};
use tacho_core::{Clock, EventSink, FailureKind, Observation, Outcome, SystemClock, Timestamp, bounded::Pause, dict};
use tacho_loadgen::{LoadModel, Worker};
use tacho_metrics::multi_turn::{TurnSample, TurnTokens};
use tacho_text::Tokenizer;
use tacho_workload::sessions::Conversation;

use super::client::{Attempt, Client, ClientSpec, Step, Then};
use super::{MultiTurnPlan, MultiTurnResult};

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Pauses until then, and takes its next conversation.
    Pausing(Timestamp),
    Retrying(Timestamp),
    Waiting,
    Ended,
}

impl State {
    /// Time of its next action.
    fn wakes(self) -> Timestamp {
        match self {
            State::Pausing(until) | State::Retrying(until) => until,
            State::Waiting | State::Ended => Timestamp::NEVER,
        }
    }
}

pub(super) struct Clients<'p> {
    pub(super) plan: &'p MultiTurnPlan,
    clock: SystemClock,
    tokenizer: &'p Tokenizer,
    /// With the server's responses in place of the recorded ones.
    pub(super) conversations: Vec<Conversation>,
    /// Conversations that no client has taken yet.
    tasks: VecDeque<usize>,
    early_stop: bool,
    pub(super) clients: Vec<Client<'p>>,
    states: Vec<State>,
    /// The conversation and number of messages of each client's last request.
    pub(super) sent: Vec<(usize, usize)>,
    /// Time of the last request of each conversation, if it is reported.
    pub(super) requested: HashMap<usize, Timestamp>,
    pub(super) result: MultiTurnResult,
    pub(super) sink: &'p (dyn EventSink + Sync),
}

impl<'p> Clients<'p> {
    pub(super) fn new(
        plan: &'p MultiTurnPlan,
        spec: &'p ClientSpec,
        early_stop: bool,
        clock: SystemClock,
        tokenizer: &'p Tokenizer,
        conversations: Vec<Conversation>,
        sink: &'p (dyn EventSink + Sync),
    ) -> Self {
        let count = plan.num_clients;
        Clients {
            plan,
            clock,
            tokenizer,
            tasks: (0..conversations.len()).collect(),
            early_stop,
            clients: (0..count).map(|id| Client::new(spec, plan.seed, id)).collect(),
            states: vec![State::Pausing(Timestamp::ZERO); count],
            sent: vec![(0, 0); count],
            requested: HashMap::new(),
            result: MultiTurnResult { num_conversations: conversations.len(), ..MultiTurnResult::default() },
            conversations,
            sink,
        }
    }

    /// The result of the phase; `interrupted` if clients have not decided on their next action.
    pub(super) fn finish(mut self, interrupted: bool) -> MultiTurnResult {
        for id in 0..self.clients.len() {
            if interrupted && self.states[id] != State::Ended {
                self.report_end(id, Some("received a termination signal"));
            }
        }
        self.result.interrupted = interrupted;
        self.result.successes = self.clients.iter().map(|client| client.successes).sum();
        self.result.abandoned = self.clients.iter().map(Client::abandoned).sum();
        self.result
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The largest possible number of requests, without retries.
    pub(super) fn expected(&self) -> u64 {
        let Some(spec) = self.clients.first().map(Client::spec) else { return 0 };
        let all: usize = self.conversations.iter().map(|one| spec.exchanges(one.messages.len())).sum();
        let max = spec.max_requests.map_or(usize::MAX, |max| max.saturating_mul(self.clients.len()));
        all.min(max) as u64
    }

    /// Takes a client's next conversation; returns whether there is something to send.
    fn start(&mut self, id: usize) -> bool {
        let length = |at: usize| self.conversations[at].messages.len();
        let held = self.clients[id].active().len();
        let stopped = self.early_stop && self.states.contains(&State::Ended);
        let step = self.clients[id].next(&mut self.tasks, &length, stopped);
        self.report_start(id, held);
        match step {
            Step::End(why) => {
                self.report_end(id, Some(why));
                self.states[id] = State::Ended;
                false
            }
            Step::Send { conversation, messages } => {
                self.sent[id] = (conversation, messages);
                self.report_request(id);
                true
            }
        }
    }

    fn encode(&self, id: usize, worker: &mut dyn Worker) {
        self.report_messages(id);
        let (conversation, messages) = self.sent[id];
        let Conversation { id: name, messages: all } = &self.conversations[conversation];
        let recorded = all.get(messages).map_or(0, |response| self.tokenizer.count(response, false) as u64);
        let max_tokens = max_tokens(self.plan, recorded);
        let text = body(self.plan, name, &all[..messages], max_tokens);
        let session = self.plan.send_conversation_id.then_some(("X-Session-ID", name.as_str()));
        worker.supply_body(id, &text, session, max_tokens.unwrap_or(0) as usize, !self.plan.stream);
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

    /// Adds the sample of a response, and the response to its conversation.
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
        if let Some(response) = all.get_mut(messages) {
            *response = String::from_utf8_lossy(&row.text).into_owned();
        }
    }
}

impl LoadModel for Clients<'_> {
    fn begin(&mut self, origin: Timestamp) {
        self.states.fill(State::Pausing(origin));
    }

    fn free_slots(&self, in_flight: usize) -> usize {
        self.clients.len().saturating_sub(in_flight)
    }

    fn next_eligible(&self, _: usize) -> Timestamp {
        self.states.iter().map(|state| state.wakes()).min().unwrap_or(Timestamp::NEVER)
    }

    fn exhausted(&self) -> bool {
        self.states.iter().all(|state| *state == State::Ended)
    }

    fn take(&mut self, _: usize, now: Timestamp, worker: &mut dyn Worker) -> Option<(usize, Timestamp)> {
        for id in 0..self.clients.len() {
            let state = self.states[id];
            if state.wakes() > now || (matches!(state, State::Pausing(_)) && !self.start(id)) {
                continue;
            }
            self.encode(id, worker);
            self.states[id] = State::Waiting;
            return Some((id, state.wakes()));
        }
        None
    }

    fn ended(&mut self, row: &mut Observation, _: &mut dyn Worker) -> bool {
        let id = row.index;
        let (conversation, messages) = self.sent[id];
        if row.is_aborted() {
            return true;
        }
        let attempt = self.judge(row, conversation, messages);
        if attempt == Attempt::Good {
            self.keep(row, conversation, messages, id);
        }
        self.report_response(id, row, attempt);
        let length = self.conversations[conversation].messages.len();
        let now = self.clock.now();
        let later = |seconds: f64| now + Pause::clamped(seconds);
        match self.clients[id].came_out(attempt, length) {
            Then::Again(pause) => {
                self.result.retries += 1;
                self.states[id] = State::Retrying(later(pause));
                return false;
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
            }
            Then::Leave => {
                self.result.failed(&reason(row));
                self.report_end(id, None);
                self.states[id] = State::Ended;
            }
        }
        true
    }
}

pub(super) fn reason(row: &Observation) -> String {
    match row.outcome.failure() {
        Some(failure) => failure.message.clone(),
        None if row.text.is_empty() => "the answer held no text".to_owned(),
        None => "the answer differs from the recorded one".to_owned(),
    }
}

/// Most tokens that an exchange may generate.
pub(super) fn max_tokens(plan: &MultiTurnPlan, recorded: u64) -> Option<u64> {
    match plan.limit_max_tokens {
        0 => Some(recorded.max(1)),
        limit => u64::try_from(limit).ok(),
    }
}

/// The body: the messages so far, the last one from the user.
pub(super) fn body(plan: &MultiTurnPlan, id: &str, messages: &[String], max_tokens: Option<u64>) -> Vec<u8> {
    let message = |(at, content): (usize, &String)| {
        Value::Dict(dict! { "role": if at % 2 == 0 { "user" } else { "assistant" }, "content": content.as_str() })
    };
    let exact = max_tokens.filter(|_| plan.exact_lengths);
    let body = dict! {
        "model": plan.model_name.as_str(),
        "messages": messages.iter().enumerate().map(message).collect::<Vec<Value>>(),
        "conversation_id"?: plan.send_conversation_id.then_some(id),
        "stream"?: plan.stream.then_some(true),
        "stream_options"?: plan.stream.then(|| dict! { "include_usage": false }),
        "max_tokens"?: max_tokens,
        "min_tokens"?: exact,
        "ignore_eos"?: exact.map(|_| true),
    };
    let mut text = Vec::new();
    write_value(&mut text, &Value::Dict(body));
    text
}
