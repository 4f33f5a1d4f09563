//! Deliberate cancellations, as by users: which requests, and when.

use tacho_core::Request;
use tacho_pyrand::RandomState;

use crate::plan::Cancellation;

/// Seed offset that keeps other draws unchanged.
const SEED: u32 = 0xca9c;

pub(crate) struct Cancellations {
    cancellation: Cancellation,
    random: RandomState,
}

impl Cancellations {
    pub(crate) fn new(cancellation: Cancellation, seed: u32) -> Self {
        Cancellations { cancellation, random: RandomState::new(seed.wrapping_add(SEED)) }
    }

    /// Marks requests to cancel among the next ones.
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
    fn the_requested_number_is_drawn_and_repeats_by_seed() {
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
