//! Non-streamed responses.

use serde_json::{Value, json};

use super::choice::{Echo, TokenLogprobs};
use super::generation::Generation;
use super::json::{chat_logprobs, completion_logprobs, metrics};
use crate::server::request::{Endpoint, Outcome};
use crate::{faults::Fault, server::request::ask::Transfer, server::wire::ResetSwitch};

#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) reasoning: String,
    pub(crate) text: String,
    logprob_tokens: Vec<TokenLogprobs>,
    echoes_prompt: bool,
}

/// Waits for all tokens and writes the response.
pub(crate) async fn respond(mut generation: Generation, reset: &ResetSwitch) -> Outcome<Vec<u8>> {
    let mut collected: Vec<Collected> = generation.choices.iter().map(|_| Collected::default()).collect();
    let mut applied = Fault::None;
    while !generation.is_done() {
        let signal = generation.jobs.next().await?;
        if generation.fault_is_due(&signal) {
            applied = std::mem::replace(&mut generation.fault, Fault::None);
            reset.apply(applied).await?;
        }
        let echo = generation.echo(signal.choice);
        let piece = generation.advance(&signal);
        let output = &mut collected[signal.choice];
        if let Some(Echo { text, logprob_tokens }) = echo {
            *output = Collected { text, logprob_tokens, echoes_prompt: true, ..Collected::default() };
        }
        let thinking = generation.choices[signal.choice].produced <= generation.reasoning();
        let text = if thinking { &mut output.reasoning } else { &mut output.text };
        text.push_str(&piece.text);
        output.logprob_tokens.extend(piece.logprob_tokens);
    }
    let write = generation.ask.endpoint.protocol().whole;
    Ok(applied.cut(write(&generation, &collected).to_string().into_bytes()))
}

pub(crate) fn completion(generation: &Generation, collected: &[Collected]) -> Value {
    let is_chat = generation.ask.endpoint == Endpoint::Chat;
    let choice =
        |(index, output)| if is_chat { message(generation, index, output) } else { text(generation, index, output) };
    let usage = generation.usage();
    let mut counts = usage.counts();
    counts["prompt_tokens_details"] = usage.reported_cache().map_or(
        Value::Null,
        |cached| json!({"cached_tokens": cached, "created_cache_tokens": null, "multimodal_tokens": null}),
    );
    counts["completion_tokens_details"] = usage.completion_details();
    let mut body = json!({
        "id": generation.id,
        "object": if is_chat { "chat.completion" } else { "text_completion" },
        "created": generation.created,
        "model": generation.model,
        "choices": collected.iter().enumerate().map(choice).collect::<Vec<_>>(),
        "service_tier": null,
        "system_fingerprint": generation.app.fingerprint,
        "usage": counts
    });
    if is_chat {
        body["prompt_logprobs"] = prompt_logprobs(generation, 0);
        body["prompt_token_ids"] = ids(generation, &generation.choices[0].prompt.ids);
        body["prompt_text"] = Value::Null;
    }
    body["kv_transfer_params"] = transfer(generation);
    body["ec_transfer_params"] = Value::Null;
    body["metrics"] = generation.times().map_or(Value::Null, |times| metrics(times, usage.completion));
    body
}

fn text(generation: &Generation, index: usize, output: &Collected) -> Value {
    let choice = &generation.choices[index];
    let tokens: Vec<&TokenLogprobs> = output.logprob_tokens.iter().collect();
    json!({
        "index": index,
        "text": output.text,
        "logprobs": (!tokens.is_empty()).then(|| completion_logprobs(&tokens, output.echoes_prompt)),
        "finish_reason": choice.finish_name(),
        "stop_reason": choice.stop_reason(),
        "token_ids": ids(generation, choice.output.ids()),
        "prompt_logprobs": prompt_logprobs(generation, index),
        "prompt_token_ids": ids(generation, &choice.prompt.ids),
        "routed_experts": null
    })
}

fn message(generation: &Generation, index: usize, output: &Collected) -> Value {
    let choice = &generation.choices[index];
    let call = choice.made_call();
    let mut message = json!({
        "role": "assistant",
        "content": call.is_none().then_some(&output.text),
        "refusal": null,
        "annotations": null,
        "audio": null,
        "function_call": null
    });
    if let Some(call) = call {
        let function = json!({"name": call.name, "arguments": call.arguments(&output.text)});
        message["tool_calls"] = json!([{"id": choice.call_id, "type": "function", "function": function}]);
    }
    message["reasoning"] = json!(Some(&output.reasoning).filter(|reasoning| !reasoning.is_empty()));
    let tokens = &output.logprob_tokens;
    json!({
        "index": index,
        "message": message,
        "logprobs": (!tokens.is_empty()).then(|| chat_logprobs(tokens.iter(), choice.alternatives())),
        "finish_reason": choice.finish_name(),
        "stop_reason": choice.stop_reason(),
        "token_ids": ids(generation, choice.output.ids()),
        "routed_experts": null
    })
}

/// KV transfer parameters for another engine, if requested.
fn transfer(generation: &Generation) -> Value {
    if generation.ask.transfer != Transfer::Offered {
        return Value::Null;
    }
    let blocks = generation.choices[0].prompt.ids.len().div_ceil(generation.app.spec.engine.block_size);
    json!({
        "do_remote_prefill": true,
        "do_remote_decode": false,
        "remote_block_ids": (0..blocks).collect::<Vec<_>>(),
        "remote_engine_id": generation.app.fingerprint,
        "remote_request_id": generation.id
    })
}

/// The log-probabilities of the prompt's tokens, by their ids; the first has none.
fn prompt_logprobs(generation: &Generation, index: usize) -> Value {
    let Some(others) = generation.ask.prompt_logprobs else { return Value::Null };
    let mut draws = generation.prompt_draws(index);
    let app = &generation.app;
    let tokens = generation.choices[index].prompt.ids.iter().skip(1).map(|token| {
        let ranked = draws.next(&app.vocabulary, *token, others.saturating_sub(1), 0.0).into_iter().enumerate();
        let one = |(rank, (id, logprob)): (usize, (u32, f64))| {
            let decoded = app.spec.tokenizer.decode(&[id]);
            (id.to_string(), json!({"logprob": logprob, "rank": rank + 1, "decoded_token": decoded}))
        };
        ranked.map(one).collect::<Value>()
    });
    std::iter::once(Value::Null).chain(tokens).collect()
}

fn ids(generation: &Generation, tokens: &[u32]) -> Value {
    json!(generation.ask.return_token_ids.then_some(tokens))
}
