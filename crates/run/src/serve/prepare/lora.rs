//! Adapters: which request uses which.

use tacho_core::Request;
use tacho_pyrand::cpython::Random;

use crate::plan::{LoraAssignment, LoraPlan};

/// Names an adapter for every request from place `first` on; random ones are drawn from Python's global generator, one
/// per request in order.
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
