//! Engines and the ways to and from them, moved from one moment to the next by whoever sends requests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tacho_core::Stamp;

use super::router::{Router, Routing};
use crate::engine::{Engine, Finish, Job, SeqId, TokenEvent, Tokens};
use crate::error::Error;
use crate::machine::Machine;

/// What is asked of an engine.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The prompt.
    pub prompt: Arc<[u32]>,
    /// The tokens that will come out.
    pub output: Tokens,
    /// The least is served first, where the policy looks at it.
    pub priority: i64,
}

/// What a client hears of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Which request.
    pub at: usize,
    /// When.
    pub when: Stamp,
    /// What.
    pub what: What,
}

/// A token, or that there will be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A token.
    Token {
        /// Whether it was the last.
        last: bool,
    },
    /// The request can never run, and why.
    Refused(String),
}

impl Heard {
    /// Whether nothing follows.
    pub fn is_last(&self) -> bool {
        !matches!(self.what, What::Token { last: false })
    }
}

/// Engines on a clock that their user moves: [`World::hear`] ends what is over, requests are sent, and
/// [`World::go_on`] lets the engines begin what follows.
pub struct World<'a> {
    machine: &'a Machine,
    now: Stamp,
    replicas: Vec<Replica>,
    outstanding: Vec<usize>,
    routing: Routing,
    /// On the way to an engine, by when they get there and in the order they were sent.
    inward: BTreeMap<(Stamp, u64), (usize, Ask)>,
    /// On the way to the client.
    outward: BTreeMap<(Stamp, u64), Heard>,
    /// Counts what is sent and heard, so that what comes together keeps its order.
    count: u64,
    owner: HashMap<usize, usize>,
    events: Vec<TokenEvent>,
}

struct Replica {
    engine: Engine,
    /// When the step under way ends.
    ends: Option<Stamp>,
    /// When its front end has sent all tokens of the steps before.
    clear: Stamp,
}

impl<'a> World<'a> {
    /// Idle engines.
    ///
    /// # Errors
    /// When the machine's limits contradict each other.
    pub fn new(machine: &'a Machine, replicas: usize, router: Router, seed: u64) -> Result<Self, Error> {
        let replica = |number: usize| {
            let mut engine = Engine::new(machine.engine.clone(), machine.cost)?;
            engine.set_noise(machine.noise, seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
            Ok(Replica { engine, ends: None, clear: Stamp::ZERO })
        };
        let replicas: Vec<Replica> = (0..replicas.max(1)).map(replica).collect::<Result<_, Error>>()?;
        Ok(World {
            machine,
            now: Stamp::ZERO,
            outstanding: vec![0; replicas.len()],
            replicas,
            routing: Routing::new(router),
            inward: BTreeMap::new(),
            outward: BTreeMap::new(),
            count: 0,
            owner: HashMap::new(),
            events: Vec::new(),
        })
    }

    /// The moment it was last moved to.
    pub fn now(&self) -> Stamp {
        self.now
    }

    /// When something happens next, unless something is sent before.
    pub fn next_event(&self) -> Option<Stamp> {
        let ends = self.replicas.iter().filter_map(|replica| replica.ends.or_else(|| replica.engine.wakes())).min();
        let inward = self.inward.keys().next().map(|(at, _)| *at);
        let outward = self.outward.keys().next().map(|(at, _)| *at);
        [ends, inward, outward].into_iter().flatten().min()
    }

    /// Sends a request at `now`.
    pub fn send(&mut self, at: usize, ask: Ask, now: Stamp) {
        self.count += 1;
        let arrives = now + self.machine.front.takes(ask.prompt.len());
        self.inward.insert((arrives, self.count), (at, ask));
    }

    /// The client leaves: nothing more is heard of its request.
    pub fn cancel(&mut self, at: usize) {
        self.inward.retain(|_, (one, _)| *one != at);
        self.outward.retain(|_, heard| heard.at != at);
        if let Some(owner) = self.owner.remove(&at) {
            self.outstanding[owner] -= 1;
            self.replicas[owner].engine.cancel(&[SeqId(at as u64)]);
        }
    }

    /// Ends the steps that are over at `now` and appends what has been heard until then.
    pub fn hear(&mut self, now: Stamp, heard: &mut Vec<Heard>) {
        self.now = self.now.max(now);
        for number in 0..self.replicas.len() {
            if self.replicas[number].ends.is_some_and(|ends| ends <= now) {
                self.end_step(number, now);
            }
        }
        while let Some(first) = self.outward.first_entry().filter(|first| first.key().0 <= now) {
            heard.push(first.remove());
        }
    }

    fn end_step(&mut self, number: usize, now: Stamp) {
        let replica = &mut self.replicas[number];
        replica.ends = None;
        replica.engine.end_step(now, &mut self.events);
        let apart = Duration::from_nanos(self.machine.front.per_token_ns.round() as u64);
        for event in self.events.drain(..) {
            let (at, last) = (event.id.0 as usize, event.finish.is_some());
            replica.clear = replica.clear.max(now) + apart;
            self.count += 1;
            let heard = Heard { at, when: replica.clear, what: What::Token { last } };
            self.outward.insert((replica.clear, self.count), heard);
            if last {
                self.owner.remove(&at);
                self.outstanding[number] -= 1;
            }
        }
    }

    /// Hands over what has reached the engines by `now`, and lets those that rest begin a step.
    pub fn go_on(&mut self, now: Stamp) {
        while let Some(first) = self.inward.first_entry().filter(|first| first.key().0 <= now) {
            let (at, ask) = first.remove();
            self.submit(at, ask, now);
        }
        for replica in self.replicas.iter_mut().filter(|replica| replica.ends.is_none()) {
            replica.ends = replica.engine.begin_step(now).map(|step| now + step.takes);
        }
    }

    fn submit(&mut self, at: usize, ask: Ask, now: Stamp) {
        let to = self.routing.choose(&ask.prompt, &self.outstanding);
        let job = Job { priority: ask.priority, ..Job::generate(ask.prompt, ask.output, Finish::Length) };
        match self.replicas[to].engine.submit(SeqId(at as u64), job, now) {
            Ok(()) => {
                self.outstanding[to] += 1;
                self.owner.insert(at, to);
            }
            Err(refusal) => {
                self.count += 1;
                let heard = Heard { at, when: now, what: What::Refused(refusal.to_string()) };
                self.outward.insert((now, self.count), heard);
            }
        }
    }
}
