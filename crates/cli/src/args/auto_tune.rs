//! Flags of `tacho auto-tune`. Each setting of vLLM's script is a flag and an environment variable.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_decide::search::Criterion;

use super::error::{ArgError, ArgumentError, UsageError};
use super::offline::rows::LIVE;
use super::shared::live::{self, LiveArgs};

static LOAD: Group = group("load options", "load options", "Workload and SLOs.");
static TUNING: Group = group(
    "tuning options",
    "tuning options",
    "Settings to tune. Each can also be set by the environment variable in its help.",
);
static SEARCH: Group = group("search options", "search options", "Runs and search.");
static COMMANDS: Group = group("command options", "command options", "Server and client commands.");

pub(crate) static TABLE: Table = Table {
    command: "tacho auto-tune",
    about: "Find the server settings with the highest throughput within a latency limit.",
    examples: &[
        ("tacho auto-tune runs.json", "a list of objects with these settings, one tuning each; results go into it"),
        ("tacho auto-tune --sim --input-len 500 --max-latency-allowed-ms 3000", "the simulator, nothing else needed"),
    ],
    groups: &[&TUNING, &LOAD, &SEARCH, &COMMANDS, &LIVE],
    flags: rows!(&[HELP], FIRST, SETTINGS, LAST, live::FLAGS),
    basics: "\
        --model --tp --num-seqs-list --num-batched-tokens-list --input-len --output-len --max-model-len \
        --min-cache-hit-pct --max-latency-allowed-ms --constraint --num-prompts --num-runs --tolerance --sim \
        --serve-cmd --bench-cmd --serve-params --base --resume --dry-run --live",
    ..Table::PLAIN
};

flags! {
    /// The settings of vLLM's script. Each is also an environment variable.
    TuneFlags {
        SETTINGS [
            base: FlagValue<String> = tacho(&["--base"], Str, "DIR", DefaultValue::Str("."), &TUNING, "Directory of the results, in DIR/auto-benchmark (BASE).");
            model: FlagValue<String> = tacho(&["--model"], Str, "NAME", DefaultValue::Str("meta-llama/Llama-3.1-8B-Instruct"), &TUNING, "Model to serve (MODEL).");
            system: FlagValue<String> = tacho(&["--system"], Str, "NAME", DefaultValue::Str("TPU"), &TUNING, "Kind of machine, for the record only (SYSTEM).");
            tp: FlagValue<String> = tacho(&["--tp"], Str, "N", DefaultValue::Str("1"), &TUNING, "Tensor parallel size (TP).");
            download_dir: FlagValue<String> = tacho(&["--download-dir"], Str, "DIR", DefaultValue::Str(""), &TUNING, "Directory of downloaded models (DOWNLOAD_DIR).");
            input_len: FlagValue<String> = tacho(&["--input-len"], Str, "TOKENS", DefaultValue::Str("4000"), &LOAD, "Prompt length in tokens (INPUT_LEN).");
            output_len: FlagValue<String> = tacho(&["--output-len"], Str, "TOKENS", DefaultValue::Str("16"), &LOAD, "Output length in tokens (OUTPUT_LEN).");
            max_model_len: FlagValue<String> = tacho(&["--max-model-len"], Str, "TOKENS", DefaultValue::Str("4096"), &LOAD,
                "Maximum tokens of prompt and output (MAX_MODEL_LEN).");
            min_cache_hit_pct: FlagValue<String> = tacho(&["--min-cache-hit-pct"], Str, "PERCENT", DefaultValue::Str("0"), &LOAD,
                "Shared prefix, as a percentage of each prompt (MIN_CACHE_HIT_PCT).");
            max_latency_allowed_ms: FlagValue<String> = tacho(&["--max-latency-allowed-ms"], Str, "MS", DefaultValue::Str("100000000000"), &LOAD,
                "Maximum p99 end-to-end latency (MAX_LATENCY_ALLOWED_MS).");
            num_seqs_list: FlagValue<Vec<String>> = tacho(&["--num-seqs-list"], OneOrMore, "N", Unset, &TUNING,
                "Values of max_num_seqs to try (NUM_SEQS_LIST; default: 128 256).");
            num_batched_tokens_list: FlagValue<Vec<String>> = tacho(&["--num-batched-tokens-list"], OneOrMore, "TOKENS", Unset, &TUNING,
                "Values of max_num_batched_tokens to try (NUM_BATCHED_TOKENS_LIST; default: 512 1024 2048 4096).");
            vllm_logging_level: FlagValue<String> = tacho(&["--vllm-logging-level"], Str, "LEVEL", DefaultValue::Str("INFO"), &TUNING,
                "Log level of the server (VLLM_LOGGING_LEVEL).");
        ]
    }
}

