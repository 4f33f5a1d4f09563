//! The parts of a log other than its rows: the setup, written before the first row, and the summary, written after
//! the last. Together with the rows they restore the record.

mod fields;
mod measured;
mod sessions;
mod setup;

use tacho_core::Observation;
use tacho_core::json::{Dict, Value};
use tacho_metrics::sessions::Steps;
use tacho_metrics::{Caveat, EndedBy, Setup};

use self::fields::Fields;
pub(crate) use self::setup::{classes, goodput, read_classes, read_goodput, read_stages};
use crate::{Error, Measured, Provenance, RunRecord};

/// The part of a log that is written before the first row.
pub fn plan(setup: &Setup, provenance: &Provenance) -> Dict {
    let mut dict = Dict::new();
    dict.set("provenance", provenance.to_dict());
    dict.set("setup", setup::write(setup));
    dict
}

/// Adds the sessions of a run to the part that is written before the first row.
pub fn plan_sessions(plan: &mut Dict, steps: &Steps) {
    plan.set("sessions", sessions::write(steps));
    plan.set("session_source", steps.source.clone());
}

/// Reads the sessions that [`plan_sessions`] wrote; `None` for a run without sessions.
pub fn session_steps(logged: &Value) -> Result<Option<Steps>, Error> {
    let fields = Fields::new(logged)?;
    fields.maybe("sessions").map(|_| sessions::read(fields)).transpose()
}

/// The part of a log that is written after the last row: everything in the record that rows do not determine.
pub fn closing(record: &RunRecord) -> Dict {
    let mut dict = plan(&record.setup, &record.provenance);
    dict.set("measured", measured::write(&record.measured));
    dict.set("doubts", record.caveats.iter().filter_map(write_caveat).collect::<Vec<_>>());
    dict
}

/// Reads the setup that [`plan`] or [`closing`] wrote.
pub fn setup(logged: &Value) -> Result<Setup, Error> {
    setup::read(Fields::of(logged, "setup")?)
}

/// Reads the provenance that [`plan`] or [`closing`] wrote.
pub fn provenance(logged: &Value) -> Provenance {
    Provenance::from_value(logged.get("provenance").unwrap_or(&Value::Null))
}

/// Reads the measurements that [`closing`] wrote; the samples come from the rows.
pub fn measured(closing: &Value) -> Result<Measured, Error> {
    measured::read(Fields::of(closing, "measured")?)
}

/// Reads the caveats that [`closing`] wrote because rows do not determine them.
pub fn caveats(closing: &Value) -> Result<Vec<Caveat>, Error> {
    let caveats = closing.get("doubts").and_then(Value::as_list).unwrap_or_default();
    caveats.iter().map(|caveat| read_caveat(Fields::new(caveat)?)).collect()
}

/// Names of such caveats, in addition to those of [`EndedBy`].
const MISMATCH: &str = "tokenizer_mismatch";
const RESUMED: &str = "resumed";

