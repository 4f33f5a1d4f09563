//! Compares the server's token counts with what was asked for.

use std::borrow::Cow;

use tacho_client::Rules;
use tacho_core::{Content, Request};
use tacho_metrics::{Caveat, Sample};
use tacho_record::RunRecord;

use crate::plan::ServePlan;
use crate::serve::prepare::Prepared;

/// Prompt tokens that special tokens, or a chat template, may add to a request.
const ADDED: u64 = 8;
const ADDED_BY_TEMPLATE: u64 = 64;

/// The successes whose requests are in memory, with their requests.
fn pairs<'a>(prepared: &'a Prepared, record: &'a RunRecord) -> impl Iterator<Item = (Cow<'a, Sample>, &'a Request)> {
    let requests = prepared.requests.kept();
    let samples = record.measured.samples.iter().filter(|sample| sample.success());
    samples.filter_map(|sample| requests.get(sample.index).map(|request| (sample, request)))
}

/// A caveat if the server counts prompts in another unit, such as characters.
pub(crate) fn prompts(plan: &ServePlan, prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
    if prepared.tokenizer.is_none() || plan.ranks.is_some() || plan.endpoint.rules == Rules::Vllm {
        return None;
    }
    let is_plain = |request: &Request| {
        let is_text = matches!(request.content, Content::Text(_) | Content::Texts(_));
        is_text && request.media.is_none() && request.chat_messages.is_none() && request.session.is_none()
    };
    let counted = pairs(prepared, record).filter(|(sample, request)| sample.prompt_len > 0 && is_plain(request));
    let (mut prompts, mut ours, mut theirs) = (0, 0, 0);
    for (sample, request) in counted {
        (prompts, ours, theirs) = (prompts + 1, ours + request.prompt_len, theirs + sample.prompt_len);
    }
    let added = if plan.endpoint.backend.sends_messages() { ADDED_BY_TEMPLATE } else { ADDED };
    let differs = theirs.abs_diff(ours) > ours / 10 + added * prompts;
    (ours > 0 && differs).then_some(Caveat::TokenizerMismatch { prompts, ours, theirs })
}

/// A caveat if outputs are longer than asked for: the server ignores the field with the limit.
pub(crate) fn outputs(prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
    let (mut responses, mut total, mut worst) = (0, 0, (0, 0));
    for (sample, request) in pairs(prepared, record) {
        let asked = u64::try_from(request.output_len).unwrap_or(0);
        let got = sample.output_tokens.unwrap_or(sample.events() as u64);
        total += 1;
        // Some servers count the end of the sequence, or send an event without a token.
        if asked > 0 && got > asked + asked / 10 + 2 {
            responses += 1;
            worst = worst.max((got, asked));
        }
    }
    let (got, asked) = worst;
    (responses > 0).then_some(Caveat::OutputsLonger { responses, total, got, asked })
}
