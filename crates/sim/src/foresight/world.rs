//! Engines and the ways to and from them, moved from one moment to the next by whoever sends requests.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tacho_core::Stamp;

use super::router::{Router, Routing};
use crate::crowd::Crowd;
use crate::engine::{Engine, Finish, Job, SeqId, TokenEvent, Tokens};
use crate::error::Error;
use crate::machine::Machine;
use crate::reader::Reader;

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
    /// Tells what comes together in the order in which it was sent.
    count: u64,
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
    /// In the front ends, each with a core; nobody where the core is all theirs.
    crowd: Crowd<(u64, usize, Ask)>,
    /// Then their prompts are read.
    reader: Reader,
    /// On the way to an engine, by when they get there and in the order they were sent.
    inward: BTreeMap<(Stamp, u64), (usize, Ask)>,
    /// On the way to the client, from each engine in the order of when; refusals last.
    outward: Vec<Lane>,
    /// Whether every token is an event.
    watched: bool,
    /// Counts what is sent and heard, so that what comes together keeps its order.
    count: u64,
    owner: HashMap<usize, usize>,
    events: Vec<TokenEvent>,
}

/// What is on its way to the client from one engine, in the order of when.
#[derive(Debug, Clone, Default)]
struct Lane {
    heard: VecDeque<Heard>,
    /// When requests are over.
    over: VecDeque<Stamp>,
}

impl Lane {
    fn push(&mut self, heard: Heard) {
        self.over.extend(heard.is_last().then_some(heard.when));
        self.heard.push_back(heard);
    }

    /// When the next event is.
    fn next(&self, watched: bool) -> Option<Stamp> {
        match watched {
            true => self.heard.front().map(|heard| heard.when),
            false => self.over.front().copied(),
        }
    }

    /// Moves what has come by `now`, if anything has.
    fn come(&mut self, now: Stamp, to: &mut Vec<Heard>) -> Option<()> {
        let count = self.heard.partition_point(|heard| heard.when <= now);
        to.extend(self.heard.drain(..count));
        self.over.drain(..self.over.partition_point(|when| *when <= now));
        (count > 0).then_some(())
    }

    fn forget(&mut self, at: usize) {
        self.heard.retain(|heard| heard.at != at);
        self.over = self.heard.iter().filter(|heard| heard.is_last()).map(|heard| heard.when).collect();
    }
}

struct Replica {
    engine: Engine,
    /// When the step under way ends.
    ends: Option<Stamp>,
    /// When its front end has sent all tokens of the steps before.
    clear: Stamp,
}

impl Replica {
    /// Begins a step, unless one is under way or there is nothing to do.
    fn begin(&mut self, now: Stamp) {
        if self.ends.is_none() {
            self.ends = self.engine.begin_step(now).map(|step| now + step.takes);
        }
    }
}

impl<'a> World<'a> {
    /// Idle engines.
    ///
    /// # Errors
    /// When the machine's limits contradict each other.
    pub fn new(machine: &'a Machine, replicas: usize, router: Router, seed: u64) -> Result<Self, Error> {
        let replica = |number: usize| {
            let mut engine = Engine::new(machine.engine.clone(), machine.cost)?;
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
            engine.set_noise(machine.noise, machine.pace.as_ref(), seed);
            Ok(Replica { engine, ends: None, clear: Stamp::ZERO })
        };
        let replicas: Vec<Replica> = (0..replicas.max(1)).map(replica).collect::<Result<_, Error>>()?;
        Ok(World {
            machine,
            now: Stamp::ZERO,
            crowd: Crowd::new(machine.front.together(), replicas.len()),
            reader: Reader::new(replicas.len()),
            outstanding: vec![0; replicas.len()],
            outward: vec![Lane::default(); replicas.len() + 1],
            watched: false,
            replicas,
            routing: Routing::new(router),
            inward: BTreeMap::new(),
            count: 0,
            owner: HashMap::new(),
            events: Vec::new(),
        })
    }

