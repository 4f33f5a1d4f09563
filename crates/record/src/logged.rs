//! The parts of a log other than its rows: the setup, written before the first row, and the summary, written after
//! the last. Together with the rows they restore the record.

use std::collections::HashMap;

use tacho_core::json::{Codec, Dict, FieldError, Flat, Json, Plain, Value, read_field};
use tacho_core::{Observation, dict};
use tacho_metrics::sessions::{SessionStep, Steps};
use tacho_metrics::{Caveat, Setup};

use crate::{Error, Measured, Provenance, RunRecord};

/// The part of a log that is written before the first row.
pub fn plan(setup: &Setup, provenance: &Provenance) -> Dict {
    tacho_core::dict! { "provenance": provenance.to_json(), "setup": setup.to_json() }
}

/// Adds the sessions of a run to the part that is written before the first row.
pub fn plan_sessions(plan: &mut Dict, steps: &Steps) {
    let step = |(step, place): (&SessionStep, &usize)| {
        let mut dict = dict! { "place": *place };
        Flat::set(&mut dict, "", step);
        Value::from(dict)
    };
    plan.set("sessions", steps.steps.iter().zip(&steps.indices).map(step).collect::<Vec<_>>());
    plan.set("session_source", steps.source.clone());
}

/// Reads the sessions that [`plan_sessions`] wrote; `None` for a run without sessions. Their parents and sessions must
/// exist, since metrics index by them.
pub fn session_steps(logged: &Value) -> Result<Option<Steps>, Error> {
    let dict = object(logged)?;
    let Some(list) = dict.get("sessions") else { return Ok(None) };
    let place = |(at, step)| read_field::<usize, Plain>(object(step)?, "place", None).or(Ok(at));
    let positions =
        list.as_list().unwrap_or_default().iter().enumerate().map(place).collect::<Result<Vec<_>, FieldError>>()?;
    let steps: Vec<SessionStep> = read_field::<_, Plain>(dict, "sessions", None)?;
    if !SessionStep::have_order(&steps) || !positions.is_sorted() {
        return Err(FieldError::new("a list of steps that have an order").at("sessions").into());
    }
    let source = read_field::<Dict, Plain>(dict, "session_source", Some(Dict::new))?;
    Ok(Some(Steps { steps, indices: positions, source }))
}

/// The part of a log that is written after the last row: everything in the record that rows do not determine.
pub fn closing(record: &RunRecord) -> Dict {
    let mut dict = plan(&record.setup, &record.provenance);
    dict.set("measured", record.measured.to_json());
    dict.set("doubts", record.caveats.iter().filter_map(Caveat::to_log).collect::<Vec<_>>());
    dict
}

/// Adds to the part that is written after the last row the scores that requests got then.
pub fn close_scores(closing: &mut Dict, scores: &HashMap<usize, Value>) {
    let mut sorted: Vec<(&usize, &Value)> = scores.iter().collect();
    sorted.sort_by_key(|(index, _)| **index);
    let all: Dict = sorted.into_iter().map(|(index, scores)| (index.to_string(), scores.clone())).collect();
    closing.set("scores", all);
}

/// Reads the scores that [`close_scores`] wrote, by request.
pub fn scores(closing: &Value) -> HashMap<usize, Value> {
    let all = closing.get("scores").and_then(Value::as_dict).into_iter().flat_map(Dict::iter);
    all.filter_map(|(index, scores)| Some((index.parse().ok()?, scores.clone()))).collect()
}

/// Reads the setup that [`plan`] or [`closing`] wrote.
pub fn setup(logged: &Value) -> Result<Setup, Error> {
    Ok(read_field::<Setup, Plain>(object(logged)?, "setup", None)?)
}

/// Reads the provenance that [`plan`] or [`closing`] wrote; a malformed one is unknown.
pub fn provenance(logged: &Value) -> Provenance {
    logged.get("provenance").and_then(|stated| Provenance::from_json(stated).ok()).unwrap_or_default()
}

