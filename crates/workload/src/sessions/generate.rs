//! Synthetic conversations as in vLLM's multi-turn benchmark: the same draws in the same order give the same messages.

mod config;
mod distribution;

use std::path::{Path, PathBuf};

use tacho_core::json::Value;
use tacho_pyrand::RandomState;
use tacho_text::Tokenizer;

pub use config::GeneratorConfig;
pub use distribution::Distribution;

use super::error::{Location, TraceError};
use crate::sampling::chat::{message, object};
use crate::sources::read_text;

const QUESTION: &str = "Please rewrite the following text and add more content: ";

/// A conversation: its name, and messages of user and assistant in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub id: String,
    /// The messages, the user's first.
    pub messages: Vec<String>,
}

impl Conversation {
    pub fn to_json(&self) -> Value {
        let role = |at: usize| if at.is_multiple_of(2) { "user" } else { "assistant" };
        let messages = self.messages.iter().enumerate().map(|(at, content)| message(role(at), content.as_str()));
        object([("id", self.id.as_str().into()), ("messages", Value::List(messages.collect()))])
    }
}

/// Generates the conversations of a configuration. Text files are relative to the current directory.
pub fn generate(
    path: &Path,
    config: &GeneratorConfig,
    tokenizer: &Tokenizer,
    seed: u32,
) -> Result<Vec<Conversation>, TraceError> {
    let mut tokens = Vec::new();
    for file in &config.text_files {
        let text = read_text(&PathBuf::from(file)).map_err(Box::new)?;
        tokens.extend(tokenizer.encode(&text, false));
    }
    Maker { path, config, tokenizer, tokens, base: 0, common: String::new() }.all(&mut RandomState::new(seed))
}

struct Maker<'c> {
    path: &'c Path,
    config: &'c GeneratorConfig,
    tokenizer: &'c Tokenizer,
    tokens: Vec<u32>,
    /// Offset of unused text.
    base: usize,
    common: String,
}

impl Maker<'_> {
    fn all(mut self, random: &mut RandomState) -> Result<Vec<Conversation>, TraceError> {
        let config = self.config;
        let count = config.num_conversations;
        let turns = self.whole("num_turns", config.num_turns.sample(random, count))?;
        let turns: Vec<usize> =
            turns.into_iter().map(|turns| turns.max(2) as usize).map(|turns| turns + turns % 2).collect();
        let prefixes = self.whole("prefix_num_tokens", config.prefix_num_tokens.sample(random, count))?;
        let common = self.whole("common_prefix_num_tokens", config.common_prefix_num_tokens.sample(random, 1))?[0];
        if common > 0 {
            // Python's slice: up to two tokens before the requested end, counted from the back below zero.
            let end = common - 2;
            let end = if end < 0 { self.tokens.len() as i64 + end } else { end.min(self.tokens.len() as i64) };
            self.common = self.tokenizer.decode(&self.tokens[..end.max(0) as usize]) + ".";
            self.base = common as usize;
        }
        (0..count).map(|number| self.conversation(number, turns[number], prefixes[number], random)).collect()
    }

    fn conversation(
        &mut self,
        number: usize,
        turns: usize,
        prefix: i64,
        random: &mut RandomState,
    ) -> Result<Conversation, TraceError> {
        let question = self.count(QUESTION);
        let cut =
            |values: Vec<f64>, min: i64| values.into_iter().map(|value| (value as i64).max(min)).collect::<Vec<i64>>();
        let inputs = cut(self.config.input_num_tokens.sample(random, turns).values(), question);
        let outputs = cut(self.config.output_num_tokens.sample(random, turns).values(), 1);
        let longest = inputs.iter().copied().max().unwrap_or(0);
        let mut messages = Vec::with_capacity(turns);
        for turn in 0..turns {
            if turn % 2 == 1 {
                messages.push(self.slice(0, outputs[turn], "assistant content")?);
                continue;
            }
            let mut text = format!("{number} is a nice number... ");
            if turn == 0 {
                text = format!("{}{text}", self.common);
            }
            let mut left = inputs[turn] - self.count(&text);
            if turn == 0 && prefix > 0 {
                text += &format!("{number}, {}", self.slice(self.base, prefix, "the prefix text")?);
                self.base += prefix as usize;
            }
            text += QUESTION;
            left -= question;
            if left > 0 {
                let start = self.base + turn * longest as usize;
                text += &self.slice(start, left, "the prompt")?;
            }
            messages.push(text);
        }
        self.base += turns;
        Ok(Conversation { id: format!("CONV_ID_{number}"), messages })
    }

    fn count(&self, text: &str) -> i64 {
        self.tokenizer.encode(text, false).len() as i64
    }

    fn slice(&self, start: usize, count: i64, what: &str) -> Result<String, TraceError> {
        let end = start + count as usize;
        if end >= self.tokens.len() {
            let problem = format!(
                "not enough text for {what}: tokens {start} to {end} are asked for and the files have {}",
                self.tokens.len()
            );
            return Err(self.wrong("text_files", problem));
        }
        Ok(self.tokenizer.decode(&self.tokens[start..end]))
    }

    /// Counts must be whole numbers.
    fn whole(&self, field: &str, drawn: distribution::Drawn) -> Result<Vec<i64>, TraceError> {
        match drawn {
            distribution::Drawn::Whole(values) => Ok(values),
            distribution::Drawn::Real(_) => {
                Err(self.wrong(&format!("prompt_input.{field}"), "must be whole numbers".into()))
            }
        }
    }

    fn wrong(&self, field: &str, problem: String) -> TraceError {
        TraceError::Field { location: Location::file(self.path), field: field.to_owned(), problem }
    }
}
