//! Flags of `tacho gate`.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_args::repr::quoted;
use tacho_decide::{compare::Confidence, gate::Rule};

use super::compare::{confidence, missing, share};
use super::error::{ArgError, ArgumentError, UsageError, unknown_metric};

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
    GateArgs? {
        FLAGS [
            sides: Vec<PathBuf> = tacho(&["BASE NEW"], Rest(2), "BASE NEW", Unset, &GATE,
                "Baseline and candidate: results, or directories of repeated runs.");
            rules: Vec<Rule> = tacho(&["--max-regression"], Repeated, "METRIC:LIMIT", Unset, &GATE,
                "Largest regression allowed: in percent of the baseline (p99_ttft_ms:5%) or in the metric's unit (mean_e2el_ms:20ms, accuracy:1pp). \
                 Passes if the whole confidence interval of the change is within the limit, fails if the whole interval is beyond.")
                .required() => rules;
            max_failures: Option<f64> = tacho(&["--max-failures"], Str, "PERCENT", Unset, &GATE,
                "Percentage of the candidate's requests that may fail (default: no significant increase over the baseline).") => share;
            confidence: Confidence = tacho(&["--confidence"], Int, "PERCENT", DefaultValue::Int(95), &GATE,
                "Confidence level, 80 to 99. 100 minus it bounds the false-positive rate of all rules together.").between(80.0, 99.0) => confidence;
            allow_inconclusive: bool = switch(&["--allow-inconclusive"], &GATE,
                "Exit with 0 if no rule fails but some are inconclusive.");
            noise: Option<f64> = tacho(&["--assume-noise"], Str, "PERCENT", Unset, &GATE,
                "Assumed standard deviation between runs, for single results without per-request values.") => share;
            base: Vec<PathBuf> = tacho(&["--base"], OneOrMore, "FILE", Unset, &GATE, "Baseline results, instead of BASE.");
            new: Vec<PathBuf> = tacho(&["--new"], OneOrMore, "FILE", Unset, &GATE, "Candidate results, instead of NEW.");
        ]
    }
}

impl GateArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let mut args = GateArgs::parse(v)?;
        let mut sides = std::mem::take(&mut args.sides).into_iter();
        for (side, what) in [(&mut args.base, "BASE"), (&mut args.new, "NEW")] {
            if side.is_empty() {
                side.push(sides.next().ok_or_else(|| missing(&TABLE, what))?);
            }
        }
        let tokens: Vec<String> = sides.map(|path| path.display().to_string()).collect();
        if !tokens.is_empty() {
            return Err(ArgError::Usage { command: TABLE.command, error: UsageError::Unrecognized { tokens } });
        }
        Ok(args)
    }
}

pub(super) fn rules(setting: Setting<'_>) -> Result<Vec<Rule>, ArgumentError> {
    let rule = |text: String| {
        Rule::parse(&text).map_err(|error| match error {
            tacho_record::Error::Rule { .. } => ArgumentError::other(format!(
                "--max-regression {}: write KEY:LIMIT, such as p99_ttft_ms:5% or mean_e2el_ms:20ms",
                quoted(&text)
            )),
            error => unknown_metric(setting.flag, &error),
        })
    };
    Vec::<String>::from_flag(setting).into_iter().map(rule).collect()
}
