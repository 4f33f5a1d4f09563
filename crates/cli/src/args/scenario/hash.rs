//! What was typed after `tacho hash`.

use tacho_workload::hashing::{Algorithm, BlocksSpec};

use super::{OWN, SCENARIO, at_least};
use crate::args::error::{ArgError, Refusal, UsageError};
use crate::args::flag::{Flag, Kind, Preset, Table, own, vllm};
use crate::args::grammar::Values;

use Kind::{Help, Int, OneOrMore, Rest, Str, Switch};
use Preset::{Off, Unset};

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho hash",
    about: "Benchmark the hash functions of the prefix cache, on the bytes that vLLM hashes.",
    examples: &[
        ("tacho hash functions --iterations 20000", "one payload, again and again"),
        ("tacho hash blocks --algorithms sha256 xxhash", "chains of blocks"),
        ("tacho hash blocks --num-blocks 3 --dry-run", "the digests, nothing timed"),
    ],
    groups: &[&SCENARIO, &OWN],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    vllm(&["-h", "--help"], Help, "TOPIC", Unset, &SCENARIO, "Show this help."),
    own(&["WHAT"], Rest, "WHAT", Unset, &SCENARIO, "functions, blocks, or both when left out."),
    vllm(&["--iterations"], Int, "N", Preset::Int(10000), &SCENARIO, "Calls of each function."),
    vllm(&["--seed"], Int, "SEED", Unset, &SCENARIO, "Seed of the payload (42 without it) and of the blocks (0)."),
    vllm(&["--num-blocks"], Int, "N", Preset::Int(10000), &SCENARIO, "Blocks of a chain."),
    vllm(&["--block-size"], Int, "TOKENS", Preset::Int(32), &SCENARIO, "Tokens of a block."),
    vllm(&["--vocab-size"], Int, "N", Preset::Int(32000), &SCENARIO, "Tokens are below this number."),
    vllm(&["--trials"], Int, "N", Preset::Int(5), &SCENARIO, "How often each chain is hashed."),
    vllm(&["--algorithms"], OneOrMore, "NAME", Unset, &SCENARIO, "Of sha256, sha256_cbor, xxhash and xxhash_cbor; all without it."),
    own(&["--dry-run"], Switch, "", Off, &OWN, "Print the digests and time nothing."),
    own(&["--save-workload"], Str, "FILE", Unset, &OWN, "Write payload, blocks and digests as JSON."),
];

/// All flags of `tacho hash`.
#[derive(Debug, Clone)]
pub(crate) struct HashArgs {
    /// Whether the functions are compared.
    pub(crate) functions: bool,
    /// Whether the chains are.
    pub(crate) blocks: bool,
    pub(crate) iterations: usize,
    pub(crate) payload_seed: u64,
    pub(crate) spec: BlocksSpec,
    pub(crate) trials: usize,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) dry_run: bool,
    pub(crate) save_workload: Option<String>,
}

impl HashArgs {
    /// Reads and checks the values.
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let usage = |error| ArgError::Usage { command: TABLE.command, error };
        let choice = |flag: &str, value: &str, choices: &[&'static str]| {
            usage(UsageError::BadChoice { flag: flag.to_owned(), value: value.to_owned(), choices: choices.to_vec() })
        };
        let words = v.list("WHAT").unwrap_or_default();
        let (functions, blocks) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => (true, true),
            ["functions"] => (true, false),
            ["blocks"] => (false, true),
            [other, ..] => return Err(choice("WHAT", other, &["functions", "blocks"])),
        };
        let names = v.list("--algorithms").unwrap_or_else(|| Algorithm::NAMES.map(str::to_owned).to_vec());
        let parse =
            |name: &String| Algorithm::parse(name).ok_or_else(|| choice("--algorithms", name, &Algorithm::NAMES));
        // Python's generators take the size of a negative seed.
        let seed = |preset: i64| v.maybe_int("--seed").unwrap_or(preset).unsigned_abs();
        let (num_blocks, block_size) = (at_least(v, "--num-blocks", 1)?, at_least(v, "--block-size", 0)?);
        if num_blocks.saturating_mul(block_size.max(1)) > 1 << 30 {
            let (flag, value, allowed) = ("--num-blocks", num_blocks.to_string(), "no more than 2^30 tokens in all");
            return Err(Refusal::OutOfRange { flag, value, allowed }.into());
        }
        Ok(HashArgs {
            functions,
            blocks,
            iterations: at_least(v, "--iterations", 1)?,
            payload_seed: seed(42),
            spec: BlocksSpec {
                num_blocks,
                block_size,
                vocab_size: at_least(v, "--vocab-size", 1)? as u64,
                seed: seed(0),
            },
            trials: at_least(v, "--trials", 1)?,
            algorithms: names.iter().map(parse).collect::<Result<_, _>>()?,
            dry_run: v.switch("--dry-run"),
            save_workload: v.maybe_text("--save-workload"),
        })
    }
}
