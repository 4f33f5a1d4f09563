//! The output of a request before it is sent: random tokens, structured output, or a tool call.

use std::sync::Arc;

use tacho_text::{Decoder, Tokenizer};

use crate::server::request::ask::{Ask, Form};
use crate::{server::app::App, server::guide::Dice, server::request::tools::Call};
use tacho_engine::{Draw, Finish, Limits, Tokens, Vocabulary};

/// Sizes to try, from ordinary to shortest, until a text fits.
const SIZES: [usize; 3] = [2, 1, 0];

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) tokens: Tokens,
    pub(crate) finish: Finish,
    /// Tokens at the end that have no text.
    pub(crate) silent: usize,
    /// The stop string that ended it, and the length of the visible text in bytes.
    pub(crate) stop: Option<(String, usize)>,
    pub(crate) call: Option<Call>,
}

impl Written {
    /// Draws the output of `ask` within `limits`; its first `thoughts` tokens are reasoning.
    pub(crate) fn draw(app: &App, ask: &Ask, draw: &Draw<'_>, limits: &Limits, thoughts: usize) -> Written {
        let mut written = match &ask.form {
            Form::Free => Written::free(&app.vocabulary, draw, limits),
            form => Written::formed(app, form, draw, limits, thoughts),
        };
        if !ask.stop.is_empty() {
            written.cut(ask, &app.spec.tokenizer);
        }
        written
    }

    fn free(vocabulary: &Vocabulary, draw: &Draw<'_>, limits: &Limits) -> Written {
        let output = vocabulary.output(draw, limits);
        let silent = usize::from(output.ends_with_eos);
        Written { tokens: output.tokens, finish: output.finish, silent, stop: None, call: None }
    }

    /// A text in the tokenizer's tokens, and an end without text.
    fn formed(app: &App, form: &Form, draw: &Draw<'_>, limits: &Limits, thoughts: usize) -> Written {
        let seed = draw.number();
        let available = limits.max_tokens.saturating_sub(thoughts);
        let (form, tokenizer) = (form.clone(), Arc::clone(&app.spec.tokenizer));
        let fits = |size: &&usize| form.draw(seed, **size, &tokenizer).0.len() < available;
        let size = SIZES.iter().find(fits).copied().unwrap_or(0);
        let (ids, call) = form.draw(seed, size, &tokenizer);
        let whole = thoughts + ids.len();
        let ends = whole < limits.max_tokens && !limits.ignore_eos;
        let count = if limits.ignore_eos {
            limits.max_tokens
        } else {
            (whole + 1).max(limits.min_tokens).min(limits.max_tokens)
        };
        let silent = count.saturating_sub(whole);
        let finish = if ends { Finish::Stop } else { Finish::Length };
        let vocabulary = app.vocabulary.clone();
        let tokens = Tokens::later(count, move || {
            let before = (0..thoughts as u64).map(|at| vocabulary.token(seed.wrapping_add(at.wrapping_mul(7919))));
            // Drawn again rather than kept: waiting requests use no memory for their text.
            let (ids, _) = form.draw(seed, size, &tokenizer);
            before.chain(ids).chain(std::iter::repeat_n(vocabulary.end(), silent)).take(count).collect()
        });
        Written { tokens, finish, silent, stop: None, call }
    }

    /// Ends the output at the first stop string.
    fn cut(&mut self, ask: &Ask, tokenizer: &Tokenizer) {
        let mut output = tacho_engine::Output {
            tokens: self.tokens.clone(),
            finish: self.finish,
            ends_with_eos: self.silent > 0,
            stop: None,
        };
        let mut decoder = Decoder::new();
        output.cut_at_stop(&ask.stop, ask.min_tokens, ask.keep_stop, |id| decoder.push(tokenizer, id));
        if output.stop.is_some() {
            // A truncated text is not a call.
            *self = Written { tokens: output.tokens, finish: Finish::Stop, silent: 0, stop: output.stop, call: None };
        }
    }
}

impl Form {
    fn draw(&self, seed: u64, size: usize, tokenizer: &Tokenizer) -> (Vec<u32>, Option<Call>) {
        let mut dice = Dice::new(seed, size);
        let (text, call) = match self {
            Form::Free => (String::new(), None),
            Form::Guided(guide) => (guide.text(&mut dice), None),
            Form::Called(calls) => calls.draw(&mut dice),
        };
        (tokenizer.encode(&text, false), call)
    }
}

/// The prefix-cache salt of a request: adapters and salts have separate caches.
pub(crate) fn salt(adapter: u64, cache_salt: Option<&str>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let Some(text) = cache_salt else { return adapter };
    let mut hasher = DefaultHasher::new();
    (adapter, text).hash(&mut hasher);
    hasher.finish()
}
