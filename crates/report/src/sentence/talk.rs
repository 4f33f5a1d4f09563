//! Sentences about conversations with a server, as vLLM's script has them.

use tacho_core::event::{Response, TalkNote};
use tacho_core::json::quoted;

/// A line between exchanges.
const SEPARATOR: &str = "----------------------------------------------------------------------";

pub(super) fn of(note: &TalkNote) -> String {
    match note {
        TalkNote::Messages { conversation, messages } => {
            let list: Vec<String> = messages.iter().enumerate().map(message).collect();
            let count = messages.len();
            format!("Messages (conversation ID {conversation}, {count} turns): [{}]", list.join(", "))
        }
        TalkNote::Response(response) => answered(response),
        TalkNote::TakenUp { client, conversation, active } => {
            format!("Client {client} will use conversation ID {conversation} (active conversations {active})")
        }
        TalkNote::Asks { client, conversation, messages, since } => {
            let since = since.map_or_else(|| "N/A".to_owned(), |seconds| format!("{seconds:.3}"));
            format!(
                "Client {client} using conversation ID {conversation} (turn: {messages}, time since last turn [sec]: \
                 {since})"
            )
        }
        TalkNote::HeldToEnd { client, conversation } => {
            format!("Client {client} finished conversation ID {conversation}")
        }
        TalkNote::Failed { client, conversation, messages, rejected, reason } => {
            let what = if *rejected { "Request rejected" } else { "Exception" };
            format!("Client {client} - {what} during conversation ID {conversation} (turn: {messages}): {reason}")
        }
        TalkNote::Ends { client, why, successes, failures } => {
            let why = why.map_or_else(String::new, |why| format!("Client {client} {why}\n"));
            format!("{why}Client {client} is done (num_successes={successes}, num_failures={failures})")
        }
    }
}

/// A message as Python prints it; users and the model take turns.
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
