//! The response part of a file: framing, selectors, and what means success.

use std::borrow::Cow;

use tacho_core::json::Value;

use super::fields::{Fields, Problem};
use super::path;
use super::program::{Accepted, MAX, Program};
use tacho_core::yaml::{Node, Tree};

tacho_core::named! {
    /// What a selector is for, with its field in a backend file.
    pub(super) enum Use {
        Text = "text",
        Reasoning = "reasoning",
        /// Content that is neither text nor reasoning, such as tool calls.
        OtherContent = "other_content",
        TokenEvent = "token_event",
        /// Tokens of this event.
        Count = "count",
        PromptTokens = "usage.prompt",
        CompletionTokens = "usage.completion",
        CachedTokens = "usage.cached",
        ReasoningTokens = "usage.reasoning",
        Finish = "finish",
        Error = "error",
        Done = "done",
        /// What a response that generates no text must have.
        Data = "data",
    }
}

/// A selector, whose path is in the program.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    pub(super) what: Use,
    /// Conditions that must be met, as bits.
    pub(super) needs: u64,
    /// The path as written; `None` for one that is found when its conditions are met.
    pub(super) path: Option<String>,
}

/// How a body is split into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Sse,
    JsonLines,
    Json,
    LengthPrefixed(Prefix),
    AwsEventStream,
    Whole,
}

/// The head of a length-prefixed frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// Bytes of the length.
    pub(crate) width: usize,
    pub(crate) little_endian: bool,
    /// Bytes before the length.
    pub(crate) skip: usize,
    /// Whether the length includes the head.
    pub(crate) counts_head: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tokens {
    Usage,
    Events,
    Count,
    Tokenizer,
}

#[derive(Debug)]
pub(super) struct ResponseSpec {
    pub(super) framing: Framing,
    pub(super) statuses: Vec<u16>,
    pub(super) program: Program,
    pub(super) selectors: Vec<Selector>,
    pub(super) cumulative: bool,
    pub(super) echoes_prompt: bool,
    pub(super) tokens: Tokens,
    pub(super) failed_finish: Vec<String>,
    /// Events that end the stream, byte for byte.
    pub(super) done_data: Vec<String>,
    /// Events to ignore, byte for byte.
    pub(super) ignored: Vec<String>,
    pub(super) has_end_mark: bool,
    /// Whether the file says what a token event is.
    pub(super) has_token_event: bool,
}

const WHOLE_KEYS: [&str; 7] = ["text", "tokens", "usage", "finish", "failed_finish", "error", "data"];

const KEYS: [&str; 18] = [
    "framing",
    "status",
    "text",
    "text_is",
    "echoes_prompt",
    "reasoning",
    "other_content",
    "token_event",
    "tokens",
    "count",
    "usage",
    "finish",
    "failed_finish",
    "error",
    "done",
    "ignore",
    "data",
    "unstreamed",
];

/// Reads the section `response`, and in it the one for responses that are not streamed.
pub(super) fn read(node: &Node, pooling: bool) -> Result<(ResponseSpec, Option<ResponseSpec>), Problem> {
    let fields = Fields::of(node, "response", &KEYS)?;
    let response = read_fields(&fields, framing(&fields)?, statuses(&fields)?, pooling)?;
    let Some(node) = fields.get("unstreamed") else { return Ok((response, None)) };
    if response.framing == Framing::Whole {
        return Err(fields.problem("unstreamed", "has no meaning in a whole response: remove it"));
    }
    let own = Fields::of(node, &fields.name("unstreamed"), &WHOLE_KEYS)?;
    let unstreamed = read_fields(&own, Framing::Whole, response.statuses.clone(), pooling)?;
    Ok((response, Some(unstreamed)))
}

fn read_fields(
    fields: &Fields<'_>,
    framing: Framing,
    statuses: Vec<u16>,
    pooling: bool,
) -> Result<ResponseSpec, Problem> {
    let mut spec = ResponseSpec {
        framing,
        statuses,
        program: Program::new(),
        selectors: Vec::new(),
        cumulative: fields.word("text_is", &[("delta", false), ("cumulative", true)])?,
        echoes_prompt: fields.truth("echoes_prompt", false)?,
        tokens: fields.word(
            "tokens",
            &[
                ("usage", Tokens::Usage),
                ("events", Tokens::Events),
                ("count", Tokens::Count),
                ("tokenizer", Tokens::Tokenizer),
            ],
        )?,
        failed_finish: texts(fields, "failed_finish")?,
        done_data: Vec::new(),
        ignored: texts(fields, "ignore")?,
        has_end_mark: false,
        has_token_event: fields.get("token_event").is_some(),
    };
    if pooling {
        fields.required("data", "data: embeddings, what every response must have")?;
    } else {
        fields.required("text", "text: choices[0].text")?;
    }
    for what in
        [Use::Text, Use::Reasoning, Use::OtherContent, Use::TokenEvent, Use::Count, Use::Finish, Use::Error, Use::Data]
    {
        spec.add_all(fields, what.name(), what)?;
    }
    spec.add_done(fields)?;
    spec.add_usage(fields)?;
    spec.check(fields, pooling)?;
    Ok(spec)
}

