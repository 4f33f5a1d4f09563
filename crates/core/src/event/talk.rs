//! Notes of conversations with a server.

/// Notes of a multi-turn benchmark.
#[derive(Debug, Clone, PartialEq)]
pub enum TalkNote {
    /// What is sent.
    Messages {
        /// The conversation.
        conversation: String,
        /// Texts of the user and of the model, in turns.
        messages: Vec<String>,
    },
    /// What came back.
    Response(Box<Response>),
    /// A client takes a conversation up.
    TakenUp {
        /// Which client.
        client: usize,
        /// The conversation.
        conversation: String,
        /// How many it then takes turns with.
        active: usize,
    },
    /// A client asks.
    Asks {
        /// Which client.
        client: usize,
        /// The conversation.
        conversation: String,
        /// Messages that are sent.
        messages: usize,
        /// Seconds since it asked last in this conversation.
        since: Option<f64>,
    },
    /// A conversation was held to its end.
    HeldToEnd {
        /// By which client.
        client: usize,
        /// The conversation.
        conversation: String,
    },
    /// An attempt failed.
    Failed {
        /// Which client's.
        client: usize,
        /// In which conversation.
        conversation: String,
        /// Messages that were sent.
        messages: usize,
        /// Whether the server refused it, so that its client goes on.
        rejected: bool,
        /// Why.
        reason: String,
    },
    /// A client ends.
    Ends {
        /// Which client.
        client: usize,
        /// Why, unless it is a reported failure.
        why: Option<&'static str>,
        /// Answered exchanges.
        successes: usize,
        /// Failed ones.
        failures: usize,
    },
}

/// An answer and its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The text.
    pub text: String,
    /// Time to first token, ms.
    pub ttft_ms: f64,
    /// Time per further token, ms.
    pub tpot_ms: f64,
    /// Latency, ms.
    pub latency_ms: f64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Pieces after the first.
    pub chunks: u64,
    /// Tokens of the first piece.
    pub first_chunk_tokens: u64,
    /// Share of the prompt that was sent before.
    pub cached_percent: f64,
}

impl TalkNote {
    /// Whether it is a part of what was said, rather than about who said it.
    pub fn is_content(&self) -> bool {
        matches!(self, TalkNote::Messages { .. } | TalkNote::Response(_))
    }
}
