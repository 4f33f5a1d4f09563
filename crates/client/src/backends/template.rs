//! Templates of stream events, so that their common parts are not parsed again.

use std::ops::Range;

use super::event::{Event, TextField, UsageField, UsageNames, read_usage};
use super::scan::{Kind, whole};

/// The bytes of the last plain token event around its text and, if each event has one, its usage. Events of a stream
/// mostly differ in these only, so the next one is recognized by comparing bytes; anything else is parsed in full.
#[derive(Debug, Default)]
pub(super) struct Template {
    /// Before the text; empty if no plain event was seen.
    head: Vec<u8>,
    /// Between text and usage, or after the text.
    middle: Vec<u8>,
    /// After the usage, if there is one.
    tail: Option<Vec<u8>>,
    /// Number of tokens with log-probabilities in such an event.
    pub(super) logprob_tokens: u32,
}

impl Template {
    /// The text and usage of an event that matches the template.
    pub(super) fn read<'a>(&self, data: &'a [u8]) -> Option<(&'a [u8], Option<UsageField>)> {
        if self.head.is_empty() {
            return None;
        }
        let rest = data.strip_prefix(&self.head[..])?;
        // The middle starts with the quote; escaped text before it does not match.
        let end = rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')?;
        let (text, rest) = rest.split_at(end);
        let rest = rest.strip_prefix(&self.middle[..])?;
        let usage = match &self.tail {
            None => rest.is_empty().then_some(None)?,
            Some(tail) => Some(counts(rest.strip_suffix(&tail[..])?)?),
        };
        std::str::from_utf8(text).is_ok().then_some((text, usage))
    }

    /// Makes an event the template if it is plain.
    pub(super) fn learn(&mut self, data: &[u8], event: &Event) {
        self.forget();
        if let TextField::Text(text) = &event.choice.text
            && !event.choice.finished
            && !event.odd_usage
            && event.error.is_none()
            && !event.choice.other_content
            && event.choice.logprobs <= 1
            && event.choice.branch == 0
        {
            self.remember(data, text.span.clone(), event.usage_span.clone());
            self.logprob_tokens = event.choice.logprobs;
        }
    }

    /// Makes an event with this text and usage the template, unless the usage comes first.
    pub(super) fn remember(&mut self, data: &[u8], text: Range<usize>, usage: Option<Range<usize>>) {
        let Some((middle, tail)) = around_usage(data, text.end, usage) else { return };
        self.head.extend_from_slice(&data[..text.start]);
        self.middle.clear();
        self.middle.extend_from_slice(middle);
        keep(&mut self.tail, tail);
    }

    pub(super) fn forget(&mut self) {
        self.head.clear();
    }
}

/// The parts between the text and the usage, and after the usage; `None` if the usage comes first.
fn around_usage(data: &[u8], text_end: usize, usage: Option<Range<usize>>) -> Option<(&[u8], Option<&[u8]>)> {
    match usage {
        None => Some((&data[text_end..], None)),
        Some(span) => Some((data.get(text_end..span.start)?, Some(&data[span.end..]))),
    }
}

fn keep(position: &mut Option<Vec<u8>>, bytes: Option<&[u8]>) {
    let Some(bytes) = bytes else { return *position = None };
    let kept = position.get_or_insert_default();
    kept.clear();
    kept.extend_from_slice(bytes);
}

/// A usage report that is an object with members.
fn counts(bytes: &[u8]) -> Option<UsageField> {
    let usage = whole(bytes, |cursor| match cursor.kind()? {
        Kind::Object => read_usage(cursor, UsageNames::Choices),
        _ => cursor.skip().map(|_| None),
    });
    usage.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::super::event::Shape;
    use super::*;

    const COUNTED: &str = r#"{"choices":[{"index":0,"text":"TEXT","finish_reason":null}],"usage":USAGE}"#;

    fn template(event: &str) -> Template {
        let (data, mut template) = (event.as_bytes(), Template::default());
        template.learn(data, &Event::read(data, Shape::Completions).unwrap());
        template
    }

    fn event(text: &str, usage: &str) -> String {
        COUNTED.replace("TEXT", text).replace("USAGE", usage)
    }

    #[test]
    fn events_that_differ_in_text_and_counts_are_known() {
        let known = template(&event("a", r#"{"prompt_tokens":7,"completion_tokens":1}"#));
        let next = event("bcd", r#"{"prompt_tokens":7,"completion_tokens":12}"#);
        let (text, usage) = known.read(next.as_bytes()).unwrap();
        assert_eq!(text, b"bcd");
        assert_eq!(usage, Event::read(next.as_bytes(), Shape::Completions).unwrap().usage);
    }

    #[test]
    fn whatever_else_differs_is_read_in_full() {
        let known = template(&event("a", r#"{"completion_tokens":1}"#));
        for (text, usage) in
            [("a", "null"), ("a", "{}"), ("a", "[1]"), ("a", r#"{"completion_tokens":"#), ("a\\n", "{}")]
        {
            assert_eq!(known.read(event(text, usage).as_bytes()), None, "{text} {usage}");
        }
        let finished = event("a", r#"{"completion_tokens":2}"#).replace("null", r#""stop""#);
        assert_eq!(known.read(finished.as_bytes()), None);
        // Usage may start and stop within a stream.
        assert_eq!(template(&event("a", "null")).read(event("b", r#"{"completion_tokens":2}"#).as_bytes()), None);
        assert_eq!(known.read(b""), None);
    }

    #[test]
    fn a_usage_before_the_text_is_not_remembered() {
        let first = r#"{"usage":{"completion_tokens":1},"choices":[{"text":"a"}]}"#;
        assert_eq!(template(first).read(first.as_bytes()), None);
    }

    /// Cost of an event that matches the template and of one that is parsed: `cargo test --release -p tacho-client
    /// --lib cost_of_an_event -- --ignored --nocapture`.
    #[test]
    #[ignore = "a measurement, for release builds"]
    fn cost_of_an_event() {
        const ROUNDS: u32 = 500;
        let events = |usage: &dyn Fn(u32) -> String| -> Vec<String> {
            (1..=1000).map(|at| event(&format!(" word{}", at % 10), &usage(at))).collect()
        };
        let counts = |at| format!(r#"{{"prompt_tokens":32,"total_tokens":{},"completion_tokens":{at}}}"#, 32 + at);
        for (name, events) in [("plain", events(&|_| "null".to_owned())), ("counted", events(&counts))] {
            let timed = |one: &mut dyn FnMut(&[u8])| {
                let start = std::time::Instant::now();
                (0..ROUNDS).for_each(|_| events.iter().for_each(|event| one(event.as_bytes())));
                start.elapsed().as_nanos() as f64 / f64::from(ROUNDS * 1000)
            };
            let template = template(&events[0]);
            let known = timed(&mut |data| assert!(std::hint::black_box(template.read(data)).is_some()));
            let full = timed(&mut |data| assert!(std::hint::black_box(Event::read(data, Shape::Completions)).is_ok()));
            println!("{name}: {known:.0} ns known, {full:.0} ns read in full");
        }
    }
}
