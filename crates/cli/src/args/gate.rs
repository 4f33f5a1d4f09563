//! Flags of `tacho gate`.

use std::path::PathBuf;

use tacho_args::flag::{Group, HELP, Kind, Preset, Table, group, own, rows, switch};
use tacho_args::flags;
use tacho_args::grammar::Values;
use tacho_decide::compare::Confidence;
use tacho_decide::gate::Rule;

use super::compare::{confidence, missing, share};
use super::error::{ArgError, Refusal, UsageError};

use Kind::{Int, OneOrMore, Repeated, Rest, Str};
use Preset::Unset;

static GATE: Group = group("gate options", "gate options", "Baseline, candidate and the regressions allowed.");

pub(crate) static TABLE: Table = Table {
    command: "tacho gate",
    about: "Compare a candidate with a baseline: exit code 3 unless it shows no regression at 95% confidence.",
    examples: &[
        (
            "tacho gate base_runs new_runs --max-regression mean_tpot_ms:5% output_throughput:3%",
            "two directories of repeated runs with the same --seed; a line per rule",
        ),
        ("tacho gate base.json new.json --max-regression mean_ttft_ms:10% --max-failures 1%", "two detailed results"),
    ],
    groups: &[&GATE],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    /// The flags of `tacho gate`.
    GateFlags {
        FLAGS [
            sides: Vec<PathBuf> = own(&["BASE NEW"], Rest(2), "BASE NEW", Unset, &GATE,
                "Baseline and candidate: results, or directories of repeated runs.");
            max_regression: Vec<String> = own(&["--max-regression"], Repeated, "METRIC:LIMIT", Unset, &GATE,
                "Largest regression allowed: in percent of the baseline (p99_ttft_ms:5%) or in the metric's unit (mean_e2el_ms:20ms). \
                 Passes if the whole confidence interval of the change is within the limit, fails if the whole interval is beyond.")
                .required();
            max_failures: Option<String> = own(&["--max-failures"], Str, "PERCENT", Unset, &GATE,
                "Percentage of the candidate's requests that may fail (default: no significant increase over the baseline).");
            confidence: i64 = own(&["--confidence"], Int, "PERCENT", Preset::Int(95), &GATE,
                "Confidence level, 80 to 99. 100 minus it bounds the false-positive rate of all rules together.").between(80.0, 99.0);
            allow_inconclusive: bool = switch(&["--allow-inconclusive"], &GATE,
                "Exit with 0 if no rule fails but some are inconclusive.");
            assume_noise: Option<String> = own(&["--assume-noise"], Str, "PERCENT", Unset, &GATE,
                "Assumed standard deviation between runs, for single results without per-request values.");
            base: Vec<PathBuf> = own(&["--base"], OneOrMore, "FILE", Unset, &GATE, "Baseline results, instead of BASE.");
            new: Vec<PathBuf> = own(&["--new"], OneOrMore, "FILE", Unset, &GATE, "Candidate results, instead of NEW.");
        ]
    }
}

/// Arguments of `tacho gate`.
#[derive(Debug, Clone)]
pub(crate) struct GateArgs {
    pub(crate) base: Vec<PathBuf>,
    pub(crate) new: Vec<PathBuf>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) max_failures: Option<f64>,
    pub(crate) confidence: Confidence,
    pub(crate) noise: Option<f64>,
    pub(crate) allow_inconclusive: bool,
}

impl GateArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let flags = GateFlags::from(v);
        let (mut base, mut new) = (flags.base, flags.new);
        let mut words = flags.sides.into_iter();
        for (side, what) in [(&mut base, "BASE"), (&mut new, "NEW")] {
            if side.is_empty() {
                side.push(words.next().ok_or_else(|| missing(&TABLE, what))?);
            }
        }
        let tokens: Vec<String> = words.map(|path| path.display().to_string()).collect();
        if !tokens.is_empty() {
            return Err(ArgError::Usage { command: TABLE.command, error: UsageError::Unrecognized { tokens } });
        }
        let rule = |text: &String| {
            Rule::parse(text).map_err(|error| match error {
                tacho_record::Error::Rule { .. } => Refusal::Rule { text: text.clone() },
                error => Refusal::metric("--max-regression", error),
            })
        };
        let percentage = |flag, text: Option<String>| text.map(|text| share(flag, &text)).transpose();
        Ok(GateArgs {
            base,
            new,
            rules: flags.max_regression.iter().map(rule).collect::<Result<_, _>>()?,
            confidence: confidence(flags.confidence),
            max_failures: percentage("--max-failures", flags.max_failures)?,
            noise: percentage("--assume-noise", flags.assume_noise)?,
            allow_inconclusive: flags.allow_inconclusive,
        })
    }
}
