//! How long an iteration should take, by its contents.

use std::ops::{Add, Sub};

use tacho_engine::{BatchShape, CostModel};

use crate::fit::{Costs, Estimate};

/// The contents of an iteration, or a part of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Load {
    /// Sequences that decode, and their context tokens.
    pub(super) decodes: f64,
    pub(super) context: f64,
    /// Sequences with prompt tokens, these tokens, and the sum over them of the tokens each attends to.
    pub(super) prompts: f64,
    pub(super) prefill: f64,
    pub(super) attention: f64,
}

impl Load {
    pub(super) fn decode(context: f64) -> Self {
        Load { decodes: 1.0, context, ..Load::default() }
    }

    /// `tokens` of a prompt of which `before` are computed or cached.
    pub(super) fn prefill(before: f64, tokens: f64) -> Self {
        let attention = tokens * (before + (tokens + 1.0) / 2.0);
        Load { prompts: 1.0, prefill: tokens, context: before + tokens, attention, decodes: 0.0 }
    }

    pub(super) fn tokens(&self) -> f64 {
        self.decodes + self.prefill
    }
}

impl Add for Load {
    type Output = Load;

    fn add(self, other: Load) -> Load {
        Load {
            decodes: self.decodes + other.decodes,
            context: self.context + other.context,
            prompts: self.prompts + other.prompts,
            prefill: self.prefill + other.prefill,
            attention: self.attention + other.attention,
        }
    }
}

impl Sub for Load {
    type Output = Load;

    fn sub(self, other: Load) -> Load {
        let less = |one: f64, two: f64| (one - two).max(0.0);
        Load {
            decodes: less(self.decodes, other.decodes),
            context: less(self.context, other.context),
            prompts: less(self.prompts, other.prompts),
            prefill: less(self.prefill, other.prefill),
            attention: less(self.attention, other.attention),
        }
    }
}

/// The costs of iterations, and how far single ones are off.
pub(super) struct Model<'a> {
    pub(super) costs: Source<'a>,
    /// Relative standard deviation of iterations from the model.
    pub(super) noise: f64,
}

pub(super) enum Source<'a> {
    /// Estimated from the run.
    Estimated(Box<Costs>),
    /// From a profile.
    Profile(&'a CostModel),
}

/// Relative standard uncertainty of the costs in a profile that a fit measured.
const PROFILE_ERROR: f64 = 0.03;

impl Model<'_> {
    /// Seconds of an iteration with these contents.
    pub(super) fn seconds(&self, load: &Load) -> f64 {
        match &self.costs {
            Source::Estimated(costs) => {
                costs.fixed.value
                    + costs.prefill.value * load.prefill
                    + costs.sequence.value * (load.decodes + load.prompts)
                    + costs.kv.value * load.context
                    + costs.attention.value * load.attention
            }
            Source::Profile(costs) => {
                let whole = |number: f64| number.round() as usize;
                let batch = BatchShape {
                    prefill_tokens: whole(load.prefill),
                    decode_sequences: whole(load.decodes),
                    sequences: whole(load.decodes + load.prompts),
                    kv_tokens: whole(load.context),
                };
                costs.time(&batch, load.attention).as_secs_f64()
            }
        }
    }

    /// Seconds that `more` adds to an iteration.
    pub(super) fn added(&self, load: &Load, more: &Load) -> f64 {
        (self.seconds(&(*load + *more)) - self.seconds(load)).max(0.0)
    }

    /// Standard errors: of the fixed cost in seconds, and of the cost of prompt tokens, relative.
    pub(super) fn errors(&self) -> (f64, f64) {
        let relative = |one: &Estimate| if one.value > 0.0 { one.half / 1.96 / one.value } else { 0.0 };
        match &self.costs {
            Source::Estimated(costs) => (costs.fixed.half / 1.96, relative(&costs.prefill).min(1.0)),
            Source::Profile(costs) => (PROFILE_ERROR * costs.fixed_ns / 1e9, PROFILE_ERROR),
        }
    }
}
