//! The fit-to-length loop: text decoded from random tokens encodes to another length, so tokens are cut off or drawn
//! until it fits. Draws come from one generator in request order; everything between two draws runs in parallel.

use std::{collections::VecDeque, sync::atomic::Ordering};

use tacho_core::Counters;
use tacho_pyrand::{Generator, RandomState};
use tacho_text::Tokenizer;

use crate::parallel;

/// Rounds after which a wrong length is accepted.
const BUDGET: u32 = 10;
/// Maximum requests per thread that are processed speculatively, assuming that none draws again.
const AHEAD: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fitted {
    pub(crate) text: String,
    pub(crate) ids: Vec<u32>,
    target: usize,
}

/// A text without its token IDs, which would be half of a large workload, but with their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FittedText {
    pub(crate) text: String,
    pub(crate) len: usize,
    target: usize,
}

impl FittedText {
    /// Tokens beyond the target; negative if there are too few.
    pub(crate) fn mismatch(&self) -> i64 {
        self.len as i64 - self.target as i64
    }
}

impl From<Fitted> for FittedText {
    fn from(Fitted { mut text, ids, target }: Fitted) -> Self {
        text.shrink_to_fit();
        FittedText { text, len: ids.len(), target }
    }
}

/// Draws tokens. Cloning it saves its state.
pub(crate) trait Draw: Clone {
    /// The next `count` token IDs.
    fn draw(&mut self, count: usize) -> Vec<u32>;
}

/// IDs below the vocabulary size from NumPy's new generator, including special ones.
#[derive(Debug, Clone)]
pub(crate) struct GeneratorDraw {
    pub(crate) generator: Generator,
    pub(crate) vocab_size: usize,
}

impl Draw for GeneratorDraw {
    fn draw(&mut self, count: usize) -> Vec<u32> {
        let high = self.vocab_size as i64;
        (0..count).map(|_| self.generator.integers(0, high) as u32).collect()
    }
}

/// IDs from NumPy's legacy generator.
#[derive(Debug, Clone)]
pub(crate) struct LegacyDraw {
    pub(crate) state: RandomState,
    pub(crate) vocab_size: usize,
}

impl Draw for LegacyDraw {
    fn draw(&mut self, count: usize) -> Vec<u32> {
        let high = self.vocab_size as i64;
        (0..count).map(|_| self.state.randint(0, high) as u32).collect()
    }
}

/// A sequence that is being fitted to its target length.
#[derive(Debug, Clone)]
struct Fitting {
    ids: Vec<u32>,
    target: usize,
    left: u32,
}

enum Step {
    /// It fits, or its rounds are used up.
    Done(Fitted),
    /// It needs more tokens.
    Starved(Fitting),
}

impl Fitting {
    fn new(ids: Vec<u32>, target: usize) -> Self {
        Fitting { ids, target, left: BUDGET }
    }

    /// Continues until it is done or needs a draw.
    fn run(mut self, tokenizer: &Tokenizer) -> Step {
        loop {
            let text = tokenizer.decode(&self.ids);
            self.ids = tokenizer.encode(&text, false);
            if self.left == 0 || self.ids.len() == self.target {
                return Step::Done(Fitted { text, ids: self.ids, target: self.target });
            }
            self.left -= 1;
            if self.ids.len() < self.target {
                return Step::Starved(self);
            }
            self.ids.truncate(self.target);
        }
    }

    fn missing(&self) -> usize {
        self.target - self.ids.len()
    }

    fn fed(&self, tokens: &[u32]) -> Self {
        let mut ids = Vec::with_capacity(self.target);
        ids.extend_from_slice(&self.ids);
        ids.extend_from_slice(tokens);
        Fitting { ids, target: self.target, left: self.left }
    }
}

pub(crate) fn fit(ids: Vec<u32>, target: usize, tokenizer: &Tokenizer, draw: &mut impl Draw) -> Fitted {
    finish(Fitting::new(ids, target).run(tokenizer), tokenizer, draw)
}

fn finish(mut step: Step, tokenizer: &Tokenizer, draw: &mut impl Draw) -> Fitted {
    loop {
        match step {
            Step::Done(fitted) => return fitted,
            Step::Starved(fitting) => {
                let tokens = draw.draw(fitting.missing());
                step = fitting.fed(&tokens).run(tokenizer);
            }
        }
    }
}

