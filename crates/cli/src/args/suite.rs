//! Flags of `tacho suite`. Each setting of vLLM's script is a flag and an environment variable.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_run::suite::Remote;

use super::error::{ArgError, ArgumentError};
use super::offline::rows::LIVE;
use super::shared::live::{self, LiveArgs};

static TESTS: Group = group(
    "test options",
    "test options",
    "Which tests are run. Those with a name in brackets are also read from that environment variable.",
);
static RUNS: Group = group("run options", "run options", "Servers and clients.");
static LEVELS: Group = group("level options", "level options", "Prompts per level, and levels beyond the listed.");

pub(crate) static TABLE: Table = Table {
    command: "tacho suite",
    about: "Run the test files of vLLM's performance suite and report their results.",
    examples: &[
        ("tacho suite .buildkite/performance-benchmarks/tests", "its serving, latency, startup and throughput tests"),
        ("tacho suite serving-tests.json --sim", "the simulator, nothing else needed"),
    ],
    groups: &[&TESTS, &RUNS, &LEVELS, &LIVE],
    flags: rows!(&[HELP], FIRST, live::FLAGS, LAST),
    ..Table::PLAIN
};

flags! {
    /// Arguments of `tacho suite`, from flags and the variables of vLLM's script.
    SuiteArgs? {
        FIRST [
            paths: Vec<PathBuf> = tacho(&["PATH"], Rest(usize::MAX), "DIR | FILE [FILE ...]", Unset, &TESTS,
                "Test files, or their directory. In a directory those for this machine are taken, such as \
                 serving-tests-cpu.json; SERVING_JSON, LATENCY_JSON, STARTUP_JSON and THROUGHPUT_JSON name others.");
            test_selector: String = tacho(&["--test-selector"], Str, "REGEX", DefaultValue::Str(""), &TESTS, "Only tests whose name matches [TEST_SELECTOR].") => text;
            model_filter: String = tacho(&["--model-filter"], Str, "NAME", DefaultValue::Str(""), &TESTS, "Only tests of this model [MODEL_FILTER].") => text;
            dtype_filter: String = tacho(&["--dtype-filter"], Str, "NAME", DefaultValue::Str(""), &TESTS, "Only tests of this dtype [DTYPE_FILTER].") => text;
            on_cpu: bool = tacho(&["--on-cpu"], Switch, "", Off, &TESTS, "Take the tests for CPUs, and count NUMA nodes as devices [ON_CPU]. ON_ARM64_CPU takes those for arm64.") => switched;
            output_dir: PathBuf = tacho(&["-o", "--output-dir"], Str, "DIR", DefaultValue::Str("results"), &RUNS, "Directory of the results.");
            resume: bool = tacho(&["--resume"], Switch, "", Off, &RUNS, "Keep existing results and run the rest.");
            dry_run: bool = tacho(&["--dry-run"], Switch, "", Off, &RUNS,
                "Print the commands of serving tests, write their .commands files, run nothing [DRY_RUN].") => switched;
            sim: bool = tacho(&["--sim"], Switch, "", Off, &RUNS, "Use the built-in simulator as every server and engine.");
            remote_host: String = tacho(&["--remote-host"], Str, "NAME", DefaultValue::Str(""), &RUNS, "Use a running server on this host [REMOTE_HOST].") => text;
            remote_port: String = tacho(&["--remote-port"], Str, "PORT", DefaultValue::Str(""), &RUNS, "Port of that server, if not 8000 [REMOTE_PORT].") => text;
            serve_cmd: String = tacho(&["--serve-cmd"], Str, "COMMAND", DefaultValue::Str("vllm serve"), &RUNS,
                "Server command. The model and the parameters of a test follow it.");
            bench_cmd: String = tacho(&["--bench-cmd"], Str, "COMMAND", DefaultValue::Str("tacho bench"), &RUNS,
                "Client command. serve, latency, startup or throughput follows it; 'vllm bench' works too.");
            reset_caches: bool = tacho(&["--reset-caches"], Switch, "", Off, &RUNS,
                "Reset the caches of the server after each run. Without it they stay as they are, as in vLLM's suite.");
            server_ready_timeout: u64 = tacho(&["--server-ready-timeout"], Int, "SEC", DefaultValue::Int(1200), &RUNS,
                "Seconds that a server may take to become ready.").between(0.0, MAX_SECONDS);
            show_stdout: bool = tacho(&["--show-stdout"], Switch, "", Off, &RUNS, "Show the output of the clients.");
        ]
        LAST [
            prompts_per_concurrency: Option<u64> = tacho(&["--prompts-per-concurrency"], Str, "N", DefaultValue::Str(""), &LEVELS,
                "Prompts per concurrent request instead of what a test says [PROMPTS_PER_CONCURRENCY].") => optional;
            min_num_prompts: u64 = tacho(&["--min-num-prompts"], Str, "N", DefaultValue::Str("1"), &LEVELS, "Minimum prompts per level [MIN_NUM_PROMPTS].") => number;
            max_num_prompts: u64 = tacho(&["--max-num-prompts"], Str, "N", DefaultValue::Str("1000000"), &LEVELS, "Maximum prompts per level [MAX_NUM_PROMPTS].") => number;
            adaptive_concurrency: bool = tacho(&["--adaptive-concurrency"], Switch, "", Off, &LEVELS,
                "Search for the maximum concurrency within the SLOs after the listed levels [ENABLE_ADAPTIVE_CONCURRENCY].") => adaptive;
            sla_ttft_ms: f64 = tacho(&["--sla-ttft-ms"], Str, "MS", DefaultValue::Str("3000"), &LEVELS, "Maximum TTFT [SLA_TTFT_MS].") => milliseconds;
            sla_tpot_ms: f64 = tacho(&["--sla-tpot-ms"], Str, "MS", DefaultValue::Str("100"), &LEVELS, "Maximum TPOT [SLA_TPOT_MS].") => milliseconds;
            adaptive_max_probes: u64 = tacho(&["--adaptive-max-probes"], Str, "N", DefaultValue::Str("8"), &LEVELS,
                "Maximum levels beyond the listed ones [ADAPTIVE_MAX_PROBES].") => number;
            adaptive_max_concurrency: u64 = tacho(&["--adaptive-max-concurrency"], Str, "N", DefaultValue::Str("1024"), &LEVELS,
                "Maximum level [ADAPTIVE_MAX_CONCURRENCY].") => number;
        ]
        ..live: LiveArgs;
    }
}

