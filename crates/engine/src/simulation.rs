//! Discrete-event simulation of requests in virtual time: one engine, or several behind a router.

mod agenda;
mod cluster;
mod router;

use std::{collections::VecDeque, sync::Arc};

use tacho_core::Timestamp;

use crate::{Tokens, error::Error, machine::Machine};

pub use cluster::{ClientEvent, ClientEventKind, Cluster, ModelRequest};
pub use router::Router;

#[derive(Debug, Clone)]
pub struct Arrival {
    pub due: Timestamp,
    pub prompt: Arc<[u32]>,
    pub output: usize,
    pub priority: i64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completion {
    /// When it was sent; later than scheduled if it waited for a concurrency slot.
    pub sent: Timestamp,
    /// Times of its tokens; empty if it was rejected.
    pub tokens: Vec<Timestamp>,
    pub rejected: Option<String>,
}

/// How requests are sent, and to how many replicas.
#[derive(Debug, Clone, Copy)]
pub struct SendPolicy {
    pub max_concurrency: Option<usize>,
    pub replicas: usize,
    pub router: Router,
    pub seed: u64,
}

pub fn simulate(machine: &Machine, arrivals: &[Arrival], policy: &SendPolicy) -> Result<Vec<Completion>, Error> {
    let mut cluster = Cluster::new(machine, policy.replicas, policy.router, policy.seed)?;
    let mut order: Vec<usize> = (0..arrivals.len()).collect();
    order.sort_by_key(|index| arrivals[*index].due);
    let mut order: VecDeque<usize> = order.into();
    let mut completions = vec![Completion::default(); arrivals.len()];
    let (mut events, mut in_flight) = (Vec::new(), 0);
    let has_slot = |in_flight: usize| policy.max_concurrency.is_none_or(|limit| in_flight < limit);
    loop {
        let due = order.front().filter(|_| has_slot(in_flight)).map(|index| arrivals[*index].due);
        let Some(now) = due.into_iter().chain(cluster.next_event()).min() else { return Ok(completions) };
        let now = now.max(cluster.now());
        cluster.advance(now, &mut events);
        for event in events.drain(..) {
            in_flight -= usize::from(event.is_last());
            let completion = &mut completions[event.request];
            match event.kind {
                ClientEventKind::Token { .. } => completion.tokens.push(event.at),
                ClientEventKind::Rejected(reason) => completion.rejected = Some(reason),
            }
        }
        while has_slot(in_flight)
            && let Some(index) = order.front().copied().filter(|index| arrivals[*index].due <= now)
        {
            order.pop_front();
            in_flight += 1;
            completions[index].sent = now;
            cluster.send(index, model_request(index, &arrivals[index]), now);
        }
        cluster.start_steps(now);
    }
}

/// Outputs differ between requests, so that only prompts share prefixes.
fn model_request(index: usize, arrival: &Arrival) -> ModelRequest {
    let count = arrival.output;
    let output = Tokens::later(count, move || (0..count as u32).map(|place| place ^ (index as u32) << 8).collect());
    ModelRequest { prompt: Arc::clone(&arrival.prompt), output, priority: arrival.priority }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Front, Profile};

    fn arrivals(count: usize, gap_ms: u64) -> Vec<Arrival> {
        let one = |at: usize| Arrival {
            due: Timestamp(at as u64 * gap_ms * 1_000_000),
            prompt: (0..100u32).map(|id| id + 1000 * at as u32).collect(),
            output: 20,
            priority: 0,
        };
        (0..count).map(one).collect()
    }

    const POLICY: SendPolicy = SendPolicy { max_concurrency: None, replicas: 1, router: Router::RoundRobin, seed: 1 };

    #[test]
    fn one_request_takes_the_time_of_its_steps() {
        let machine = Machine::from(Profile::Tiny);
        let completions = simulate(&machine, &arrivals(1, 0), &POLICY).unwrap();
        // 1 ms, 2 us per prompt token, 5 us per sequence, 1 ns per token of context.
        assert_eq!(completions[0].tokens[0], Timestamp(1_000_000 + 200_000 + 5_000 + 100));
        assert_eq!(completions[0].tokens.len(), 20);
        assert_eq!(completions[0].tokens[1].0 - completions[0].tokens[0].0, 1_000_000 + 5_000 + 101);
    }

    #[test]
    fn a_limit_holds_requests_back_and_replicas_share_them() {
        let machine = Machine::from(Profile::Tiny);
        let completions =
            simulate(&machine, &arrivals(3, 0), &SendPolicy { max_concurrency: Some(1), ..POLICY }).unwrap();
        assert_eq!(completions[1].sent, *completions[0].tokens.last().unwrap());
        let one = simulate(&machine, &arrivals(64, 0), &POLICY).unwrap();
        for router in [Router::RoundRobin, Router::LeastLoaded, Router::PrefixAware] {
            let two = simulate(&machine, &arrivals(64, 0), &SendPolicy { replicas: 2, router, ..POLICY }).unwrap();
            let end =
                |completions: &[Completion]| completions.iter().filter_map(|one| one.tokens.last()).max().copied();
            assert!(end(&two) < end(&one), "{router:?}");
        }
    }

