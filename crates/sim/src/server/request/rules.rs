//! Ranges of fields, and fields that exclude or require each other.

use tacho_core::json::Value;

use super::{fields::Fields, problem::Problem, types::as_float};

/// Most alternatives per token, as in vLLM.
const MAX_LOGPROBS: i64 = 20;
/// Most token ids whose log-probabilities are requested.
const MAX_LOGPROB_IDS: usize = 128;
/// Most prompts of a completion request, as in vLLM.
const MAX_PROMPTS: usize = 1024;
const SALT_LENGTH: usize = 128;

/// A field, its range in words, the least and the greatest value.
const RANGES: [(&str, &str, f64, f64); 9] = [
    ("n", "from 1 to 16384", 1.0, 16_384.0),
    ("presence_penalty", "from -2 to 2", -2.0, 2.0),
    ("frequency_penalty", "from -2 to 2", -2.0, 2.0),
    ("repetition_penalty", "above 0", f64::MIN_POSITIVE, f64::MAX),
    ("temperature", "from 0 to 2", 0.0, 2.0),
    ("top_p", "above 0 and at most 1", f64::MIN_POSITIVE, 1.0),
    ("top_k", "of at least -1", -1.0, f64::MAX),
    ("min_p", "from 0 to 1", 0.0, 1.0),
    ("min_tokens", "of at least 0", 0.0, f64::MAX),
];

/// A field, what is wrong with it, and whether it is.
type Rule = (&'static str, &'static str, fn(&Fields) -> bool);

const SAMPLING: &[Rule] = &[
    ("stop", "expected no empty string", |fields| has_empty(fields, "stop")),
    ("bad_words", "expected no empty string", |fields| has_empty(fields, "bad_words")),
    ("n", "expected 1 with greedy sampling", |fields| {
        number(fields, "temperature").is_some_and(|heat| heat < 1e-5) && number(fields, "n").unwrap_or(1.0) > 1.0
    }),
    ("allowed_token_ids", "expected at least one id", |fields| {
        fields.get("allowed_token_ids").is_some_and(|ids| !ids.truthy())
    }),
    ("logprob_token_ids", "expected at most 128 ids", |fields| {
        fields.ints("logprob_token_ids").is_ok_and(|ids| ids.len() > MAX_LOGPROB_IDS)
    }),
];

const COMMON: &[Rule] = &[
    ("stream_options", "expected only with stream", |fields| {
        fields.truthy("stream_options") && !fields.truthy("stream")
    }),
    ("logprob_token_ids", "not supported with beam search", |fields| {
        fields.truthy("logprob_token_ids") && fields.truthy("use_beam_search")
    }),
    ("prompt_logprobs", "expected an integer", |fields| is_no_number(fields, "prompt_logprobs")),
    ("prompt_logprobs", "not available with stream", |fields| {
        fields.truthy("stream") && number(fields, "prompt_logprobs").is_some_and(|top| top > 0.0 || top == -1.0)
    }),
    ("response_format", "expected json_schema with type json_schema", |fields| {
        let format = fields.within("response_format");
        format.text("type").is_ok_and(|kind| kind == Some("json_schema")) && format.get("json_schema").is_none()
    }),
    ("thinking_token_budget", "expected an integer of at least -1", |fields| {
        fields.get("thinking_token_budget").is_some_and(|budget| !matches!(budget, Value::Int(-1..)))
    }),
    (
        "repetition_detection",
        "expected 0 <= min_pattern_size <= max_pattern_size, and min_count of at least 2",
        |fields| {
            let given = fields.within("repetition_detection");
            let number = |name: &str| given.int(name).ok().flatten().unwrap_or(0);
            let (min, max) = (number("min_pattern_size"), number("max_pattern_size"));
            min < 0 || min > max || (max > 0 && number("min_count") < 2)
        },
    ),
];

const COMPLETION: &[Rule] = &[
    ("prompt", "expected at most 1024 prompts", |fields| {
        let items = fields.get("prompt").and_then(Value::as_list).unwrap_or(&[]);
        items.len() > MAX_PROMPTS && !matches!(items[0], Value::Int(_))
    }),
    ("prompt_embeds", "not enabled", |fields| !fields.truthy("prompt") && fields.truthy("prompt_embeds")),
    ("logprobs", "expected an integer", |fields| is_no_number(fields, "logprobs")),
    ("logprob_token_ids", "expected only with logprobs", |fields| {
        fields.truthy("logprob_token_ids") && fields.get("logprobs").is_none()
    }),
    ("suffix", "not supported by this model", |fields| fields.get("suffix").is_some()),
];