impl ResponseSpec {
    fn add_all(&mut self, fields: &Fields<'_>, key: &str, what: Use) -> Result<(), Problem> {
        fields.each(key).iter().try_for_each(|node| self.add(node, &fields.name(key), what))
    }

    fn add_usage(&mut self, fields: &Fields<'_>) -> Result<(), Problem> {
        let Some(node) = fields.get("usage") else { return Ok(()) };
        let usage = Fields::of(node, &fields.name("usage"), &["prompt", "completion", "cached", "reasoning"])?;
        self.add_all(&usage, "prompt", Use::PromptTokens)?;
        self.add_all(&usage, "completion", Use::CompletionTokens)?;
        self.add_all(&usage, "cached", Use::CachedTokens)?;
        self.add_all(&usage, "reasoning", Use::ReasoningTokens)
    }

    fn add_done(&mut self, fields: &Fields<'_>) -> Result<(), Problem> {
        let name = fields.name("done");
        for node in fields.each("done") {
            match &node.tree {
                Tree::Scalar { text, .. } if text == "end" => continue,
                Tree::Dict(entries) if entries.iter().any(|(key, _)| key.name == "data") => {
                    let own = Fields::of(node, &name, &["data"])?;
                    self.done_data.extend(texts(&own, "data")?);
                }
                _ => self.add(node, &name, Use::Done)?,
            }
            self.has_end_mark = true;
        }
        Ok(())
    }

    /// Adds a selector: a path, or a mapping with a path and conditions.
    fn add(&mut self, node: &Node, name: &str, what: Use) -> Result<(), Problem> {
        let fail = |problem: String| Problem::in_field(node.line, name, problem);
        if self.selectors.len() >= MAX {
            return Err(fail(format!("the file has more than {MAX} selectors")));
        }
        let (path, needs) = match &node.tree {
            Tree::Scalar { text, .. } => (Some(text.as_str()), 0),
            Tree::Dict(_) => {
                let fields = Fields::of(node, name, &["path", "is", "when"])?;
                let (path, mut needs) = (fields.text("path")?, 0);
                if let Some(when) = fields.get("when") {
                    for (key, values) in Fields::open(when, &fields.name("when"))?.iter() {
                        needs |= self.condition(&key.name, values, &fields.name("when"))?;
                    }
                }
                match (path, fields.get("is")) {
                    (Some(path), Some(values)) => {
                        needs |= self.condition(path, values, &fields.name("is"))?;
                        (None, needs)
                    }
                    (None, Some(_)) => return Err(fail("has \"is\" without \"path\"".to_owned())),
                    (None, None) if needs == 0 => return Err(fail("has neither \"path\" nor \"when\"".to_owned())),
                    (path, None) => (path, needs),
                }
            }
            Tree::List(_) => return Err(fail("must be a path or a mapping with path and when, not a list".to_owned())),
        };
        if path.is_none() && !matches!(what, Use::TokenEvent | Use::Error | Use::Done) {
            return Err(fail("needs a path".to_owned()));
        }
        let number = self.selectors.len() as u8;
        if let Some(path) = path {
            let steps = path::parse(path).map_err(fail)?;
            self.program.add(&steps, number, what == Use::Text && needs == 0);
        }
        self.selectors.push(Selector { what, needs, path: path.map(str::to_owned) });
        Ok(())
    }

    /// Adds a condition; returns its bit.
    fn condition(&mut self, path: &str, values: &Node, name: &str) -> Result<u64, Problem> {
        let fail = |problem: String| Problem::in_field(values.line, name, problem);
        let steps = path::parse(path).map_err(fail)?;
        let one = std::slice::from_ref(values);
        let all = if let Tree::List(items) = &values.tree { items } else { one };
        let accepted = all.iter().map(|node| match node.value() {
            Value::Str(text) => Ok((true, text.into_bytes())),
            Value::List(_) | Value::Dict(_) => {
                Err(fail(format!("must be a value or a list of values, not {}", node.kind())))
            }
            other => Ok((false, tacho_core::json::dumps(&other).into_bytes())),
        });
        let accepted = Accepted(accepted.collect::<Result<_, _>>()?);
        self.program.condition(&steps, accepted).ok_or_else(|| fail(format!("the file has more than {MAX} conditions")))
    }

