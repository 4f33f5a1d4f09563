//! Decodes responses by the selectors of a file.

use std::sync::Arc;

use tacho_core::{Failure, FailureKind, Observation, Outcome, Timestamp, TokenCountSource};

use super::Declared;
use super::program::{Found, Hit};
use super::spec::{ResponseSpec, Tokens, Use};
use crate::backends::row::{Reasoning, error_in_stream, excerpt, malformed, note_answer, note_token, outcome};
use crate::backends::scan::{Cursor, Kind, unescape};
use crate::{backends::Expected, backends::template::Template};

/// Decodes the events of one response, or a response that is one event.
#[derive(Debug)]
pub(in crate::backends) struct DeclaredDecoder {
    spec: &'static Declared,
    response: &'static ResponseSpec,
    found: Found,
    /// The last plain token event, and the tokens in it.
    template: Template,
    template_count: Option<Counted>,
    /// The text of the current event, if it is not appended directly.
    text: Vec<u8>,
    prompt: Option<Arc<str>>,
    done: bool,
    finished: bool,
    end_marker_optional: bool,
    reasoning: Reasoning,
    /// Tokens that the events counted.
    counted: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    tokens: u64,
    /// Whether they are the items of a list, such as log-probabilities.
    listed: bool,
}

/// What an event says, apart from its text.
#[derive(Debug, Default)]
struct Event {
    has_text: bool,
    /// Whether the text, the reasoning or other content is mentioned, even if it is empty.
    has_content_field: bool,
    reasoning: bool,
    other: bool,
    token_event: bool,
    done: bool,
    data: bool,
    count: Option<Counted>,
    completion: Option<u64>,
    texts: u32,
    /// Whether a later event may differ in more than its text.
    varies: bool,
}

impl DeclaredDecoder {
    pub(in crate::backends) fn new(spec: &'static Declared, expected: &Expected) -> Self {
        let unstreamed = spec.unstreamed.as_ref().filter(|_| expected.unstreamed);
        DeclaredDecoder {
            spec,
            response: unstreamed.unwrap_or(&spec.response),
            found: Found::default(),
            template: Template::default(),
            template_count: None,
            text: Vec::new(),
            prompt: expected.prompt.clone(),
            done: false,
            finished: false,
            end_marker_optional: expected.end_marker_optional,
            reasoning: Reasoning::default(),
            counted: None,
        }
    }

    pub(in crate::backends) fn accepts(&self, status: u16) -> bool {
        self.spec.trace.note_status(status);
        self.spec.accepts(status)
    }

    pub(in crate::backends) fn event(
        &mut self,
        data: &[u8],
        timestamp: Timestamp,
        row: &mut Observation,
    ) -> Result<(), Failure> {
        if let Some((text, _)) = self.template.read(data) {
            note_token(row, timestamp, !text.is_empty());
            note_answer(row, timestamp, !text.is_empty());
            row.text.extend_from_slice(text);
            row.text_ends.push(row.text.len() as u32);
            self.count(self.template_count, None, row);
            return Ok(());
        }
        let response = self.response;
        let is = |texts: &[String]| texts.iter().any(|text| text.as_bytes() == data);
        if is(&response.done_data) {
            self.done = true;
            self.spec.trace.note_end(data, timestamp);
            return Ok(());
        }
        if is(&response.ignored) {
            return Ok(());
        }
        let event = self.read(data, "an event", row).inspect_err(|_| self.trace(data, timestamp, (false, false)))?;
        self.done |= event.done;
        let before = row.chunks.len();
        self.note(&event, timestamp, row);
        let is_token = row.chunks.len() > before;
        if self.spec.trace.is_on() {
            self.trace(data, timestamp, (is_token, event.done));
        } else {
            self.learn(data, &event, is_token);
        }
        Ok(())
    }

    /// Records the event, if that was asked for.
    fn trace(&self, data: &[u8], timestamp: Timestamp, marks: (bool, bool)) {
        if self.spec.trace.is_on() {
            self.spec.trace.note((data, timestamp), &self.found, &self.response.selectors, marks);
        }
    }

    /// Reads an event, fails if it reports an error, and notes usage. The text is in `self.text` then.
    fn read(&mut self, data: &[u8], what: &str, row: &mut Observation) -> Result<Event, Failure> {
        let response = self.response;
        response.program.read(data, &mut self.found).map_err(|_| malformed(&format!("{what} is not JSON"), data))?;
        for (number, selector) in response.selectors.iter().enumerate() {
            if selector.path.is_none() && self.found.met & selector.needs == selector.needs {
                let (kind, span) = (Kind::Object, 0..data.len());
                self.found.hits.push(Hit { selector: number as u8, kind, span, escaped: false });
            }
        }
        self.check_errors(data)?;
        if self.found.mismatch {
            return Err(malformed(&format!("{what} has not the form that the backend file describes"), data));
        }
        self.text.clear();
        let mut event = Event::default();
        for at in 0..self.found.hits.len() {
            self.apply(at, data, &mut event, row)?;
        }
        Ok(event)
    }

