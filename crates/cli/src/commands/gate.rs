//! `tacho gate`: a code for CI.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use tacho_decide::compare::Terms;
use tacho_decide::gate::{Decision, FailureRule, Failures, Judgement, Remedy, judge};
use tacho_record::{ResultKind, StoredRun};
use tacho_report::Error;
use tacho_report::compare::{difference, load, settings, varied};
use tacho_report::style::harmless_line;
use tacho_report::tables::markdown::significant;

use crate::args::gate::GateArgs;
use crate::exit::Exit;

/// Judges failures and each rule, and prints a line about each.
pub(crate) fn run(args: &GateArgs) -> anyhow::Result<Exit> {
    let (base, new) = (runs(&args.base)?, runs(&args.new)?);
    one_kind(args, base.iter().chain(&new))?;
    let label = format!("{} against {}", shown(&args.new), shown(&args.base));
    let terms = Terms { confidence: args.confidence, noise: args.noise };
    let (failures, decisions) = judge(&args.rules, &FailureRule { most: args.max_failures }, &base, &new, terms)
        .map_err(|problem| Error::Key { label, problem })?;
    let mut out = tacho_report::out();
    if let Some(line) = failure_line(&failures) {
        writeln!(out, "{line}")?;
    }
    for decision in &decisions {
        writeln!(out, "{}", line(decision, args))?;
    }
    let differs = difference(&settings(&base[0]), &settings(&new[0]));
    if !differs.is_empty() {
        writeln!(out, "note: set otherwise: {}", harmless_line(&differs))?;
    }
    if base.len().min(new.len()) == 1
        && args.noise.is_none()
        && decisions.iter().any(|one| one.effect.interval.is_some())
    {
        writeln!(out, "note: one run on a side shows what varied within it, not what differs from run to run")?;
    }
    let judgements = || decisions.iter().map(|decision| decision.judgement);
    let beyond = failures.judgement == Judgement::Beyond || judgements().any(|one| one == Judgement::Beyond);
    let open = judgements().any(|one| one == Judgement::Inconclusive);
    Ok(if beyond || (open && !args.allow_inconclusive) { Exit::Gate } else { Exit::Done })
}

fn runs(paths: &[PathBuf]) -> anyhow::Result<Vec<StoredRun>> {
    let runs = StoredRun::once(load(paths)?.iter().flat_map(|side| side.runs()).collect());
    if runs.is_empty() {
        bail!("{} holds tables of results, not results: give files that a run wrote", shown(paths));
    }
    if let Some(what) = varied(&runs) {
        bail!(
            "{} holds runs of different settings, which are no repeats of each other: {what}: give those of one setting",
            shown(paths)
        );
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

fn word(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Within => "ok       ",
        Judgement::Beyond => "REGRESSED",
        Judgement::Inconclusive => "inconclusive",
    }
}

/// The line about failed requests; nothing where nothing failed or the files do not say.
fn failure_line(failures: &Failures) -> Option<String> {
    let counted = |side: Option<(u64, u64)>| {
        side.map_or("unknown".to_owned(), |(failed, all)| {
            format!("{failed} of {all} ({} %)", significant(failed as f64 * 100.0 / all.max(1) as f64))
        })
    };
    let any = [failures.base, failures.new].into_iter().flatten().any(|(failed, _)| failed > 0);
    let limit = match failures.most {
        Some(most) => format!("limit {} %", significant(most * 100.0)),
        None if failures.judgement == Judgement::Beyond => "more than chance".to_owned(),
        None => "no more than chance".to_owned(),
    };
    let line = || {
        let word = word(failures.judgement);
        format!("{word} failed requests: {} -> {}, {limit}", counted(failures.base), counted(failures.new))
    };
    (any || failures.most.is_some()).then(line)
}

fn line(decision: &Decision, args: &GateArgs) -> String {
    let effect = &decision.effect;
    let limit = decision.rule.limit_text();
    let number = |value: f64| if value.is_nan() { "none".to_owned() } else { significant(value) };
    let percent =
        |share: f64| if share.is_finite() { format!("{:+.2} %", share * 100.0) } else { "no upper bound".into() };
    let change = match effect.interval {
        _ if effect.change.is_nan() => effect.basis.text(),
        Some((low, high)) => {
            let sure = args.confidence.percent();
            let (low, high) = (percent(low), percent(high));
            format!("{}, {sure} % interval {low} … {high}, {}", percent(effect.change), effect.basis.text())
        }
        None => format!("{}, {}", percent(effect.change), effect.basis.text()),
    };
    let same = effect.is_of_the_same();
    let remedy = decision.remedy.map_or_else(String::new, |remedy| format!("; {}", advice(remedy, same)));
    let together =
        if decision.alone { "; beyond it alone, but rules that are judged together must be surer" } else { "" };
    harmless_line(&format!(
        "{} {}: {} -> {} ({change}), limit {limit} worse{together}{remedy}",
        word(decision.judgement),
        effect.key,
        number(effect.base),
        number(effect.new),
    ))
}

/// What would decide; `same` where both sides had the same workloads already, in several runs.
fn advice(remedy: Remedy, same: bool) -> String {
    let more = match remedy {
        Remedy::Requests(more) => format!("about {more} more requests a side would decide"),
        Remedy::Runs(more) => format!("about {more} more runs a side would decide"),
        Remedy::TooClose => "too close to the limit to be decided by measuring more".into(),
        Remedy::Spread => {
            return "one number a side has no spread: save runs with --save-detailed, give three or more runs a side, or say \
                    how much they vary with --assume-noise 3%"
                .into();
        }
        Remedy::Answers => return "there is nothing to compare".into(),
    };
    let alike =
        if same { "" } else { "; what is left to chance least: run both sides with the same seed, 4 runs each" };
    more + alike
}
