//! Embeddings, pooling, scores and reranking: a prompt is computed, and one response follows.

use std::io;
use std::sync::Arc;

use tacho_core::json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::faults::Fault;
use crate::server::app::App;
use crate::server::driver::Signal;
use crate::server::request::ask::too_long;
use crate::server::request::fields::Fields;
use crate::server::request::problem::{Invalid, ON_PURPOSE, Problem};
use crate::server::request::prompt::{self, Prompt, Source};
use crate::server::response::escape::{list, number, quote, quoted};
use crate::server::response::vectors;
use crate::server::room::Share;
use crate::server::wire::ResetSwitch;
use tacho_engine::{Job, SeqId};

/// Most inputs of a request, as in OpenAI's service: a request with many more would block others for minutes.
const MAX_INPUTS: usize = 2_048;
/// Most dimensions of a vector.
const MAX_DIMENSIONS: i64 = 65_536;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// `/v1/embeddings`.
    Embeddings,
    /// `/embeddings` of an Infinity server.
    Infinity,
    /// `/pooling`.
    Plain,
    /// `/score`.
    Score,
    /// `/rerank` and its versions.
    Rerank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Float,
    Base64,
    Bytes,
    BytesOnly,
}

/// A validated request, without its prompts.
#[derive(Debug)]
pub(crate) struct Ask {
    pooling: Pooling,
    pub(crate) model: Option<String>,
    encoding: Encoding,
    size: Option<usize>,
    /// Tokens to truncate prompts to; -1 means the model's context length.
    truncate: Option<i64>,
    top_n: usize,
    documents: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) body: Vec<u8>,
    pub(crate) content_type: &'static str,
    pub(crate) metadata: Option<String>,
}

impl Ask {
    /// Validates a request; prompts are returned separately, not tokenized yet.
    pub(crate) fn read(
        pooling: Pooling,
        fields: &Fields,
        full_vocab_size: usize,
    ) -> Result<(Ask, Vec<Source>), Problem> {
        let mut documents = Vec::new();
        let sources = match pooling {
            Pooling::Embeddings | Pooling::Plain if fields.has("messages") => vec![prompt::of_conversation(fields)?],
            Pooling::Embeddings | Pooling::Plain | Pooling::Infinity => inputs(fields, full_vocab_size)?,
            Pooling::Rerank => {
                let query = text_of(fields.required("query")?, "query")?;
                documents = texts_of(fields.required("documents")?, "documents")?;
                pairs(&[query], &documents)?
            }
            Pooling::Score => score_pairs(fields)?,
        };
        if sources.len() > MAX_INPUTS {
            let message = format!("{} inputs exceed the maximum of {MAX_INPUTS} per request.", sources.len());
            return Err(Problem::bad_request(&message));
        }
        let ask = Ask {
            pooling,
            model: fields.text("model")?.filter(|model| !model.is_empty()).map(str::to_owned),
            encoding: encoding(fields)?,
            size: dimensions(fields)?,
            truncate: at_least(fields, "truncate_prompt_tokens", -1)?,
            top_n: at_least(fields, "top_n", 0)?.and_then(|count| usize::try_from(count).ok()).unwrap_or(0),
            documents,
        };
        Ok((ask, sources))
    }

    /// Writes the response for these prompts.
    pub(crate) fn respond(&self, app: &App, id: &str, model: &str, prompts: &[Prompt]) -> Reply {
        let created = app.unix_time();
        let tokens: usize = prompts.iter().map(|prompt| prompt.ids.len()).sum();
        match self.pooling {
            Pooling::Embeddings => self.vectors(app, ("embd", "embedding", "embedding"), id, model, created, prompts),
            Pooling::Plain => self.vectors(app, ("pooling", "pooling", "data"), id, model, created, prompts),
            Pooling::Infinity => json(self.infinity(app, model, created, prompts, tokens)),
            Pooling::Score => json(score(app, id, model, created, prompts, tokens)),
            Pooling::Rerank => json(self.rerank(app, id, model, prompts, tokens)),
        }
    }

    fn numbers(&self, app: &App, prompt: &Prompt) -> Vec<f32> {
        vectors::embedding(app.spec.seed, &prompt.ids, self.size.unwrap_or(app.spec.embedding_size))
    }

