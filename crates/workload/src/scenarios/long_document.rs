//! Questions about long documents, several per document.

use tacho_core::Request;
use tacho_pyrand::{Globals, Random};
use tacho_text::Tokenizer;

use crate::{Error, sampling::context::SampleContext, sampling::sampled::Sampled};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatMode {
    Random,
    /// The list repeated as a whole.
    Tile,
    /// Each one several times in a row.
    Interleave,
    /// This many in turn, repeatedly, then the next group: the distance between two uses of a document is constant.
    Spaced(usize),
}

impl RepeatMode {
    pub const NAMES: [&str; 3] = ["random", "tile", "interleave"];

    pub fn parse(name: &str) -> Option<Self> {
        let modes = [RepeatMode::Random, RepeatMode::Tile, RepeatMode::Interleave];
        modes.into_iter().zip(RepeatMode::NAMES).find(|(_, known)| *known == name).map(|(mode, _)| mode)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct LongDocumentSpec {
    pub documents: usize,
    pub words: usize,
    /// Tokens of a document, overriding its words.
    pub tokens: Option<usize>,
    pub output_len: i64,
    pub repeat_count: usize,
    pub mode: RepeatMode,
    pub shuffle_seed: u64,
    /// Whether these are warm-up documents: different ones, once each.
    pub warm_up: bool,
}

const WARM_UP: &str = "This is warm up request ";

pub(crate) fn sample(spec: &LongDocumentSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("long-doc-qa")?;
    let start = if spec.warm_up { WARM_UP } else { "" };
    let documents: Vec<String> =
        (0..spec.documents).map(|number| spec.document(&format!("{start}{number}"), tokenizer)).collect();
    let order = if spec.warm_up { (0..spec.documents).collect() } else { spec.order(context.globals) };
    let lens: Vec<u64> = documents.iter().map(|document| tokenizer.count(document, true) as u64).collect();
    let request = |at: usize| Request::text(documents[at].as_str(), lens[at], spec.output_len);
    Ok(Sampled::of(order.into_iter().map(request).collect()))
}

impl LongDocumentSpec {
    /// The documents in the order of their requests.
    pub fn order(&self, globals: &mut Globals) -> Vec<usize> {
        let tiled = || (0..self.repeat_count).flat_map(|_| 0..self.documents).collect::<Vec<usize>>();
        match self.mode {
            RepeatMode::Tile => tiled(),
            RepeatMode::Interleave => {
                (0..self.documents).flat_map(|at| std::iter::repeat_n(at, self.repeat_count)).collect()
            }
            RepeatMode::Spaced(distance) => {
                let all: Vec<usize> = (0..self.documents).collect();
                all.chunks(distance.max(1)).flat_map(|some| some.repeat(self.repeat_count)).collect()
            }
            RepeatMode::Random => {
                let mut order = tiled();
                globals.py = Random::new(self.shuffle_seed);
                globals.py.shuffle(&mut order);
                order
            }
        }
    }

    /// A unique start, then one word repeated: a given number of times, or up to a given number of tokens.
    fn document(&self, start: &str, tokenizer: &Tokenizer) -> String {
        let of = |words: usize| format!("{start}{}", vec!["hi"; words].join(" "));
        let Some(tokens) = self.tokens else { return of(self.words) };
        // Each further word adds at least one token, so bisection finds the number of words.
        let (mut low, mut high) = (0, tokens);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if tokenizer.count(&of(middle), true) <= tokens {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        of(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_come_again_after_as_many_requests_as_asked_for() {
        let spec = LongDocumentSpec {
            documents: 5,
            words: 1,
            tokens: None,
            output_len: 1,
            repeat_count: 2,
            mode: RepeatMode::Spaced(2),
            shuffle_seed: 0,
            warm_up: false,
        };
        assert_eq!(spec.order(&mut Globals::seeded(0)), [0, 1, 0, 1, 2, 3, 2, 3, 4, 4]);
    }
}
