//! The engine on a clock of its own: requests in, the times of their tokens out, as fast as the machine computes. One
//! engine, or several behind a router.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use tacho_core::Stamp;

use crate::engine::{Engine, Finish, Job, SeqId, Tokens};
use crate::error::Error;
use crate::machine::Machine;

/// Tokens of a prompt that a prefix-aware router looks at.
const PREFIX: usize = 256;

/// A request to come.
#[derive(Debug, Clone)]
pub struct Coming {
    /// When it is due.
    pub due: Stamp,
    /// Its prompt.
    pub prompt: Arc<[u32]>,
    /// Tokens that it generates.
    pub output: usize,
    /// Its priority.
    pub priority: i64,
}

/// What became of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gone {
    /// When it was sent: when it was due, or had its slot.
    pub sent: Stamp,
    /// When its tokens came; none where it could never run.
    pub tokens: Vec<Stamp>,
    /// Why it could not.
    pub refused: Option<String>,
}

/// Who gets a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Router {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The one with the fewest requests.
    LeastLoaded,
    /// The one that has had the same beginning, unless it is far busier than others.
    PrefixAware,
}

impl Router {
    /// The names that [`Router::parse`] reads.
    pub const NAMES: [&str; 3] = ["round-robin", "least-loaded", "prefix-aware"];

    /// The router of that name.
    pub fn parse(name: &str) -> Option<Router> {
        [Router::RoundRobin, Router::LeastLoaded, Router::PrefixAware]
            .into_iter()
            .zip(Router::NAMES)
            .find_map(|(router, known)| (known == name).then_some(router))
    }
}

/// How requests are sent.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// Most requests under way.
    pub limit: Option<usize>,
    /// Engines.
    pub replicas: usize,
    /// Who of them gets which.
    pub router: Router,
    /// Seed of the noise.
    pub seed: u64,
}

/// Plays all requests to their end.
///
/// # Errors
/// When the machine's limits contradict each other.
pub fn foresee(machine: &Machine, coming: &[Coming], sending: &Sending) -> Result<Vec<Gone>, Error> {
    let mut world = World::new(machine, coming, sending)?;
    while let Some(now) = world.next() {
        world.advance(now);
    }
    Ok(world.gone)
}

struct Replica {
    engine: Engine,
    /// When the step under way ends.
    ends: Option<Stamp>,
    outstanding: usize,
}

struct World<'a> {
    machine: &'a Machine,
    coming: &'a [Coming],
    sending: &'a Sending,
    replicas: Vec<Replica>,
    /// Requests in the order they are due.
    order: VecDeque<usize>,
    /// Due, without a slot.
    queue: VecDeque<usize>,
    /// On the way to an engine.
    fronted: BinaryHeap<Reverse<(Stamp, usize)>>,
    under_way: usize,
    owner: Vec<usize>,
    turn: usize,
    homes: HashMap<u64, usize>,
    gone: Vec<Gone>,
}

