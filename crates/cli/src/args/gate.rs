//! What was typed after `tacho gate`.

use std::path::PathBuf;

use tacho_metrics::compare::Confidence;
use tacho_metrics::gate::Rule;

use super::compare::{confidence, missing};
use super::error::{ArgError, Refusal};
use super::flag::{Flag, Group, Kind, Preset, Table, own};
use super::grammar::Values;

use Kind::{Help, Int, OneOrMore, Repeated, Rest, Switch};
use Preset::{Off, Unset};

static GATE: Group = Group { title: "gate options", vllm_title: "gate options", about: "What may not get worse." };

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho gate",
    about: "Exit with code 3 when a new result is worse than a base beyond doubt.",
    examples: &[
        (
            "tacho gate base.json new.json --max-regression p99_ttft_ms:5% output_throughput:3%",
            "a line per rule; both saved with --save-detailed",
        ),
        ("tacho gate --base b1.json b2.json --new n1.json n2.json --max-regression mean_e2el_ms:10%", "repeated runs"),
    ],
    groups: &[&GATE],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    own(&["-h", "--help"], Help, "TOPIC", Unset, &GATE, "Show this help. --help=all explains every option."),
    own(&["BASE NEW"], Rest, "BASE NEW", Unset, &GATE, "The two results, or folders of repeated runs."),
    own(&["--base"], OneOrMore, "FILE", Unset, &GATE, "Results of the base, in place of the first word."),
    own(&["--new"], OneOrMore, "FILE", Unset, &GATE, "New results, in place of the second word."),
    own(&["--max-regression"], Repeated, "KEY:LIMIT", Unset, &GATE,
        "How much worse a number may get. In percent of the base (p99_ttft_ms:5%) or in its own unit \
         (mean_e2el_ms:20); only a change whose whole interval is beyond the limit counts."),
    own(&["--confidence"], Int, "PERCENT", Preset::Int(95), &GATE, "How sure an interval shall be: 90, 95 or 99."),
    own(&["--fail-undecided"], Switch, "", Off, &GATE,
        "Exit with code 3 also when there is no interval to judge by."),
];

/// All flags of `tacho gate`.
#[derive(Debug, Clone)]
pub(crate) struct GateArgs {
    pub(crate) base: Vec<PathBuf>,
    pub(crate) new: Vec<PathBuf>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) confidence: Confidence,
    pub(crate) fail_undecided: bool,
}

impl GateArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let list = |name| v.list(name).unwrap_or_default().into_iter().map(PathBuf::from).collect::<Vec<_>>();
        let (mut base, mut new) = (list("--base"), list("--new"));
        let mut words = list("BASE NEW").into_iter();
        for (side, what) in [(&mut base, "BASE"), (&mut new, "NEW")] {
            if side.is_empty() {
                side.push(words.next().ok_or_else(|| missing(&TABLE, what))?);
            }
        }
        let left: Vec<String> = words.map(|path| path.display().to_string()).collect();
        if !left.is_empty() {
            let error = super::error::UsageError::Unrecognized { tokens: left };
            return Err(ArgError::Usage { command: TABLE.command, error });
        }
        let texts = v.list("--max-regression").ok_or_else(|| missing(&TABLE, "--max-regression"))?;
        let rule = |text: &String| {
            Rule::parse(text).map_err(|error| match error {
                tacho_metrics::Error::Rule { .. } => Refusal::Rule { text: text.clone() },
                error => Refusal::Number { flag: "--max-regression", error },
            })
        };
        Ok(GateArgs {
            base,
            new,
            rules: texts.iter().map(rule).collect::<Result<_, _>>()?,
            confidence: confidence(v)?,
            fail_undecided: v.switch("--fail-undecided"),
        })
    }
}
