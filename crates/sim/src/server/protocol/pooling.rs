//! Embeddings, pooling, scores and reranking: a prompt is computed, and one response follows.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value as Json, json};
use tacho_core::json::Value;

use crate::server::request::{Fields, Outcome, Problem, Prompt, Source, prompt};
use crate::{
    server::app::App, server::engines::Submitted, server::request::ask::too_long, server::request::types::Kind,
    server::response::vectors,
};
use tacho_engine::Job;

/// Most inputs of a request, as in OpenAI's service: a request with many more would block others for minutes.
const MAX_INPUTS: usize = 2_048;
const MAX_DIMENSIONS: i64 = 65_536;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    Embeddings,
    Infinity,
    Plain,
    Score,
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
pub(crate) struct Encoded {
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
            Pooling::Embeddings | Pooling::Plain if fields.get("messages").is_some() => {
                vec![prompt::of_conversation(fields)?]
            }
            Pooling::Embeddings | Pooling::Plain | Pooling::Infinity => {
                prompt::of_field("input", fields, full_vocab_size)?
            }
            Pooling::Rerank => {
                documents = texts_of(fields, "documents")?;
                pairs(&texts_of(fields, "query")?, &documents)?
            }
            Pooling::Score => score_pairs(fields)?,
        };
        if sources.len() > MAX_INPUTS {
            return Err(Problem::bad_request(&format!("expected at most {MAX_INPUTS} inputs, got {}", sources.len())));
        }
        let ask = Ask {
            pooling,
            model: fields.model()?,
            encoding: encoding(fields)?,
            size: within(fields, "dimensions", 1, MAX_DIMENSIONS)?.map(|size| size as usize),
            truncate: within(fields, "truncate_prompt_tokens", -1, i64::MAX)?,
            top_n: within(fields, "top_n", 0, i64::MAX)?.unwrap_or(0) as usize,
            documents,
        };
        Ok((ask, sources))
    }

    pub(crate) fn respond(&self, app: &App, id: &str, model: &str, prompts: &[Prompt]) -> Encoded {
        let tokens = prompts.iter().map(|prompt| prompt.ids.len()).sum();
        let to = Reply { app, id, model, created: app.unix_time(), prompts, tokens };
        match self.pooling {
            Pooling::Embeddings => self.vectors(("embd", "embedding", "embedding"), &to),
            Pooling::Plain => self.vectors(("pooling", "pooling", "data"), &to),
            Pooling::Infinity => encoded_json(&self.infinity(&to)),
            Pooling::Score => encoded_json(&to.score()),
            Pooling::Rerank => encoded_json(&self.rerank(&to)),
        }
    }

    /// Truncates the prompts, and waits until all are computed.
    pub(crate) async fn compute(&self, app: &Arc<App>, model: &str, mut prompts: Vec<Prompt>) -> Outcome<Vec<Prompt>> {
        let limit = app.spec.engine.max_model_len;
        for prompt in &mut prompts {
            match self.truncate {
                Some(tokens) => prompt.truncate(usize::try_from(tokens).unwrap_or(limit), false),
                None if prompt.ids.len() > limit => return Err(too_long(prompt.ids.len(), limit).into()),
                None => {}
            }
        }
        let jobs = prompts.iter().map(|prompt| Job::pool(Arc::clone(&prompt.ids), app.salt(model))).collect();
        let memory = app.memory.reserve(prompts.iter().map(Prompt::bytes).sum(), prompts.len())?;
        let mut jobs = Submitted::new(app, jobs, None, memory)?;
        while !jobs.is_done() {
            jobs.next().await?;
        }
        Ok(prompts)
    }

    fn numbers(&self, app: &App, prompt: &Prompt) -> Vec<f32> {
        vectors::embedding(app.spec.seed, &prompt.ids, self.size.unwrap_or(app.spec.embedding_size))
    }

    /// Vectors as a list, or as bytes with their places in a header.
    fn vectors(&self, (prefix, object, member): (&str, &str, &str), to: &Reply<'_>) -> Encoded {
        let rows: Vec<Vec<f32>> = to.prompts.iter().map(|prompt| self.numbers(to.app, prompt)).collect();
        let id = format!("{prefix}-{}", to.id);
        if matches!(self.encoding, Encoding::Bytes | Encoding::BytesOnly) {
            let described = json!({"id": id, "created": to.created, "model": to.model, "data": places(&rows),
                "usage": {"prompt_tokens": to.tokens, "total_tokens": to.tokens}});
            return Encoded {
                body: rows.iter().flat_map(|row| vectors::bytes(row)).collect(),
                content_type: "application/octet-stream",
                metadata: (self.encoding == Encoding::Bytes).then(|| described.to_string()),
            };
        }
        let item =
            |(index, row): (usize, &Vec<f32>)| json!({"index": index, "object": object, (member): self.encoded(row)});
        encoded_json(&json!({"id": id, "object": "list", "created": to.created, "model": to.model,
            "data": rows.iter().enumerate().map(item).collect::<Vec<_>>(), "usage": to.usage()}))
    }

    fn encoded(&self, row: &[f32]) -> Json {
        match self.encoding {
            Encoding::Base64 => json!(STANDARD.encode(vectors::bytes(row))),
            _ => json!(row),
        }
    }

    fn infinity(&self, to: &Reply<'_>) -> Json {
        let item = |(index, prompt): (usize, &Prompt)| json!({"object": "embedding", "embedding": self.encoded(&self.numbers(to.app, prompt)), "index": index});
        json!({"object": "list", "data": to.prompts.iter().enumerate().map(item).collect::<Vec<_>>(),
            "model": to.model, "usage": {"prompt_tokens": to.tokens, "total_tokens": to.tokens},
            "id": format!("infinity-{}", to.app.random_id()), "created": to.created})
    }

    fn rerank(&self, to: &Reply<'_>) -> Json {
        let mut scores: Vec<(usize, f32)> = to.scores().enumerate().collect();
        scores.sort_by(|one, other| other.1.total_cmp(&one.1));
        scores.truncate(if self.top_n > 0 { self.top_n } else { scores.len() });
        let item = |(index, score): &(usize, f32)| {
            json!({"index": index, "document": {"text": self.documents[*index], "multi_modal": null},
                "relevance_score": f64::from(*score)})
        };
        json!({"id": format!("score-{}", to.id), "model": to.model,
            "usage": {"prompt_tokens": to.tokens, "total_tokens": to.tokens},
            "results": scores.iter().map(item).collect::<Vec<_>>()})
    }
}

