//! Assigns LoRA adapters to requests.

use tacho_core::Request;
use tacho_pyrand::cpython::Random;

use crate::plan::{LoraAssignment, LoraPlan};

/// Assigns an adapter to every request that has none of its class, the first of which has index `first`. Random ones are drawn from Python's
/// global generator, one per request in order.
pub(crate) fn assign(plan: &LoraPlan, first: usize, requests: &mut [Request], py: &mut Random) {
    let count = plan.modules.len();
    for (index, request) in (first..).zip(requests) {
        let choice = match plan.assignment {
            LoraAssignment::Random if !plan.weights.is_empty() => weighted(&plan.weights, py.random()),
            LoraAssignment::Random => py.choice_index(count).unwrap_or(0),
            LoraAssignment::RoundRobin => index % count,
        };
        request.lora.get_or_insert_with(|| plan.modules[choice].clone());
    }
}

/// The index whose share of the weights contains `position`, a number from 0 to 1.
fn weighted(weights: &[f64], position: f64) -> usize {
    let mut left = position * weights.iter().sum::<f64>();
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    found.unwrap_or(weights.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_drawn_by_weight() {
        let modules = ["a", "b", "c"].map(str::to_owned).to_vec();
        let plan = LoraPlan { modules, assignment: LoraAssignment::Random, weights: vec![6.0, 3.0, 1.0] };
        let mut requests = vec![Request::text("", 1, 1); 10_000];
        assign(&plan, 0, &mut requests, &mut Random::new(3));
        requests[0].lora = Some("own".to_owned());
        assign(&plan, 0, &mut requests[..1], &mut Random::new(3));
        assert_eq!(requests[0].lora.as_deref(), Some("own"), "a class keeps its adapter");
        let share = |name: &str| requests.iter().filter(|request| request.lora.as_deref() == Some(name)).count();
        // Within four standard deviations.
        for (name, expected) in [("a", 6_000_i64), ("b", 3_000), ("c", 1_000)] {
            assert!((share(name) as i64 - expected).abs() < 200, "{name}: {}", share(name));
        }
        assert_eq!([0.0, 0.599, 0.6, 0.95, 1.0].map(|position| weighted(&plan.weights, position)), [0, 0, 1, 2, 2]);
    }
}
