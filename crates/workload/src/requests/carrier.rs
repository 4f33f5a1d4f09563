//! What requests ask of the protocol that carries them, and what a protocol can carry.

/// What a protocol must be able to carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Token ids as a prompt of their own.
    TokenIds,
    /// Conversations.
    Chat,
    /// Images, videos and audio, with text as the response.
    Media,
    /// Media of which vectors are made.
    EmbeddedMedia,
    /// Descriptions of functions that the answer may call.
    Tools,
}

/// A protocol or an engine, as far as datasets are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carrier {
    /// Its name, for messages.
    pub name: &'static str,
    /// What it can carry in addition to text.
    pub carries: &'static [Need],
}

impl Carrier {
    /// Whether it can carry this.
    pub fn carries(&self, need: Need) -> bool {
        self.carries.contains(&need)
    }

    /// Whether it takes media for any purpose.
    pub(crate) fn takes_media(&self) -> bool {
        self.carries(Need::Media) || self.carries(Need::EmbeddedMedia)
    }
}