const CHAT: &[Rule] = &[
    ("logprob_token_ids", "expected only with logprobs", |fields| {
        fields.truthy("logprob_token_ids") && !fields.truthy("logprobs")
    }),
    ("top_logprobs", "expected an integer", |fields| is_no_number(fields, "top_logprobs")),
    ("top_logprobs", "expected only with logprobs", |fields| {
        fields.truthy("top_logprobs") && !fields.truthy("logprobs")
    }),
    ("chat_template", "refused without --trust-request-chat-template", |fields| fields.get("chat_template").is_some()),
    ("mm_processor_kwargs", "refused without --trust-request-mm-kwargs", |fields| fields.truthy("mm_processor_kwargs")),
    ("media_io_kwargs", "refused without --trust-request-mm-kwargs", |fields| fields.truthy("media_io_kwargs")),
    ("continue_final_message", "expected only without add_generation_prompt", |fields| {
        fields.truthy("continue_final_message") && fields.flag_or_true("add_generation_prompt").unwrap_or(true)
    }),
    ("tools", "expected at least one tool", |fields| fields.get("tools").is_some_and(|tools| !tools.truthy())),
    ("tool_choice", "not available with a constraint of the output", |fields| {
        let given = fields.within("structured_outputs");
        matches!(fields.get("tool_choice"), Some(Value::Dict(_)))
            && ["json", "regex", "choice"].iter().any(|name| given.get(name).is_some())
    }),
];

fn number(fields: &Fields, name: &str) -> Option<f64> {
    fields.get(name).and_then(as_float)
}

fn is_no_number(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_some_and(|value| matches!(value, Value::Str(_)) || as_float(value).is_none())
}

fn has_empty(fields: &Fields, name: &str) -> bool {
    fields.texts(name).is_ok_and(|texts| texts.iter().any(String::is_empty))
}

fn check(rules: &[&[Rule]], fields: &Fields) -> Result<(), Problem> {
    match rules.iter().copied().flatten().find(|(_, _, is_broken)| is_broken(fields)) {
        Some((name, message, _)) => Err(Problem::parameter(name, message)),
        None => Ok(()),
    }
}

pub(crate) fn completion(fields: &Fields) -> Result<(), Problem> {
    check(&[COMPLETION, COMMON], fields)?;
    cache_salt(fields)
}

pub(crate) fn chat(fields: &Fields) -> Result<(), Problem> {
    check(&[CHAT, COMMON], fields)?;
    cache_salt(fields)
}

pub(crate) fn cache_salt(fields: &Fields) -> Result<(), Problem> {
    let is_valid =
        |salt: &str| (1..=SALT_LENGTH).contains(&salt.chars().count()) && !salt.contains(['@', '/', '\\', '\0']);
    match fields.get("cache_salt") {
        Some(salt) if !salt.as_str().is_some_and(is_valid) => {
            let message = r"expected 1 to 128 characters without '@', '/', '\' and NUL";
            Err(Problem::parameter("cache_salt", message))
        }
        _ => Ok(()),
    }
}

pub(crate) fn sampling(fields: &Fields, vocabulary: usize) -> Result<(), Problem> {
    for (name, range, min, max) in RANGES {
        if let Some(value) = fields.float(name)?.filter(|value| !(min..=max).contains(value)) {
            return Err(Problem::parameter(name, &format!("expected a number {range}, got {value}")));
        }
    }
    check(&[SAMPLING], fields)?;
    alternatives(fields.int("prompt_logprobs")?, "prompt_logprobs", vocabulary)?;
    for name in ["logprob_token_ids", "stop_token_ids", "allowed_token_ids"] {
        check_ids(name, fields.ints(name)?.into_iter().map(Some), vocabulary)?;
    }
    let biased = fields.within("logit_bias");
    check_ids("logit_bias", biased.dict().iter().map(|(id, _)| id.trim().parse().ok()), vocabulary)
}

fn check_ids(name: &str, mut ids: impl Iterator<Item = Option<i64>>, vocabulary: usize) -> Result<(), Problem> {
    let is_known = |id: Option<i64>| id.is_some_and(|id| (0..vocabulary as i64).contains(&id));
    match ids.all(is_known) {
        true => Ok(()),
        false => Err(Problem::parameter(name, &format!("expected token ids from 0 to {}", vocabulary - 1))),
    }
}

/// Alternatives per token requested by `name`; -1 means the whole vocabulary.
pub(crate) fn alternatives(top: Option<i64>, name: &str, vocabulary: usize) -> Result<Option<usize>, Problem> {
    match top.map(|top| if top == -1 { vocabulary as i64 } else { top }) {
        None => Ok(None),
        Some(top @ 0..=MAX_LOGPROBS) => Ok(Some(top as usize)),
        Some(top) => Err(Problem::parameter(name, &format!("expected an integer from 0 to {MAX_LOGPROBS}, got {top}"))),
    }
}
