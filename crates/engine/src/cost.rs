//! The cost model: step time as a linear function of what is in the batch.

use std::time::Duration;

/// Step time = fixed + prefill tokens + sequences + KV tokens, each times its cost.
///
/// The terms stand for what bounds a real step: reading the weights once (`fixed`), the matrix products of prompt
/// tokens (`per_prefill_token`), sampling and bookkeeping (`per_sequence`), and reading the context for attention
/// (`per_kv_token`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    pub fixed_ns: f64,
    /// Nanoseconds per token of prompts (and of recomputed sequences) in the step.
    pub per_prefill_token_ns: f64,
    /// Tokens of a prefill step at the roofline ridge point: below it the step is memory-bound. Reading weights and computing
    /// overlap, modeled as a 3-norm: `t = (t_mem³ + t_compute³)^⅓`.
    pub memory_bound_tokens: usize,
    /// Nanoseconds per sequence in the step.
    pub per_sequence_ns: f64,
    /// Nanoseconds per KV-cache token, over all sequences in the step; see [`BatchShape::kv_tokens`].
    pub per_kv_token_ns: f64,
    /// Nanoseconds per prompt token and token it attends to; quadratic in the prompt length.
    pub per_attention_ns: f64,
    /// Extra nanoseconds of back-to-back prefill steps under asynchronous scheduling.
    pub back_to_back_prefill_ns: f64,
    /// Nanoseconds by which a batch-1 decode step (GEMV kernels) is faster.
    pub single_token_saves_ns: f64,
    /// Decode batches are padded to the next CUDA-graph capture size up to this one; 0 disables padding.
    pub padded_up_to: usize,
    /// Host-side scheduling time of a prefill step under asynchronous scheduling, nanoseconds. Decode steps need none.
    pub schedule_ns: f64,
    /// Host-side scheduling time of prefill steps that run as a full CUDA graph, nanoseconds.
    pub schedule_cudagraph_ns: f64,
    /// Most tokens of a step that runs as a full CUDA graph.
    pub cudagraph_max_tokens: usize,
    /// Relative standard deviation of scheduling times between steps.
    pub schedule_noise: f64,
    /// Relative standard deviation of the mean scheduling time between runs.
    pub schedule_drift: f64,
    /// Minimum time from launch to token output, nanoseconds.
    pub drain_ns: f64,
}

/// The contents of a step, as far as its time depends on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchShape {
    /// Prefill tokens, including those of preempted sequences that are recomputed.
    pub prefill_tokens: usize,
    pub decode_sequences: usize,
    /// All sequences, prefill and decode.
    pub sequences: usize,
    /// Sum of the context lengths after the step; blocks that several sequences share count once.
    pub kv_tokens: usize,
}

impl CostModel {
    pub const FREE: CostModel = CostModel {
        fixed_ns: 0.0,
        per_prefill_token_ns: 0.0,
        memory_bound_tokens: 0,
        per_sequence_ns: 0.0,
        per_kv_token_ns: 0.0,
        per_attention_ns: 0.0,
        back_to_back_prefill_ns: 0.0,
        single_token_saves_ns: 0.0,
        padded_up_to: 0,
        schedule_ns: 0.0,
        schedule_cudagraph_ns: 0.0,
        cudagraph_max_tokens: 0,
        schedule_noise: 0.0,
        schedule_drift: 0.0,
        drain_ns: 0.0,
    };

    pub fn slowed(&self, times: f64) -> CostModel {
        CostModel {
            fixed_ns: self.fixed_ns * times,
            per_prefill_token_ns: self.per_prefill_token_ns * times,
            per_sequence_ns: self.per_sequence_ns * times,
            per_kv_token_ns: self.per_kv_token_ns * times,
            per_attention_ns: self.per_attention_ns * times,
            back_to_back_prefill_ns: self.back_to_back_prefill_ns * times,
            single_token_saves_ns: self.single_token_saves_ns * times,
            schedule_ns: self.schedule_ns * times,
            schedule_cudagraph_ns: self.schedule_cudagraph_ns * times,
            drain_ns: self.drain_ns * times,
            ..*self
        }
    }

    /// Step time without the attention of prompts.
    pub fn step_time(&self, batch: &BatchShape) -> Duration {
        self.time(batch, 0.0)
    }

    /// Step time; `attention` is the sum over prompt tokens of the tokens each attends to.
    pub fn time(&self, batch: &BatchShape, attention: f64) -> Duration {
        let nanos = self.fixed_ns
            + self.per_prefill_token_ns * self.compute_bound(batch)
            + self.per_sequence_ns * self.padded(batch) as f64
            + self.per_kv_token_ns * batch.kv_tokens as f64
            + self.per_attention_ns * attention
            - if batch.prefill_tokens + batch.decode_sequences == 1 { self.single_token_saves_ns } else { 0.0 };
        Duration::from_nanos(nanos.round() as u64)
    }

