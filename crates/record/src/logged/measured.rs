//! Conversion of the measurements other than rows to JSON and back.

use tacho_core::json::{Dict, Value};
use tacho_metrics::server_metrics::Series;
use tacho_metrics::{
    DiffusionStatistics, ProbeStatistics, RankUse, Samples, SeriesKind, ServerMetrics, SpeculativeStatistics,
    Telemetry, WorkerUse,
};

use super::fields::{Fields, floats};
use crate::{Error, Measured};

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

pub(super) fn write(measured: &Measured) -> Dict {
    let mut dict = Dict::new();
    dict.set("duration", measured.duration);
    dict.set("origin", measured.origin);
    dict.set("speculative", measured.speculative.as_ref().map(speculative));
    dict.set("diffusion", measured.diffusion.as_ref().map(diffusion));
    dict.set("server", server(&measured.server));
    if !measured.telemetry.is_empty() {
        dict.set("telemetry", measured.telemetry.to_dict());
    }
    dict.set("probe", measured.probe.map(probe));
    dict.set("workers", measured.workers.iter().map(|worker| Value::Dict(worker_use(worker))).collect::<Vec<_>>());
    if let Some(missed) = measured.missed_rows {
        dict.set("missed_rows", missed);
    }
    if !measured.ranks.is_empty() {
        dict.set("ranks", measured.ranks.iter().map(|rank| Value::Dict(rank.to_dict())).collect::<Vec<_>>());
    }
    dict
}

pub(super) fn read(fields: Fields<'_>) -> Result<Measured, Error> {
    Ok(Measured {
        samples: Samples::default(),
        duration: fields.float("duration")?,
        // Logs of older versions lack it.
        origin: fields.maybe_float("origin")?.unwrap_or(0.0),
        speculative: fields.maybe_object("speculative")?.map(read_speculative).transpose()?,
        diffusion: fields.maybe_object("diffusion")?.map(read_diffusion).transpose()?,
        server: fields.maybe_object("server")?.map(read_server).transpose()?.unwrap_or_default(),
        telemetry: fields.maybe("telemetry").and_then(Telemetry::from_value).unwrap_or_default(),
        probe: fields.maybe_object("probe")?.map(read_probe).transpose()?,
        workers: fields.objects("workers")?.iter().map(read_worker).collect::<Result<_, _>>()?,
        ranks: match fields.maybe("ranks") {
            Some(_) => fields.list("ranks")?.iter().filter_map(RankUse::from_value).collect(),
            None => Vec::new(),
        },
        missed_rows: fields.maybe("missed_rows").map(|_| fields.count("missed_rows")).transpose()?,
    })
}

fn speculative(of: &SpeculativeStatistics) -> Dict {
    let mut dict = Dict::new();
    dict.set("acceptance_rate", of.acceptance_rate);
    dict.set("acceptance_length", of.acceptance_length);
    dict.set("drafts", of.drafts);
    dict.set("draft_tokens", of.draft_tokens);
    dict.set("accepted_tokens", of.accepted_tokens);
    dict.set("per_position", floats(&of.per_position));
    dict
}

fn read_speculative(fields: Fields<'_>) -> Result<SpeculativeStatistics, Error> {
    Ok(SpeculativeStatistics {
        acceptance_rate: fields.float("acceptance_rate")?,
        acceptance_length: fields.float("acceptance_length")?,
        drafts: fields.int("drafts")?,
        draft_tokens: fields.int("draft_tokens")?,
        accepted_tokens: fields.int("accepted_tokens")?,
        per_position: fields.floats("per_position")?,
    })
}

fn diffusion(of: &DiffusionStatistics) -> Dict {
    let mut dict = Dict::new();
    dict.set("committed_throughput", of.committed_throughput);
    dict.set("steps_per_canvas", of.steps_per_canvas);
    dict.set("committed_per_step", of.committed_per_step);
    dict.set("committed_tokens", of.committed_tokens);
    dict.set("denoising_steps", of.denoising_steps);
    dict.set("canvas_positions", of.canvas_positions);
    dict
}

