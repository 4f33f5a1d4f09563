//! Ranges of sampling parameters, in vLLM's order and words.

use tacho_core::json::{Value, python_str, repr};

use super::fields::Fields;
use super::problem::{Problem, shown_float};

/// Most alternatives per token, as in vLLM.
const MAX_LOGPROBS: i64 = 20;
/// Most choices per prompt, as in vLLM.
const MAX_N: i64 = 16_384;
/// Most token ids whose log-probabilities are requested.
const MAX_LOGPROB_IDS: usize = 128;

/// Checks all sampling parameters. `vocabulary` is the vocabulary size.
pub(crate) fn check(fields: &Fields, vocabulary: usize) -> Result<(), Problem> {
    count(fields)?;
    within(fields, "presence_penalty", -2.0, 2.0)?;
    within(fields, "frequency_penalty", -2.0, 2.0)?;
    repetition(fields)?;
    temperature(fields)?;
    top_p(fields)?;
    let refuse = |message: String| Err(Problem::bad_request(&message));
    if let Some(top_k) = fields.int("top_k")?.filter(|top_k| *top_k < -1) {
        return refuse(format!("top_k must be 0 (disable), or at least 1, got {top_k}."));
    }
    if let Some(min_p) = fields.float("min_p")?.filter(|min_p| !(0.0..=1.0).contains(min_p)) {
        return refuse(format!("min_p must be in [0, 1], got {}.", shown_float(min_p)));
    }
    if let Some(least) = fields.int("min_tokens")?.filter(|least| *least < 0) {
        return refuse(format!("min_tokens must be greater than or equal to 0, got {least}."));
    }
    if fields.texts("stop")?.iter().any(String::is_empty) {
        return refuse("stop cannot contain an empty string.".to_owned());
    }
    if let Some(words) = fields.get("bad_words").filter(|_| fields.texts("bad_words").is_ok())
        && fields.texts("bad_words")?.iter().any(String::is_empty)
    {
        return refuse(format!("bad_words cannot contain an empty string. Got bad_words={}", repr(words)));
    }
    if fields.float("temperature")?.is_some_and(|heat| heat < 1e-5) && fields.int("n")?.unwrap_or(1) > 1 {
        let n = fields.int("n")?.unwrap_or(1);
        return refuse(format!("n must be 1 when using greedy sampling, got {n}."));
    }
    prompt_logprobs(fields, vocabulary)?;
    token_ids(fields, vocabulary)
}

/// The number of choices.
pub(crate) fn count(fields: &Fields) -> Result<usize, Problem> {
    match fields.int("n")?.unwrap_or(1) {
        n @ 1..=MAX_N => Ok(n as usize),
        n @ 1.. => Err(Problem::bad_request(&format!(
            "n must be at most {MAX_N}, got {n}. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment \
             variable."
        ))),
        n => Err(Problem::bad_request(&format!("n must be at least 1, got {n}."))),
    }
}

fn within(fields: &Fields, name: &str, low: f64, high: f64) -> Result<(), Problem> {
    match fields.float(name)?.filter(|value| !(low..=high).contains(value)) {
        None => Ok(()),
        Some(value) => {
            Err(Problem::bad_request(&format!("{name} must be in [{low}, {high}], got {}.", shown_float(value))))
        }
    }
}

fn repetition(fields: &Fields) -> Result<(), Problem> {
    match fields.float("repetition_penalty")? {
        Some(value) if !value.is_finite() => {
            let value = shown_float(value);
            Err(Problem::bad_request(&format!("repetition_penalty must be a finite number, got {value}.")))
        }
        Some(value) if value <= 0.0 => {
            let value = shown_float(value);
            Err(Problem::bad_request(&format!("repetition_penalty must be greater than zero, got {value}.")))
        }
        _ => Ok(()),
    }
}

fn temperature(fields: &Fields) -> Result<(), Problem> {
    let Some(heat) = fields.float("temperature")? else { return Ok(()) };
    let rule = match heat {
        _ if !heat.is_finite() => "be a finite number",
        _ if heat < 0.0 => "be non-negative",
        _ if heat > 2.0 => "be in [0, 2]",
        _ => return Ok(()),
    };
    let heat = shown_float(heat);
    Err(Problem::parameter(&format!("temperature must {rule}, got {heat}."), "temperature", Some(&heat)))
}

