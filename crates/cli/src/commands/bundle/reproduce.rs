//! `tacho reproduce`: sends the requests of a bundle again and says whether the server agrees with the result.

use std::{borrow::Cow, collections::BTreeSet, io::Write};

use anyhow::{Context, bail};
use tacho_core::json::{Json, Value};
use tacho_decide::agreement::{Agreement, Compared, agreement, overall};
use tacho_decide::gate::{FailureRule, Judgment};
use tacho_decide::verify::Weight;
use tacho_engine::Profile;
use tacho_metrics::{Sample, Samples, Trust};
use tacho_record::{RunRecord, StoredRun, metric::Known};
use tacho_report::Progress;
use tacho_report::compare::forest::{ForestRow, forest};
use tacho_report::json::{Detail, ResultFile, SaveMode, save};
use tacho_report::style::{Ink, fold, harmless_line};
use tacho_run::ServePlan;
use tacho_run::serve::{Contact, LogPlan, LogStart, prepare, run as run_serve, workload_digest};
use tacho_sim::Server;

use super::{opened::Opened, plan::Source, verify::Verified};
use crate::commands::serve::{plan, simulator, verdict};
use crate::exit::{Exit, note, saved};
use crate::{
    args::bundle::ReproduceArgs, args::program::build, args::serve::ServeArgs, commands::screen::Screen,
    commands::sim::hub, interrupt::Interrupt,
};

/// Difference of hit rates of the prefix cache that changes latencies.
const CACHE_DIFFERENCE: f64 = 0.05;

pub(crate) fn run(args: &ReproduceArgs) -> anyhow::Result<Exit> {
    let flags = &args.flags;
    let interrupt = Interrupt::catch()?;
    let opened = Opened::read(&flags.bundle[0])?;
    let checked = Verified::of(&opened, None)?;
    if let Some(finding) = checked.findings.iter().find(|finding| finding.weight == Weight::Invalid) {
        note(&format!("warning: the bundle is INVALID: {} (tacho verify shows all reasons)", finding.text));
    }
    let again = Again::of(&opened, args)?;
    if let Some(directory) = &flags.result_dir {
        crate::commands::sweep::make_directory(directory, "--result-dir")?;
    }
    interrupt.measuring();
    let mut records = Vec::new();
    for number in 1..=flags.num_runs {
        note(&format!("run {number} of {}: {} requests", flags.num_runs, opened.record.measured.samples.len()));
        let record = again.once(args, number, &interrupt)?;
        if record.setup.interrupted {
            return Ok(Exit::Interrupted);
        }
        records.push(record);
    }
    let samples: Vec<&Samples> = records.iter().map(|record| &record.measured.samples).collect();
    let margin = flags.margin.unwrap_or_default();
    // Responses that are not streamed have no first token, whatever their rows say.
    let has = |key: &str| Known::find(key).is_some_and(|known| known.read(&opened.record).is_some());
    let found = agreement(&opened.record.measured.samples, &samples, has, margin, flags.confidence);
    let failures = FailureRule { max: None }.judge(&stored(std::slice::from_ref(&opened.record))?, &stored(&records)?);
    let answer = match failures.judgment {
        // Times that the client may have made itself decide nothing.
        _ if records.iter().any(|record| !kept_up(record)) => Agreement::Inconclusive,
        _ if is_warmer(&opened.record, &records) => Agreement::Inconclusive,
        Judgment::Beyond => Agreement::Differs,
        _ => overall(&found),
    };
    let lines = lines(answer, &found, &opened, &records, args, failures.judgment == Judgment::Beyond);
    tacho_report::out().write_all(lines.as_bytes())?;
    Ok(match answer {
        Agreement::Agrees => Exit::Done,
        Agreement::Inconclusive if flags.allow_inconclusive => Exit::Done,
        _ => Exit::Gate,
    })
}

fn stored(records: &[RunRecord]) -> anyhow::Result<Vec<StoredRun>> {
    let one = |record| Ok(StoredRun::from_dict(&ResultFile::new(record, Detail::Brief).to_dict())?);
    records.iter().map(one).collect()
}

/// The requests of a bundle, against another server.
struct Again {
    source: Source,
    /// The simulator, if it is the server.
    simulator: Option<Server>,
    digest: Option<String>,
    builtin: bool,
}

impl Again {
    fn of(opened: &Opened, args: &ReproduceArgs) -> anyhow::Result<Self> {
        let mut connection = args.connection.clone();
        let engine = opened.record.provenance.server.engine.as_deref();
        let profile = engine.and_then(|engine| Profile::from_name(engine.strip_prefix("tacho simulator, profile ")?));
        if let Some(profile) = profile.filter(|_| connection.is_set("--sim") && !connection.is_set("--sim-profile")) {
            connection.put("--sim-profile", Value::from(profile.name()));
        }
        let source = match opened.workload() {
            Some(path) => Source::saved(&path, Some(&connection), opened.is_builtin())?,
            None => opened
                .recipe()
                .context("the bundle has no workload.jsonl, and its requests cannot be made again")?
                .at(&connection)?,
        };
        let digest = opened.digest();
        let samples = &opened.record.measured.samples;
        let adapter = |sample: Cow<'_, Sample>| Some(sample.labels.get("adapter")?.to_owned());
        let adapters: BTreeSet<String> = samples.iter().filter_map(adapter).collect();
        let mut on = connection;
        if !adapters.is_empty() {
            on.put("--lora-modules", Vec::from_iter(adapters).to_json());
        }
        on.put("--model", Value::from(opened.record.setup.model_id.clone()));
        if let Some(name) = &source.args().target.served_model_name {
            on.put("--served-model-name", Value::from(name.clone()));
        }
        let simulator = simulator::start(&ServeArgs::read(on)?)?;
        Ok(Again { source, simulator, digest, builtin: opened.is_builtin() })
    }