impl SuiteArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let mut args = Self::parse(v)?;
        if args.paths.is_empty() {
            return Err(super::compare::missing(&TABLE, "DIR | FILE"));
        }
        args.on_cpu |= is_on("ON_ARM64_CPU");
        if args.sim && args.remote().is_some() {
            return Err(ArgumentError::Together { flag: "--sim", other: "--remote-host" }.into());
        }
        Ok(args)
    }

    pub(crate) fn remote(&self) -> Option<Remote> {
        let named = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        named(&self.remote_host).map(|host| Remote { host, port: named(&self.remote_port) })
    }

    pub(crate) fn on_arm64_cpu(&self) -> bool {
        is_on("ON_ARM64_CPU") || cfg!(target_arch = "aarch64")
    }
}

fn is_on(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|text| text == "1")
}

fn variable(setting: Setting<'_>) -> String {
    setting.flag.trim_start_matches('-').replace('-', "_").to_uppercase()
}

fn switched(setting: Setting<'_>) -> Result<bool, ArgumentError> {
    Ok(bool::from_flag(setting) || is_on(&variable(setting)))
}

fn adaptive(setting: Setting<'_>) -> Result<bool, ArgumentError> {
    Ok(bool::from_flag(setting) || is_on("ENABLE_ADAPTIVE_CONCURRENCY"))
}

/// The flag, or its environment variable if the flag is not given.
fn text(setting: Setting<'_>) -> Result<String, ArgumentError> {
    let environment = std::env::var(variable(setting)).ok().filter(|text| !text.is_empty() && !setting.is_set);
    Ok(environment.unwrap_or_else(|| String::from_flag(setting)))
}

fn number(setting: Setting<'_>) -> Result<u64, ArgumentError> {
    let text = text(setting)?;
    text.trim().parse().map_err(|_| ArgumentError::range(setting.flag, text, "a whole number, 0 or more"))
}

fn optional(setting: Setting<'_>) -> Result<Option<u64>, ArgumentError> {
    if text(setting)?.is_empty() { Ok(None) } else { number(setting).map(Some) }
}

fn milliseconds(setting: Setting<'_>) -> Result<f64, ArgumentError> {
    let text = text(setting)?;
    let limit = text.trim().parse().ok().filter(|limit: &f64| *limit > 0.0);
    limit.ok_or_else(|| ArgumentError::range(setting.flag, text, "milliseconds above 0"))
}
