//! Flags of `tacho long-doc-qa`.

use tacho_args::declare::*;
use tacho_core::bounded::TokenCount;
use tacho_workload::scenarios::{LongDocumentSpec, RepeatMode};

use super::{BACKEND, BATCH, BATCH_ROWS, BatchArgs, Execution, MAX_SEED, SCENARIO, TACHO};
use crate::args::error::ArgError;

const MAX_TOKENS: f64 = TokenCount::MAX as f64;

pub(crate) static TABLE: Table = Table {
    command: "tacho long-doc-qa",
    about: "Benchmark repeated questions about long documents.",
    examples: &[
        ("tacho long-doc-qa --backend openai --num-documents 8 --document-length 2000", "against port 8000"),
        ("tacho long-doc-qa --backend sim --num-documents 4 --document-length 500", "simulated"),
    ],
    flags: rows!(&[HELP], DOCUMENTS, &[BACKEND], REUSE, BATCH_ROWS),
    basics: "\
        --base-url --port --backend --sim --model --document-length --document-tokens --num-documents \
        --repeat-count --repeat-mode --reuse-distance --output-len --max-concurrency --reset-prefix-cache \
        --enable-prefix-caching --seed --output-json --dry-run --live",
    ..BATCH
};

flags! {
    LongDocumentFlags {
        DOCUMENTS [
            document_length: usize = vllm(&["--document-length"], Int, "WORDS", DefaultValue::Int(20000), &SCENARIO, "Length of a document in words, all equal.").between(0.0, MAX_TOKENS);
            num_documents: usize = vllm(&["--num-documents"], Int, "N", DefaultValue::Int(8), &SCENARIO, "Number of documents.").at_least(1);
            output_len: i64 = vllm(&["--output-len"], Int, "TOKENS", DefaultValue::Int(10), &SCENARIO, "Output length in tokens.").at_least(0);
            repeat_count: usize = vllm(&["--repeat-count"], Int, "N", DefaultValue::Int(2), &SCENARIO, "Requests per document.").at_least(0);
            repeat_mode: String = vllm(&["--repeat-mode"], Choice(&RepeatMode::NAMES), "HOW", DefaultValue::Str("random"), &SCENARIO,
                "Order of the requests: random shuffles, tile repeats the list, interleave repeats each document at once.");
            shuffle_seed: u64 = vllm(&["--shuffle-seed"], Int, "SEED", DefaultValue::Int(0), &SCENARIO, "Seed of a random order.").between(0.0, MAX_SEED);
        ]
        REUSE [
            document_tokens: Option<usize> = tacho(&["--document-tokens"], Int, "TOKENS", Unset, &TACHO, "Length of a document in tokens, instead of --document-length.").at_least(0);
            reuse_distance: Option<usize> = tacho(&["--reuse-distance"], Int, "N", Unset, &TACHO,
                "Requests between two uses of a document, instead of --repeat-mode. Use it with --max-concurrency.").at_least(1).excludes(&["--repeat-mode"]);
        ]
        ..batch: BatchArgs;
    }
}

#[derive(Debug, Clone)]
pub(crate) struct LongDocumentArgs {
    pub(crate) spec: LongDocumentSpec,
    pub(crate) mode: String,
    pub(crate) execution: Execution,
    pub(crate) batch: BatchArgs,
}

impl LongDocumentArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let flags = LongDocumentFlags::from(v);
        let (mode, order) = match flags.reuse_distance {
            Some(distance) => (format!("again after {distance}"), RepeatMode::Spaced(distance)),
            None => {
                let mode = flags.repeat_mode;
                let order = RepeatMode::parse(&mode).expect("the flag has the modes as choices");
                (mode, order)
            }
        };
        let spec = LongDocumentSpec {
            documents: flags.num_documents,
            words: flags.document_length,
            tokens: flags.document_tokens,
            output_len: flags.output_len,
            repeat_count: flags.repeat_count,
            mode: order,
            shuffle_seed: flags.shuffle_seed,
            warm_up: false,
        };
        Ok(LongDocumentArgs { spec, mode, execution: Execution::of(&flags.batch)?, batch: flags.batch })
    }
}
