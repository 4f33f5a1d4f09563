//! The hashes of vLLM's prefix cache, byte for byte: what goes in, in both encodings, and what comes out.

mod blocks;
mod builtin;
mod cbor;
mod payload;
mod pickle;

pub use blocks::{BlocksSpec, Chain, make_blocks};
pub use payload::Payload;

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_128;

/// What is hashed.
#[derive(Debug, Clone, Copy)]
pub enum Input<'i> {
    /// A text alone, from which a chain begins.
    Text(&'i str),
    /// A block behind another: its digest, the tokens, and nothing more.
    Block(&'i [u8], &'i [u64]),
    /// Bytes and numbers.
    Pair(&'i [u8], &'i [u64]),
}

/// A hash function of the prefix cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256 of Python's pickle.
    Sha256,
    /// SHA-256 of canonical CBOR.
    Sha256Cbor,
    /// XXH3 with 128 bits, of Python's pickle.
    XxHash,
    /// XXH3 with 128 bits, of canonical CBOR.
    XxHashCbor,
}

impl Algorithm {
    /// All of them, in vLLM's order.
    pub const ALL: [Algorithm; 4] =
        [Algorithm::Sha256, Algorithm::Sha256Cbor, Algorithm::XxHash, Algorithm::XxHashCbor];
    /// Their names.
    pub const NAMES: [&str; 4] = ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"];

    /// The name in vLLM's flags.
    pub fn name(self) -> &'static str {
        Algorithm::NAMES[self as usize]
    }

    /// The algorithm of a name.
    pub fn parse(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether it is one of SHA-256's.
    pub fn is_sha(self) -> bool {
        matches!(self, Algorithm::Sha256 | Algorithm::Sha256Cbor)
    }

    /// Writes the bytes that are hashed over what `out` holds.
    pub fn encode(self, input: Input<'_>, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Algorithm::Sha256 | Algorithm::XxHash => pickle::write(input, out),
            Algorithm::Sha256Cbor | Algorithm::XxHashCbor => cbor::write(input, out),
        }
    }

    /// The digest; `out` is where the bytes are put together.
    pub fn digest(self, input: Input<'_>, out: &mut Vec<u8>) -> Vec<u8> {
        self.encode(input, out);
        if self.is_sha() { Sha256::digest(&*out).to_vec() } else { xxh3_128(out).to_be_bytes().to_vec() }
    }
}

/// Bytes as hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
