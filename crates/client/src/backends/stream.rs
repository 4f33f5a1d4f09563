//! Converts the events of a stream into the timestamps, text and outcome of a row.

use tacho_core::{Failure, Observation, Outcome, ServerTimes, Timestamp, TokenCountSource};

use super::event::{Choices, Event, Shape, TextField, UsageField};
use super::format::{ResponseFormat, Rules};
use super::row::{Reasoning, check_finish, error_in_stream, malformed, note_answer, note_token, outcome, push_text};
use super::{BackendKind, Expected, reply, template::Template};

#[derive(Debug)]
pub struct StreamDecoder {
    shape: Shape,
    rules: Rules,
    usage: UsageRule,
    template: Template,
    done_seen: bool,
    /// Number of choices, and of those with a finish reason.
    choices: u16,
    finished: u16,
    /// Number of tokens with log-probabilities so far.
    logprob_tokens: u32,
    reasoning: Reasoning,
    keeps_reply: bool,
    keeps_logprobs: bool,
    end_marker_optional: bool,
}

#[derive(Debug, Clone, Copy)]
struct UsageRule {
    /// Also those in events with choices.
    usage_with_choices: bool,
    /// Also for the prompt tokens.
    prompt: bool,
}

impl UsageRule {
    fn new(backend: BackendKind, rules: Rules) -> Self {
        let legacy = backend.is_legacy_completions();
        UsageRule {
            usage_with_choices: rules == Rules::Standard || legacy,
            // For audio requests, upstream uses its own prompt count.
            prompt: backend.row().format != ResponseFormat::Audio && (rules == Rules::Standard || !legacy),
        }
    }
}

impl StreamDecoder {
    /// A decoder for one response of a completions, chat or audio protocol.
    pub fn new(backend: BackendKind, rules: Rules) -> Self {
        let shape = match backend.row().format {
            ResponseFormat::Chat | ResponseFormat::Audio => Shape::Chat,
            _ => Shape::Completions,
        };
        let usage = UsageRule::new(backend, rules);
        StreamDecoder {
            shape,
            rules,
            usage,
            template: Template::default(),
            done_seen: false,
            choices: 1,
            finished: 0,
            logprob_tokens: 0,
            reasoning: Reasoning::default(),
            keeps_reply: false,
            keeps_logprobs: false,
            end_marker_optional: false,
        }
    }

    /// Applies the request's settings: whether to keep parts for later requests, and whether the end marker is
    /// optional.
    pub(super) fn expecting(mut self, expected: &Expected) -> Self {
        self.keeps_reply = expected.keeps_reply;
        self.keeps_logprobs = expected.keeps_logprobs;
        self.end_marker_optional = expected.end_marker_optional;
        self
    }

    /// Decodes the data of one event, which arrived at `timestamp`.
    pub fn event(&mut self, data: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        if let Some((text, usage)) = self.template.read(data) {
            note_token(row, timestamp, !text.is_empty());
            note_answer(row, timestamp, !text.is_empty());
            row.text.extend_from_slice(text);
            row.text_ends.push(row.text.len() as u32);
            self.record_token_count(usage, self.template.logprob_tokens, row);
            self.note_usage(usage.filter(|_| self.usage.usage_with_choices), row);
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done_seen = true;
            return Ok(());
        }
        let event = Event::read(data, self.shape).map_err(|_| malformed("an event is not JSON", data))?;
        // Events with log-probabilities differ in more than their text.
        if !self.keeps_logprobs {
            self.template.learn(data, &event);
        }
        self.apply(&event, data, timestamp, row)
    }

    fn apply(
        &mut self,
        event: &Event,
        data: &[u8],
        timestamp: Timestamp,
        row: &mut Observation,
    ) -> Result<(), Failure> {
        if !event.is_object {
            return Err(malformed("an event is not an object", data));
        }
        if self.rules == Rules::Standard {
            check_for_errors(event, data)?;
        }
        row.usage.drafts = event.drafts.or(row.usage.drafts);
        if event.times != ServerTimes::default() {
            row.times = event.times;
        }
        match event.choices {
            Choices::Bad => Err(malformed("choices is not a list of objects", data)),
            Choices::Some => self.apply_choice(event, data, timestamp, row),
            Choices::None => self.note_event_usage(event, data, row),
        }
    }