    fn once(&self, args: &ReproduceArgs, number: usize, interrupt: &Interrupt) -> anyhow::Result<RunRecord> {
        let serve = self.source.args();
        let screen = Screen::open(&serve.live, true, Progress::Hidden)?;
        let mut plan = ServePlan { hub: hub(), ..plan::of(serve, self.simulator.as_ref())? };
        plan.tokenizer = self.source.plan(&plan.hub)?.tokenizer;
        let log = args.flags.result_dir.as_ref().map(|directory| directory.join(format!("reproduced-{number}.json")));
        plan.log = log.as_ref().map(|path| LogPlan {
            directory: path.with_extension("rows"),
            start: LogStart::AtOnce,
            required: true,
            tacho: format!("tacho {}", build()),
            command: Vec::new(),
            memory: LogPlan::MEMORY,
        });
        let contact = if self.builtin { Contact::Minimal } else { Contact::Server };
        let prepared = prepare(&plan, contact, &screen)?;
        let digest = workload_digest(&plan, &prepared)?;
        if let Some(stated) = self.digest.as_ref().filter(|stated| **stated != digest) {
            bail!("these requests have digest {digest}, and those of the result {stated}: nothing was sent");
        }
        let record = run_serve(&plan, prepared, &interrupt.stop, &screen)?;
        // An error if no request succeeded.
        verdict(serve, &record)?;
        if let Some(path) = log {
            save(&record, &path, Detail::PerRequest, SaveMode::New)?;
            saved(&path);
        }
        Ok(record)
    }
}

fn lines(
    answer: Agreement,
    found: &[Compared],
    opened: &Opened,
    records: &[RunRecord],
    args: &ReproduceArgs,
    fails: bool,
) -> String {
    let (width, color) = tacho_report::style::screen();
    let margin = args.flags.margin.unwrap_or_default();
    let named = |wanted: Agreement| {
        let keys = found.iter().filter(|one| one.agreement == wanted).map(|one| one.key);
        keys.chain(fails.then_some("failed requests").filter(|_| wanted == Agreement::Differs))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let head = match () {
        () if !records.iter().all(kept_up) => format!("{}: the client did not keep up", answer.name()),
        () if is_warmer(&opened.record, records) => {
            format!("{}: the server had these requests in its prefix cache", answer.name())
        }
        () => format!("{} {}", answer.name(), named(answer)).trim_end().to_owned(),
    };
    let mut lines = fold(&ink(answer).paint(color, &head), width, 2);
    let row = |one: &Compared| ForestRow {
        verdict: (one.agreement.name(), ink(one.agreement)),
        name: one.key.to_owned(),
        values: (one.base, one.new),
        change: one.change,
        scale: tacho_decide::compare::Scale::Relative,
        interval: one.interval,
        limits: vec![-margin, margin],
        note: String::new(),
    };
    lines.extend(forest(&found.iter().map(row).collect::<Vec<_>>(), width, color));
    let doubt = records.iter().find(|record| !kept_up(record)).and_then(|record| record.trust.as_ref());
    let (theirs, ours) = (&opened.record.provenance.server, &records[0].provenance.server);
    let servers = theirs.name().zip(ours.name()).filter(|(one, other)| one != other);
    let notes = [
        doubt.map(|trust| format!("warning[client_unreliable]: {}", trust.text())),
        cache_difference(&opened.record, records).map(cache_text),
        servers.map(|(one, other)| format!("the servers state other versions: {one} in the bundle, {other} here")),
        (records.len() == 1).then(|| {
            "One run on each side: what differs from run to run is not in the intervals. --num-runs 4 adds it."
                .to_owned()
        }),
    ];
    lines.extend(notes.into_iter().flatten().flat_map(|text| fold(&text, width, 2)));
    lines.iter().map(|line| if color { format!("{line}\n") } else { harmless_line(line) + "\n" }).collect()
}

/// The hit rate of the prefix cache in the bundle, and the one here that is farthest from it, if they differ.
fn cache_difference(base: &RunRecord, records: &[RunRecord]) -> Option<(f64, f64)> {
    let base = base.measured.cache_hit_rate()?;
    let rates = records.iter().filter_map(|record| record.measured.cache_hit_rate());
    let farthest = rates.max_by(|one, other| (one - base).abs().total_cmp(&(other - base).abs()))?;
    ((farthest - base).abs() > CACHE_DIFFERENCE).then_some((base, farthest))
}

fn cache_text((base, new): (f64, f64)) -> String {
    let warmer = "the run in the bundle found a warmer cache";
    let text = if new > base { "pass --reset-caches, or restart the server" } else { warmer };
    format!("Prefix cache hit rate {:.0}% in the bundle, {:.0}% here: {text}.", base * 100.0, new * 100.0)
}

/// Whether the server knew the requests: a warm cache is faster, whatever the server is.
fn is_warmer(base: &RunRecord, records: &[RunRecord]) -> bool {
    cache_difference(base, records).is_some_and(|(base, new)| new > base)
}

fn kept_up(record: &RunRecord) -> bool {
    record.trust.as_ref().is_none_or(Trust::is_ok)
}

fn ink(answer: Agreement) -> Ink {
    match answer {
        Agreement::Agrees => Ink::Green,
        Agreement::Differs => Ink::Red,
        Agreement::Inconclusive => Ink::Yellow,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_a_warmer_cache_here_can_be_emptied() {
        let text = super::cache_text((0.75, 0.0));
        assert!(text.contains("75% in the bundle, 0% here") && !text.contains("--reset-caches"), "{text}");
        assert!(super::cache_text((0.0, 0.75)).contains("--reset-caches"));
    }
}
