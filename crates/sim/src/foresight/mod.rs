//! The engine on a clock of its own: requests in, the times of their tokens out, as fast as the machine computes. One
//! engine, or several behind a router.

mod router;
mod world;

use std::collections::VecDeque;
use std::sync::Arc;

use tacho_core::Stamp;

use crate::engine::Tokens;
use crate::error::Error;
use crate::machine::Machine;

pub use router::Router;
pub use world::{Ask, Heard, What, World};

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
    let mut world = World::new(machine, sending.replicas, sending.router, sending.seed)?;
    let mut order: Vec<usize> = (0..coming.len()).collect();
    order.sort_by_key(|at| coming[*at].due);
    let mut order: VecDeque<usize> = order.into();
    let mut gone = vec![Gone::default(); coming.len()];
    let (mut heard, mut under_way) = (Vec::new(), 0);
    loop {
        let free = sending.limit.is_none_or(|limit| under_way < limit);
        let due = order.front().filter(|_| free).map(|at| coming[*at].due);
        let Some(now) = due.into_iter().chain(world.next_event()).min() else { return Ok(gone) };
        let now = now.max(world.now());
        world.hear(now, &mut heard);
        for heard in heard.drain(..) {
            let one = &mut gone[heard.at];
            under_way -= usize::from(heard.is_last());
            match heard.what {
                What::Token { .. } => one.tokens.push(heard.when),
                What::Refused(why) => one.refused = Some(why),
            }
        }
        while sending.limit.is_none_or(|limit| under_way < limit)
            && let Some(at) = order.front().copied().filter(|at| coming[*at].due <= now)
        {
            order.pop_front();
            under_way += 1;
            gone[at].sent = now;
            world.send(at, ask(at, &coming[at]), now);
        }
        world.go_on(now);
    }
}

/// What comes out is told apart by request, so that only true prefixes are shared.
fn ask(at: usize, coming: &Coming) -> Ask {
    let count = coming.output;
    let output = Tokens::later(count, move || (0..count as u32).map(|place| place ^ (at as u32) << 8).collect());
    Ask { prompt: Arc::clone(&coming.prompt), output, priority: coming.priority }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CostModel, Front, Profile};

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
    fn tokens_of_a_step_leave_one_after_the_other() {
        let mut machine = Machine::from(Profile::Tiny);
        machine.front.per_token_ns = 1e4;
        let gone = foresee(&machine, &coming(3, 0), &SENDING).unwrap();
        // The third step: the first request came alone into the first one.
        let third = [gone[0].tokens[2].0, gone[1].tokens[1].0, gone[2].tokens[1].0];
        assert_eq!((third[1] - third[0], third[2] - third[1]), (10_000, 10_000));
    }

    #[test]
    fn an_engine_that_rests_begins_with_the_first_of_those_that_come_together() {
        let machine = Machine::from(Profile::Tiny);
        let alone = foresee(&machine, &coming(1, 0), &SENDING).unwrap()[0].tokens[0];
        let gone = foresee(&machine, &coming(3, 0), &SENDING).unwrap();
        let first: Vec<Stamp> = gone.iter().map(|one| one.tokens[0]).collect();
        assert_eq!((first[0], first[1]), (alone, gone[0].tokens[1]));
        assert_eq!(first[1], first[2], "the others are in the next step together");
    }

    #[test]
    fn requests_that_come_together_share_a_core_of_the_front_end() {
        let mut machine = Machine::from(Profile::Instant);
        machine.front = Front { per_request_ns: 5e6, together_ns: 1e6, ..Front::default() };
        let first = |coming: &[Coming], replicas: usize| -> Vec<u64> {
            let gone = foresee(&machine, coming, &Sending { replicas, ..SENDING }).unwrap();
            gone.iter().map(|one| one.tokens[0].0).collect()
        };
        assert_eq!(first(&coming(1, 0), 1), [5_000_000], "alone as without");
        assert_eq!(first(&coming(10, 0), 1), [14_000_000; 10], "ten in turn, and four for each");
        assert_eq!(first(&coming(10, 0), 2), [9_000_000; 10], "two front ends");
        assert_eq!(first(&coming(3, 6), 1), [5_000_000, 11_000_000, 17_000_000]);
        machine.front.together_ns = 8e6;
        let gone = foresee(&machine, &coming(1, 0), &SENDING).unwrap();
        assert_eq!(gone[0].tokens[0], Stamp(8_000_000), "no rest below zero");
    }

    #[test]
    fn who_leaves_the_front_end_leaves_its_core_to_others() {
        let mut machine = Machine::from(Profile::Instant);
        machine.front = Front { together_ns: 1e6, ..Front::default() };
        let mut world = World::new(&machine, 1, Router::RoundRobin, 1).unwrap();
        let coming = coming(2, 0);
        (0..2).for_each(|at| world.send(at, ask(at, &coming[at]), Stamp::ZERO));
        world.go_on(Stamp::ZERO);
        assert_eq!(world.next_event(), Some(Stamp(2_000_000)));
        world.hear(Stamp(1_000_000), &mut Vec::new());
        world.cancel(0);
        assert_eq!(world.next_event(), Some(Stamp(1_500_000)));
    }

    #[test]
    fn an_engine_that_prepares_ahead_takes_the_times_of_its_turns() {
        let mut machine = Machine::from(Profile::Tiny);
        machine.cost = CostModel { fixed_ns: 12e6, prepare_ns: 30e6, ..CostModel::FREE };
        machine.engine.async_scheduling = true;
        let mut coming = coming(2, 45);
        (coming[0].output, coming[1].output) = (7, 2);
        let gone = foresee(&machine, &coming, &SENDING).unwrap();
        let tokens = |at: usize| gone[at].tokens.iter().map(|when| when.0 / 1_000_000).collect::<Vec<_>>();
        assert_eq!((tokens(0), tokens(1)), (vec![30, 42, 54, 84, 84, 96, 108], vec![84, 96]));
    }

    #[test]
    fn what_can_never_run_is_said_so() {
        let mut machine = Machine::from(Profile::Tiny);
        machine.engine.max_model_len = 50;
        let gone = foresee(&machine, &coming(2, 0), &SENDING).unwrap();
        assert!(gone.iter().all(|one| one.refused.is_some() && one.tokens.is_empty()));
    }
}
