//! `--otlp`: exports the run's metrics, and its requests as spans, to a collector. An unreachable collector causes a
//! warning and never fails the run.

use tacho_record::RunRecord;
use tacho_report::export::otlp::{Origin, metrics, traces};
use tacho_run::otlp::Collector;

use crate::args::serve::ServeArgs;
use crate::exit;

pub(super) fn send(args: &ServeArgs, record: &RunRecord) {
    let Some(address) = &args.telemetry.otlp else { return };
    match try_send(address, args.telemetry.spans, record) {
        Ok(spans) => tracing::info!(spans, "series sent to the collector"),
        Err(error) => exit::note(&format!("warning: --otlp: {error:#}")),
    }
}

/// Returns the number of spans sent.
fn try_send(address: &str, spans: bool, record: &RunRecord) -> anyhow::Result<usize> {
    let collector = Collector::at(address)?;
    let began = record.setup.started.parse::<jiff::Timestamp>().unwrap_or_else(|_| jiff::Timestamp::now());
    let origin = Origin(i64::try_from(began.as_nanosecond()).unwrap_or(i64::MAX));
    collector.post("metrics", &metrics(record, origin))?;
    for body in traces(record, origin).iter().filter(|_| spans) {
        collector.post("traces", body)?;
    }
    Ok(if spans { record.measured.samples.len() } else { 0 })
}
