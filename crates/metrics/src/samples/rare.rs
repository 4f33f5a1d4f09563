//! Rarely used fields of a sample, boxed to keep a million samples small.

use std::sync::LazyLock;

use tacho_core::rare::{Absent, Rare};
use tacho_core::{Drafts, Labels, OutputCheck, ServerTimes, json::Value};

use crate::{Media, PerToken};

tacho_core::packed! {
    /// Fields that are empty for most requests.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct RareFields {
        /// Its session and its turn there, if there are sessions.
        pub session: Option<(u32, u32)>,
        /// The groups it is counted in: class, stage, replica, adapter.
        pub labels: Labels,
        /// Inter-token times per token, if events had several.
        pub per_token: Option<PerToken>,
        /// Reasoning tokens among the generated ones, if the server reports them.
        pub reasoning_tokens: Option<u64>,
        /// Draft tokens of speculative decoding, if the server reports them per request.
        pub drafts: Option<Drafts>,
        /// The server's own times, if it reports them per request.
        pub times: ServerTimes,
        /// Seconds of audio in the request.
        pub input_audio_duration: f64,
        /// From `sent` to the end of the input, if it is sent while the response is received.
        pub input_end: Option<f64>,
        /// Generated media of a success, if the response is not a text.
        pub media: Option<Media>,
        /// The comparison with its reference, if outputs are checked.
        pub check: Option<OutputCheck>,
        /// Scores of its grader by name, if outputs are graded.
        pub scores: Option<Value>,
        /// The error message; empty for a success.
        pub error: String,
        /// The generated text, WTF-8; empty for a failed request, and if texts are not kept.
        pub text: Vec<u8>,
    }
}

/// The rare fields of a sample.
pub type BoxedRareFields = Rare<RareFields>;

impl Absent for RareFields {
    fn absent() -> &'static RareFields {
        static NONE: LazyLock<RareFields> = LazyLock::new(RareFields::default);
        &NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_takes_no_room() {
        assert_eq!(size_of::<BoxedRareFields>(), 8);
        let mut rarely = BoxedRareFields::from(RareFields { text: b"a".to_vec(), ..RareFields::default() });
        assert_eq!(rarely.text, b"a");
        rarely.change(|rare| rare.text = Vec::new());
        assert!(rarely.get().is_none() && rarely.text.is_empty());
        rarely.error = "late".to_owned();
        rarely.change(|rare| rare.text = Vec::new());
        assert_eq!(rarely.error, "late");
        assert!(BoxedRareFields::from(RareFields::default()).get().is_none());
    }
}
