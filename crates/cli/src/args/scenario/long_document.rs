//! What was typed after `tacho long-doc-qa`.

use tacho_args::flag::{Flag, Kind, Preset, Table, own, rows, vllm};
use tacho_args::grammar::Values;
use tacho_workload::scenarios::{LongDocumentSpec, RepeatMode};

use super::{BACKEND, LIVE, OWN, SCENARIO, SERVER, SERVER_ROWS, Way, at_least, seed, tokens};
use crate::args::engine::{self, CAPACITY, ENGINE};
use crate::args::error::{ArgError, Refusal};
use crate::args::live;
use crate::args::offline::rows::{HELP, RUN, WORKER_ROWS};
use crate::args::offline::{EngineArgs, WorkerArgs};

use Kind::{Choice, Int};
use Preset::Unset;

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho long-doc-qa",
    about: "Benchmark questions about long documents that come several times.",
    examples: &[
        ("tacho long-doc-qa --backend openai --num-documents 8 --document-length 2000", "against port 8000"),
        ("tacho long-doc-qa --backend sim --num-documents 4 --document-length 500", "simulated"),
    ],
    groups: &[&SCENARIO, &SERVER, &OWN, &LIVE, &RUN, &ENGINE, &CAPACITY],
    flags: rows!(FIRST, SERVER_ROWS, live::FLAGS, WORKER_ROWS, engine::FLAGS),
    ..Table::PLAIN
};

#[rustfmt::skip]
const FIRST: &[Flag] = &[
    HELP,
    vllm(&["--document-length"], Int, "WORDS", Preset::Int(20000), &SCENARIO, "Words of a document, all the same."),
    vllm(&["--num-documents"], Int, "N", Preset::Int(8), &SCENARIO, "Different documents."),
    vllm(&["--output-len"], Int, "TOKENS", Preset::Int(10), &SCENARIO, "Tokens to generate."),
    vllm(&["--repeat-count"], Int, "N", Preset::Int(2), &SCENARIO, "How often each document comes."),
    vllm(&["--repeat-mode"], Choice(&RepeatMode::NAMES), "HOW", Preset::Str("random"), &SCENARIO,
        "Order. random mixes all, tile repeats the list, interleave repeats each document at once."),
    vllm(&["--shuffle-seed"], Int, "SEED", Preset::Int(0), &SCENARIO, "Seed of a random order."),
    BACKEND,
    own(&["--document-tokens"], Int, "TOKENS", Unset, &OWN, "Length of a document in tokens, in place of words."),
    own(&["--reuse-distance"], Int, "N", Unset, &OWN,
        "Requests from one sight of a document to its next, in place of --repeat-mode. Needs --max-concurrency to mean something."),
];

/// All flags of `tacho long-doc-qa`.
#[derive(Debug, Clone)]
pub(crate) struct LongDocumentArgs {
    pub(crate) spec: LongDocumentSpec,
    pub(crate) mode: String,
    pub(crate) way: Way,
    pub(crate) engine: EngineArgs,
    pub(crate) worker: WorkerArgs,
    pub(crate) values: Values,
}

impl LongDocumentArgs {
    /// Reads and checks the values.
    pub(crate) fn read(v: Values) -> Result<Self, ArgError> {
        if v.is_given("--reuse-distance") && v.is_given("--repeat-mode") {
            return Err(Refusal::Together { flag: "--reuse-distance", other: "--repeat-mode" }.into());
        }
        let (mode, order) = match v.is_given("--reuse-distance") {
            true => {
                let apart = at_least(&v, "--reuse-distance", 1)?;
                (format!("again after {apart}"), RepeatMode::Spaced(apart))
            }
            false => {
                let mode = v.text("--repeat-mode");
                let order = RepeatMode::parse(&mode).expect("the flag has the modes as choices");
                (mode, order)
            }
        };
        let exact = v.is_given("--document-tokens").then(|| tokens(&v, "--document-tokens")).transpose()?;
        let spec = LongDocumentSpec {
            documents: at_least(&v, "--num-documents", 1)?,
            words: tokens(&v, "--document-length")?.unsigned_abs() as usize,
            tokens: exact.map(|tokens| tokens.unsigned_abs() as usize),
            output_len: tokens(&v, "--output-len")?,
            repeat_count: at_least(&v, "--repeat-count", 0)?,
            mode: order,
            shuffle_seed: seed(&v, "--shuffle-seed")?,
            warm_up: false,
        };
        Ok(LongDocumentArgs {
            spec,
            mode,
            way: Way::of(&v)?,
            engine: EngineArgs::from(&v),
            worker: WorkerArgs::from(&v),
            values: v,
        })
    }
}
