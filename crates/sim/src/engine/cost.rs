//! What a step costs: the linear model of step time.

use std::time::Duration;

/// Step time = fixed + prefill tokens + sequences + KV tokens, each times its cost.
///
/// The terms stand for what bounds a real step: reading the weights once (`fixed`), the matrix products of prompt
/// tokens (`per_prefill_token`), sampling and bookkeeping (`per_sequence`), and reading the context that attention
/// looks at (`per_kv_token`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// Nanoseconds of any step that does something.
    pub fixed_ns: f64,
    /// Nanoseconds per token of prompts (and of recomputed sequences) in the step.
    pub per_prefill_token_ns: f64,
    /// Nanoseconds per sequence in the step.
    pub per_sequence_ns: f64,
    /// Nanoseconds per token of context, over all sequences in the step.
    pub per_kv_token_ns: f64,
    /// Nanoseconds per prompt token and token of context that it looks at: attention grows with the square.
    pub per_attention_ns: f64,
}

/// What is in a step, as far as its time depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchShape {
    /// Tokens of prompts, and of sequences computed again after a preemption.
    pub prefill_tokens: usize,
    /// Sequences that get their one next token.
    pub decode_sequences: usize,
    /// Sequences of both kinds.
    pub sequences: usize,
    /// Context lengths after the step, summed over the sequences.
    pub kv_tokens: usize,
}

impl CostModel {
    /// A model in which nothing takes time.
    pub const FREE: CostModel = CostModel {
        fixed_ns: 0.0,
        per_prefill_token_ns: 0.0,
        per_sequence_ns: 0.0,
        per_kv_token_ns: 0.0,
        per_attention_ns: 0.0,
    };

    /// How long a step of this shape takes, attention of prompts aside.
    pub fn step_time(&self, batch: &BatchShape) -> Duration {
        self.time(batch, 0.0)
    }

    /// How long a step takes whose prompt tokens look at `attention` tokens of context, counted once for each.
    pub fn time(&self, batch: &BatchShape, attention: f64) -> Duration {
        let nanos = self.fixed_ns
            + self.per_prefill_token_ns * batch.prefill_tokens as f64
            + self.per_sequence_ns * batch.sequences as f64
            + self.per_kv_token_ns * batch.kv_tokens as f64
            + self.per_attention_ns * attention;
        Duration::from_nanos(nanos.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_time_is_the_sum_of_its_terms() {
        let cost = CostModel {
            fixed_ns: 1e6,
            per_prefill_token_ns: 100.0,
            per_sequence_ns: 10.0,
            per_kv_token_ns: 0.5,
            per_attention_ns: 2.0,
        };
        let batch = BatchShape { prefill_tokens: 20, decode_sequences: 3, sequences: 4, kv_tokens: 1000 };
        assert_eq!(cost.step_time(&batch), Duration::from_nanos(1_000_000 + 2_000 + 40 + 500));
        assert_eq!(cost.time(&batch, 3.0) - cost.step_time(&batch), Duration::from_nanos(6));
        assert_eq!(CostModel::FREE.step_time(&batch), Duration::ZERO);
    }
}
