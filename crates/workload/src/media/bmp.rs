//! Uncompressed BMP files: palettes of 1, 4 and 8 bits, direct colours of 16, 24 and 32 bits with or without masks.

use super::rgb::Rgb;
use crate::limits::is_image;

/// Decodes a BMP file. `None` if it is broken, too large or run-length encoded.
pub(super) fn decode(file: &[u8]) -> Option<Rgb> {
    let header = Header::read(file)?;
    let (width, height) = (header.width, header.height);
    let stride = (width * header.bits).div_ceil(32) * 4;
    let rows = file.get(header.data..)?.get(..stride.checked_mul(height)?)?;
    let mut pixels = Vec::with_capacity(width * height * 3);
    for row in 0..height {
        let stored = if header.top_down { row } else { height - 1 - row };
        let row = &rows[stored * stride..][..stride];
        for column in 0..width {
            pixels.extend(header.color(raw(row, column, header.bits)));
        }
    }
    Some(Rgb { width, height, pixels })
}

struct Header {
    width: usize,
    height: usize,
    top_down: bool,
    bits: usize,
    /// Offset of the pixels.
    data: usize,
    colors: Colors,
}

enum Colors {
    Palette(Vec<[u8; 3]>),
    /// Bit masks of red, green, blue and, unless 0, opacity.
    Masks([u32; 4]),
}

impl Header {
    fn read(file: &[u8]) -> Option<Header> {
        let size = u32_at(file, 14)? as usize;
        // BITMAPCOREHEADER, of 12 bytes, has 16-bit dimensions and colours of 3 bytes.
        let core = size == 12;
        if !core && !(40..=124).contains(&size) {
            return None;
        }
        let (width, height, bits_at) = if core {
            (u16_at(file, 18)?.into(), i64::from(u16_at(file, 20)?), 24)
        } else {
            (u32_at(file, 18)?, i64::from(u32_at(file, 22)?.cast_signed()), 28)
        };
        let (width, sides) = (usize::try_from(width).ok()?, usize::try_from(height.unsigned_abs()).ok()?);
        if !is_image(width, sides) {
            return None;
        }
        let bits = usize::from(u16_at(file, bits_at)?);
        let compression = if core { 0 } else { u32_at(file, 30)? };
        let colors = match (bits, compression) {
            (1 | 4 | 8, 0) => {
                let used = if core { 0 } else { u32_at(file, 46)? as usize };
                let used = if used == 0 { 1 << bits } else { used.min(1 << bits) };
                let entry = if core { 3 } else { 4 };
                let entries = file.get(14 + size..)?.chunks_exact(entry).take(used);
                Colors::Palette(entries.map(|color| [color[2], color[1], color[0]]).collect())
            }
            (16, 0) => Colors::Masks([0x7c00, 0x03e0, 0x001f, 0]),
            (24 | 32, 0) => Colors::Masks([0xff_0000, 0xff00, 0xff, 0]),
            (16 | 32, 3) => {
                let opacity = if size >= 56 { u32_at(file, 66)? } else { 0 };
                Colors::Masks([u32_at(file, 54)?, u32_at(file, 58)?, u32_at(file, 62)?, opacity])
            }
            _ => return None,
        };
        let data = u32_at(file, 10)? as usize;
        Some(Header { width, height: sides, top_down: height < 0, bits, data, colors })
    }

    fn color(&self, raw: u32) -> [u8; 3] {
        match &self.colors {
            Colors::Palette(palette) => palette.get(raw as usize).copied().unwrap_or_default(),
            Colors::Masks([red, green, blue, opacity]) => {
                let color = [red, green, blue].map(|&mask| scaled(raw, mask));
                let opacity = if *opacity == 0 { 255 } else { scaled(raw, *opacity) };
                color.map(|channel| super::image::over_white(channel, opacity))
            }
        }
    }
}

/// The bits of the pixel in `column`; the first pixel of a byte is in its highest bits.
fn raw(row: &[u8], column: usize, bits: usize) -> u32 {
    if bits < 8 {
        let per_byte = 8 / bits;
        let shift = 8 - bits * (column % per_byte + 1);
        return u32::from(row[column / per_byte] >> shift) & ((1 << bits) - 1);
    }
    let bytes = &row[column * bits / 8..][..bits / 8];
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

/// The bits below `mask`, scaled to 0..=255.
fn scaled(raw: u32, mask: u32) -> u8 {
    if mask == 0 {
        return 0;
    }
    let shift = mask.trailing_zeros();
    let (value, most) = (u64::from((raw & mask) >> shift), u64::from(mask >> shift));
    ((value * 255 + most / 2) / most) as u8
}

fn u16_at(file: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?))
}

/// A file of 2 × 2 pixels for tests.
#[cfg(test)]
pub(crate) fn sample(bits: u16, compression: u32, tables: &[u8], rows: &[u8]) -> Vec<u8> {
    let mut file = b"BM\0\0\0\0\0\0\0\0".to_vec();
    file.extend((54 + tables.len() as u32).to_le_bytes());
    file.extend([40u32, 2, 2].map(u32::to_le_bytes).concat());
    file.extend([1, bits].map(u16::to_le_bytes).concat());
    file.extend([compression, 0, 0, 0, 0, 0].map(u32::to_le_bytes).concat());
    file.extend(tables);
    file.extend(rows);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXELS: [u8; 12] = [255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255];

    fn pixels(file: &[u8]) -> Option<Vec<u8>> {
        decode(file).map(|image| image.pixels)
    }

    #[test]
    fn every_depth_has_the_same_pixels() {
        // The lower row is stored first; channels are in the order blue, green, red.
        let palette = [0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 0, 255, 255, 255, 0];
        let eight = sample(8, 0, &[&palette[..], &[0; 1008]].concat(), &[2, 3, 0, 0, 0, 1, 0, 0]);
        let four = sample(4, 0, &[&palette[..], &[0; 48]].concat(), &[0x23, 0, 0, 0, 0x01, 0, 0, 0]);
        let sixteen = sample(16, 0, &[], &[0x1f, 0, 0xff, 0x7f, 0, 0x7c, 0xe0, 0x03]);
        let deep = sample(24, 0, &[], &[255, 0, 0, 255, 255, 255, 0, 0, 0, 0, 255, 0, 255, 0, 0, 0]);
        let masks = [0x00_00ffu32, 0x00_ff00, 0xff_0000].map(u32::to_le_bytes).concat();
        let masked = sample(32, 3, &masks, &[0, 0, 255, 9, 255, 255, 255, 9, 255, 0, 0, 9, 0, 255, 0, 9]);
        for (name, file) in [("8", eight), ("4", four), ("16", sixteen), ("24", deep), ("masks", masked)] {
            assert_eq!(pixels(&file).as_deref(), Some(&PIXELS[..]), "{name}");
            assert_eq!(pixels(&file[..file.len() - 1]), None, "{name} cut short");
        }
    }

    #[test]
    fn a_negative_height_starts_at_the_top() {
        let mut file = sample(24, 0, &[], &[0, 0, 255, 0, 255, 0, 0, 0, 255, 0, 0, 255, 255, 255, 0, 0]);
        file[22..26].copy_from_slice(&(-2i32).to_le_bytes());
        assert_eq!(pixels(&file).as_deref(), Some(&PIXELS[..]));
    }

    #[test]
    fn run_lengths_and_vast_sides_are_refused() {
        assert_eq!(pixels(&sample(8, 1, &[0; 1024], &[0; 8])), None);
        let mut vast = sample(24, 0, &[], &[0; 16]);
        vast[18..26].fill(0x7f);
        assert_eq!(pixels(&vast), None);
    }
}
