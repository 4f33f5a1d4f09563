//! The bits of the entropy-coded part: packed from the highest bit, with a zero after every 0xff byte.

/// Appends bits to a file.
pub(super) struct BitWriter {
    out: Vec<u8>,
    held: u64,
    count: u32,
}

impl BitWriter {
    /// Appends after the existing bytes.
    pub(super) fn new(out: Vec<u8>) -> Self {
        BitWriter { out, held: 0, count: 0 }
    }

    /// Appends the low bits of a number.
    pub(super) fn put(&mut self, (bits, count): (u32, u32)) {
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
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.put((0x7f, 7));
        self.out
    }
}
