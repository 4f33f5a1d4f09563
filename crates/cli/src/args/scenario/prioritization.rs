//! What was typed after `tacho prioritization`.

use tacho_args::flag::{Flag, Kind, Preset, Table, own, rows, vllm};
use tacho_args::grammar::Values;
use tacho_workload::scenarios::{PrioritizationSpec, PrioritySource};

use super::{LIVE, OWN, SCENARIO, SERVER, SERVER_ROWS, Way, at_least, engine_alone, seed, tokens};
use crate::args::compare::missing;
use crate::args::engine::{self, CAPACITY, ENGINE};
use crate::args::error::{ArgError, Refusal};
use crate::args::live;
use crate::args::offline::rows::{DISABLE_DETOKENIZE, HELP, RUN, WORKER_ROWS};
use crate::args::offline::{EngineArgs, WorkerArgs};

use Kind::{Choice, Float, Int, Str};
use Preset::Unset;

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho prioritization",
    about: "Benchmark requests of several priorities, the lower ones served first.",
    examples: &[
        (
            "tacho prioritization --backend openai --input-len 128 --output-len 64 --num-prompts 200",
            "against a server with --scheduling-policy priority",
        ),
        ("tacho prioritization --backend sim --input-len 32 --output-len 16", "simulated"),
    ],
    groups: &[&SCENARIO, &SERVER, &OWN, &LIVE, &RUN, &ENGINE, &CAPACITY],
    flags: rows!(FIRST, SERVER_ROWS, live::FLAGS, WORKER_ROWS, engine::FLAGS),
    ..Table::PLAIN
};

#[rustfmt::skip]
const FIRST: &[Flag] = &[
    HELP,
    vllm(&["--backend"], Choice(&["vllm", "hf", "mii", "sim", "openai"]), "NAME", Preset::Str("vllm"), &SCENARIO,
        "What answers. vllm is the engine in a worker, openai a running server, sim the simulator; hf and mii have no priorities."),
    vllm(&["--dataset"], Str, "FILE", Unset, &SCENARIO, "ShareGPT file of the prompts."),
    vllm(&["--input-len"], Int, "TOKENS", Unset, &SCENARIO, "Length of a made-up prompt. Needed without --dataset."),
    vllm(&["--output-len"], Int, "TOKENS", Unset, &SCENARIO, "Tokens to generate, in place of the recorded answer's."),
    vllm(&["--n"], Int, "N", Preset::Int(1), &SCENARIO, "Sequences generated for each prompt."),
    vllm(&["--num-prompts"], Int, "N", Preset::Int(200), &SCENARIO, "Requests."),
    DISABLE_DETOKENIZE,
    own(&["--priority-weights"], Str, "LIST", Preset::Str("0.5,0.5"), &OWN,
        "Shares of the priorities 0, 1 and so on, with commas. Two halves are vLLM's."),
    own(&["--request-rate"], Float, "RPS", Preset::Float(f64::INFINITY), &OWN, "Requests per second to a server; inf sends all at once."),
];

/// All flags of `tacho prioritization`.
#[derive(Debug, Clone)]
pub(crate) struct PrioritizationArgs {
    pub(crate) spec: PrioritizationSpec,
    pub(crate) way: Way,
    pub(crate) n: u64,
    pub(crate) detokenize: bool,
    pub(crate) engine: EngineArgs,
    pub(crate) worker: WorkerArgs,
    pub(crate) values: Values,
}

impl PrioritizationArgs {
    /// Reads and checks the values.
    pub(crate) fn read(v: Values) -> Result<Self, ArgError> {
        let out = |flag, value: String, allowed| Refusal::OutOfRange { flag, value, allowed };
        let backend = v.text("--backend");
        if matches!(backend.as_str(), "hf" | "mii") {
            return Err(out("--backend", backend, "vllm, openai or sim: the others know no priorities").into());
        }
        let way = engine_alone(&v, Way::of(&v)?, "--disable-detokenize")?;
        if way == Way::Engine && v.is_given("--request-rate") {
            return Err(Refusal::Alone { flag: "--request-rate", other: "--backend openai or --backend sim" }.into());
        }
        let output_len = v.is_given("--output-len").then(|| tokens(&v, "--output-len")).transpose()?;
        let source = match (v.maybe_text("--dataset"), v.is_given("--input-len"), output_len) {
            (Some(_), true, _) => {
                return Err(Refusal::Together { flag: "--input-len", other: "--dataset" }.into());
            }
            (Some(_), false, Some(len)) if len < 4 => {
                return Err(out("--output-len", len.to_string(), "4 or more with --dataset").into());
            }
            (Some(path), false, output_len) => PrioritySource::Recorded { path: path.into(), output_len },
            (None, true, Some(output_len)) => {
                PrioritySource::Synthetic { input_len: tokens(&v, "--input-len")?.unsigned_abs() as usize, output_len }
            }
            (None, _, _) => return Err(missing(&TABLE, "--dataset, or --input-len and --output-len")),
        };
        let weights = v.text("--priority-weights");
        let parsed: Option<Vec<f64>> = weights.split(',').map(|part| part.trim().parse().ok()).collect();
        let sound = |weights: &Vec<f64>| {
            weights.iter().all(|weight| *weight >= 0.0 && weight.is_finite()) && weights.iter().sum::<f64>() > 0.0
        };
        let parsed =
            parsed.filter(sound).ok_or_else(|| out("--priority-weights", weights, "shares such as 0.2,0.3,0.5"))?;
        let spec = PrioritizationSpec {
            seed: seed(&v, "--seed")?,
            num_prompts: at_least(&v, "--num-prompts", 1)?,
            source,
            weights: parsed,
        };
        Ok(PrioritizationArgs {
            spec,
            way,
            n: at_least(&v, "--n", 1)? as u64,
            detokenize: !v.switch("--disable-detokenize"),
            engine: EngineArgs::from(&v),
            worker: WorkerArgs::from(&v),
            values: v,
        })
    }
}
