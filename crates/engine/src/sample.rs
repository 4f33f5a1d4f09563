//! Outputs: tokens, lengths and log-probabilities, all functions of the seed and the prompt.

use std::sync::Arc;

use tacho_pyrand::Generator;

use crate::{error::Error, job::Finish, prefix_cache::mix, tokens::Tokens};

/// The tokens of outputs, and the end-of-sequence token.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    ordinary: Arc<[u32]>,
    eos: u32,
}

impl Vocabulary {
    /// All of `ids` except the special ones; without an `eos` the last ordinary token ends a text.
    pub fn new(ids: &[u32], special: &[u32], eos: Option<u32>) -> Result<Self, Error> {
        let mut special: Vec<u32> = special.iter().copied().chain(eos).collect();
        special.sort_unstable();
        let ordinary: Arc<[u32]> = ids.iter().copied().filter(|id| special.binary_search(id).is_err()).collect();
        let last = *ordinary.last().ok_or(Error::EmptyVocabulary { size: ids.len() })?;
        Ok(Vocabulary { eos: eos.unwrap_or(last), ordinary })
    }

    /// The ordinary token at `place` modulo their number.
    pub fn token(&self, position: u64) -> u32 {
        self.ordinary[(position % self.ordinary.len() as u64) as usize]
    }

    pub fn end(&self) -> u32 {
        self.eos
    }

    fn draw(&self, generator: &mut Generator) -> u32 {
        self.ordinary[generator.up_to(self.ordinary.len() as u64 - 1) as usize]
    }

    /// Draws an output: tokens uniformly from the vocabulary, the natural length from a geometric distribution.
    pub fn output(&self, draw: &Draw<'_>, limits: &Limits) -> Output {
        let mut generator = Generator::new(draw.seed(0));
        let natural = if limits.ignore_eos {
            usize::MAX
        } else {
            geometric(generator.random(), limits.mean_output_len).max(limits.min_tokens)
        };
        let ends = natural <= limits.max_tokens;
        let count = natural.min(limits.max_tokens);
        let vocabulary = self.clone();
        let tokens = Tokens::later(count, move || {
            let mut generator = generator.clone();
            let mut ids: Vec<u32> = (0..count).map(|_| vocabulary.draw(&mut generator)).collect();
            if let Some(last) = ids.last_mut().filter(|_| ends) {
                *last = vocabulary.eos;
            }
            ids
        });
        let finish = if ends { Finish::Stop } else { Finish::Length };
        Output { tokens, finish, ends_with_eos: ends, stop: None }
    }
}

/// Quantile `u` of the geometric distribution with mean `mean`; at least one.
fn geometric(u: f64, mean: f64) -> usize {
    if mean <= 1.0 {
        return 1;
    }
    let steps = (1.0 - u).ln() / (1.0 - 1.0 / mean).ln();
    steps.floor() as usize + 1
}

#[derive(Debug, Clone, Copy)]
pub struct Draw<'a> {
    pub seed: u64,
    pub request_seed: Option<u64>,
    pub prompt: &'a [u32],
    /// Index of the choice among several for one prompt.
    pub choice: usize,
}

impl Draw<'_> {
    /// A hash of all inputs, for draws of other things than tokens.
    pub fn number(&self) -> u64 {
        self.seed(2)
    }

    /// A hash of all inputs; `purpose` separates independent draws.
    fn seed(&self, purpose: u64) -> u64 {
        let request = self.request_seed.map_or(0, |seed| mix(seed ^ 1));
        let start = mix(mix(self.seed) ^ request ^ purpose.rotate_left(32) ^ self.choice as u64);
        self.prompt.iter().fold(start, |hash, id| mix(hash ^ u64::from(*id)))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub max_tokens: usize,
    /// Least tokens before EOS or a stop string may end it.
    pub min_tokens: usize,
    /// Whether it ends only by `max_tokens` and stop strings.
    pub ignore_eos: bool,
    pub mean_output_len: f64,
}

#[derive(Debug, Clone)]
pub struct Output {
    pub tokens: Tokens,
    pub finish: Finish,
    /// Whether the last token is EOS, which has no text.
    pub ends_with_eos: bool,
    /// The stop string that ended it, and the length of the visible text in bytes.
    pub stop: Option<(String, usize)>,
}

impl Output {
    /// Ends the output at the first stop string, as in vLLM: after each token the strings are searched in the given
    /// order; the text of the first `min_tokens` tokens is not searched.
    pub fn cut_at_stop(
        &mut self,
        stops: &[String],
        min_tokens: usize,
        keep_stop: bool,
        mut decode: impl FnMut(u32) -> String,
    ) {
        let (mut text, mut checked_from) = (String::new(), 0);
        let ids = self.tokens.draw_once();
        for count in 1..=ids.len() {
            if !(self.ends_with_eos && count == ids.len()) {
                text.push_str(&decode(ids[count - 1]));
            }
            if min_tokens > 0 && count <= min_tokens {
                checked_from = text.len();
                continue;
            }
            let found = stops.iter().find_map(|stop| text[checked_from..].find(stop.as_str()).map(|at| (stop, at)));
            if let Some((stop, at)) = found {
                let shown = checked_from + at + if keep_stop { stop.len() } else { 0 };
                self.tokens = self.tokens.truncated(count);
                (self.finish, self.ends_with_eos, self.stop) = (Finish::Stop, false, Some((stop.clone(), shown)));
                return;
            }
        }
    }
}

