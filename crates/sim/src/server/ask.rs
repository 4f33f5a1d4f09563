//! A generation request after validation: what all endpoints ask of the engine.

use std::sync::Arc;

use tacho_core::json::{Dict, Value};

use super::fields::Fields;
use super::guide::Guide;
use super::problem::Problem;
use super::prompt::{self, Prompt, Source};
use super::tools::Calls;
use super::{
    App, anthropic, audio, demo, format, members, messages, responses, rules, sampling, sglang, tables, tgi, tools,
    triton,
};
use crate::engine::{EngineSpec, Limits};
use crate::spec::SimSpec;

/// Default of `max_tokens` for completions.
const COMPLETION_TOKENS: i64 = 16;

/// Who was asked, which decides how the answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// `/v1/completions`.
    Completions,
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/responses`.
    Responses,
    /// `/v1/audio/transcriptions`.
    Transcription,
    /// `/v1/audio/translations`.
    Translation,
    /// `/generate_stream` of Text Generation Inference.
    Tgi,
    /// `generate_stream` of a Triton model.
    Triton,
    /// `/v1/messages`, Anthropic's protocol.
    Messages,
    /// `/` and `/generate` of Text Generation Inference, not streamed.
    TgiWhole,
    /// `/generate` of SGLang.
    Sglang,
    /// `/generate` of vLLM's demonstration server.
    Demo,
}

impl Endpoint {
    /// What request ids begin with.
    pub(super) fn id_prefix(self) -> &'static str {
        match self {
            Endpoint::Completions => "cmpl-",
            Endpoint::Chat => "chatcmpl-",
            Endpoint::Responses => "resp_",
            Endpoint::Transcription => "transcribe-",
            Endpoint::Translation => "translate-",
            Endpoint::Messages => "chatcmpl-",
            Endpoint::Tgi | Endpoint::TgiWhole | Endpoint::Triton | Endpoint::Sglang | Endpoint::Demo => "",
        }
    }
}

/// What an output is made of.
#[derive(Debug, Clone, Default)]
pub(super) enum Form {
    /// Any tokens.
    #[default]
    Free,
    /// A text under a constraint.
    Guided(Arc<Guide>),
    /// A call of a tool.
    Called(Arc<Calls>),
}

/// What a request asks for, prompts aside.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) endpoint: Endpoint,
    pub(super) model: Option<String>,
    pub(super) n: usize,
    pub(super) max_tokens: Option<i64>,
    /// The member that gave it.
    pub(super) limit_name: &'static str,
    pub(super) min_tokens: usize,
    pub(super) ignore_eos: bool,
    pub(super) stop: Vec<String>,
    pub(super) keep_stop: bool,
    pub(super) stream: bool,
    /// Tokens per event, where more than the server's own are wanted.
    pub(super) interval: usize,
    pub(super) include_usage: bool,
    pub(super) continuous_usage: bool,
    pub(super) echo: bool,
    /// Alternatives per token, when log-probabilities are wanted at all.
    pub(super) logprobs: Option<usize>,
    /// The same of the prompt's tokens.
    pub(super) prompt_logprobs: Option<usize>,
    pub(super) return_token_ids: bool,
    /// Whether tokens are named by their ids among log-probabilities.
    pub(super) name_by_id: bool,
    pub(super) seed: Option<u64>,
    pub(super) form: Form,
    pub(super) priority: i64,
    /// Separates prefix caches.
    pub(super) cache_salt: Option<String>,
    /// Whether the prompt is only computed for another engine, or fetched from one.
    pub(super) transfer: Transfer,
    /// Tokens to which the prompt is cut, and whether its end is kept.
    pub(super) truncate: Option<(usize, bool)>,
    /// Tokens of reasoning that the request allows.
    pub(super) budget: Option<usize>,
    /// Repeated in answers of `/v1/responses`.
    pub(super) temperature: Option<f64>,
    /// Likewise.
    pub(super) top_p: Option<f64>,
    /// Likewise, the members of the request as they are shown.
    pub(super) shown: Dict,
    /// The conversation, where it is kept for a later one to go on from.
    pub(super) history: Option<Vec<Value>>,
    /// How long the sound plays that was sent.
    pub(super) audio_seconds: f64,
}

/// The part of a request in a deployment of two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Transfer {
    /// None.
    #[default]
    None,
    /// Its KV is to be fetched by another engine.
    Offered,
    /// Its KV is fetched from another engine.
    Fetched,
}

impl Ask {
    /// One answer of at most `max_tokens`, with nothing special about it.
    pub(super) fn plain(endpoint: Endpoint, max_tokens: Option<i64>) -> Ask {
        Ask {
            endpoint,
            model: None,
            n: 1,
            max_tokens,
            limit_name: "max_tokens",
            min_tokens: 0,
            ignore_eos: false,
            stop: Vec::new(),
            keep_stop: false,
            stream: true,
            interval: 1,
            include_usage: false,
            continuous_usage: false,
            echo: false,
            logprobs: None,
            prompt_logprobs: None,
            return_token_ids: false,
            name_by_id: false,
            seed: None,
            form: Form::Free,
            priority: 0,
            cache_salt: None,
            transfer: Transfer::None,
            truncate: None,
            budget: None,
            temperature: None,
            top_p: None,
            shown: Dict::new(),
            history: None,
            audio_seconds: 0.0,
        }
    }

    /// Reads and checks a request's members; prompts come beside, not yet in ids.
    pub(super) fn read(endpoint: Endpoint, fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
        let vocabulary = app.spec.tokenizer.full_vocab_size();
        match endpoint {
            Endpoint::Completions => Ask::completion(fields, vocabulary),
            Endpoint::Chat => Ask::conversation(fields, app),
            Endpoint::Responses => responses::read(fields, app),
            Endpoint::Messages => anthropic::read(fields, app),
            Endpoint::Transcription | Endpoint::Translation => audio::read(endpoint, fields),
            Endpoint::Tgi | Endpoint::TgiWhole => tgi::read(endpoint, fields),
            Endpoint::Triton => triton::read(fields),
            Endpoint::Sglang => sglang::read(fields, vocabulary),
            Endpoint::Demo => demo::read(fields, vocabulary),
        }
    }

    /// Reads the members of a completion.
    pub(super) fn completion(fields: &Fields, vocabulary: usize) -> Result<(Ask, Vec<Source>), Problem> {
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
            ..Ask::sampled(Endpoint::Completions, fields, vocabulary, Some(max_tokens))?
        };
        Ok((ask, sources))
    }

    /// Reads the members of a conversation.
    fn conversation(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
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
        let top =
            fields.flag("logprobs")?.then(|| fields.int("top_logprobs").map(|top| top.unwrap_or(0))).transpose()?;
        let mut ask = Ask {
            limit_name,
            logprobs: sampling::alternatives(top, "top_logprobs", vocabulary)?,
            ..Ask::sampled(Endpoint::Chat, fields, vocabulary, max_tokens)?
        };
        if let Some(calls) = tools::of_conversation(fields).filter(|_| matches!(ask.form, Form::Free)) {
            ask.form = Form::Called(Arc::new(calls));
        }
        Ok((ask, vec![source]))
    }

    /// What completions and conversations have in common.
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

    /// Tokens at the beginning of an answer that are reasoning.
    pub(super) fn thoughts(&self, spec: &SimSpec) -> usize {
        match self.endpoint {
            Endpoint::Chat | Endpoint::Responses | Endpoint::Messages => {
                spec.reasoning_tokens.min(self.budget.unwrap_or(usize::MAX))
            }
            _ => 0,
        }
    }

    /// Whether a prompt is only to be repeated: one token is computed all the same, and not shown.
    pub(super) fn only_repeats(&self) -> bool {
        self.echo && self.max_tokens == Some(0)
    }

    /// Refuses more output than the model has room for, before anything is counted.
    pub(super) fn check_limits(&self, spec: &SimSpec) -> Result<(), Problem> {
        if self.budget.is_some() && spec.reasoning_tokens == 0 {
            return Err(Problem::bad_request(
                "thinking_token_budget is set but reasoning_config is not configured. Please set --reasoning-parser \
                 and/or --reasoning-config to use thinking_token_budget.",
            ));
        }
        let limit = spec.engine.max_model_len;
        if let Some(asked) = self.max_tokens.filter(|asked| *asked > limit as i64) {
            let name = self.limit_name;
            let message = format!(
                "{name}={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens."
            );
            return Err(Problem::parameter(&message, name, Some(&asked.to_string())));
        }
        match self.truncate {
            Some((tokens, _)) if tokens != usize::MAX && tokens > limit => {
                let message = format!(
                    "truncate_prompt_tokens={tokens} cannot be greater than max_model_len = {limit}. Please request a \
                     smaller truncation size."
                );
                Err(Problem::parameter(&message, "truncate_prompt_tokens", Some(&tokens.to_string())))
            }
            Some((0, _)) => Err(Problem::bad_request("The decoder prompt cannot be empty")),
            _ => Ok(()),
        }
    }

    /// What bounds the answers to `prompt`.
    pub(super) fn limits(&self, prompt: &Prompt, engine: &EngineSpec) -> Result<Limits, Problem> {
        let limit = engine.max_model_len;
        let mut tokens = prompt.ids.len();
        if tokens > limit {
            // vLLM stops counting text one token beyond the limit.
            tokens = if prompt.was_text() { limit + 1 } else { tokens };
            return Err(too_long(tokens, limit));
        }
        let room = (limit - tokens) as i64;
        let asked = if self.only_repeats() { 1 } else { self.max_tokens.unwrap_or(room) };
        let max_tokens = asked.min(room);
        if max_tokens < 1 {
            let message = format!("max_tokens must be at least 1, got {max_tokens}.");
            return Err(Problem::parameter(&message, "max_tokens", Some(&max_tokens.to_string())));
        }
        let (max_tokens, min_tokens) = (max_tokens as usize, self.min_tokens);
        if min_tokens > max_tokens {
            let message =
                format!("min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}.");
            return Err(Problem::bad_request(&message));
        }
        let mean_output_len = engine.mean_output_len;
        Ok(Limits { max_tokens, min_tokens, ignore_eos: self.ignore_eos, mean_output_len })
    }
}

pub(super) fn too_long(tokens: usize, limit: usize) -> Problem {
    let least = if tokens == limit + 1 { "at least " } else { "" };
    let message = format!(
        "This model's maximum context length is {limit} tokens. However, your prompt contains {least}{tokens} input \
         tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
    );
    Problem::parameter(&message, "input_tokens", Some(&tokens.to_string()))
}

/// The engine that computes the prompt, by vLLM's parameters for it.
fn transfer(fields: &Fields) -> Transfer {
    let flag =
        |name: &str| fields.get("kv_transfer_params").and_then(|params| params.get(name)).is_some_and(Value::truthy);
    match (flag("do_remote_prefill"), flag("do_remote_decode")) {
        (true, _) => Transfer::Fetched,
        (false, true) => Transfer::Offered,
        _ => Transfer::None,
    }
}

/// Findings about `repetition_detection` and the budget of thoughts.
fn detection_findings(fields: &Fields) -> Vec<super::problem::Invalid> {
    const CLASS: &str = "RepetitionDetectionParams";
    let Some(given) = fields.get("repetition_detection").filter(|given| given.as_dict().is_none()) else {
        return Vec::new();
    };
    let message = format!("Input should be a dictionary or an instance of {CLASS}");
    let finding = super::problem::Invalid::member("dataclass_type", "repetition_detection", &message, given);
    vec![finding.with(format!("{{'class_name': '{CLASS}'}}"))]
}

/// Rules about members that mean nothing to a simulator but are refused all the same.
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
