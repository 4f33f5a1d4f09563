//! Builds the request of each step: synthetic text if the file has only lengths, given text unchanged.

use std::hash::{DefaultHasher, Hash, Hasher};

use tacho_core::json::{Dict, Value, dumps};
use tacho_core::{Content, Request};
use tacho_text::Tokenizer;

use super::{ReplaySpec, media, request_messages};
use crate::sampling::chat::{message, object};
use crate::sessions::model::{History, Prompt, Step, Trace};
use crate::{datasets::timed_trace::Blocks, sessions::error::TraceError, sessions::kind::Format};

/// Names of pieces of a prompt and their tokens.
type Pieces = Vec<(u64, u64)>;

pub(super) struct Maker<'t> {
    trace: &'t Trace,
    spec: &'t ReplaySpec,
    tokenizer: Option<&'t Tokenizer>,
    blocks: Option<Blocks>,
    trees: Vec<usize>,
    /// The name of each tree: the session of its first step.
    names: Vec<&'t str>,
}

impl<'t> Maker<'t> {
    pub(super) fn new(
        trace: &'t Trace,
        spec: &'t ReplaySpec,
        tokenizer: Option<&'t Tokenizer>,
    ) -> Result<Self, TraceError> {
        let blocks = tokenizer.map(|tokenizer| Blocks::new(tokenizer, spec.seed)).transpose().map_err(Box::new)?;
        let (trees, count) = trace.trees();
        let mut names = vec![""; count];
        for (step, &tree) in trace.steps.iter().zip(&trees).rev() {
            names[tree] = &step.session;
        }
        Ok(Maker { trace, spec, tokenizer, blocks, trees, names })
    }

    /// The request of a step, and the pieces of its new part.
    pub(super) fn request(&mut self, index: usize) -> Result<(Request, Pieces), TraceError> {
        let step = &self.trace.steps[index];
        let output = step.output_tokens.unwrap_or_else(|| self.recorded_tokens(step).unwrap_or(self.spec.output_len));
        let input = step.input_tokens.unwrap_or(0);
        let mut request = Request::text("", input, i64::try_from(output.max(1)).unwrap_or(i64::MAX));
        let mut overrides = step.notes.extra.clone().unwrap_or_default();
        if self.spec.server_history {
            overrides.set("store", true);
        }
        let mut pieces = Vec::new();
        match &step.prompt {
            Prompt::Nothing => {}
            _ if step.sent.is_some() => {
                self.saved(step, &mut request, &mut overrides)?;
                pieces = if step.blocks.is_some() { self.block_pieces(index) } else { self.message_pieces(&request) };
            }
            Prompt::Synthetic => {
                pieces = self.synthetic(index, &mut request)?;
                overrides.set("ignore_eos", true);
            }
            Prompt::Given(content) => {
                self.given(index, content, &mut request, &mut overrides)?;
                pieces = self.message_pieces(&request);
            }
        }
        if let (Some(response), Some(tokenizer)) = (&step.answered, self.tokenizer) {
            pieces.push((hash(response), tokenizer.count(response, false) as u64));
        }
        request.overrides = (!overrides.is_empty()).then(|| overrides.into());
        request.id = Some(step.id());
        request.session = Some(self.names[self.trees[index]].to_owned());
        Ok((request, pieces))
    }

    /// Tokens of the recorded completion, if there is one.
    fn recorded_tokens(&self, step: &Step) -> Option<u64> {
        let Prompt::Given(content) = &step.prompt else { return None };
        let response = content.text("recorded_answer")?;
        Some(self.tokenizer?.count(response, false) as u64)
    }