    #[test]
    fn noise_keeps_the_mean_and_repeats_by_seed() {
        let machine = Machine { noise: 0.1, ..Machine::from(Profile::Tiny) };
        let long = vec![Arrival { output: 4000, ..arrivals(1, 0)[0].clone() }];
        let end = |seed: u64| {
            let completions = simulate(&machine, &long, &SendPolicy { seed, ..POLICY }).unwrap();
            completions[0].tokens.last().unwrap().secs()
        };
        let quiet = simulate(&Machine::from(Profile::Tiny), &long, &POLICY).unwrap()[0].tokens.last().unwrap().secs();
        assert_eq!(end(1), end(1));
        assert_ne!(end(1), end(2));
        assert!((end(1) / quiet - 1.0).abs() < 0.01);
    }

    #[test]
    fn tokens_of_a_step_are_sent_one_after_another() {
        let mut machine = Machine::from(Profile::Tiny);
        machine.front.per_token_ns = 1e4;
        let completions = simulate(&machine, &arrivals(3, 0), &POLICY).unwrap();
        // The third step: the first request was alone in the first one.
        let third = [completions[0].tokens[2].0, completions[1].tokens[1].0, completions[2].tokens[1].0];
        assert_eq!((third[1] - third[0], third[2] - third[1]), (10_000, 10_000));
    }

    #[test]
    fn an_idle_engine_starts_with_the_first_of_simultaneous_requests() {
        let machine = Machine::from(Profile::Tiny);
        let alone = simulate(&machine, &arrivals(1, 0), &POLICY).unwrap()[0].tokens[0];
        let completions = simulate(&machine, &arrivals(3, 0), &POLICY).unwrap();
        let first: Vec<Timestamp> = completions.iter().map(|one| one.tokens[0]).collect();
        assert_eq!((first[0], first[1]), (alone, completions[0].tokens[1]));
        assert_eq!(first[1], first[2], "the others are in the next step together");
    }

    #[test]
    fn simultaneous_requests_share_the_cores_of_the_front_end() {
        let mut machine = Machine::from(Profile::Instant);
        machine.front = Front { per_request_ns: 5e6, shared_cpu_ns: 1e6, ..Front::default() };
        let first = |arrivals: &[Arrival], replicas: usize| -> Vec<u64> {
            let completions = simulate(&machine, arrivals, &SendPolicy { replicas, ..POLICY }).unwrap();
            completions.iter().map(|one| one.tokens[0].0).collect()
        };
        assert_eq!(first(&arrivals(1, 0), 1), [5_000_000], "alone as without");
        assert_eq!(first(&arrivals(10, 0), 1), [14_000_000; 10], "ten in turn, and four for each");
        assert_eq!(first(&arrivals(10, 0), 2), [9_000_000; 10], "two front ends");
        assert_eq!(first(&arrivals(3, 6), 1), [5_000_000, 11_000_000, 17_000_000]);
        machine.front.shared_cpu_ns = 8e6;
        let completions = simulate(&machine, &arrivals(1, 0), &POLICY).unwrap();
        assert_eq!(completions[0].tokens[0], Timestamp(8_000_000), "no rest below zero");
    }

    #[test]
    fn cancelled_requests_release_the_front_end() {
        let mut machine = Machine::from(Profile::Instant);
        machine.front = Front { shared_cpu_ns: 1e6, ..Front::default() };
        let mut cluster = Cluster::new(&machine, 1, Router::RoundRobin, 1).unwrap();
        let arrivals = arrivals(2, 0);
        (0..2).for_each(|at| cluster.send(at, model_request(at, &arrivals[at]), Timestamp::ZERO));
        cluster.start_steps(Timestamp::ZERO);
        assert_eq!(cluster.next_event(), Some(Timestamp(2_000_000)));
        cluster.advance(Timestamp(1_000_000), &mut Vec::new());
        cluster.cancel(0);
        assert_eq!(cluster.next_event(), Some(Timestamp(1_500_000)));
    }

    #[test]
    fn requests_that_can_never_run_are_rejected() {
        let mut machine = Machine::from(Profile::Tiny);
        machine.engine.max_model_len = 50;
        let completions = simulate(&machine, &arrivals(2, 0), &POLICY).unwrap();
        assert!(completions.iter().all(|one| one.rejected.is_some() && one.tokens.is_empty()));
    }
}
