//! `tacho verify`: checks a bundle and says whether its result is supported by what it holds.

use std::{io::Write, path::Path};

use anyhow::Context;
use tacho_core::json::{Dict, Json, Value, dumps_indented};
use tacho_core::{dict, files::read_settings_text};
use tacho_decide::verify::{
    Check, Expected, Finding, Plan, RowAudit, Weight, differences, ended_early, of_record, settings_differ, verdict,
};
use tacho_metrics::Caveat;
use tacho_record::bundle::{Bundle, PublicKey};
use tacho_record::{metric::Known, restored::provenance};
use tacho_report::json::{Detail, ResultFile};
use tacho_report::style::{fold, harmless_line};

use super::opened::Opened;
use super::plan::{Recomputed, Source};
use crate::{args::bundle::VerifyArgs, args::program::build, exit::Exit, exit::shown};

/// Relative difference of a metric that is computed from lists in decimal instead of a log.
const OF_LISTS: f64 = 1e-6;

pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<Exit> {
    let key = args.key.as_deref().map(key).transpose()?;
    let opened = Opened::read(&args.bundle[0])?;
    let found = Verified::of(&opened, key.as_ref())?;
    let text = match args.json {
        true => dumps_indented(&Value::Dict(found.json(&opened)), 2) + "\n",
        false => found.text(&args.bundle[0], &opened),
    };
    tacho_report::out().write_all(text.as_bytes())?;
    Ok(if found.findings.iter().any(|finding| finding.weight == Weight::Invalid) { Exit::Gate } else { Exit::Done })
}

fn key(path: &Path) -> anyhow::Result<PublicKey> {
    let named = || format!("public key {}", path.display());
    PublicKey::from_pem(&read_settings_text(path).with_context(named)?).with_context(named)
}

/// What was checked and found.
pub(super) struct Verified {
    pub(super) findings: Vec<Finding>,
    /// Name and value of what a reader should know, in the order of display.
    facts: Vec<(&'static str, String)>,
}

impl Verified {
    pub(super) fn of(opened: &Opened, key: Option<&PublicKey>) -> anyhow::Result<Self> {
        let mut findings: Vec<Finding> =
            opened.bundle.altered.iter().map(|text| Finding::invalid(Check::BytesChanged, text)).collect();
        findings.extend(signature(&opened.bundle, key));
        let planned = Planned::of(opened);
        findings.extend(planned.findings.iter().cloned());
        let audit = opened.audit(planned.plan.as_ref())?;
        findings.extend(audit.findings(&expected(opened, planned.plan.as_ref())?));
        findings.extend(settings(opened, planned.digest.as_deref())?);
        findings.extend(metrics(opened));
        findings.extend(of_record(&opened.record, &audit));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
        Ok(Verified { findings, facts: facts(opened, &planned, &audit) })
    }

    fn text(&self, path: &Path, opened: &Opened) -> String {
        let (width, _) = tacho_report::style::screen();
        let mut lines = vec![format!("{}: {}", shown(path), verdict(&self.findings))];
        for finding in &self.findings {
            let word = if finding.weight == Weight::Invalid { "invalid" } else { "remark" };
            lines.extend(fold(&format!("  {word}[{}]: {}", finding.check.name(), finding.text), width, 4));
        }
        lines.extend(self.facts.iter().flat_map(|(name, text)| fold(&format!("  {name:<11}{text}"), width, 13)));
        if opened.bundle.signed_by.is_none() {
            lines.extend(fold(
                "Nothing here shows who made the bundle: rows that were all invented consistently pass.",
                width,
                0,
            ));
        }
        lines.iter().map(|line| harmless_line(line) + "\n").collect()
    }

    fn json(&self, opened: &Opened) -> Dict {
        let finding = |finding: &Finding| -> Value {
            let weight = if finding.weight == Weight::Invalid { "invalid" } else { "remark" };
            dict! { "check": finding.check.name(), "weight": weight, "text": finding.text.clone() }.into()
        };
        let signed = opened.bundle.signed_by.as_ref().and_then(|signed| signed.as_ref().ok()).map(PublicKey::text);
        dict! {
            "verdict": verdict(&self.findings),
            "findings": self.findings.iter().map(finding).collect::<Vec<Value>>(),
            "signed_by": signed.to_json(),
            "facts": self.facts.iter().map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str()))).collect::<Dict>(),
            "manifest": opened.bundle.manifest.to_json(),
        }
    }
}

fn signature(bundle: &Bundle, key: Option<&PublicKey>) -> Option<Finding> {
    let text = match (&bundle.signed_by, key) {
        (Some(Err(problem)), _) => (*problem).to_owned(),
        (None, Some(_)) => "--key is given, and the bundle is not signed".to_owned(),
        (Some(Ok(found)), Some(wanted)) if found != wanted => format!("signed by {}, not by --key", found.text()),
        _ => return None,
    };
    Some(Finding::invalid(Check::Signature, text))
}

/// The plan that the bundle holds or that its flags make, and what was found on the way.
struct Planned {
    plan: Option<Plan>,
    digest: Option<String>,
    findings: Vec<Finding>,
    fact: String,
}

