//! ZIP archives, as far as workbooks need them: deflated members, at most four gigabytes.

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// January 1, 1980: a constant date makes the output reproducible.
const DATE: u16 = 0x21;

#[derive(Default)]
pub(super) struct Zip {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    members: u16,
}

impl Zip {
    pub(super) fn add(&mut self, name: &str, content: &str) {
        let mut crc = Crc::new();
        crc.update(content.as_bytes());
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
        let packed = deflate.write_all(content.as_bytes()).and_then(|()| deflate.finish());
        let packed = packed.expect("writing to memory does not fail");
        let offset = self.bytes.len() as u32;
        let mut common = Vec::new();
        // Version needed, flags (names are UTF-8), deflate, time, date.
        for half in [20_u16, 1 << 11, 8, 0, DATE] {
            common.extend(half.to_le_bytes());
        }
        for word in [crc.sum(), packed.len() as u32, content.len() as u32] {
            common.extend(word.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&common);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(&packed);
        self.directory.extend(b"PK\x01\x02\x14\x00");
        self.directory.extend(&common);
        // No comment, first disk, no attributes.
        self.directory.extend([0; 10]);
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.members += 1;
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let offset = self.bytes.len() as u32;
        self.bytes.extend(&self.directory);
        self.bytes.extend(b"PK\x05\x06\0\0\0\0");
        self.bytes.extend(self.members.to_le_bytes());
        self.bytes.extend(self.members.to_le_bytes());
        self.bytes.extend((self.directory.len() as u32).to_le_bytes());
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend([0, 0]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_leads_to_each_member() {
        let mut zip = Zip::default();
        zip.add("a.txt", "hello");
        zip.add("b/c.xml", &"x".repeat(1000));
        let bytes = zip.finish();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let end = bytes.len() - 22;
        assert_eq!(&bytes[end..end + 4], b"PK\x05\x06");
        let (size, start) = (word(end + 12), word(end + 16));
        assert_eq!(start + size, end);
        assert_eq!(&bytes[start..start + 4], b"PK\x01\x02");
        let member = word(start + 42);
        assert_eq!(&bytes[member..member + 4], b"PK\x03\x04");
        assert_eq!(&bytes[member + 30..member + 35], b"a.txt");
        let packed = &bytes[member + 35..member + 35 + word(member + 18)];
        let mut text = String::new();
        std::io::Read::read_to_string(&mut flate2::read::DeflateDecoder::new(packed), &mut text).unwrap();
        assert_eq!(text, "hello");
        assert_eq!(word(member + 14), 0x3610_A686, "the checksum of hello");
    }
}
