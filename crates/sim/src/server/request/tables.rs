//! The fields of vLLM's request models, with their types.

use super::types::Kind::{Any, Bool, Either, Float, Int, IntFrom, List, Map, Name, Object, OneOf, Tagged, Text, UpTo};
use super::types::{Group, Kind, nullable, optional, required};

const INT64: Kind = IntFrom(i64::MIN);
const STOP: Kind = Either(&[Text, UpTo(4, &Text)]);
const EXTRAS: Kind = Map(&Either(&[Text, Float, List(&Any)]));
const IDS: Kind = List(&IntFrom(0));
const EFFORTS: Kind = OneOf(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]);

const SAMPLING: &[Group] = &[
    nullable(Text, &["model", "user", "session_id"]),
    optional(Text, &["request_id"]),
    nullable(Float, &["frequency_penalty", "presence_penalty", "temperature", "top_p", "min_p", "repetition_penalty"]),
    optional(Float, &["length_penalty"]),
    nullable(Bool, &["stream", "watermarking", "return_tokens_as_token_ids", "return_token_ids"]),
    optional(Bool, &["use_beam_search", "include_stop_str_in_output", "ignore_eos", "skip_special_tokens"]),
    optional(Bool, &["spaces_between_special_tokens", "add_special_tokens"]),
    nullable(Int, &["top_k"]),
    optional(Int, &["min_tokens"]),
    nullable(INT64, &["seed"]),
    optional(INT64, &["priority"]),
    nullable(IntFrom(-1), &["truncate_prompt_tokens"]),
    nullable(IntFrom(1), &["stream_interval"]),
    nullable(OneOf(&["left", "right"]), &["truncation_side"]),
    nullable(STOP, &["stop"]),
    optional(List(&Text), &["bad_words"]),
    nullable(List(&Int), &["stop_token_ids", "allowed_token_ids", "logprob_token_ids"]),
    nullable(Map(&Float), &["logit_bias"]),
    nullable(Map(&Any), &["kv_transfer_params", "ec_transfer_params", "repetition_detection"]),
    nullable(EXTRAS, &["vllm_xargs"]),
    nullable(RESPONSE_FORMAT, &["response_format"]),
    nullable(STRUCTURED_OUTPUTS, &["structured_outputs"]),
];

const RESPONSE_FORMAT: Kind = Tagged(
    "type",
    &[
        (&["text", "json_object", "structural_tag"], &[]),
        (&["json_schema"], &[nullable(JSON_SCHEMA, &["json_schema"])]),
    ],
);
const JSON_SCHEMA: Kind = Object(&[required(Text, &["name"]), nullable(Map(&Any), &["schema"])]);
const STRUCTURED_OUTPUTS: Kind = Object(&[
    nullable(Either(&[Text, Map(&Any)]), &["json"]),
    nullable(Text, &["regex", "grammar", "whitespace_pattern", "structural_tag"]),
    nullable(List(&Text), &["choice"]),
    nullable(Bool, &["json_object"]),
    optional(Bool, &["disable_any_whitespace", "disable_additional_properties"]),
]);

/// `/v1/completions`. A text for `logprobs` is refused later, with another error type.
pub(crate) const COMPLETION: &[&[Group]] = &[
    SAMPLING,
    &[
        nullable(Either(&[Text, IDS, List(&Text), List(&IDS)]), &["prompt"]),
        nullable(Bool, &["echo"]),
        nullable(Either(&[Int, Text]), &["logprobs"]),
        nullable(Int, &["max_tokens"]),
        optional(Int, &["n"]),
        nullable(Text, &["suffix"]),
    ],
];

pub(crate) const CHAT: &[&[Group]] = &[
    SAMPLING,
    MESSAGES,
    &[
        nullable(Bool, &["logprobs", "parallel_tool_calls", "return_prompt_text"]),
        optional(Bool, &["include_reasoning", "echo", "add_generation_prompt", "continue_final_message"]),
        nullable(Int, &["max_tokens", "max_completion_tokens", "n"]),
        nullable(EFFORTS, &["reasoning_effort"]),
        nullable(List(&Map(&Text)), &["documents"]),
        nullable(Text, &["chat_template"]),
        nullable(Map(&Any), &["chat_template_kwargs", "mm_processor_kwargs"]),
        nullable(Map(&Map(&Any)), &["media_io_kwargs"]),
        nullable(List(&TOOL), &["tools"]),
        nullable(Either(&[Text, Float, TOOL_TYPE]), &["tool_choice"]),
    ],
];

