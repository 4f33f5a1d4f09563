//! Properties of any traffic.

use std::collections::HashMap;

use proptest::prelude::*;
use tacho_core::Timestamp;

use crate::*;

#[derive(Debug, Clone)]
enum Action {
    Submit { prompt: usize, family: u32, output: usize },
    Cancel(usize),
    Step,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (1usize..30, 0u32..3, 1usize..12).prop_map(|(prompt, family, output)| Action::Submit { prompt, family, output }),
        1 => any::<usize>().prop_map(Action::Cancel),
        6 => Just(Action::Step),
    ]
}

fn spec() -> impl Strategy<Value = EngineSpec> {
    (1usize..6, 0usize..20, 1usize..5, 11usize..24, any::<bool>(), any::<bool>()).prop_map(
        |(max_num_seqs, extra, block_size, num_blocks, enable_prefix_caching, priority)| EngineSpec {
            max_num_seqs,
            max_num_batched_tokens: max_num_seqs + extra,
            block_size,
            num_blocks,
            max_model_len: 40,
            enable_prefix_caching,
            mean_output_len: 4.0,
            policy: if priority { Policy::Priority } else { Policy::Fcfs },
            ..EngineSpec::default()
        },
    )
}

/// The engine and a client's view: tokens received and expected by live sequence.
struct Cluster {
    engine: Engine,
    /// With asynchronous scheduling, tokens of preempted sequences come last in their step.
    ahead: bool,
    now: Timestamp,
    next: u64,
    live: HashMap<u64, (usize, usize)>,
    first_tokens: Vec<u64>,
    cancelled: Vec<u64>,
}

impl Cluster {
    fn submit(&mut self, prompt: usize, family: u32, output: usize) {
        let id = self.next;
        let ids = (0..prompt as u32).map(|at| family * 1000 + at).collect();
        let output_ids = (0..output as u32).collect::<Vec<_>>();
        let job = Job::generate(ids, output_ids.into(), Finish::Length);
        if self.engine.submit(SeqId(id), job, self.now).is_ok() {
            self.next += 1;
            self.live.insert(id, (0, output));
        }
    }

    fn cancel(&mut self, pick: usize) {
        let mut ids: Vec<u64> = self.live.keys().copied().collect();
        ids.sort_unstable();
        if let Some(&id) = ids.get(pick % ids.len().max(1)) {
            assert!(self.engine.cancel(&[SeqId(id)]) == 1);
            self.live.remove(&id);
            self.cancelled.push(id);
        }
    }

    fn step(&mut self) -> bool {
        let Some(step) = self.engine.begin_step(self.now) else {
            assert!(self.live.is_empty(), "idle only when nothing is left");
            return false;
        };
        self.engine.check_balance();
        self.now = self.now + step.takes;
        let mut events = Vec::new();
        self.engine.end_step(self.now, &mut events);
        self.engine.check_balance();
        if self.ahead {
            events.sort_by_key(|event| event.id);
        }
        let mut seen = Vec::new();
        for event in events {
            assert!(!seen.contains(&event.id), "one token per sequence and step");
            seen.push(event.id);
            self.take(event);
        }
        true
    }

    fn take(&mut self, event: TokenEvent) {
        let entry = self.live.get_mut(&event.id.0).expect("tokens come from live sequences only");
        assert_eq!(event.position, entry.0, "tokens come in order, none lost, none twice");
        entry.0 += 1;
        if entry.0 == 1 {
            self.first_tokens.push(event.id.0);
        }
        assert_eq!(event.finish.is_some(), entry.0 == entry.1);
        if event.finish.is_some() {
            self.live.remove(&event.id.0);
        }
    }
}

/// Runs the actions, and the rest to completion.
fn holds(spec: &EngineSpec, cost: CostModel, actions: Vec<Action>) -> Result<(), TestCaseError> {
    let mut world = Cluster {
        engine: Engine::new(spec.clone(), cost).unwrap(),
        ahead: spec.async_scheduling,
        now: Timestamp::ZERO,
        next: 0,
        live: HashMap::new(),
        first_tokens: vec![],
        cancelled: vec![],
    };
    for action in actions {
        match action {
            Action::Submit { prompt, family, output } => world.submit(prompt, family, output),
            Action::Cancel(pick) => world.cancel(pick),
            Action::Step => drop(world.step()),
        }
        world.engine.check_balance();
    }
    let mut steps = 0;
    while world.step() {
        steps += 1;
        prop_assert!(steps < 20_000, "the work ends");
    }
    prop_assert_eq!(world.engine.free_blocks(), spec.num_blocks);
    let mut order = world.first_tokens.clone();
    order.sort_unstable();
    prop_assert_eq!(&world.first_tokens, &order, "first tokens come in order of arrival");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn blocks_balance_and_no_token_is_lost(spec in spec(), actions in prop::collection::vec(action(), 0..60)) {
        holds(&spec, CostModel { fixed_ns: 10.0, ..CostModel::FREE }, actions)?;
    }

    #[test]
    fn no_token_is_lost_under_asynchronous_scheduling(
        spec in spec(),
        actions in prop::collection::vec(action(), 0..60),
        (prepare, recorded, drain) in (0u8..30, 0usize..12, 0u8..4),
    ) {
        let cost = CostModel {
            fixed_ns: 10.0,
            schedule_ns: prepare.into(),
            cudagraph_max_tokens: recorded,
            drain_ns: drain.into(),
            ..CostModel::FREE
        };
        holds(&EngineSpec { async_scheduling: true, ..spec }, cost, actions)?;
    }
}
