//! Traffic as a trace without its content: lengths, times, which prompt continues which, and which blocks they share.
//! Rows are in the Bailian format. Texts leave this file as numbers only: a block is known by the order in which it
//! first appeared, by a hash whose random key is never stored.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use tacho_core::dict;
use tacho_core::json::{Dict, Value, dumps, parse};
use tacho_text::Tokenizer;

/// Tokens per block of the format.
const BLOCK: usize = 16;
/// Conversations whose continuation is recognized; the oldest are forgotten.
const MAX_OPEN: usize = 100_000;

/// A request and its response, as bytes. Times are milliseconds since the start of the recording.
#[derive(Debug, Clone, Copy)]
pub struct RecordedExchange<'a> {
    pub path: &'a str,
    pub request: &'a [u8],
    pub response: &'a [u8],
    pub arrived_ms: f64,
    pub ended_ms: f64,
}

/// A recorded chat that others may continue.
#[derive(Debug, Clone, Copy)]
struct Chat {
    id: u64,
    turn: u64,
    ended_ms: f64,
}

#[derive(Debug)]
pub struct Recording {
    tokenizer: Tokenizer,
    key: RandomState,
    blocks: HashMap<u64, u64>,
    open: HashMap<u64, Chat>,
    next: u64,
    /// Requests whose lengths the server did not report.
    pub estimated: u64,
}

impl Recording {
    pub fn new(tokenizer: Tokenizer) -> Self {
        Recording {
            tokenizer,
            key: RandomState::new(),
            blocks: HashMap::new(),
            open: HashMap::new(),
            next: 0,
            estimated: 0,
        }
    }

    /// The row of an exchange; `None` if it is no generation.
    pub fn row(&mut self, exchange: &RecordedExchange<'_>) -> Option<Dict> {
        let request = parse(std::str::from_utf8(exchange.request).ok()?).ok()?;
        let parts = parts(exchange.path, &request)?;
        let Usage { prompt, output, is_reported } = Usage::of(exchange.response, &self.tokenizer)?;
        let tokens = self.tokenizer.encode(&parts.concat(), false);
        self.estimated += u64::from(!is_reported);
        let prompt = prompt.unwrap_or(tokens.len() as u64).max(1);
        let ids = self.block_ids(&tokens, prompt as usize / BLOCK);
        let states = self.states(&parts);
        let before = states[..states.len() - 1].iter().rev().find_map(|state| self.open.get(state)).copied();
        let chat = Chat { id: self.next, turn: before.map_or(1, |chat| chat.turn + 1), ended_ms: exchange.ended_ms };
        self.next += 1;
        if self.open.len() >= MAX_OPEN {
            let horizon = self.next.saturating_sub(MAX_OPEN as u64 / 2);
            self.open.retain(|_, chat| chat.id >= horizon);
        }
        self.open.insert(states[states.len() - 1], chat);
        let gap = before.map(|before| (exchange.arrived_ms - before.ended_ms).max(0.0));
        Some(dict! {
            "chat_id": chat.id,
            "parent_chat_id": before.map_or(-1, |before| before.id as i64),
            "timestamp": (exchange.arrived_ms * 1000.0).round() / 1e6,
            "after_ms"?: gap.map(|ms| (ms * 1000.0).round() / 1000.0),
            "turn": chat.turn,
            "type": "text",
            "input_length": prompt,
            "output_length": output.max(1),
            "hash_ids": ids.into_iter().map(Value::from).collect::<Vec<_>>(),
        })
    }

    /// The numbers of the full blocks of a prompt.
    fn block_ids(&mut self, tokens: &[u32], max: usize) -> Vec<u64> {
        let mut before = 0;
        let mut ids = Vec::new();
        for block in tokens.chunks_exact(BLOCK).take(max) {
            before = self.key.hash_one((before, block));
            let next = self.blocks.len() as u64;
            ids.push(*self.blocks.entry(before).or_insert(next));
        }
        ids
    }

    /// Hashes of the parts up to each of them.
    fn states(&self, parts: &[String]) -> Vec<u64> {
        let next = |state: &mut u64, part: &String| {
            *state = self.key.hash_one((*state, part));
            Some(*state)
        };
        parts.iter().scan(0, next).collect()
    }
}

/// The parts of a prompt: its tools and messages, or its text. `None` for other requests.
fn parts(path: &str, request: &Value) -> Option<Vec<String>> {
    let message = |message: &Value| {
        let role = message.text("role").unwrap_or_default();
        let content = match message.get("content") {
            Some(Value::List(list)) => {
                let text = |part: &Value| part.text("text").map_or_else(|| dumps(part), str::to_owned);
                list.iter().map(text).collect()
            }
            content => content.and_then(Value::as_str).unwrap_or_default().to_owned(),
        };
        let calls = message.get("tool_calls").map(dumps).unwrap_or_default();
        format!("{role}\n{content}{calls}\n")
    };
    match () {
        () if path.ends_with("/chat/completions") => {
            let messages = request.get("messages")?.as_list().filter(|messages| !messages.is_empty())?;
            // Tools precede the messages in every template, and conversations with other tools are others.
            let tools = request.get("tools").map(dumps).unwrap_or_default();
            let mut parts: Vec<String> = messages.iter().map(message).collect();
            parts[0].insert_str(0, &tools);
            Some(parts)
        }
        () if path.ends_with("/completions") => match request.get("prompt")? {
            Value::List(ids) => Some(vec![ids.iter().map(dumps).collect::<Vec<_>>().join(" ")]),
            prompt => Some(vec![prompt.as_str()?.to_owned()]),
        },
        () => None,
    }
}

