//! A trace as requests that can be sent: texts made up where the file has lengths alone, and for each step what of earlier
//! ones stands before it.

use std::collections::HashMap;

use tacho_core::json::{Dict, Value};
use tacho_core::{Content, Request};
use tacho_text::Tokenizer;

use super::error::TraceError;
use super::model::{History, Prompt, Step, Take, Trace};
use crate::datasets::timed_trace::Blocks;

/// What a replay is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySpec {
    /// Whether requests are chats; prompts are token ids or texts otherwise.
    pub chat: bool,
    /// Tokens to generate where the file does not say.
    pub output_len: u64,
    /// Names the blocks' tokens.
    pub seed: u32,
}

/// Requests of a trace.
#[derive(Debug, Clone)]
pub struct Replay {
    /// One per step, with its own messages alone where the rest depends on answers.
    pub requests: Vec<Request>,
    /// For each step the earlier ones whose messages and answers stand before its own.
    before: Vec<Vec<usize>>,
    /// Whether a later step wants the answer.
    keeps: Vec<bool>,
    chat: bool,
}

impl Trace {
    /// Leaves out calls that had failed, which nobody can answer again; tells how many.
    pub fn drop_failed(&mut self) -> usize {
        let waited: std::collections::HashSet<usize> =
            self.steps.iter().flat_map(|step| step.parents.iter().map(|edge| edge.parent)).collect();
        let failed: Vec<bool> =
            self.steps.iter().enumerate().map(|(place, step)| step.notes.failed && !waited.contains(&place)).collect();
        let count = failed.iter().filter(|failed| **failed).count();
        if count > 0 {
            self.retain(|place| !failed[place]);
        }
        count
    }

    /// The requests of all steps.
    ///
    /// # Errors
    /// When a step cannot be sent this way, or its text cannot be made.
    pub fn replay(&self, spec: &ReplaySpec, tokenizer: Option<&Tokenizer>) -> Result<Replay, TraceError> {
        let before = self.before();
        let mut keeps = vec![false; self.steps.len()];
        before.iter().flatten().for_each(|&place| keeps[place] = true);
        let blocks = tokenizer.map(|tokenizer| Blocks::new(tokenizer, spec.seed)).transpose().map_err(Box::new)?;
        let mut maker = Maker { trace: self, spec, tokenizer, blocks, trees: self.trees().0 };
        let requests = (0..self.steps.len()).map(|place| maker.request(place)).collect::<Result<_, _>>()?;
        Ok(Replay { requests, before, keeps, chat: spec.chat })
    }

    /// For each step, the earlier ones whose messages and live answers stand before its own.
    fn before(&self) -> Vec<Vec<usize>> {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.steps.len()];
        for place in super::blocks::in_order(self) {
            let step = &self.steps[place];
            let full = |parent: usize| {
                let mut line = before[parent].clone();
                line.push(parent);
                line
            };
            before[place] = match &step.history {
                History::None | History::Recorded => Vec::new(),
                History::Live => self.previous(step).map(full).unwrap_or_default(),
                History::Fork => step.parents.first().map(|edge| full(edge.parent)).unwrap_or_default(),
                History::Edges(takes) => {
                    let mut line: Vec<usize> = Vec::new();
                    for (parent, take) in takes {
                        match take {
                            Take::Full => line.extend(full(*parent)),
                            Take::Last => line.push(*parent),
                            Take::New => {}
                        }
                    }
                    line
                }
            };
        }
        before
    }

    /// The turn of the same session that a step follows.
    fn previous(&self, step: &Step) -> Option<usize> {
        step.parents.iter().map(|edge| edge.parent).find(|&parent| self.steps[parent].session == step.session)
    }
}

impl Replay {
    /// Whether a later step wants the answer.
    pub fn keeps(&self, index: usize) -> bool {
        self.keeps[index]
    }

    /// The request with all that stands before its own messages; none where nothing does.
    pub fn request(&self, index: usize, answers: &HashMap<usize, Vec<u8>>) -> Option<Request> {
        let before = &self.before[index];
        if before.is_empty() {
            return None;
        }
        let own = &self.requests[index];
        let answer = |place: &usize| answers.get(place).map(|text| String::from_utf8_lossy(text).into_owned());
        if !self.chat {
            let mut text = String::new();
            for place in before {
                text += content_text(&self.requests[*place]);
                text += &answer(place).unwrap_or_default();
            }
            text += content_text(own);
            return Some(Request { content: Content::Text(text), ..own.clone() });
        }
        let mut messages = Vec::new();
        for place in before {
            messages.extend(own_messages(&self.requests[*place]));
            messages.extend(answer(place).map(|text| message("assistant", text)));
        }
        let spoken = messages.iter().any(is_system);
        messages.extend(own_messages(own).into_iter().filter(|own| !spoken || !is_system(own)));
        Some(Request { chat_messages: Some(Value::List(messages)), ..own.clone() })
    }
}

struct Maker<'t> {
    trace: &'t Trace,
    spec: &'t ReplaySpec,
    tokenizer: Option<&'t Tokenizer>,
    blocks: Option<Blocks>,
    trees: Vec<usize>,
}

