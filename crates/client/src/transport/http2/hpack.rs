//! Compressed headers (RFC 7541): a reader with its table of past headers, and a writer that needs none.

use std::collections::VecDeque;

use super::frame::Fault;
use super::huffman;
use super::static_table::STATIC;

/// The size of the table of past headers that servers may count on unless told otherwise; we tell nothing else.
const TABLE_SIZE: usize = 4096;
/// Added to the length of each entry of the table.
const ENTRY_COST: usize = 32;
/// All headers of an answer together may not be longer.
const MAX_LIST: usize = 64 << 10;

/// Reads header blocks; one per connection, since each block builds on those before it.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The newest first.
    past: VecDeque<(Vec<u8>, Vec<u8>)>,
    size: usize,
    limit: usize,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Decoder { past: VecDeque::new(), size: 0, limit: TABLE_SIZE }
    }

    /// Hands each header of the block to `header`, name first.
    pub(super) fn decode(&mut self, block: &[u8], header: &mut impl FnMut(&[u8], &[u8])) -> Result<(), Fault> {
        let mut rest = block;
        let (mut total, mut begun) = (0, false);
        while let Some(&first) = rest.first() {
            if first & 0xe0 == 0x20 {
                let limit = integer(&mut rest, 5)?;
                if begun || limit > TABLE_SIZE {
                    return Err(Fault("a header block changes the table's size where it may not"));
                }
                self.limit = limit;
                self.evict();
                continue;
            }
            begun = true;
            let (name, value) = self.header(first, &mut rest)?;
            total += name.len() + value.len() + ENTRY_COST;
            if total > MAX_LIST {
                return Err(Fault("the headers are too long"));
            }
            header(&name, &value);
            if first & 0xc0 == 0x40 {
                self.insert(name, value);
            }
        }
        Ok(())
    }

    fn header(&self, first: u8, rest: &mut &[u8]) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        if first & 0x80 != 0 {
            let (name, value) = self.entry(integer(rest, 7)?)?;
            return Ok((name.to_vec(), value.to_vec()));
        }
        // With or without an entry in the table, the latter also for those who pass it on.
        let index = integer(rest, if first & 0x40 != 0 { 6 } else { 4 })?;
        let name = if index == 0 { text(rest)? } else { self.entry(index)?.0.to_vec() };
        Ok((name, text(rest)?))
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Fault> {
        let unknown = Fault("a header refers to none that is known");
        match index.checked_sub(1) {
            None => Err(unknown),
            Some(at) if at < STATIC.len() => Ok((STATIC[at].0.as_bytes(), STATIC[at].1.as_bytes())),
            Some(at) => self.past.get(at - STATIC.len()).map(|(name, value)| (&name[..], &value[..])).ok_or(unknown),
        }
    }

    fn insert(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.size += name.len() + value.len() + ENTRY_COST;
        self.past.push_front((name, value));
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.limit
            && let Some((name, value)) = self.past.pop_back()
        {
            self.size -= name.len() + value.len() + ENTRY_COST;
        }
    }
}

/// A number that begins in the low `bits` of the first byte.
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, Fault> {
    let cut = Fault("a header block ends inside a number");
    let (&first, mut tail) = rest.split_first().ok_or(cut)?;
    let most = (1 << bits) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (&byte, more) = tail.split_first().ok_or(cut)?;
            tail = more;
            if shift > 21 {
                return Err(Fault("a number in a header block is too large"));
            }
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = tail;
    Ok(value)
}

fn text(rest: &mut &[u8]) -> Result<Vec<u8>, Fault> {
    let packed = rest.first().is_some_and(|byte| byte & 0x80 != 0);
    let length = integer(rest, 7)?;
    let (bytes, tail) = rest.split_at_checked(length).ok_or(Fault("a header block ends inside a text"))?;
    *rest = tail;
    if !packed {
        return Ok(bytes.to_vec());
    }
    let mut out = Vec::with_capacity(length * 2);
    huffman::decode(bytes, &mut out)?;
    Ok(out)
}

/// Appends a header to a block, as a literal that leaves no trace in the server's table.
pub(super) fn encode(name: &str, value: &str, out: &mut Vec<u8>) {
    if let Some(at) = STATIC.iter().position(|entry| *entry == (name, value)) {
        put_integer(at + 1, 7, 0x80, out);
        return;
    }
    // Secrets are marked, so that proxies do not compress them either.
    let secret = matches!(name, "authorization" | "proxy-authorization" | "cookie" | "x-api-key" | "api-key");
    let mark = if secret { 0x10 } else { 0 };
    match STATIC.iter().position(|(known, _)| *known == name) {
        Some(at) => put_integer(at + 1, 4, mark, out),
        None => {
            put_integer(0, 4, mark, out);
            put_text(name, out);
        }
    }
    put_text(value, out);
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    put_integer(text.len(), 7, 0, out);
    out.extend_from_slice(text.as_bytes());
}