/// Reads the measurements that [`closing`] wrote; the samples come from the rows.
pub fn measured(closing: &Value) -> Result<Measured, Error> {
    Ok(read_field::<Measured, Plain>(object(closing)?, "measured", None)?)
}

/// Reads the caveats that [`closing`] wrote because rows do not determine them.
pub fn caveats(closing: &Value) -> Result<Vec<Caveat>, Error> {
    let caveats = closing.get("doubts").and_then(Value::as_list).unwrap_or_default();
    Ok(caveats.iter().map(Caveat::from_log).collect::<Result<_, _>>()?)
}

fn object(value: &Value) -> Result<&Dict, FieldError> {
    value.as_dict().ok_or(FieldError::new("an object"))
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
    use tacho_core::json::{assert_round_trip, dumps, parse};
    use tacho_core::{StageSpan, Timestamp, Usage};
    use tacho_metrics::{
        DiffusionStatistics, GoodputLimits, MetricSettings, ProbeStatistics, RampUp, RankUse, RateChange,
        ServerMetrics, SpeculativeStatistics, Task, Telemetry, WorkerUse,
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
            stages: vec![StageSpan {
                name: "peak".into(),
                end: 2.5,
                limit: Some(4),
                requests: 5,
                ..StageSpan::default()
            }],
            self_timed: true,
            task: Task::Pooling,
            metric_percentiles: vec![50.0, 99.9],
            metrics: MetricSettings {
                goodput: Some(GoodputLimits { ttft_ms: Some(1.5), tpot_ms: Some(0.25), e2el_ms: Some(1e300) }),
                class_goodput: vec![("chat".into(), GoodputLimits::default())],
                playback_buffer: 0.5,
                price_per_hour: Some(2.5),
                gpus: Some(8),
            },
            strict_parity: true,
            interrupted: true,
            workload: Some("0123abcd".into()),
            ..Setup::example()
        }
    }

    #[test]
    fn setups_come_back() {
        assert_round_trip(&full_setup());
        for setup in [Setup::example(), full_setup()] {
            assert_eq!(super::setup(&through_text(plan(&setup, &Provenance::default()))).unwrap(), setup);
        }
    }

    fn rank() -> RankUse {
        RankUse {
            rank: 1,
            machine: "node3".into(),
            planned: 7,
            requests: 5,
            p50_lateness_ms: Some(0.1),
            p99_lateness_ms: Some(0.2),
            max_lateness_ms: Some(0.3),
            busy: Some(0.5),
            clock_bound_ms: Some(0.01),
            clock_drift_ms: Some(-0.02),
            calendar_offset_ms: Some(-3.0),
            calendar_bound_ms: Some(0.4),
            lost: Some("gone".into()),
        }
    }

    #[test]
    fn measurements_come_back() {
        let mut server = ServerMetrics::default();
        for time in [0.5, 1.5] {
            server.add(time, "# TYPE a gauge\na 2\n# TYPE b_total counter\nb_total 0.1\n");
        }
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
            telemetry: {
                let mut telemetry = Telemetry::default();
                telemetry.add(1.0, [("host".to_owned(), "cpu", "%", 5.0)]);
                let (driver, cuda) = (Some("550.54".into()), Some("12.4".into()));
                Telemetry { gpus: vec!["H200".into()], driver, cuda, ..telemetry }
            },
            ranks: vec![rank()],
            missed_rows: Some(3),
            ..Measured::default()
        };
        assert_round_trip(&measured);
        let record = RunRecord::compute(Setup::example(), measured.clone());
        assert_eq!(super::measured(&through_text(closing(&record))).unwrap(), measured);
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
        let steps = Steps { steps: vec![step(0, &[]), second], indices: vec![4, 7], source };
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
            plan_sessions(&mut dict, &Steps { steps: vec![wrong], indices: vec![0], source: Dict::new() });
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
