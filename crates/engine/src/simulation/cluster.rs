//! Replicas behind a router, with their front ends: an event-driven model whose clock the caller advances.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::{sync::Arc, time::Duration};

use tacho_core::Timestamp;

use super::agenda::Agenda;
use super::router::{Router, Routing};

use crate::{
    Engine, Finish, Job, SeqId, TokenEvent, Tokens, error::Error, fifo_server::FifoServer, machine::Machine,
    processor_sharing::ProcessorSharing,
};

/// A request as the engine sees it.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub prompt: Arc<[u32]>,
    pub output: Tokens,
    /// Scheduling priority; the lowest is served first under [`crate::Policy::Priority`].
    pub priority: i64,
}

/// An event that a client receives for one of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEvent {
    pub request: usize,
    pub at: Timestamp,
    pub kind: ClientEventKind,
    /// Orders events of the same time.
    sequence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEventKind {
    Token {
        last: bool,
    },
    /// The request can never run, and the reason.
    Rejected(String),
}

impl ClientEvent {
    pub fn is_last(&self) -> bool {
        !matches!(self.kind, ClientEventKind::Token { last: false })
    }
}

/// Replicas in virtual time. The caller sends requests, takes events with [`Cluster::advance`] and then starts the next
/// steps with [`Cluster::start_steps`].
pub struct Cluster<'a> {
    machine: &'a Machine,
    now: Timestamp,
    replicas: Vec<Replica>,
    /// In-flight requests per replica.
    outstanding: Vec<usize>,
    routing: Routing,
    /// Requests in the front ends, which share their cores.
    frontends: ProcessorSharing<(u64, usize, ModelRequest)>,
    /// Tokenizes their prompts next.
    tokenizers: FifoServer,
    /// Requests on the way to an engine, by arrival time and order of sending.
    to_engine: BTreeMap<(Timestamp, u64), (usize, ModelRequest)>,
    /// Events on the way to the client: one queue per replica, then one for rejections.
    to_client: Vec<OutputQueue>,
    /// Whether every token ends a call of `next_event`, not only the last of a request.
    watches_tokens: bool,
    /// Replicas by the end of their step, or the time at which they wake.
    steps: Agenda,
    /// Output queues by their first event.
    outputs: Agenda,
    /// Output queues by their first event that ends a call of `next_event`.
    watched: Agenda,
    /// Replicas that may start a step.
    startable: Vec<usize>,
    /// Numbers requests and events, which keeps the order of simultaneous ones.
    sequence: u64,
    /// The replica of each request in flight.
    owner: HashMap<usize, usize>,
    tokens: Vec<TokenEvent>,
}

/// Events on the way from one replica to the client, by time.
#[derive(Debug, Clone, Default)]
struct OutputQueue {
    events: VecDeque<ClientEvent>,
    /// Times of the last events of requests.
    ends: VecDeque<Timestamp>,
}

impl OutputQueue {
    fn push(&mut self, event: ClientEvent) {
        self.ends.extend(event.is_last().then_some(event.at));
        self.events.push_back(event);
    }

    fn first(&self) -> Option<Timestamp> {
        self.events.front().map(|event| event.at)
    }

    /// Moves the events up to `now` to `to`.
    fn drain_until(&mut self, now: Timestamp, to: &mut Vec<ClientEvent>) {
        let count = self.events.partition_point(|event| event.at <= now);
        to.extend(self.events.drain(..count));
        self.ends.drain(..self.ends.partition_point(|at| *at <= now));
    }

    fn remove(&mut self, request: usize) {
        self.events.retain(|event| event.request != request);
        self.ends = self.events.iter().filter(|event| event.is_last()).map(|event| event.at).collect();
    }
}

struct Replica {
    engine: Engine,
    step_ends: Option<Timestamp>,
    /// When its front end has sent all tokens of earlier steps.
    sent_until: Timestamp,
}

impl Replica {
    /// Starts a step, unless one is running or there is nothing to do.
    fn start_step(&mut self, now: Timestamp) {
        if self.step_ends.is_none() {
            self.step_ends = self.engine.begin_step(now).map(|step| now + step.takes);
        }
    }
}

impl<'a> Cluster<'a> {
    pub fn new(machine: &'a Machine, replicas: usize, router: Router, seed: u64) -> Result<Self, Error> {
        let replica = |number: usize| {
            let mut engine = Engine::new(machine.engine.clone(), machine.cost)?;
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
            engine.set_noise(machine.noise, machine.slowdown.as_ref(), seed);
            Ok(Replica { engine, step_ends: None, sent_until: Timestamp::ZERO })
        };
        let replicas: Vec<Replica> = (0..replicas.max(1)).map(replica).collect::<Result<_, Error>>()?;
        Ok(Cluster {
            machine,
            now: Timestamp::ZERO,
            frontends: ProcessorSharing::new(machine.front.shared_cpu(), replicas.len()),
            tokenizers: FifoServer::new(replicas.len()),
            outstanding: vec![0; replicas.len()],
            to_client: vec![OutputQueue::default(); replicas.len() + 1],
            watches_tokens: false,
            steps: Agenda::new(replicas.len()),
            outputs: Agenda::new(replicas.len() + 1),
            watched: Agenda::new(replicas.len() + 1),
            startable: Vec::new(),
            replicas,
            routing: Routing::new(router),
            to_engine: BTreeMap::new(),
            sequence: 0,
            owner: HashMap::new(),
            tokens: Vec::new(),
        })
    }

