//! Outputs of pooling: embeddings and scores, functions of the seed and the prompt.

use tacho_core::json::float_repr;
use tacho_pyrand::Generator;

use super::escape::list;
use tacho_engine::Draw;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn embedding(seed: u64, prompt: &[u32], size: usize) -> Vec<f32> {
    let mut generator = Generator::new(draw(seed, prompt));
    let numbers: Vec<f64> = (0..size).map(|_| generator.random() * 2.0 - 1.0).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    numbers.into_iter().map(|number| (number / length) as f32).collect()
}

/// A number from 0 to 1.
pub(crate) fn score(seed: u64, prompt: &[u32]) -> f32 {
    Generator::new(draw(seed, prompt)).random() as f32
}

fn draw(seed: u64, prompt: &[u32]) -> u64 {
    Draw { seed, request_seed: None, prompt, choice: 0 }.number()
}

/// Appends the numbers as a list.
pub(crate) fn push_floats(out: &mut Vec<u8>, numbers: &[f32]) {
    list(out, numbers, |out, number| out.extend_from_slice(float_repr(f64::from(*number)).as_bytes()));
}

/// The numbers as little-endian bytes.
pub(crate) fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().enumerate().fold(0u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let digit = BASE64[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn base64_is_the_standard_one() {
        for length in 0..40u8 {
            let bytes: Vec<u8> = (0..length).map(|at| at.wrapping_mul(37)).collect();
            assert_eq!(base64(&bytes), STANDARD.encode(&bytes));
        }
    }

    #[test]
    fn embeddings_have_length_one_and_follow_the_prompt() {
        let one = embedding(1, &[1, 2], 64);
        let length: f32 = one.iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
        assert_eq!(one, embedding(1, &[1, 2], 64));
        assert_ne!(one, embedding(1, &[1, 3], 64));
    }
}
