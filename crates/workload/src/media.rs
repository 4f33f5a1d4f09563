//! Images, audio and video: generating, decoding, encoding.

pub(crate) mod audio;
pub(crate) mod bmp;
mod compressed;
mod exif;
pub(crate) mod image;
pub(crate) mod jpeg;
mod jpeg_reader;
pub(crate) mod links;
mod pcm;
pub(crate) mod reference;
mod rgb;
pub(crate) mod video;
