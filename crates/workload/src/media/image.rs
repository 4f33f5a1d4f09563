//! Images: decodes PNG, JPEG and WebP files, composites transparent ones over white, and encodes JPEG or PNG.

use std::io::Cursor;

use tacho_text::guarded;

use super::{Rgb, exif::turn, jpeg, jpeg_reader, reference::data_url};
use crate::limits::{MAX_PIXELS, is_image};

impl Rgb {
    /// Decodes an image file in display orientation; `None` if its format is unknown, or it is broken or too large.
    pub(crate) fn decode(file: &[u8]) -> Option<Rgb> {
        match file {
            [0xff, 0xd8, ..] => jpeg_reader::decode(file).map(|(image, orientation)| turn(image, orientation)),
            _ => Rgb::decode_as_stored(file),
        }
    }

    /// Decodes an image file in its stored orientation.
    pub(crate) fn decode_as_stored(file: &[u8]) -> Option<Rgb> {
        match file {
            [0x89, b'P', b'N', b'G', ..] => guarded(|| decode_png(file)).flatten(),
            [0xff, 0xd8, ..] => jpeg_reader::decode(file).map(|(image, _)| image),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => guarded(|| decode_webp(file)).flatten(),
            _ => None,
        }
    }

    pub(crate) fn to_jpeg_url(&self) -> String {
        data_url("image/jpeg", &jpeg::encode(self))
    }

    pub(crate) fn to_png_url(&self) -> Option<String> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header().ok()?.write_image_data(&self.pixels).ok()?;
        Some(data_url("image/png", &file))
    }
}

fn decode_png(file: &[u8]) -> Option<Rgb> {
    let mut decoder = png::Decoder::new(Cursor::new(file));
    let header = decoder.read_header_info().ok()?;
    if !is_image(header.width as usize, header.height as usize) {
        return None;
    }
    // Pillow keeps 16-bit gray and clips values above 255 when it converts them to colors.
    let deep_gray = header.color_type == png::ColorType::Grayscale && header.bit_depth == png::BitDepth::Sixteen;
    if !deep_gray {
        decoder.set_transformations(png::Transformations::normalize_to_color8());
    }
    let mut reader = decoder.read_info().ok()?;
    let mut samples = vec![0; reader.output_buffer_size()?];
    let frame = reader.next_frame(&mut samples).ok()?;
    samples.truncate(frame.buffer_size());
    let pixels = match frame.color_type {
        png::ColorType::Grayscale if deep_gray => {
            samples.chunks_exact(2).flat_map(|gray| [if gray[0] > 0 { 255 } else { gray[1] }; 3]).collect()
        }
        png::ColorType::Rgb => samples,
        png::ColorType::Grayscale => samples.iter().flat_map(|&gray| [gray; 3]).collect(),
        png::ColorType::GrayscaleAlpha => {
            samples.chunks_exact(2).flat_map(|pixel| [over_white(pixel[0], pixel[1]); 3]).collect()
        }
        png::ColorType::Rgba => flattened(samples),
        png::ColorType::Indexed => return None,
    };
    Some(Rgb { width: frame.width as usize, height: frame.height as usize, pixels })
}

/// Decodes a WebP file, or the first frame of an animated one.
fn decode_webp(file: &[u8]) -> Option<Rgb> {
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(file)).ok()?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    if !is_image(width, height) {
        return None;
    }
    decoder.set_memory_limit(MAX_PIXELS * 8);
    let mut samples = vec![0; decoder.output_buffer_size()?];
    decoder.read_image(&mut samples).ok()?;
    let pixels = if decoder.has_alpha() { flattened(samples) } else { samples };
    Some(Rgb { width, height, pixels })
}

/// Composites colors with opacity over white, in place: a few bytes can claim to be the largest accepted image.
fn flattened(mut samples: Vec<u8>) -> Vec<u8> {
    let pixels = samples.len() / 4;
    for at in 0..pixels {
        let opacity = samples[at * 4 + 3];
        for channel in 0..3 {
            samples[at * 3 + channel] = over_white(samples[at * 4 + channel], opacity);
        }
    }
    samples.truncate(pixels * 3);
    samples
}

/// Composites a color with its opacity over white, rounded as in Pillow.
pub(super) fn over_white(color: u8, opacity: u8) -> u8 {
    let (color, opacity) = (u32::from(color), u32::from(opacity));
    let sum = 255 * (255 - opacity) + color * opacity + 128;
    (((sum >> 8) + sum) >> 8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transparency_shows_white() {
        assert_eq!((over_white(0, 0), over_white(0, 255), over_white(200, 255)), (255, 0, 200));
        assert_eq!(over_white(0, 128), 127);
        assert_eq!(flattened(vec![1, 2, 3, 255, 9, 9, 9, 0, 0, 200, 40, 128]), [1, 2, 3, 255, 255, 255, 127, 227, 147]);
    }

    #[test]
    fn a_jpeg_is_read_nearly_as_it_was_written_and_turned() {
        let (width, height) = (37, 21);
        let pixel = |at: usize| [(at % width * 5) as u8, (at / width * 9) as u8, 128];
        let image = Rgb { width, height, pixels: (0..width * height).flat_map(pixel).collect() };
        let mut file = jpeg::encode(&image);
        let read = Rgb::decode(&file).unwrap();
        assert_eq!((read.width, read.height), (width, height));
        let far = read.pixels.iter().zip(&image.pixels).filter(|(ours, theirs)| ours.abs_diff(**theirs) > 24).count();
        assert!(far < image.pixels.len() / 50, "{far} samples are far off");
        let exif = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        file.splice(2..2, exif.iter().copied());
        assert_eq!(Rgb::decode_as_stored(&file), Some(read));
        assert_eq!(Rgb::decode(&file).map(|turned| (turned.width, turned.height)), Some((height, width)));
        for broken in [&b"\xff\xd8"[..], b"\xff\xd8\xff\xda\x00\x02"] {
            assert_eq!(Rgb::decode(broken), None);
        }
    }

    #[test]
    fn lossless_webp_keeps_pixels_and_opacity() {
        let webp = |samples: &[u8], color| {
            let mut file = Vec::new();
            image_webp::WebPEncoder::new(&mut file).encode(samples, 2, 1, color).unwrap();
            Rgb::decode(&file).unwrap().pixels
        };
        assert_eq!(webp(&[1, 2, 3, 4, 5, 6], image_webp::ColorType::Rgb8), [1, 2, 3, 4, 5, 6]);
        assert_eq!(webp(&[1, 2, 3, 255, 9, 9, 9, 0], image_webp::ColorType::Rgba8), [1, 2, 3, 255, 255, 255]);
    }

    #[test]
    fn png_round_trips() {
        let image = Rgb { width: 3, height: 2, pixels: (0..18).collect() };
        let url = image.to_png_url().unwrap();
        let data = url.strip_prefix("data:image/png;base64,").unwrap();
        let file = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap();
        assert_eq!(Rgb::decode(&file), Some(image));
    }
}
