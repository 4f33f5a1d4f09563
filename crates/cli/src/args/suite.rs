//! Flags of `tacho suite`. Each setting of vLLM's script is a flag and an environment variable.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_run::suite::Remote;

use super::error::{ArgError, Refusal};
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
            paths: Vec<PathBuf> = own(&["PATH"], Rest(usize::MAX), "DIR | FILE [FILE ...]", Unset, &TESTS,
                "Test files, or their directory. In a directory those for this machine are taken, such as \
                 serving-tests-cpu.json; SERVING_JSON, LATENCY_JSON, STARTUP_JSON and THROUGHPUT_JSON name others.");
            test_selector: String = own(&["--test-selector"], Str, "REGEX", Preset::Str(""), &TESTS, "Only tests whose name matches [TEST_SELECTOR].") => text;
            model_filter: String = own(&["--model-filter"], Str, "NAME", Preset::Str(""), &TESTS, "Only tests of this model [MODEL_FILTER].") => text;
            dtype_filter: String = own(&["--dtype-filter"], Str, "NAME", Preset::Str(""), &TESTS, "Only tests of this dtype [DTYPE_FILTER].") => text;
            on_cpu: bool = own(&["--on-cpu"], Switch, "", Off, &TESTS, "Take the tests for CPUs, and count NUMA nodes as devices [ON_CPU]. ON_ARM64_CPU takes those for arm64.") => switched;
            output_dir: PathBuf = own(&["-o", "--output-dir"], Str, "DIR", Preset::Str("results"), &RUNS, "Directory of the results.");
            resume: bool = own(&["--resume"], Switch, "", Off, &RUNS, "Keep existing results and run the rest.");
            dry_run: bool = own(&["--dry-run"], Switch, "", Off, &RUNS,
                "Print the commands of serving tests, write their .commands files, run nothing [DRY_RUN].") => switched;
            sim: bool = own(&["--sim"], Switch, "", Off, &RUNS, "Use the built-in simulator as every server and engine.");
            remote_host: String = own(&["--remote-host"], Str, "NAME", Preset::Str(""), &RUNS, "Use a running server on this host [REMOTE_HOST].") => text;
            remote_port: String = own(&["--remote-port"], Str, "PORT", Preset::Str(""), &RUNS, "Port of that server, if not 8000 [REMOTE_PORT].") => text;
            serve_cmd: String = own(&["--serve-cmd"], Str, "COMMAND", Preset::Str("vllm serve"), &RUNS,
                "Server command. The model and the parameters of a test follow it.");
            bench_cmd: String = own(&["--bench-cmd"], Str, "COMMAND", Preset::Str("tacho bench"), &RUNS,
                "Client command. serve, latency, startup or throughput follows it; 'vllm bench' works too.");
            reset_caches: bool = own(&["--reset-caches"], Switch, "", Off, &RUNS,
                "Reset the caches of the server after each run. Without it they stay as they are, as in vLLM's suite.");
            server_ready_timeout: u64 = own(&["--server-ready-timeout"], Int, "SEC", Preset::Int(1200), &RUNS,
                "Seconds that a server may take to become ready.").between(0.0, MOST_SECONDS);
            show_stdout: bool = own(&["--show-stdout"], Switch, "", Off, &RUNS, "Show the output of the clients.");
        ]
        LAST [
            prompts_per_concurrency: Option<u64> = own(&["--prompts-per-concurrency"], Str, "N", Preset::Str(""), &LEVELS,
                "Prompts per concurrent request instead of what a test says [PROMPTS_PER_CONCURRENCY].") => optional;
            min_num_prompts: u64 = own(&["--min-num-prompts"], Str, "N", Preset::Str("1"), &LEVELS, "Minimum prompts per level [MIN_NUM_PROMPTS].") => number;
            max_num_prompts: u64 = own(&["--max-num-prompts"], Str, "N", Preset::Str("1000000"), &LEVELS, "Maximum prompts per level [MAX_NUM_PROMPTS].") => number;
            adaptive_concurrency: bool = own(&["--adaptive-concurrency"], Switch, "", Off, &LEVELS,
                "Search for the maximum concurrency within the SLOs after the listed levels [ENABLE_ADAPTIVE_CONCURRENCY].") => adaptive;
            sla_ttft_ms: f64 = own(&["--sla-ttft-ms"], Str, "MS", Preset::Str("3000"), &LEVELS, "Maximum TTFT [SLA_TTFT_MS].") => milliseconds;
            sla_tpot_ms: f64 = own(&["--sla-tpot-ms"], Str, "MS", Preset::Str("100"), &LEVELS, "Maximum TPOT [SLA_TPOT_MS].") => milliseconds;
            adaptive_max_probes: u64 = own(&["--adaptive-max-probes"], Str, "N", Preset::Str("8"), &LEVELS,
                "Maximum levels beyond the listed ones [ADAPTIVE_MAX_PROBES].") => number;
            adaptive_max_concurrency: u64 = own(&["--adaptive-max-concurrency"], Str, "N", Preset::Str("1024"), &LEVELS,
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
            return Err(Refusal::Together { flag: "--sim", other: "--remote-host" }.into());
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

fn switched(setting: Setting<'_>) -> Result<bool, Refusal> {
    Ok(bool::from_flag(setting) || is_on(&variable(setting)))
}

fn adaptive(setting: Setting<'_>) -> Result<bool, Refusal> {
    Ok(bool::from_flag(setting) || is_on("ENABLE_ADAPTIVE_CONCURRENCY"))
}

/// The flag, or its environment variable if the flag is not given.
fn text(setting: Setting<'_>) -> Result<String, Refusal> {
    let environment = std::env::var(variable(setting)).ok().filter(|text| !text.is_empty() && !setting.is_given);
    Ok(environment.unwrap_or_else(|| String::from_flag(setting)))
}

fn number(setting: Setting<'_>) -> Result<u64, Refusal> {
    let text = text(setting)?;
    text.trim().parse().map_err(|_| Refusal::range(setting.flag, text, "a whole number, 0 or more"))
}

fn optional(setting: Setting<'_>) -> Result<Option<u64>, Refusal> {
    if text(setting)?.is_empty() { Ok(None) } else { number(setting).map(Some) }
}

fn milliseconds(setting: Setting<'_>) -> Result<f64, Refusal> {
    let text = text(setting)?;
    let limit = text.trim().parse().ok().filter(|limit: &f64| *limit > 0.0);
    limit.ok_or_else(|| Refusal::range(setting.flag, text, "milliseconds above 0"))
}
