//! Pixels.

/// Pixels of 8 bits per channel, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rgb {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<u8>,
}