    /// The moment it was last moved to.
    pub fn now(&self) -> Stamp {
        self.now
    }

    /// Makes every token an event. Otherwise only the last of a request is one: those before are heard with what follows.
    pub fn watch_tokens(&mut self) {
        self.watched = true;
    }

    /// When something happens next, unless something is sent before.
    pub fn next_event(&self) -> Option<Stamp> {
        let ends = self.replicas.iter().filter_map(|replica| replica.ends.or_else(|| replica.engine.wakes())).min();
        let inward = self.inward.keys().next().map(|(at, _)| *at);
        let outward = self.outward.iter().filter_map(|lane| lane.next(self.watched)).min();
        [ends, self.crowd.next(), inward, outward].into_iter().flatten().min()
    }

    /// Sends a request at `now`.
    pub fn send(&mut self, at: usize, ask: Ask, now: Stamp) {
        self.count += 1;
        if self.machine.front.together().is_zero() {
            self.take_in(self.count, at, ask, now);
            return;
        }
        self.let_through(now);
        self.crowd.enter((self.count, at, ask), now);
    }

    /// Sends those on their way whom the cores are through with by `now`.
    fn let_through(&mut self, now: Stamp) {
        while let Some(((count, at, ask), when)) = self.crowd.leave(now) {
            self.take_in(count, at, ask, when);
        }
    }

    /// Reads a prompt after those before it, and sends it on its way.
    fn take_in(&mut self, count: u64, at: usize, ask: Ask, when: Stamp) {
        let front = &self.machine.front;
        let arrives = self.reader.read(when, front.reads(ask.prompt.len())) + front.rest();
        self.inward.insert((arrives, count), (at, ask));
    }

    /// The client leaves: nothing more is heard of its request.
    pub fn cancel(&mut self, at: usize) {
        self.let_through(self.now);
        self.crowd.retain(self.now, |(_, one, _)| *one != at);
        self.inward.retain(|_, (one, _)| *one != at);
        self.outward.iter_mut().for_each(|lane| lane.forget(at));
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
        let first = heard.len();
        let lanes = self.outward.iter_mut().filter_map(|lane| lane.come(now, heard)).count();
        if lanes > 1 {
            heard[first..].sort_unstable_by_key(|heard| (heard.when, heard.count));
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
            let heard = Heard { at, when: replica.clear, what: What::Token { last }, count: self.count };
            self.outward[number].push(heard);
            if last {
                self.owner.remove(&at);
                self.outstanding[number] -= 1;
            }
        }
    }

    /// Hands over what has reached the engines by `now`, and lets those that rest begin a step. Requests that come
    /// together come one after the other, and no engine that rests waits for the second: it begins with the first.
    pub fn go_on(&mut self, now: Stamp) {
        self.let_through(now);
        while let Some(first) = self.inward.first_entry().filter(|first| first.key().0 <= now) {
            let (at, ask) = first.remove();
            let to = self.routing.choose(&ask.prompt, &self.outstanding);
            self.submit(to, at, ask, now);
            self.replicas[to].begin(now);
        }
        self.replicas.iter_mut().for_each(|replica| replica.begin(now));
    }

    fn submit(&mut self, to: usize, at: usize, ask: Ask, now: Stamp) {
        let job = Job { priority: ask.priority, ..Job::generate(ask.prompt, ask.output, Finish::Length) };
        match self.replicas[to].engine.submit(SeqId(at as u64), job, now) {
            Ok(()) => {
                self.outstanding[to] += 1;
                self.owner.insert(at, to);
            }
            Err(refusal) => {
                self.count += 1;
                let what = What::Refused(refusal.to_string());
                let heard = Heard { at, when: now, what, count: self.count };
                let refusals = self.outward.len() - 1;
                self.outward[refusals].push(heard);
            }
        }
    }
}
