//! A JPEG decoder with the same pixels as libjpeg-turbo: the slow integer transform, smooth upsampling, fixed-point
//! colors. Baseline and progressive files of one or three components. The decoders that exist as libraries are off by up
//! to two levels, which changes the bytes of an image that is encoded again.

mod entropy;
mod upsample;

use super::{Rgb, exif::orientation};
use crate::limits::is_image;
use entropy::{Huffman, Scan, decode_scan};
use upsample::upsample;

#[derive(Debug, Clone, Default)]
struct Component {
    id: u8,
    h: usize,
    v: usize,
    table: usize,
    width: usize,
    height: usize,
    /// Blocks in memory, in whole units.
    blocks_wide: usize,
    blocks_high: usize,
    coefficients: Vec<[i16; 64]>,
}

/// The state from the markers so far.
#[derive(Default)]
struct Decoder {
    width: usize,
    height: usize,
    progressive: bool,
    quant: [Option<[u16; 64]>; 4],
    dc: [Option<Huffman>; 4],
    ac: [Option<Huffman>; 4],
    components: Vec<Component>,
    restart: usize,
    adobe: Option<u8>,
    jfif: bool,
    orientation: u16,
}

/// The image as stored and its orientation; `None` if the file is broken or has another format.
pub(crate) fn decode(file: &[u8]) -> Option<(Rgb, u16)> {
    let mut decoder = Decoder { orientation: 1, ..Decoder::default() };
    let mut rest = file.strip_prefix(&[0xff, 0xd8])?;
    loop {
        let start = rest.iter().position(|&byte| byte == 0xff)?;
        let marker = rest[start..].iter().position(|&byte| byte != 0xff)? + start;
        let kind = rest[marker];
        rest = &rest[marker + 1..];
        if kind == 0xd9 || rest.len() < 2 {
            break;
        }
        if matches!(kind, 0xd0..=0xd7 | 0x00 | 0x01) {
            continue;
        }
        let length = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        let segment = rest.get(2..length)?;
        rest = &rest[length..];
        if kind == 0xda {
            let used = decoder.scan(segment, rest)?;
            rest = &rest[used..];
        } else {
            decoder.segment(kind, segment)?;
        }
    }
    let orientation = decoder.orientation;
    decoder.image().map(|image| (image, orientation))
}

impl Decoder {
    fn segment(&mut self, kind: u8, segment: &[u8]) -> Option<()> {
        match kind {
            0xc0..=0xc2 => self.frame(kind == 0xc2, segment)?,
            // Lossless, hierarchical and arithmetic files are not supported.
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcf => return None,
            0xc4 => self.huffman(segment)?,
            0xdb => self.quantisation(segment)?,
            0xdd => self.restart = usize::from(u16::from_be_bytes(segment.get(..2)?.try_into().ok()?)),
            0xe0 => self.jfif |= segment.starts_with(b"JFIF\0"),
            0xe1 => {
                if let Some(exif) = segment.strip_prefix(b"Exif\0\0") {
                    self.orientation = orientation(exif);
                }
            }
            0xee if segment.starts_with(b"Adobe") => self.adobe = segment.get(11).copied(),
            _ => {}
        }
        Some(())
    }

    fn frame(&mut self, progressive: bool, segment: &[u8]) -> Option<()> {
        self.progressive = progressive;
        let word = |at: usize| Some(usize::from(u16::from_be_bytes(segment.get(at..at + 2)?.try_into().ok()?)));
        (self.height, self.width) = (word(1)?, word(3)?);
        let count = usize::from(*segment.get(5)?);
        // A second frame would discard the scans of the first.
        let first = self.components.is_empty();
        if segment[0] != 8 || !first || !is_image(self.width, self.height) || !matches!(count, 1 | 3) {
            return None;
        }
        let entries = segment.get(6..6 + count * 3)?.chunks_exact(3);
        self.components = entries
            .map(|entry| Component {
                id: entry[0],
                h: usize::from(entry[1] >> 4),
                v: usize::from(entry[1] & 15),
                table: usize::from(entry[2] & 3),
                ..Component::default()
            })
            .collect();
        let (h, v) = self.sampling()?;
        let (units_wide, units_high) = (self.width.div_ceil(8 * h), self.height.div_ceil(8 * v));
        for component in &mut self.components {
            component.width = (self.width * component.h).div_ceil(h);
            component.height = (self.height * component.v).div_ceil(v);
            component.blocks_wide = units_wide * component.h;
            component.blocks_high = units_high * component.v;
            component.coefficients = vec![[0; 64]; component.blocks_wide * component.blocks_high];
        }
        Some(())
    }

