//! Images, sounds and films: made, read, written.

pub(crate) mod audio;
pub(crate) mod bmp;
mod compressed;
mod exif;
pub(crate) mod image;
pub(crate) mod jpeg;
mod jpeg_reader;
pub(crate) mod links;
pub(crate) mod reference;
mod rgb;
mod sound;
pub(crate) mod video;
