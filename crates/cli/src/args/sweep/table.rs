//! The flags of the sweeps, one row each, in vLLM's order.

use crate::args::flag::{Flag, Group, Kind, Preset, Table, own, vllm};
use crate::args::live;
use crate::args::ranks;

use Kind::{Choice, Float, Help, Int, OptionalStr, Seconds, Str, Switch};
use Preset::{Off, Unset};

static COMMANDS: Group = Group {
    title: "command options",
    vllm_title: "options",
    about: "The commands, and the parameters that are put into them.",
};
static OPTIONS: Group =
    Group { title: "options", vllm_title: "options", about: "How often things are run, and where results go." };
static WORKLOAD: Group =
    Group { title: "workload options", vllm_title: "workload options", about: "The load levels to explore." };
static SLA: Group = Group { title: "sla options", vllm_title: "sla options", about: "The targets and the search." };
static OWN: Group = Group { title: "tacho options", vllm_title: "tacho options", about: "What vLLM does not have." };

const VARIABLES: &[&str] = &["request_rate", "max_concurrency"];

macro_rules! client_sweep {
    ($($further:expr),* $(,)?) => {
        &[
            vllm(&["-h", "--help"], Help, "TOPIC", Unset, &OPTIONS, "Show this help. --help=all explains every option."),
            vllm(&["--serve-cmd"], Str, "COMMAND", Unset, &COMMANDS,
                "Command that starts the server. 'vllm serve ...' or any other; 'tacho sim ...' runs inside tacho."),
            vllm(&["--bench-cmd"], Str, "COMMAND", Unset, &COMMANDS,
                "Command that benchmarks it. 'vllm bench serve ...' or any that takes its flags; 'tacho serve ...' \
                 runs inside tacho."),
            vllm(&["--after-bench-cmd"], Str, "COMMAND", Unset, &COMMANDS,
                "Command to run after each benchmark. Without it the caches of the server are reset."),
            vllm(&["--show-stdout"], Switch, "", Off, &OPTIONS, "Show what the commands print."),
            vllm(&["--server-ready-timeout"], Int, "SEC", Preset::Int(300), &COMMANDS,
                "Seconds that a server may take until it is ready.").between(0.0, 1e9),
            vllm(&["--serve-params"], Str, "FILE", Unset, &COMMANDS,
                "JSON file with parameter sets of the server. A list of objects, or an object of named ones."),
            vllm(&["--link-vars"], Str, "LINKS", Preset::Str(""), &COMMANDS,
                "Keys that must agree, as serve_key=bench_key,... Combinations in which they differ are left out."),
            vllm(&["--bench-params"], Str, "FILE", Unset, &COMMANDS,
                "JSON file with parameter sets of the benchmark. Each is combined with each of the server's."),
            vllm(&["-o", "--output-dir"], Str, "DIR", Preset::Str("results"), &OPTIONS, "Folder of all experiments."),
            vllm(&["-e", "--experiment-name"], Str, "NAME", Unset, &OPTIONS,
                "Folder of this experiment within it. The present time when absent."),
            vllm(&["--num-runs"], Int, "N", Preset::Int(3), &OPTIONS, "Runs per combination."),
            vllm(&["--warmup-num-prompts"], Int, "N", Preset::Int(0), &OPTIONS,
                "Prompts of an unmeasured run before each combination. 0 means none."),
            vllm(&["--continue-on-error"], Switch, "", Off, &OPTIONS,
                "Go on after a failed run. It is written down, and the exit code tells."),
            vllm(&["--dry-run"], Switch, "", Off, &OPTIONS, "Print the commands and run none."),
            vllm(&["--resume"], OptionalStr, "NAME", Off, &OPTIONS,
                "Go on with an experiment that was interrupted. The one of -e, or NAME."),
            $($further,)*
            own(&["--sim"], Switch, "", Off, &OWN,
                "Use the built-in simulator as the server. Its parameters are those of tacho sim."),
            live::screen(&OWN),
            live::http(&OWN),
            ranks::RANK,
            ranks::RANKS,
            ranks::RENDEZVOUS,
            ranks::CERTIFICATE,
            ranks::KEY,
            ranks::PLAINTEXT,
            ranks::TIMEOUT,
            ranks::ON_LOST,
            ranks::GATHER,
        ]
    };
}

/// `tacho sweep serve`.
pub(crate) static SERVE: Table = Table {
    command: "tacho sweep serve",
    about: "Benchmark a server under every combination of parameter sets.",
    examples: &[(
        "tacho sweep serve --sim --bench-cmd 'tacho serve --num-prompts 50' --bench-params bench.json",
        "the simulator under several loads",
    )],
    groups: &[&COMMANDS, &OPTIONS, &OWN, &ranks::GROUP],
    flags: SERVE_FLAGS,
};

#[rustfmt::skip]
static SERVE_FLAGS: &[Flag] = client_sweep!();

