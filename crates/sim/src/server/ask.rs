//! A generation request after validation: what all endpoints ask of the engine.

use super::fields::Fields;
use super::problem::Problem;
use super::prompt::{self, Prompt, Source};
use super::{audio, demo, responses, tgi, triton};
use crate::engine::{EngineSpec, Limits};

/// Most alternatives per token, as vLLM's default has it.
const MAX_LOGPROBS: i64 = 20;
/// Most answers to one prompt, as vLLM's default has it.
const MAX_N: i64 = 16_384;
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
            Endpoint::Tgi | Endpoint::Triton | Endpoint::Demo => "",
        }
    }
}

/// What a request asks for, prompts aside.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) endpoint: Endpoint,
    pub(super) model: Option<String>,
    pub(super) n: usize,
    pub(super) max_tokens: Option<i64>,
    pub(super) min_tokens: usize,
    pub(super) ignore_eos: bool,
    pub(super) stop: Vec<String>,
    pub(super) keep_stop: bool,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) continuous_usage: bool,
    pub(super) echo: bool,
    /// Alternatives per token, when log-probabilities are wanted at all.
    pub(super) logprobs: Option<usize>,
    pub(super) return_token_ids: bool,
    pub(super) seed: Option<u64>,
    /// Repeated in answers of `/v1/responses`.
    pub(super) temperature: Option<f64>,
    /// Likewise.
    pub(super) top_p: Option<f64>,
    /// How long the sound plays that was sent.
    pub(super) audio_seconds: f64,
}

impl Ask {
    /// One answer of at most `max_tokens`, with nothing special about it.
    pub(super) fn plain(endpoint: Endpoint, max_tokens: Option<i64>) -> Ask {
        Ask {
            endpoint,
            model: None,
            n: 1,
            max_tokens,
            min_tokens: 0,
            ignore_eos: false,
            stop: Vec::new(),
            keep_stop: false,
            stream: true,
            include_usage: false,
            continuous_usage: false,
            echo: false,
            logprobs: None,
            return_token_ids: false,
            seed: None,
            temperature: None,
            top_p: None,
            audio_seconds: 0.0,
        }
    }

    /// Reads and checks a request's members; prompts come beside, not yet in ids.
    pub(super) fn read(
        endpoint: Endpoint,
        fields: &Fields,
        full_vocab_size: usize,
    ) -> Result<(Ask, Vec<Source>), Problem> {
        let sources = match endpoint {
            Endpoint::Completions => prompt::of_completion(fields, full_vocab_size)?,
            Endpoint::Chat => vec![prompt::of_conversation(fields)?],
            Endpoint::Responses => return responses::read(fields),
            Endpoint::Transcription | Endpoint::Translation => return audio::read(endpoint, fields),
            Endpoint::Tgi => return tgi::read(fields),
            Endpoint::Triton => return triton::read(fields),
            Endpoint::Demo => return demo::read(fields, full_vocab_size),
        };
        let stream = fields.flag("stream")?;
        let options = fields.stream_options()?;
        if options.is_some() && !stream {
            let message = "Stream options can only be defined when `stream=True`.";
            return Err(Problem::parameter(message, "stream_options", None));
        }
        let (include_usage, continuous) = options.unwrap_or_default();
        let ask = Ask {
            endpoint,
            model: fields.text("model")?.filter(|model| !model.is_empty()).map(str::to_owned),
            n: count(fields)?,
            max_tokens: max_tokens(endpoint, fields)?,
            min_tokens: usize::try_from(fields.int("min_tokens")?.unwrap_or(0)).map_err(|_| negative_min(fields))?,
            ignore_eos: fields.flag("ignore_eos")?,
            stop: stop(fields)?,
            keep_stop: fields.flag("include_stop_str_in_output")?,
            stream,
            include_usage,
            continuous_usage: include_usage && continuous,
            echo: endpoint == Endpoint::Completions && fields.flag("echo")?,
            logprobs: logprobs(endpoint, fields, full_vocab_size)?,
            return_token_ids: fields.flag("return_token_ids")?,
            seed: fields.int("seed")?.map(|seed| seed as u64),
            ..Ask::plain(endpoint, None)
        };
        check_temperature(fields)?;
        Ok((ask, sources))
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
        let asked = self.max_tokens.unwrap_or(room);
        if asked > limit as i64 {
            let message = format!(
                "max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens."
            );
            return Err(Problem::parameter(&message, "max_tokens", Some(&asked.to_string())));
        }
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

fn count(fields: &Fields) -> Result<usize, Problem> {
    match fields.int("n")?.unwrap_or(1) {
        n @ 1..=MAX_N => Ok(n as usize),
        n @ 1.. => Err(Problem::bad_request(&format!(
            "n must be at most {MAX_N}, got {n}. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment \
             variable."
        ))),
        n => Err(Problem::bad_request(&format!("n must be at least 1, got {n}."))),
    }
}

fn max_tokens(endpoint: Endpoint, fields: &Fields) -> Result<Option<i64>, Problem> {
    match endpoint {
        Endpoint::Completions if fields.has("max_tokens") => fields.int("max_tokens"),
        Endpoint::Completions => Ok(Some(COMPLETION_TOKENS)),
        _ => match fields.int("max_completion_tokens")? {
            Some(tokens) => Ok(Some(tokens)),
            None => fields.int("max_tokens"),
        },
    }
}

fn negative_min(fields: &Fields) -> Problem {
    let got = fields.int("min_tokens").ok().flatten().unwrap_or(0);
    Problem::bad_request(&format!("min_tokens must be greater than or equal to 0, got {got}."))
}

pub(super) fn stop(fields: &Fields) -> Result<Vec<String>, Problem> {
    let stop = fields.texts("stop")?;
    if stop.iter().any(String::is_empty) {
        return Err(Problem::bad_request("stop cannot contain an empty string."));
    }
    Ok(stop)
}

fn logprobs(endpoint: Endpoint, fields: &Fields, full_vocab_size: usize) -> Result<Option<usize>, Problem> {
    let (name, asked) = match endpoint {
        Endpoint::Completions => ("logprobs", fields.int("logprobs")?),
        _ => {
            let wanted = fields.flag("logprobs")?;
            let top = fields.int("top_logprobs")?;
            if top.is_some_and(|top| top > 0) && !wanted {
                let message = "when using `top_logprobs`, `logprobs` must be set to true.";
                return Err(Problem::parameter(message, "top_logprobs", None));
            }
            ("top_logprobs", wanted.then(|| top.unwrap_or(0)))
        }
    };
    // -1 stands for the whole vocabulary.
    match asked.map(|top| if top == -1 { full_vocab_size as i64 } else { top }) {
        None => Ok(None),
        Some(top) if top < 0 => {
            let message = format!("`{name}` must be a positive value or -1.");
            Err(Problem::parameter(&message, name, Some(&top.to_string())))
        }
        Some(top) if top > MAX_LOGPROBS => {
            let message =
                format!("Requested sample logprobs of {top}, which is greater than max allowed: {MAX_LOGPROBS}");
            Err(Problem::parameter(&message, "logprobs", Some(&top.to_string())))
        }
        Some(top) => Ok(Some(top as usize)),
    }
}

pub(super) fn check_temperature(fields: &Fields) -> Result<(), Problem> {
    match fields.float("temperature")? {
        Some(value) if value < 0.0 => {
            let value = tacho_core::json::float_repr(value);
            let message = format!("temperature must be non-negative, got {value}.");
            Err(Problem::parameter(&message, "temperature", Some(&value)))
        }
        _ => Ok(()),
    }
}