flags! {
    AutoTuneArgs? {
        FIRST [
            /// The batch file, and the upload destination of its results.
            batch: Option<(PathBuf, Option<String>)> = tacho(&["FILE"], Rest(usize::MAX), "[FILE [GCS_PATH]]", Unset, &TUNING,
                "JSON list of tunings to run one after another. Results are written back into it, and uploaded to GCS_PATH.") => batch;
        ]
        LAST [
            serve_params: Option<String> = tacho(&["--serve-params"], Str, "FILE", Unset, &TUNING,
                "JSON file with further server settings to try. Each set is combined with each pair of the two lists.");
            constraints: Vec<Criterion> = tacho(&["--constraint"], Repeated, "CONDITION", Unset, &LOAD,
                "Further SLOs, such as 'p99_ttft_ms<=200': any metric of a result with <=, <, >= or >.") => constraints;
            num_prompts: u64 = tacho(&["--num-prompts"], Int, "N", DefaultValue::Int(1000), &SEARCH, "Prompts per measured run.").at_least(1);
            num_warmups: u64 = tacho(&["--num-warmups"], Int, "N", DefaultValue::Int(10), &SEARCH, "Warm-up requests before each run.").at_least(0);
            num_runs: usize = tacho(&["--num-runs"], Int, "N", DefaultValue::Int(3), &SEARCH,
                "Runs at the load that is chosen for a pair. Their spread gives the interval of the answer.").at_least(1);
            tolerance: f64 = tacho(&["--tolerance"], Float, "SHARE", DefaultValue::Float(0.0), &SEARCH,
                "Precision of the request rate, as a fraction of it. 0 finds it exactly.").between(0.0, 0.99);
            skip_profile: bool = tacho(&["--skip-profile"], Switch, "", Off, &SEARCH, "Skip the profiled run of the best settings.");
            resume: Option<Option<String>> = tacho(&["--resume"], OptionalStr, "RUN", Off, &SEARCH,
                "Resume an interrupted tuning. RUN is its directory in auto-benchmark (default: the newest).");
            dry_run: bool = tacho(&["--dry-run"], Switch, "", Off, &SEARCH, "Print the commands and run none.");
            sim: bool = tacho(&["--sim"], Switch, "", Off, &COMMANDS, "Use the built-in simulator as the server.");
            serve_cmd: Option<String> = tacho(&["--serve-cmd"], Str, "COMMAND", Unset, &COMMANDS,
                "Server command instead of 'vllm serve MODEL ...'. The settings that are tried are put into it.");
            bench_cmd: String = tacho(&["--bench-cmd"], Str, "COMMAND", DefaultValue::Str("tacho serve"), &COMMANDS,
                "Client command. 'vllm bench serve' works too.");
            after_bench_cmd: Option<String> = tacho(&["--after-bench-cmd"], Str, "COMMAND", Unset, &COMMANDS,
                "Command to run after each run. Without it the caches of the server are reset.");
            host: String = tacho(&["--host"], Str, "NAME", DefaultValue::Str("localhost"), &COMMANDS, "Address of the server.");
            port: i64 = tacho(&["--port"], Int, "PORT", DefaultValue::Int(8004), &COMMANDS, "Port of the server.");
            load_format: String = tacho(&["--load-format"], Str, "NAME", DefaultValue::Str("dummy"), &COMMANDS,
                "Load format of the weights. dummy is quick, but its routing and acceptance are not those of a real model.");
            server_ready_timeout: u64 = tacho(&["--server-ready-timeout"], Int, "SEC", DefaultValue::Int(600), &COMMANDS,
                "Seconds that a server may take to become ready.").between(0.0, MAX_SECONDS);
            show_stdout: bool = tacho(&["--show-stdout"], Switch, "", Off, &COMMANDS, "Show the output of the clients.");
        ]
        ..tuning: TuneFlags;
        ..live: LiveArgs;
    }
}

