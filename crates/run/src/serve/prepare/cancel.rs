//! Requests that are cancelled on purpose, as users do: which of them, and when.

use tacho_core::Request;
use tacho_pyrand::RandomState;

use crate::plan::Cancellation;

/// Seed offset, so that no other draw changes.
const SEED: u32 = 0xca9c;

/// Chooses the requests to cancel.
pub(crate) struct Cancellations {
    cancellation: Cancellation,
    random: RandomState,
}

impl Cancellations {
    /// A choice by a seed.
    pub(crate) fn new(cancellation: Cancellation, seed: u32) -> Self {
        Cancellations { cancellation, random: RandomState::new(seed.wrapping_add(SEED)) }
    }

    /// Marks those of the requests that come next.
    pub(crate) fn mark(&mut self, requests: &mut [Request]) {
        let Cancellation { share, delay } = self.cancellation;
        for request in requests {
            if self.random.uniform(0.0, 1.0) < share {
                request.cancel_after = Some(delay.as_secs_f64());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn as_many_as_asked_for_and_the_same_for_a_seed() {
        let marked = |seed| {
            let mut requests = vec![Request::text("p", 1, 1); 10_000];
            let mut cancellations =
                Cancellations::new(Cancellation { share: 0.2, delay: Duration::from_millis(500) }, seed);
            let (first, others) = requests.split_at_mut(3000);
            cancellations.mark(first);
            cancellations.mark(others);
            requests.iter().map(|request| request.cancel_after).collect::<Vec<_>>()
        };
        let count = marked(1).iter().flatten().count();
        assert!((1850..2150).contains(&count), "{count}");
        assert!(marked(1) == marked(1) && marked(1) != marked(2));
    }
}
