//! Python's pickle, protocol 5, of the few shapes that are hashed. Frames as the C pickler cuts them.

use super::Input;

/// A frame that has reached this size ends behind the item that made it so large.
const FRAME_TARGET: usize = 64 * 1024;
/// Fewer bytes stand without a frame's head.
const FRAME_LEAST: usize = 4;
const FRAME_HEAD: usize = 9;

/// Writes the pickle of an input.
pub(super) fn write(input: Input<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0x80, 5]);
    let mut pickler = Pickler { start: 0, out };
    pickler.open();
    match input {
        Input::Text(text) => pickler.text(text),
        Input::Block(parent, tokens) => {
            pickler.bytes(parent);
            pickler.tuple(tokens);
            pickler.item(b"N");
            pickler.put(&[0x87, MEMOIZE]);
        }
        Input::Pair(bytes, numbers) => {
            pickler.bytes(bytes);
            pickler.tuple(numbers);
            pickler.put(&[0x86, MEMOIZE]);
        }
    }
    pickler.put(b".");
    pickler.close();
}

const MEMOIZE: u8 = 0x94;

struct Pickler<'o> {
    out: &'o mut Vec<u8>,
    /// Where the head of the open frame stands.
    start: usize,
}

impl Pickler<'_> {
    fn open(&mut self) {
        self.start = self.out.len();
        self.out.extend_from_slice(&[0x95, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// Fills the head in, or takes it away from a frame that is too short for one.
    fn close(&mut self) {
        let len = self.out.len() - self.start - FRAME_HEAD;
        if len < FRAME_LEAST {
            self.out.drain(self.start..self.start + FRAME_HEAD);
        } else {
            self.out[self.start + 1..self.start + FRAME_HEAD].copy_from_slice(&(len as u64).to_le_bytes());
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// The end of an item, and of a frame that has become large.
    fn boundary(&mut self) {
        if self.out.len() - self.start - FRAME_HEAD >= FRAME_TARGET {
            self.close();
            self.open();
        }
    }

    fn item(&mut self, bytes: &[u8]) {
        self.put(bytes);
        self.boundary();
    }

    fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(len) => self.put(&[0x8c, len]),
            Err(_) => {
                self.put(b"X");
                self.put(&(text.len() as u32).to_le_bytes());
            }
        }
        self.put(text.as_bytes());
        self.item(&[MEMOIZE]);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(len) => self.put(&[b'C', len]),
            Err(_) => {
                self.put(b"B");
                self.put(&(bytes.len() as u32).to_le_bytes());
            }
        }
        self.put(bytes);
        self.item(&[MEMOIZE]);
    }

    /// Short tuples need no mark; the empty one is always the same object, and is not remembered.
    fn tuple(&mut self, numbers: &[u64]) {
        match numbers.len() {
            0 => return self.item(b")"),
            1..=3 => numbers.iter().for_each(|&number| self.number(number)),
            _ => {
                self.put(b"(");
                numbers.iter().for_each(|&number| self.number(number));
            }
        }
        let close = match numbers.len() {
            1 => 0x85,
            2 => 0x86,
            3 => 0x87,
            _ => b't',
        };
        self.item(&[close, MEMOIZE]);
    }

    fn number(&mut self, number: u64) {
        match number {
            0..=0xff => self.put(&[b'K', number as u8]),
            0x100..=0xffff => {
                self.put(b"M");
                self.put(&(number as u16).to_le_bytes());
            }
            0x1_0000..=0x7fff_ffff => {
                self.put(b"J");
                self.put(&(number as u32).to_le_bytes());
            }
            _ => {
                // The sign needs a bit of its own.
                let bytes = u128::from(number).to_le_bytes();
                let len = (64 - number.leading_zeros() as usize) / 8 + 1;
                self.put(&[0x8a, len as u8]);
                self.put(&bytes[..len]);
            }
        }
        self.boundary();
    }
}
