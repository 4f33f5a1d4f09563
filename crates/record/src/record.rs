//! The record of a run: setup, measurements and the metrics computed from them. All reports are made from it.

use std::sync::OnceLock;

use tacho_core::json::{Codec, Dict, FieldError, Value};
use tacho_metrics::{
    Caveat, DiffusionStatistics, OpenLoopMetrics, ProbeStatistics, RankUse, Samples, ServerMetrics, Setup,
    SpeculativeStatistics, Steady, SteadyState, SteadyWindow, Summary, Telemetry, Trust, WindowRule, WorkerUse,
    latency::successes, outputs::Question, ranks::clock_bound_ms, recovery::recoveries, sessions::SessionSummary,
};

use crate::{Group, Intervals, Provenance, groups};

tacho_core::record! {
    /// The measurements of a run.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Measured {
        /// The requests, in workload order.
        pub samples: Samples => OfRows,
        /// Duration of the run in seconds.
        pub duration: f64,
        /// The start of the run on the clock of the samples, in seconds.
        pub origin: f64 = 0.0,
        /// Speculative decoding, from the server's counters.
        pub speculative: Option<SpeculativeStatistics>,
        /// Diffusion decoding, from the server's counters.
        pub diffusion: Option<DiffusionStatistics>,
        /// The server's own metrics during the run.
        pub server: ServerMetrics = ServerMetrics::default(),
        /// Telemetry of the machines.
        pub telemetry: Telemetry = Telemetry::default(),
        /// Health probes, if there were any.
        pub probe: Option<ProbeStatistics>,
        /// Utilization of the client's workers.
        pub workers: Vec<WorkerUse>,
        /// Statistics of each rank, if there are several.
        pub ranks: Vec<RankUse> = Vec::new(),
        /// Rows that the command of `--on-row-command` did not get; `None` without one.
        pub missed_rows: Option<u64> = None,
    }
}

/// The samples, which are not stored: they come from the rows.
struct OfRows;

impl Codec<Samples> for OfRows {
    fn write(_: &Samples) -> Value {
        Value::Null
    }

    fn read(_: &Value) -> Result<Samples, FieldError> {
        Ok(Samples::default())
    }

    fn schema(_: bool) -> Dict {
        Dict::new()
    }

    fn set(_: &mut Dict, _: &str, _: &Samples) {}

    fn describe(_: &mut Dict, _: &str, _: bool, _: &[&str]) {}
}

impl Measured {
    /// Fraction of the prompt tokens that hit the server's prefix cache: from usage reports if every response has
    /// one, otherwise from the server's counters, which include other clients.
    pub fn cache_hit_rate(&self) -> Option<f64> {
        let mut answers = successes(&self.samples).peekable();
        answers.peek()?;
        let (tokens, cached) = answers.fold((0, Some(0)), |(tokens, cached), sample| {
            (tokens + sample.prompt_len, cached.zip(sample.cached_tokens).map(|(sum, more): (u64, u64)| sum + more))
        });
        let reported = cached.filter(|_| tokens > 0).map(|cached| cached as f64 / tokens as f64);
        reported.or_else(|| self.server.prefix_cache_hit_rate())
    }
}

/// The metadata key of the profile of a prediction.
pub const PREDICTED_BY: &str = "predicted_by";

/// A finished run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// Its origin.
    pub provenance: Provenance,
    /// Its settings.
    pub setup: Setup,
    /// Its measurements.
    pub measured: Measured,
    /// Metrics by vLLM's definitions.
    pub summary: Summary,
    /// Metrics by tacho's definitions.
    pub open_loop: OpenLoopMetrics,
    /// Trustworthiness of the client; `None` if its workers are unknown.
    pub trust: Option<Trust>,
    /// Its steady-state part (MSER-5); `None` for short runs.
    pub steady: Option<Steady>,
    /// The window at the concurrency limit, by the definition of vLLM's Rust client; `None` if it was not searched
    /// for.
    pub steady_state: Option<SteadyState>,
    /// Confidence intervals of its rates and latencies.
    pub intervals: Intervals,
    /// Reasons to doubt the result.
    pub caveats: Vec<Caveat>,
    /// Session metrics, if there were sessions.
    pub sessions: Option<SessionSummary>,
    /// Metrics of groups of requests, if they have labels.
    pub groups: Vec<Group>,
    /// Seconds that each stage takes to recover; `None` where that is undefined or does not happen.
    pub recoveries: Vec<Option<f64>>,
    /// What the divergence of outputs depends on, once someone asks: the tests take time.
    pub dependences: OnceLock<Vec<Question>>,
    burst: bool,
}

impl RunRecord {
    /// Format version of stored records.
    pub const VERSION: u64 = 1;