    fn apply_choice(
        &mut self,
        event: &Event,
        data: &[u8],
        timestamp: Timestamp,
        row: &mut Observation,
    ) -> Result<(), Failure> {
        let no_delta = self.shape == Shape::Chat && !event.choice.has_delta;
        if no_delta && self.rules == Rules::Vllm {
            return Err(malformed("a choice has no delta", data));
        }
        self.choices = self.choices.max(u16::try_from(event.choice.branch).unwrap_or(u16::MAX).saturating_add(1));
        self.finished = self.finished.saturating_add(u16::from(event.choice.finished));
        let has_text = event.choice.text.has_characters();
        note_token(row, timestamp, has_text || event.choice.other_content);
        note_answer(row, timestamp, has_text);
        // A session continues from the first of several choices.
        let other = self.keeps_reply && event.choice.branch > 0;
        if other {
            reply::other(&event.choice, data, row);
        } else if self.rules == Rules::Standard || event.choice.text != TextField::Falsy {
            push_text(&event.choice.text, data, row)?;
        }
        row.text_ends.push(row.text.len() as u32);
        self.record_token_count(event.usage, event.choice.logprobs, row);
        if self.keeps_logprobs && event.choice.logprobs > 0 && event.choice.branch == 0 {
            let kept = &mut row.judged.get_or_insert_default().logprobs;
            kept.extend_from_slice(&data[event.choice.logprobs_span.clone()]);
            kept.push(b'\n');
        }
        if let Some(calls) = event.choice.calls.clone().filter(|_| self.keeps_reply && !other) {
            reply::chat_calls(&data[calls], row);
        }
        if event.choice.reasoning {
            self.reasoning.note(event.usage.and_then(|usage| usage.completion_tokens));
        }
        if self.usage.usage_with_choices { self.note_event_usage(event, data, row) } else { Ok(()) }
    }

    /// Records the cumulative token count, if the event has one.
    fn record_token_count(&mut self, usage: Option<UsageField>, logprobs: u32, row: &mut Observation) {
        let position = row.chunks.len() as u32 - 1;
        self.logprob_tokens += logprobs;
        let reported = usage.and_then(|usage| usage.completion_tokens);
        if let Some(tokens) = reported {
            row.token_count_source = Some(TokenCountSource::Usage);
            row.token_counts.push((position, u32::try_from(tokens).unwrap_or(u32::MAX)));
        } else if logprobs > 1 && row.token_count_source != Some(TokenCountSource::Usage) {
            row.token_count_source = Some(TokenCountSource::Logprobs);
            row.token_counts.push((position, self.logprob_tokens));
        }
    }

    fn note_event_usage(&self, event: &Event, data: &[u8], row: &mut Observation) -> Result<(), Failure> {
        if event.odd_usage && self.rules == Rules::Vllm {
            return Err(malformed("usage is not an object", data));
        }
        self.note_usage(event.usage, row);
        Ok(())
    }

    fn note_usage(&self, usage: Option<UsageField>, row: &mut Observation) {
        let Some(usage) = usage else { return };
        match self.rules {
            Rules::Standard => {
                row.usage.completion_tokens = usage.completion_tokens.or(row.usage.completion_tokens);
            }
            Rules::Vllm => row.usage.completion_tokens = usage.completion_tokens,
        }
        usage.note_details(row);
        if self.usage.prompt {
            row.usage.prompt_tokens = usage.prompt_tokens.or(row.usage.prompt_tokens);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.done_seen
    }

    /// Whether only the framing of the body shows that nothing is missing: some servers never send the end marker.
    pub(super) fn needs_framed_end(&self) -> bool {
        !self.done_seen && !self.end_marker_optional
    }

    /// The outcome, after the body has ended as framed.
    pub fn finish(&mut self, row: &mut Observation) -> Outcome {
        self.reasoning.settle(row);
        let (complete, no_end) = (self.finished >= self.choices, "without [DONE] and without a finish reason");
        match self.rules {
            Rules::Vllm if !row.chunks.is_empty() => Outcome::Complete,
            _ => outcome(row, |events| {
                (self.needs_framed_end() && !complete)
                    .then(|| format!("the stream ended {no_end} after {events} token events"))
            }),
        }
    }
}

/// Fails if an event reports an error, in any of the forms that servers use.
fn check_for_errors(event: &Event, data: &[u8]) -> Result<(), Failure> {
    error_in_stream(event.error.clone(), data)?;
    if event.choices == Choices::None && event.usage.is_none() {
        error_in_stream(event.complaint.clone(), data)?;
    }
    check_finish(event.choice.error_finish.clone(), data)
}
