//! Requirements of requests on the protocol, and what a protocol supports.

/// A requirement on the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    TokenIds,
    Chat,
    /// Images, videos and audio, with a text response.
    Media,
    EmbeddedMedia,
    /// Descriptions of tools that the model may call.
    Tools,
}

/// A protocol or an engine, as far as datasets are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carrier {
    pub name: &'static str,
    /// What it supports in addition to text.
    pub carries: &'static [Need],
}

impl Carrier {
    pub fn carries(&self, need: Need) -> bool {
        self.carries.contains(&need)
    }

    /// Whether it supports media for any purpose.
    pub(crate) fn takes_media(&self) -> bool {
        self.carries(Need::Media) || self.carries(Need::EmbeddedMedia)
    }
}