fn read_diffusion(fields: Fields<'_>) -> Result<DiffusionStatistics, Error> {
    Ok(DiffusionStatistics {
        committed_throughput: fields.float("committed_throughput")?,
        steps_per_canvas: fields.float("steps_per_canvas")?,
        committed_per_step: fields.float("committed_per_step")?,
        committed_tokens: fields.int("committed_tokens")?,
        denoising_steps: fields.int("denoising_steps")?,
        canvas_positions: fields.int("canvas_positions")?,
    })
}

fn server(metrics: &ServerMetrics) -> Dict {
    let series = |series: &Series| {
        let mut dict = Dict::new();
        dict.set("name", series.name.as_str());
        dict.set("kind", if series.kind == SeriesKind::Gauge { GAUGE } else { COUNTER });
        dict.set("values", floats(&series.values));
        Value::Dict(dict)
    };
    let mut dict = Dict::new();
    dict.set("times", floats(&metrics.times));
    dict.set("series", metrics.series.iter().map(series).collect::<Vec<_>>());
    dict
}

fn read_server(fields: Fields<'_>) -> Result<ServerMetrics, Error> {
    let series = |fields: &Fields<'_>| {
        let kind = match fields.text("kind")?.as_str() {
            GAUGE => SeriesKind::Gauge,
            COUNTER => SeriesKind::Counter,
            _ => return Err(fields.wrong("kind", "a kind of series")),
        };
        Ok(Series { name: fields.text("name")?, kind, values: fields.floats("values")? })
    };
    Ok(ServerMetrics {
        times: fields.floats("times")?,
        series: fields.objects("series")?.iter().map(series).collect::<Result<_, _>>()?,
    })
}

fn probe(of: ProbeStatistics) -> Dict {
    let mut dict = Dict::new();
    dict.set("completed", of.completed);
    dict.set("failed", of.failed);
    dict.set("median_ms", of.median_ms);
    dict.set("p99_ms", of.p99_ms);
    dict.set("max_ms", of.max_ms);
    dict
}

fn read_probe(fields: Fields<'_>) -> Result<ProbeStatistics, Error> {
    Ok(ProbeStatistics {
        completed: fields.count("completed")?,
        failed: fields.count("failed")?,
        median_ms: fields.float("median_ms")?,
        p99_ms: fields.float("p99_ms")?,
        max_ms: fields.float("max_ms")?,
    })
}

fn worker_use(of: &WorkerUse) -> Dict {
    let mut dict = Dict::new();
    dict.set("busy", of.busy);
    let nanos = |seconds: &[f64]| seconds.iter().map(|one| Value::Int((one * 1e9).round() as i64)).collect::<Vec<_>>();
    dict.set("wake_lags_ns", nanos(&of.wake_lags));
    dict.set("late_spans_ns", nanos(&of.late_spans));
    dict.set("events", of.events);
    dict.set("coalesced", of.coalesced);
    dict.set("late_coalesced", of.late_coalesced);
    dict.set("connections", of.connections);
    dict.set("connect_failures", of.connect_failures);
    dict.set("kernel_stamps", of.kernel_timestamps);
    dict
}

fn read_seconds(fields: &Fields<'_>, key: &str) -> Result<Vec<f64>, Error> {
    Ok(fields.floats(key)?.into_iter().map(|nanos| nanos / 1e9).collect())
}

/// Older logs store them in seconds.
fn read_lags(fields: &Fields<'_>) -> Result<Vec<f64>, Error> {
    if fields.maybe("wake_lags").is_some() { fields.floats("wake_lags") } else { read_seconds(fields, "wake_lags_ns") }
}

fn read_worker(fields: &Fields<'_>) -> Result<WorkerUse, Error> {
    Ok(WorkerUse {
        busy: fields.float("busy")?,
        wake_lags: read_lags(fields)?,
        // Older logs lack them.
        late_spans: fields.maybe("late_spans_ns").map_or(Ok(Vec::new()), |_| read_seconds(fields, "late_spans_ns"))?,
        events: fields.count("events")?,
        coalesced: fields.count("coalesced")?,
        late_coalesced: fields.count("late_coalesced")?,
        connections: fields.count("connections")?,
        connect_failures: fields.count("connect_failures")?,
        kernel_timestamps: fields.flag("kernel_stamps")?,
    })
}
