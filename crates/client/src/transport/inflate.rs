//! Bodies that come compressed, as `Accept-Encoding: gzip, deflate` allows.

use std::io::Write;

use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};

/// Undoes a content encoding, piece by piece.
#[derive(Debug)]
pub(crate) enum Inflate {
    Gzip(GzDecoder<Vec<u8>>),
    /// Deflate is zlib by the standard and raw by custom; the first byte tells.
    Deflate,
    Zlib(ZlibDecoder<Vec<u8>>),
    Raw(DeflateDecoder<Vec<u8>>),
}

impl Inflate {
    /// For the value of a `Content-Encoding` header; none when nothing is to be undone.
    pub(crate) fn for_encoding(encoding: &str) -> Option<Self> {
        match encoding {
            "gzip" | "x-gzip" => Some(Inflate::Gzip(GzDecoder::new(Vec::new()))),
            "deflate" => Some(Inflate::Deflate),
            _ => None,
        }
    }

    /// Takes compressed bytes and gives what they decompress to.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        if let (Inflate::Deflate, Some(&first)) = (&self, bytes.first()) {
            *self = if first & 0x0f == 8 {
                Inflate::Zlib(ZlibDecoder::new(Vec::new()))
            } else {
                Inflate::Raw(DeflateDecoder::new(Vec::new()))
            };
        }
        Ok(match self {
            Inflate::Gzip(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                std::mem::take(decoder.get_mut())
            }
            Inflate::Zlib(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                std::mem::take(decoder.get_mut())
            }
            Inflate::Raw(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                std::mem::take(decoder.get_mut())
            }
            Inflate::Deflate => Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::Compression;
    use flate2::read::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn inflated(encoding: &str, mut encoder: impl Read) -> Vec<u8> {
        let mut packed = Vec::new();
        encoder.read_to_end(&mut packed).unwrap();
        let mut inflate = Inflate::for_encoding(encoding).unwrap();
        packed.chunks(3).flat_map(|piece| inflate.feed(piece).unwrap()).collect()
    }

    #[test]
    fn undoes_gzip_and_both_deflates() {
        let text = b"data: one\n\ndata: two\n\n".repeat(20);
        let level = Compression::default();
        assert_eq!(inflated("gzip", GzEncoder::new(&text[..], level)), text);
        assert_eq!(inflated("deflate", ZlibEncoder::new(&text[..], level)), text);
        assert_eq!(inflated("deflate", DeflateEncoder::new(&text[..], level)), text);
        assert!(Inflate::for_encoding("identity").is_none());
    }
}
