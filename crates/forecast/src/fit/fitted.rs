//! The fitted model of a server, and why there is none.

use tacho_engine::Slowdown;

use super::{
    async_scheduling::AsyncScheduling, costs::Costs, error::MAX_HELD_OUT_ERROR, front::Front, memory_bound,
    regress::Estimate, steps::Step,
};

#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    pub costs: Costs,
    /// Decode batches are padded to CUDA-graph capture sizes up to this one; 0 if they are not.
    pub padded_up_to: usize,
    /// Tokens of a prefill step at the roofline ridge point; below it the step is memory-bound.
    pub memory_bound: usize,
    /// Time that a batch-1 decode step saves.
    pub single: Estimate,
    /// Costs of a request outside of steps.
    pub front: Front,
    /// Host-side scheduling times, if scheduling is asynchronous.
    pub async_scheduling: Option<AsyncScheduling>,
    /// Relative standard deviation of steps within a window.
    pub noise: f64,
    /// Slowdown over time, if it changed.
    pub slowdown: Option<Slowdown>,
    pub steps: usize,
    pub unclear: usize,
    pub outliers: usize,
    /// Fraction of steps excluded because of interference, and their slowdown.
    pub interference: (f64, f64),
    /// Relative error of held-out steps: median and p90.
    pub held_out: (f64, f64),
    /// Most sequences in a step.
    pub widest: usize,
}

impl Fitted {
    /// Returns whether held-out steps are predicted well and most steps are free of interference.
    pub fn is_good(&self) -> bool {
        self.held_out.0 <= MAX_HELD_OUT_ERROR && self.interference.0 <= 0.5
    }

    /// Time to first token of a prompt on an idle engine that computes `computed` of its tokens in one step.
    pub fn first_token(&self, prompt: f64, computed: f64) -> f64 {
        let mut step = Step { sequences: 1.0, prefill: computed, kv: prompt, ..Step::one() };
        step.attention = computed * (prompt - computed / 2.0);
        step.computed = memory_bound::compute_bound(computed, 0.0, self.memory_bound as f64);
        let min = self.async_scheduling.map_or(0.0, |ahead| ahead.min(computed));
        self.costs.seconds(&step).max(min) + self.front.request.value + self.front.prompt_token.value * prompt
    }
}
