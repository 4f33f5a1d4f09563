//! The run itself: make all parts, rehearse, scrape, send, scrape, compute. Reads like the order of events because it
//! is one.

use std::time::Duration;

use tacho_core::board::Scribe;
use tacho_core::event::ServeNote;
use tacho_core::json::Value;
use tacho_core::{Counters, EventSink, Fan, Kept, RunEvent, Stamp};
use tacho_loadgen::{Drive, StopSignal, drive_sessions};
use tacho_metrics::{EndedBy, RunRecord, Setup, logged};

use super::asked::Asks;
use super::beside::{Beside, Together, drive_with_others};
use super::journal::Journal;
use super::log::RowLog;
use super::parts::Parts;
use super::planned::{digest, workload_hash};
use super::prepare::Prepared;
use super::profiler::Profiling;
use super::ramp::Ramp;
use super::ranks::{self, Muster, Others};
use super::record::{self, Moments, Seen};
use super::rehearse::rehearse;
use super::sampled::{Reading, Sampled};
use super::scrape::{self, Scrape};
use super::sessions::Dialogue;
use super::stops::Stops;
use super::store::Store;
use super::{announce, ended, more, resume, spot_check, warm_cache, workers::default_workers};
use crate::plan::ServePlan;
use crate::{Error, aside};

/// How long a page is waited for after somebody has asked for the end.
const HASTE: Duration = Duration::from_secs(1);

