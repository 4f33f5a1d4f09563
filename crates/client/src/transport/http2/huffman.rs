//! The Huffman code of compressed headers (RFC 7541, appendix B). Only reading: what we write is not worth packing.

use super::frame::Fault;

const LONGEST: usize = 30;
const SYMBOLS: usize = 257;
/// Not a byte: only its beginning may stand at the end of a text, as padding.
const END: u16 = 256;

/// Bits per symbol; the code is canonical, so that these say all.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

/// The symbols in order of their codes, and how many codes have each length.
struct Code {
    symbols: [u16; SYMBOLS],
    counts: [u16; LONGEST + 1],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code { symbols: [0; SYMBOLS], counts: [0; LONGEST + 1] };
    let (mut length, mut at) = (1, 0);
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                code.symbols[at] = symbol as u16;
                code.counts[length] += 1;
                at += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    code
}

/// Appends what the packed bytes stand for.
pub(super) fn decode(packed: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    // Per length, codes are consecutive numbers: `first` is the lowest, whose symbol is the `index`-th.
    let (mut code, mut first, mut index, mut length) = (0_u32, 0_u32, 0_u32, 0);
    for bit in packed.iter().flat_map(|byte| (0..8).rev().map(move |place| u32::from(byte >> place & 1))) {
        length += 1;
        code = code << 1 | bit;
        first <<= 1;
        let count = u32::from(CODE.counts[length]);
        if code - first < count {
            let symbol = CODE.symbols[(index + code - first) as usize];
            // END is the one symbol that is not a byte.
            out.push(u8::try_from(symbol).map_err(|_| Fault("a header text holds the code's end mark"))?);
            (code, first, index, length) = (0, 0, 0, 0);
        } else {
            first += count;
            index += count;
        }
    }
    debug_assert_eq!(CODE.symbols[SYMBOLS - 1], END);
    let padding = code == (1 << length) - 1;
    if length < 8 && padding { Ok(()) } else { Err(Fault("a header text ends inside a code")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_complete() {
        let filled: u64 = LENGTHS.iter().map(|&length| 1 << (LONGEST - usize::from(length))).sum();
        assert_eq!(filled, 1 << LONGEST);
    }

    #[test]
    fn texts_are_unpacked_and_bad_ends_refused() {
        let unpack = |bytes: &[u8]| {
            let mut out = Vec::new();
            decode(bytes, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        assert_eq!(unpack(b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff").unwrap(), "www.example.com");
        assert_eq!(unpack(b"").unwrap(), "");
        // Padding of zeros, a whole byte of padding, the end mark.
        assert!(unpack(b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\x80").is_err());
        assert!(unpack(b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\xff").is_err());
        assert!(unpack(b"\xff\xff\xff\xff").is_err());
    }
}
