//! Servers other than vLLM's: Text Generation Inference, Triton with TensorRT-LLM, SGLang, and vLLM's demonstration
//! server. Each writes one event per token and nothing else.

use serde_json::{Value, json};

use super::openai;
use crate::server::app::App;
use crate::server::request::{Ask, Endpoint, Fields, Problem, Source, prompt, rules};
use crate::server::response::{Choice, Collected, Echo, Events, Generation, Piece, Script, done};
use tacho_engine::Finish;

/// Tokens that TGI and SGLang generate unless the request says otherwise.
const NEW_TOKENS: [i64; 2] = [100, 128];

/// `/`, `/generate` and `/generate_stream` of Text Generation Inference.
pub(super) fn tgi(fields: &Fields, _: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let parameters = fields.within("parameters");
    let ask = Ask {
        ignore_eos: parameters.flag("ignore_eos_token")?,
        include_usage: parameters.flag("details")?,
        seed: parameters.seed("seed")?,
        stop: parameters.texts("stop")?,
        stream: fields.flag("stream")?,
        ..Ask::plain(Endpoint::Tgi, Some(parameters.int("max_new_tokens")?.unwrap_or(NEW_TOKENS[0])))
    };
    Ok((ask, vec![Source::Text(fields.required_text("inputs")?, true)]))
}

/// `generate_stream` of a Triton model.
pub(super) fn triton(fields: &Fields, _: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let ask = Ask {
        min_tokens: fields.count("min_length")?,
        stop: fields.texts(if fields.get("stop_words").is_some() { "stop_words" } else { "stop" })?,
        seed: fields.seed("random_seed")?,
        ..Ask::plain(Endpoint::Triton, fields.int("max_tokens")?)
    };
    Ok((ask, vec![Source::Text(fields.required_text("text_input")?, true)]))
}

pub(super) fn sglang(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let vocabulary = app.spec.tokenizer.full_vocab_size();
    let name = if fields.truthy("input_ids") { "input_ids" } else { "text" };
    let sources = prompt::of_field(name, fields, vocabulary)?;
    let parameters = fields.within("sampling_params");
    rules::sampling(&parameters, vocabulary)?;
    let ask = Ask {
        n: parameters.count("n")?.max(1),
        min_tokens: parameters.count("min_new_tokens")?,
        ignore_eos: parameters.flag("ignore_eos")?,
        stop: parameters.texts("stop")?,
        keep_stop: parameters.flag("no_stop_trim")?,
        seed: parameters.seed("sampling_seed")?,
        stream: fields.flag("stream")?,
        ..Ask::plain(Endpoint::Sglang, Some(parameters.int("max_new_tokens")?.unwrap_or(NEW_TOKENS[1])))
    };
    Ok((ask, sources))
}

/// `/generate` of vLLM's demonstration server: the fields of a completion with other defaults.
pub(super) fn demo(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let (ask, sources) = openai::completion(fields, app)?;
    Ok((Ask { endpoint: Endpoint::Demo, echo: false, include_usage: false, ..ask }, sources))
}

pub(crate) struct Other {
    texts: Vec<String>,
    /// What is before and after an event.
    frame: (&'static str, &'static str),
    event: fn(&Generation, usize, &Piece, &[String]) -> Value,
    failure: fn(&str) -> Value,
    ends: bool,
}

impl Other {
    fn new(generation: &Generation, event: fn(&Generation, usize, &Piece, &[String]) -> Value) -> Self {
        let (texts, frame) = (vec![String::new(); generation.choices.len()], ("data: ", "\n\n"));
        Other { texts, frame, event, failure: |message| json!({"error": {"message": message}}), ends: false }
    }

    pub(super) fn tgi(generation: &Generation) -> Box<dyn Script> {
        let event = |generation: &Generation, index: usize, piece: &Piece, texts: &[String]| {
            let choice = &generation.choices[index];
            let token = json!({"id": piece.token, "text": piece.text, "logprob": -1.0, "special": false});
            let details = (piece.last && generation.ask.include_usage).then(|| tgi_details(choice));
            json!({"index": choice.produced, "token": token, "generated_text": piece.last.then_some(&texts[index]),
                "details": details})
        };
        let failure = |message: &str| json!({"error": message, "error_type": "generation"});
        Box::new(Other { frame: ("data:", "\n\n"), failure, ..Other::new(generation, event) })
    }