    /// Computes everything that follows from the measurements.
    pub fn compute(setup: Setup, measured: Measured) -> Self {
        let burst = is_burst(&setup, &measured.samples);
        let mut record = Self::compute_whole(setup, measured, burst);
        record.groups = groups::of(&record);
        record.recoveries = recoveries(&record.setup.stages, &record.measured.samples, record.measured.origin);
        record
    }

    /// Computes everything but the groups.
    pub(crate) fn compute_whole(setup: Setup, measured: Measured, burst: bool) -> Self {
        let summary = Summary::of(&setup, &measured.samples, measured.duration);
        let open_loop = OpenLoopMetrics::of(&setup, &measured.samples, measured.duration);
        let mut trust = Trust::of(&setup, &measured.samples, &summary, &open_loop, &measured.workers);
        if let Some(trust) = &mut trust {
            trust.clock_bound_ms = clock_bound_ms(&measured.ranks);
        }
        let caveats = Caveat::all(&setup, &measured.samples, &open_loop, trust.as_ref());
        let intervals = Intervals::default();
        let mut record = RunRecord {
            provenance: Provenance::default(),
            setup,
            measured,
            summary,
            open_loop,
            trust,
            steady: None,
            steady_state: None,
            intervals,
            caveats,
            sessions: None,
            groups: Vec::new(),
            recoveries: Vec::new(),
            dependences: OnceLock::new(),
            burst,
        };
        // A load that changes has no steady state.
        if !record.is_burst() && record.setup.stages.len() < 2 {
            record.steady = Steady::of(&record.setup, &record.measured.samples);
        }
        record.caveats.extend(Caveat::of_steady(record.steady.as_ref()));
        record.intervals = Intervals::of(&record);
        // A growing backlog or a load that changes says more than that latencies are autocorrelated.
        let backlog = record.steady.as_ref().is_some_and(|steady| steady.backlog.is_some());
        let explained = backlog || record.setup.stages.len() > 1;
        record.caveats.extend(record.intervals.caveat().filter(|_| !explained));
        record
    }

    /// Whether all requests were sent at once: such a run is one observation of one burst, which has no steady part.
    pub fn is_burst(&self) -> bool {
        self.burst
    }

    /// Whether the run was simulated from a profile.
    pub fn is_predicted(&self) -> bool {
        self.setup.metadata.iter().any(|(key, _)| key == PREDICTED_BY)
    }

    /// Finds the window in which the run was at its concurrency limit, by `rule`; `requested` if a flag asked for it.
    pub fn find_window(&mut self, rule: WindowRule, requested: bool) {
        if SteadyWindow::applies(&self.setup) {
            let window = SteadyWindow::of(&self.setup, &self.measured.samples, self.measured.duration, rule);
            self.steady_state = Some(SteadyState { requested, window });
        }
    }

    /// The window at the concurrency limit, if one was searched for and found.
    pub fn window(&self) -> Option<&SteadyWindow> {
        self.steady_state.as_ref()?.window.as_ref()
    }

    /// The probes, if at least one got a response: vLLM reports none otherwise.
    pub fn answered_probes(&self) -> Option<ProbeStatistics> {
        self.measured.probe.filter(|probe| probe.completed > 0)
    }

    /// Fingerprint of the workload, if all of it was sent as scheduled.
    pub fn workload(&self) -> Option<&str> {
        self.setup.workload.as_deref().filter(|_| !self.caveats.iter().any(Caveat::leaves_out_requests))
    }

    /// Adds a severe caveat that the measurements do not determine.
    pub fn add_caveat(&mut self, caveat: Caveat) {
        self.caveats.insert(0, caveat);
    }
}

fn is_burst(setup: &Setup, samples: &Samples) -> bool {
    let limited = setup.max_concurrency.is_some_and(|limit| limit < samples.len() as u64);
    let sessions = || samples.iter().next().is_some_and(|sample| sample.session.is_some());
    !setup.is_paced() && !limited && !sessions()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_metrics::Sample;

    #[test]
    fn hits_in_usage_take_precedence_over_counters() {
        let sample = |prompt_len, cached_tokens| Sample { prompt_len, cached_tokens, ..Sample::default() };
        let rate = |samples: Vec<Sample>| Measured { samples: samples.into(), ..Measured::default() }.cache_hit_rate();
        assert_eq!(rate(vec![sample(100, Some(32)), sample(100, Some(0))]), Some(0.16));
        assert_eq!(rate(vec![sample(100, Some(32)), sample(100, None)]), None);
        assert_eq!(rate(Vec::new()), None);
    }

    #[test]
    fn a_severe_caveat_comes_first() {
        let mut record = RunRecord::compute(Setup { interrupted: true, ..Setup::example() }, Measured::default());
        let before = record.caveats.clone();
        record.add_caveat(Caveat::EndedByLostRank { cut_off: 1 });
        assert_eq!(record.caveats[0], Caveat::EndedByLostRank { cut_off: 1 });
        assert!(!before.is_empty() && record.caveats[1..] == before);
    }
}