    fn vectors(
        &self,
        app: &App,
        (prefix, object, member): (&str, &str, &str),
        id: &str,
        model: &str,
        created: u64,
        prompts: &[Prompt],
    ) -> Reply {
        let tokens: usize = prompts.iter().map(|prompt| prompt.ids.len()).sum();
        let rows: Vec<Vec<f32>> = prompts.iter().map(|prompt| self.numbers(app, prompt)).collect();
        let model = quoted(model);
        if matches!(self.encoding, Encoding::Bytes | Encoding::BytesOnly) {
            let described = format!(
                r#"{{"id": "{prefix}-{id}", "created": {created}, "model": {model}, "data": [{}], "usage": {{"prompt_tokens": {tokens}, "total_tokens": {tokens}}}}}"#,
                places(&rows)
            );
            return Reply {
                body: rows.iter().flat_map(|row| vectors::bytes(row)).collect(),
                content_type: "application/octet-stream",
                metadata: (self.encoding == Encoding::Bytes).then_some(described),
            };
        }
        let mut out = format!(r#"{{"id":"{prefix}-{id}","object":"list","created":{created},"model":{model},"data":"#)
            .into_bytes();
        list(&mut out, rows.iter().enumerate(), |out, (index, row)| {
            out.extend_from_slice(format!(r#"{{"index":{index},"object":"{object}","{member}":"#).as_bytes());
            match self.encoding {
                Encoding::Base64 => quote(out, &vectors::base64(&vectors::bytes(row))),
                _ => vectors::push_floats(out, row),
            }
            out.push(b'}');
        });
        push_usage(&mut out, tokens);
        json(out)
    }

    fn infinity(&self, app: &App, model: &str, created: u64, prompts: &[Prompt], tokens: usize) -> Vec<u8> {
        let mut out = br#"{"object":"list","data":"#.to_vec();
        list(&mut out, prompts.iter().enumerate(), |out, (index, prompt)| {
            out.extend_from_slice(br#"{"object":"embedding","embedding":"#);
            match self.encoding {
                Encoding::Base64 => quote(out, &vectors::base64(&vectors::bytes(&self.numbers(app, prompt)))),
                _ => vectors::push_floats(out, &self.numbers(app, prompt)),
            }
            out.extend_from_slice(format!(r#","index":{index}}}"#).as_bytes());
        });
        let rest = format!(
            r#","model":{},"usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}},"id":"infinity-{}","created":{created}}}"#,
            quoted(model),
            app.random_id()
        );
        out.extend_from_slice(rest.as_bytes());
        out
    }

    fn rerank(&self, app: &App, id: &str, model: &str, prompts: &[Prompt], tokens: usize) -> Vec<u8> {
        let mut logprob_tokens: Vec<(usize, f32)> =
            prompts.iter().map(|prompt| vectors::score(app.spec.seed, &prompt.ids)).enumerate().collect();
        logprob_tokens.sort_by(|one, other| other.1.total_cmp(&one.1));
        let count = if self.top_n > 0 { self.top_n.min(logprob_tokens.len()) } else { logprob_tokens.len() };
        let mut out = format!(
            r#"{{"id":"score-{id}","model":{},"usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}},"results":"#,
            quoted(model)
        )
        .into_bytes();
        list(&mut out, &logprob_tokens[..count], |out, (index, score)| {
            let text = quoted(&self.documents[*index]);
            let score = tacho_core::json::float_repr(f64::from(*score));
            out.extend_from_slice(
                format!(
                    r#"{{"index":{index},"document":{{"text":{text},"multi_modal":null}},"relevance_score":{score}}}"#
                )
                .as_bytes(),
            );
        });
        out.push(b'}');
        out
    }
}

fn score(app: &App, id: &str, model: &str, created: u64, prompts: &[Prompt], tokens: usize) -> Vec<u8> {
    let model = quoted(model);
    let mut out =
        format!(r#"{{"id":"score-{id}","object":"list","created":{created},"model":{model},"data":"#).into_bytes();
    list(&mut out, prompts.iter().enumerate(), |out, (index, prompt)| {
        let score = tacho_core::json::float_repr(f64::from(vectors::score(app.spec.seed, &prompt.ids)));
        out.extend_from_slice(format!(r#"{{"index":{index},"object":"score","score":{score}}}"#).as_bytes());
    });
    push_usage(&mut out, tokens);
    out
}

fn json(body: Vec<u8>) -> Reply {
    Reply { body, content_type: "application/json", metadata: None }
}

fn push_usage(out: &mut Vec<u8>, tokens: usize) {
    out.extend_from_slice(br#","usage":{"prompt_tokens":"#);
    number(out, tokens);
    out.extend_from_slice(br#","total_tokens":"#);
    number(out, tokens);
    out.extend_from_slice(br#","completion_tokens":0,"prompt_tokens_details":null,"completion_tokens_details":null}}"#);
}

/// Byte range of each vector.
fn places(rows: &[Vec<f32>]) -> String {
    let mut start = 0;
    let places = rows.iter().enumerate().map(|(index, row)| {
        let end = start + row.len() * 4;
        let place = format!(
            r#"{{"index": {index}, "embed_dtype": "float32", "endianness": "native", "start": {start}, "end": {end}, "shape": [{}]}}"#,
            row.len()
        );
        start = end;
        place
    });
    places.collect::<Vec<_>>().join(", ")
}

/// An integer with a lower bound.
fn at_least(fields: &Fields, name: &str, least: i64) -> Result<Option<i64>, Problem> {
    match fields.int(name)? {
        Some(value) if value < least => {
            let message = format!("{name} must be at least {least}, got {value}.");
            Err(Problem::parameter(&message, name, Some(&value.to_string())))
        }
        value => Ok(value),
    }
}

fn dimensions(fields: &Fields) -> Result<Option<usize>, Problem> {
    match at_least(fields, "dimensions", 1)? {
        Some(size) if size > MAX_DIMENSIONS => {
            let message = format!("dimensions must be at most {MAX_DIMENSIONS}, got {size}.");
            Err(Problem::parameter(&message, "dimensions", Some(&size.to_string())))
        }
        size => Ok(size.and_then(|size| usize::try_from(size).ok())),
    }
}

fn encoding(fields: &Fields) -> Result<Encoding, Problem> {
    match fields.text("encoding_format")? {
        None | Some("float") => Ok(Encoding::Float),
        Some("base64") => Ok(Encoding::Base64),
        Some("bytes") => Ok(Encoding::Bytes),
        Some("bytes_only") => Ok(Encoding::BytesOnly),
        Some(other) => {
            let message = "Input should be 'float', 'base64', 'bytes' or 'bytes_only'";
            let finding = Invalid::member("literal_error", "encoding_format", message, &Value::from(other));
            Err(Problem::invalid(&[finding]))
        }
    }
}

/// The `input`: a text, ids, or a list of either.
fn inputs(fields: &Fields, full_vocab_size: usize) -> Result<Vec<Source>, Problem> {
    let empty = || Problem::bad_request("The decoder prompt cannot be empty");
    let one = |item: &Value| match item {
        Value::Str(text) if text.is_empty() => Err(empty()),
        Value::Str(text) => Ok(Source::Text(text.clone(), true)),
        Value::List(items) if !items.is_empty() => prompt::ids(items, full_vocab_size).map(Source::Ids),
        other => {
            Err(Problem::invalid(&[Invalid::member("string_type", "input", "Input should be a valid string", other)]))
        }
    };
    match fields.required("input")? {
        Value::List(items) if items.is_empty() => Err(empty()),
        Value::List(items) if items.iter().all(|item| matches!(item, Value::Int(_))) => {
            Ok(vec![Source::Ids(prompt::ids(items, full_vocab_size)?)])
        }
        Value::List(items) => items.iter().map(one).collect(),
        single => Ok(vec![one(single)?]),
    }
}

/// The two sides of `/score`, by any of their names.
fn score_pairs(fields: &Fields) -> Result<Vec<Source>, Problem> {
    let names = [("text_1", "text_2"), ("data_1", "data_2"), ("queries", "documents"), ("queries", "items")];
    let both = names.into_iter().find(|(one, other)| fields.has(one) && fields.has(other));
    let Some((one, other)) = both else {
        return Err(Problem::invalid(&[fields.missing("data_1"), fields.missing("data_2")]));
    };
    pairs(&texts_of(fields.required(one)?, one)?, &texts_of(fields.required(other)?, other)?)
}

/// One with each of many, or pairwise.
fn pairs(ones: &[String], others: &[String]) -> Result<Vec<Source>, Problem> {
    if others.is_empty() || ones.is_empty() {
        return Err(Problem::bad_request("At least one text_pair element must be given"));
    }
    if ones.len() > 1 && ones.len() != others.len() {
        return Err(Problem::bad_request("Input lengths must be either 1:1, 1:N or N:N"));
    }
    let one = |at: usize| ones[if ones.len() == 1 { 0 } else { at }].clone();
    Ok(others.iter().enumerate().map(|(at, other)| Source::Pair(one(at), other.clone())).collect())
}

fn texts_of(value: &Value, name: &str) -> Result<Vec<String>, Problem> {
    match value {
        Value::List(items) => items.iter().map(|item| text_of(item, name)).collect(),
        single => Ok(vec![text_of(single, name)?]),
    }
}

fn text_of(value: &Value, name: &str) -> Result<String, Problem> {
    let text = value.as_str().or_else(|| value.get("text").and_then(Value::as_str));
    text.map(str::to_owned).ok_or_else(|| {
        Problem::invalid(&[Invalid::member("string_type", name, "Input should be a valid string", value)])
    })
}

/// Prompts in the engine. Dropping it cancels unfinished ones.
pub(crate) struct Computation {
    app: Arc<App>,
    prompts: Vec<Prompt>,
    sequences: Vec<SeqId>,
    signals: UnboundedReceiver<Signal>,
    left: usize,
    _share: Share,
}

impl Computation {
    /// Truncates the prompts, checks that they fit, and submits them.
    pub(crate) fn start(app: &Arc<App>, ask: &Ask, model: &str, mut prompts: Vec<Prompt>) -> Result<Self, Problem> {
        let limit = app.spec.engine.max_model_len;
        for prompt in &mut prompts {
            match ask.truncate {
                Some(tokens) => prompt.truncate(usize::try_from(tokens).unwrap_or(limit)),
                None if prompt.ids.len() > limit => return Err(too_long(prompt.ids.len(), limit)),
                None => {}
            }
        }
        let job = |prompt: &Prompt| Job::pool(Arc::clone(&prompt.ids), app.salt(model));
        let jobs: Vec<Job> = prompts.iter().map(job).collect();
        for job in &jobs {
            app.spec.engine.check(job).map_err(|refusal| Problem::bad_request(&refusal.to_string()))?;
        }
        let share = app.room.take(prompts.iter().map(Prompt::bytes).sum(), prompts.len())?;
        let (to, signals) = unbounded_channel();
        let left = jobs.len();
        let rank = app.engine.rank(None);
        let submit = |(at, job)| {
            let sequence = app.engine.next_sequence(rank);
            app.engine.submit(sequence, job, at, to.clone());
            sequence
        };
        let sequences = jobs.into_iter().enumerate().map(submit).collect();
        Ok(Computation { app: Arc::clone(app), prompts, sequences, signals, left, _share: share })
    }

    /// Waits for all of them, and applies the fault. An I/O error means that the connection is to be aborted.
    pub(crate) async fn finish(
        mut self,
        fault: Fault,
        reset: &ResetSwitch,
    ) -> io::Result<Result<Vec<Prompt>, Problem>> {
        while self.left > 0 {
            self.signals.recv().await.ok_or(io::ErrorKind::ConnectionAborted)?;
            self.left -= 1;
        }
        match fault {
            Fault::StreamError(_) => return Ok(Err(Problem::internal(ON_PURPOSE))),
            Fault::Disconnect(_) => {
                reset.pull();
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Fault::Stall(_, pause) => tokio::time::sleep(pause).await,
            Fault::None | Fault::Error | Fault::Truncate(_) => {}
        }
        Ok(Ok(std::mem::take(&mut self.prompts)))
    }
}

impl Drop for Computation {
    fn drop(&mut self) {
        if self.left > 0 {
            self.app.engine.cancel(std::mem::take(&mut self.sequences));
        }
    }
}
