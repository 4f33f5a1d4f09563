//! Formats of complete bodies: AIPerf's raw payloads and inputs file, and SageMaker captures.

use tacho_core::json::{self, Value};

use super::{after, given};
use crate::sessions::error::TraceError;
use crate::sessions::kind::Format;
use crate::sessions::model::{History, Step, Trace};
use crate::sessions::options::Options;
use crate::sessions::row::Row;
use crate::sessions::source::Source;

/// One body per row. The files of a directory are sessions.
pub(crate) fn raw_payload(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let mut trace = Trace::new(source.name(), Format::RawPayload);
    let directory = source.path.is_dir();
    for document in &source.documents {
        let stem = document.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut last = None;
        for (turn, row) in document.rows().enumerate() {
            row.need("messages", row.list("messages")?)?;
            let step = if directory { later(&stem, turn, last) } else { Step::new(format!("row{turn}"), 0) };
            last = Some(trace.push(Step { prompt: payload(row.dict.clone().into()), ..step }));
        }
    }
    if trace.steps.is_empty() { Err(source.empty()) } else { Ok(trace) }
}

pub(crate) fn inputs_json(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let mut trace = Trace::new(source.name(), Format::InputsJson);
    let mut known = std::collections::HashSet::new();
    for file in source.rows()? {
        for entry in file.need("data", file.rows("data")?)? {
            let session = entry.need("session_id", entry.name("session_id")?)?;
            let mut last = None;
            for (turn, body) in entry.need("payloads", entry.rows("payloads")?)?.iter().enumerate() {
                let step = later(&session, turn, last);
                last = Some(trace.push(Step { prompt: payload(body.dict.clone().into()), ..step }));
            }
            if !known.insert(session.clone()) {
                return Err(entry.wrong("session_id", format!("duplicate session {session:?}")));
            }
        }
    }
    if trace.steps.is_empty() { Err(source.empty()) } else { Ok(trace) }
}

/// Captured calls at their recorded times.
pub(crate) fn sagemaker(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let mut trace = Trace::new(source.name(), Format::Sagemaker);
    for (index, row) in source.rows()?.iter().enumerate() {
        let body = captured(row)?;
        let mut step = Step::new(format!("row{index}"), 0);
        let length = ["max_tokens", "max_completion_tokens"].iter().find_map(|key| body.get(key)?.as_i64());
        step.output_tokens = length.and_then(|length| u64::try_from(length).ok());
        step.at_ms = inference_time(row)?;
        step.prompt = payload(body);
        trace.push(step);
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

fn captured(row: &Row<'_>) -> Result<Value, TraceError> {
    let field = "captureData.endpointInput.data";
    let data = row.get("captureData").and_then(|data| data.get("endpointInput")?.get("data"));
    match data {
        Some(Value::Str(text)) => json::parse(text).map_err(|error| row.wrong(field, format!("not JSON: {error}"))),
        Some(Value::Dict(body)) => Ok(Value::Dict(body.clone())),
        _ => Err(row.missing(field)),
    }
}

fn inference_time(row: &Row<'_>) -> Result<Option<f64>, TraceError> {
    let field = "eventMetadata.inferenceTime";
    let Some(time) = row.get("eventMetadata").and_then(|data| data.get("inferenceTime")) else { return Ok(None) };
    let nanos = time.as_str().and_then(super::otel::nanoseconds);
    nanos
        .map(|nanos| Some(nanos as f64 / 1e6))
        .ok_or_else(|| row.wrong(field, "must be a time such as 2026-01-01T00:00:00Z"))
}

fn later(session: &str, turn: usize, last: Option<usize>) -> Step {
    let history = if last.is_some() { History::Recorded } else { History::None };
    Step { parents: after(last, 0.0), history, ..Step::new(session, turn) }
}

fn payload(body: Value) -> crate::sessions::model::Prompt {
    given([("payload", body)])
}
