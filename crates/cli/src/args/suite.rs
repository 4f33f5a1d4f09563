//! Flags of `tacho suite`. Each setting of vLLM's script is a flag and an environment variable.

use std::path::PathBuf;

use tacho_args::flag::{Group, HELP, Kind, MOST_SECONDS, Preset, Table, group, own, rows};
use tacho_args::typed::Given;
use tacho_args::{Values, flags};

use super::error::{ArgError, Refusal};
use super::live::{self, LiveArgs};
use super::offline::rows::LIVE;

use Kind::{Int, Rest, Str, Switch};
use Preset::{Off, Unset};

static TESTS: Group = group(
    "test options",
    "test options",
    "Which tests are run. Those with a name in brackets are also read from that environment variable.",
);
static RUNS: Group = group("run options", "run options", "How they are run.");
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
    /// The flags of `tacho suite`.
    SuiteFlags {
        FIRST [
            paths: Vec<PathBuf> = own(&["PATH"], Rest(usize::MAX), "DIR | FILE [FILE ...]", Unset, &TESTS,
                "Test files, or the directory of them. In a directory those for this machine are taken, such as \
                 serving-tests-cpu.json; SERVING_JSON, LATENCY_JSON, STARTUP_JSON and THROUGHPUT_JSON name others.");
            test_selector: Given<String> = own(&["--test-selector"], Str, "REGEX", Preset::Str(""), &TESTS, "Only tests whose name matches [TEST_SELECTOR].");
            model_filter: Given<String> = own(&["--model-filter"], Str, "NAME", Preset::Str(""), &TESTS, "Only tests of this model [MODEL_FILTER].");
            dtype_filter: Given<String> = own(&["--dtype-filter"], Str, "NAME", Preset::Str(""), &TESTS, "Only tests of this dtype [DTYPE_FILTER].");
            on_cpu: bool = own(&["--on-cpu"], Switch, "", Off, &TESTS, "Take the tests for CPUs, and count NUMA nodes as devices [ON_CPU]. ON_ARM64_CPU takes those for arm64.");
            output_dir: PathBuf = own(&["-o", "--output-dir"], Str, "DIR", Preset::Str("results"), &RUNS, "Directory of the results.");
            resume: bool = own(&["--resume"], Switch, "", Off, &RUNS, "Keep the results that are there and run the rest.");
            dry_run: bool = own(&["--dry-run"], Switch, "", Off, &RUNS,
                "Print the commands of serving tests, write their .commands files, run nothing [DRY_RUN].");
            sim: bool = own(&["--sim"], Switch, "", Off, &RUNS, "Use the built-in simulator as every server and engine.");
            remote_host: Given<String> = own(&["--remote-host"], Str, "NAME", Preset::Str(""), &RUNS, "Use the server that runs there [REMOTE_HOST].");
            remote_port: Given<String> = own(&["--remote-port"], Str, "PORT", Preset::Str(""), &RUNS, "Its port, if it is not 8000 [REMOTE_PORT].");
            serve_cmd: String = own(&["--serve-cmd"], Str, "COMMAND", Preset::Str("vllm serve"), &RUNS,
                "Server command. The model and the parameters of a test follow it.");
            bench_cmd: String = own(&["--bench-cmd"], Str, "COMMAND", Preset::Str("tacho bench"), &RUNS,
                "Client command. serve, latency, startup or throughput follows it; 'vllm bench' works too.");
            reset_caches: bool = own(&["--reset-caches"], Switch, "", Off, &RUNS,
                "Reset the caches of the server after each run. Without it they stay as they are, as in vLLM's suite.");
            server_ready_timeout: u64 = own(&["--server-ready-timeout"], Int, "SEC", Preset::Int(1200), &RUNS,
                "Seconds that a server may take until it is ready.").between(0.0, MOST_SECONDS);
            show_stdout: bool = own(&["--show-stdout"], Switch, "", Off, &RUNS, "Show what the clients print.");
        ]
        LAST [
            prompts_per_concurrency: Given<String> = own(&["--prompts-per-concurrency"], Str, "N", Preset::Str(""), &LEVELS,
                "Prompts per concurrent request instead of what a test says [PROMPTS_PER_CONCURRENCY].");
            min_num_prompts: Given<String> = own(&["--min-num-prompts"], Str, "N", Preset::Str("1"), &LEVELS, "Fewest prompts then [MIN_NUM_PROMPTS].");
            max_num_prompts: Given<String> = own(&["--max-num-prompts"], Str, "N", Preset::Str("1000000"), &LEVELS, "Most prompts then [MAX_NUM_PROMPTS].");
            adaptive_concurrency: bool = own(&["--adaptive-concurrency"], Switch, "", Off, &LEVELS,
                "Search the largest concurrency within the limits after the listed ones [ENABLE_ADAPTIVE_CONCURRENCY].");
            sla_ttft_ms: Given<String> = own(&["--sla-ttft-ms"], Str, "MS", Preset::Str("3000"), &LEVELS, "Largest TTFT [SLA_TTFT_MS].");
            sla_tpot_ms: Given<String> = own(&["--sla-tpot-ms"], Str, "MS", Preset::Str("100"), &LEVELS, "Largest TPOT [SLA_TPOT_MS].");
            adaptive_max_probes: Given<String> = own(&["--adaptive-max-probes"], Str, "N", Preset::Str("8"), &LEVELS,
                "Most levels beyond the listed ones [ADAPTIVE_MAX_PROBES].");
            adaptive_max_concurrency: Given<String> = own(&["--adaptive-max-concurrency"], Str, "N", Preset::Str("1024"), &LEVELS,
                "Largest level [ADAPTIVE_MAX_CONCURRENCY].");
        ]
    }
}

