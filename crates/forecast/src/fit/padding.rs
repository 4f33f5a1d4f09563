//! Padding to CUDA-graph capture sizes: an engine pads a decode batch to the next size, so that its time is a step
//! function of the batch size.

use super::{Found, Step, costs::costs, robust::median};

/// Least improvement of the errors to accept padding.
const MIN_IMPROVEMENT: f64 = 0.9;

/// The capture size of a decode batch: 1, 2, 4, then multiples of 8, from 256 on multiples of 16, up to `max`; larger
/// batches are not padded.
pub fn padded(sequences: usize, max: usize) -> usize {
    match sequences {
        _ if sequences > max => sequences,
        0..=2 => sequences,
        3 | 4 => 4,
        5..=256 => sequences.next_multiple_of(8),
        _ => sequences.next_multiple_of(16),
    }
    .min(max.max(sequences))
}

/// The largest padded size, if padding explains decode steps better; pads the batches then. 0 otherwise.
pub(super) fn detect(found: &mut [Found]) -> usize {
    let widest = found.iter().map(|run| run.widest).max().unwrap_or(0);
    let max = padded(widest, usize::MAX);
    let all: Vec<Step> = found.iter().flat_map(|run| run.steps.iter().copied()).collect();
    let with: Vec<Step> = all.iter().map(|step| pad(step, max)).collect();
    let (Some(plain), Some(padded)) = (error(&all), error(&with)) else { return 0 };
    if padded > MIN_IMPROVEMENT * plain {
        return 0;
    }
    found.iter_mut().flat_map(|run| &mut run.steps).for_each(|step| *step = pad(step, max));
    max
}

fn pad(step: &Step, max: usize) -> Step {
    let sequences = if step.prefill > 0.0 { step.sequences } else { padded(step.sequences as usize, max) as f64 };
    Step { sequences, ..*step }
}

fn error(steps: &[Step]) -> Option<f64> {
    let costs = costs(steps)?;
    Some(median(steps.iter().map(|step| (step.seconds / costs.seconds(step) - 1.0).abs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_padded_to_the_next_size() {
        let sizes = [1, 2, 3, 5, 8, 9, 250, 257, 512, 513].map(|count| padded(count, 512));
        assert_eq!(sizes, [1, 2, 4, 8, 8, 16, 256, 272, 512, 513]);
        assert_eq!((padded(47, 48), padded(47, 47), padded(3, 0)), (48, 47, 3));
    }
}