pub(crate) const MESSAGES: &[Group] = &[nullable(List(&MESSAGE), &["messages"])];
const MESSAGE: Kind = Tagged(
    "role",
    &[
        (&["assistant"], &[MESSAGE_NAME, TOOL_CALLS, nullable(CONTENT, &["content"])]),
        (&[], &[MESSAGE_NAME, TOOL_CALLS, optional(CONTENT, &["content"])]),
    ],
);
const MESSAGE_NAME: Group = nullable(Text, &["name"]);
const CONTENT: Kind = Either(&[Text, List(&Any), Map(&Any)]);
const TOOL_CALLS: Group = nullable(List(&Object(&[required(Any, &["id", "function", "type"])])), &["tool_calls"]);
const TOOL_TYPE: Kind = Object(&[optional(OneOf(&["function"]), &["type"])]);
const TOOL: Kind = Object(&[optional(OneOf(&["function"]), &["type"]), required(FUNCTION, &["function"])]);
const FUNCTION: Kind = Object(&[
    required(Text, &["name"]),
    nullable(Text, &["description"]),
    nullable(Map(&Any), &["parameters"]),
    nullable(Bool, &["strict"]),
]);

pub(crate) const RESPONSES: &[&[Group]] = &[&[
    required(Either(&[Text, List(&Either(&[Object(INPUT_MESSAGE), Object(INPUT_ITEM)]))]), &["input"]),
    nullable(Bool, &["background", "parallel_tool_calls", "store", "stream", "ignore_eos"]),
    optional(Bool, &["skip_special_tokens", "include_stop_str_in_output"]),
    nullable(List(&OneOf(INCLUDES)), &["include"]),
    nullable(Text, &["instructions", "model", "previous_response_id", "user"]),
    nullable(Int, &["max_output_tokens", "max_tool_calls", "top_logprobs", "top_k"]),
    nullable(Map(&Text), &["metadata"]),
    optional(OneOf(&["auto", "default", "flex", "scale", "priority"]), &["service_tier"]),
    nullable(Float, &["temperature", "top_p"]),
    nullable(OneOf(&["auto", "disabled"]), &["truncation"]),
    optional(INT64, &["priority"]),
    nullable(INT64, &["seed"]),
    nullable(STOP, &["stop"]),
    nullable(EXTRAS, &["vllm_xargs"]),
    nullable(List(&Tagged("type", &[(&["function"], &[required(Text, &["name"])]), (&[], &[])])), &["tools"]),
    nullable(Either(&[OneOf(&["none", "auto", "required"]), Map(&Any)]), &["tool_choice"]),
    nullable(Object(&[nullable(EFFORTS, &["effort"])]), &["reasoning"]),
    nullable(Object(&[nullable(TEXT_FORMAT, &["format"])]), &["text"]),
]];

const INCLUDES: &[&str] = &[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
];
const INPUT_MESSAGE: &[Group] = &[required(Any, &["content", "role"])];
const INPUT_ITEM: &[Group] = &[required(OneOf(ITEMS), &["type"])];
const ITEMS: &[&str] = &[
    "function_call",
    "function_call_output",
    "reasoning",
    "item_reference",
    "custom_tool_call",
    "custom_tool_call_output",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "mcp_call",
    "computer_call_output",
];
const TEXT_FORMAT: Kind = Tagged(
    "type",
    &[(&["text", "json_object"], &[]), (&["json_schema"], &[required(Text, &["name"]), required(Any, &["schema"])])],
);

pub(crate) const ANTHROPIC: &[&[Group]] = &[ANTHROPIC_COUNT[0], &[required(IntFrom(1), &["max_tokens"])]];

/// `/v1/messages/count_tokens`.
pub(crate) const ANTHROPIC_COUNT: &[&[Group]] = &[&[
    required(Name, &["model"]),
    required(List(&ANTHROPIC_MESSAGE), &["messages"]),
    nullable(BLOCKS, &["system"]),
    nullable(Map(&Any), &["metadata"]),
    nullable(List(&Text), &["stop_sequences"]),
    nullable(Bool, &["stream"]),
    nullable(Float, &["temperature", "top_p"]),
    nullable(Int, &["top_k"]),
    nullable(List(&Object(&[required(Text, &["name"]), required(Map(&Any), &["input_schema"])])), &["tools"]),
    nullable(
        Tagged("type", &[(&["auto", "any", "none"], &[]), (&["tool"], &[required(Text, &["name"])])]),
        &["tool_choice"],
    ),
    nullable(Object(&[optional(IntFrom(1024), &["budget_tokens"])]), &["thinking"]),
]];

const ANTHROPIC_MESSAGE: Kind =
    Object(&[required(OneOf(&["user", "assistant", "system"]), &["role"]), required(BLOCKS, &["content"])]);
const BLOCKS: Kind = Either(&[Text, List(&Object(&[required(OneOf(BLOCK_TYPES), &["type"])]))]);
const BLOCK_TYPES: &[&str] = &[
    "text",
    "image",
    "tool_use",
    "tool_result",
    "tool_reference",
    "thinking",
    "redacted_thinking",
    "tool_addition",
    "tool_removal",
];

pub(crate) const DETOKENIZE: &[&[Group]] = &[&[required(IDS, &["tokens"])]];