    fn check_errors(&self, data: &[u8]) -> Result<(), Failure> {
        let response = self.response;
        for hit in &self.found.hits {
            let selector = &response.selectors[usize::from(hit.selector)];
            if self.found.met & selector.needs != selector.needs {
                continue;
            }
            match selector.what {
                Use::Error if hit.is_truthy(data) => error_in_stream(Some(hit.span.clone()), data)?,
                Use::Finish if response.failed_finish.iter().any(|bad| bad.as_bytes() == &data[hit.span.clone()]) => {
                    let reason = excerpt(&data[hit.span.clone()]);
                    let message = format!("the server aborted the response: finish reason {reason:?}");
                    return Err(Failure { kind: FailureKind::ErrorInStream, message });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Applies the value that a selector found, if its conditions are met.
    fn apply(&mut self, at: usize, data: &[u8], event: &mut Event, row: &mut Observation) -> Result<(), Failure> {
        let hit = &self.found.hits[at];
        let selector = &self.response.selectors[usize::from(hit.selector)];
        if self.found.met & selector.needs != selector.needs {
            return Ok(());
        }
        let is_null = hit.kind == Kind::Null;
        let mut usage = |position: fn(&mut Observation) -> &mut Option<u64>| {
            let (count, impossible) = count_of(hit, data);
            let position = position(row);
            *position = count.or(*position);
            row.impossible_usage |= impossible;
            count
        };
        match selector.what {
            Use::Text => {
                event.texts += 1;
                event.has_content_field = true;
                match hit.kind {
                    Kind::Null => event.varies = true,
                    Kind::Text if hit.escaped => unescape(&data[hit.span.clone()], &mut self.text),
                    Kind::Text => self.text.extend_from_slice(&data[hit.span.clone()]),
                    _ => return Err(malformed("a text is not a string", data)),
                }
                event.has_text |= !self.text.is_empty();
                return Ok(());
            }
            Use::Reasoning => {
                event.has_content_field |= !is_null;
                event.reasoning |= has_content(hit, data);
            }
            Use::OtherContent => {
                event.has_content_field |= !is_null;
                event.other |= has_content(hit, data);
            }
            Use::TokenEvent => {
                event.token_event |= !is_null;
                // It may contain the text.
                return Ok(());
            }
            Use::Count => {
                event.count = counted(hit, data).or(event.count);
                return Ok(());
            }
            Use::PromptTokens => drop(usage(|row| &mut row.usage.prompt_tokens)),
            Use::CompletionTokens => {
                event.completion = usage(|row| &mut row.usage.completion_tokens).or(event.completion)
            }
            Use::CachedTokens => drop(usage(|row| &mut row.usage.cached_tokens)),
            Use::ReasoningTokens => drop(usage(|row| &mut row.reasoning_tokens)),
            Use::Done => event.done |= !matches!(hit.kind, Kind::Null | Kind::False),
            Use::Data => event.data |= hit.is_truthy(data),
            Use::Finish => self.finished |= !is_null,
            Use::Error => {}
        }
        event.varies |= !is_null;
        Ok(())
    }

    /// Notes the text and the token event, if the event is one.
    fn note(&mut self, event: &Event, timestamp: Timestamp, row: &mut Observation) {
        let response = self.response;
        let grown = if response.cumulative { self.replace_text(event, row) } else { event.has_text };
        let is_token = match (response.has_token_event, response.cumulative) {
            (true, _) => event.token_event,
            (false, true) => grown || event.reasoning || event.other,
            (false, false) => event.has_content_field,
        };
        if !response.cumulative {
            row.text.extend_from_slice(&self.text);
        }
        if !is_token {
            return;
        }
        note_token(row, timestamp, grown || event.reasoning || event.other);
        note_answer(row, timestamp, grown);
        // Only appended text has ends.
        if !response.cumulative {
            row.text_ends.push(row.text.len() as u32);
        }
        self.count(event.count, event.completion, row);
        if event.reasoning {
            self.reasoning.note(event.completion);
        }
    }

    /// Replaces the text by the whole text of the event; returns whether it has grown.
    fn replace_text(&mut self, event: &Event, row: &mut Observation) -> bool {
        if event.texts == 0 {
            return false;
        }
        let echo = self.prompt.as_deref().unwrap_or_default().as_bytes();
        let output = self.text.strip_prefix(echo).unwrap_or(&self.text);
        let grown = output.len() > row.text.len();
        row.text.clear();
        row.text.extend_from_slice(output);
        grown
    }

    /// Notes the tokens of a token event, if they are known.
    fn count(&mut self, count: Option<Counted>, completion: Option<u64>, row: &mut Observation) {
        let tokens = self.response.tokens;
        let position = row.chunks.len() as u32 - 1;
        let so_far = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let reported = completion.filter(|_| tokens == Tokens::Usage);
        if let Some(count) = count {
            self.counted = Some(self.counted.unwrap_or(0).saturating_add(count.tokens));
        }
        if let Some(reported) = reported {
            row.token_count_source = Some(TokenCountSource::Usage);
            row.token_counts.push((position, so_far(reported)));
        } else if let (Some(count), Tokens::Count | Tokens::Usage) = (count, tokens)
            && (count.tokens > 1 || (!count.listed && count.tokens == 0))
            && row.token_count_source.is_none_or(|source| source != TokenCountSource::Usage || !count.listed)
        {
            let source = if count.listed { TokenCountSource::Logprobs } else { TokenCountSource::Usage };
            row.token_count_source = Some(source);
            row.token_counts.push((position, so_far(self.counted.unwrap_or(0))));
        }
    }

    /// Remembers a plain token event: later ones mostly differ in their text only.
    fn learn(&mut self, data: &[u8], event: &Event, is_token: bool) {
        self.template.forget();
        let plain = is_token && event.texts == 1 && !event.varies && !self.response.cumulative;
        let text = |hit: &&Hit| self.response.selectors[usize::from(hit.selector)].what == Use::Text;
        let mut texts = self.found.hits.iter().filter(text);
        if let (true, Some(hit), None) = (plain, texts.next(), texts.next()) {
            self.template.remember(data, hit.span.clone(), None);
            self.template_count = event.count;
        }
    }

    pub(in crate::backends) fn is_closed(&self) -> bool {
        self.done
    }

    /// Whether nothing in the response marks its end: some servers send a finish reason and no end mark.
    pub(in crate::backends) fn is_unmarked(&self) -> bool {
        !self.response.has_end_mark || (self.finished && !self.done)
    }

    /// The outcome of a stream, after the body has ended as framed.
    pub(in crate::backends) fn finish(&mut self, row: &mut Observation) -> Outcome {
        self.settle_counts(row);
        let is_cut = self.response.has_end_mark && !self.done && !self.finished && !self.end_marker_optional;
        outcome(row, |events| {
            is_cut.then(|| format!("the stream ended without its end mark after {events} token events"))
        })
    }

    fn settle_counts(&mut self, row: &mut Observation) {
        self.reasoning.settle(row);
        match self.response.tokens {
            Tokens::Usage => {}
            Tokens::Events => row.usage.completion_tokens = Some(row.chunks.len() as u64),
            Tokens::Count => row.usage.completion_tokens = self.counted,
            Tokens::Tokenizer => row.usage.completion_tokens = None,
        }
    }

    pub(in crate::backends) fn whole(&mut self, body: &[u8], row: &mut Observation) -> Result<(), Failure> {
        let event = self.read(body, "the response", row);
        self.trace(body, row.first_byte.unwrap_or(Timestamp::ZERO), (false, event.is_ok()));
        let event = event?;
        row.text.extend_from_slice(&self.text);
        self.settle_counts(row);
        let needs_data = self.response.of(Use::Data).next().is_some();
        let has_tokens = row.usage.completion_tokens.unwrap_or(0) > 0;
        let (has_result, what) = match needs_data {
            true => (event.data, "data"),
            false => (event.has_text || has_tokens, "text"),
        };
        if has_result {
            return Ok(());
        }
        let message = format!("the response has no {what}: {}", excerpt(body));
        Err(Failure { kind: FailureKind::Empty, message })
    }
}

/// Whether a string or a list has anything in it.
fn has_content(hit: &Hit, data: &[u8]) -> bool {
    matches!(hit.kind, Kind::Text | Kind::List | Kind::Object) && hit.is_truthy(data)
}

/// A token count, and whether the number is invalid as one.
fn count_of(hit: &Hit, data: &[u8]) -> (Option<u64>, bool) {
    if hit.kind != Kind::Number {
        return (None, false);
    }
    let mut cursor = Cursor::new(&data[hit.span.clone()]);
    let count = cursor.count().ok().flatten();
    (count, cursor.met_impossible)
}

/// The tokens of an event: a number, or the items of a list.
fn counted(hit: &Hit, data: &[u8]) -> Option<Counted> {
    if hit.kind != Kind::List {
        return count_of(hit, data).0.map(|tokens| Counted { tokens, listed: false });
    }
    let items = Cursor::new(&data[hit.span.clone()]).items(|cursor, _| cursor.skip().map(drop)).ok()?;
    Some(Counted { tokens: items as u64, listed: true })
}
