//! Flags of `tacho ab-test`: its own, and those of `tacho serve` for the load.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_args::flag::joined;
use tacho_decide::{compare::Confidence, gate::Rule};

use super::compare::{confidence, missing, share};
use super::error::{ArgError, ArgumentError, UsageError};
use super::serve::{self, ServeArgs};
use super::{
    gate::rules,
    shared::history::HistoryArgs,
    shared::live::LiveArgs,
    shared::tags::{ONE_RUN, WRITES},
};

static AB_TEST: Group =
    group("ab-test options", "ab-test options", "The two servers, the regressions allowed, and the test.");

pub(crate) static TABLE: Table = Table {
    command: "tacho ab-test",
    about: "Compare two servers under the same load in short alternating blocks, until it is clear whether B is slower than A.",
    examples: &[
        (
            "tacho ab-test http://localhost:8000 http://localhost:8001 --max-regression mean_tpot_ms:3% --request-rate 10",
            "two running servers: exit code 3 unless B passes",
        ),
        (
            "tacho ab-test --cmd-a 'vllm serve M' --cmd-b 'vllm serve M --async-scheduling' --max-regression output_throughput:3% --max-concurrency 32 --block 30",
            "two commands, started in turn on one GPU",
        ),
    ],
    basics: "\
        --max-regression --block --budget --cmd-a --cmd-b --max-failures --confidence --html --num-prompts \
        --request-rate --max-concurrency --seed --dataset-name --random-input-len --random-output-len \
        --save-result --result-dir",
    rejected: ONE_RUN,
    groups: &joined::<_, { 1 + serve::GROUPS.len() }>(&AB_TEST, &[&[&AB_TEST], serve::GROUPS]),
    flags: rows!(&[HELP], FLAGS, serve::FLAGS),
    ..Table::PLAIN
};

/// Flags of `tacho serve` that a test sets itself, and what to use instead.
const SET: [(&str, &str); 12] = [
    ("--base-url", "pass the URLs of both servers"),
    ("--host", "pass the URLs of both servers"),
    ("--port", "pass the URLs of both servers"),
    ("--sim", "pass --cmd-a 'tacho sim' and --cmd-b 'tacho sim'"),
    ("--sim-args", "pass --cmd-a 'tacho sim …' and --cmd-b 'tacho sim …'"),
    ("--reference", "--check-outputs compares with the outputs of A"),
    ("--duration", "pass --block SECONDS"),
    ("--until", "a test stops when its rules are decided"),
    ("--append-result", "pass --save-result"),
    ("--plot-timeline", "a test has no single timeline"),
    ("--plot-dataset-stats", "see tacho serve --dry-run"),
    ("--strict-parity", "vLLM has no such test"),
];

const LENGTHS: [&str; 4] = ["--num-prompts", "--stages", "--sessions", "--workload"];

flags! {
    AbTestFlags? {
        FLAGS [
            urls: Vec<String> = tacho(&["URL_A URL_B"], Rest(2), "URL_A URL_B", Unset, &AB_TEST,
                "Base URLs of two running servers. A is the baseline, B the candidate.");
            cmd_a: Option<String> = tacho(&["--cmd-a"], Str, "COMMAND", Unset, &AB_TEST,
                "Command that starts A, instead of URL_A. Both servers are started for each block and stopped after it, so that they \
                 fit one GPU; a block without measurement warms each up.").needs(&["--cmd-b"]);
            cmd_b: Option<String> = tacho(&["--cmd-b"], Str, "COMMAND", Unset, &AB_TEST, "Command that starts B.").needs(&["--cmd-a"]);
            rules: Vec<Rule> = tacho(&["--max-regression"], Repeated, "METRIC:LIMIT", Unset, &AB_TEST,
                "Largest regression allowed: in percent of A (mean_tpot_ms:3%) or in the metric's unit (mean_e2el_ms:20ms, accuracy:1pp). The test \
                 ends as soon as the confidence interval of each change is within its limit or beyond it.").required() => rules;
            block: Option<f64> = tacho(&["--block"], Seconds, "SEC", Unset, &AB_TEST,
                "Seconds of load per block (default: 5). --num-prompts sets the number of requests instead.").positive();
            budget: f64 = tacho(&["--budget"], Seconds, "SEC", DefaultValue::Float(300.0), &AB_TEST,
                "Seconds for the test. It ends earlier if every rule is decided; no pair is begun that would end later.").positive();
            max_failures: Option<f64> = tacho(&["--max-failures"], Str, "PERCENT", Unset, &AB_TEST,
                "Percentage of B's requests that may fail (default: no significant increase over A).") => share;
            confidence: Confidence = tacho(&["--confidence"], Int, "PERCENT", DefaultValue::Int(95), &AB_TEST,
                "Confidence level, 80 to 99. 100 minus it bounds the false-positive rate of all rules and looks together.").between(80.0, 99.0) => confidence;
            html: Option<PathBuf> = tacho(&["--html"], Str, "FILE", Unset, &AB_TEST, "Write a page with the verdict and all metrics.").tagged(WRITES);
        ]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    Url(String),
    Command(String),
}

impl Server {
    pub(crate) fn text(&self) -> &str {
        let (Server::Url(text) | Server::Command(text)) = self;
        text
    }
}

#[derive(Debug, Clone)]
pub(crate) struct AbTestArgs {
    pub(crate) servers: [Server; 2],
    pub(crate) flags: AbTestFlags,
    pub(crate) load: Values,
    /// Seconds per block; `None` if the flags of the load determine its length.
    pub(crate) block: Option<f64>,
    pub(crate) live: LiveArgs,
    pub(crate) history: HistoryArgs,
}

impl AbTestArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        v.check()?;
        let flags = AbTestFlags::parse(v)?;
        for (flag, instead) in SET {
            if v.is_set(flag) {
                return Err(ArgumentError::other(format!("{flag}: {instead}")).into());
            }
        }
        let servers = servers(&flags)?;
        let given = v.set_of(LENGTHS).next();
        if let Some(other) = given.filter(|_| flags.block.is_some()) {
            return Err(ArgumentError::Together { flag: "--block", other }.into());
        }
        let block = flags.block.or(given.is_none().then_some(BLOCK));
        let load = ServeArgs::values_in(v)?;
        Ok(AbTestArgs { servers, flags, load, block, live: LiveArgs::from(v), history: HistoryArgs::from(v) })
    }
}

/// Default seconds per block: 30 pairs in the default budget.
const BLOCK: f64 = 5.0;

fn servers(flags: &AbTestFlags) -> Result<[Server; 2], ArgError> {
    match (&flags.urls[..], &flags.cmd_a, &flags.cmd_b) {
        ([], Some(a), Some(b)) => Ok([Server::Command(a.clone()), Server::Command(b.clone())]),
        ([a, b], None, None) => Ok([Server::Url(a.clone()), Server::Url(b.clone())]),
        ([] | [_], ..) => Err(missing(&TABLE, "URL_A URL_B")),
        (tokens, ..) => {
            Err(ArgError::Usage { command: TABLE.command, error: UsageError::Unrecognized { tokens: tokens.to_vec() } })
        }
    }
}
