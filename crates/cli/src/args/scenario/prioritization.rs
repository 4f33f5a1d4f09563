//! Flags of `tacho prioritization`.

use tacho_args::declare::*;
use tacho_workload::scenarios::{PrioritizationSpec, PrioritySource};

use super::{BATCH, BATCH_ROWS, BatchArgs, DISABLE_DETOKENIZE, Execution, SCENARIO, TACHO, engine_alone, seed};
use crate::args::error::{ArgError, ArgumentError};
use crate::{args::compare::missing, args::shared::tags::NEEDS_SERVER};

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
    flags: rows!(&[HELP, BACKEND], FIRST, RATE, BATCH_ROWS),
    basics: "\
        --base-url --port --backend --sim --model --dataset --input-len --output-len --num-prompts \
        --request-rate --priority-weights --max-concurrency --max-num-seqs --seed --output-json --dry-run --live",
    ..BATCH
};

const BACKEND: Flag = vllm(
    &["--backend"],
    Choice(&["vllm", "hf", "mii", "sim", "openai"]),
    "NAME",
    DefaultValue::Str("vllm"),
    &SCENARIO,
    "Engine or server: vllm runs the engine in a worker, openai is a running server, sim the simulator; hf and mii have no priorities.",
);

flags! {
    PrioritizationFlags {
        FIRST [
            dataset: Option<String> = vllm(&["--dataset"], Str, "FILE", Unset, &SCENARIO, "ShareGPT file of the prompts.");
            input_len: Option<usize> = vllm(&["--input-len"], Int, "TOKENS", Unset, &SCENARIO, "Length of a random prompt in tokens; required without --dataset.").at_least(0).excludes(&["--dataset"]);
            output_len: Option<i64> = vllm(&["--output-len"], Int, "TOKENS", Unset, &SCENARIO, "Output length in tokens, instead of that of the recorded response.").at_least(0);
            n: u64 = vllm(&["--n"], Int, "N", DefaultValue::Int(1), &SCENARIO, "Sequences per prompt.").at_least(1);
            num_prompts: usize = vllm(&["--num-prompts"], Int, "N", DefaultValue::Int(200), &SCENARIO, "Number of requests.").at_least(1);
            disable_detokenize: bool = DISABLE_DETOKENIZE;
            priority_weights: String = tacho(&["--priority-weights"], Str, "LIST", DefaultValue::Str("0.5,0.5"), &TACHO,
                "Fractions of the priorities 0, 1 and so on, separated by commas. Two halves are vLLM's.");
        ]
        ..batch: BatchArgs;
    }
}

/// Passed on to `tacho serve`.
#[rustfmt::skip]
const RATE: &[Flag] = &[
    tacho(&["--request-rate"], Float, "RPS", DefaultValue::Float(f64::INFINITY), &TACHO, "Requests per second to a server; inf sends all at once.").tagged(NEEDS_SERVER),
];

#[derive(Debug, Clone)]
pub(crate) struct PrioritizationArgs {
    pub(crate) spec: PrioritizationSpec,
    pub(crate) execution: Execution,
    pub(crate) n: u64,
    pub(crate) detokenize: bool,
    pub(crate) batch: BatchArgs,
}

impl PrioritizationArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let flags = PrioritizationFlags::from(v);
        let backend = &flags.batch.backend.value;
        if matches!(backend.as_str(), "hf" | "mii") {
            let allowed = "vllm, openai or sim: the others know no priorities";
            return Err(ArgumentError::range("--backend", backend, allowed).into());
        }
        let execution = engine_alone(flags.disable_detokenize, Execution::of(&flags.batch)?, "--disable-detokenize")?;
        let source = match (flags.dataset, flags.input_len, flags.output_len) {
            (Some(_), _, Some(len)) if len < 4 => {
                return Err(ArgumentError::range("--output-len", len, "4 or more with --dataset").into());
            }
            (Some(path), _, output_len) => PrioritySource::Recorded { path: path.into(), output_len },
            (None, Some(input_len), Some(output_len)) => PrioritySource::Synthetic { input_len, output_len },
            (None, _, _) => return Err(missing(&TABLE, "--dataset, or --input-len and --output-len")),
        };
        let weights = flags.priority_weights;
        let parsed: Option<Vec<f64>> = weights.split(',').map(|part| part.trim().parse().ok()).collect();
        let sound = |weights: &Vec<f64>| {
            weights.iter().all(|weight| *weight >= 0.0 && weight.is_finite()) && weights.iter().sum::<f64>() > 0.0
        };
        let refusal = || ArgumentError::range("--priority-weights", weights, "shares such as 0.2,0.3,0.5");
        let parsed = parsed.filter(sound).ok_or_else(refusal)?;
        let spec = PrioritizationSpec {
            seed: seed(flags.batch.engine.seed)?,
            num_prompts: flags.num_prompts,
            source,
            weights: parsed,
        };
        Ok(PrioritizationArgs {
            spec,
            execution,
            n: flags.n,
            detokenize: !flags.disable_detokenize,
            batch: flags.batch,
        })
    }
}
