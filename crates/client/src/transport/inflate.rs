//! Compressed bodies, as `Accept-Encoding: gzip, deflate` allows.

use std::io::{self, Write};

use flate2::{Decompress, FlushDecompress, Status, write::GzDecoder};

/// Compressed bytes per step, so that few bytes cannot expand to much memory at once.
const PIECE: usize = 4 << 10;

/// Decodes a content encoding incrementally.
#[derive(Debug)]
pub(crate) enum Inflate {
    Gzip(GzDecoder<Vec<u8>>),
    /// Deflate is zlib in the standard but often raw in practice; the first byte decides.
    Deflate,
    Zlib(Decompress),
    Raw(Decompress),
    /// A coding that was not requested.
    Unknown,
}

impl Inflate {
    /// The decoder for a `Content-Encoding` header; `None` if there is nothing to decode.
    pub(crate) fn for_encoding(encoding: &str) -> Option<Self> {
        match encoding {
            "" | "identity" => None,
            "gzip" | "x-gzip" => Some(Inflate::Gzip(GzDecoder::new(Vec::new()))),
            "deflate" => Some(Inflate::Deflate),
            _ => Some(Inflate::Unknown),
        }
    }

    /// Decompresses bytes and passes the output to `sink`, until it returns stop.
    pub(crate) fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        for piece in bytes.chunks(PIECE) {
            if !self.feed_piece(piece, sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn feed_piece(&mut self, piece: &[u8], sink: &mut impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        if matches!(self, Inflate::Deflate) {
            let zlib = piece[0] & 0x0f == 8;
            let decompress = Decompress::new(zlib);
            *self = if zlib { Inflate::Zlib(decompress) } else { Inflate::Raw(decompress) };
        }
        match self {
            Inflate::Gzip(decoder) => {
                decoder.write_all(piece)?;
                decoder.flush()?;
                Ok(sink(&std::mem::take(decoder.get_mut())))
            }
            Inflate::Zlib(decompress) | Inflate::Raw(decompress) => inflate(decompress, piece, sink),
            Inflate::Deflate | Inflate::Unknown => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Ends the body; returns whether the compressed data is complete.
    pub(crate) fn finish(&mut self) -> bool {
        match self {
            Inflate::Gzip(decoder) => decoder.try_finish().is_ok(),
            Inflate::Zlib(decompress) | Inflate::Raw(decompress) => {
                let mut none = Vec::with_capacity(1);
                let status = decompress.decompress_vec(&[], &mut none, FlushDecompress::Finish);
                matches!(status, Ok(Status::StreamEnd)) && none.is_empty()
            }
            Inflate::Deflate => true,
            Inflate::Unknown => false,
        }
    }
}

fn inflate(decompress: &mut Decompress, bytes: &[u8], sink: &mut impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
    let mut out = Vec::with_capacity(16 * PIECE);
    let start = decompress.total_in();
    loop {
        let taken = (decompress.total_in() - start) as usize;
        let status = decompress.decompress_vec(&bytes[taken..], &mut out, FlushDecompress::None);
        let status = status.map_err(io::Error::other)?;
        let full = out.len() == out.capacity();
        let wanted = sink(&out);
        out.clear();
        let all = (decompress.total_in() - start) as usize == bytes.len();
        if !wanted || status == Status::StreamEnd || (all && !full) {
            return Ok(wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::Compression;
    use flate2::read::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn packed(mut encoder: impl Read) -> Vec<u8> {
        let mut packed = Vec::new();
        encoder.read_to_end(&mut packed).unwrap();
        packed
    }

    fn inflated(encoding: &str, packed: &[u8]) -> (Vec<u8>, bool) {
        let mut inflate = Inflate::for_encoding(encoding).unwrap();
        let mut plain = Vec::new();
        for piece in packed.chunks(3) {
            let mut take = |bytes: &[u8]| {
                plain.extend_from_slice(bytes);
                true
            };
            assert!(inflate.feed(piece, &mut take).unwrap());
        }
        let whole = inflate.finish();
        (plain, whole)
    }

    #[test]
    fn undoes_gzip_and_both_deflates_and_notices_what_is_missing() {
        let text = b"data: one\n\ndata: two\n\n".repeat(20);
        let level = Compression::default();
        for (encoding, packed) in [
            ("gzip", packed(GzEncoder::new(&text[..], level))),
            ("deflate", packed(ZlibEncoder::new(&text[..], level))),
            ("deflate", packed(DeflateEncoder::new(&text[..], level))),
        ] {
            assert_eq!(inflated(encoding, &packed), (text.clone(), true), "{encoding}");
            assert!(!inflated(encoding, &packed[..packed.len() - 6]).1, "{encoding}");
        }
        assert!(Inflate::for_encoding("identity").is_none());
        assert!(Inflate::for_encoding("br").unwrap().feed(b"x", &mut |_| true).is_err());
    }

    #[test]
    fn what_grows_large_is_handed_on_in_pieces() {
        let zeros = packed(ZlibEncoder::new(&vec![0; 100 << 20][..], Compression::best()));
        let (mut max, mut all) = (0, 0);
        let mut take = |bytes: &[u8]| {
            (max, all) = (bytes.len().max(max), all + bytes.len());
            all < 10 << 20
        };
        assert!(!Inflate::for_encoding("deflate").unwrap().feed(&zeros, &mut take).unwrap());
        assert!(max <= 8 << 20 && all < 20 << 20, "{max} {all}");
    }
}