    /// The time of the last call of [`Cluster::advance`].
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Makes every token an event. Otherwise only the last token of a request is one: earlier ones are delivered with
    /// the next event.
    pub fn watch_tokens(&mut self) {
        self.watches_tokens = true;
        (0..self.to_client.len()).for_each(|queue| self.plan_output(queue));
    }

    /// Time of the next event, unless a request is sent before.
    pub fn next_event(&self) -> Option<Timestamp> {
        let to_engine = self.to_engine.keys().next().map(|(at, _)| *at);
        [self.steps.next(), self.frontends.next(), to_engine, self.watched.next()].into_iter().flatten().min()
    }

    fn plan_step(&mut self, replica: usize) {
        let Replica { engine, step_ends, .. } = &self.replicas[replica];
        self.steps.set(replica, step_ends.or_else(|| engine.wakes()));
    }

    fn plan_output(&mut self, queue: usize) {
        let (first, end) = (self.to_client[queue].first(), self.to_client[queue].ends.front().copied());
        self.outputs.set(queue, first);
        self.watched.set(queue, if self.watches_tokens { first } else { end });
    }

    pub fn send(&mut self, index: usize, request: ModelRequest, now: Timestamp) {
        self.sequence += 1;
        if self.machine.front.shared_cpu().is_zero() {
            self.tokenize(self.sequence, index, request, now);
            return;
        }
        self.drain_frontends(now);
        self.frontends.enter((self.sequence, index, request), now);
    }

    /// Passes on the requests that leave the front ends by `now`.
    fn drain_frontends(&mut self, now: Timestamp) {
        while let Some(((sequence, index, request), at)) = self.frontends.leave(now) {
            self.tokenize(sequence, index, request, at);
        }
    }

    fn tokenize(&mut self, sequence: u64, index: usize, request: ModelRequest, at: Timestamp) {
        let front = &self.machine.front;
        let arrives = self.tokenizers.serve(at, front.tokenization(request.prompt.len())) + front.unshared();
        self.to_engine.insert((arrives, sequence), (index, request));
    }

    /// Cancels a request; it has no further events.
    pub fn cancel(&mut self, index: usize) {
        self.drain_frontends(self.now);
        self.frontends.retain(self.now, |(_, other, _)| *other != index);
        self.to_engine.retain(|_, (other, _)| *other != index);
        for queue in 0..self.to_client.len() {
            self.to_client[queue].remove(index);
            self.plan_output(queue);
        }
        if let Some(owner) = self.owner.remove(&index) {
            self.outstanding[owner] -= 1;
            self.replicas[owner].engine.cancel(&[SeqId(index as u64)]);
            self.plan_step(owner);
            self.startable.push(owner);
        }
    }

    /// Ends the steps that are over at `now` and appends the events up to then.
    pub fn advance(&mut self, now: Timestamp, events: &mut Vec<ClientEvent>) {
        self.now = self.now.max(now);
        for replica in self.steps.take_until(now) {
            if self.replicas[replica].step_ends.is_some() {
                self.end_step(replica, now);
            }
            self.startable.push(replica);
        }
        let first = events.len();
        let sources = self.outputs.take_until(now);
        for queue in &sources {
            self.to_client[*queue].drain_until(now, events);
            self.plan_output(*queue);
        }
        if sources.len() > 1 {
            events[first..].sort_unstable_by_key(|event| (event.at, event.sequence));
        }
    }

    fn end_step(&mut self, number: usize, now: Timestamp) {
        let replica = &mut self.replicas[number];
        replica.step_ends = None;
        replica.engine.end_step(now, &mut self.tokens);
        let spacing = Duration::from_nanos(self.machine.front.per_token_ns.round() as u64);
        for token in self.tokens.drain(..) {
            let (request, last) = (token.id.0 as usize, token.finish.is_some());
            replica.sent_until = replica.sent_until.max(now) + spacing;
            self.sequence += 1;
            let (at, kind) = (replica.sent_until, ClientEventKind::Token { last });
            self.to_client[number].push(ClientEvent { request, at, kind, sequence: self.sequence });
            if last {
                self.owner.remove(&request);
                self.outstanding[number] -= 1;
            }
        }
        self.plan_output(number);
    }

    /// Hands requests that have arrived by `now` to the engines and starts steps. An idle engine starts with the first of
    /// several simultaneous requests alone.
    pub fn start_steps(&mut self, now: Timestamp) {
        self.drain_frontends(now);
        while let Some(first) = self.to_engine.first_entry().filter(|first| first.key().0 <= now) {
            let (index, request) = first.remove();
            let replica = self.routing.choose(&request.prompt, &self.outstanding);
            self.submit(replica, index, request, now);
            self.start_step(replica, now);
        }
        for replica in std::mem::take(&mut self.startable) {
            self.start_step(replica, now);
        }
    }

    fn start_step(&mut self, replica: usize, now: Timestamp) {
        self.replicas[replica].start_step(now);
        self.plan_step(replica);
    }

    fn submit(&mut self, replica: usize, index: usize, request: ModelRequest, now: Timestamp) {
        let job = Job { priority: request.priority, ..Job::generate(request.prompt, request.output, Finish::Length) };
        match self.replicas[replica].engine.submit(SeqId(index as u64), job, now) {
            Ok(()) => {
                self.outstanding[replica] += 1;
                self.owner.insert(index, replica);
            }
            Err(refusal) => {
                self.sequence += 1;
                let kind = ClientEventKind::Rejected(refusal.to_string());
                let rejections = self.to_client.len() - 1;
                self.to_client[rejections].push(ClientEvent { request: index, at: now, kind, sequence: self.sequence });
                self.plan_output(rejections);
            }
        }
    }
}
