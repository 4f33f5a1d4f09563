//! GPT-2's tokenizer inside the binary: the merges as compressed pairs of IDs, from which the vocabulary is derived.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::byte_level::{Added, Parts, char_of};

/// Four planes of 50,000 bytes: low and high byte of the left ids, then of the right ids.
static PACKED: &[u8] = include_bytes!("../assets/gpt2.merges.z");

const END_OF_TEXT: &str = "<|endoftext|>";

pub(crate) fn parts() -> Parts {
    let pairs = unpack();
    let order = byte_order();
    let mut byte_ids = [0; 256];
    let mut tokens: Vec<Option<Vec<u8>>> = Vec::with_capacity(256 + pairs.len() + 1);
    for (id, &byte) in order.iter().enumerate() {
        byte_ids[usize::from(byte)] = id as u32;
        tokens.push(Some(vec![byte]));
    }
    let mut merges = Vec::with_capacity(pairs.len());
    for (left, right) in pairs {
        let part = |id: u32| tokens[id as usize].as_deref().unwrap_or_default();
        let joined = [part(left), part(right)].concat();
        merges.push((left, right, tokens.len() as u32));
        tokens.push(Some(joined));
    }
    let end = Added { id: tokens.len() as u32, content: END_OF_TEXT.to_owned(), special: true, normalized: true };
    tokens.push(Some(END_OF_TEXT.as_bytes().to_vec()));
    Parts { tokens, byte_ids, merges, ignore_merges: false, added: vec![end], frame: (Vec::new(), Vec::new()) }
}

/// The bytes in the order of their IDs: sorted by the character that represents them.
fn byte_order() -> [u8; 256] {
    let mut order: [u8; 256] = std::array::from_fn(|byte| byte as u8);
    order.sort_by_key(|&byte| char_of(byte));
    order
}

fn unpack() -> Vec<(u32, u32)> {
    let mut planes = Vec::new();
    ZlibDecoder::new(PACKED).read_to_end(&mut planes).expect("the asset was packed whole");
    let count = planes.len() / 4;
    let word = |plane: usize, at: usize| {
        u32::from(planes[plane * count + at]) | u32::from(planes[(plane + 1) * count + at]) << 8
    };
    (0..count).map(|at| (word(0, at), word(2, at))).collect()
}
