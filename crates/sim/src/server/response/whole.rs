//! Non-streamed responses.

use std::io;

use super::choice::TokenLogprobs;
use super::chunks;
use super::escape::{ids, list, number, quote, quoted};
use super::generation::Generation;
use super::repeated::Repeated;
use crate::faults::Fault;
use crate::server::protocol::{anthropic, audio, demo, responded, sglang, tgi};
use crate::server::request::ask::{Endpoint, Transfer};
use crate::server::request::problem::Problem;
use crate::server::wire::ResetSwitch;

/// The collected text of one choice.
#[derive(Debug, Default)]
struct Collected {
    reasoning: String,
    text: String,
    logprob_tokens: Vec<TokenLogprobs>,
    repeats_prompt: bool,
}

/// Waits for all tokens and writes the response. An I/O error means that the connection is to be aborted.
pub(crate) async fn respond(mut generation: Generation, reset: &ResetSwitch) -> io::Result<Result<Vec<u8>, Problem>> {
    let mut collected: Vec<Collected> = generation.choices.iter().map(|_| Collected::default()).collect();
    let mut cut = false;
    while !generation.is_done() {
        let signal = generation.signals.recv().await.ok_or(io::ErrorKind::ConnectionAborted)?;
        if generation.fault_is_due(&signal) {
            match std::mem::replace(&mut generation.fault, Fault::None) {
                Fault::StreamError(_) => {
                    return Ok(Err(Problem::internal("the simulator failed this request on purpose")));
                }
                Fault::Disconnect(_) => {
                    reset.pull();
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                Fault::Stall(_, pause) => tokio::time::sleep(pause).await,
                Fault::Truncate(_) => cut = true,
                Fault::None | Fault::Error => {}
            }
        }
        let repeated = generation.repeated(signal.choice);
        let piece = generation.advance(&signal);
        let output = &mut collected[signal.choice];
        if let Some(Repeated { text, logprob_tokens }) = repeated {
            *output = Collected { text, logprob_tokens, repeats_prompt: true, ..Collected::default() };
        }
        let thinking = generation.choices[signal.choice].produced <= generation.reasoning();
        let text = if thinking { &mut output.reasoning } else { &mut output.text };
        text.push_str(&piece.text);
        output.logprob_tokens.extend(piece.logprob_tokens);
    }
    let mut body = write(&generation, &collected);
    if cut {
        body.truncate(body.len() / 2);
    }
    Ok(Ok(body))
}

fn write(generation: &Generation, collected: &[Collected]) -> Vec<u8> {
    let object = match generation.ask.endpoint {
        Endpoint::Chat => "chat.completion",
        Endpoint::Responses => return responded::whole(generation, &collected[0].text),
        Endpoint::Messages => return anthropic::whole(generation, &collected[0].reasoning, &collected[0].text),
        Endpoint::TgiWhole => return tgi::whole(generation, &collected[0].text),
        Endpoint::Sglang => {
            let texts: Vec<&str> = collected.iter().map(|output| output.text.as_str()).collect();
            return sglang::whole(generation, &texts);
        }
        Endpoint::Transcription | Endpoint::Translation => return audio::whole(generation, &collected[0].text),
        Endpoint::Demo => return demo::whole(&with_prompts(generation, collected)),
        // The streaming protocols have no such form.
        Endpoint::Completions | Endpoint::Tgi | Endpoint::Triton => "text_completion",
    };
    let mut out = Vec::new();
    out.extend_from_slice(br#"{"id":"#);
    quote(&mut out, &generation.id);
    out.extend_from_slice(format!(r#","object":"{object}","created":{},"model":"#, generation.created).as_bytes());
    quote(&mut out, &generation.model);
    out.extend_from_slice(br#","choices":"#);
    list(&mut out, collected.iter().enumerate(), |out, (index, output)| match generation.ask.endpoint {
        Endpoint::Chat => push_message(out, generation, index, output),
        _ => push_completion(out, generation, index, output),
    });
    out.extend_from_slice(br#","service_tier":null,"system_fingerprint":"#);
    quote(&mut out, &generation.app.fingerprint);
    out.extend_from_slice(br#","usage":"#);
    chunks::push_usage(&mut out, generation.usage());
    chunks::push_prompt_details(&mut out, generation.usage());
    chunks::push_details(&mut out, generation.usage());
    out.push(b'}');
    if generation.ask.endpoint == Endpoint::Chat {
        out.extend_from_slice(br#","prompt_logprobs":"#);
        push_prompt_logprobs(&mut out, generation, 0);
        out.extend_from_slice(br#","prompt_token_ids":"#);
        push_ids(&mut out, generation, &generation.choices[0].prompt.ids);
        out.extend_from_slice(br#","prompt_text":null"#);
    }
    out.extend_from_slice(br#","kv_transfer_params":"#);
    push_transfer(&mut out, generation);
    out.extend_from_slice(br#","ec_transfer_params":null,"metrics":null}"#);
    out
}

/// Each prompt with its output as one text.
fn with_prompts(generation: &Generation, collected: &[Collected]) -> Vec<String> {
    let choices = generation.choices.iter().zip(collected);
    choices.map(|(choice, output)| choice.prompt.text(&generation.app.spec.tokenizer) + &output.text).collect()
}

fn push_completion(out: &mut Vec<u8>, generation: &Generation, index: usize, output: &Collected) {
    let choice = &generation.choices[index];
    out.extend_from_slice(br#"{"index":"#);
    number(out, index);
    out.extend_from_slice(br#","text":"#);
    quote(out, &output.text);
    out.extend_from_slice(br#","logprobs":"#);
    if output.logprob_tokens.is_empty() {
        out.extend_from_slice(b"null");
    } else {
        chunks::push_completion_logprobs(out, &output.logprob_tokens.iter().collect::<Vec<_>>(), output.repeats_prompt);
    }
    chunks::push_finish(out, choice, true);
    out.extend_from_slice(br#","stop_reason":"#);
    chunks::push_stop_reason(out, choice, true);
    out.extend_from_slice(br#","token_ids":"#);
    push_ids(out, generation, choice.output.ids());
    out.extend_from_slice(br#","prompt_logprobs":"#);
    push_prompt_logprobs(out, generation, index);
    out.extend_from_slice(br#","prompt_token_ids":"#);
    push_ids(out, generation, &choice.prompt.ids);
    out.extend_from_slice(br#","routed_experts":null}"#);
}

fn push_message(out: &mut Vec<u8>, generation: &Generation, index: usize, output: &Collected) {
    let choice = &generation.choices[index];
    out.extend_from_slice(br#"{"index":"#);
    number(out, index);
    out.extend_from_slice(br#","message":{"role":"assistant","content":"#);
    match choice.made_call() {
        Some(_) => out.extend_from_slice(b"null"),
        None => quote(out, &output.text),
    }
    out.extend_from_slice(br#","refusal":null,"annotations":null,"audio":null,"function_call":null"#);
    if let Some(call) = choice.made_call() {
        let (id, name) = (quoted(&choice.call_id), quoted(&call.name));
        let arguments = quoted(call.arguments(&output.text));
        let call = format!(
            r#","tool_calls":[{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{arguments}}}}}]"#
        );
        out.extend_from_slice(call.as_bytes());
    }
    out.extend_from_slice(br#","reasoning":"#);
    match output.reasoning.as_str() {
        "" => out.extend_from_slice(b"null"),
        reasoning => quote(out, reasoning),
    }
    out.extend_from_slice(br#"},"logprobs":"#);
    if output.logprob_tokens.is_empty() {
        out.extend_from_slice(b"null");
    } else {
        chunks::push_chat_logprobs(out, &output.logprob_tokens, choice.alternatives());
    }
    chunks::push_finish(out, choice, true);
    out.extend_from_slice(br#","stop_reason":"#);
    chunks::push_stop_reason(out, choice, true);
    out.extend_from_slice(br#","token_ids":"#);
    push_ids(out, generation, choice.output.ids());
    out.extend_from_slice(br#","routed_experts":null}"#);
}

/// KV transfer parameters for another engine, if requested.
fn push_transfer(out: &mut Vec<u8>, generation: &Generation) {
    if generation.ask.transfer != Transfer::Offered {
        return out.extend_from_slice(b"null");
    }
    let engine = &generation.app.spec.engine;
    let blocks = generation.choices[0].prompt.ids.len().div_ceil(engine.block_size);
    let ids: Vec<String> = (0..blocks).map(|block| block.to_string()).collect();
    let params = format!(
        r#"{{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[{}],"remote_engine_id":{},"remote_request_id":{}}}"#,
        ids.join(","),
        quoted(&generation.app.fingerprint),
        quoted(&generation.id)
    );
    out.extend_from_slice(params.as_bytes());
}

/// The log-probabilities of the prompt's tokens, by their ids; the first has none.
fn push_prompt_logprobs(out: &mut Vec<u8>, generation: &Generation, index: usize) {
    let Some(others) = generation.ask.prompt_logprobs else { return out.extend_from_slice(b"null") };
    let choice = &generation.choices[index];
    let mut draws = generation.prompt_draws(index);
    let tokenizer = &generation.app.spec.tokenizer;
    list(out, choice.prompt.ids.iter().enumerate(), |out, (at, token)| {
        if at == 0 {
            return out.extend_from_slice(b"null");
        }
        let logprob_tokens = draws.next(&generation.app.vocabulary, *token, others.saturating_sub(1));
        let one = |(rank, (id, logprob)): (usize, (u32, f64))| {
            let text = quoted(&tokenizer.decode(&[id]));
            format!(r#""{id}":{{"logprob":{logprob:?},"rank":{},"decoded_token":{text}}}"#, rank + 1)
        };
        let members: Vec<String> = logprob_tokens.into_iter().enumerate().map(one).collect();
        out.extend_from_slice(format!("{{{}}}", members.join(",")).as_bytes());
    });
}

fn push_ids(out: &mut Vec<u8>, generation: &Generation, tokens: &[u32]) {
    if generation.ask.return_token_ids { ids(out, tokens) } else { out.extend_from_slice(b"null") }
}
