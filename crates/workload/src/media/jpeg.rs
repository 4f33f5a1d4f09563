//! A baseline JPEG encoder with the same output as libjpeg-turbo: quality 75, 4:2:0, the slow integer transform, the
//! standard Huffman tables. Not a general encoder.

pub(super) mod tables;

use super::Rgb;
use tables::{AC, CHROMA_QUANT, DC, LUMA_QUANT, ZIGZAG, quality_75};

/// Side of a block in pixels.
const BLOCK: usize = 8;
/// Side of a 4:2:0 unit: four luma blocks, one block per chroma component.
const UNIT: usize = 16;

pub(crate) fn encode(image: &Rgb) -> Vec<u8> {
    let quant = [quality_75(&LUMA_QUANT), quality_75(&CHROMA_QUANT)];
    let mut out = Vec::with_capacity(image.pixels.len() / 4 + 1024);
    write_head(&mut out, image, &quant);
    let planes = Planes::new(image);
    let mut bits = BitWriter::new(out);
    let mut last_dc = [0_i32; 3];
    for unit_y in 0..planes.luma.height / UNIT {
        for unit_x in 0..planes.luma.width / UNIT {
            write_unit(&mut bits, image, &planes, &quant, (unit_x, unit_y), &mut last_dc);
        }
    }
    let mut out = bits.finish();
    out.extend_from_slice(&[0xff, 0xd9]);
    out
}

fn write_unit(
    bits: &mut BitWriter,
    image: &Rgb,
    planes: &Planes,
    quant: &[[u16; 64]; 2],
    (unit_x, unit_y): (usize, usize),
    last_dc: &mut [i32; 3],
) {
    let (blocks_wide, blocks_high) = (image.width.div_ceil(BLOCK), image.height.div_ceil(BLOCK));
    let mut before = [0_i16; 64];
    for slot in 0..4 {
        let (x, y) = (unit_x * 2 + slot % 2, unit_y * 2 + slot / 2);
        let block = if x < blocks_wide && y < blocks_high {
            planes.luma.block(x, y, &quant[0])
        } else {
            // A block outside the image is cheapest if it repeats the mean of the previous one.
            let mut dummy = [0; 64];
            dummy[0] = before[0];
            dummy
        };
        write_block(bits, &block, 0, &mut last_dc[0]);
        before = block;
    }
    for (index, plane) in [&planes.blue, &planes.red].into_iter().enumerate() {
        write_block(bits, &plane.block(unit_x, unit_y, &quant[1]), 1, &mut last_dc[index + 1]);
    }
}

/// Encodes one block, its coefficients in natural order.
fn write_block(bits: &mut BitWriter, block: &[i16; 64], table: usize, last_dc: &mut i32) {
    let dc = i32::from(block[0]);
    let difference = dc - *last_dc;
    *last_dc = dc;
    let size = magnitude(difference);
    bits.put(DC[table].codes()[size as usize]);
    bits.put((low_bits(difference, size), size));
    let codes = AC[table].codes();
    let mut run = 0;
    for &slot in &ZIGZAG[1..] {
        let value = i32::from(block[slot]);
        if value == 0 {
            run += 1;
            continue;
        }
        while run > 15 {
            bits.put(codes[0xf0]);
            run -= 16;
        }
        let size = magnitude(value);
        bits.put(codes[(run << 4) | size as usize]);
        bits.put((low_bits(value, size), size));
        run = 0;
    }
    if run > 0 {
        bits.put(codes[0]);
    }
}

/// Number of bits of a magnitude.
fn magnitude(value: i32) -> u32 {
    u32::BITS - value.unsigned_abs().leading_zeros()
}

/// A negative number is stored as its complement.
fn low_bits(value: i32, size: u32) -> u32 {
    let value = if value < 0 { value - 1 } else { value };
    value as u32 & ((1 << size) - 1)
}

/// One component, padded to whole blocks.
struct Plane {
    width: usize,
    height: usize,
    samples: Vec<u8>,
}

/// The image as luma and two chroma components of half the size.
struct Planes {
    luma: Plane,
    blue: Plane,
    red: Plane,
}