    /// A prompt of the recorded length; equal blocks have equal tokens.
    fn synthetic(&mut self, index: usize, request: &mut Request) -> Result<Pieces, TraceError> {
        let step = &self.trace.steps[index];
        let (Some(tokenizer), Some(blocks)) = (self.tokenizer, &mut self.blocks) else {
            return Err(cannot(step, "needs a tokenizer to make up its text: leave out --skip-tokenizer-init"));
        };
        let scope = scope(self.trace, self.trees[index]);
        let mut ids = Vec::new();
        let mut left = request.prompt_len;
        for (id, tokens) in step.blocks.iter().flat_map(|blocks| &blocks.named) {
            ids.extend_from_slice(blocks.tokens(&format!("{scope}/{id}"), *tokens as usize));
            left = left.saturating_sub(*tokens);
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
        Ok(self.block_pieces(index))
    }

    /// The named blocks of a prompt, and its unshared part.
    fn block_pieces(&self, index: usize) -> Pieces {
        let step = &self.trace.steps[index];
        let scope = scope(self.trace, self.trees[index]);
        let named = step.blocks.iter().flat_map(|blocks| &blocks.named);
        let mut pieces: Pieces = named.map(|(id, tokens)| (hash(&format!("{scope}/{id}")), *tokens)).collect();
        let shared: u64 = pieces.iter().map(|(_, tokens)| tokens).sum();
        pieces.push((hash(&format!("{}/own", step.id())), step.input_tokens.unwrap_or(0).saturating_sub(shared)));
        pieces
    }

    /// The content that an earlier run saved.
    fn saved(&self, step: &Step, request: &mut Request, overrides: &mut Dict) -> Result<(), TraceError> {
        let Some(sent) = &step.sent else { return Ok(()) };
        if let Some(Value::Dict(more)) = sent.get("overrides") {
            overrides.update(more);
        }
        request.output_len = sent.get("output_len").and_then(Value::as_i64).unwrap_or(request.output_len);
        let counted = sent.get("prompt_len").and_then(Value::as_i64).and_then(|len| u64::try_from(len).ok());
        request.prompt_len = counted.unwrap_or(request.prompt_len);
        request.lora = sent.text("lora").map(str::to_owned);
        request.cancel_after = sent.get("cancel_after_s").and_then(Value::as_f64);
        match (sent.get("messages"), sent.get("prompt")) {
            (Some(messages @ Value::List(_)), _) if self.spec.chat => request.chat_messages = Some(messages.clone()),
            // A complete body may have no messages.
            (None, Some(prompt)) if !self.spec.chat || prompt.as_str().is_some() => {
                request.content = prompt_content(prompt);
            }
            (Some(_), _) => return Err(cannot(step, "was saved as a chat: use --backend openai-chat")),
            _ => return Err(cannot(step, "was saved as a plain prompt: use the backend that it was saved for")),
        }
        Ok(())
    }

    fn given(
        &self,
        index: usize,
        content: &Dict,
        request: &mut Request,
        overrides: &mut Dict,
    ) -> Result<(), TraceError> {
        let step = &self.trace.steps[index];
        if let Some(Value::Dict(payload)) = content.get("payload") {
            self.payload(step, payload, request, overrides);
            return Ok(());
        }
        for name in ["tools", "tool_choice"] {
            if let Some(value) = content.get(name) {
                overrides.set(name, value.clone());
            }
        }
        let mut messages: Vec<Value> = match content.get("system") {
            Some(Value::Str(system)) => vec![message("system", system.as_str())],
            _ => Vec::new(),
        };
        if step.history == History::Recorded && (step.deltas || content.get("recorded_answer").is_some()) {
            messages.extend(self.recorded(index));
        }
        if let Some(result) = content.get("tool_response") {
            let text = result.as_str().map_or_else(|| dumps(result), str::to_owned);
            messages.push(message("tool", text));
        }
        let media = media::parts(content).map_err(|problem| cannot(step, &problem))?;
        messages.extend(new_messages(content, media, request));
        if messages.is_empty() {
            return Err(cannot(step, "has nothing to send"));
        }
        let needs_chat = content.iter().any(|(key, _)| !matches!(key, "text" | "texts" | "recorded_answer" | "role"));
        if self.spec.chat {
            request.chat_messages = Some(Value::List(messages));
        } else if needs_chat {
            return Err(cannot(step, "has chat messages: use --backend openai-chat"));
        }
        self.count(request);
        Ok(())
    }

    /// A complete body; its output length is used.
    fn payload(&self, step: &Step, payload: &Dict, request: &mut Request, overrides: &mut Dict) {
        overrides.update(payload);
        request.chat_messages = payload.get("messages").cloned();
        if let Some(Value::Str(prompt)) = payload.get("prompt") {
            request.content = Content::Text(prompt.clone());
        }
        let asked = ["max_completion_tokens", "max_tokens"].iter().find_map(|name| payload.get(name)?.as_i64());
        if let (None, Some(asked)) = (step.output_tokens, asked) {
            request.output_len = asked;
        }
        self.count(request);
    }

    /// Counts the prompt of a request whose length the file does not have.
    fn count(&self, request: &mut Request) {
        if let (Some(tokenizer), 0) = (self.tokenizer, request.prompt_len) {
            request.prompt_len = request_messages(request).iter().map(|own| tokens(own, tokenizer)).sum();
        }
    }

    /// Recorded earlier messages of the same session.
    fn recorded(&self, index: usize) -> Vec<Value> {
        let step = &self.trace.steps[index];
        let earlier = self.trace.steps[..index].iter().filter(|other| other.session == step.session);
        let mut messages = Vec::new();
        for other in earlier {
            let Prompt::Given(content) = &other.prompt else { continue };
            if let Some(Value::List(own)) = content.get("messages") {
                messages.extend(own.iter().cloned());
                continue;
            }
            let text = |key: &str| content.text(key).unwrap_or_default();
            messages.push(message("user", text("text")));
            messages.push(message("assistant", text("recorded_answer")));
        }
        messages
    }

    /// The messages of a request as pieces; empty without a tokenizer.
    fn message_pieces(&self, request: &Request) -> Pieces {
        let Some(tokenizer) = self.tokenizer else { return Vec::new() };
        request_messages(request).iter().map(|own| (hash(&dumps(own)), tokens(own, tokenizer))).collect()
    }
}

/// The messages that a step adds to those before it.
fn new_messages(content: &Dict, media: Vec<Value>, request: &mut Request) -> Vec<Value> {
    let role = content.text("role").unwrap_or("user");
    match (content.get("messages"), content.get("text"), content.get("texts")) {
        (Some(Value::List(own)), ..) => own.clone(),
        (_, Some(Value::Str(text)), _) if media.is_empty() => {
            request.content = Content::Text(text.clone());
            vec![message(role, text.as_str())]
        }
        (_, text, texts) => {
            let own = text.into_iter().chain(texts.and_then(Value::as_list).unwrap_or_default());
            let own: Vec<&str> = own.filter_map(Value::as_str).collect();
            let texts = own.iter().map(|text| object([("type", "text".into()), ("text", (*text).into())]));
            let parts: Vec<Value> = texts.chain(media).collect();
            request.content = Content::Texts(own.into_iter().map(str::to_owned).collect());
            if parts.is_empty() { Vec::new() } else { vec![message(role, parts)] }
        }
    }
}

/// The scope of block names: the file, or the tree for Weka's local names.
fn scope(trace: &Trace, tree: usize) -> String {
    let local = trace.format == Format::Weka && trace.options.get("hash_id_scope").is_none();
    if local { tree.to_string() } else { String::new() }
}

/// A saved prompt: a text, texts, or token IDs.
fn prompt_content(prompt: &Value) -> Content {
    let ids = prompt.as_list().unwrap_or_default().iter().map(|id| u32::try_from(id.as_i64()?).ok());
    match (prompt, ids.collect::<Option<Vec<u32>>>()) {
        (Value::List(_), Some(ids)) if !ids.is_empty() => Content::Ids(ids),
        _ => Content::from_json(prompt.clone()),
    }
}

fn tokens(message: &Value, tokenizer: &Tokenizer) -> u64 {
    let count = |text: &str| tokenizer.count(text, false) as u64;
    match message.get("content") {
        Some(Value::Str(text)) => count(text),
        Some(Value::List(parts)) => parts.iter().filter_map(|part| part.text("text")).map(count).sum(),
        _ => 0,
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    // Limited to the range of JSON numbers.
    hasher.finish() >> 12
}

fn cannot(step: &Step, problem: &str) -> TraceError {
    TraceError::Setting { flag: "--sessions", problem: format!("the request {:?} {problem}", step.id()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::model;

    const CHAT: ReplaySpec = ReplaySpec { chat: true, server_history: false, output_len: 9, seed: 0 };
    const PLAIN: ReplaySpec = ReplaySpec { chat: false, ..CHAT };

    fn given(json: &str) -> Step {
        let content = tacho_core::json::parse(json).unwrap().as_dict().unwrap().clone();
        Step { prompt: Prompt::Given(content), ..Step::new("s", 0) }
    }

    fn requests(steps: Vec<Step>, spec: ReplaySpec) -> Result<Vec<Request>, TraceError> {
        let trace = Trace { steps, ..Trace::new("t".into(), Format::Model) };
        let tokenizer = Tokenizer::builtin();
        let mut maker = Maker::new(&trace, &spec, Some(&tokenizer))?;
        (0..trace.steps.len()).map(|index| maker.request(index).map(|(request, _)| request)).collect()
    }

    fn messages(request: &Request) -> String {
        dumps(request.chat_messages.as_ref().unwrap())
    }

    #[test]
    fn synthetic_prompts_have_the_recorded_length_and_share_blocks_of_one_name() {
        let step = |session: &str| Step {
            input_tokens: Some(40),
            output_tokens: Some(0),
            blocks: Some(model::Blocks { named: vec![(7, 16), (8, 16)], tail: 8, cached_ideal: 0 }),
            ..Step::new(session, 0)
        };
        let made = requests(vec![step("a"), step("b")], PLAIN).unwrap();
        let [Content::Ids(left), Content::Ids(right)] = [&made[0].content, &made[1].content] else {
            panic!("{made:?}")
        };
        assert_eq!((left.len(), &left[..32], made[0].prompt_len), (40, &right[..32], 40));
        assert!(left[32..] != right[32..], "the rest is the session's own");
        assert_eq!((made[0].output_len, made[0].session.as_deref()), (1, Some("a")), "at least one token is asked for");
        assert_eq!(made[0].overrides.as_ref().unwrap().get("ignore_eos"), Some(&Value::Bool(true)));
        assert_eq!(requests(vec![step("a"), step("b")], PLAIN).unwrap(), made, "the seed decides");
    }

    #[test]
    fn synthetic_prompts_need_a_tokenizer() {
        let trace = Trace { steps: vec![Step::new("s", 0)], ..Trace::new("t".into(), Format::Model) };
        let made = Maker::new(&trace, &PLAIN, None).unwrap().request(0);
        assert!(matches!(made, Err(TraceError::Setting { flag: "--sessions", .. })), "{made:?}");
    }

    #[test]
    fn given_texts_and_messages_are_sent_as_they_are() {
        let text = r#"{"system": "be brief", "text": "hi", "tools": [1], "recorded_answer": "one two three"}"#;
        let made = requests(vec![given(text)], CHAT).unwrap().remove(0);
        let expected = r#"[{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]"#;
        assert_eq!((messages(&made).as_str(), made.output_len), (expected, 3), "as long as the recorded answer");
        assert_eq!(dumps(made.overrides.as_ref().unwrap()), r#"{"tools": [1]}"#);
        assert!(made.prompt_len > 0);
        // Without a chat protocol a text is a prompt, and messages are refused.
        let plain = requests(vec![given(r#"{"text": "hi"}"#)], PLAIN).unwrap().remove(0);
        assert_eq!((plain.content, plain.output_len), (Content::Text("hi".into()), 9));
        assert!(requests(vec![given(text)], PLAIN).is_err());
        assert!(requests(vec![given("{}")], CHAT).is_err(), "nothing to send");
    }

    #[test]
    fn a_recorded_history_of_deltas_repeats_the_earlier_turns() {
        let first = given(r#"{"text": "a", "recorded_answer": "b"}"#);
        let second = Step {
            history: History::Recorded,
            deltas: true,
            turn: model::Turn::Number(1),
            ..given(r#"{"text": "c"}"#)
        };
        let other = Step { session: "other".into(), ..first.clone() };
        let made = requests(vec![other, first, second], CHAT).unwrap();
        let contents = r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]"#;
        assert_eq!(messages(&made[2]), contents);
    }

    #[test]
    fn payloads_are_sent_whole_and_set_the_length() {
        let payload = r#"{"payload": {"messages": [], "max_tokens": 5, "max_completion_tokens": 6, "top_p": 0.5}}"#;
        let made = requests(vec![given(payload)], CHAT).unwrap().remove(0);
        assert_eq!((made.output_len, messages(&made).as_str()), (6, "[]"));
        assert_eq!(made.overrides.unwrap().get("top_p"), Some(&Value::Float(0.5)));
        let measured = Step { output_tokens: Some(2), ..given(payload) };
        assert_eq!(requests(vec![measured], CHAT).unwrap()[0].output_len, 2, "the file's count wins");
    }

    #[test]
    fn saved_requests_are_sent_again_with_the_backend_they_were_saved_for() {
        let saved = |json: &str| {
            let sent = tacho_core::json::parse(json).unwrap().as_dict().cloned();
            Step { sent, ..Step::new("s", 0) }
        };
        let ids = saved(r#"{"prompt": [1, 2, 3], "prompt_len": 3, "output_len": 4, "overrides": {"n": 2}}"#);
        let made = requests(vec![ids.clone()], PLAIN).unwrap().remove(0);
        assert_eq!((made.content, made.prompt_len, made.output_len), (Content::Ids(vec![1, 2, 3]), 3, 4));
        assert_eq!(dumps(&made.overrides.unwrap()), r#"{"n": 2}"#);
        assert!(requests(vec![ids], CHAT).is_err());
        let chat = saved(r#"{"messages": [{"role": "user", "content": "a"}]}"#);
        assert!(requests(vec![chat.clone()], PLAIN).is_err());
        assert_eq!(messages(&requests(vec![chat], CHAT).unwrap()[0]), r#"[{"role": "user", "content": "a"}]"#);
    }

    #[test]
    fn a_server_that_keeps_the_history_is_asked_to() {
        let spec = ReplaySpec { server_history: true, ..CHAT };
        let made = requests(vec![given(r#"{"text": "a"}"#)], spec).unwrap().remove(0);
        assert_eq!(dumps(&made.overrides.unwrap()), r#"{"store": true}"#);
    }
}