impl Maker<'_> {
    fn request(&mut self, place: usize) -> Result<Request, TraceError> {
        let step = &self.trace.steps[place];
        let output = step.output_tokens.unwrap_or_else(|| self.recorded_tokens(step).unwrap_or(self.spec.output_len));
        let input = step.input_tokens.unwrap_or(0);
        let mut request = Request::text("", input, i64::try_from(output.max(1)).unwrap_or(i64::MAX));
        let mut overrides = step.notes.extra.clone().unwrap_or_default();
        match &step.prompt {
            Prompt::Nothing => {}
            Prompt::Synthetic => {
                self.made_up(place, &mut request)?;
                overrides.set("ignore_eos", true);
            }
            Prompt::Given(content) => self.given(place, content, &mut request, &mut overrides)?,
        }
        request.overrides = (!overrides.is_empty()).then(|| overrides.into());
        request.id = Some(step.id());
        Ok(request)
    }

    /// Tokens of the answer in the file, where there is one.
    fn recorded_tokens(&self, step: &Step) -> Option<u64> {
        let Prompt::Given(content) = &step.prompt else { return None };
        let answer = content.get("recorded_answer")?.as_str()?;
        Some(self.tokenizer?.count(answer, false) as u64)
    }

    /// A prompt of the recorded length; equal blocks are equal tokens.
    fn made_up(&mut self, place: usize, request: &mut Request) -> Result<(), TraceError> {
        let step = &self.trace.steps[place];
        let (Some(tokenizer), Some(blocks)) = (self.tokenizer, &mut self.blocks) else {
            return Err(cannot(step, "needs a tokenizer to make up its text: leave out --skip-tokenizer-init"));
        };
        let local = self.trace.format == super::Format::Weka && self.trace.options.get("hash_id_scope").is_none();
        let scope = if local { self.trees[place].to_string() } else { String::new() };
        let mut ids = Vec::with_capacity(request.prompt_len as usize);
        let mut left = request.prompt_len;
        for (id, tokens) in step.blocks.iter().flat_map(|blocks| &blocks.named) {
            ids.extend_from_slice(blocks.tokens(&format!("{scope}/{id}"), *tokens as usize));
            left -= tokens;
        }
        ids.extend_from_slice(blocks.tokens(&format!("{}/own", step.id()), left as usize));
        let live = matches!(step.history, History::Live | History::Fork | History::Edges(_));
        if self.spec.chat {
            request.chat_messages = Some(Value::List(vec![message("user", tokenizer.decode(&ids))]));
        } else if live {
            request.content = Content::Text(tokenizer.decode(&ids));
        } else {
            request.content = Content::Ids(ids);
        }
        Ok(())
    }

    fn given(
        &self,
        place: usize,
        content: &Dict,
        request: &mut Request,
        overrides: &mut Dict,
    ) -> Result<(), TraceError> {
        let step = &self.trace.steps[place];
        if let Some(Value::Dict(payload)) = content.get("payload") {
            overrides.update(payload);
            request.chat_messages = payload.get("messages").cloned();
            if let Some(Value::Str(prompt)) = payload.get("prompt") {
                request.content = Content::Text(prompt.clone());
            }
            return Ok(());
        }
        if let Some(tools) = content.get("tools") {
            overrides.set("tools", tools.clone());
        }
        let mut messages: Vec<Value> = content
            .get("system")
            .and_then(Value::as_str)
            .map(|text| message("system", text.to_owned()))
            .into_iter()
            .collect();
        if let (History::Recorded, Some(_)) = (&step.history, content.get("recorded_answer")) {
            messages.extend(self.recorded(place));
        }
        match (content.get("messages"), content.get("text")) {
            (Some(Value::List(own)), _) => messages.extend(own.iter().cloned()),
            (_, Some(Value::Str(text))) => {
                let role = content.get("role").and_then(Value::as_str).unwrap_or("user");
                messages.push(message(role, text.clone()));
                request.content = Content::Text(text.clone());
            }
            _ => return Err(cannot(step, "has neither text nor messages, which is all that can be replayed yet")),
        }
        if self.spec.chat {
            request.chat_messages = Some(Value::List(messages));
        } else if content.get("messages").is_some() {
            return Err(cannot(step, "has chat messages: use --backend openai-chat"));
        }
        if let (Some(tokenizer), 0) = (self.tokenizer, request.prompt_len) {
            let texts = own_messages(request)
                .iter()
                .filter_map(|own| own.get("content")?.as_str().map(str::to_owned))
                .collect::<Vec<_>>();
            request.prompt_len = texts.iter().map(|text| tokenizer.count(text, false) as u64).sum();
        }
        Ok(())
    }

    /// Earlier questions and recorded answers of the same session.
    fn recorded(&self, place: usize) -> Vec<Value> {
        let step = &self.trace.steps[place];
        let earlier = self.trace.steps[..place].iter().filter(|other| other.session == step.session);
        let mut messages = Vec::new();
        for other in earlier {
            if let Prompt::Given(content) = &other.prompt {
                let text = |key: &str| content.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                messages.push(message("user", text("text")));
                messages.push(message("assistant", text("recorded_answer")));
            }
        }
        messages
    }
}

fn cannot(step: &Step, problem: &str) -> TraceError {
    TraceError::Setting { flag: "--sessions", problem: format!("the request {:?} {problem}", step.id()) }
}

fn message(role: &str, content: String) -> Value {
    let mut dict = Dict::new();
    dict.set("role", role);
    dict.set("content", content);
    dict.into()
}

fn own_messages(request: &Request) -> Vec<Value> {
    match &request.chat_messages {
        Some(Value::List(messages)) => messages.clone(),
        _ => vec![message("user", content_text(request).to_owned())],
    }
}

fn content_text(request: &Request) -> &str {
    if let Content::Text(text) = &request.content { text } else { "" }
}

fn is_system(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str) == Some("system")
}
