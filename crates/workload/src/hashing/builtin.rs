//! Python's own `hash()` of a pair of bytes and a tuple of numbers.

use tacho_pyrand::HashKey;

const PRIME_1: u64 = 11_400_714_785_074_694_791;
const PRIME_2: u64 = 14_029_467_366_897_019_727;
const PRIME_5: u64 = 2_870_177_450_012_600_261;
/// Numbers are hashed modulo this prime.
const MODULUS: u64 = (1 << 61) - 1;

/// The hash of the pair.
pub(super) fn hash(key: HashKey, bytes: &[u8], numbers: &[u64]) -> i64 {
    let numbers = tuple(numbers.iter().map(|number| number % MODULUS));
    tuple([key.hash(bytes) as u64, numbers as u64].into_iter())
}

fn tuple(items: impl ExactSizeIterator<Item = u64>) -> i64 {
    let len = items.len() as u64;
    let mixed = items
        .fold(PRIME_5, |sum, item| sum.wrapping_add(item.wrapping_mul(PRIME_2)).rotate_left(31).wrapping_mul(PRIME_1));
    let hash = mixed.wrapping_add(len ^ (PRIME_5 ^ 3_527_539));
    if hash == u64::MAX { 1_546_275_796 } else { hash as i64 }
}
