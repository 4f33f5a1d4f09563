//! Totals over the successes and their rates.

use crate::Samples;

/// Totals of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Successful requests.
    pub completed: u64,
    /// Failed requests, except those cancelled on purpose.
    pub failed: u64,
    /// Prompt tokens of the successes.
    pub input: u64,
    /// Generated tokens.
    pub output: u64,
    /// Texts in the successful requests.
    pub input_sequences: u64,
    /// Seconds of audio in the successful requests.
    pub audio: f64,
}

impl Totals {
    /// Adds up `samples`.
    pub fn of(samples: &Samples) -> Self {
        let mut totals = Totals::default();
        for sample in samples {
            totals.failed += u64::from(sample.is_fault());
            if !sample.success() {
                continue;
            }
            totals.completed += 1;
            totals.input += sample.prompt_len;
            totals.output += sample.output_len;
            totals.input_sequences += sample.num_input_sequences;
            totals.audio += sample.input_audio_duration;
        }
        totals
    }
}

/// `amount` per second; 0 for a run that took no time.
pub fn per_second(amount: f64, duration: f64) -> f64 {
    if duration > 0.0 { amount / duration } else { 0.0 }
}