fn write_caveat(caveat: &Caveat) -> Option<Value> {
    let mut dict = Dict::new();
    dict.set("kind", caveat.kind());
    match caveat {
        Caveat::TokenizerMismatch { prompts, ours, theirs } => {
            dict.set("prompts", *prompts);
            dict.set("ours", *ours);
            dict.set("theirs", *theirs);
        }
        Caveat::Resumed { segments, gap_s, resent, answered } => {
            dict.set("segments", *segments);
            dict.set("gap_s", *gap_s);
            dict.set("resent", *resent);
            dict.set("answered", *answered);
        }
        Caveat::Ended { cut_off, .. } => dict.set("cut_off", *cut_off),
        Caveat::Imprecise { metric, wanted, reached } => {
            dict.set("metric", metric.as_str());
            dict.set("wanted", *wanted);
            dict.set("reached", *reached);
        }
        Caveat::ImpossibleUsage { responses, total } => {
            dict.set("responses", *responses);
            dict.set("total", *total);
        }
        Caveat::TimestampAnomaly { reads } => dict.set("reads", *reads),
        Caveat::OutputsLonger { responses, total, got, asked } => {
            let counts = [("responses", responses), ("total", total), ("got", got), ("asked", asked)];
            counts.into_iter().for_each(|(key, count)| dict.set(key, *count));
        }
        Caveat::MetricsMixed { counter, from, to } => {
            dict.set("counter", counter.as_str());
            dict.set("from", *from);
            dict.set("to", *to);
        }
        Caveat::WarmCache { observed, expected } => {
            dict.set("observed", *observed);
            dict.set("expected", *expected);
        }
        Caveat::RankLost { rank, machine, reason, missing } => {
            dict.set("rank", *rank);
            dict.set("machine", machine.as_str());
            dict.set("reason", reason.as_str());
            dict.set("missing", *missing);
        }
        Caveat::ReplicaUnhealthy { replica, failed, total, since, removed } => {
            dict.set("replica", replica.as_str());
            dict.set("failed", *failed);
            dict.set("total", *total);
            dict.set("since", *since);
            dict.set("removed", *removed);
        }
        Caveat::ReplicaSlow { replica, median_ms, others_ms } => {
            dict.set("replica", replica.as_str());
            dict.set("median_ms", *median_ms);
            dict.set("others_ms", *others_ms);
        }
        Caveat::AcceptanceOnRandomText => {}
        _ => return None,
    }
    Some(Value::Dict(dict))
}

fn read_caveat(fields: Fields<'_>) -> Result<Caveat, Error> {
    let kind = fields.text("kind")?;
    if let Some(by) = EndedBy::ALL.into_iter().find(|by| by.name() == kind) {
        return Ok(Caveat::Ended { by, cut_off: fields.count("cut_off")? });
    }
    match kind.as_str() {
        MISMATCH => Ok(Caveat::TokenizerMismatch {
            prompts: fields.count("prompts")?,
            ours: fields.count("ours")?,
            theirs: fields.count("theirs")?,
        }),
        "impossible_usage" => {
            Ok(Caveat::ImpossibleUsage { responses: fields.count("responses")?, total: fields.count("total")? })
        }
        "imprecise" => Ok(Caveat::Imprecise {
            metric: fields.text("metric")?,
            wanted: fields.float("wanted")?,
            reached: fields.maybe_float("reached")?,
        }),
        "outputs_longer" => Ok(Caveat::OutputsLonger {
            responses: fields.count("responses")?,
            total: fields.count("total")?,
            got: fields.count("got")?,
            asked: fields.count("asked")?,
        }),
        "metrics_mixed" => Ok(Caveat::MetricsMixed {
            counter: fields.text("counter")?,
            from: fields.float("from")?,
            to: fields.float("to")?,
        }),
        "timestamp_anomaly" => Ok(Caveat::TimestampAnomaly { reads: fields.count("reads")? }),
        "warm_cache" => {
            Ok(Caveat::WarmCache { observed: fields.float("observed")?, expected: fields.float("expected")? })
        }
        "rank_lost" => Ok(Caveat::RankLost {
            rank: fields.count("rank")?,
            machine: fields.text("machine")?,
            reason: fields.text("reason")?,
            missing: fields.count("missing")?,
        }),
        "replica_unhealthy" => Ok(Caveat::ReplicaUnhealthy {
            replica: fields.text("replica")?,
            failed: fields.count("failed")?,
            total: fields.count("total")?,
            since: fields.float("since")?,
            removed: fields.flag("removed")?,
        }),
        "replica_slow" => Ok(Caveat::ReplicaSlow {
            replica: fields.text("replica")?,
            median_ms: fields.float("median_ms")?,
            others_ms: fields.float("others_ms")?,
        }),
        "acceptance_on_random_text" => Ok(Caveat::AcceptanceOnRandomText),
        RESUMED => Ok(Caveat::Resumed {
            segments: fields.count("segments")?,
            gap_s: fields.float("gap_s")?,
            resent: fields.count("resent")?,
            answered: fields.count("answered")?,
        }),
        _ => Err(fields.wrong("kind", "a kind of caveat")),
    }
}

