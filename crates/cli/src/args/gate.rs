//! What was typed after `tacho gate`.

use std::path::PathBuf;

use tacho_decide::compare::Confidence;
use tacho_decide::gate::Rule;

use super::compare::{confidence, missing, share};
use super::error::{ArgError, Refusal};
use super::flag::{Flag, Group, Kind, Preset, Table, own};
use super::grammar::Values;

use Kind::{Help, Int, OneOrMore, Repeated, Rest, Str, Switch};
use Preset::{Off, Unset};

static GATE: Group = Group { title: "gate options", vllm_title: "gate options", about: "What may not get worse." };

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho gate",
    about: "Exit with code 3 unless a new result is surely no worse than a base.",
    examples: &[
        (
            "tacho gate base.json new.json --max-regression p99_ttft_ms:5% output_throughput:3%",
            "a line per rule; both saved with --save-detailed",
        ),
        (
            "tacho gate base_runs new_runs --max-regression p99_ttft_ms:5% --max-failures 1%",
            "two folders of repeated runs",
        ),
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
         (mean_e2el_ms:20). Within when the whole interval of the change is, beyond when the whole interval is."),
    own(&["--max-failures"], Str, "PERCENT", Unset, &GATE,
        "Share of the new requests that may fail. Without it, no more than on the base side but for chance."),
    own(&["--confidence"], Int, "PERCENT", Preset::Int(95), &GATE,
        "How sure an interval shall be, 80 to 99. All rules together alarm on equal builds no more often than it says."),
    own(&["--assume-noise"], Str, "PERCENT", Unset, &GATE,
        "Deviation of a number from run to run, for files that do not tell: one run a side without single requests."),
    own(&["--pass-undecided"], Switch, "", Off, &GATE, "Exit with code 0 when nothing is beyond its limit but something is undecided."),
    own(&["--fail-undecided"], Switch, "", Off, &GATE, "Exit with code 3 when a rule is undecided, which is so anyway. Not with --pass-undecided."),
];

/// All flags of `tacho gate`.
#[derive(Debug, Clone)]
pub(crate) struct GateArgs {
    pub(crate) base: Vec<PathBuf>,
    pub(crate) new: Vec<PathBuf>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) max_failures: Option<f64>,
    pub(crate) confidence: Confidence,
    pub(crate) noise: Option<f64>,
    pub(crate) pass_undecided: bool,
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
        if v.switch("--pass-undecided") && v.switch("--fail-undecided") {
            let error = super::error::UsageError::Unrecognized { tokens: vec!["--fail-undecided".to_owned()] };
            return Err(ArgError::Usage { command: TABLE.command, error });
        }
        let texts = v.list("--max-regression").ok_or_else(|| missing(&TABLE, "--max-regression"))?;
        let rule = |text: &String| {
            Rule::parse(text).map_err(|error| match error {
                tacho_record::Error::Rule { .. } => Refusal::Rule { text: text.clone() },
                error => Refusal::Number { flag: "--max-regression", error },
            })
        };
        Ok(GateArgs {
            base,
            new,
            rules: texts.iter().map(rule).collect::<Result<_, _>>()?,
            confidence: confidence(v)?,
            max_failures: v.maybe_text("--max-failures").map(|text| share("--max-failures", &text)).transpose()?,
            noise: v.maybe_text("--assume-noise").map(|text| share("--assume-noise", &text)).transpose()?,
            pass_undecided: v.switch("--pass-undecided"),
        })
    }
}
