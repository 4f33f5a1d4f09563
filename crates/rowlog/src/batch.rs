//! Lossless conversion between rows and batches of columns.

mod decode;
mod encode;

pub(crate) use decode::rows;
pub(crate) use encode::batch;

use tacho_core::TokenCountSource;

fn source_name(source: TokenCountSource) -> &'static str {
    match source {
        TokenCountSource::Usage => "usage",
        TokenCountSource::Logprobs => "logprobs",
    }
}

fn source_of(name: &str) -> Option<TokenCountSource> {
    [TokenCountSource::Usage, TokenCountSource::Logprobs].into_iter().find(|&source| source_name(source) == name)
}

/// Whether an ID is the common prefix and the index of its request.
fn follows(id: &str, prefix: &str, index: usize) -> bool {
    id.strip_prefix(prefix).is_some_and(|number| number == index.to_string())
}
