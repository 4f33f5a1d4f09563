//! `prefix_repetition`: groups of prompts that share a random prefix, shuffled. Draws from both global generators.

use tacho_core::Request;
use tacho_text::Tokenizer;

use crate::sampling::fit_length::{Fitted, LegacyDraw, fit_drawn};
use crate::{Error, sampling::context::SampleContext, sampling::sampled::Sampled};

#[derive(Debug, Clone, PartialEq)]
pub struct PrefixRepetitionSpec {
    /// Seed of the global generators.
    pub seed: i64,
    /// Number of prompts; rounded down to a multiple of `num_prefixes`.
    pub num_prompts: i64,
    pub prefix_len: i64,
    pub suffix_len: i64,
    pub num_prefixes: i64,
    pub output_len: i64,
    pub shuffle: bool,
}

/// Generates the requests, which have no IDs.
pub(crate) fn sample(spec: &PrefixRepetitionSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("prefix_repetition")?;
    let seed = u32::try_from(spec.seed).map_err(|_| Error::SeedOutOfRange { seed: spec.seed })?;
    let (globals, counters) = (&mut *context.globals, context.counters);
    globals.seed(seed);
    let per_prefix = spec.per_prefix()?;
    let prefix_len = length("--prefix-repetition-prefix-len", spec.prefix_len)?;
    let suffix_len = length("--prefix-repetition-suffix-len", spec.suffix_len)?;
    let group = |_| std::iter::once(prefix_len).chain(std::iter::repeat_n(suffix_len, per_prefix));
    let targets: Vec<usize> = (0..spec.num_prefixes.max(0)).flat_map(group).collect();
    let mut draw = LegacyDraw { state: globals.np.clone(), vocab_size: tokenizer.vocab_size() };
    let fitted = fit_drawn(&targets, tokenizer, &mut draw, counters);
    globals.np = draw.state;
    let groups = fitted.chunks(per_prefix + 1);
    let mut requests: Vec<Request> = groups.flat_map(|group| spec.requests(group, tokenizer)).collect();
    if spec.shuffle {
        globals.py.shuffle(&mut requests);
    }
    Ok(Sampled::of(requests))
}

fn length(flag: &'static str, value: i64) -> Result<usize, Error> {
    usize::try_from(value).map_err(|_| usage!("{flag} is {value}: negative dimensions are not allowed"))
}

impl PrefixRepetitionSpec {
    /// Number of prompts per prefix. A negative number of prompts generates none, but prefixes are still drawn.
    fn per_prefix(&self) -> Result<usize, Error> {
        if self.num_prefixes == 0 {
            let problem = "prompts cannot be divided among no prefixes";
            return Err(usage!("--prefix-repetition-num-prefixes is 0: {problem}"));
        }
        // Python rounds towards negative infinity, so only a quotient between 0 and 1 becomes zero.
        let quotient = self.num_prompts.wrapping_div(self.num_prefixes);
        let inexact = self.num_prompts.wrapping_rem(self.num_prefixes) != 0;
        let negative = (self.num_prompts < 0) != (self.num_prefixes < 0);
        match quotient {
            0 if !(inexact && negative) => Err(usage!(
                "--num-prompts ({}) must be greater than or equal to --prefix-repetition-num-prefixes ({})",
                self.num_prompts,
                self.num_prefixes
            )),
            quotient => Ok(usize::try_from(quotient).unwrap_or(0)),
        }
    }

    /// Joins a prefix with its suffixes, without fitting the length again.
    fn requests(&self, group: &[Fitted], tokenizer: &Tokenizer) -> Vec<Request> {
        let Some((prefix, suffixes)) = group.split_first() else {
            return Vec::new();
        };
        let joined = |suffix: &Fitted| {
            let ids = [prefix.ids.as_slice(), suffix.ids.as_slice()].concat();
            Request::text(tokenizer.decode(&ids), ids.len() as u64, self.output_len)
        };
        suffixes.iter().map(joined).collect()
    }
}
