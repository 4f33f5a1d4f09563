//! One request of a workload, independent of any protocol.

use crate::{Labels, json::Value};

/// The content of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A text.
    Text(String),
    /// Several texts in one request (embeddings, rerank).
    Texts(Vec<String>),
    /// Token IDs.
    Ids(Vec<u32>),
    /// Any other JSON: chat messages, content parts, lists of token-ID lists.
    Json(Value),
}

impl Content {
    /// The text, if it is a single one.
    pub fn as_text(&self) -> Option<&str> {
        if let Content::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the content as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Content::Text(text) => Value::from(text.as_str()),
            Content::Texts(texts) => Value::List(texts.iter().map(|text| Value::from(text.as_str())).collect()),
            Content::Ids(ids) => Value::List(ids.iter().map(|&id| Value::Int(i64::from(id))).collect()),
            Content::Json(value) => value.clone(),
        }
    }

    /// Parses the content, as the most specific variant.
    pub fn from_json(value: Value) -> Self {
        match value {
            Value::Str(text) => Content::Text(text),
            Value::List(items) if !items.is_empty() && items.iter().all(|item| matches!(item, Value::Str(_))) => {
                let text = |item| if let Value::Str(text) = item { Some(text) } else { None };
                Content::Texts(items.into_iter().filter_map(text).collect())
            }
            other => Content::Json(other),
        }
    }
}

crate::named! {
    /// What requests ask of the server, which determines how responses are measured.
    pub enum Task, "a task" {
        /// Tokens, streamed.
        Generation = "generation",
        /// One response about the input: embeddings, scores, classes.
        Pooling = "pooling",
        /// Audio or images.
        Media = "media",
    }
}

crate::packed! {
    /// One request of a workload, with the fields of vLLM's `SampleRequest`.
    ///
    /// ```
    /// use tacho_core::{Content, Request};
    ///
    /// let request = Request { lora: Some("adapter".to_owned()), ..Request::text("Hello", 1, 128) };
    /// assert_eq!(request.content, Content::Text("Hello".to_owned()));
    /// assert_eq!((request.prompt_len, request.output_len), (1, 128));
    /// ```
    #[derive(Debug, Clone, PartialEq)]
    pub struct Request {
        /// The content.
        pub content: Content,
        /// Prompt tokens, counted by the client's tokenizer.
        pub prompt_len: u64,
        /// Maximum output tokens.
        pub output_len: i64,
        /// Sent as `x-request-id`, if present.
        pub id: Option<String>,
        /// OpenAI content parts that accompany the text.
        pub media: Option<Value>,
        /// Adapter to use instead of the base model.
        pub lora: Option<String>,
        /// Arrival offset in seconds, if the data has one.
        pub timestamp: Option<f64>,
        /// Ready-made chat messages, sent as they are.
        pub chat_messages: Option<Value>,
        /// Body fields that take precedence over all others.
        pub overrides: Option<Value>,
        /// The session it belongs to, sent as a header for routers.
        pub session: Option<String>,
        /// Cancel the request this many seconds after it was sent.
        pub cancel_after: Option<f64>,
        /// The groups it is counted in: its class, its stage.
        pub labels: Labels,
        /// The answer that its output is graded by; not sent.
        pub answer: Option<Value>,
    }
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
            labels: Labels::NONE,
            answer: None,
        }
    }
}
