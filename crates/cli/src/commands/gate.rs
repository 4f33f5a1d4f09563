//! `tacho gate`: regression gate for CI.

use std::{io::Write, path::PathBuf};

use anyhow::bail;
use tacho_core::json::Dict;
use tacho_decide::compare::Terms;
use tacho_decide::gate::{Decision, FailureRule, Judgment, judge};
use tacho_record::{ResultKind, StoredRun};
use tacho_report::compare::{GateView, delivered, difference, load, settings, varied};
use tacho_report::{Error, inputs, style::fold};

use super::{compare::sides::detailed, explain::of_difference};
use crate::{args::gate::GateArgs, exit::Exit};

/// Tests failure rates and each rule, and prints the verdicts with a forest plot.
pub(crate) fn run(args: &GateArgs) -> anyhow::Result<Exit> {
    let (base, new) = (runs(&args.base)?, runs(&args.new)?);
    one_kind(args, base.iter().chain(&new))?;
    let label = format!("{} against {}", shown(&args.new), shown(&args.base));
    let terms = Terms { confidence: args.confidence, noise: args.noise };
    let (failures, decisions) = judge(&args.rules, &FailureRule { max: args.max_failures }, &base, &new, terms)
        .map_err(|problem| Error::Key { label, problem })?;
    let differs = difference((&settings(&base[0]), &base), (&settings(&new[0]), &new));
    let delivered = delivered(&base, &new);
    let view = GateView {
        failures: &failures,
        decisions: &decisions,
        confidence: args.confidence,
        warnings: &[
            inputs::of_results(Some("base"), fields(&base)),
            inputs::of_results(Some("new"), fields(&new)),
            inputs::cache_difference(("base", fields(&base)), ("new", fields(&new))).into_iter().collect(),
        ]
        .concat(),
        differs: &differs,
        delivered: delivered.as_deref(),
        note: GateView::note_of(&decisions, base.len().min(new.len()) == 1 && args.noise.is_none()),
    };
    let (width, color) = tacho_report::style::screen();
    tacho_report::out().write_all(view.text(width, color).as_bytes())?;
    say_why(&base, &new, &decisions, width)?;
    Ok(code(Judgment::overall(&failures, &decisions), args.allow_inconclusive))
}

/// Prints which part of the latency made each regression, where the results have the times of their tokens.
pub(super) fn say_why(
    base: &[StoredRun],
    new: &[StoredRun],
    decisions: &[Decision],
    width: usize,
) -> anyhow::Result<()> {
    let regressed = decisions.iter().filter(|decision| decision.judgment == Judgment::Beyond);
    let keys: Vec<&str> = regressed.map(|decision| decision.effect.key.as_str()).collect();
    for sentence in of_difference(base, new, &keys) {
        let lines = fold(&format!("why: {sentence}"), width, 2);
        writeln!(tacho_report::out(), "{}", lines.join("\n"))?;
    }
    Ok(())
}

/// Exit code 3 for a regression, and if it is not clear that there is none.
pub(super) fn code(judgment: Judgment, allow_inconclusive: bool) -> Exit {
    match judgment {
        Judgment::Beyond => Exit::Gate,
        Judgment::Inconclusive if !allow_inconclusive => Exit::Gate,
        _ => Exit::Done,
    }
}

fn fields(runs: &[StoredRun]) -> impl Iterator<Item = &Dict> {
    runs.iter().map(|run| &run.fields)
}

fn runs(paths: &[PathBuf]) -> anyhow::Result<Vec<StoredRun>> {
    let runs = StoredRun::once(detailed(paths, load(paths)?).iter().flat_map(|side| side.runs()).collect());
    if runs.is_empty() {
        bail!("{} holds tables of results, not results: pass files that a run wrote", shown(paths));
    }
    if let Some(what) = varied(&runs) {
        bail!("{} holds runs of different settings, not repeats: {what}: pass those of one setting", shown(paths));
    }
    Ok(runs)
}

/// Rejects results of different benchmarks, which cannot be compared.
fn one_kind<'a>(args: &GateArgs, runs: impl Iterator<Item = &'a StoredRun>) -> anyhow::Result<()> {
    let mut kinds: Vec<&str> = runs.filter_map(StoredRun::kind).map(ResultKind::name).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() > 1 {
        let (base, new) = (shown(&args.base), shown(&args.new));
        bail!("{base} and {new} hold {} results: pass results of one kind", kinds.join(" and "));
    }
    Ok(())
}

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}
