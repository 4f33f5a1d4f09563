//! Conversion of a rank's worker statistics to JSON and back.

use tacho_core::json::{Dict, Value};
use tacho_loadgen::WorkerStats;

/// Most wake-up lags per worker that are sent to rank 0.
const MAX_LAGS: usize = 2048;

pub(super) fn write(workers: &[WorkerStats]) -> Dict {
    let mut closing = Dict::new();
    closing.set("workers", workers.iter().map(|stats| worker_json(stats).into()).collect::<Vec<Value>>());
    closing
}

fn worker_json(stats: &WorkerStats) -> Dict {
    let sample = |nanos: &[u64]| {
        nanos.iter().step_by((nanos.len() / MAX_LAGS).max(1)).map(|&one| one.into()).collect::<Vec<Value>>()
    };
    let mut out = Dict::new();
    out.set("wake_lags_ns", sample(&stats.wake_lags_ns));
    out.set("late_spans_ns", sample(&stats.late_spans_ns));
    out.set("busy_ns", stats.busy_ns);
    out.set("total_ns", stats.total_ns);
    out.set("events", stats.events);
    out.set("coalesced", stats.coalesced);
    out.set("late_coalesced", stats.late_coalesced);
    out.set("connect_failures", stats.connect_failures);
    out.set("connections", stats.connections);
    out.set("kernel_stamps", stats.kernel_timestamps);
    out.set("timestamp_anomalies", stats.timestamp_anomalies);
    out
}

/// Reads what [`write()`] wrote.
pub(crate) fn read(closing: &Value) -> Vec<WorkerStats> {
    let workers = closing.get("workers").and_then(Value::as_list).unwrap_or_default();
    workers.iter().map(worker_of).collect()
}

fn worker_of(value: &Value) -> WorkerStats {
    let whole = |value: &Value| value.as_i64().and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let number = |name: &str| value.get(name).map_or(0, whole);
    let list = |name: &str| value.get(name).and_then(Value::as_list).unwrap_or_default().iter().map(whole).collect();
    WorkerStats {
        wake_lags_ns: list("wake_lags_ns"),
        late_spans_ns: list("late_spans_ns"),
        busy_ns: number("busy_ns"),
        total_ns: number("total_ns"),
        events: number("events"),
        coalesced: number("coalesced"),
        late_coalesced: number("late_coalesced"),
        connect_failures: number("connect_failures"),
        connections: number("connections"),
        kernel_timestamps: value.get("kernel_stamps") == Some(&Value::Bool(true)),
        timestamp_anomalies: number("timestamp_anomalies"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_statistics_round_trip() {
        let stats = WorkerStats {
            wake_lags_ns: vec![1, 2, 3],
            late_spans_ns: vec![4, 5],
            busy_ns: 4,
            total_ns: 5,
            events: 6,
            kernel_timestamps: true,
            timestamp_anomalies: 7,
            ..WorkerStats::default()
        };
        let understood = read(&write(&[stats.clone(), WorkerStats::default()]).into());
        assert_eq!(format!("{understood:?}"), format!("{:?}", [stats, WorkerStats::default()]));
    }
}