/// Sends a prepared workload and computes its record. A stop is no error once requests have been sent.
pub fn run(
    plan: &ServePlan,
    mut prepared: Prepared,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<RunRecord, Error> {
    let traffic = &plan.traffic;
    let asked = Asks::of(plan.endpoint.backend, &prepared.requests)?;
    let workload = workload_hash(&prepared)?;
    let told = Some(digest(plan, &prepared, &workload));
    let setup = Setup { workload: told, ..record::setup(plan, &prepared, asked.len()) };
    let Journal { log, earlier, places } = Journal::open(plan, &mut prepared, (&setup, &workload), &asked, sink)?;
    let own = ranks::own_part(plan);
    let whole = prepared.timeline.clone();
    let places = ranks::take_share(plan, &mut prepared, places)?;
    let parts = Parts::make(&own, &prepared, stop)?;
    let host = ranks::meet(plan, &workload, parts.clock, stop)?;
    rehearse(plan, &prepared, &parts.payload, stop, sink)?;
    hold_first_sessions(plan, &prepared, &parts, stop, sink)?;
    sink.event(RunEvent::status(ServeNote::MainRun));
    let caller = prepared.caller.with_stop(stop);
    // Writing a profile out may take many minutes: more than other calls have.
    let profiler = || caller.with_timeout(plan.endpoint.timeout);
    let profiling = (traffic.profile && parts.profiler.is_none()).then(|| Profiling::start(profiler(), sink));
    announce::traffic(prepared.timeline.pace(), traffic.max_concurrency, sink);
    let before = Scrape::take(&caller, parts.clock, sink);
    let moments = Moments::now(parts.clock);
    let mut store = Store::new(parts.clock, &moments, log, plan.report.keep_texts);
    let (asked_stop, stop) = (stop, &stop.inner());
    let start = || {
        let host = host.as_ref().map(|host| host.start(&|| asked_stop.draining(), &|stamp| moments.unix_ns(stamp)));
        host.unwrap_or(Stamp::ZERO)
    };
    let start = host.is_some().then_some(&start as &(dyn Fn() -> Stamp + Sync));
    let mut stops = Stops::new(&traffic.stops, &whole, (&asked, setup.task), stop, parts.clock);
    let mut scribe = Scribe::new(&parts.counters);
    let mut ramp = Ramp::of(&whole);
    let others = host.as_ref().zip(plan.ranks.as_ref());
    let mut muster = Muster {
        fan: Fan::new(vec![&mut stops, &mut scribe, &mut ramp], &mut store),
        places: &places,
        others: others.map(|met| Others::new(met, (asked_stop, stop), own.traffic.grace, &parts.counters)),
    };
    let total = match &prepared.dialogue {
        Some(dialogue) => (0..prepared.requests.len()).filter(|&index| dialogue.is_measured(index)).count(),
        None if host.is_some() => asked.len(),
        None => prepared.requests.len(),
    } as u64;
    let beside = Beside { watches: before.is_there(), asked: &asked, start, total, places: &places };
    let together = drive_with_others(&own, &prepared, &parts, &beside, &mut muster, stop, sink)?;
    let Together { mut driven, probes, during, mut telemetry } = together;
    telemetry.shift(driven.origin.secs());
    let others = muster.others.map(Others::into_seen);
    let shares = ranks::Shares { host, others, asked: asked.len() };
    let (mut log, mut rows) = store.into_parts();
    let mut gathered = ranks::gather(shares, plan, &prepared, &setup, &mut driven);
    more::ask_up_to(plan, &prepared, &asked, gathered.most())?;
    if let Some(log) = &mut log {
        log.rows(&gathered.rows);
    }
    rows.kept.append(&mut gathered.rows);
    let caller = if asked_stop.draining() { caller.with_timeout(HASTE) } else { caller };
    let after = Scrape::take(&caller, parts.clock, sink);
    let server = scrape::series(&before, during, &after, driven.origin.secs());
    let ended = ended::by_itself(&driven);
    let setup = record::completed(setup, &driven, ramp.changes(driven.origin, &moments), &moments);
    let (setup, rows, resumed) = resume::join(earlier, setup, &mut driven, rows, &moments);
    let seen = Seen { before, after, server, telemetry, probes, ranks: gathered.ranks };
    // The requests as they went over the wire, and what their answers went through, are as large as all that follows.
    drop(parts);
    tacho_client::return_memory();
    let sampled = {
        let (asked, leaves_cut_off) = (asked.lock(), ended.is_some());
        Sampled::of(rows, &Reading { leaves_cut_off, ..Reading::of(plan, &prepared, setup.task, &asked) })?
    };
    let (odd, cut_off) = (sampled.doubts(&driven.workers), sampled.cut_off);
    let precise = ended == Some(EndedBy::Precision);
    let ended = ended.and_then(|by| ended::caveat(by, cut_off));
    let mut record = record::compute(&prepared, setup, &driven, sampled.samples, seen);
    drop(profiling);
    aside::check(plan.log.as_ref().map(|log| log.folder.as_path()), &record.measured.samples)?;
    // Of several ranks' prompts only some are known here.
    let warm = plan.ranks.is_none().then(|| warm_cache::caveat(plan, &prepared, &record)).flatten();
    let given_up = log.as_ref().and_then(RowLog::caveat);
    // What ended because it was precise enough is; the end of what was under way changes it a little.
    let sought = plan.traffic.stops.precision.as_ref().filter(|_| !precise);
    let imprecise = ended::imprecise(sought, &record);
    let doubts = [given_up, resumed, ended, imprecise, spot_check::tokenizers(plan, &prepared, &record), warm];
    doubts.into_iter().flatten().chain(odd).chain(gathered.lost).for_each(|caveat| record.doubt(caveat));
    if let Some(log) = log {
        log.finish(&Value::Dict(logged::closing(&record)));
    }
    Ok(record)
}

/// Holds the sessions of the warm-up, under the limits of the run; nothing is kept of them.
fn hold_first_sessions(
    plan: &ServePlan,
    prepared: &Prepared,
    parts: &Parts,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<(), Error> {
    let Some(sessions) = prepared.dialogue.as_ref().and_then(Dialogue::warmup_plan) else { return Ok(()) };
    sink.event(RunEvent::status(ServeNote::WarmupSessions { sessions: sessions.range.len() }));
    let counters = Counters::default();
    let drive = Drive {
        max_concurrency: plan.traffic.max_concurrency,
        max_prefills: plan.traffic.max_prefills,
        workers: plan.traffic.workers.unwrap_or_else(default_workers),
        grace: plan.traffic.grace,
        ..Drive::of(&prepared.timeline, &parts.clock, stop, &counters)
    };
    let mut rows = Kept::default();
    drive_sessions(&parts.client, &drive, &sessions, &mut rows)?;
    let rows = rows.into_rows();
    let failed: Vec<&str> = rows.iter().filter_map(|row| Some(row.outcome.failure()?.message.as_str())).collect();
    if let Some(first) = failed.first() {
        let note = ServeNote::WarmupsFailed { failed: failed.len(), of: rows.len(), first: (*first).to_owned() };
        sink.event(RunEvent::warning(note));
    }
    sink.event(RunEvent::status(ServeNote::WarmupDone));
    if stop.draining() { Err(Error::Stopped) } else { Ok(()) }
}
