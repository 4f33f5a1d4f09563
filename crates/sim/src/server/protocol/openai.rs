//! OpenAI's completions and chat completions, validated as in vLLM.

use std::sync::Arc;

use tacho_core::json::Value;

use crate::server::app::App;
use crate::server::request::ask::{Ask, Endpoint, Form, Transfer};
use crate::server::request::fields::Fields;
use crate::server::request::problem::{Invalid, Problem};
use crate::server::request::prompt::{self, Source};
use crate::server::request::{format, members, messages, rules, sampling, tables, tools};

/// Default of `max_tokens` for completions.
const COMPLETION_TOKENS: i64 = 16;

/// Reads the fields of a completion request.
pub(crate) fn completion(fields: &Fields, vocabulary: usize) -> Result<(Ask, Vec<Source>), Problem> {
    prompt::check_given(fields)?;
    rules::completion(fields)?;
    let mut found = members::findings(&[tables::SAMPLING, tables::COMPLETION], fields.dict());
    found.extend(prompt::findings(fields));
    found.extend(format::findings(fields));
    found.extend(detection_findings(fields));
    Problem::check(&found)?;
    common_rules(fields)?;
    if fields.get("suffix").is_some() {
        return Err(Problem::named("suffix is only supported for models with FIM completion rendering", "suffix"));
    }
    let sources = prompt::of_completion(fields, vocabulary)?;
    let max_tokens = fields.int("max_tokens")?.unwrap_or(COMPLETION_TOKENS);
    let ask = Ask {
        echo: fields.flag("echo")?,
        logprobs: sampling::alternatives(fields.int("logprobs")?, "logprobs", vocabulary)?,
        ..sampled(Endpoint::Completions, fields, vocabulary, Some(max_tokens))?
    };
    Ok((ask, sources))
}

/// Reads the fields of a chat completion request.
pub(crate) fn conversation(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let vocabulary = app.spec.tokenizer.full_vocab_size();
    rules::chat(fields)?;
    let mut found = members::findings(&[tables::SAMPLING, tables::CHAT], fields.dict());
    found.extend(messages::findings(fields));
    found.extend(format::findings(fields));
    found.extend(tools::findings(fields));
    found.extend(detection_findings(fields));
    Problem::check(&found)?;
    common_rules(fields)?;
    chat_rules(fields)?;
    let source = prompt::of_conversation(fields)?;
    let (limit_name, max_tokens) = match fields.int("max_completion_tokens")? {
        Some(tokens) => ("max_completion_tokens", Some(tokens)),
        None => ("max_tokens", fields.int("max_tokens")?),
    };
    let top = fields.flag("logprobs")?.then(|| fields.int("top_logprobs").map(|top| top.unwrap_or(0))).transpose()?;
    let mut ask = Ask {
        limit_name,
        logprobs: sampling::alternatives(top, "top_logprobs", vocabulary)?,
        ..sampled(Endpoint::Chat, fields, vocabulary, max_tokens)?
    };
    if let Some(calls) = tools::of_conversation(fields).filter(|_| matches!(ask.form, Form::Free)) {
        ask.form = Form::Called(Arc::new(calls));
    }
    Ok((ask, vec![source]))
}

/// Fields that completions and chat completions share.
fn sampled(endpoint: Endpoint, fields: &Fields, vocabulary: usize, limit: Option<i64>) -> Result<Ask, Problem> {
    sampling::check(fields, vocabulary)?;
    let (include_usage, continuous) = fields.stream_options()?.unwrap_or_default();
    let guide = format::guide(fields)?;
    let truncate = fields.int("truncate_prompt_tokens")?;
    Ok(Ask {
        model: fields.text("model")?.filter(|model| !model.is_empty()).map(str::to_owned),
        n: sampling::count(fields)?,
        min_tokens: usize::try_from(fields.int("min_tokens")?.unwrap_or(0)).unwrap_or(0),
        ignore_eos: fields.flag("ignore_eos")?,
        stop: fields.texts("stop")?,
        keep_stop: fields.flag("include_stop_str_in_output")?,
        stream: fields.flag("stream")?,
        interval: usize::try_from(fields.int("stream_interval")?.unwrap_or(1)).unwrap_or(1),
        include_usage,
        continuous_usage: include_usage && continuous,
        prompt_logprobs: fields.int("prompt_logprobs")?.and_then(|top| usize::try_from(top).ok()),
        return_token_ids: fields.flag("return_token_ids")?,
        name_by_id: fields.flag("return_tokens_as_token_ids")?,
        seed: fields.int("seed")?.map(|seed| seed as u64),
        form: guide.map_or(Form::Free, |guide| Form::Guided(Arc::new(guide))),
        priority: fields.int("priority")?.unwrap_or(0),
        cache_salt: fields.text("cache_salt")?.map(str::to_owned),
        transfer: transfer(fields),
        budget: fields.int("thinking_token_budget")?.and_then(|budget| usize::try_from(budget).ok()),
        truncate: truncate.map(|tokens| {
            let keeps_end = fields.get("truncation_side").and_then(Value::as_str) != Some("right");
            (usize::try_from(tokens).unwrap_or(usize::MAX), keeps_end)
        }),
        ..Ask::plain(endpoint, limit)
    })
}