    /// The largest sampling factors; `None` if one is out of range.
    fn sampling(&self) -> Option<(usize, usize)> {
        let valid = self.components.iter().all(|part| (1..=4).contains(&part.h) && (1..=4).contains(&part.v));
        let h = self.components.iter().map(|part| part.h).max()?;
        let v = self.components.iter().map(|part| part.v).max()?;
        valid.then_some((h, v))
    }

    fn huffman(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&class, rest)) = segment.split_first() {
            let counts: [u8; 16] = rest.get(..16)?.try_into().ok()?;
            let total: usize = counts.iter().map(|&count| usize::from(count)).sum();
            let table = Huffman::new(&counts, rest.get(16..16 + total)?);
            let tables = if class >> 4 == 0 { &mut self.dc } else { &mut self.ac };
            tables[usize::from(class & 3)] = Some(table);
            segment = &rest[16 + total..];
        }
        Some(())
    }

    fn quantisation(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&head, rest)) = segment.split_first() {
            let wide = head >> 4 != 0;
            let size = if wide { 128 } else { 64 };
            let steps = rest.get(..size)?;
            let mut table = [0; 64];
            for (at, &slot) in super::jpeg::tables::ZIGZAG.iter().enumerate() {
                table[slot] = match wide {
                    true => u16::from_be_bytes([steps[at * 2], steps[at * 2 + 1]]),
                    false => u16::from(steps[at]),
                };
            }
            self.quant[usize::from(head & 3)] = Some(table);
            segment = &rest[size..];
        }
        Some(())
    }

    /// Decodes a scan; returns its length in bytes.
    fn scan(&mut self, segment: &[u8], data: &[u8]) -> Option<usize> {
        let count = usize::from(*segment.first()?);
        let parts = segment.get(1..1 + count * 2)?.chunks_exact(2).map(|entry| {
            let index = self.components.iter().position(|component| component.id == entry[0])?;
            Some((index, usize::from(entry[1] >> 4 & 3), usize::from(entry[1] & 3)))
        });
        let parts: Vec<(usize, usize, usize)> = parts.collect::<Option<_>>()?;
        let tail = segment.get(1 + count * 2..4 + count * 2)?;
        let (start, end) = (usize::from(tail[0]), usize::from(tail[1]).min(63));
        let (h, v) = self.sampling()?;
        let scan = Scan {
            parts: &parts,
            band: if self.progressive { (start, end) } else { (0, 63) },
            high: if self.progressive { tail[2] >> 4 } else { 0 },
            low: if self.progressive { tail[2] & 15 } else { 0 },
            progressive: self.progressive,
            restart: self.restart,
            units: (self.width.div_ceil(8 * h), self.height.div_ceil(8 * v)),
        };
        decode_scan(&scan, &mut self.components, (&self.dc, &self.ac), data)
    }

    fn image(self) -> Option<Rgb> {
        let (h, v) = self.sampling()?;
        let mut planes = Vec::with_capacity(3);
        for component in &self.components {
            let samples = component.samples(self.quant[component.table].as_ref()?);
            planes.push(upsample(&samples, component, (h, v), (self.width, self.height))?);
        }
        let pixels = match &planes[..] {
            [gray] => gray.iter().flat_map(|&sample| [sample; 3]).collect(),
            [first, second, third] if self.is_rgb() => {
                first.iter().zip(second).zip(third).flat_map(|((&r, &g), &b)| [r, g, b]).collect()
            }
            [luma, blue, red] => luma.iter().zip(blue).zip(red).flat_map(|((&y, &cb), &cr)| color(y, cb, cr)).collect(),
            _ => return None,
        };
        Some(Rgb { width: self.width, height: self.height, pixels })
    }

    fn is_rgb(&self) -> bool {
        let ids: Vec<u8> = self.components.iter().map(|component| component.id).collect();
        match self.adobe {
            _ if self.jfif => false,
            Some(transform) => transform == 0,
            None => ids == *b"RGB",
        }
    }
}

