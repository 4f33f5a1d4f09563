//! Images, sounds and films: made, read, written.

pub(crate) mod audio;
mod compressed;
pub(crate) mod image;
pub(crate) mod jpeg;
mod jpeg_reader;
pub(crate) mod links;
pub(crate) mod reference;
pub(crate) mod video;