/// Arguments of `tacho suite`, from flags and the variables of vLLM's script.
#[derive(Debug, Clone)]
pub(crate) struct SuiteArgs {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) test_selector: String,
    pub(crate) model_filter: String,
    pub(crate) dtype_filter: String,
    pub(crate) on_cpu: bool,
    /// Whether the CPU tests are those for arm64.
    pub(crate) on_arm64_cpu: bool,
    pub(crate) output_dir: PathBuf,
    pub(crate) resume: bool,
    pub(crate) dry_run: bool,
    pub(crate) sim: bool,
    pub(crate) remote: Option<(String, Option<String>)>,
    pub(crate) serve_cmd: String,
    pub(crate) bench_cmd: String,
    pub(crate) reset_caches: bool,
    /// Seconds.
    pub(crate) server_ready_timeout: u64,
    pub(crate) show_stdout: bool,
    /// Live view.
    pub(crate) live: LiveArgs,
    pub(crate) prompts_per_concurrency: Option<u64>,
    pub(crate) num_prompts_range: (u64, u64),
    pub(crate) adaptive: bool,
    pub(crate) sla_ttft_ms: f64,
    pub(crate) sla_tpot_ms: f64,
    pub(crate) max_probes: u64,
    pub(crate) max_concurrency: u64,
}

impl SuiteArgs {
    /// Reads the flags, and environment variables for flags that are not given.
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        Self::with(v, &|name| std::env::var(name).ok())
    }

    fn with(v: &Values, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, ArgError> {
        let flags = SuiteFlags::from(v);
        if flags.paths.is_empty() {
            return Err(super::compare::missing(&TABLE, "DIR | FILE"));
        }
        let text = |flag: Given<String>, name: &str| match variable(name).filter(|text| !text.is_empty()) {
            Some(text) if !flag.is_given => text,
            _ => flag.value,
        };
        let is_on = |name: &str| variable(name).is_some_and(|text| text == "1");
        let remote_host = text(flags.remote_host, "REMOTE_HOST");
        let remote_port = Some(text(flags.remote_port, "REMOTE_PORT")).filter(|port| !port.is_empty());
        let prompts = text(flags.prompts_per_concurrency, "PROMPTS_PER_CONCURRENCY");
        let args = SuiteArgs {
            paths: flags.paths,
            test_selector: text(flags.test_selector, "TEST_SELECTOR"),
            model_filter: text(flags.model_filter, "MODEL_FILTER"),
            dtype_filter: text(flags.dtype_filter, "DTYPE_FILTER"),
            on_cpu: flags.on_cpu || is_on("ON_CPU") || is_on("ON_ARM64_CPU"),
            on_arm64_cpu: is_on("ON_ARM64_CPU") || cfg!(target_arch = "aarch64"),
            output_dir: flags.output_dir,
            resume: flags.resume,
            dry_run: flags.dry_run || is_on("DRY_RUN"),
            sim: flags.sim,
            remote: (!remote_host.is_empty()).then_some((remote_host, remote_port)),
            serve_cmd: flags.serve_cmd,
            bench_cmd: flags.bench_cmd,
            reset_caches: flags.reset_caches,
            server_ready_timeout: flags.server_ready_timeout,
            live: LiveArgs::from(v).with_output(flags.show_stdout)?,
            show_stdout: flags.show_stdout,
            prompts_per_concurrency: match prompts.is_empty() {
                true => None,
                false => Some(number("--prompts-per-concurrency", &prompts)?),
            },
            num_prompts_range: (
                number("--min-num-prompts", &text(flags.min_num_prompts, "MIN_NUM_PROMPTS"))?,
                number("--max-num-prompts", &text(flags.max_num_prompts, "MAX_NUM_PROMPTS"))?,
            ),
            adaptive: flags.adaptive_concurrency || is_on("ENABLE_ADAPTIVE_CONCURRENCY"),
            sla_ttft_ms: milliseconds("--sla-ttft-ms", &text(flags.sla_ttft_ms, "SLA_TTFT_MS"))?,
            sla_tpot_ms: milliseconds("--sla-tpot-ms", &text(flags.sla_tpot_ms, "SLA_TPOT_MS"))?,
            max_probes: number("--adaptive-max-probes", &text(flags.adaptive_max_probes, "ADAPTIVE_MAX_PROBES"))?,
            max_concurrency: number(
                "--adaptive-max-concurrency",
                &text(flags.adaptive_max_concurrency, "ADAPTIVE_MAX_CONCURRENCY"),
            )?,
        };
        if args.sim && args.remote.is_some() {
            return Err(Refusal::Together { flag: "--sim", other: "--remote-host" }.into());
        }
        Ok(args)
    }
}

fn number(flag: &'static str, text: &str) -> Result<u64, Refusal> {
    let refusal = Refusal::OutOfRange { flag, value: text.to_owned(), allowed: "a whole number, 0 or more" };
    text.trim().parse().map_err(|_| refusal)
}

fn milliseconds(flag: &'static str, text: &str) -> Result<f64, Refusal> {
    let refusal = Refusal::OutOfRange { flag, value: text.to_owned(), allowed: "milliseconds above 0" };
    text.trim().parse().ok().filter(|limit: &f64| *limit > 0.0).ok_or(refusal)
}