impl Planes {
    fn new(image: &Rgb) -> Self {
        let (width, height) = (image.width.next_multiple_of(UNIT), image.height.next_multiple_of(UNIT));
        let mut luma = Plane { width, height, samples: Vec::with_capacity(width * height) };
        let half = || Plane { width: width / 2, height: height / 2, samples: Vec::with_capacity(width * height / 4) };
        let (mut blue, mut red) = (half(), half());
        let mut chroma: [[Vec<u8>; 2]; 2] = Default::default();
        for y in 0..image.height {
            let row = &image.pixels[y * image.width * 3..][..image.width * 3];
            let (blues, reds) = &mut chroma[y % 2].split_at_mut(1);
            convert_row(row, width, &mut luma.samples, &mut blues[0], &mut reds[0]);
            let last = y + 1 == image.height;
            if y % 2 == 1 || last {
                // An odd last row is paired with itself.
                let other = if y % 2 == 1 { 1 } else { 0 };
                halve_rows(&chroma[0][0], &chroma[other][0], &mut blue.samples);
                halve_rows(&chroma[0][1], &chroma[other][1], &mut red.samples);
            }
        }
        for plane in [&mut luma, &mut blue, &mut red] {
            plane.repeat_last_row();
        }
        Planes { luma, blue, red }
    }
}

/// Fixed-point conversion of a row; its last pixel is repeated up to `width`.
fn convert_row(row: &[u8], width: usize, luma: &mut Vec<u8>, blue: &mut Vec<u8>, red: &mut Vec<u8>) {
    blue.clear();
    red.clear();
    let start = luma.len();
    for pixel in row.chunks_exact(3) {
        let (r, g, b) = (i32::from(pixel[0]), i32::from(pixel[1]), i32::from(pixel[2]));
        luma.push(((19_595 * r + 38_470 * g + 7_471 * b + 32_768) >> 16) as u8);
        blue.push(((-11_059 * r - 21_709 * g + 32_768 * b + 8_388_608 + 32_767) >> 16) as u8);
        red.push(((32_768 * r - 27_439 * g - 5_329 * b + 8_388_608 + 32_767) >> 16) as u8);
    }
    let pad = |samples: &mut Vec<u8>, len: usize| {
        let last = samples.last().copied().unwrap_or(0);
        samples.resize(len, last);
    };
    pad(luma, start + width);
    pad(blue, width);
    pad(red, width);
}

/// The mean of each 2×2 samples; the rounding term alternates.
fn halve_rows(upper: &[u8], lower: &[u8], out: &mut Vec<u8>) {
    let pairs = upper.chunks_exact(2).zip(lower.chunks_exact(2)).enumerate();
    out.extend(pairs.map(|(column, (upper, lower))| {
        let sum: u16 = upper.iter().chain(lower).map(|&sample| u16::from(sample)).sum();
        ((sum + 1 + (column as u16 & 1)) >> 2) as u8
    }));
}

impl Plane {
    fn repeat_last_row(&mut self) {
        while self.samples.len() < self.width * self.height {
            let start = self.samples.len() - self.width;
            self.samples.extend_from_within(start..);
        }
    }

    /// The quantized coefficients of a block, in natural order.
    fn block(&self, x: usize, y: usize, quant: &[u16; 64]) -> [i16; 64] {
        let mut values = [0_i32; 64];
        for row in 0..BLOCK {
            let start = (y * BLOCK + row) * self.width + x * BLOCK;
            for (value, &sample) in values[row * BLOCK..].iter_mut().zip(&self.samples[start..start + BLOCK]) {
                *value = i32::from(sample) - 128;
            }
        }
        forward(&mut values);
        std::array::from_fn(|slot| {
            let divisor = i32::from(quant[slot]) * 8;
            let rounded = (values[slot].abs() + divisor / 2) / divisor;
            (if values[slot] < 0 { -rounded } else { rounded }) as i16
        })
    }
}

