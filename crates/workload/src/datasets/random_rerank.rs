//! `random-rerank`: one random query and batches of random documents to score against it.

use tacho_core::{Content, Request};
use tacho_pyrand::Generator;
use tacho_text::Tokenizer;

use super::random::{RandomSpec, allowed_tokens, run_of};
use crate::sampling::fit_length::{FittedText, GeneratorDraw, fit_all};
use crate::sampling::lengths::{LengthRange, Lengths, checked_seed};
use crate::{Error, sampling::context::SampleContext, sampling::sampled::Sampled};

#[derive(Debug, Clone, PartialEq)]
pub struct RandomRerankSpec {
    /// Its prompts are the documents; their length is that of query and document together, and a batch is of one
    /// request. Without a reranker the length is that of each, and the query counts as a document.
    pub text: RandomSpec,
    /// Whether the model reads query and document together, with a separator between them.
    pub is_reranker: bool,
}

/// The lengths of the query (one entry) and of the documents.
struct Drawn {
    query: Lengths,
    documents: Lengths,
    batch: usize,
}

/// Generates the requests; does not use the global generators.
pub(crate) fn sample(spec: &RandomRerankSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("random-rerank")?;
    let seed = checked_seed(spec.text.seed)?;
    let mut generator = Generator::new(seed);
    let drawn = spec.draw_lengths(tokenizer, &mut generator)?;
    let allowed = allowed_tokens(tokenizer, &tokenizer.special_ids())?;
    let mut draw = GeneratorDraw { generator, vocab_size: tokenizer.vocab_size() };
    // The query is text 0 and the documents follow it, in drawing order and in their token offsets.
    let text = |index: usize| {
        let (lengths, at) = if index == 0 { (&drawn.query, 0) } else { (&drawn.documents, index - 1) };
        let len = lengths.inputs[at] as usize;
        (run_of(&allowed, lengths.offsets[at] as usize + index, len).collect(), len)
    };
    let fitted = fit_all(drawn.documents.inputs.len() + 1, text, tokenizer, &mut draw, context.counters);
    Ok(Sampled::of(spec.requests(fitted, drawn.batch)))
}

impl RandomRerankSpec {
    fn draw_lengths(&self, tokenizer: &Tokenizer, generator: &mut Generator) -> Result<Drawn, Error> {
        let range = |input_len| LengthRange::of(tokenizer, self.text.range_ratio, input_len, 0);
        let query_len = if self.is_reranker { self.text.input_len.div_euclid(2) - 1 } else { self.text.input_len };
        let query = range(query_len).draw(generator, 1)?;
        let (count, batch, document_len) = if self.is_reranker {
            (self.text.num_prompts, self.text.batch_size, self.text.input_len - query.inputs[0] - 1)
        } else {
            if self.text.num_prompts <= 1 || self.text.batch_size <= 1 {
                return Err(usage!(
                    "--no-reranker needs --num-prompts and --random-batch-size above 1, since the query counts as one: \
                     got {} and {}",
                    self.text.num_prompts,
                    self.text.batch_size
                ));
            }
            (self.text.num_prompts - 1, self.text.batch_size - 1, self.text.input_len)
        };
        let count = usize::try_from(count).map_err(|_| Error::NegativeCount { count: self.text.num_prompts })?;
        let batch = usize::try_from(batch).ok().filter(|&batch| batch > 0);
        let needs = "a request needs at least one document";
        let batch = batch.ok_or_else(|| usage!("--random-batch-size is {}: {needs}", self.text.batch_size))?;
        Ok(Drawn { query, documents: range(document_len).draw(generator, count)?, batch })
    }

    fn requests(&self, fitted: Vec<FittedText>, batch: usize) -> Vec<Request> {
        let Some((query, documents)) = fitted.split_first() else {
            return Vec::new();
        };
        let request = |(index, group): (usize, &[FittedText])| {
            let texts = std::iter::once(query).chain(group).map(|fitted| fitted.text.clone()).collect();
            let len = group.iter().map(|document| document.len).sum::<usize>() + self.query_share(query, group);
            let id = Some(format!("{}{index}", self.text.request_id_prefix));
            Request { content: Content::Texts(texts), id, ..Request::text("", len as u64, 0) }
        };
        documents.chunks(batch).enumerate().map(request).collect()
    }

    /// Prompt tokens of a query for its documents: a reranker reads the query and a separator with each of them.
    fn query_share(&self, query: &FittedText, group: &[FittedText]) -> usize {
        if self.is_reranker { (query.len + 1) * group.len() } else { query.len }
    }
}
