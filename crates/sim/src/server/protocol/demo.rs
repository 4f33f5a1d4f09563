//! `/generate` of vLLM's demonstration server: sampling parameters in, lines of prompt and output so far out.

use hyper::body::Bytes;

use super::openai;
use crate::server::request::ask::{Ask, Endpoint};
use crate::server::request::fields::Fields;
use crate::server::request::problem::Problem;
use crate::server::request::prompt::Source;
use crate::server::response::choice::Piece;
use crate::server::response::escape::{list, quote};
use crate::server::response::generation::Generation;

/// Reads a request; its fields are those of a completion with other defaults.
pub(crate) fn read(fields: &Fields, full_vocab_size: usize) -> Result<(Ask, Vec<Source>), Problem> {
    let (ask, sources) = openai::completion(fields, full_vocab_size)?;
    Ok((Ask { endpoint: Endpoint::Demo, echo: false, include_usage: false, ..ask }, sources))
}

/// Writes the lines of one response.
pub(crate) struct DemoScript {
    texts: Vec<String>,
}

impl DemoScript {
    pub(crate) fn new(generation: &Generation) -> Self {
        let text =
            |choice: &crate::server::response::choice::Choice| choice.prompt.text(&generation.app.spec.tokenizer);
        DemoScript { texts: generation.choices.iter().map(text).collect() }
    }

    pub(crate) fn token(&mut self, index: usize, piece: &Piece) -> Bytes {
        self.texts[index].push_str(&piece.text);
        let mut out = whole(&self.texts);
        out.push(b'\n');
        out.into()
    }
}

pub(crate) fn whole<T: AsRef<str>>(texts: &[T]) -> Vec<u8> {
    let mut out = br#"{"text": "#.to_vec();
    list(&mut out, texts, |out, text| quote(out, text.as_ref()));
    out.push(b'}');
    out
}
