//! Rarely used fields of a sample, boxed to keep a million samples small.

use std::ops::{Deref, DerefMut};

use tacho_core::{Drafts, Labels, OutputCheck, json::Value};

use crate::{Media, PerToken};

tacho_core::packed! {
    /// Fields that are empty for most requests.
    #[derive(Debug, Clone, PartialEq)]
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

impl RareFields {
    /// Without any of these fields.
    const NONE: RareFields = RareFields {
        session: None,
        labels: Labels::NONE,
        per_token: None,
        reasoning_tokens: None,
        drafts: None,
        input_audio_duration: 0.0,
        input_end: None,
        media: None,
        check: None,
        scores: None,
        error: String::new(),
        text: Vec::new(),
    };
}

impl Default for RareFields {
    fn default() -> Self {
        RareFields::NONE
    }
}

/// The rare fields; one pointer in size if there are none.
#[derive(Debug, Clone, Default)]
pub struct BoxedRareFields(Option<Box<RareFields>>);

impl BoxedRareFields {
    /// The fields, if any is set.
    pub(crate) fn get(&self) -> Option<&RareFields> {
        self.0.as_deref()
    }

    /// Drops the text and frees its memory.
    pub fn forget_text(&mut self) {
        if let Some(mut rare) = self.0.take() {
            rare.text = Vec::new();
            *self = (*rare).into();
        }
    }
}

impl From<RareFields> for BoxedRareFields {
    fn from(rare: RareFields) -> Self {
        BoxedRareFields((rare != RareFields::NONE).then(|| Box::new(rare)))
    }
}

impl PartialEq for BoxedRareFields {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Deref for BoxedRareFields {
    type Target = RareFields;

    fn deref(&self) -> &RareFields {
        static NONE: RareFields = RareFields::NONE;
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for BoxedRareFields {
    fn deref_mut(&mut self) -> &mut RareFields {
        self.0.get_or_insert_default()
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
        rarely.forget_text();
        assert!(rarely.0.is_none() && rarely.text.is_empty());
        rarely.error = "late".to_owned();
        rarely.forget_text();
        assert_eq!(rarely.error, "late");
        assert!(BoxedRareFields::from(RareFields::default()).0.is_none());
    }
}