/// Environment variables of the script: the flags of [`TuneFlags`] in upper case.
pub(crate) fn variables() -> impl Iterator<Item = String> {
    SETTINGS.iter().map(|flag| flag.dest().to_uppercase())
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TuneSettings {
    pub(crate) base: PathBuf,
    pub(crate) model: String,
    pub(crate) model_named: bool,
    pub(crate) system: String,
    pub(crate) tp: u64,
    pub(crate) download_dir: String,
    pub(crate) input_len: u64,
    pub(crate) output_len: u64,
    pub(crate) max_model_len: u64,
    pub(crate) min_cache_hit_pct: u64,
    /// As given, for the result lines.
    pub(crate) max_latency_text: String,
    pub(crate) max_latency_ms: f64,
    pub(crate) num_seqs: Vec<u64>,
    pub(crate) num_batched_tokens: Vec<u64>,
    pub(crate) logging_level: String,
}

impl AutoTuneArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = AutoTuneArgs::parse(v)?;
        if args.sim && args.serve_cmd.is_some() {
            return Err(ArgumentError::Together { flag: "--sim", other: "--serve-cmd" }.into());
        }
        Ok(args)
    }

    /// Resolves the settings: a batch entry takes precedence over flags, and flags over the environment.
    pub(crate) fn settings(&self, entry: &dyn Fn(&str) -> Option<String>) -> Result<TuneSettings, ArgumentError> {
        let flags = &self.tuning;
        let given = |variable: &str, typed: Option<String>| {
            let environment = || std::env::var(variable).ok().filter(|text| !text.is_empty());
            entry(variable).or(typed).or_else(environment)
        };
        let text = |variable: &str, flag: &FlagValue<String>| {
            given(variable, flag.typed().cloned()).unwrap_or_else(|| flag.value.clone())
        };
        let whole = |variable: &'static str, flag: &FlagValue<String>| number(variable, &text(variable, flag));
        let list = |variable: &'static str, flag: &FlagValue<Vec<String>>, default: &str| {
            let typed = flag.typed().map(|args| args.join(" "));
            let list = given(variable, typed).unwrap_or_else(|| default.to_owned());
            let parts = list.split([' ', ',', '\t', '\n']).filter(|part| !part.is_empty());
            let numbers: Vec<u64> = parts.map(|part| number(variable, part)).collect::<Result<_, _>>()?;
            match numbers.iter().all(|&number| number > 0) && !numbers.is_empty() {
                true => Ok(numbers),
                false => Err(ArgumentError::range(variable, list, "whole numbers above 0")),
            }
        };
        let max_latency_text = text("MAX_LATENCY_ALLOWED_MS", &flags.max_latency_allowed_ms);
        let settings = TuneSettings {
            base: text("BASE", &flags.base).into(),
            model: text("MODEL", &flags.model),
            model_named: given("MODEL", flags.model.typed().cloned()).is_some(),
            system: text("SYSTEM", &flags.system),
            tp: whole("TP", &flags.tp)?,
            download_dir: text("DOWNLOAD_DIR", &flags.download_dir),
            input_len: whole("INPUT_LEN", &flags.input_len)?,
            output_len: whole("OUTPUT_LEN", &flags.output_len)?,
            max_model_len: whole("MAX_MODEL_LEN", &flags.max_model_len)?,
            min_cache_hit_pct: whole("MIN_CACHE_HIT_PCT", &flags.min_cache_hit_pct)?,
            max_latency_ms: max_latency_text.trim().parse().unwrap_or(f64::NAN),
            max_latency_text,
            num_seqs: list("NUM_SEQS_LIST", &flags.num_seqs_list, "128 256")?,
            num_batched_tokens: list("NUM_BATCHED_TOKENS_LIST", &flags.num_batched_tokens_list, "512 1024 2048 4096")?,
            logging_level: text("VLLM_LOGGING_LEVEL", &flags.vllm_logging_level),
        };
        settings.check()?;
        Ok(settings)
    }
}

impl TuneSettings {
    fn check(&self) -> Result<(), ArgumentError> {
        if !(self.max_latency_ms.is_finite() && self.max_latency_ms > 0.0) {
            return Err(ArgumentError::range("MAX_LATENCY_ALLOWED_MS", &self.max_latency_text, "milliseconds above 0"));
        }
        if self.min_cache_hit_pct > 100 {
            return Err(ArgumentError::range(
                "MIN_CACHE_HIT_PCT",
                self.min_cache_hit_pct,
                "a percentage from 0 to 100",
            ));
        }
        if self.input_len + self.output_len > self.max_model_len {
            let allowed = "INPUT_LEN and OUTPUT_LEN together or more";
            return Err(ArgumentError::range("MAX_MODEL_LEN", self.max_model_len, allowed));
        }
        Ok(())
    }

    /// Tokens of the shared prefix, and tokens unique to each prompt.
    pub(crate) fn prefix_and_own(&self) -> (u64, u64) {
        let prefix = self.input_len * self.min_cache_hit_pct / 100;
        (prefix, self.input_len - prefix)
    }
}

fn number(variable: &'static str, text: &str) -> Result<u64, ArgumentError> {
    text.trim().parse().map_err(|_| ArgumentError::range(variable, text, "a whole number"))
}

fn batch(setting: Setting<'_>) -> Result<Option<(PathBuf, Option<String>)>, ArgError> {
    let mut argv = Vec::<String>::from_flag(setting);
    if argv.len() > 2 {
        let error = UsageError::Unrecognized { tokens: argv.split_off(2) };
        return Err(ArgError::Usage { command: TABLE.command, error });
    }
    let mut argv = argv.into_iter();
    Ok(argv.next().map(|file| (PathBuf::from(file), argv.next())))
}

fn constraints(setting: Setting<'_>) -> Result<Vec<Criterion>, ArgumentError> {
    let constraint = |text: String| {
        text.parse().map_err(|_| ArgumentError::range(setting.flag, &text, "a condition such as p99_ttft_ms<=200"))
    };
    Vec::<String>::from_flag(setting).into_iter().map(constraint).collect()
}