/// Drops texts of a row that no metric needs, unless they are to be kept.
pub fn drop_text(row: &mut Observation, keep_texts: bool) {
    if !is_bundled(row) && row.media.is_none() {
        row.text_ends = Vec::new();
    }
    if !keep_texts && !needs_count(row) {
        row.text = Vec::new();
    }
}

/// Returns whether a tokenizer must count the tokens of a row: the server reported no usage, or events with several
/// tokens but not their number.
pub fn needs_count(row: &Observation) -> bool {
    row.outcome.is_complete() && (reported(row).is_none() || is_bundled(row))
}

fn reported(row: &Observation) -> Option<u64> {
    row.usage.completion_tokens.filter(|&tokens| tokens > 0)
}

fn is_bundled(row: &Observation) -> bool {
    row.token_count_source.is_none() && reported(row).is_some_and(|tokens| tokens > row.chunks.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::{dumps, parse};
    use tacho_core::{StageSpan, Timestamp, Usage};
    use tacho_metrics::{
        DiffusionStatistics, GoodputLimits, ProbeStatistics, RampUp, RateChange, ServerMetrics, SpeculativeStatistics,
        Task, WorkerUse,
    };

    /// Serializes and parses, as a file would.
    fn through_text(dict: Dict) -> Value {
        parse(&dumps(&Value::Dict(dict))).unwrap()
    }

    fn full_setup() -> Setup {
        Setup {
            label: Some("α".into()),
            metadata: vec![("k".into(), "v".into()), ("k".into(), "w".into())],
            request_rate: 3.25,
            burstiness: f64::INFINITY,
            max_concurrency: Some(7),
            ramp_up: Some(RampUp { strategy: "linear".into(), start_rps: 1, end_rps: 9 }),
            rps_change_events: vec![RateChange { rps: 2, timestamp: "2026-01-02T03:04:05.000001".into() }],
            stages: vec![StageSpan { name: "peak".into(), end: 2.5, requests: 5, ..StageSpan::default() }],
            self_timed: true,
            task: Task::Pooling,
            metric_percentiles: vec![50.0, 99.9],
            goodput: Some(GoodputLimits { ttft_ms: Some(1.5), tpot_ms: None, e2el_ms: Some(1e300) }),
            strict_parity: true,
            interrupted: true,
            workload: Some("0123abcd".into()),
            ..Setup::example()
        }
    }

    #[test]
    fn setups_come_back() {
        for setup in [Setup::example(), full_setup()] {
            assert_eq!(super::setup(&through_text(plan(&setup, &Provenance::default()))).unwrap(), setup);
        }
    }

    #[test]
    fn measurements_come_back() {
        let mut server = ServerMetrics::default();
        server.add(0.5, "# TYPE a gauge\na 1\n");
        server.add(1.5, "# TYPE a gauge\na 2\n# TYPE b_total counter\nb_total 0.1\n");
        let measured = Measured {
            duration: 1.25,
            origin: 0.5,
            speculative: Some(SpeculativeStatistics {
                acceptance_rate: 61.5,
                acceptance_length: 2.25,
                drafts: 3,
                draft_tokens: 9,
                accepted_tokens: 6,
                per_position: vec![0.5, 0.25],
            }),
            diffusion: Some(DiffusionStatistics {
                committed_throughput: 0.1,
                steps_per_canvas: 0.2,
                committed_per_step: 0.3,
                committed_tokens: 4,
                denoising_steps: 5,
                canvas_positions: 6,
            }),
            server,
            probe: Some(ProbeStatistics { completed: 1, failed: 2, median_ms: 0.1, p99_ms: 0.2, max_ms: 0.3 }),
            workers: vec![WorkerUse {
                busy: 0.1,
                wake_lags: vec![1e-6, 2e-6],
                late_spans: vec![3e-3],
                events: 5,
                kernel_timestamps: true,
                ..WorkerUse::default()
            }],
            missed_rows: Some(3),
            ..Measured::default()
        };
        let mut record = RunRecord::compute(Setup::example(), measured.clone());
        let all = [
            Caveat::TokenizerMismatch { prompts: 3, ours: 10, theirs: 12 },
            Caveat::OutputsLonger { responses: 1, total: 2, got: 1026, asked: 8 },
            Caveat::MetricsMixed { counter: "a_total".to_owned(), from: 2.0, to: 1.0 },
            Caveat::Resumed { segments: 2, gap_s: 1.5, resent: 4, answered: 3 },
            Caveat::Ended { by: EndedBy::Overload, cut_off: 5 },
            Caveat::Imprecise { metric: "p99_ttft_ms".into(), wanted: 0.05, reached: None },
            Caveat::ImpossibleUsage { responses: 1, total: 2 },
            Caveat::TimestampAnomaly { reads: 7 },
            Caveat::AcceptanceOnRandomText,
            Caveat::WarmCache { observed: 0.5, expected: 0.25 },
            Caveat::RankLost { rank: 1, machine: "b".into(), reason: "gone".into(), missing: 9 },
            Caveat::ReplicaUnhealthy { replica: "b:1".into(), failed: 3, total: 9, since: 1.5, removed: true },
            Caveat::ReplicaSlow { replica: "b:1".into(), median_ms: 90.0, others_ms: 30.0 },
        ];
        all.iter().rev().for_each(|caveat| record.add_caveat(caveat.clone()));
        let closing = through_text(closing(&record));
        // NaN is not equal to itself.
        let text = |measured: &Measured| format!("{measured:?}");
        assert_eq!(text(&super::measured(&closing).unwrap()), text(&measured));
        assert_eq!(caveats(&closing).unwrap(), all);
    }

    #[test]
    fn sessions_come_back_unless_their_places_make_no_sense() {
        use tacho_metrics::sessions::SessionStep;
        let step = |turn, parents: &[(usize, f64)]| SessionStep {
            turn,
            parents: parents.into(),
            sends: true,
            own: vec![(1 << 51, 512)],
            ..SessionStep::default()
        };
        let second = SessionStep { before: vec![(0, 2)], ..step(1, &[(0, 1.5)]) };
        let source: Dict = [("file".to_owned(), "trace.jsonl".into())].into_iter().collect();
        let second = SessionStep { child: true, at: Some(2.5), ..second };
        let steps = Steps { steps: vec![step(0, &[]), second], places: vec![4, 7], source };
        let mut dict = plan(&Setup::example(), &Provenance::default());
        assert_eq!(session_steps(&through_text(dict.clone())).unwrap(), None);
        plan_sessions(&mut dict, &steps);
        assert_eq!(session_steps(&through_text(dict.clone())).unwrap(), Some(steps));
        for wrong in [
            step(0, &[(2, 0.0)]),
            step(0, &[(0, 0.0)]),
            step(7, &[]),
            SessionStep { session: 2, ..step(0, &[]) },
            SessionStep { before: vec![(3, 0)], ..step(0, &[]) },
        ] {
            plan_sessions(&mut dict, &Steps { steps: vec![wrong], places: vec![0], source: Dict::new() });
            assert!(session_steps(&through_text(dict.clone())).is_err());
        }
    }

    #[test]
    fn texts_are_shed_unless_a_count_needs_them() {
        let row = |tokens| Observation {
            chunks: vec![Timestamp(1), Timestamp(2)],
            text: b"abc".to_vec(),
            text_ends: vec![1, 3],
            usage: Usage { completion_tokens: tokens, ..Usage::default() },
            ..Observation::dispatched(0, Timestamp(0), Timestamp(0))
        };
        let left = |tokens, keep| {
            let mut row = row(tokens);
            drop_text(&mut row, keep);
            (row.text.len(), row.text_ends.len())
        };
        assert_eq!([left(Some(2), false), left(Some(2), true)], [(0, 0), (3, 0)]);
        assert_eq!([left(None, false), left(Some(0), false), left(Some(5), false)], [(3, 0), (3, 0), (3, 2)]);
    }

    #[test]
    fn missing_fields_are_named() {
        let error = super::setup(&parse(r#"{"setup": {"date": 3}}"#).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "date is not a text");
        assert!(super::setup(&Value::Null).is_err());
    }
}