impl Planned {
    fn of(opened: &Opened) -> Self {
        let saved = opened.workload().map(|path| Source::saved(&path, None, opened.is_builtin()));
        let saved = saved.map(|source| source.and_then(|source| Recomputed::of(&source)));
        let made = opened.recipe().and_then(|source| Recomputed::of(&source));
        let seed = provenance(&opened.stated).seed.map_or_else(String::new, |seed| format!("seed {seed}"));
        let unchecked = |error: &anyhow::Error| format!("whether {seed} makes these requests is not known: {error:#}");
        let mut findings = Vec::new();
        let (found, fact) = match (saved, made) {
            (Some(Err(error)), _) => {
                findings
                    .push(Finding::invalid(Check::PlanDiffers, format!("workload.jsonl cannot be used: {error:#}")));
                (None, "unreadable".to_owned())
            }
            (Some(Ok(saved)), Ok(made)) => {
                let finding = of_seed(&saved, &made, &seed);
                let fact = if finding.is_none() { format!("; {seed} makes the same") } else { String::new() };
                findings.extend(finding);
                let fact = format!("{} requests of workload.jsonl{fact}", saved.plan.requests.len());
                (Some(saved), fact)
            }
            (Some(Ok(saved)), Err(error)) => {
                let fact = format!("{} requests of workload.jsonl; {}", saved.plan.requests.len(), unchecked(&error));
                (Some(saved), fact)
            }
            (None, Ok(made)) => {
                let fact = format!("{} requests made by the flags and {seed}", made.plan.requests.len());
                (Some(made), fact)
            }
            (None, Err(error)) => {
                let text =
                    format!("the bundle has no workload.jsonl, and the requests cannot be made again: {error:#}");
                findings.push(Finding::remark(Check::PlanUnknown, text));
                (None, "not known".to_owned())
            }
        };
        let (plan, digest) = found.map(|found| (found.plan, found.digest)).unzip();
        Planned { plan, digest, findings, fact }
    }
}

/// Compares the saved requests with those that the flags and the seed make.
fn of_seed(saved: &Recomputed, made: &Recomputed, seed: &str) -> Option<Finding> {
    match () {
        () if saved.digest == made.digest => None,
        () if made.aligned && made.is_like(&saved.plan) => Some(Finding::remark(
            Check::SeedUnchecked,
            format!("{seed} makes requests with the same times and lengths; prompts depend on the server's tokenizer"),
        )),
        () => Some(Finding::invalid(
            Check::SeedDiffers,
            format!(
                "the stated flags and {seed} make requests with digest {}, and workload.jsonl has {}",
                made.digest, saved.digest
            ),
        )),
    }
}

/// What the log and the settings say about the number of rows.
fn expected(opened: &Opened, planned: Option<&Plan>) -> anyhow::Result<Expected> {
    let record = &opened.record;
    let log = opened.log().transpose()?;
    let resumed = record.caveats.iter().any(|caveat| matches!(caveat, Caveat::Resumed { .. }));
    Ok(Expected {
        requests: match &log {
            Some(stored) => stored.manifest().requests,
            None => u64::try_from(record.setup.num_prompts).ok().filter(|count| *count > 0),
        },
        duration: record.measured.duration,
        ended_early: ended_early(record) || planned.is_none_or(|plan| plan.endless) && opened.has_duration(),
        in_order: log.is_some_and(|log| log.closing().is_some()) && record.sessions.is_none() && !resumed,
        resumed,
    })
}

/// Compares what log, result and plan state about the run.
fn settings(opened: &Opened, plan: Option<&str>) -> anyhow::Result<Vec<Finding>> {
    let stated = provenance(&opened.stated);
    let text = |seed: Option<i64>| seed.map(|seed| seed.to_string());
    let log = opened.log().transpose()?;
    let manifest = log.as_ref().map(|log| log.manifest());
    let digests = [
        ("the plan", plan.map(str::to_owned)),
        ("the result", opened.digest()),
        ("the log's manifest", manifest.and_then(|manifest| manifest.workload.clone())),
        ("the log's summary", opened.record.setup.workload.clone()),
    ];
    let seeds = [
        ("the result", text(stated.seed)),
        ("the log's manifest", text(manifest.and_then(|manifest| manifest.seed))),
        ("the log's summary", text(opened.record.provenance.seed)),
    ];
    Ok([settings_differ("the workload digest", &digests), settings_differ("the seed", &seeds)]
        .into_iter()
        .flatten()
        .collect())
}

/// Compares every stated metric with the one that the rows give.
fn metrics(opened: &Opened) -> Vec<Finding> {
    let has_lists = opened.stated.get("tacho").is_some_and(|tacho| tacho.get("sent").is_some());
    let detail = if has_lists { Detail::PerRequest } else { Detail::Brief };
    let again = ResultFile::new(&opened.record, detail).to_dict();
    let is_ours = provenance(&opened.stated).tacho.as_deref() == Some(&build());
    // Lists give vLLM's metrics, and not what depends on the server or on single token events.
    let of_lists = || -> Dict {
        let metrics = opened.stated.iter().filter(|(key, _)| Known::find(key).is_some());
        metrics.map(|(key, value)| (key.to_owned(), value.clone())).collect()
    };
    match opened.bundle.has_log() {
        true => differences(&opened.stated, &again, is_ours, 0.0),
        false => differences(&of_lists(), &again, false, OF_LISTS),
    }
}

fn facts(opened: &Opened, planned: &Planned, audit: &RowAudit<'_>) -> Vec<(&'static str, String)> {
    let stated = provenance(&opened.stated);
    let unknown = || "not known".to_owned();
    let source = if opened.bundle.has_log() { "the request log" } else { "the lists of the result" };
    let signed = match &opened.bundle.signed_by {
        Some(Ok(key)) => format!("by ed25519 {}", key.text()),
        Some(Err(_)) => "broken".to_owned(),
        None => "none".to_owned(),
    };
    let trust = opened.record.trust.as_ref().map_or_else(unknown, |trust| trust.verdict.word().to_owned());
    vec![
        ("model", opened.record.setup.model_id.clone()),
        ("server", stated.server.name().unwrap_or_else(unknown)),
        ("tacho", stated.tacho.unwrap_or_else(unknown)),
        ("rows", format!("{} of {source}", audit.rows())),
        ("plan", planned.fact.clone()),
        ("client", trust),
        ("signature", signed),
    ]
}