impl<'a> World<'a> {
    fn new(machine: &'a Machine, coming: &'a [Coming], sending: &'a Sending) -> Result<Self, Error> {
        let replica = |number: usize| {
            let mut engine = Engine::new(machine.engine.clone(), machine.cost)?;
            engine.set_noise(machine.noise, sending.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
            Ok(Replica { engine, ends: None, outstanding: 0 })
        };
        let replicas: Vec<Replica> = (0..sending.replicas.max(1)).map(replica).collect::<Result<_, Error>>()?;
        let mut order: Vec<usize> = (0..coming.len()).collect();
        order.sort_by_key(|at| coming[*at].due);
        Ok(World {
            machine,
            coming,
            sending,
            replicas,
            order: order.into(),
            queue: VecDeque::new(),
            fronted: BinaryHeap::new(),
            under_way: 0,
            owner: vec![0; coming.len()],
            turn: 0,
            homes: HashMap::new(),
            gone: vec![Gone::default(); coming.len()],
        })
    }

    /// When something happens next.
    fn next(&self) -> Option<Stamp> {
        let due = self.order.front().map(|at| self.coming[*at].due);
        let fronted = self.fronted.peek().map(|Reverse((at, _))| *at);
        let ends = self.replicas.iter().filter_map(|replica| replica.ends.or_else(|| replica.engine.wakes())).min();
        [due, fronted, ends].into_iter().flatten().min()
    }

    /// Does all that happens at `now`.
    fn advance(&mut self, now: Stamp) {
        while let Some(at) = self.order.front().copied().filter(|at| self.coming[*at].due <= now) {
            self.order.pop_front();
            self.queue.push_back(at);
        }
        self.end_steps(now);
        while self.sending.limit.is_none_or(|limit| self.under_way < limit)
            && let Some(at) = self.queue.pop_front()
        {
            self.under_way += 1;
            self.gone[at].sent = now;
            let arrives = now + self.machine.front.takes(self.coming[at].prompt.len());
            self.fronted.push(Reverse((arrives, at)));
        }
        while let Some(Reverse((_, at))) = self.fronted.peek().copied().filter(|Reverse((then, _))| *then <= now) {
            self.fronted.pop();
            self.submit(at, now);
        }
        for replica in self.replicas.iter_mut().filter(|replica| replica.ends.is_none()) {
            replica.ends = replica.engine.begin_step(now).map(|step| now + step.takes);
        }
    }

    fn end_steps(&mut self, now: Stamp) {
        let mut events = Vec::new();
        for replica in &mut self.replicas {
            if replica.ends.is_some_and(|ends| ends <= now) {
                replica.ends = None;
                replica.engine.end_step(now, &mut events);
            }
        }
        for event in events {
            let at = event.id.0 as usize;
            self.gone[at].tokens.push(now);
            if event.finish.is_some() {
                self.under_way -= 1;
                self.replicas[self.owner[at]].outstanding -= 1;
            }
        }
    }

    fn submit(&mut self, at: usize, now: Stamp) {
        let one = &self.coming[at];
        let to = self.route(&one.prompt);
        self.owner[at] = to;
        let count = one.output;
        // What comes out is told apart by request, so that only true prefixes are shared.
        let output = Tokens::later(count, move || (0..count as u32).map(|place| place ^ (at as u32) << 8).collect());
        let job = Job { priority: one.priority, ..Job::generate(Arc::clone(&one.prompt), output, Finish::Length) };
        match self.replicas[to].engine.submit(SeqId(at as u64), job, now) {
            Ok(()) => self.replicas[to].outstanding += 1,
            Err(refusal) => {
                self.under_way -= 1;
                self.gone[at].refused = Some(refusal.to_string());
            }
        }
    }

    fn route(&mut self, prompt: &[u32]) -> usize {
        let least = (0..self.replicas.len()).min_by_key(|at| self.replicas[*at].outstanding).unwrap_or(0);
        match self.sending.router {
            Router::RoundRobin => {
                self.turn += 1;
                (self.turn - 1) % self.replicas.len()
            }
            Router::LeastLoaded => least,
            Router::PrefixAware => {
                let seen = &prompt[..prompt.len().min(PREFIX)];
                let hash = seen
                    .iter()
                    .fold(0u64, |hash, id| (hash ^ u64::from(*id)).wrapping_mul(0x100_0000_01b3).rotate_left(17));
                let home = *self.homes.entry(hash).or_insert(least);
                let far = self.replicas[home].outstanding > 2 * self.replicas[least].outstanding + 8;
                if far { least } else { home }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    fn coming(count: usize, gap_ms: u64) -> Vec<Coming> {
        let one = |at: usize| Coming {
            due: Stamp(at as u64 * gap_ms * 1_000_000),
            prompt: (0..100u32).map(|id| id + 1000 * at as u32).collect(),
            output: 20,
            priority: 0,
        };
        (0..count).map(one).collect()
    }

    const SENDING: Sending = Sending { limit: None, replicas: 1, router: Router::RoundRobin, seed: 1 };

    #[test]
    fn one_request_takes_what_its_steps_take() {
        let machine = Machine::from(Profile::Tiny);
        let gone = foresee(&machine, &coming(1, 0), &SENDING).unwrap();
        // 1 ms, 2 us per prompt token, 5 us per sequence, 1 ns per token of context.
        assert_eq!(gone[0].tokens[0], Stamp(1_000_000 + 200_000 + 5_000 + 100));
        assert_eq!(gone[0].tokens.len(), 20);
        assert_eq!(gone[0].tokens[1].0 - gone[0].tokens[0].0, 1_000_000 + 5_000 + 101);
    }

    #[test]
    fn a_limit_holds_requests_back_and_replicas_share_them() {
        let machine = Machine::from(Profile::Tiny);
        let gone = foresee(&machine, &coming(3, 0), &Sending { limit: Some(1), ..SENDING }).unwrap();
        assert_eq!(gone[1].sent, *gone[0].tokens.last().unwrap());
        let one = foresee(&machine, &coming(64, 0), &SENDING).unwrap();
        for router in [Router::RoundRobin, Router::LeastLoaded, Router::PrefixAware] {
            let two = foresee(&machine, &coming(64, 0), &Sending { replicas: 2, router, ..SENDING }).unwrap();
            let end = |gone: &[Gone]| gone.iter().filter_map(|one| one.tokens.last()).max().copied();
            assert!(end(&two) < end(&one), "{router:?}");
        }
    }

    #[test]
    fn noise_keeps_the_mean_and_repeats_by_seed() {
        let machine = Machine { noise: 0.1, ..Machine::from(Profile::Tiny) };
        let long = vec![Coming { output: 4000, ..coming(1, 0)[0].clone() }];
        let end = |seed: u64| {
            let gone = foresee(&machine, &long, &Sending { seed, ..SENDING }).unwrap();
            gone[0].tokens.last().unwrap().secs()
        };
        let quiet = foresee(&Machine::from(Profile::Tiny), &long, &SENDING).unwrap()[0].tokens.last().unwrap().secs();
        assert_eq!(end(1), end(1));
        assert_ne!(end(1), end(2));
        assert!((end(1) / quiet - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_can_never_run_is_said_so() {
        let mut machine = Machine::from(Profile::Tiny);
        machine.engine.max_model_len = 50;
        let gone = foresee(&machine, &coming(2, 0), &SENDING).unwrap();
        assert!(gone.iter().all(|one| one.refused.is_some() && one.tokens.is_empty()));
    }
}