fn write_head(out: &mut Vec<u8>, image: &Rgb, quant: &[[u16; 64]; 2]) {
    out.extend_from_slice(&[0xff, 0xd8, 0xff, 0xe0, 0, 16]);
    out.extend_from_slice(b"JFIF\0\x01\x01\x00\x00\x01\x00\x01\x00\x00");
    for (index, table) in quant.iter().enumerate() {
        out.extend_from_slice(&[0xff, 0xdb, 0, 67, index as u8]);
        out.extend(ZIGZAG.iter().map(|&slot| table[slot] as u8));
    }
    let side = |length: usize| (length as u16).to_be_bytes();
    out.extend_from_slice(&[0xff, 0xc0, 0, 17, 8]);
    out.extend_from_slice(&side(image.height));
    out.extend_from_slice(&side(image.width));
    out.extend_from_slice(&[3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
    for (class, table) in [(0x00, &DC[0]), (0x10, &AC[0]), (0x01, &DC[1]), (0x11, &AC[1])] {
        out.extend_from_slice(&[0xff, 0xc4]);
        out.extend_from_slice(&(19 + table.symbols.len() as u16).to_be_bytes());
        out.push(class);
        out.extend_from_slice(&table.counts);
        out.extend_from_slice(table.symbols);
    }
    out.extend_from_slice(&[0xff, 0xda, 0, 12, 3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]);
}

struct BitWriter {
    out: Vec<u8>,
    held: u64,
    count: u32,
}

impl BitWriter {
    /// Appends after the existing bytes.
    fn new(out: Vec<u8>) -> Self {
        BitWriter { out, held: 0, count: 0 }
    }

    /// Appends the low bits of a number.
    fn put(&mut self, (bits, count): (u32, u32)) {
        self.held = self.held << count | u64::from(bits);
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.held >> self.count) as u8;
            self.out.push(byte);
            if byte == 0xff {
                self.out.push(0);
            }
        }
    }

    /// Pads the last byte with ones.
    fn finish(mut self) -> Vec<u8> {
        self.put((0x7f, 7));
        self.out
    }
}

const fn descale(value: i32, bits: u32) -> i32 {
    (value + (1 << (bits - 1))) >> bits
}

/// Transforms a block of level-shifted samples in place.
fn forward(block: &mut [i32; 64]) {
    for row in 0..8 {
        let line: [i32; 8] = std::array::from_fn(|slot| block[row * 8 + slot]);
        for (slot, value) in pass(line, true).into_iter().enumerate() {
            block[row * 8 + slot] = value;
        }
    }
    for column in 0..8 {
        let line: [i32; 8] = std::array::from_fn(|slot| block[slot * 8 + column]);
        for (slot, value) in pass(line, false).into_iter().enumerate() {
            block[slot * 8 + column] = value;
        }
    }
}

/// Transforms one vector. Rows keep two extra bits, which columns remove.
fn pass(v: [i32; 8], rows: bool) -> [i32; 8] {
    let k = if rows { 11 } else { 15 };
    let (t0, t7, t1, t6) = (v[0] + v[7], v[0] - v[7], v[1] + v[6], v[1] - v[6]);
    let (t2, t5, t3, t4) = (v[2] + v[5], v[2] - v[5], v[3] + v[4], v[3] - v[4]);
    let (a, b, c, e) = (t0 + t3, t0 - t3, t1 + t2, t1 - t2);
    let (o0, o4) = if rows { ((a + c) << 2, (a - c) << 2) } else { (descale(a + c, 2), descale(a - c, 2)) };
    let z = (e + b) * 4433;
    let (o2, o6) = (descale(z + b * 6270, k), descale(z - e * 15137, k));
    let (z1, z2, z3, z4) = (t4 + t7, t5 + t6, t4 + t6, t5 + t7);
    let z5 = (z3 + z4) * 9633;
    let (z1, z2, z3, z4) = (z1 * -7373, z2 * -20995, z3 * -16069 + z5, z4 * -3196 + z5);
    let o7 = descale(t4 * 2446 + z1 + z3, k);
    let o5 = descale(t5 * 16819 + z2 + z4, k);
    let o3 = descale(t6 * 25172 + z2 + z3, k);
    let o1 = descale(t7 * 12299 + z1 + z4, k);
    [o0, o1, o2, o3, o4, o5, o6, o7]
}

#[cfg(test)]
mod tests {
    use tacho_pyrand::Generator;

    use super::*;

    #[test]
    fn random_pixels_give_libjpegs_bytes() {
        let (width, height) = (64, 48);
        let mut pixels = vec![0; width * height * 3];
        Generator::new(0).fill_bytes(&mut pixels);
        let file = encode(&Rgb { width, height, pixels });
        assert_eq!(file.len(), 2468);
        assert_eq!(tacho_testkit::sha256(&file), "7461ae5c0867c19dcc163f4428bf0e007efbb152e29076daa5fcbaae160bac90");
    }
}