/// Tokens of a prompt and its response.
struct Usage {
    prompt: Option<u64>,
    output: u64,
    is_reported: bool,
}

impl Usage {
    /// From a response, streamed or not; `None` if it is no response of a generation.
    fn of(response: &[u8], tokenizer: &Tokenizer) -> Option<Self> {
        let text = String::from_utf8_lossy(response);
        let events: Vec<Value> = match text.trim_start().starts_with('{') {
            true => vec![parse(&text).ok()?],
            false => text
                .lines()
                .filter_map(|line| parse(line.strip_prefix("data:")?.trim()).ok())
                .filter(|event| event.as_dict().is_some())
                .collect(),
        };
        if !events.iter().any(|event| event.get("choices").is_some()) {
            return None;
        }
        let usage = events.iter().rev().find_map(|event| event.get("usage").filter(|usage| usage.as_dict().is_some()));
        let count =
            |name: &str| usage.and_then(|usage| usage.get(name)?.as_i64()).and_then(|count| u64::try_from(count).ok());
        let generated = || match events.as_slice() {
            [whole] => tokenizer.count(&generated_text(whole), false) as u64,
            all => all.iter().filter(|event| !generated_text(event).is_empty()).count() as u64,
        };
        let output = count("completion_tokens");
        let is_reported = output.is_some() && count("prompt_tokens").is_some();
        Some(Usage { prompt: count("prompt_tokens"), output: output.unwrap_or_else(generated), is_reported })
    }
}

/// The generated text of a response or of one of its events.
fn generated_text(event: &Value) -> String {
    let choices = event.get("choices").and_then(Value::as_list).unwrap_or_default();
    let text = |choice: &Value| {
        let inner = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(choice);
        let words = ["content", "reasoning_content", "reasoning", "text"];
        let texts = words.iter().filter_map(|name| inner.text(name));
        texts.collect::<String>() + &inner.get("tool_calls").map(dumps).unwrap_or_default()
    };
    choices.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str =
        "The merger with Initech closes on Friday and nobody outside this room may know about it before then.";

    fn chat(messages: &[(&str, &str)]) -> String {
        let message = |(role, content): &(&str, &str)| Value::Dict(dict! { "role": *role, "content": *content });
        let messages: Vec<Value> = messages.iter().map(message).collect();
        dumps(&Value::Dict(dict! { "model": "m", "messages": messages }))
    }

    fn exchange<'a>(request: &'a str, response: &'a str, (arrived_ms, ended_ms): (f64, f64)) -> RecordedExchange<'a> {
        RecordedExchange {
            path: "/v1/chat/completions",
            request: request.as_bytes(),
            response: response.as_bytes(),
            arrived_ms,
            ended_ms,
        }
    }

    const USAGE: &str =
        r#"{"choices": [{"message": {"content": "yes"}}], "usage": {"prompt_tokens": 40, "completion_tokens": 7}}"#;

    #[test]
    fn turns_continue_their_conversation_and_share_its_blocks() {
        let mut recording = Recording::new(Tokenizer::builtin());
        let first = chat(&[("system", SECRET), ("user", "hello")]);
        let second = chat(&[("system", SECRET), ("user", "hello"), ("assistant", "yes"), ("user", "more")]);
        let fork = chat(&[("system", SECRET), ("user", "hello"), ("assistant", "no"), ("user", "other")]);
        let other = chat(&[("system", SECRET), ("user", "bye")]);
        let mut row = |request: &str, times| recording.row(&exchange(request, USAGE, times)).unwrap();
        let rows = [
            row(&first, (0.0, 500.0)),
            row(&second, (800.0, 900.0)),
            row(&fork, (850.0, 990.0)),
            row(&other, (900.0, 950.0)),
        ];
        let number = |row: &Dict, name: &str| row.get(name).and_then(Value::as_f64);
        let parents: Vec<Option<f64>> = rows.iter().map(|row| number(row, "parent_chat_id")).collect();
        assert_eq!(parents, [Some(-1.0), Some(0.0), Some(0.0), Some(-1.0)]);
        assert_eq!((number(&rows[1], "after_ms"), number(&rows[1], "turn")), (Some(300.0), Some(2.0)));
        assert_eq!((number(&rows[0], "input_length"), number(&rows[0], "output_length")), (Some(40.0), Some(7.0)));
        let ids = |row: &Dict| row.get("hash_ids").and_then(Value::as_list).unwrap().to_vec();
        assert!(!ids(&rows[0]).is_empty() && ids(&rows[0])[..1] == ids(&rows[3])[..1]);
        assert!(ids(&rows[0]).len() <= 40 / BLOCK);
    }

    #[test]
    fn no_text_is_in_a_row() {
        let mut recording = Recording::new(Tokenizer::builtin());
        let request = chat(&[("user", SECRET)]);
        let stream =
            format!("data: {{\"choices\": [{{\"delta\": {{\"content\": \"{SECRET}\"}}}}]}}\n\ndata: [DONE]\n\n");
        let row = dumps(&Value::Dict(recording.row(&exchange(&request, &stream, (0.0, 1.0))).unwrap()));
        let pieces = SECRET.as_bytes().windows(5).map(|piece| std::str::from_utf8(piece).unwrap());
        assert_eq!(pieces.filter(|piece| row.contains(piece)).collect::<Vec<_>>(), [""; 0], "{row}");
        assert_eq!(recording.estimated, 1);
        assert!(recording.row(&exchange("{}", USAGE, (0.0, 1.0))).is_none());
        let models = RecordedExchange { path: "/v1/models", ..exchange(&request, USAGE, (0.0, 1.0)) };
        assert!(recording.row(&models).is_none());
    }
}
