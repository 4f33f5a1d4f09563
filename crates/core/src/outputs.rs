//! What a check of outputs found about one response.

use crate::json::Value;

crate::named! {
    /// A property of an output that its reference does not have.
    pub enum Flaw {
        /// It is the beginning of the reference.
        Truncated = "truncated",
        /// Most of its sequences of characters occur before in it.
        Repetitive = "repetitive",
        /// It has control, replacement or private-use characters.
        Garbled = "garbled",
        /// Most letters are of another script.
        OtherScript = "other_script",
    }
}

crate::packed! {
    /// An output compared with its reference, the output of the same request without load.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct OutputCheck {
        /// Number of the reference; equal requests have the same one.
        pub reference: u32,
        /// Equal characters before the first difference; `None` if both are equal.
        pub first_difference: Option<u32>,
        /// Edit distance in characters, of at most [`OutputCheck::MAX_EDITED`] after the first difference.
        pub edits: u32,
        /// Whether the same request sent alone also differed; `None` if it was not repeated.
        pub alone_differs: Option<bool>,
        /// The request whose reference it equals instead of its own.
        pub belongs_to: Option<u32>,
        /// A bit for each [`Flaw`].
        pub flaws: u32,
        /// Equal tokens before the first different one, if the response has log-probabilities; `None` if all are equal.
        pub first_token: Option<u32>,
        /// Mean Kullback-Leibler divergence from the reference over the tokens with an equal prefix, in nats.
        pub mean_kl: Option<f64>,
        /// Its maximum.
        pub max_kl: Option<f64>,
        /// The reference around the first difference; empty if texts are not kept.
        pub expected: String,
    }
}

/// What the output of a request is worth.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// The comparison with its reference, if outputs are checked.
    pub check: Option<OutputCheck>,
    /// Scores of its grader by name, if outputs are graded.
    pub scores: Option<Value>,
    /// The log-probabilities of its events, each a line of JSON, until they are compared.
    pub logprobs: Vec<u8>,
}

impl OutputCheck {
    /// Characters after the first difference that are compared.
    pub const MAX_EDITED: usize = 256;

    /// The part of a text around the first difference that is shown.
    pub fn excerpt(text: &str, first_difference: usize) -> String {
        const BEFORE: usize = 40;
        const AFTER: usize = 120;
        text.chars().skip(first_difference.saturating_sub(BEFORE)).take(BEFORE + AFTER).collect()
    }

    /// Whether the output is not its reference.
    pub fn differs(&self) -> bool {
        self.first_difference.is_some()
    }

    /// Adds a flaw.
    pub fn add(&mut self, flaw: Flaw) {
        self.flaws |= 1 << flaw as u32;
    }

    /// Its flaws.
    pub fn flaws(&self) -> impl Iterator<Item = Flaw> {
        let bits = self.flaws;
        Flaw::ALL.into_iter().filter(move |flaw| bits & (1 << *flaw as u32) != 0)
    }
}
