//! Flags of `tacho structured-output`.

use std::path::Path;

use tacho_args::declare::*;
use tacho_core::json::{Dict, Value, dumps};
use tacho_workload::scenarios::{ConstraintField, ConstraintKind, StructuredDataset};

use super::{MAX_SEED, SCENARIO, SERVER, TACHO, as_serve};
use crate::args::error::{ArgError, ArgumentError, unfit_dataset};
use crate::args::shared::sign_in::{self, SIGN_IN};
use crate::args::shared::tags::WRITES;
use crate::{args::offline::rows::LIVE, args::serve::ServeArgs, args::shared::live};

const BACKENDS: &[&str] = &[
    "tgi",
    "vllm",
    "lmdeploy",
    "deepspeed-mii",
    "openai",
    "openai-chat",
    "openai-audio",
    "tensorrt-llm",
    "scalellm",
    "sglang",
    "llama.cpp",
];

static CONSTRAINT: Group = group("constraint options", "options", "Kind of constraint and how requests carry it.");
static RESULT: Group = group("result options", "options", "Metrics and result files.");

pub(crate) static TABLE: Table = Table {
    command: "tacho structured-output",
    about: "Benchmark structured output: JSON schemas, grammars, regular expressions, choices.",
    examples: &[
        (
            "tacho structured-output --model Qwen/Qwen3-8B --dataset json --num-prompts 200",
            "200 answers under one schema",
        ),
        ("tacho structured-output --sim --dataset choice --structured-output-ratio 0.5", "half of them, simulated"),
    ],
    groups: &[&SERVER, &SIGN_IN, &SCENARIO, &CONSTRAINT, &RESULT, &TACHO, &LIVE],
    flags: rows!(FLAGS, sign_in::FLAGS),
    basics: "\
        --base-url --host --port --sim --backend --model --tokenizer --dataset --json-schema-path --num-prompts \
        --output-len --request-rate --max-concurrency --structured-output-ratio --no-structured-output \
        --structure-type --constraint-field --goodput --metric-percentiles --save-results --result-dir --seed \
        --live",
    ..Table::PLAIN
};

