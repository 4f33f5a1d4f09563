//! The entropy-coded part: Huffman codes, and the passes of progressive files.

use super::Component;
use crate::media::jpeg::tables::ZIGZAG;

/// A Huffman table for decoding.
#[derive(Debug, Clone)]
pub(super) struct Huffman {
    /// Largest code of each length and the offset of its symbol; `None` for lengths without codes.
    lengths: [Option<(i32, i32)>; 17],
    symbols: Vec<u8>,
}

impl Huffman {
    /// Builds the table from the number of codes of each length, and their symbols.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Self {
        let mut lengths = [None; 17];
        let (mut code, mut at) = (0_i32, 0_i32);
        for (index, &count) in counts.iter().enumerate() {
            if count > 0 {
                let offset = at - code;
                code += i32::from(count);
                at += i32::from(count);
                lengths[index + 1] = Some((code - 1, offset));
            }
            code <<= 1;
        }
        Huffman { lengths, symbols: symbols.to_vec() }
    }

    fn symbol(&self, bits: &mut Bits<'_>) -> Option<u8> {
        let mut code = 0;
        for length in 1..=16 {
            code = code << 1 | bits.take(1) as i32;
            if let Some((largest, offset)) = self.lengths[length]
                && code <= largest
            {
                return self.symbols.get((code + offset) as usize).copied();
            }
        }
        None
    }
}

type Tables = [Option<Huffman>; 4];

pub(super) struct Scan<'s> {
    /// Component and its tables.
    pub(super) parts: &'s [(usize, usize, usize)],
    /// First and last coefficient.
    pub(super) band: (usize, usize),
    /// Bits of earlier scans, and bits of later ones; `high` is 0 in a first scan.
    pub(super) high: u8,
    pub(super) low: u8,
    pub(super) progressive: bool,
    /// Units between restart markers; 0 for none.
    pub(super) restart: usize,
    /// Units horizontally and vertically.
    pub(super) units: (usize, usize),
}

struct Bits<'d> {
    data: &'d [u8],
    at: usize,
    held: u32,
    count: u32,
}

impl Bits<'_> {
    /// The next bits; zeros after the end of the data.
    fn take(&mut self, wanted: u32) -> u32 {
        while self.count < wanted {
            let byte = match self.data.get(self.at) {
                Some(0xff) if self.data.get(self.at + 1) == Some(&0) => {
                    self.at += 2;
                    0xff
                }
                Some(0xff) | None => 0,
                Some(&byte) => {
                    self.at += 1;
                    byte
                }
            };
            self.held = self.held << 8 | u32::from(byte);
            self.count += 8;
        }
        self.count -= wanted;
        self.held >> self.count & ((1 << wanted) - 1)
    }

    /// Reads a signed number of this many bits; the upper half of the range is positive.
    fn number(&mut self, size: u32) -> i32 {
        if size == 0 {
            return 0;
        }
        let value = self.take(size) as i32;
        if value < 1 << (size - 1) { value - (1 << size) + 1 } else { value }
    }

    /// Skips past the next restart marker.
    fn restart(&mut self) {
        (self.held, self.count) = (0, 0);
        let marker = self.data[self.at.min(self.data.len())..]
            .windows(2)
            .position(|pair| pair[0] == 0xff && (0xd0..=0xd7).contains(&pair[1]));
        self.at = marker.map_or(self.data.len(), |marker| self.at + marker + 2);
    }
}

/// Decodes a scan into the coefficients; returns its length in bytes.
pub(super) fn decode_scan(
    scan: &Scan<'_>,
    components: &mut [Component],
    (dc, ac): (&Tables, &Tables),
    data: &[u8],
) -> Option<usize> {
    let mut reader =
        BlockReader { scan, bits: Bits { data, at: 0, held: 0, count: 0 }, last_dc: [0; 4], zero_blocks: 0 };
    let alone = scan.parts.len() == 1;
    let (wide, high) = match scan.parts {
        [(index, ..)] => (components[*index].width.div_ceil(8), components[*index].height.div_ceil(8)),
        _ => scan.units,
    };
    for unit in 0..wide * high {
        if scan.restart > 0 && unit > 0 && unit % scan.restart == 0 {
            reader.bits.restart();
            reader.last_dc = [0; 4];
            reader.zero_blocks = 0;
        }
        let (x, y) = (unit % wide, unit / wide);
        for (part, &(index, dc_table, ac_table)) in scan.parts.iter().enumerate() {
            let component = &mut components[index];
            let (h, v) = if alone { (1, 1) } else { (component.h, component.v) };
            for slot in 0..h * v {
                let (block_x, block_y) = (x * h + slot % h, y * v + slot / h);
                let block = component.coefficients.get_mut(block_y * component.blocks_wide + block_x)?;
                reader.block(block, part, dc[dc_table].as_ref(), ac[ac_table].as_ref())?;
            }
        }
    }
    let end = reader.bits.at.min(data.len());
    let marker = data[end..].windows(2).position(|pair| pair[0] == 0xff && !matches!(pair[1], 0 | 0xd0..=0xd7));
    Some(marker.map_or(data.len(), |marker| end + marker))
}