    pub(super) fn triton(generation: &Generation) -> Box<dyn Script> {
        let event = |_: &Generation, _, piece: &Piece, _: &[String]| {
            json!({"batch_index": 0, "cum_log_probs": 0.0, "model_name": "ensemble", "model_version": "1",
                "output_log_probs": 0.0, "sequence_end": false, "sequence_id": 0, "sequence_index": 0,
                "sequence_start": false, "text_output": piece.text})
        };
        Box::new(Other { failure: |message| json!({"error": message}), ..Other::new(generation, event) })
    }

    pub(super) fn sglang(generation: &Generation) -> Box<dyn Script> {
        let event = |generation: &Generation, index: usize, piece: &Piece, texts: &[String]| {
            sglang_object(generation, index, &texts[index], piece.last)
        };
        Box::new(Other { ends: true, ..Other::new(generation, event) })
    }

    pub(super) fn demo(generation: &Generation) -> Box<dyn Script> {
        let event = |_: &Generation, _, _: &Piece, texts: &[String]| json!({"text": texts});
        let prompt = |choice: &Choice| choice.prompt.text(&generation.app.spec.tokenizer);
        let texts = generation.choices.iter().map(prompt).collect();
        Box::new(Other { texts, frame: ("", "\n"), ..Other::new(generation, event) })
    }

    fn push(&self, event: &Value, out: &mut Events) {
        out.push_back(format!("{}{event}{}", self.frame.0, self.frame.1).into());
    }
}

impl Script for Other {
    fn token(&mut self, generation: &Generation, index: usize, piece: &Piece, _: Option<&Echo>, out: &mut Events) {
        self.texts[index].push_str(&piece.text);
        self.push(&(self.event)(generation, index, piece, &self.texts), out);
    }

    fn close(&mut self, _: &Generation, out: &mut Events) {
        out.extend(self.ends.then(done));
    }

    fn fail(&mut self, problem: &Problem, out: &mut Events) {
        self.push(&(self.failure)(&problem.message), out);
        out.extend(self.ends.then(done));
    }
}

fn tgi_details(choice: &Choice) -> Value {
    let reason = match (choice.stop_reason(), choice.finish) {
        (Some(_), _) => "stop_sequence",
        (None, Finish::Stop) => "eos_token",
        (None, Finish::Length) => "length",
    };
    json!({"finish_reason": reason, "generated_tokens": choice.produced, "seed": null,
        "input_length": choice.prompt.ids.len()})
}

pub(super) fn tgi_whole(generation: &Generation, collected: &[Collected]) -> Value {
    let mut body = json!({"generated_text": collected[0].text});
    if generation.ask.include_usage {
        body["details"] = tgi_details(&generation.choices[0]);
    }
    body
}

pub(super) fn sglang_whole(generation: &Generation, collected: &[Collected]) -> Value {
    let object = |(index, output): (usize, &Collected)| sglang_object(generation, index, &output.text, true);
    let mut all: Vec<Value> = collected.iter().enumerate().map(object).collect();
    if all.len() == 1 { all.remove(0) } else { all.into() }
}

fn sglang_object(generation: &Generation, index: usize, text: &str, is_last: bool) -> Value {
    let choice = &generation.choices[index];
    let reason = match choice.finish {
        Finish::Stop => json!({"type": "stop", "matched": choice.stop_reason()}),
        Finish::Length => json!({"type": "length", "length": choice.produced}),
    };
    let info = json!({"id": generation.id, "finish_reason": is_last.then_some(reason),
        "prompt_tokens": choice.prompt.ids.len(), "completion_tokens": choice.produced,
        "cached_tokens": generation.usage().cached});
    json!({"text": text, "meta_info": info})
}

pub(super) fn demo_whole(generation: &Generation, collected: &[Collected]) -> Value {
    let choices = generation.choices.iter().zip(collected);
    let text =
        |(choice, output): (&Choice, &Collected)| choice.prompt.text(&generation.app.spec.tokenizer) + &output.text;
    json!({"text": choices.map(text).collect::<Vec<_>>()})
}
