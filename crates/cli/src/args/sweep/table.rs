//! Flags of the sweeps, in vLLM's order.

use tacho_args::declare::*;
use tacho_run::sweep::LoadVariable;

use crate::args::shared::history::{self, HISTORY, HistoryArgs};
use crate::args::shared::live::{self, LiveArgs};
use crate::args::shared::ranks::{self, RankArgs};

static COMMANDS: Group = group("command options", "options", "Server and client commands, and their parameter sets.")
    .first(&["--serve-cmd", "--bench-cmd", "--serve-params", "--bench-params"]);
static OPTIONS: Group = group("options", "options", "Repetitions and output directory.");
static WORKLOAD: Group = group("workload options", "workload options", "Load levels to explore.");
static SLA: Group = group("sla options", "sla options", "SLOs and the search.");
static TACHO: Group = group("tacho options", "tacho options", "Simulator, parity and live view.");

const VARIABLES: &[&str] = &LoadVariable::NAMES;

flags! {
    /// Output directory, repetitions, and live view.
    OutputArgs {
        OUTPUT [
            show_stdout: bool = vllm(&["--show-stdout"], Switch, "", Off, &OPTIONS, "Show the output of the commands.");
        ]
        DIRECTORY [
            output_dir: String = vllm(&["-o", "--output-dir"], Str, "DIR", DefaultValue::Str("results"), &OPTIONS, "Directory of all experiments.");
            experiment_name: Option<String> = vllm(&["-e", "--experiment-name"], Str, "NAME", Unset, &OPTIONS,
                "Directory of this experiment in it (default: the current time).");
        ]
        RUNS [
            num_runs: FlagValue<usize> = vllm(&["--num-runs"], Int, "N", DefaultValue::Int(3), &OPTIONS, "Runs per combination.").at_least(1);
        ]
        ENDING [
            dry_run: bool = vllm(&["--dry-run"], Switch, "", Off, &OPTIONS, "Print the commands without running them.");
            resume: Option<Option<String>> = vllm(&["--resume"], OptionalStr, "NAME", Off, &OPTIONS, "Resume an interrupted experiment: NAME, or the one of -e.");
        ]
        ..live: LiveArgs;
        ..history: HistoryArgs;
    }
}

flags! {
    SweepFlags {
        COMMANDS_ROWS [
            serve_cmd: Option<String> = vllm(&["--serve-cmd"], Str, "COMMAND", Unset, &COMMANDS,
                "Command that starts the server: 'vllm serve ...' or any other; 'tacho sim ...' runs inside tacho. Without it, --base-url in --bench-cmd names a running server.");
            bench_cmd: Option<String> = vllm(&["--bench-cmd"], Str, "COMMAND", Unset, &COMMANDS,
                "Command that benchmarks it: 'vllm bench serve ...' or any with its flags; 'tacho serve ...' runs inside tacho.");
            after_bench_cmd: Option<String> = vllm(&["--after-bench-cmd"], Str, "COMMAND", Unset, &COMMANDS,
                "Command to run after each benchmark (default: reset the server's caches).");
        ]
        PARAMETERS [
            server_ready_timeout: FlagValue<u64> = vllm(&["--server-ready-timeout"], Int, "SEC", DefaultValue::Int(300), &COMMANDS,
                "Seconds that a server may take to become ready. A server that runs already is not waited for unless this is set.").between(0.0, MAX_SECONDS);
            serve_params: Option<String> = vllm(&["--serve-params"], Str, "FILE", Unset, &COMMANDS,
                "JSON file with parameter sets of the server: a list of objects, or an object of named ones.");
            link_vars: String = vllm(&["--link-vars"], Str, "LINKS", DefaultValue::Str(""), &COMMANDS,
                "Keys that must be equal: serve_key=bench_key, with commas between several. Other combinations are skipped.");
            bench_params: Option<String> = vllm(&["--bench-params"], Str, "FILE", Unset, &COMMANDS,
                "JSON file with parameter sets of the benchmark. Each is combined with each of the server's.");
        ]
        REPEATS [
            warmup_num_prompts: usize = vllm(&["--warmup-num-prompts"], Int, "N", DefaultValue::Int(0), &OPTIONS,
                "Prompts of a warm-up run before each combination.").at_least(0);
            continue_on_error: bool = vllm(&["--continue-on-error"], Switch, "", Off, &OPTIONS,
                "Continue after a failed run. It is recorded, and the exit code is 1.");
        ]
        OURS [
            sim: bool = switch(&["--sim"], &TACHO, "Use the built-in simulator as the server. Its parameters are those of tacho sim.");
        ]
        ..output: OutputArgs;
        ..ranks: RankArgs;
    }
}

/// Strict parity with vLLM; `exit` reads it from the command line.
const STRICT_PARITY: Flag =
    switch(&["--strict-parity"], &TACHO, "Behave like vLLM's command even where tacho deviates by default.");

const VIEWS: &[Flag] = &[STRICT_PARITY, live::SCREEN.within(&TACHO), live::HTTP.within(&TACHO)];

/// vLLM's flags of a sweep over servers and clients, in vLLM's order.
const CLIENT: &[Flag] = rows!(COMMANDS_ROWS, OUTPUT, PARAMETERS, DIRECTORY, RUNS, REPEATS, ENDING);

pub(crate) static SERVE: Table = Table {
    command: "tacho sweep serve",
    about: "Benchmark a server under every combination of parameter sets.",
    examples: &[(
        "tacho sweep serve --sim --bench-cmd 'tacho serve --num-prompts 50' --bench-params bench.json",
        "the simulator under several loads",
    )],
    groups: &[&COMMANDS, &OPTIONS, &TACHO, &ranks::GROUP, &HISTORY],
    flags: rows!(&[HELP], CLIENT, OURS, VIEWS, ranks::FLAGS, history::FLAGS),
    ..Table::PLAIN
};

