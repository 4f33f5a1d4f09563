//! `tacho ab-test`: measures two servers in short alternating blocks and judges the candidate.

mod blocks;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use tacho_core::json::{Value, dumps_indented};
use tacho_decide::compare::Basis;
use tacho_decide::gate::{FailureRule, Judgment};
use tacho_decide::threshold::Finding;
use tacho_metrics::Caveat;
use tacho_record::StoredRun;
use tacho_report::compare::ab_test::{AbTestView, server_difference, side_warnings};
use tacho_report::compare::{GateView, delivered, difference, settings};
use tacho_report::style::{harmless_line, short_tick};
use tacho_report::{compare::forest::change_in, json::write_text};
use tacho_run::ab_test::{AbTestPlan, Arm, End, Outcome, ab_test};

use self::blocks::Measured;
use super::{check, gate, history::store::Store};
use crate::exit::{Exit, Misused, note, saved};
use crate::{args::ab_test::AbTestArgs, args::serve::ServeArgs, interrupt::Interrupt};

pub(crate) fn run(args: &AbTestArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let load = ServeArgs::read(args.load.clone())?;
    if let Some(Some(_)) = &load.tacho.check_outputs {
        return Err(Misused("--check-outputs compares every output of a block: remove its number".to_owned()).into());
    }
    args.flags.rules.iter().try_for_each(|rule| load.check_metric("--max-regression", &rule.key))?;
    let (destination, store) = (destination(&load)?, Store::of(&args.history)?);
    let mut blocks = Measured::new(args, &load, &interrupt, destination.as_deref())?;
    let plan = AbTestPlan {
        rules: args.flags.rules.clone(),
        failures: FailureRule { max: args.flags.max_failures },
        confidence: args.flags.confidence,
        budget: args.flags.budget,
        seed: load.load.seed as u64,
    };
    interrupt.measuring();
    let outcome = ab_test(&plan, &mut blocks)?;
    drop(blocks);
    let findings = findings(&load, &outcome.new)?;
    // Without a pair, the error says all.
    if !(outcome.base.is_empty() && matches!(outcome.end, End::Failed(..) | End::OtherRequests(_))) {
        report(args, &load, &outcome, &findings, (destination.as_deref(), store.as_ref()))?;
    }
    let exit = gate::code(outcome.judgment(), load.tacho.allow_inconclusive)
        .or_worse(check::code(&findings, load.tacho.allow_inconclusive));
    match outcome.end {
        End::Failed(arm, error) => Err(error.context(format!("{} failed", named(args, arm)))),
        End::OtherRequests(pair) => Err(anyhow!(
            "pair {pair}: A and B were to get different requests: pass --model and --tokenizer, so that the servers do not decide them"
        )),
        _ => Ok(interrupt.or(exit)),
    }
}

fn named(args: &AbTestArgs, arm: Arm) -> String {
    let name = if arm == Arm::A { "A" } else { "B" };
    format!("{name} ({})", args.servers[arm as usize].text())
}

