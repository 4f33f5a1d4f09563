//! OpenAI's completions and chat completions, validated as in vLLM.

use std::sync::Arc;

use tacho_core::json::Value;

use crate::server::app::App;
use crate::server::request::ask::{Form, Transfer};
use crate::server::request::{Ask, Endpoint, Fields, Problem, Source, format, prompt, rules, tables, tools, types};

/// Default of `max_tokens` for completions.
const COMPLETION_TOKENS: i64 = 16;

pub(crate) fn completion(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let vocabulary = app.spec.tokenizer.full_vocab_size();
    check_constraints(fields)?;
    types::check(tables::COMPLETION, fields.dict())?;
    rules::completion(fields)?;
    let sources = prompt::of_field("prompt", fields, vocabulary)?;
    let max_tokens = fields.int("max_tokens")?.unwrap_or(COMPLETION_TOKENS);
    let ask = Ask {
        echo: fields.flag("echo")?,
        logprobs: rules::alternatives(fields.int("logprobs")?, "logprobs", vocabulary)?,
        ..sampled(Endpoint::Completions, fields, vocabulary, Some(max_tokens))?
    };
    Ok((ask, sources))
}

pub(crate) fn conversation(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let vocabulary = app.spec.tokenizer.full_vocab_size();
    check_constraints(fields)?;
    types::check(tables::CHAT, fields.dict())?;
    rules::chat(fields)?;
    let source = prompt::of_conversation(fields)?;
    let (limit_name, max_tokens) = match fields.int("max_completion_tokens")? {
        Some(tokens) => ("max_completion_tokens", Some(tokens)),
        None => ("max_tokens", fields.int("max_tokens")?),
    };
    let top = fields.flag("logprobs")?.then(|| fields.int("top_logprobs").map(|top| top.unwrap_or(0))).transpose()?;
    let mut ask = Ask {
        limit_name,
        logprobs: rules::alternatives(top, "top_logprobs", vocabulary)?,
        ..sampled(Endpoint::Chat, fields, vocabulary, max_tokens)?
    };
    if let Some(calls) = tools::of_conversation(fields)?.filter(|_| matches!(ask.form, Form::Free)) {
        ask.form = Form::Called(Arc::new(calls));
    }
    Ok((ask, vec![source]))
}

/// vLLM fails where it expects an object.
fn check_constraints(fields: &Fields) -> Result<(), Problem> {
    match fields.get("structured_outputs") {
        None | Some(Value::Dict(_)) => Ok(()),
        Some(_) => Err(Problem::internal("structured_outputs: expected an object")),
    }
}

/// Fields that completions and chat completions share.
fn sampled(endpoint: Endpoint, fields: &Fields, vocabulary: usize, limit: Option<i64>) -> Result<Ask, Problem> {
    rules::sampling(fields, vocabulary)?;
    let options = fields.within("stream_options");
    let include_usage = options.flag("include_usage")?;
    let guide = format::guide(fields)?;
    let keeps_end = fields.text("truncation_side")? != Some("right");
    let truncate = fields.int("truncate_prompt_tokens")?;
    Ok(Ask {
        model: fields.model()?,
        n: fields.count("n")?.max(1),
        min_tokens: fields.count("min_tokens")?,
        ignore_eos: fields.flag("ignore_eos")?,
        stop: fields.texts("stop")?,
        keep_stop: fields.flag("include_stop_str_in_output")?,
        stream: fields.flag("stream")?,
        interval: fields.count("stream_interval")?.max(1),
        include_usage,
        continuous_usage: include_usage && options.flag("continuous_usage_stats")?,
        prompt_logprobs: fields.int("prompt_logprobs")?.and_then(|top| usize::try_from(top).ok()),
        return_token_ids: fields.flag("return_token_ids")?,
        name_by_id: fields.flag("return_tokens_as_token_ids")?,
        seed: fields.seed("seed")?,
        form: guide.map_or(Form::Free, |guide| Form::Guided(Arc::new(guide))),
        priority: fields.int("priority")?.unwrap_or(0),
        cache_salt: fields.text("cache_salt")?.map(str::to_owned),
        transfer: transfer(&fields.within("kv_transfer_params")),
        budget: fields.int("thinking_token_budget")?.and_then(|budget| usize::try_from(budget).ok()),
        truncate: truncate.map(|tokens| (usize::try_from(tokens).unwrap_or(usize::MAX), keeps_end)),
        ..Ask::plain(endpoint, limit)
    })
}

/// KV transfer parameters, as in vLLM.
fn transfer(params: &Fields) -> Transfer {
    match (params.truthy("do_remote_prefill"), params.truthy("do_remote_decode")) {
        (true, _) => Transfer::Fetched,
        (false, true) => Transfer::Offered,
        _ => Transfer::None,
    }
}