impl Component {
    /// The samples of all blocks, in rows of the full width in blocks.
    fn samples(&self, quant: &[u16; 64]) -> Vec<u8> {
        let stride = self.blocks_wide * 8;
        let mut samples = vec![0; stride * self.blocks_high * 8];
        for (index, block) in self.coefficients.iter().enumerate() {
            let (x, y) = (index % self.blocks_wide * 8, index / self.blocks_wide * 8);
            for (row, line) in inverse(block, quant).chunks_exact(8).enumerate() {
                samples[(y + row) * stride + x..][..8].copy_from_slice(line);
            }
        }
        samples
    }
}

/// Converts to RGB in 16-bit fixed point.
fn color(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let red = y + ((91_881 * cr + HALF) >> 16);
    let green = y + ((-22_554 * cb - 46_802 * cr + HALF) >> 16);
    let blue = y + ((116_130 * cb + HALF) >> 16);
    [red, green, blue].map(|value| value.clamp(0, 255) as u8)
}

const fn descale(value: i32, bits: u32) -> i32 {
    value.wrapping_add(1 << (bits - 1)) >> bits
}

/// The samples of a block of quantized coefficients.
fn inverse(block: &[i16; 64], quant: &[u16; 64]) -> [u8; 64] {
    let mut values: [i32; 64] = std::array::from_fn(|slot| i32::from(block[slot]) * i32::from(quant[slot]));
    for column in 0..8 {
        let line: [i32; 8] = std::array::from_fn(|slot| values[slot * 8 + column]);
        for (slot, value) in pass(line, 11).into_iter().enumerate() {
            values[slot * 8 + column] = value;
        }
    }
    let mut samples = [0; 64];
    for row in 0..8 {
        let line: [i32; 8] = std::array::from_fn(|slot| values[row * 8 + slot]);
        for (slot, value) in pass(line, 18).into_iter().enumerate() {
            samples[row * 8 + slot] = (value + 128).clamp(0, 255) as u8;
        }
    }
    samples
}

/// Transforms one vector. The first pass keeps two extra bits.
fn pass(v: [i32; 8], bits: u32) -> [i32; 8] {
    let z1 = v[2].wrapping_add(v[6]).wrapping_mul(4433);
    let (t2, t3) = (z1.wrapping_add(v[6].wrapping_mul(-15137)), z1.wrapping_add(v[2].wrapping_mul(6270)));
    let (t0, t1) = (v[0].wrapping_add(v[4]) << 13, v[0].wrapping_sub(v[4]) << 13);
    let even = [t0.wrapping_add(t3), t1.wrapping_add(t2), t1.wrapping_sub(t2), t0.wrapping_sub(t3)];
    let (z1, z2, z3, z4) =
        (v[7].wrapping_add(v[1]), v[5].wrapping_add(v[3]), v[7].wrapping_add(v[3]), v[5].wrapping_add(v[1]));
    let z5 = z3.wrapping_add(z4).wrapping_mul(9633);
    let (z1, z2) = (z1.wrapping_mul(-7373), z2.wrapping_mul(-20995));
    let (z3, z4) = (z3.wrapping_mul(-16069).wrapping_add(z5), z4.wrapping_mul(-3196).wrapping_add(z5));
    let sum = |product: i32, left: i32, right: i32| product.wrapping_add(left).wrapping_add(right);
    let odd = [
        sum(v[1].wrapping_mul(12299), z1, z4),
        sum(v[3].wrapping_mul(25172), z2, z3),
        sum(v[5].wrapping_mul(16819), z2, z4),
        sum(v[7].wrapping_mul(2446), z1, z3),
    ];
    std::array::from_fn(|slot| match slot {
        0..4 => descale(even[slot].wrapping_add(odd[slot]), bits),
        _ => descale(even[7 - slot].wrapping_sub(odd[7 - slot]), bits),
    })
}