    /// Host-side scheduling time under asynchronous scheduling.
    pub fn schedule(&self, batch: &BatchShape) -> Duration {
        let nanos = match batch.prefill_tokens {
            0 => 0.0,
            prompts if prompts + batch.decode_sequences <= self.cudagraph_max_tokens => self.schedule_cudagraph_ns,
            _ => self.schedule_ns,
        };
        Duration::from_nanos(nanos.round() as u64)
    }

    /// Extra time of a prefill step right after another, under asynchronous scheduling.
    pub fn back_to_back_prefill(&self, before: &BatchShape, batch: &BatchShape) -> Duration {
        let both = before.prefill_tokens > 0 && batch.prefill_tokens > 0;
        Duration::from_nanos(if both { self.back_to_back_prefill_ns.round() as u64 } else { 0 })
    }

    /// Minimum time from launch to token output, under asynchronous scheduling.
    pub fn drain(&self) -> Duration {
        Duration::from_nanos(self.drain_ns.round() as u64)
    }

    /// Compute-bound prefill tokens: decode tokens use up the memory-bound region first.
    fn compute_bound(&self, batch: &BatchShape) -> f64 {
        let (prompts, decodes, free) =
            (batch.prefill_tokens as f64, batch.decode_sequences as f64, self.memory_bound_tokens as f64);
        let longer = |tokens: f64| (free.powi(3) + tokens.powi(3)).cbrt() - free;
        match batch.prefill_tokens {
            0 => 0.0,
            _ if self.memory_bound_tokens == 0 => prompts,
            _ => longer(decodes + prompts) - longer(decodes),
        }
    }

    /// Sequences of a step with padding: 1, 2, 4, multiples of 8, from 256 on multiples of 16.
    fn padded(&self, batch: &BatchShape) -> usize {
        let (count, max) = (batch.sequences, self.padded_up_to);
        let next = match count {
            _ if batch.prefill_tokens > 0 || count > max => return count,
            0..=2 => count,
            3 | 4 => 4,
            5..=256 => count.next_multiple_of(8),
            _ => count.next_multiple_of(16),
        };
        next.min(max)
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
        let counts = [1, 3, 5, 45, 49].map(|count| padded.padded(&decode(count)));
        assert_eq!((counts, padded.padded(&batch)), ([1, 4, 8, 48, 49], 4));
        let single = CostModel { single_token_saves_ns: 300.0, ..cost };
        let saved = [1, 2].map(|count| cost.step_time(&decode(count)) - single.step_time(&decode(count)));
        assert_eq!((saved, single.step_time(&batch)), ([300, 0].map(Duration::from_nanos), cost.step_time(&batch)));
        assert_eq!(CostModel::FREE.step_time(&batch), Duration::ZERO);
    }

    #[test]
    fn small_prefills_are_memory_bound() {
        let cost = CostModel { memory_bound_tokens: 100, ..CostModel::FREE };
        let compute_bound = |prefill_tokens: usize, decode_sequences: usize| {
            cost.compute_bound(&BatchShape { prefill_tokens, decode_sequences, ..BatchShape::default() })
        };
        assert_eq!(compute_bound(0, 50), 0.0);
        assert!(compute_bound(10, 0) < 0.1, "{}", compute_bound(10, 0));
        // At the ridge point: (2^(1/3) - 1) of the tokens.
        assert!((compute_bound(100, 0) - 25.99).abs() < 0.01, "{}", compute_bound(100, 0));
        assert!(compute_bound(100, 90) > 2.0 * compute_bound(100, 0), "{}", compute_bound(100, 90));
        assert!((compute_bound(3000, 0) - 2900.0).abs() < 0.1, "{}", compute_bound(3000, 0));
    }

    #[test]
    fn only_prefill_steps_need_scheduling_and_small_ones_are_cuda_graphs() {
        let cost =
            CostModel { schedule_ns: 30.0, schedule_cudagraph_ns: 5.0, cudagraph_max_tokens: 8, ..CostModel::FREE };
        let schedule = |prefill_tokens: usize, decode_sequences: usize| {
            cost.schedule(&BatchShape { prefill_tokens, decode_sequences, ..BatchShape::default() }).as_nanos()
        };
        let follows = CostModel { back_to_back_prefill_ns: 7.0, ..cost };
        let shape = |prefill_tokens: usize| BatchShape { prefill_tokens, ..BatchShape::default() };
        let extra = [(0, 3), (3, 0), (2, 3)]
            .map(|(one, next)| follows.back_to_back_prefill(&shape(one), &shape(next)).as_nanos());
        assert_eq!(extra, [0, 0, 7]);
        assert_eq!([schedule(0, 300), schedule(5, 3), schedule(5, 4), schedule(9, 0)], [0, 5, 30, 30]);
        assert_eq!(
            CostModel { drain_ns: 2.0, ..cost }.slowed(3.0),
            CostModel { schedule_ns: 90.0, schedule_cudagraph_ns: 15.0, drain_ns: 6.0, ..cost }
        );
    }
}
