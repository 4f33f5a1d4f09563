//! `/generate` of vLLM's demonstration server: sampling parameters in, lines of prompt and output so far out.

use hyper::body::Bytes;

use super::ask::{Ask, Endpoint};
use super::choice::Piece;
use super::escape::{list, quote};
use super::fields::Fields;
use super::generation::Generation;
use super::openai;
use super::problem::Problem;
use super::prompt::Source;

/// Reads the members of a request; they are those of a completion but for the defaults.
pub(super) fn read(fields: &Fields, full_vocab_size: usize) -> Result<(Ask, Vec<Source>), Problem> {
    let (ask, sources) = openai::completion(fields, full_vocab_size)?;
    Ok((Ask { endpoint: Endpoint::Demo, echo: false, include_usage: false, ..ask }, sources))
}

/// Writes the lines of one answer.
pub(super) struct DemoScript {
    texts: Vec<String>,
}

impl DemoScript {
    pub(super) fn new(generation: &Generation) -> Self {
        let text = |choice: &super::choice::Choice| choice.prompt.text(&generation.app.spec.tokenizer);
        DemoScript { texts: generation.choices.iter().map(text).collect() }
    }

    pub(super) fn token(&mut self, index: usize, piece: &Piece) -> Bytes {
        self.texts[index].push_str(&piece.text);
        let mut out = whole(&self.texts);
        out.push(b'\n');
        out.into()
    }
}

/// The object that holds all texts.
pub(super) fn whole<T: AsRef<str>>(texts: &[T]) -> Vec<u8> {
    let mut out = br#"{"text": "#.to_vec();
    list(&mut out, texts, |out, text| quote(out, text.as_ref()));
    out.push(b'}');
    out
}