fn put_integer(mut value: usize, bits: u32, mark: u8, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if value < most {
        out.push(mark | value as u8);
        return;
    }
    out.push(mark | most as u8);
    value -= most;
    while value >= 0x80 {
        out.push(0x80 | (value & 0x7f) as u8);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Fault> {
        let mut headers = Vec::new();
        decoder.decode(block, &mut |name, value| {
            headers.push(format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
        })?;
        Ok(headers)
    }

    /// Reads blocks one after the other; the last number is the size of the table after each.
    fn check(limit: usize, blocks: &[(&str, &[&str], usize)]) {
        let mut decoder = Decoder { limit, ..Decoder::new() };
        for (hex, headers, size) in blocks {
            assert_eq!(read(&mut decoder, &bytes(hex)).unwrap(), *headers, "{hex}");
            assert_eq!(decoder.size, *size, "{hex}");
        }
    }

    #[test]
    fn single_headers_of_appendix_c_2() {
        let custom = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
        check(4096, &[(custom, &["custom-key: custom-header"], 55)]);
        check(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], 0)]);
        check(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password: secret"], 0)]);
        check(4096, &[("82", &[":method: GET"], 0)]);
    }

    const REQUEST: [&str; 4] = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];

    #[test]
    fn requests_of_appendix_c_3_and_c_4() {
        let second = [&REQUEST[..], &["cache-control: no-cache"]].concat();
        let third = [
            ":method: GET",
            ":scheme: https",
            ":path: /index.html",
            ":authority: www.example.com",
            "custom-key: custom-value",
        ];
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let packed = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        for [one, two, three] in [plain, packed] {
            check(4096, &[(one, &REQUEST, 57), (two, &second, 110), (three, &third, 164)]);
        }
    }

    #[test]
    fn responses_of_appendix_c_5_and_c_6() {
        let [date, later] = ["date: Mon, 21 Oct 2013 20:13:21 GMT", "date: Mon, 21 Oct 2013 20:13:22 GMT"];
        let location = "location: https://www.example.com";
        let first = [":status: 302", "cache-control: private", date, location];
        let second = [":status: 307", "cache-control: private", date, location];
        let cookie = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
        let third = [":status: 200", "cache-control: private", later, location, "content-encoding: gzip", cookie];
        let plain = [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 \
             474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 \
             666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 \
             3630 303b 2076 6572 7369 6f6e 3d31",
        ];
        let packed = [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 \
             63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 \
             b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ];
        for [one, two, three] in [plain, packed] {
            check(256, &[(one, &first, 222), (two, &second, 222), (three, &third, 215)]);
        }
    }

    #[test]
    fn numbers_of_appendix_c_1_are_written_and_read() {
        for (value, bits, hex) in [(10, 5, "0a"), (1337, 5, "1f9a0a"), (42, 8, "2a")] {
            let mut out = Vec::new();
            put_integer(value, bits, 0, &mut out);
            assert_eq!(out, bytes(hex));
            assert_eq!(integer(&mut &out[..], bits), Ok(value));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for hex in ["80", "be", "3f e2 1f", "82 20", "7f ff ff ff ff ff 0f", "40 05 61", "00 81 00 00", "40"] {
            assert!(read(&mut Decoder::new(), &bytes(hex)).is_err(), "{hex}");
        }
        // Small entries that refer to a large one: a little on the wire, a lot in memory.
        let mut bomb = bytes("4001 617f e11e");
        bomb.extend(vec![b'x'; 4000]);
        bomb.extend(vec![0xbe; 200]);
        assert!(read(&mut Decoder::new(), &bomb).is_err());
    }

    #[test]
    fn secrets_are_never_indexed_and_the_rest_leaves_no_trace() {
        let mut block = Vec::new();
        encode(":method", "POST", &mut block);
        encode("authorization", "Bearer k", &mut block);
        encode("x-request-id", "r", &mut block);
        assert_eq!(block, bytes("83 1f08 08 4265617265722 06b 00 0c 782d726571756573742d6964 01 72"));
        let mut decoder = Decoder::new();
        let headers = read(&mut decoder, &block).unwrap();
        assert_eq!(headers, [":method: POST", "authorization: Bearer k", "x-request-id: r"]);
        assert_eq!(decoder.size, 0);
    }

    proptest! {
        #[test]
        fn never_panics(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..6)) {
            let mut decoder = Decoder::new();
            for block in &blocks {
                let _ = read(&mut decoder, block);
                prop_assert!(decoder.size <= TABLE_SIZE);
            }
        }

        #[test]
        fn what_is_written_is_read(pairs in prop::collection::vec(("[a-z:-]{1,40}", "[ -~]{0,300}"), 0..12)) {
            let mut block = Vec::new();
            for (name, value) in &pairs {
                encode(name, value, &mut block);
            }
            let expected: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            prop_assert_eq!(read(&mut Decoder::new(), &block).unwrap(), expected);
        }
    }
}
