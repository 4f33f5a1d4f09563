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
    /// Tokens of a step with prompts that are computed in the time in which the weights are read. Both go on at once, and
    /// take together the cube root of the sum of their cubes.
    pub free_tokens: usize,
    /// Nanoseconds per sequence in the step.
    pub per_sequence_ns: f64,
    /// Nanoseconds per token of context, over all sequences in the step; see [`BatchShape::kv_tokens`].
    pub per_kv_token_ns: f64,
    /// Nanoseconds per prompt token and token of context that it looks at: attention grows with the square.
    pub per_attention_ns: f64,
    /// Nanoseconds of a step with prompts right after another, where steps are prepared ahead.
    pub chained_ns: f64,
    /// Nanoseconds by which a step of a single token is quicker.
    pub single_token_saves_ns: f64,
    /// Batches of single tokens are padded to the next recorded size up to this one; 0 where they are not.
    pub padded_up_to: usize,
    /// Nanoseconds that it takes to prepare a step with prompt tokens, where steps are prepared ahead.
    pub prepare_ns: f64,
    /// The same where its kernels are recorded as a whole.
    pub prepare_recorded_ns: f64,
    /// Tokens of both kinds up to which they are; steps without prompt tokens are prepared in no time.
    pub recorded_up_to: usize,
    /// Relative spread of the times of preparing,
    pub prepare_noise: f64,
    /// and of what they are in the mean from one run to another.
    pub prepare_drift: f64,
    /// Nanoseconds from when a step is prepared to when it is done, at least.
    pub drain_ns: f64,
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
    /// Context lengths after the step, summed over the sequences; blocks that several of them share are read once, and what
    /// is in a cache of the machine costs next to nothing the second time.
    pub kv_tokens: usize,
}

impl CostModel {
    /// A model in which nothing takes time.
    pub const FREE: CostModel = CostModel {
        fixed_ns: 0.0,
        per_prefill_token_ns: 0.0,
        free_tokens: 0,
        per_sequence_ns: 0.0,
        per_kv_token_ns: 0.0,
        per_attention_ns: 0.0,
        chained_ns: 0.0,
        single_token_saves_ns: 0.0,
        padded_up_to: 0,
        prepare_ns: 0.0,
        prepare_recorded_ns: 0.0,
        recorded_up_to: 0,
        prepare_noise: 0.0,
        prepare_drift: 0.0,
        drain_ns: 0.0,
    };

    /// A model in which everything takes so many times as long.
    pub fn slowed(&self, times: f64) -> CostModel {
        CostModel {
            fixed_ns: self.fixed_ns * times,
            per_prefill_token_ns: self.per_prefill_token_ns * times,
            per_sequence_ns: self.per_sequence_ns * times,
            per_kv_token_ns: self.per_kv_token_ns * times,
            per_attention_ns: self.per_attention_ns * times,
            chained_ns: self.chained_ns * times,
            single_token_saves_ns: self.single_token_saves_ns * times,
            prepare_ns: self.prepare_ns * times,
            prepare_recorded_ns: self.prepare_recorded_ns * times,
            drain_ns: self.drain_ns * times,
            ..*self
        }
    }

    /// How long a step of this shape takes, attention of prompts aside.
    pub fn step_time(&self, batch: &BatchShape) -> Duration {
        self.time(batch, 0.0)
    }

    /// How long a step takes whose prompt tokens look at `attention` tokens of context, counted once for each.
    pub fn time(&self, batch: &BatchShape, attention: f64) -> Duration {
        let nanos = self.fixed_ns
            + self.per_prefill_token_ns * self.computed(batch)
            + self.per_sequence_ns * self.counted(batch) as f64
            + self.per_kv_token_ns * batch.kv_tokens as f64
            + self.per_attention_ns * attention
            - if batch.prefill_tokens + batch.decode_sequences == 1 { self.single_token_saves_ns } else { 0.0 };
        Duration::from_nanos(nanos.round() as u64)
    }

    /// How long it takes to prepare a step of this shape, where steps are prepared ahead.
    pub fn prepare(&self, batch: &BatchShape) -> Duration {
        let nanos = match batch.prefill_tokens {
            0 => 0.0,
            prompts if prompts + batch.decode_sequences <= self.recorded_up_to => self.prepare_recorded_ns,
            _ => self.prepare_ns,
        };
        Duration::from_nanos(nanos.round() as u64)
    }

    /// How much longer a step takes that follows such a one at once, where steps are prepared ahead.
    pub fn chained(&self, before: &BatchShape, batch: &BatchShape) -> Duration {
        let both = before.prefill_tokens > 0 && batch.prefill_tokens > 0;
        Duration::from_nanos(if both { self.chained_ns.round() as u64 } else { 0 })
    }