flags! {
    /// The flags of `tacho structured-output`. Rows without a field are passed on to `tacho serve`.
    StructuredFlags {
        FLAGS [
            - HELP;
            backend: String = vllm(&["--backend"], Choice(BACKENDS), "NAME", DefaultValue::Str("vllm"), &SERVER, "Wire protocol of the server.");
            - vllm(&["--base-url"], Str, "URL", Unset, &SERVER, "Server address with scheme, instead of --host and --port.");
            - vllm(&["--host"], Str, "HOST", DefaultValue::Str("127.0.0.1"), &SERVER, "Server name or address.");
            - vllm(&["--port"], Int, "PORT", DefaultValue::Int(8000), &SERVER, "Server port.");
            - vllm(&["--endpoint"], Str, "PATH", DefaultValue::Str("/v1/completions"), &SERVER, "API path. If unset, that of the backend.");
            dataset: StructuredDataset = vllm(&["--dataset"], Choice(&StructuredDataset::NAMES), "NAME", DefaultValue::Str("json"), &SCENARIO,
                "Prompts and constraints. xgrammar_bench is NousResearch/json-mode-eval of the Hub.") => named;
            json_schema_path: Option<String> = vllm(&["--json-schema-path"], Str, "FILE", Unset, &SCENARIO, "Schema of json and json-unique, instead of the built-in one.");
            - vllm(&["--max-concurrency"], Int, "N", Unset, &SERVER, "Maximum requests in flight.");
            model: Option<String> = vllm(&["--model"], Str, "NAME", Unset, &SERVER, "Model to request (default: the first one that the server lists).");
            - vllm(&["--tokenizer"], Str, "NAME", Unset, &SERVER, "Tokenizer: a Hub id or a directory (default: the model's).");
            - vllm(&["--tokenizer-mode"], Str, "MODE", DefaultValue::Str("auto"), &SERVER, "How the tokenizer is loaded.");
            num_prompts: usize = vllm(&["--num-prompts"], Int, "N", DefaultValue::Int(1000), &SCENARIO, "Number of requests.").at_least(1);
            output_len: i64 = vllm(&["--output-len"], Int, "TOKENS", DefaultValue::Int(128), &SCENARIO, "Maximum output tokens.").at_least(0);
            - vllm(&["--request-rate"], Float, "RPS", DefaultValue::Float(f64::INFINITY), &SCENARIO, "Requests per second; inf sends all at once.");
            - vllm(&["--burstiness"], Float, "SHAPE", DefaultValue::Float(1.0), &SCENARIO, "Shape of the gamma distribution of interarrival times. 1 is a Poisson process.");
            seed: u64 = vllm(&["--seed"], Int, "SEED", DefaultValue::Int(0), &SCENARIO, "Seed of the constrained subset, arrival times and prefix.").between(0.0, MAX_SEED);
            - vllm(&["--trust-remote-code"], Switch, "", Off, &SERVER, "Accepted for old scripts. Has no effect.");
            - vllm(&["--disable-tqdm"], Switch, "", Off, &RESULT, "Show no progress bars.");
            save_results: bool = vllm(&["--save-results"], Switch, "", Off, &RESULT, "Write the result file.");
            - vllm(&["--profile"], Switch, "", Off, &SERVER, "Start the server's profiler for the run.");
            result_dir: Option<String> = vllm(&["--result-dir"], Str, "DIR", Unset, &RESULT, "Directory of the result file; created if missing.");
            - vllm(&["--result-filename"], Str, "FILE", Unset, &RESULT, "Name of the result file.").tagged(WRITES);
            - vllm(&["--ignore-eos"], Switch, "", Off, &SCENARIO, "Generate the full output length, past the end of text.");
            - vllm(&["--percentile-metrics"], Str, "NAMES", DefaultValue::Str("ttft,tpot,itl"), &RESULT, "Latencies to report: ttft, tpot, itl, e2el.");
            - vllm(&["--metric-percentiles"], Str, "LIST", DefaultValue::Str("99"), &RESULT, "Percentiles to report, separated by commas.");
            - vllm(&["--goodput"], OneOrMore, "NAME:MS", Unset, &RESULT, "SLOs of a request in milliseconds: ttft, tpot or e2el.");
            no_structured_output: bool = vllm(&["--no-structured-output"], Switch, "", Off, &SCENARIO, "Send no constraints: the baseline.");
            structured_output_ratio: f64 = vllm(&["--structured-output-ratio"], Float, "SHARE", DefaultValue::Float(1.0), &SCENARIO, "Fraction of the requests with a constraint.");
            random_prefix_len: usize = vllm(&["--random-prefix-len"], Int, "TOKENS", DefaultValue::Int(0), &SCENARIO, "Random tokens before every prompt.").at_least(0);
            structure_type: Option<String> = tacho(&["--structure-type"], Choice(&["json", "grammar", "regex", "choice"]), "KIND", Unset, &CONSTRAINT,
                "Kind of constraint, as in vLLM's documentation. It must match --dataset.");
            constraint_field: String = tacho(&["--constraint-field"], Choice(&ConstraintField::NAMES), "NAME", DefaultValue::Str("structured_outputs"), &CONSTRAINT,
                "Field of a request with the constraint. structured_outputs is vLLM's member; json_schema and json_object are OpenAI's response_format of \
                these types, for the JSON datasets.");
            constraint_options: FlagValue<Value> = tacho(&["--constraint-options"], Json, "JSON", Unset, &CONSTRAINT,
                "Further members of structured_outputs. disable_any_whitespace, disable_additional_properties, whitespace_pattern.");
            - tacho(&["--header"], AnyNumber, "KEY=VALUE", Unset, &TACHO, "Headers sent with every request.");
            - tacho(&["--served-model-name"], Str, "NAME", Unset, &TACHO, "Model name in requests, if it differs from --model.");
            - tacho(&["--sim"], Switch, "", Off, &TACHO, "Benchmark the built-in simulator.");
            - tacho(&["--sim-profile"], Str, "NAME", Unset, &TACHO, "Hardware and model the simulator imitates.");
            - tacho(&["--workers"], Int, "N", Unset, &TACHO, "Threads that send and receive.");
            - tacho(&["--timeout"], Seconds, "SEC", DefaultValue::Float(21600.0), &TACHO, "Maximum seconds per request.");
            dry_run: bool = tacho(&["--dry-run"], Switch, "", Off, &TACHO, "Generate the workload and show it without sending it.");
            save_workload: Option<String> = tacho(&["--save-workload"], Str, "FILE", Unset, &TACHO,
                "Write the requests as JSON lines: index, prompt, prompt_len, output_len, extra_body.").tagged(WRITES);
            - tacho(&["--quiet"], Switch, "", Off, &TACHO, "Print only the report.");
            - live::SCREEN;
            - live::HTTP;
            sweep_request_rates: Option<String> = tacho(&["--sweep-request-rates"], Str, "LIST", Unset, &TACHO,
                "Run once for each of these rates, as vLLM's companion script does with 25,20,15,10,5,1. A result file each in \
                --result-dir, structured_output_benchmark_results without it.");
            sweep_seconds: f64 = tacho(&["--sweep-seconds"], Float, "SEC", DefaultValue::Float(90.0), &TACHO, "Seconds per run of a sweep; its requests are the rate times this.");
        ]
    }
}

#[derive(Debug, Clone)]
pub(crate) struct StructuredArgs {
    pub(crate) flags: StructuredFlags,
    pub(crate) field: ConstraintField,
    /// The runs of a sweep; empty for a single run.
    pub(crate) sweep: Vec<StructuredArgs>,
    /// Server, traffic, and report as arguments of `tacho serve`.
    pub(crate) serve: ServeArgs,
}