/// Fits many sequences, given by `sequence(index)` with their targets, as if one after another.
///
/// The first rounds need no randomness and run in parallel. Then the sequences that need tokens are fed in order. Their
/// first demand is known, so several are fed speculatively from a copy of the generator and run in parallel; as soon as
/// one turns out to draw again, those after it are fed again.
pub(crate) fn fit_all<D: Draw>(
    count: usize,
    sequence: impl Fn(usize) -> (Vec<u32>, usize) + Sync,
    tokenizer: &Tokenizer,
    draw: &mut D,
    counters: &Counters,
) -> Vec<FittedText> {
    let first = |index| {
        let (ids, target) = sequence(index);
        match Fitting::new(ids, target).run(tokenizer) {
            Step::Done(fitted) => {
                counters.finished.fetch_add(1, Ordering::Relaxed);
                Ok(FittedText::from(fitted))
            }
            Step::Starved(fitting) => Err(fitting),
        }
    };
    let steps: Vec<Result<FittedText, Fitting>> = parallel::indexed(count, &first);
    let mut starved: VecDeque<(usize, Fitting)> = VecDeque::new();
    let mut texts: Vec<Option<FittedText>> = Vec::with_capacity(count);
    for (index, step) in steps.into_iter().enumerate() {
        texts.push(step.map_err(|fitting| starved.push_back((index, fitting))).ok());
    }
    feed_all(starved, tokenizer, draw, |index, fitted| {
        texts[index] = Some(fitted.into());
        counters.finished.fetch_add(1, Ordering::Relaxed);
    });
    texts.into_iter().map(|text| text.expect("every starved sequence has been fed until done")).collect()
}

/// Fits fully drawn sequences, one for each target length, as if one after another.
pub(crate) fn fit_drawn<D: Draw>(
    targets: &[usize],
    tokenizer: &Tokenizer,
    draw: &mut D,
    counters: &Counters,
) -> Vec<Fitted> {
    let starved = targets.iter().map(|&target| Fitting::new(Vec::new(), target)).enumerate().collect();
    let mut done = Vec::with_capacity(targets.len());
    feed_all(starved, tokenizer, draw, |_, fitted| {
        done.push(fitted);
        counters.finished.fetch_add(1, Ordering::Relaxed);
    });
    done
}

/// Feeds sequences in order until all are done. The more the speculation succeeds, the more sequences are fed ahead.
fn feed_all<D: Draw>(
    mut starved: VecDeque<(usize, Fitting)>,
    tokenizer: &Tokenizer,
    draw: &mut D,
    mut take: impl FnMut(usize, Fitted),
) {
    let threads = rayon::current_num_threads();
    let mut window = threads;
    while !starved.is_empty() {
        let done = feed(&mut starved, window, tokenizer, draw);
        window = (done.len() * 2).clamp(threads, AHEAD * threads);
        for (index, fitted) in done {
            take(index, fitted);
        }
    }
}

/// Feeds up to `window` sequences at once and takes all that are final from the front, at least one.
fn feed<D: Draw>(
    starved: &mut VecDeque<(usize, Fitting)>,
    window: usize,
    tokenizer: &Tokenizer,
    draw: &mut D,
) -> Vec<(usize, Fitted)> {
    let size = window.min(starved.len());
    let mut ahead = draw.clone();
    let mut states = Vec::with_capacity(size);
    let mut fed = Vec::with_capacity(size);
    for (_, fitting) in starved.iter().take(size) {
        fed.push(fitting.fed(&ahead.draw(fitting.missing())));
        states.push(ahead.clone());
    }
    let steps: Vec<Step> = parallel::map_owned(fed, |(_, fitting)| fitting.run(tokenizer));
    let mut done = Vec::with_capacity(size);
    for (step, state) in steps.into_iter().zip(states) {
        let (index, _) = starved.pop_front().expect("the window does not exceed the queue");
        *draw = state;
        let draws_again = matches!(step, Step::Starved(_));
        done.push((index, finish(step, tokenizer, draw)));
        if draws_again {
            break;
        }
    }
    done
}

/// vLLM's warning about the sum of mismatches; `None` if all lengths fit.
pub(crate) fn mismatch_notice(total: i64) -> Option<String> {
    let sign = if total > 0 { "more" } else { "fewer" };
    (total != 0).then(|| {
        format!(
            "Across all generated prompts, there were {} {sign} tokens than expected after decoding and re-encoding. \
             This is expected due to the imperfect nature of the sampling procedure.",
            total.abs()
        )
    })
}