/// Draws of log-probabilities for one output, token after token.
#[derive(Debug, Clone)]
pub struct LogprobDraws {
    generator: Generator,
}

impl LogprobDraws {
    pub fn new(draw: &Draw<'_>) -> Self {
        LogprobDraws { generator: Generator::new(draw.seed(1)) }
    }

    /// The token with its log-probability, then `others` less likely tokens. The token has a probability of 0.5 to 0.9, each
    /// other one half of what is left. `noise` is the fraction of the token's probability that goes to tokens not listed.
    pub fn next(&mut self, vocabulary: &Vocabulary, token: u32, others: usize, noise: f64) -> Vec<(u32, f64)> {
        let probability = 0.5 + 0.4 * self.generator.random();
        let mut rest = (1.0 - probability) / 2.0;
        let mut ranked = vec![(token, (probability * (1.0 - noise)).ln())];
        while ranked.len() <= others.min(vocabulary.ordinary.len() - 1) {
            let other = vocabulary.draw(&mut self.generator);
            if ranked.iter().all(|(id, _)| *id != other) {
                ranked.push((other, rest.ln()));
                rest /= 2.0;
            }
        }
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { max_tokens: 64, min_tokens: 0, ignore_eos: true, mean_output_len: 20.0 };

    fn vocabulary(size: u32, special: &[u32], eos: Option<u32>) -> Vocabulary {
        Vocabulary::new(&(0..size).collect::<Vec<_>>(), special, eos).unwrap()
    }

    fn draw(prompt: &[u32]) -> Draw<'_> {
        Draw { seed: 7, request_seed: None, prompt, choice: 0 }
    }

    #[test]
    fn outputs_depend_on_seed_prompt_and_choice_only() {
        let vocabulary = vocabulary(1000, &[3], None);
        let one = vocabulary.output(&draw(&[1, 2]), &LIMITS);
        assert_eq!(one.tokens.ids(), vocabulary.output(&draw(&[1, 2]), &LIMITS).tokens.ids());
        assert_eq!((one.tokens.len(), one.finish), (64, Finish::Length));
        let others = [
            draw(&[2, 1]),
            Draw { seed: 8, ..draw(&[1, 2]) },
            Draw { choice: 1, ..draw(&[1, 2]) },
            Draw { request_seed: Some(0), ..draw(&[1, 2]) },
        ];
        for other in others {
            assert_ne!(one.tokens.ids(), vocabulary.output(&other, &LIMITS).tokens.ids(), "{other:?}");
        }
        assert!(!one.tokens.ids().contains(&3));
    }

    #[test]
    fn natural_lengths_have_their_mean_and_end_with_eos() {
        let vocabulary = vocabulary(1000, &[], Some(999));
        let limits = Limits { ignore_eos: false, max_tokens: 100_000, ..LIMITS };
        let lens: Vec<usize> = (0..4000)
            .map(|prompt| {
                let output = vocabulary.output(&draw(&[prompt]), &limits);
                assert_eq!((output.finish, output.tokens.ids().last()), (Finish::Stop, Some(&999)));
                output.tokens.len()
            })
            .collect();
        let mean = lens.iter().sum::<usize>() as f64 / lens.len() as f64;
        assert!((mean - 20.0).abs() < 1.5, "{mean}");
        let short = vocabulary.output(&draw(&[5]), &Limits { max_tokens: 1, min_tokens: 1, ..limits });
        assert_eq!(short.tokens.len(), 1);
        let long = vocabulary.output(&draw(&[5]), &Limits { min_tokens: 500, ..limits });
        assert!(long.tokens.len() >= 500);
    }

    #[test]
    fn stop_strings_cut_where_they_first_appear_after_min_tokens() {
        let output =
            || Output { tokens: [0, 1, 2, 3].into(), finish: Finish::Length, ends_with_eos: false, stop: None };
        let decode = |id: u32| ["ab", "cd", "ab", "ef"][id as usize].to_owned();
        let mut first = output();
        first.cut_at_stop(&["zz".into(), "bc".into()], 0, false, decode);
        assert_eq!((first.tokens.len(), first.finish, first.stop), (2, Finish::Stop, Some(("bc".into(), 1))));
        let mut later = output();
        later.cut_at_stop(&["b".into()], 2, true, decode);
        assert_eq!((later.tokens.len(), later.stop), (3, Some(("b".into(), 6))));
        let mut never = output();
        never.cut_at_stop(&["x".into()], 0, false, decode);
        assert_eq!((never.tokens.len(), never.stop), (4, None));
    }

    #[test]
    fn logprobs_rank_the_token_first_and_repeat() {
        let vocabulary = vocabulary(10, &[], None);
        let next = |others, noise| LogprobDraws::new(&draw(&[1])).next(&vocabulary, 4, others, noise);
        let ranked = next(3, 0.0);
        assert_eq!(ranked, next(3, 0.0));
        assert!((next(3, 0.2)[0].1 - ranked[0].1 - 0.8_f64.ln()).abs() < 1e-12);
        assert_eq!((ranked.len(), ranked[0].0), (4, 4));
        assert!(ranked.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        assert_eq!(next(99, 0.0).len(), 10);
    }
}