    /// How long a step takes at least once it is prepared, where steps are prepared ahead.
    pub fn drain(&self) -> Duration {
        Duration::from_nanos(self.drain_ns.round() as u64)
    }

    /// The prompt tokens that make a step longer: single tokens beside them take up what is free first.
    fn computed(&self, batch: &BatchShape) -> f64 {
        let (prompts, beside, free) =
            (batch.prefill_tokens as f64, batch.decode_sequences as f64, self.free_tokens as f64);
        let longer = |tokens: f64| (free.powi(3) + tokens.powi(3)).cbrt() - free;
        match batch.prefill_tokens {
            0 => 0.0,
            _ if self.free_tokens == 0 => prompts,
            _ => longer(beside + prompts) - longer(beside),
        }
    }

    /// The sequences that a step computes, those included that only fill it up: 1, 2, 4, then eights, from 256 on sixteens.
    fn counted(&self, batch: &BatchShape) -> usize {
        let (count, most) = (batch.sequences, self.padded_up_to);
        let next = match count {
            _ if batch.prefill_tokens > 0 || count > most => return count,
            0..=2 => count,
            3 | 4 => 4,
            5..=256 => count.next_multiple_of(8),
            _ => count.next_multiple_of(16),
        };
        next.min(most)
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
            ..CostModel::FREE
        };
        let batch = BatchShape { prefill_tokens: 20, decode_sequences: 3, sequences: 4, kv_tokens: 1000 };
        assert_eq!(cost.step_time(&batch), Duration::from_nanos(1_000_000 + 2_000 + 40 + 500));
        assert_eq!(cost.time(&batch, 3.0) - cost.step_time(&batch), Duration::from_nanos(6));
        let decode = |sequences: usize| BatchShape { decode_sequences: sequences, sequences, ..BatchShape::default() };
        let padded = CostModel { padded_up_to: 48, ..cost };
        let counts = [1, 3, 5, 45, 49].map(|count| padded.counted(&decode(count)));
        assert_eq!((counts, padded.counted(&batch)), ([1, 4, 8, 48, 49], 4));
        let single = CostModel { single_token_saves_ns: 300.0, ..cost };
        let saved = [1, 2].map(|count| cost.step_time(&decode(count)) - single.step_time(&decode(count)));
        assert_eq!((saved, single.step_time(&batch)), ([300, 0].map(Duration::from_nanos), cost.step_time(&batch)));
        assert_eq!(CostModel::FREE.step_time(&batch), Duration::ZERO);
    }

    #[test]
    fn tokens_are_computed_while_weights_are_read() {
        let cost = CostModel { free_tokens: 100, ..CostModel::FREE };
        let computed = |prefill_tokens: usize, decode_sequences: usize| {
            cost.computed(&BatchShape { prefill_tokens, decode_sequences, ..BatchShape::default() })
        };
        assert_eq!(computed(0, 50), 0.0);
        assert!(computed(10, 0) < 0.1, "next to nothing: {}", computed(10, 0));
        // As many as are read for: twice the cube of each, of which one is the reading.
        assert!((computed(100, 0) - 25.99).abs() < 0.01, "{}", computed(100, 0));
        assert!(computed(100, 90) > 2.0 * computed(100, 0), "others take up what is free: {}", computed(100, 90));
        assert!((computed(3000, 0) - 2900.0).abs() < 0.1, "all but those: {}", computed(3000, 0));
    }

    #[test]
    fn only_steps_with_prompts_are_prepared_and_small_ones_are_recorded() {
        let cost = CostModel { prepare_ns: 30.0, prepare_recorded_ns: 5.0, recorded_up_to: 8, ..CostModel::FREE };
        let prepare = |prefill_tokens: usize, decode_sequences: usize| {
            cost.prepare(&BatchShape { prefill_tokens, decode_sequences, ..BatchShape::default() }).as_nanos()
        };
        let follows = CostModel { chained_ns: 7.0, ..cost };
        let shape = |prefill_tokens: usize| BatchShape { prefill_tokens, ..BatchShape::default() };
        let chained = [(0, 3), (3, 0), (2, 3)].map(|(one, next)| follows.chained(&shape(one), &shape(next)).as_nanos());
        assert_eq!(chained, [0, 0, 7]);
        assert_eq!([prepare(0, 300), prepare(5, 3), prepare(5, 4), prepare(9, 0)], [0, 5, 30, 30]);
        assert_eq!(
            CostModel { drain_ns: 2.0, ..cost }.slowed(3.0),
            CostModel { prepare_ns: 90.0, prepare_recorded_ns: 15.0, drain_ns: 6.0, ..cost }
        );
    }
}
