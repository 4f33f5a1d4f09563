//! `tacho gate`: a code for CI.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::bail;
use tacho_metrics::gate::{Decision, Judgement, Limit, judge};
use tacho_metrics::{ResultKind, StoredRun};
use tacho_report::Error;
use tacho_report::compare::load;
use tacho_report::markdown::significant;
use tacho_report::style::harmless_line;

use crate::args::gate::GateArgs;
use crate::exit::Exit;

/// Judges by each rule and prints a line about it.
pub(crate) fn run(args: &GateArgs) -> anyhow::Result<Exit> {
    let (base, new) = (runs(&args.base)?, runs(&args.new)?);
    one_kind(args, base.iter().chain(&new))?;
    let mut worst = Exit::Done;
    for rule in &args.rules {
        let sides = || format!("{} against {}", shown(&args.new), shown(&args.base));
        let decision =
            judge(rule, &base, &new, args.confidence).map_err(|problem| Error::Key { label: sides(), problem })?;
        writeln!(io::stdout(), "{}", line(&decision))?;
        let fails = match decision.judgement {
            Judgement::Regressed => true,
            Judgement::Undecided => args.fail_undecided,
            Judgement::Passed => false,
        };
        if fails {
            worst = Exit::Gate;
        }
    }
    Ok(worst)
}

fn runs(paths: &[PathBuf]) -> anyhow::Result<Vec<StoredRun>> {
    let runs: Vec<StoredRun> = load(paths)?.iter().flat_map(|side| side.runs()).collect();
    if runs.is_empty() {
        bail!("{} holds tables of results, not results: give files that a run wrote", shown(paths));
    }
    Ok(runs)
}

/// Numbers of different benchmarks are no repetitions of each other.
fn one_kind<'a>(args: &GateArgs, runs: impl Iterator<Item = &'a StoredRun>) -> anyhow::Result<()> {
    let mut kinds: Vec<&str> = runs.filter_map(StoredRun::kind).map(ResultKind::name).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() > 1 {
        let (base, new) = (shown(&args.base), shown(&args.new));
        bail!("{base} and {new} hold {} results: give results of one kind", kinds.join(" and "));
    }
    Ok(())
}

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

fn line(decision: &Decision) -> String {
    let effect = &decision.effect;
    let word = match decision.judgement {
        Judgement::Passed => "ok        ",
        Judgement::Regressed => "REGRESSED ",
        Judgement::Undecided => "undecided ",
    };
    let limit = match decision.rule.limit {
        Limit::Share(share) => format!("{} %", significant(share * 100.0)),
        Limit::Amount(amount) => significant(amount),
    };
    let interval = match effect.interval {
        Some((low, high)) => format!("{:+.2} % … {:+.2} %", low * 100.0, high * 100.0),
        None => effect.basis.text(),
    };
    harmless_line(&format!(
        "{word} {}: {} -> {} ({:+.2} %, {interval}), limit {limit} worse",
        effect.key,
        significant(effect.base),
        significant(effect.new),
        effect.change * 100.0,
    ))
}