/// KV transfer parameters, as in vLLM.
fn transfer(fields: &Fields) -> Transfer {
    let flag =
        |name: &str| fields.get("kv_transfer_params").and_then(|params| params.get(name)).is_some_and(Value::truthy);
    match (flag("do_remote_prefill"), flag("do_remote_decode")) {
        (true, _) => Transfer::Fetched,
        (false, true) => Transfer::Offered,
        _ => Transfer::None,
    }
}

/// Findings about `repetition_detection` and the thinking budget.
fn detection_findings(fields: &Fields) -> Vec<Invalid> {
    const CLASS: &str = "RepetitionDetectionParams";
    let Some(given) = fields.get("repetition_detection").filter(|given| given.as_dict().is_none()) else {
        return Vec::new();
    };
    let message = format!("Input should be a dictionary or an instance of {CLASS}");
    let finding = Invalid::member("dataclass_type", "repetition_detection", &message, given);
    vec![finding.with(format!("{{'class_name': '{CLASS}'}}"))]
}

/// Rules about fields that have no effect in a simulator but that vLLM validates.
fn common_rules(fields: &Fields) -> Result<(), Problem> {
    if let Some(budget) = fields.get("thinking_token_budget")
        && !matches!(budget, Value::Int(-1..))
    {
        let message = "`thinking_token_budget` must be a non-negative integer or -1 for unlimited.";
        let shown = tacho_core::json::python_str(budget);
        return Err(Problem::parameter(message, "thinking_token_budget", Some(&shown)));
    }
    if let Some(given) = fields.get("repetition_detection") {
        let number = |name: &str| given.get(name).and_then(Value::as_i64).unwrap_or(0);
        let (least, most) = (number("min_pattern_size"), number("max_pattern_size"));
        if least < 0 || most < 0 || least > most {
            return Err(Problem::bad_request(
                "max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. Set both \
                 to 0 to disable repetitive pattern detection.",
            ));
        }
        if most > 0 && number("min_count") < 2 {
            return Err(Problem::bad_request(
                "min_count must be >= 2 to detect repetitive patterns in engine output. If you do not wish to detect \
                 repetitive patterns, set max_pattern_size to 0.",
            ));
        }
    }
    Ok(())
}

fn chat_rules(fields: &Fields) -> Result<(), Problem> {
    if fields.get("chat_template").is_some() {
        return Err(Problem::bad_request(
            "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with \
             untrusted chat template.",
        ));
    }
    for (name, what) in [("mm_processor_kwargs", "preprocessing"), ("media_io_kwargs", "media loading")] {
        if fields.get(name).is_some_and(Value::truthy) {
            let message = format!(
                "Per-request {name} are disabled by default because they can change multimodal {what} resource usage. \
                 Start the server with --trust-request-mm-kwargs only when clients are trusted."
            );
            return Err(Problem::parameter(&message, name, None));
        }
    }
    let opens = fields.get("add_generation_prompt").is_none_or(Value::truthy);
    if fields.get("continue_final_message").is_some_and(Value::truthy) && opens {
        return Err(Problem::bad_request(
            "continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when you \
             want the model to continue the final message, and add_generation_prompt when you want to add a header \
             that will prompt it to start a new assistant message instead.",
        ));
    }
    Ok(())
}
