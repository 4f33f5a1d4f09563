//! Rows as a batch of columns, and back, without loss.

mod decode;
mod encode;

pub(crate) use decode::rows;
pub(crate) use encode::batch;

use tacho_core::MarkSource;

/// The word for a request whose answer arrived whole.
const COMPLETE: &str = "complete";

fn source_name(source: MarkSource) -> &'static str {
    match source {
        MarkSource::Usage => "usage",
        MarkSource::Logprobs => "logprobs",
    }
}

fn source_of(name: &str) -> Option<MarkSource> {
    [MarkSource::Usage, MarkSource::Logprobs].into_iter().find(|&source| source_name(source) == name)
}
