//! What was typed after `tacho check`.

use std::path::PathBuf;

use tacho_decide::threshold::Threshold;

use super::compare::missing;
use super::error::{ArgError, Refusal};
use super::flag::{Flag, Group, Kind, Preset, Table, own};
use super::grammar::Values;

use Kind::{Help, Repeated, Rest, Switch};
use Preset::{Off, Unset};

static CHECK: Group = Group { title: "check options", vllm_title: "check options", about: "What must not be true." };

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho check",
    about: "Hold a result to limits: exit with code 3 unless it surely keeps them.",
    examples: &[(
        "tacho check result.json --fail-if 'p99_ttft_ms>300' --fail-if 'failed>1%'",
        "a line per condition, with the interval of its number",
    )],
    groups: &[&CHECK],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    own(&["-h", "--help"], Help, "TOPIC", Unset, &CHECK, "Show this help. --help=all explains every option."),
    own(&["RESULT"], Rest, "RESULT [RESULT ...]", Unset, &CHECK, "Results, or folders of them. Each is held to all conditions."),
    own(&["--fail-if"], Repeated, "CONDITION", Unset, &CHECK,
        "What must not be true: a number, <, <=, > or >=, and a limit, such as p99_ttft_ms>300 or failed>1%. It is \
         undecided when the number's 95 % interval holds the limit."),
    own(&["--pass-undecided"], Switch, "", Off, &CHECK, "Exit with 0 when a condition is undecided and none is true."),
];

/// All flags of `tacho check`.
#[derive(Debug, Clone)]
pub(crate) struct CheckArgs {
    pub(crate) results: Vec<PathBuf>,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) pass_undecided: bool,
}

impl CheckArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let results: Vec<PathBuf> = v.list("RESULT").unwrap_or_default().into_iter().map(PathBuf::from).collect();
        if results.is_empty() {
            return Err(missing(&TABLE, "RESULT"));
        }
        let texts = v.list("--fail-if").ok_or_else(|| missing(&TABLE, "--fail-if"))?;
        Ok(CheckArgs { results, thresholds: thresholds(&texts)?, pass_undecided: v.switch("--pass-undecided") })
    }
}

/// The conditions of `--fail-if`.
pub(super) fn thresholds(texts: &[String]) -> Result<Vec<Threshold>, Refusal> {
    let read = |text: &String| Threshold::parse(text).map_err(|error| Refusal::Number { flag: "--fail-if", error });
    texts.iter().map(read).collect()
}
