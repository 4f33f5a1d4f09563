//! Images, audio and video: generating, decoding, encoding.

pub(crate) mod audio;
mod exif;
pub(crate) mod image;
pub(crate) mod jpeg;
mod jpeg_reader;
pub(crate) mod links;
mod pcm;
pub(crate) mod reference;
pub(crate) mod video;

/// Pixels of 8 bits per channel, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rgb {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<u8>,
}
