//! Diffusion decoding: the server's counters before and after a run, and their differences.

use crate::{observed::prometheus::counters, throughput::per_second};

/// The counters at one time, summed over all label sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffusionCounters {
    /// Steps, committing ones included.
    pub steps: i64,
    /// Canvas positions evaluated.
    pub positions: i64,
    /// Tokens committed.
    pub committed: i64,
}

impl DiffusionCounters {
    /// Reads a `/metrics` text; `None` when the server has no such counters.
    pub fn parse(text: &str) -> Option<Self> {
        let mut found = None;
        for line in counters(text, "vllm:diffusion") {
            let counted: &mut Self = found.get_or_insert_default();
            let Some(value) = line.value else { continue };
            if line.name.contains("num_denoising_steps") {
                counted.steps += value;
            } else if line.name.contains("num_canvas_positions") {
                counted.positions += value;
            } else if line.name.contains("num_committed_tokens") {
                counted.committed += value;
            }
        }
        found
    }
}

tacho_core::record! {
    /// Denoising statistics of a run.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct DiffusionStatistics {
        /// Tokens committed per second.
        pub committed_throughput: f64,
        /// Denoising steps for each canvas.
        pub steps_per_canvas: f64,
        /// Tokens committed per denoising step.
        pub committed_per_step: f64,
        /// Tokens committed.
        pub committed_tokens: i64,
        /// Denoising steps without the committing ones, cut to a whole number.
        pub denoising_steps: i64,
        /// Canvas positions evaluated.
        pub canvas_positions: i64,
    }
}

impl DiffusionStatistics {
    /// The difference of two scrapes over a run of `duration` seconds; `None` when nothing was committed or no canvas
    /// was evaluated between them. Without denoising steps the tokens per step are 0.
    pub fn between(before: DiffusionCounters, after: DiffusionCounters, duration: f64) -> Option<Self> {
        let steps = after.steps - before.steps;
        let positions = after.positions - before.positions;
        let committed = after.committed - before.committed;
        if steps <= 0 || committed <= 0 || positions <= 0 {
            return None;
        }
        let block = positions as f64 / steps as f64;
        let canvases = committed as f64 / block;
        let denoising = steps as f64 - canvases;
        Some(DiffusionStatistics {
            committed_throughput: per_second(committed as f64, duration),
            steps_per_canvas: denoising / canvases,
            committed_per_step: if denoising == 0.0 { 0.0 } else { committed as f64 / denoising },
            committed_tokens: committed,
            denoising_steps: denoising as i64,
            canvas_positions: positions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_committed_or_evaluated_is_not_reported() {
        let zero = DiffusionCounters::default();
        let some = DiffusionCounters { steps: 4, positions: 128, committed: 32 };
        assert!(DiffusionStatistics::between(zero, some, 1.0).is_some());
        let one = DiffusionCounters { steps: 1, positions: 1, committed: 1 };
        assert!(DiffusionStatistics::between(zero, one, 1.0).is_some());
        assert_eq!(DiffusionStatistics::between(some, some, 1.0), None);
        assert_eq!(DiffusionStatistics::between(zero, DiffusionCounters { positions: 0, ..some }, 1.0), None);
    }

    #[test]
    fn no_denoising_step_does_not_divide_by_zero() {
        let after = DiffusionCounters { steps: 2, positions: 64, committed: 64 };
        let statistics = DiffusionStatistics::between(DiffusionCounters::default(), after, 2.0).unwrap();
        assert_eq!((statistics.denoising_steps, statistics.committed_per_step), (0, 0.0));
        assert_eq!(statistics.committed_throughput, 32.0);
    }
}
