//! `tacho throughput` on a running server: all requests at once, once or several times.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tacho_client::control::Caller;
use tacho_core::{EventSink, RunEvent, json::Dict};
use tacho_loadgen::StopSignal;
use tacho_metrics::TaskSummary;
use tacho_metrics::offline::{EngineNote, OfflineKind, OfflineRecord, Throughput};
use tacho_record::RunRecord;

use super::{Measured, Notebook};
use crate::serve::{Contact, prepare, run, save_requests};
use crate::{Error, plan::ServePlan};

const RESET: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct ServedPlan {
    /// The plan of the run, with all requests at once.
    pub serve: ServePlan,
    pub runs: u64,
    pub engine: EngineNote,
    /// File to write the requests to, if any.
    pub save_workload: Option<PathBuf>,
}

/// Sends the batch to a running server, all requests at once, the planned number of times, and computes the same
/// record.
pub fn run_served<'a>(plan: &ServedPlan, stop: &StopSignal, sink: &'a dyn EventSink) -> Result<Measured<'a>, Error> {
    let ServedPlan { serve, runs, save_workload, .. } = plan;
    if serve.traffic.warmups > 0 {
        sink.event(RunEvent::status(format!("Warming up with {} requests...", serve.traffic.warmups)));
    }
    let caller = Caller::new(&serve.endpoint, &serve.base_path, RESET)?.with_stop(stop);
    let mut first: Option<(String, Throughput)> = None;
    let finished = |first: Option<(String, Throughput)>, ended| {
        let (model_id, throughput) = first.ok_or(Error::EmptyWorkload)?;
        let measured = OfflineKind::Throughput(throughput);
        let record = OfflineRecord { model_id, engine: plan.engine.clone(), measured };
        Ok(Measured { record, arguments: Dict::new(), ended, log: Notebook::open(None, Dict::new(), sink)? })
    };
    for run in 0..(*runs).max(1) {
        if run > 0 && !reset(&caller) {
            let text = "the server's prefix cache could not be reset: later runs may find their prompts in it";
            sink.event(RunEvent::warning(text));
        }
        let save = save_workload.as_deref().filter(|_| run == 0);
        let one = serve_once(&numbered(plan, run), save, stop, sink);
        match (one, &mut first) {
            (Ok(one), None) => first = Some(one),
            // An interrupted run is not comparable.
            (Ok((_, next)), Some((_, first))) if !stop.draining() => first.times.extend(next.times),
            (Err(error), Some(_)) => return finished(first, Some(error)),
            (Err(error), None) => return Err(error),
            (Ok(_), Some(_)) => {}
        }
        if stop.draining() {
            return finished(first, Some(Error::Stopped));
        }
    }
    finished(first, None)
}

/// The plan of one of several runs, each with its own log.
fn numbered(plan: &ServedPlan, run: u64) -> ServedPlan {
    let mut plan = plan.clone();
    if let Some(log) = plan.serve.log.as_mut().filter(|_| run > 0) {
        let mut name = log.directory.as_os_str().to_owned();
        name.push(format!("-{}", run + 1));
        log.directory = name.into();
    }
    plan
}

fn serve_once(
    plan: &ServedPlan,
    save: Option<&Path>,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<(String, Throughput), Error> {
    let prepared = prepare(&plan.serve, Contact::Server, &())?;
    if let Some(path) = save {
        save_requests(&prepared.requests.all()?, path)?;
    }
    let has_media = prepared.requests.kept().iter().any(|request| request.media.is_some());
    let model_id = prepared.model_id.clone();
    // Only progress bars and warnings: the status lines of a serving run do not belong to this command.
    let bars = |event| {
        if !matches!(event, RunEvent::Status(_)) {
            sink.event(event);
        }
    };
    let record = run(&plan.serve, prepared, stop, &bars)?;
    match served(&record, has_media) {
        // Stopped before the first response: the interrupt is the cause.
        Err(Error::AllFailed { .. }) if stop.draining() => Err(Error::Stopped),
        served => Ok((model_id, served?)),
    }
}

/// Returns whether the server reports that its prefix cache was reset.
fn reset(caller: &Caller) -> bool {
    caller
        .post("/reset_prefix_cache", caller.user_headers(), b"")
        .is_ok_and(|response| (200..300).contains(&response.status))
}

fn served(record: &RunRecord, has_media: bool) -> Result<Throughput, Error> {
    let (samples, summary) = (&record.measured.samples, &record.summary);
    if let (0, Some(first)) = (summary.completed, samples.iter().next()) {
        return Err(Error::AllFailed { count: samples.len(), reason: first.error.clone() });
    }
    let output_tokens = match &summary.task {
        TaskSummary::Generation(generation) => generation.total_output,
        TaskSummary::Pooling(_) | TaskSummary::Media(_) => 0,
    };
    Ok(Throughput {
        times: vec![record.measured.duration],
        profile_seconds: 0.0,
        num_requests: samples.len() as u64,
        failed: samples.len() as u64 - summary.completed,
        prompt_tokens: summary.total_input,
        output_tokens,
        media_uncounted: has_media,
    })
}

#[cfg(test)]
mod tests {
    use tacho_core::FailureKind;
    use tacho_metrics::{Sample, Setup};

    use super::*;

    #[test]
    fn a_batch_counts_its_requests_failures_and_tokens() {
        let done = Sample { prompt_len: 5, output_len: 7, latency: 1.0, ..Sample::default() };
        let mut failed = Sample { failure: Some(FailureKind::TimedOut), ..done.clone() };
        failed.error = "late".into();
        let batch = |samples: &[&Sample]| {
            let samples = samples.iter().map(|sample| (*sample).clone()).collect();
            let measured = tacho_record::Measured { samples, duration: 4.0, ..<_>::default() };
            served(&RunRecord::compute(Setup::example(), measured), true)
        };
        let served = batch(&[&done, &failed, &done]).unwrap();
        assert_eq!((served.times, served.num_requests, served.failed), (vec![4.0], 3, 1));
        assert_eq!((served.prompt_tokens, served.output_tokens, served.media_uncounted), (10, 14, true));
        assert!(matches!(batch(&[&failed, &failed]), Err(Error::AllFailed { count: 2, reason }) if reason == "late"));
    }
}