struct BlockReader<'r> {
    scan: &'r Scan<'r>,
    bits: Bits<'r>,
    last_dc: [i32; 4],
    /// Number of following blocks without further coefficients.
    zero_blocks: u32,
}

impl BlockReader<'_> {
    fn block(&mut self, block: &mut [i16; 64], part: usize, dc: Option<&Huffman>, ac: Option<&Huffman>) -> Option<()> {
        let (start, end) = self.scan.band;
        if start == 0 {
            self.mean(block, part, dc)?;
        }
        if end == 0 {
            return Some(());
        }
        match (self.scan.progressive, self.scan.high) {
            (false, _) => self.sequential(block, ac?),
            (true, 0) => self.first(block, ac?),
            (true, _) => self.refine(block, ac?),
        }
    }

    fn mean(&mut self, block: &mut [i16; 64], part: usize, dc: Option<&Huffman>) -> Option<()> {
        if self.scan.high > 0 {
            block[0] |= (self.bits.take(1) << self.scan.low) as i16;
            return Some(());
        }
        let size = u32::from(dc?.symbol(&mut self.bits)?);
        let last = self.last_dc.get_mut(part)?;
        *last = last.wrapping_add(self.bits.number(size.min(16)));
        block[0] = (*last << self.scan.low) as i16;
        Some(())
    }

    fn sequential(&mut self, block: &mut [i16; 64], ac: &Huffman) -> Option<()> {
        let mut at = 1;
        while at < 64 {
            let symbol = ac.symbol(&mut self.bits)?;
            let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            match (run, size) {
                (15, 0) => at += 16,
                (_, 0) => break,
                _ => {
                    at += run;
                    *block.get_mut(*ZIGZAG.get(at)?)? = self.bits.number(size) as i16;
                    at += 1;
                }
            }
        }
        Some(())
    }

    /// Decodes the upper bits of a band.
    fn first(&mut self, block: &mut [i16; 64], ac: &Huffman) -> Option<()> {
        if self.zero_blocks > 0 {
            self.zero_blocks -= 1;
            return Some(());
        }
        let (mut at, end) = (self.scan.band.0.max(1), self.scan.band.1);
        while at <= end {
            let symbol = ac.symbol(&mut self.bits)?;
            let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
            match (run, size) {
                (15, 0) => at += 16,
                (run, 0) => {
                    self.zero_blocks = (1 << run) - 1 + self.bits.take(run);
                    break;
                }
                _ => {
                    at += run as usize;
                    block[*ZIGZAG.get(at)?] = (self.bits.number(size) << self.scan.low) as i16;
                    at += 1;
                }
            }
        }
        Some(())
    }

    /// Decodes one more bit of a band: of nonzero coefficients, and of some that were zero.
    fn refine(&mut self, block: &mut [i16; 64], ac: &Huffman) -> Option<()> {
        let bit = 1_i16 << self.scan.low;
        let (mut at, end) = (self.scan.band.0.max(1), self.scan.band.1);
        if self.zero_blocks == 0 {
            while at <= end {
                let symbol = ac.symbol(&mut self.bits)?;
                let (mut run, size) = (u32::from(symbol >> 4), symbol & 15);
                let mut fresh = 0;
                if size == 0 && run < 15 {
                    self.zero_blocks = (1 << run) + self.bits.take(run);
                    break;
                } else if size != 0 {
                    fresh = if self.bits.take(1) == 1 { bit } else { -bit };
                }
                while at <= end {
                    let slot = ZIGZAG[at];
                    if block[slot] != 0 {
                        self.correct(&mut block[slot], bit);
                    } else if run == 0 {
                        block[slot] = fresh;
                        at += 1;
                        break;
                    } else {
                        run -= 1;
                    }
                    at += 1;
                }
            }
        }
        if self.zero_blocks > 0 {
            while at <= end {
                let slot = ZIGZAG[at];
                if block[slot] != 0 {
                    self.correct(&mut block[slot], bit);
                }
                at += 1;
            }
            self.zero_blocks -= 1;
        }
        Some(())
    }

    fn correct(&mut self, coefficient: &mut i16, bit: i16) {
        if self.bits.take(1) == 1 && *coefficient & bit == 0 {
            *coefficient += if *coefficient >= 0 { bit } else { -bit };
        }
    }
}
