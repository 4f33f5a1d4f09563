//! Writes the model in another format. What a format cannot express is refused, naming the step, rather than lost.

use std::collections::HashMap;

use tacho_core::dict;
use tacho_core::json::{Dict, Value, dumps, dumps_indented};

use super::model::{History, Prompt, Step, Trace};
use super::{error::TraceError, kind::Format};
use crate::sampling::chat::{message, object};

impl Trace {
    pub fn written_as(&self, format: Format) -> Result<String, TraceError> {
        if let (Some(pool), true) = (self.pools.first(), format != Format::Model) {
            let problem = format!("has no pool to draw from, as {:?} is", pool.name);
            return Err(invalid(format, &problem));
        }
        match format {
            Format::Model => {
                let mut text = Vec::new();
                self.write_model(&mut text).expect("a list of bytes takes all");
                Ok(String::from_utf8(text).expect("JSON is text"))
            }
            Format::Mooncake => {
                let names = self.block_names();
                self.lines(|index| self.mooncake(index, &names))
            }
            Format::MultiTurn => self.multi_turn(),
            Format::Conversations => self.conversations(),
            other => Err(invalid(
                other,
                "can be read and not written; there are model, mooncake, multi_turn and conversations",
            )),
        }
    }

    fn lines(&self, row: impl Fn(usize) -> Result<Dict, TraceError>) -> Result<String, TraceError> {
        let line = |index| row(index).map(|dict| dumps(&dict.into()) + "\n");
        (0..self.steps.len()).map(line).collect()
    }

    /// A Mooncake row with AIPerf's additions.
    fn mooncake(&self, index: usize, names: &BlockNames) -> Result<Dict, TraceError> {
        let step = self.plain(Format::Mooncake, index)?;
        let delay = step.parents.first().map(|edge| edge.after_ms).or(step.start_delay_ms);
        let mut row = dict! {
            "session_id": step.session.as_str(),
            "timestamp"?: step.at_ms,
            "delay"?: delay.filter(|ms| *ms > 0.0),
        };
        match &step.prompt {
            Prompt::Given(content) => {
                let known = |key: &str| matches!(key, "text" | "messages" | "payload" | "tools" | "recorded_answer");
                if let Some((key, _)) = content.iter().find(|(key, _)| !known(key)) {
                    return Err(self.cannot(Format::Mooncake, index, &format!("has no {key}")));
                }
                for (key, value) in content.iter().filter(|(key, _)| *key != "recorded_answer") {
                    row.set(if key == "text" { "text_input" } else { key }, value.clone());
                }
            }
            _ => row.set("input_length", step.input_tokens),
        }
        let name = |(id, _): &(u64, u64)| Value::from(names.of(index, *id));
        row.update(&dict! {
            "output_length"?: step.output_tokens,
            "hash_ids"?: step.blocks.as_ref().map(|blocks| blocks.named.iter().map(name).collect::<Vec<Value>>()),
            "extra"?: step.notes.extra.clone(),
        });
        Ok(row)
    }

    /// Options that a reader of the file must pass with `--option`; the file cannot contain them.
    pub fn reading(&self, format: Format) -> Vec<String> {
        if format != Format::Mooncake {
            return Vec::new();
        }
        let sizes = self.steps.iter().filter_map(|step| step.blocks.as_ref()?.named.first());
        let block = sizes.map(|(_, tokens)| *tokens).max().filter(|tokens| *tokens != MOONCAKE_BLOCK);
        let later = self.steps.iter().find(|step| !step.parents.is_empty() && step.prompt == Prompt::Synthetic);
        let whole = later.map(|step| if step.history == History::Recorded { "cumulative" } else { "delta" });
        let block = block.map(|tokens| format!("block_size={tokens}"));
        block.into_iter().chain(whole.map(|word| format!("input_length_is={word}"))).collect()
    }

    /// Block names for a format with file-wide names.
    fn block_names(&self) -> BlockNames {
        let (trees, count) = self.trees();
        let local = self.format == Format::Weka && self.options.get("hash_id_scope").is_none() && count > 1;
        let mut names = HashMap::new();
        for (step, &tree) in self.steps.iter().zip(&trees).filter(|_| local) {
            for (id, _) in step.blocks.iter().flat_map(|blocks| &blocks.named) {
                let next = names.len() as u64;
                names.entry((tree, *id)).or_insert(next);
            }
        }
        BlockNames { trees, names }
    }

