//! `sonnet`: lines of a poem after a common prefix, as in the last release that had this dataset. Draws from Python's
//! global generator as the command seeded it.

use std::path::PathBuf;

use tacho_core::Request;

use crate::{
    Error, parallel, sampling::chat::Chat, sampling::context::SampleContext, sampling::sampled::Sampled,
    sources::read_text,
};

const BASE: &str = "Pick as many lines as you can from these poem lines:\n";
/// Consecutive attempts without a short enough prompt, after which sampling fails.
const MAX_ATTEMPTS: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub struct SonnetSpec {
    pub path: PathBuf,
    pub num_prompts: i64,
    pub input_len: i64,
    pub output_len: i64,
    /// Tokens of the prefix that all prompts share.
    pub prefix_len: i64,
    /// Whether prompts are sent as plain text, because the server applies the template.
    pub plain: bool,
    pub request_id_prefix: String,
}

pub(crate) fn sample(spec: &SonnetSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("sonnet")?;
    let chat = Chat::new(tokenizer, None).map_err(|error| match error {
        Error::Template { source: tacho_text::Error::NoTemplate } => {
            data!("Tokenizer/model must have chat template for sonnet dataset: pass a --tokenizer that has one")
        }
        other => other,
    })?;
    let text = read_text(&spec.path)?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.is_empty() {
        return Err(data!("{} is empty", spec.path.display()));
    }
    let total: usize = parallel::map(&lines, |(_, line)| tokenizer.count(line, true)).into_iter().sum();
    let average = total as f64 / lines.len() as f64;
    let offset = tokenizer.count(&chat.user(BASE)?, true) as i64;
    let too_short =
        |shortest: i64| usage!("--sonnet-input-len is {}: the shortest prompt takes {shortest} tokens", spec.input_len);
    if spec.input_len <= offset {
        return Err(too_short(offset));
    }
    let count = |len: i64, min: f64| (((len - offset) as f64 / average).round_ties_even().max(min)) as usize;
    let (in_prompt, in_prefix) = (count(spec.input_len, 1.0), count(spec.prefix_len, 0.0));
    let prefix = lines[..in_prefix.min(lines.len())].concat();
    let wanted = usize::try_from(spec.num_prompts).unwrap_or(0);
    let (mut requests, mut failed) = (Vec::new(), 0);
    while requests.len() < wanted {
        let extra = context.globals.py.choices_indices(lines.len(), in_prompt.saturating_sub(in_prefix));
        let extra: String = extra.into_iter().map(|line| lines[line]).collect();
        let plain = format!("{BASE}{prefix}{extra}");
        let rendered = chat.user(&plain)?;
        let len = tokenizer.count(&rendered, true);
        if len as i64 <= spec.input_len {
            let id = Some(format!("{}{}", spec.request_id_prefix, requests.len()));
            let prompt = if spec.plain { plain } else { rendered };
            requests.push(Request { id, ..Request::text(prompt, len as u64, spec.output_len) });
            context.counters.finish_one();
            failed = 0;
            continue;
        }
        failed += 1;
        if failed == MAX_ATTEMPTS {
            return Err(too_short(len as i64));
        }
    }
    Ok(Sampled::of(requests))
}