pub(crate) static SERVE_WORKLOAD: Table = Table {
    command: "tacho sweep serve_workload",
    about: "Explore latency against throughput over levels of load.",
    examples: &[(
        "tacho sweep serve_workload --sim --bench-cmd 'tacho serve --num-prompts 50' --workload-iters 5",
        "five levels between one request at a time and all at once",
    )],
    groups: &[&COMMANDS, &OPTIONS, &WORKLOAD, &TACHO, &ranks::GROUP, &HISTORY],
    flags: rows!(&[HELP], CLIENT, WORKLOAD_FLAGS, OURS, VIEWS, ranks::FLAGS, history::FLAGS),
    ..Table::PLAIN
};

flags! {
    WorkloadFlags {
        WORKLOAD_FLAGS [
            workload_var: LoadVariable = vllm(&["--workload-var"], Choice(VARIABLES), "NAME", DefaultValue::Str("request_rate"), &WORKLOAD, "Variable to sweep.") => named;
            workload_iters: usize = vllm(&["--workload-iters"], Int, "N", DefaultValue::Int(10), &WORKLOAD,
                "Load levels to explore, including the two that find the ends of the range.").at_least(2);
        ]
    }
}

pub(crate) static SERVE_SLA: Table = Table {
    command: "tacho sweep serve_sla",
    about: "Find the maximum load at which a server meets SLOs.",
    examples: &[(
        "tacho sweep serve_sla --sim --bench-cmd 'tacho serve --num-prompts 200' --sla-params sla.json",
        "with [{\"p99_ttft_ms\": \"<=200\"}] in sla.json",
    )],
    groups: &[&COMMANDS, &OPTIONS, &SLA, &TACHO, &ranks::GROUP, &HISTORY],
    flags: rows!(&[HELP], CLIENT, SLA_FLAGS, OURS, VIEWS, ranks::FLAGS, history::FLAGS),
    basics: "\
        --serve-cmd --bench-cmd --sim --serve-params --bench-params --sla-params --sla-variable --sla-tolerance \
        --sla-seconds --sla-budget --num-runs --output-dir --experiment-name --resume --dry-run \
        --continue-on-error --show-stdout --live",
    ..Table::PLAIN
};

flags! {
    SlaFlags {
        SLA_FLAGS [
            sla_params: Option<String> = vllm(&["--sla-params"], Str, "FILE", Unset, &SLA,
                "JSON file with SLOs: a list of objects of conditions such as {\"p99_ttft_ms\": \"<=200\"}.");
            sla_variable: LoadVariable = vllm(&["--sla-variable"], Choice(VARIABLES), "NAME", DefaultValue::Str("request_rate"), &SLA, "Variable to search.") => named;
            sla_iters: FlagValue<usize> = vllm(&["--sla-iters"], Int, "N", DefaultValue::Int(10), &SLA,
                "Load levels to explore without SLOs, as serve_workload does.").at_least(2);
            sla_tolerance: f64 = tacho(&["--sla-tolerance"], Float, "FRACTION", DefaultValue::Float(0.02), &SLA,
                "Precision of the answer: 0.02 stops when its 95% range is within +/-4.5%, other values in proportion. 0 searches in \
                 single steps, as vLLM does.").between(0.0, 1.0);
            sla_seconds: Option<f64> = tacho(&["--sla-seconds"], Seconds, "SEC", Unset, &SLA,
                "Minimum duration of a run near the answer; --num-prompts follows from it. Default: the smaller of 50 times the largest latency limit and \
                 the time of 10,000 requests, clamped to 5-120 s and a fifth of --sla-budget, and at least 4 response times. Early runs are shorter.").positive();
            sla_budget: f64 = tacho(&["--sla-budget"], Seconds, "SEC", DefaultValue::Float(120.0), &SLA,
                "Total seconds of runs that narrow the range of the answer. The search stops earlier at --sla-tolerance.");
        ]
    }
}

pub(crate) static STARTUP: Table = Table {
    command: "tacho sweep startup",
    about: "Benchmark the start-up of an engine under every combination of parameter sets.",
    examples: &[(
        "tacho sweep startup --startup-cmd 'vllm bench startup --model MODEL' --serve-params serve.json",
        "start-up times over engine settings",
    )],
    groups: &[&COMMANDS, &OPTIONS, &TACHO, &HISTORY],
    flags: rows!(&[HELP], STARTUP_FLAGS, DIRECTORY, ONE_RUN, OUTPUT, ENDING, VIEWS, history::FLAGS),
    ..Table::PLAIN
};

flags! {
    StartupSweepArgs {
        STARTUP_FLAGS [
            startup_cmd: FlagValue<String> = vllm(&["--startup-cmd"], Str, "COMMAND", DefaultValue::Str("vllm bench startup"), &COMMANDS,
                "Command that benchmarks the start-up. If unset, tacho runs its own start-up benchmark.");
            serve_params: Option<String> = vllm(&["--serve-params"], Str, "FILE", Unset, &COMMANDS,
                "JSON file with parameter sets of the server. Those that the benchmark does not have are skipped.");
            startup_params: Option<String> = vllm(&["--startup-params"], Str, "FILE", Unset, &COMMANDS, "JSON file with parameter sets of the benchmark.");
            strict_params: bool = vllm(&["--strict-params"], Switch, "", Off, &COMMANDS, "Refuse parameters that the benchmark does not have.");
        ]
        ..output: OutputArgs;
    }
}

/// Start-ups are measured once by default.
const ONE_RUN: &[Flag] = &[Flag { default: DefaultValue::Int(1), ..RUNS[0] }];
