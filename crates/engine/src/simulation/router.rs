//! Routing of requests to engines.

use std::collections::HashMap;

/// Prompt tokens that a prefix-aware router hashes.
const PREFIX: usize = 256;

tacho_core::named! {
    #[derive(Default)]
    pub enum Router {
        #[default]
        RoundRobin = "round-robin",
        /// The one with the fewest requests in flight.
        LeastLoaded = "least-loaded",
        /// The one that has served the same prefix, unless it is far busier than others.
        PrefixAware = "prefix-aware",
    }
}

#[derive(Debug, Default)]
pub(super) struct Routing {
    router: Router,
    turn: usize,
    homes: HashMap<u64, usize>,
}

impl Routing {
    pub(super) fn new(router: Router) -> Self {
        Routing { router, ..Routing::default() }
    }

    /// The engine for a prompt, by the number of requests in flight on each.
    pub(super) fn choose(&mut self, prompt: &[u32], outstanding: &[usize]) -> usize {
        let min = || (0..outstanding.len()).min_by_key(|at| outstanding[*at]).unwrap_or(0);
        match self.router {
            Router::RoundRobin => {
                self.turn += 1;
                (self.turn - 1) % outstanding.len()
            }
            Router::LeastLoaded => min(),
            Router::PrefixAware => {
                let seen = &prompt[..prompt.len().min(PREFIX)];
                let hash = seen
                    .iter()
                    .fold(0u64, |hash, id| (hash ^ u64::from(*id)).wrapping_mul(0x100_0000_01b3).rotate_left(17));
                let min = min();
                let home = *self.homes.entry(hash).or_insert(min);
                let far = outstanding[home] > 2 * outstanding[min] + 8;
                if far { min } else { home }
            }
        }
    }
}
