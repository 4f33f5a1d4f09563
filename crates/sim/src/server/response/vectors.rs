//! Outputs of pooling: embeddings and scores, functions of the seed and the prompt.

use tacho_pyrand::Generator;

use tacho_engine::Draw;

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

pub(crate) fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_have_length_one_and_follow_the_prompt() {
        let one = embedding(1, &[1, 2], 64);
        let length: f32 = one.iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
        assert_eq!(one, embedding(1, &[1, 2], 64));
        assert_ne!(one, embedding(1, &[1, 3], 64));
    }
}