    /// Rejects settings that contradict each other.
    fn check(&self, fields: &Fields<'_>, pooling: bool) -> Result<(), Problem> {
        let has = |what: Use| self.selectors.iter().any(|selector| selector.what == what);
        let fail = |key: &str, problem: &str| Err(fields.problem(key, problem));
        if self.tokens == Tokens::Count && !has(Use::Count) {
            return fail("tokens", "needs count, the path of the tokens of an event");
        }
        if self.framing == Framing::Whole {
            for key in ["token_event", "done", "count", "text_is", "ignore"] {
                if fields.get(key).is_some() {
                    return fail(key, "has no meaning in a whole response: remove it");
                }
            }
            if matches!(self.tokens, Tokens::Events) {
                return fail("tokens", "cannot be events in a whole response: use usage or tokenizer");
            }
        }
        if pooling && self.framing != Framing::Whole {
            return fail("framing", "must be whole for task: pooling");
        }
        if self.echoes_prompt && !self.cumulative {
            return fail("echoes_prompt", "needs text_is: cumulative");
        }
        if !self.failed_finish.is_empty() && !has(Use::Finish) {
            return fail("failed_finish", "needs finish, the path of the finish reason");
        }
        Ok(())
    }

    pub(super) fn of(&self, what: Use) -> impl Iterator<Item = &Selector> {
        self.selectors.iter().filter(move |selector| selector.what == what)
    }
}

impl Selector {
    pub(super) fn shown(&self) -> Cow<'_, str> {
        self.path.as_deref().map_or(Cow::Borrowed("(its condition)"), Cow::Borrowed)
    }
}

fn texts(fields: &Fields<'_>, key: &str) -> Result<Vec<String>, Problem> {
    let text = |node: &Node| match &node.tree {
        Tree::Scalar { text, .. } => Ok(text.clone()),
        _ => Err(fields.problem(key, format!("must be a text or a list of texts, not {}", node.kind()))),
    };
    fields.each(key).iter().map(text).collect()
}

fn statuses(fields: &Fields<'_>) -> Result<Vec<u16>, Problem> {
    let status = |node: &Node| {
        let number = node.value().as_i64().and_then(|number| u16::try_from(number).ok());
        number.filter(|status| (200..300).contains(status))
    };
    let all = fields.each("status").iter().map(status);
    let read: Option<Vec<u16>> = all.collect();
    let read = read.ok_or_else(|| fields.problem("status", "must be one or several of 200 to 299"))?;
    Ok(if read.is_empty() { vec![200] } else { read })
}

const KINDS: [(&str, Framing); 5] = [
    ("sse", Framing::Sse),
    ("json-lines", Framing::JsonLines),
    ("json", Framing::Json),
    ("aws-event-stream", Framing::AwsEventStream),
    ("whole", Framing::Whole),
];

/// Names under which a user may look for bodies without framing.
const PLAIN: [&str; 5] = ["text", "plain", "text/plain", "chunked", "raw"];

fn framing(fields: &Fields<'_>) -> Result<Framing, Problem> {
    let node = fields.required("framing", "framing: sse")?;
    let Tree::Dict(entries) = &node.tree else {
        let kinds = KINDS.map(|(name, _)| name).join(", ");
        let text = fields.text("framing")?.unwrap_or_default();
        let found = KINDS.iter().find(|(name, _)| *name == text).map(|(_, framing)| *framing);
        return found.ok_or_else(|| {
            let hint = "or a mapping: length_prefixed: {bytes: 4, endian: big}";
            let plain = "; plain text has no events to time: let the server send server-sent events or JSON lines";
            let plain = if PLAIN.contains(&text) { plain } else { "" };
            fields.problem("framing", format!("is {text:?}, not one of {kinds}, {hint}{plain}"))
        });
    };
    let own = Fields::of(node, "response.framing", &["length_prefixed"])?;
    let Some((_, prefix)) = entries.first() else { return Err(fields.problem("framing", "is empty")) };
    let prefix = Fields::of(prefix, &own.name("length_prefixed"), &["bytes", "endian", "skip", "counts"])?;
    let width = prefix.integer("bytes", 4)?;
    if !matches!(width, 1 | 2 | 4 | 8) {
        return Err(prefix.problem("bytes", format!("is {width}, not 1, 2, 4 or 8")));
    }
    let skip = prefix.integer("skip", 0)?;
    if !(0..=64).contains(&skip) {
        return Err(prefix.problem("skip", format!("is {skip}, not 0 to 64")));
    }
    Ok(Framing::LengthPrefixed(Prefix {
        width: width as usize,
        little_endian: prefix.word("endian", &[("big", false), ("little", true)])?,
        skip: skip as usize,
        counts_head: prefix.word("counts", &[("payload", false), ("frame", true)])?,
    }))
}
