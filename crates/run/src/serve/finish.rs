//! After the last row: samples, the record, and the caveats of the run.

mod checks;
pub(crate) mod early_stop;
pub(crate) mod record;
pub(crate) mod samples;

use std::collections::HashMap;

use tacho_core::json::Value;
use tacho_loadgen::StopReason;
use tacho_metrics::replicas::{self, ReplicaHealth};
use tacho_metrics::{Caveat, Setup};
use tacho_record::{Provenance, RunRecord, logged};

use crate::serve::drive::scrape::{self, Scrape};
use crate::serve::finish::samples::{SampleSpec, SampledRows};
use crate::serve::log::resume::{self, Earlier};
use crate::{
    Error, plan::ServePlan, serve::drive::DriveOutput, serve::drive::measure::RunOutput, serve::drive::server::Server,
    serve::drive::supply::is_endless, serve::finish::record::Observed, serve::log::RowLog,
    serve::log::rows::check_read_back, serve::prepare::Prepared, serve::prepare::identity::RunIdentity,
};

/// A run that has received its last row.
pub(crate) struct Finished<'a> {
    pub(crate) output: RunOutput<'a>,
    /// The earlier run that this one resumed.
    pub(crate) earlier: Option<Earlier>,
    pub(crate) server: Server<'a>,
    /// The server's metrics after the run.
    pub(crate) after: Scrape,
    pub(crate) provenance: Provenance,
    pub(crate) replicas: Vec<ReplicaHealth>,
    /// Scores of `--grade-command` by request.
    pub(crate) scores: Result<HashMap<usize, Value>, Error>,
}

/// Computes the record and closes the log.
pub(crate) fn finish(
    plan: &ServePlan,
    prepared: &Prepared,
    identity: &RunIdentity,
    finished: Finished<'_>,
) -> Result<RunRecord, Error> {
    let Finished { output, earlier, server: Server { before, profiling, .. }, after, provenance, replicas, scores } =
        finished;
    let (scores, ungraded) = match scores {
        Ok(scores) => (scores, None),
        Err(error) => (HashMap::new(), Some(Caveat::Ungraded { problem: error.to_string() })),
    };
    let RunOutput { output, rows, log, ranks, rate_changes, wall, row_command } = output;
    let DriveOutput { mut driven, probes, server, telemetry } = output;
    let server = scrape::series(&before, server, &after, driven.origin.secs());
    let mixed =
        server.fallen().map(|(counter, from, to)| Caveat::MetricsMixed { counter: counter.to_owned(), from, to });
    // Differences between pages of several servers mean nothing.
    let (before, after, server) = if mixed.is_some() { Default::default() } else { (before, after, server) };
    let ended = early_stop::rule(&driven);
    let setup = record::completed(identity.setup.clone(), &driven, rate_changes, &wall);
    let (setup, rows, resumed) = resume::join(earlier, setup, &mut driven, rows, &wall);
    let sampled = {
        let (requests, leaves_cut_off) = (identity.requests.lock(), ended.is_some());
        let spec =
            SampleSpec { leaves_cut_off, scores: Some(&scores), ..SampleSpec::of(plan, prepared, &setup, &requests) };
        SampledRows::of(rows, &spec)?
    };
    let (of_samples, cut_off) = (sampled.caveats(&driven.workers), sampled.cut_off);
    let setup = Setup {
        num_prompts: match is_endless(plan, prepared) {
            true => sampled.samples.len() as i64 + cut_off as i64,
            false => early_stop::requests(setup.num_prompts, ended, sampled.samples.len() as u64 + cut_off),
        },
        ..setup
    };
    let (missed_rows, row_command) = row_command.unzip();
    let observed = Observed { before, after, server, telemetry, probes, ranks: ranks.ranks, missed_rows };
    let mut record = record::compute(prepared, setup, &driven, sampled.samples, observed);
    record.provenance = provenance;
    drop(profiling);
    check_read_back(plan.log.as_ref().map(|log| log.directory.as_path()), &record.measured.samples)?;
    let resumed = resumed.map(|resumed| resumed.caveat(record.summary.completed));
    let ended_by = ended.and_then(|by| early_stop::caveat(by, cut_off));
    let run = [log.as_ref().and_then(RowLog::caveat), row_command.flatten(), resumed, ended_by, mixed, ungraded];
    let checks = checks(plan, prepared, &record, ended);
    let replicas = replicas::caveats(&record.measured.samples, &replicas, record.measured.origin);
    let caveats = run.into_iter().chain(checks).flatten().chain(of_samples).chain(ranks.lost).chain(replicas);
    caveats.collect::<Vec<_>>().into_iter().for_each(|caveat| record.add_caveat(caveat));
    if let Some(log) = log {
        let mut closing = logged::closing(&record);
        if !scores.is_empty() {
            logged::close_scores(&mut closing, &scores);
        }
        log.finish(&Value::Dict(closing));
    }
    Ok(record)
}

fn checks(plan: &ServePlan, prepared: &Prepared, record: &RunRecord, ended: Option<StopReason>) -> [Option<Caveat>; 6] {
    // A run that stopped because it was precise enough stays so: the responses that arrive afterwards change little.
    let sought = plan.traffic.stops.precision.as_ref().filter(|_| ended != Some(StopReason::Precise));
    // Only this rank's prompts are known here.
    let cache = plan.ranks.is_none().then(|| checks::cache(plan, prepared, record)).flatten();
    [
        early_stop::imprecise(sought, record),
        checks::tokenizer(plan, prepared, record).or_else(|| checks::prompts(plan, prepared, record)),
        checks::outputs(prepared, record),
        cache,
        drafts(plan, record),
        (plan.check.is_some() && !checks::is_greedy(plan)).then_some(Caveat::OutputsSampled),
    ]
}

/// Acceptance measured on random tokens.
fn drafts(plan: &ServePlan, record: &RunRecord) -> Option<Caveat> {
    let measured = record.open_loop.acceptance.is_some() || record.measured.speculative.is_some();
    (measured && plan.workload.is_random_text()).then_some(Caveat::AcceptanceOnRandomText)
}