struct Reply<'a> {
    app: &'a App,
    id: &'a str,
    model: &'a str,
    created: u64,
    prompts: &'a [Prompt],
    tokens: usize,
}

impl Reply<'_> {
    fn usage(&self) -> Json {
        json!({"prompt_tokens": self.tokens, "total_tokens": self.tokens, "completion_tokens": 0,
            "prompt_tokens_details": null, "completion_tokens_details": null})
    }

    fn scores(&self) -> impl Iterator<Item = f32> {
        self.prompts.iter().map(|prompt| vectors::score(self.app.spec.seed, &prompt.ids))
    }

    fn score(&self) -> Json {
        let item = |(index, score)| json!({"index": index, "object": "score", "score": f64::from(score)});
        json!({"id": format!("score-{}", self.id), "object": "list", "created": self.created, "model": self.model,
            "data": self.scores().enumerate().map(item).collect::<Vec<_>>(), "usage": self.usage()})
    }
}

fn encoded_json(body: &Json) -> Encoded {
    Encoded { body: body.to_string().into_bytes(), content_type: "application/json", metadata: None }
}

/// Byte range of each vector.
fn places(rows: &[Vec<f32>]) -> Json {
    let mut end = 0;
    let place = |(index, row): (usize, &Vec<f32>)| {
        let start = end;
        end += row.len() * size_of::<f32>();
        json!({"index": index, "embed_dtype": "float32", "endianness": "native", "start": start, "end": end,
            "shape": [row.len()]})
    };
    rows.iter().enumerate().map(place).collect()
}

fn within(fields: &Fields, name: &str, min: i64, max: i64) -> Result<Option<i64>, Problem> {
    match fields.int(name)? {
        Some(value) if !(min..=max).contains(&value) => {
            Err(Problem::parameter(name, &format!("expected an integer from {min} to {max}, got {value}")))
        }
        value => Ok(value),
    }
}

fn encoding(fields: &Fields) -> Result<Encoding, Problem> {
    const NAMES: [(&str, Encoding); 4] = [
        ("float", Encoding::Float),
        ("base64", Encoding::Base64),
        ("bytes", Encoding::Bytes),
        ("bytes_only", Encoding::BytesOnly),
    ];
    let name = fields.text("encoding_format")?.unwrap_or("float");
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, encoding)| *encoding);
    let wrong = || Kind::OneOf(&["float", "base64", "bytes", "bytes_only"]);
    known.ok_or_else(|| wrong().problem("encoding_format", Some(&Value::from(name))))
}

/// The two sides of `/score`, by any of their names.
fn score_pairs(fields: &Fields) -> Result<Vec<Source>, Problem> {
    let names = [("text_1", "text_2"), ("data_1", "data_2"), ("queries", "documents"), ("queries", "items")];
    let both = names.into_iter().find(|(one, other)| fields.get(one).is_some() && fields.get(other).is_some());
    let Some((one, other)) = both else {
        return Err(Problem::wrong_type("body.data_1", "expected two lists of texts, data_1 and data_2"));
    };
    pairs(&texts_of(fields, one)?, &texts_of(fields, other)?)
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

fn texts_of(fields: &Fields, name: &str) -> Result<Vec<String>, Problem> {
    let value = fields.dict().get(name);
    let text = |item: &Value| item.as_str().or_else(|| item.text("text")).map(str::to_owned);
    let texts = match value {
        Some(Value::List(items)) => items.iter().map(text).collect(),
        single => single.and_then(text).map(|text| vec![text]),
    };
    texts.ok_or_else(|| Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]).problem(name, value))
}