/// `tacho sweep serve_workload`.
pub(crate) static SERVE_WORKLOAD: Table = Table {
    command: "tacho sweep serve_workload",
    about: "Explore latency against throughput over levels of load.",
    examples: &[(
        "tacho sweep serve_workload --sim --bench-cmd 'tacho serve --num-prompts 50' --workload-iters 5",
        "five levels between one request at a time and all at once",
    )],
    groups: &[&COMMANDS, &OPTIONS, &WORKLOAD, &OWN, &ranks::GROUP],
    flags: WORKLOAD_FLAGS,
};

#[rustfmt::skip]
static WORKLOAD_FLAGS: &[Flag] = client_sweep!(
    vllm(&["--workload-var"], Choice(VARIABLES), "NAME", Preset::Str("request_rate"), &WORKLOAD, "What is varied."),
    vllm(&["--workload-iters"], Int, "N", Preset::Int(10), &WORKLOAD,
        "Levels to explore. The two that find the ends of the range are among them."),
);

/// `tacho sweep serve_sla`.
pub(crate) static SERVE_SLA: Table = Table {
    command: "tacho sweep serve_sla",
    about: "Find the largest load at which a server meets latency targets.",
    examples: &[(
        "tacho sweep serve_sla --sim --bench-cmd 'tacho serve --num-prompts 200' --sla-params sla.json",
        "with [{\"p99_ttft_ms\": \"<=200\"}] in sla.json",
    )],
    groups: &[&COMMANDS, &OPTIONS, &SLA, &OWN, &ranks::GROUP],
    flags: SLA_FLAGS,
};

#[rustfmt::skip]
static SLA_FLAGS: &[Flag] = client_sweep!(
    vllm(&["--sla-params"], Str, "FILE", Unset, &SLA,
        "JSON file with targets. A list of objects of conditions such as {\"p99_ttft_ms\": \"<=200\"}."),
    vllm(&["--sla-variable"], Choice(VARIABLES), "NAME", Preset::Str("request_rate"), &SLA, "What is varied."),
    vllm(&["--sla-iters"], Int, "N", Preset::Int(10), &SLA,
        "Levels to explore when there are no targets. The same as serve_workload."),
    own(&["--sla-tolerance"], Float, "SHARE", Preset::Float(0.02), &SLA,
        "How near to the answer a search ends: a load whose runs tell their spread is known when its range is within two and a \
         quarter times this share either way. Other levels closer than that are not tried, and 0 goes on to single steps, as vLLM does."),
    own(&["--sla-seconds"], Float, "SEC", Unset, &SLA,
        "Seconds that a request rate near the answer is held at least; --num-prompts becomes what lasts so long. Without it fifty \
         times the largest latency allowed or as long as ten thousand requests take, 5 to 120 seconds, and four times as \
         long as an answer takes. The first rates are held for part of that, which is enough for those far off."),
    own(&["--sla-budget"], Seconds, "SEC", Preset::Float(120.0), &SLA,
        "Seconds of runs after which no more are made to narrow the range of the answer. A search ends sooner where the range is \
         narrow enough (--sla-tolerance)."),
);

/// `tacho sweep startup`.
pub(crate) static STARTUP: Table = Table {
    command: "tacho sweep startup",
    about: "Benchmark the start-up of an engine under every combination of parameter sets.",
    examples: &[(
        "tacho sweep startup --startup-cmd 'vllm bench startup --model MODEL' --serve-params serve.json",
        "start-up times over engine settings",
    )],
    groups: &[&COMMANDS, &OPTIONS, &OWN],
    flags: STARTUP_FLAGS,
};

#[rustfmt::skip]
static STARTUP_FLAGS: &[Flag] = &[
    vllm(&["-h", "--help"], Help, "TOPIC", Unset, &OPTIONS, "Show this help. --help=all explains every option."),
    vllm(&["--startup-cmd"], Str, "COMMAND", Preset::Str("vllm bench startup"), &COMMANDS,
        "Command that benchmarks the start-up. When it is left out, tacho itself does what vllm is named for."),
    vllm(&["--serve-params"], Str, "FILE", Unset, &COMMANDS,
        "JSON file with parameter sets of the server. Those that the benchmark does not have are left out."),
    vllm(&["--startup-params"], Str, "FILE", Unset, &COMMANDS, "JSON file with parameter sets of the benchmark."),
    vllm(&["--strict-params"], Switch, "", Off, &COMMANDS, "Refuse parameters that the benchmark does not have."),
    vllm(&["-o", "--output-dir"], Str, "DIR", Preset::Str("results"), &OPTIONS, "Folder of all experiments."),
    vllm(&["-e", "--experiment-name"], Str, "NAME", Unset, &OPTIONS,
        "Folder of this experiment within it. The present time when absent."),
    vllm(&["--num-runs"], Int, "N", Preset::Int(1), &OPTIONS, "Runs per combination."),
    vllm(&["--show-stdout"], Switch, "", Off, &OPTIONS, "Show what the commands print."),
    vllm(&["--dry-run"], Switch, "", Off, &OPTIONS, "Print the commands and run none."),
    vllm(&["--resume"], OptionalStr, "NAME", Off, &OPTIONS,
        "Go on with an experiment that was interrupted. The one of -e, or NAME."),
    live::screen(&OWN),
    live::http(&OWN),
];
