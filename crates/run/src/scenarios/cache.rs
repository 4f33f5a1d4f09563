//! Hit rates of a prefix cache for repeated requests.

use tacho_core::Request;
use tacho_text::Tokenizer;
use tacho_workload::PrefixSharing;

/// Hit rates of an unbounded cache: for the list sent for the first time, and sent again.
pub fn reusable(requests: &[Request], tokenizer: Option<&Tokenizer>) -> (f64, f64) {
    let Some(tokenizer) = tokenizer else { return (0.0, 0.0) };
    let once = PrefixSharing::new(requests, tokenizer);
    let twice = PrefixSharing::new(&[requests, requests].concat(), tokenizer);
    let again = (twice.cached - once.cached) as f64 / once.tokens.max(1) as f64;
    (once.cached_share(), again)
}
