//! One request of a workload, before any protocol has seen it.

use crate::json::Value;

/// What is asked of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A text.
    Text(String),
    /// Several texts in one request (embeddings, rerank).
    Texts(Vec<String>),
    /// Token ids.
    Ids(Vec<u32>),
    /// Anything else a dataset makes: chat messages, content parts, lists of id lists.
    Json(Value),
}

impl Content {
    /// The same as a JSON value.
    pub fn to_json(&self) -> Value {
        match self {
            Content::Text(text) => Value::from(text.as_str()),
            Content::Texts(texts) => Value::List(texts.iter().map(|text| Value::from(text.as_str())).collect()),
            Content::Ids(ids) => Value::List(ids.iter().map(|&id| Value::Int(i64::from(id))).collect()),
            Content::Json(value) => value.clone(),
        }
    }

    /// The content that `value` holds, in its narrowest form.
    pub fn from_json(value: Value) -> Self {
        match value {
            Value::Str(text) => Content::Text(text),
            Value::List(items) if !items.is_empty() && items.iter().all(|item| matches!(item, Value::Str(_))) => {
                Content::Texts(
                    items
                        .into_iter()
                        .filter_map(|item| match item {
                            Value::Str(text) => Some(text),
                            _ => None,
                        })
                        .collect(),
                )
            }
            other => Content::Json(other),
        }
    }
}

/// One request of a workload; the fields of vLLM's sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What is sent.
    pub content: Content,
    /// Tokens of the prompt by the client's tokenizer.
    pub prompt_len: u64,
    /// Tokens to generate. From 0 on, for the server to judge.
    pub output_len: i64,
    /// Sent as `x-request-id` when present.
    pub id: Option<String>,
    /// OpenAI content part(s) next to the text.
    pub media: Option<Value>,
    /// Adapter to use instead of the base model.
    pub lora: Option<String>,
    /// Arrival offset in seconds, where the data gives one.
    pub timestamp: Option<f64>,
    /// Ready chat messages, used as they are.
    pub chat_messages: Option<Value>,
    /// Body fields that win over everything else.
    pub overrides: Option<Value>,
    /// The session it belongs to, sent as a header for routers.
    pub session: Option<String>,
    /// Seconds after it was written at which it is called off.
    pub cancel_after: Option<f64>,
}

impl Request {
    /// A plain text request.
    pub fn text(prompt: impl Into<String>, prompt_len: u64, output_len: i64) -> Self {
        Request {
            content: Content::Text(prompt.into()),
            prompt_len,
            output_len,
            id: None,
            media: None,
            lora: None,
            timestamp: None,
            chat_messages: None,
            overrides: None,
            session: None,
            cancel_after: None,
        }
    }
}