fn top_p(fields: &Fields) -> Result<(), Problem> {
    match fields.float("top_p")?.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
        None => Ok(()),
        Some(share) => {
            let share = shown_float(share);
            Err(Problem::parameter(&format!("top_p must be in (0, 1], got {share}."), "top_p", Some(&share)))
        }
    }
}

/// Alternatives per token requested by `name`; -1 means the whole vocabulary.
pub(crate) fn alternatives(asked: Option<i64>, name: &str, vocabulary: usize) -> Result<Option<usize>, Problem> {
    let Some(top) = asked.map(|top| if top == -1 { vocabulary as i64 } else { top }) else { return Ok(None) };
    let sort = name.strip_suffix("logprobs").unwrap_or_default().trim_end_matches('_');
    match top {
        _ if top < 0 => {
            let message = format!("`{name}` must be a positive value or -1.");
            Err(Problem::parameter(&message, name, Some(&top.to_string())))
        }
        _ if top > MAX_LOGPROBS => {
            let (sort, name) = if sort == "prompt" { ("prompt", name) } else { ("sample", "logprobs") };
            let message =
                format!("Requested {sort} logprobs of {top}, which is greater than max allowed: {MAX_LOGPROBS}");
            Err(Problem::parameter(&message, name, Some(&top.to_string())))
        }
        _ => Ok(Some(top as usize)),
    }
}

fn prompt_logprobs(fields: &Fields, vocabulary: usize) -> Result<(), Problem> {
    alternatives(fields.int("prompt_logprobs")?, "prompt_logprobs", vocabulary).map(|_| ())
}

fn token_ids(fields: &Fields, vocabulary: usize) -> Result<(), Problem> {
    let outside = |ids: &[i64]| -> Vec<Value> {
        let known = |id: &i64| (0..vocabulary as i64).contains(id);
        ids.iter().copied().filter(|id| !known(id)).map(Value::Int).collect()
    };
    let refuse = |name: &str, ids: Vec<Value>| {
        let ids = python_str(&Value::List(ids));
        let message =
            format!("token_id(s) {ids} in {name} contain out-of-vocab token ids. Vocabulary size: {vocabulary}");
        Err(Problem::parameter(&message, name, Some(&ids)))
    };
    let asked = fields.ints("logprob_token_ids")?;
    if asked.len() > MAX_LOGPROB_IDS {
        let count = asked.len();
        let message = format!(
            "Requested logprob_token_ids of length {count}, which is greater than max allowed: {MAX_LOGPROB_IDS}"
        );
        return Err(Problem::parameter(&message, "logprob_token_ids", Some(&count.to_string())));
    }
    for (name, ids) in [
        ("logprob_token_ids", asked),
        ("logit_bias", biased(fields)?),
        ("stop_token_ids", fields.ints("stop_token_ids")?),
    ] {
        let wrong = outside(&ids);
        if !wrong.is_empty() {
            return refuse(name, wrong);
        }
    }
    let Some(Value::List(_)) = fields.get("allowed_token_ids") else { return Ok(()) };
    let allowed = fields.ints("allowed_token_ids")?;
    let wrong = outside(&allowed);
    let message = match (allowed.is_empty(), wrong.is_empty()) {
        (true, _) => "allowed_token_ids is not None and empty!",
        (_, false) => "allowed_token_ids contains out-of-vocab token id!",
        _ => return Ok(()),
    };
    Err(Problem::parameter(message, "allowed_token_ids", Some(&python_str(&Value::List(wrong)))))
}

/// The ids with a logit bias; their keys must be numbers.
fn biased(fields: &Fields) -> Result<Vec<i64>, Problem> {
    let Some(bias) = fields.get("logit_bias").and_then(Value::as_dict) else { return Ok(Vec::new()) };
    let mut wrong = Vec::new();
    let mut ids = Vec::new();
    for (name, _) in bias.iter() {
        match name.trim().parse() {
            Ok(id) => ids.push(id),
            Err(_) => wrong.push(Value::from(name)),
        }
    }
    if wrong.is_empty() {
        return Ok(ids);
    }
    let keys = python_str(&Value::List(wrong));
    let message = format!("logit_bias contains key(s) that cannot be converted to integer token IDs: {keys}");
    Err(Problem::parameter(&message, "logit_bias", Some(&keys)))
}
