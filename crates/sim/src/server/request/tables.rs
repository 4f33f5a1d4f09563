//! The fields of vLLM's request models, with their types.

use super::members::Kind::{
    Bool, Dict, Dicts, Extras, Float, Int, Int64, IntFrom, Ints, LabelLists, Labels, List, Literal, Literals, Numbers,
    Text, TextOrTexts, Texts,
};
use super::members::{Member, always, maybe};

/// Most stop strings.
const MAX_STOPS: usize = 4;

/// Reasoning efforts.
pub(crate) const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const INCLUDES: &[&str] = &[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
];

/// Fields of completions and chat completions.
pub(crate) const SAMPLING: &[Member] = &[
    maybe("model", Text),
    maybe("frequency_penalty", Float),
    maybe("logit_bias", Numbers),
    maybe("presence_penalty", Float),
    maybe("seed", Int64),
    maybe("stop", TextOrTexts(MAX_STOPS)),
    maybe("stream", Bool),
    maybe("temperature", Float),
    maybe("top_p", Float),
    maybe("user", Text),
    always("use_beam_search", Bool),
    maybe("top_k", Int),
    maybe("min_p", Float),
    maybe("repetition_penalty", Float),
    maybe("watermarking", Bool),
    always("length_penalty", Float),
    maybe("stop_token_ids", Ints),
    always("include_stop_str_in_output", Bool),
    always("ignore_eos", Bool),
    always("min_tokens", Int),
    always("skip_special_tokens", Bool),
    always("spaces_between_special_tokens", Bool),
    maybe("truncate_prompt_tokens", IntFrom(-1)),
    maybe("truncation_side", Literal(&["left", "right"])),
    maybe("allowed_token_ids", Ints),
    maybe("prompt_logprobs", Int),
    maybe("logprob_token_ids", Ints),
    always("bad_words", Texts),
    always("add_special_tokens", Bool),
    always("priority", Int64),
    always("request_id", Text),
    maybe("session_id", Text),
    maybe("return_tokens_as_token_ids", Bool),
    maybe("return_token_ids", Bool),
    maybe("cache_salt", Text),
    maybe("kv_transfer_params", Dict),
    maybe("ec_transfer_params", Dict),
    maybe("vllm_xargs", Extras),
    maybe("stream_interval", IntFrom(1)),
];

pub(crate) const COMPLETION: &[Member] =
    &[maybe("echo", Bool), maybe("logprobs", Int), maybe("max_tokens", Int), always("n", Int), maybe("suffix", Text)];

pub(crate) const CHAT: &[Member] = &[
    maybe("logprobs", Bool),
    maybe("top_logprobs", Int),
    maybe("max_tokens", Int),
    maybe("max_completion_tokens", Int),
    maybe("n", Int),
    maybe("reasoning_effort", Literal(EFFORTS)),
    always("include_reasoning", Bool),
    maybe("parallel_tool_calls", Bool),
    always("echo", Bool),
    always("add_generation_prompt", Bool),
    always("continue_final_message", Bool),
    maybe("documents", LabelLists),
    maybe("chat_template", Text),
    maybe("chat_template_kwargs", Dict),
    maybe("media_io_kwargs", Dicts),
    maybe("mm_processor_kwargs", Dict),
    maybe("return_prompt_text", Bool),
];

/// `/v1/responses`.
pub(crate) const RESPONSES: &[Member] = &[
    maybe("background", Bool),
    maybe("include", Literals(INCLUDES)),
    maybe("instructions", Text),
    maybe("max_output_tokens", Int),
    maybe("max_tool_calls", Int),
    maybe("metadata", Labels),
    maybe("model", Text),
    maybe("parallel_tool_calls", Bool),
    maybe("previous_response_id", Text),
    always("service_tier", Literal(&["auto", "default", "flex", "scale", "priority"])),
    maybe("store", Bool),
    maybe("stream", Bool),
    maybe("temperature", Float),
    maybe("tools", List),
    maybe("top_logprobs", Int),
    maybe("top_p", Float),
    maybe("top_k", Int),
    maybe("truncation", Literal(&["auto", "disabled"])),
    maybe("user", Text),
    always("skip_special_tokens", Bool),
    always("include_stop_str_in_output", Bool),
    always("priority", Int64),
    maybe("seed", Int64),
    maybe("stop", TextOrTexts(MAX_STOPS)),
    maybe("ignore_eos", Bool),
    maybe("vllm_xargs", Extras),
];

/// `/v1/messages`.
pub(crate) const ANTHROPIC: &[Member] = &[
    always("model", Text),
    always("max_tokens", Int),
    maybe("metadata", Dict),
    maybe("stop_sequences", Texts),
    maybe("stream", Bool),
    maybe("temperature", Float),
    maybe("tools", List),
    maybe("top_k", Int),
    maybe("top_p", Float),
];