    /// One conversation per line.
    fn multi_turn(&self) -> Result<String, TraceError> {
        let mut text = String::new();
        for (session, indices) in self.sessions() {
            let mut turns = Vec::new();
            for index in indices {
                let step = self.plain(Format::MultiTurn, index)?;
                let Prompt::Given(content) = &step.prompt else {
                    return Err(self.cannot(Format::MultiTurn, index, "needs texts, and this has lengths only"));
                };
                if let (Some(system), 0) = (content.get("system"), turns.len()) {
                    turns.push(object([("role", "system".into()), ("text", system.clone())]));
                }
                let mut turn: Dict = Dict::new();
                for (key, value) in content.iter().filter(|(key, _)| !matches!(*key, "system" | "recorded_answer")) {
                    if matches!(key, "messages" | "payload" | "tools") {
                        return Err(self.cannot(Format::MultiTurn, index, &format!("has no {key}")));
                    }
                    turn.set(key, value.clone());
                }
                match (step.at_ms, step.parents.first()) {
                    (Some(at), _) => turn.set("timestamp", at),
                    (None, Some(edge)) if edge.after_ms > 0.0 => turn.set("delay", edge.after_ms),
                    _ => {}
                }
                turn.update(&dict! { "output_length"?: step.output_tokens, "extra"?: step.notes.extra.clone() });
                turns.push(turn.into());
            }
            let row = object([("session_id", session.into()), ("turns", turns.into())]);
            text += &(dumps(&row) + "\n");
        }
        Ok(text)
    }

    /// The conversation list of vLLM's multi-turn benchmark, which requires recorded responses.
    fn conversations(&self) -> Result<String, TraceError> {
        let mut list = Vec::new();
        for (session, indices) in self.sessions() {
            let mut messages = Vec::new();
            for index in indices {
                let step = self.plain(Format::Conversations, index)?;
                let content = if let Prompt::Given(content) = &step.prompt { content.clone() } else { Dict::new() };
                let (Some(text), Some(response)) = (content.get("text"), content.get("recorded_answer")) else {
                    return Err(self.cannot(Format::Conversations, index, "needs a text and a recorded answer"));
                };
                messages.push(message("user", text.clone()));
                messages.push(message("assistant", response.clone()));
            }
            list.push(object([("id", session.into()), ("messages", messages.into())]));
        }
        Ok(dumps_indented(&list.into(), 4))
    }

    /// A step that is simply the next turn.
    fn plain(&self, format: Format, index: usize) -> Result<&Step, TraceError> {
        let step = &self.steps[index];
        let own = |parent: usize| self.steps[parent].session == step.session && parent + 1 == index;
        let chained = match &step.parents[..] {
            [] => index == 0 || self.steps[index - 1].session != step.session,
            [edge] => own(edge.parent),
            _ => false,
        };
        let simple = !matches!(step.history, History::Fork | History::Edges(_));
        if !chained || !simple || step.starts_with.is_some() || !step.sends() {
            return Err(self.cannot(format, index, "has no parallel branches, joins or gates"));
        }
        Ok(step)
    }

    fn cannot(&self, format: Format, index: usize, problem: &str) -> TraceError {
        invalid(format, &format!("{problem}, which {:?} needs", self.steps[index].id()))
    }

    /// The step indices of each session.
    fn sessions(&self) -> Vec<(&str, Vec<usize>)> {
        let mut sessions: Vec<(&str, Vec<usize>)> = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            match sessions.last_mut() {
                Some((session, indices)) if *session == step.session => indices.push(index),
                _ => sessions.push((&step.session, vec![index])),
            }
        }
        sessions
    }
}

/// Default block size of Mooncake files, in tokens.
const MOONCAKE_BLOCK: u64 = 512;

/// Block names by tree; unchanged if all trees share them.
struct BlockNames {
    trees: Vec<usize>,
    names: HashMap<(usize, u64), u64>,
}

impl BlockNames {
    fn of(&self, index: usize, id: u64) -> u64 {
        self.names.get(&(self.trees[index], id)).copied().unwrap_or(id)
    }
}

fn invalid(format: Format, problem: &str) -> TraceError {
    TraceError::Setting { flag: "--to", problem: format!("{} {problem}", format.label()) }
}
