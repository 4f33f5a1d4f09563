//! Assigns LoRA adapters to requests.

use tacho_core::Request;
use tacho_pyrand::cpython::Random;

use crate::plan::{LoraAssignment, LoraPlan};

/// Assigns an adapter to every request, the first of which has index `first`. Random ones are drawn from Python's
/// global generator, one per request in order.
pub(crate) fn assign(plan: &LoraPlan, first: usize, requests: &mut [Request], py: &mut Random) {
    let count = plan.modules.len();
    for (index, request) in (first..).zip(requests) {
        let choice = match plan.assignment {
            LoraAssignment::Random => py.choice_index(count).unwrap_or(0),
            LoraAssignment::RoundRobin => index % count,
        };
        request.lora = Some(plan.modules[choice].clone());
    }
}
