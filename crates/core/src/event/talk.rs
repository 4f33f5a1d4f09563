//! Notes of a multi-turn benchmark, in the words of vLLM's script.

use super::note::notes;
use crate::json::quoted;

/// A line between requests.
const SEPARATOR: &str = "----------------------------------------------------------------------";

notes! {
    /// Notes of a multi-turn benchmark.
    TalkNote, layout;
    /// Texts of the user and the assistant, in turn.
    Messages { conversation: String, messages: Vec<String> } => {
        let list: Vec<String> = messages.iter().enumerate().map(message).collect();
        let count = messages.len();
        format!("Messages (conversation ID {conversation}, {count} turns): [{}]", list.join(", "))
    };
    Response(response: Box<Response>) => answered(response);
    ConversationAssigned { client: usize, conversation: String, active: usize } =>
        format!("Client {client} will use conversation ID {conversation} (active conversations {active})");
    /// `since` is the number of seconds since the client's last request in this conversation.
    TurnSent { client: usize, conversation: String, messages: usize, since: Option<f64> } => {
        let since = since.map_or_else(|| "N/A".to_owned(), |seconds| format!("{seconds:.3}"));
        format!(
            "Client {client} using conversation ID {conversation} (turn: {messages}, time since last turn [sec]: {since})"
        )
    };
    ConversationFinished { client: usize, conversation: String } =>
        format!("Client {client} finished conversation ID {conversation}");
    /// A rejected request does not end its client.
    Failed { client: usize, conversation: String, messages: usize, rejected: bool, reason: String } => {
        let what = if *rejected { "Request rejected" } else { "Exception" };
        format!("Client {client} - {what} during conversation ID {conversation} (turn: {messages}): {reason}")
    };
    /// `why` is empty after a reported failure.
    Ends { client: usize, why: Option<&'static str>, successes: usize, failures: usize } => {
        let why = why.map_or_else(String::new, |why| format!("Client {client} {why}\n"));
        format!("{why}Client {client} is done (num_successes={successes}, num_failures={failures})")
    };
}

/// A message as Python prints it; user and assistant take turns.
fn message((at, text): (usize, &String)) -> String {
    let role = if at % 2 == 0 { "user" } else { "assistant" };
    format!("{{'role': '{role}', 'content': {}}}", quoted(text))
}

fn answered(response: &Response) -> String {
    let Response { text, ttft_ms, tpot_ms, latency_ms, input_tokens, output_tokens, .. } = response;
    format!(
        "\nResponse ({output_tokens} tokens): {text}\nResponse metrics: ttft_ms {ttft_ms:.2}, tpot_ms {tpot_ms:.2}, \
         latency_ms {latency_ms:.2}, input_num_tokens {input_tokens}, output_num_tokens {output_tokens} ({} chunks, {} \
         tokens in first chunk), approx_cached_percent {:.2}%\n{SEPARATOR}",
        response.chunks, response.first_chunk_tokens, response.cached_percent
    )
}

/// A response and its metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The generated text.
    pub text: String,
    /// TTFT in milliseconds.
    pub ttft_ms: f64,
    /// TPOT in milliseconds.
    pub tpot_ms: f64,
    /// Latency in milliseconds.
    pub latency_ms: f64,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Number of chunks after the first.
    pub chunks: u64,
    /// Tokens in the first chunk.
    pub first_chunk_tokens: u64,
    /// Percentage of the prompt that was sent before.
    pub cached_percent: f64,
}

impl TalkNote {
    /// Whether the note shows content of the conversation rather than its progress.
    pub fn is_content(&self) -> bool {
        matches!(self, TalkNote::Messages { .. } | TalkNote::Response(_))
    }
}