/// The path of the result, if it is requested; its directory is created and checked before the first block.
fn destination(load: &ServeArgs) -> anyhow::Result<Option<PathBuf>> {
    let report = &load.report;
    if !report.save_result {
        return Ok(None);
    }
    let directory = Path::new(report.result_dir.as_deref().unwrap_or("."));
    super::sweep::make_directory(directory, "--result-dir")?;
    let name = report.result_filename.clone().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| format!("ab-test-{}.json", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S")));
    Ok(Some(directory.join(name)))
}

/// The conditions of `--fail-if` on all requests of the candidate.
fn findings(load: &ServeArgs, new: &[StoredRun]) -> anyhow::Result<Vec<Finding>> {
    let pooled = StoredRun::pooled(new);
    let find = |threshold: &tacho_decide::threshold::Threshold| {
        threshold.on_stored(&pooled).map_err(|problem| anyhow!("--fail-if {}: {problem}", threshold.text))
    };
    if new.is_empty() { Ok(Vec::new()) } else { load.thresholds()?.iter().map(find).collect() }
}

/// Why the test ended, as a word and in words.
fn ended(args: &AbTestArgs, end: &End<anyhow::Error>) -> (&'static str, String) {
    match end {
        End::Decided => ("decided", "every rule is decided".to_owned()),
        End::Budget => ("budget", format!("the budget of {} s is spent (--budget)", short_tick(args.flags.budget))),
        End::Interrupted => ("interrupted", "interrupted".to_owned()),
        End::Failed(arm, _) => ("failed", format!("{} failed", named(args, *arm))),
        End::OtherRequests(_) => ("failed", "the requests differed".to_owned()),
    }
}

/// Settings of the load and of the servers that differ.
fn differs(base: &[StoredRun], new: &[StoredRun]) -> String {
    let of_load = base.first().zip(new.first());
    let of_load = of_load.map(|(a, b)| difference((&settings(a), base), (&settings(b), new)));
    let all = of_load.into_iter().chain([server_difference(base, new)]).filter(|text| !text.is_empty());
    all.collect::<Vec<_>>().join(", ")
}

fn report(
    args: &AbTestArgs,
    load: &ServeArgs,
    outcome: &Outcome<anyhow::Error>,
    findings: &[Finding],
    (destination, store): (Option<&Path>, Option<&Store>),
) -> anyhow::Result<()> {
    let Outcome { base, new, failures, decisions, seconds, end } = outcome;
    let (stopped, why) = ended(args, end);
    let requests = base.first().and_then(StoredRun::failures).map_or(0, |(_, all)| all);
    let time = short_tick(seconds.round());
    let text = match pairs(base.len()) {
        _ if base.is_empty() => format!("No block was measured in {time} s, which the warm-up took: {why}."),
        pairs => format!(
            "{pairs} of blocks of {requests} requests, alternating, in {time} s: {why}. Values are geometric means of the blocks."
        ),
    };
    let (warnings, differs, delivered) = (warnings(load, outcome), differs(base, new), delivered(base, new));
    let view = AbTestView {
        gate: GateView {
            failures,
            decisions,
            confidence: args.flags.confidence,
            warnings: &warnings,
            differs: &differs,
            delivered: delivered.as_deref(),
            note: Some(&text),
        },
        servers: [args.servers[0].text(), args.servers[1].text()],
        base,
        new,
        seconds: *seconds,
        stopped,
        date: &jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string(),
    };
    // Write the files first: a closed pipe must not cost the result.
    if let Some(path) = destination {
        write(path, &dumps_indented(&Value::Dict(view.json()), 4))?;
    }
    if let Some(store) = store {
        store.keep_and_print(&view.json(), base.first().map(|run| &run.fields), destination);
    }
    if let Some(path) = args.flags.html.as_ref().filter(|_| !base.is_empty()) {
        write(path, &view.html())?;
    }
    let (width, color) = tacho_report::style::screen();
    let mut out = tacho_report::out();
    out.write_all(view.gate.text(width, color).as_bytes())?;
    gate::say_why(base, new, decisions, width)?;
    for finding in findings {
        writeln!(out, "{}", harmless_line(&finding.text()))?;
    }
    Ok(())
}

fn pairs(count: usize) -> String {
    Basis::Sequence(count).text()
}

fn warnings(load: &ServeArgs, Outcome { base, new, decisions, .. }: &Outcome<anyhow::Error>) -> Vec<String> {
    let mut warnings = side_warnings(base, new);
    for decision in decisions {
        let left_out = decision.left_out(base.len());
        if left_out > 0 {
            warnings.push(format!(
                "warning[client_unreliable]: {left_out} of {} left out of {}: other work held the client's cores and may have changed it by over 5%; free a core for it",
                pairs(base.len()), decision.effect.key
            ));
        }
    }
    if load.tacho.check_outputs.is_some() && !load.content.is_greedy() {
        warnings.push(format!("warning[outputs_sampled]: {}", Caveat::OutputsSampled.text()));
    }
    warnings
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_text(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    saved(path);
    Ok(())
}

/// The state after a pair, as one line.
fn progress(outcome: &Outcome<anyhow::Error>) -> String {
    let rule = |decision: &tacho_decide::gate::Decision| {
        let effect = &decision.effect;
        let percent = |change| change_in(effect.scale, change);
        let interval =
            effect.interval.map_or_else(String::new, |(low, high)| format!(" ({} … {})", percent(low), percent(high)));
        let verdict = match decision.judgment {
            Judgment::Within => ", ok",
            Judgment::Beyond => ", REGRESSED",
            Judgment::Inconclusive | Judgment::Scheduled => "",
        };
        format!("{} {}{interval}{verdict}", effect.key, percent(effect.change))
    };
    let rules: Vec<String> = outcome.decisions.iter().map(rule).collect();
    format!("pair {} at {} s: {}", outcome.base.len(), short_tick(outcome.seconds.round()), rules.join("; "))
}

/// Prints a line unless `quiet`.
fn say(quiet: bool, text: &str) {
    if !quiet {
        note(text);
    }
}