impl StructuredArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let mut args = StructuredArgs::one(v)?;
        if let Some(rates) = &args.flags.sweep_request_rates {
            args.sweep = rates.split(',').map(|rate| args.flags.point(v, rate.trim())).collect::<Result<_, _>>()?;
        }
        Ok(args)
    }

    fn one(v: &Values) -> Result<Self, ArgError> {
        let flags = StructuredFlags::from(v);
        let (dataset, backend) = (flags.dataset, flags.backend.as_str());
        if backend == "openai-audio" {
            return Err(unfit_dataset("structured-output", backend, "audio").into());
        }
        if let Some(kind) = flags.structure_type.as_ref().filter(|kind| *kind != dataset.kind().name()) {
            return Err(ArgumentError::range("--structure-type", kind, dataset.kind().name()).into());
        }
        let ratio = flags.structured_output_ratio;
        let num_prompts = flags.num_prompts;
        let constrained = (num_prompts as f64 * ratio).floor();
        if !(0.0..=num_prompts as f64).contains(&constrained) || ratio < 0.0 {
            return Err(ArgumentError::range("--structured-output-ratio", ratio, "0 to 1").into());
        }
        // vLLM's script sets the temperature before all other settings, as the `lmdeploy` backend does.
        let kind = match backend {
            "vllm" | "openai" => "lmdeploy",
            other => other,
        };
        let mut fixed = vec![("--backend", kind), ("--save-detailed", "")];
        if kind == "openai-chat" {
            fixed.push(("--temperature", "0.0"));
        }
        let serve = as_serve(v, &fixed)?;
        Ok(StructuredArgs { field: field(&flags)?, flags, sweep: Vec::new(), serve })
    }
}

impl StructuredFlags {
    /// Fraction of the requests with a constraint; `None` if constraints are disabled.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (!self.no_structured_output).then_some(self.structured_output_ratio)
    }

    fn point(&self, v: &Values, rate: &str) -> Result<StructuredArgs, ArgError> {
        let number = rate.parse::<f64>().ok().filter(|rate| *rate > 0.0 && rate.is_finite());
        let number = number
            .ok_or_else(|| ArgumentError::range("--sweep-request-rates", rate, "rates above 0, such as 25,10,1"))?;
        let seconds = self.sweep_seconds;
        let prompts = (seconds * number).floor();
        if !(1.0..1e9).contains(&prompts) {
            let allowed = "enough for one request, and fewer than 1e9";
            return Err(ArgumentError::range("--sweep-seconds", seconds, allowed).into());
        }
        let mut point = v.clone();
        let usage = |error| ArgError::Usage { command: TABLE.command, error };
        point.set("--request-rate", rate).map_err(usage)?;
        point.set("--num-prompts", &format!("{prompts:.0}")).map_err(usage)?;
        point.set("--save-results", "").map_err(usage)?;
        if self.result_dir.is_none() {
            point.set("--result-dir", "structured_output_benchmark_results").map_err(usage)?;
        }
        let model = self.model.as_deref().unwrap_or("model");
        let model = model.rsplit('/').next().unwrap_or_default();
        let (hash, branch) = (git(&["rev-parse", "--short", "HEAD"]), git(&["branch", "--show-current"]));
        let name = format!("{}_{rate}qps_{model}_{}_{hash}_{branch}.json", self.backend, self.dataset.name());
        point.set("--result-filename", &name.replace('/', "-")).map_err(usage)?;
        StructuredArgs::one(&point)
    }
}

/// The request field that carries the constraint. Rejects a field that does not support the options.
fn field(flags: &StructuredFlags) -> Result<ConstraintField, ArgumentError> {
    let name = flags.constraint_field.clone();
    let given = flags.constraint_options.is_set;
    if given && name != "structured_outputs" {
        return Err(ArgumentError::Alone {
            flag: "--constraint-options",
            other: "--constraint-field structured_outputs",
        });
    }
    let allowed = "an object of disable_any_whitespace, disable_additional_properties and whitespace_pattern";
    let bad = |value: &str| ArgumentError::range("--constraint-options", value, allowed);
    let options = match &flags.constraint_options.value {
        _ if !given => Dict::new(),
        Value::Dict(options) => options.clone(),
        other => return Err(bad(&dumps(other))),
    };
    if let Some((name, _)) = options.iter().find(|(name, _)| !ConstraintField::OPTIONS.contains(name)) {
        return Err(bad(name));
    }
    if name != "structured_outputs" && flags.dataset.kind() != ConstraintKind::Json {
        let allowed = "structured_outputs: response_format knows JSON alone";
        return Err(ArgumentError::range("--constraint-field", name, allowed));
    }
    Ok(ConstraintField::parse(&name, options).expect("the flag has the names as choices"))
}

/// Output of git in the current directory.
fn git(args: &[&str]) -> String {
    crate::git::git(Path::new("."), args).unwrap_or_else(|| "unknown".to_owned())
}
