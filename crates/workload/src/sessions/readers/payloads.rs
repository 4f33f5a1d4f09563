//! Formats of complete bodies: AIPerf's raw payloads and inputs file, and SageMaker captures.

use super::*;

/// One body per row. The files of a directory are sessions.
pub(crate) fn raw_payload(source: &Source, _: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    let directory = source.path.is_dir();
    for document in &source.documents {
        let rows = document.rows().enumerate();
        if directory {
            let stem = document.path.file_stem().unwrap_or_default().to_string_lossy();
            trace.chain(&stem, &History::Recorded, rows, |step, (_, row)| body(step, &row))?;
            continue;
        }
        for (index, row) in rows {
            trace.chain(&format!("row{index}"), &History::None, [row], |step, row| body(step, &row))?;
        }
    }
    Ok(trace)
}

pub(crate) fn inputs_json(source: &Source, _: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    let mut known = HashSet::new();
    for file in source.rows()? {
        for entry in file.need("data", Row::rows)? {
            let session = entry.need("session_id", Row::name)?;
            trace.chain(&session, &History::Recorded, entry.need("payloads", Row::rows)?, |step, body| {
                step.prompt = given([("payload", body.dict.clone().into())]);
                Ok(0.0)
            })?;
            if !known.insert(session.clone()) {
                return Err(entry.wrong("session_id", format!("duplicate session {session:?}")));
            }
        }
    }
    Ok(trace)
}

/// Captured calls at their recorded times.
pub(crate) fn sagemaker(source: &Source, _: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    for (index, row) in source.rows()?.iter().enumerate() {
        let body = captured(row)?;
        let mut step = Step::new(format!("row{index}"), 0);
        let length = ["max_tokens", "max_completion_tokens"].iter().find_map(|key| body.get(key)?.as_i64());
        step.output_tokens = length.and_then(|length| u64::try_from(length).ok());
        step.at_ms = inference_time(row)?;
        step.prompt = given([("payload", body)]);
        trace.push(step);
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

fn captured(row: &Row<'_>) -> Result<Value> {
    let field = "captureData.endpointInput.data";
    let data = row.get("captureData").and_then(|data| data.get("endpointInput")?.get("data"));
    match data {
        Some(Value::Str(text)) => json::parse(text).map_err(|error| row.wrong(field, format!("not JSON: {error}"))),
        Some(Value::Dict(body)) => Ok(Value::Dict(body.clone())),
        _ => Err(row.missing(field)),
    }
}

fn inference_time(row: &Row<'_>) -> Result<Option<f64>> {
    let field = "eventMetadata.inferenceTime";
    let Some(time) = row.get("eventMetadata").and_then(|data| data.get("inferenceTime")) else { return Ok(None) };
    let nanos = time.as_str().and_then(nanoseconds);
    nanos
        .map(|nanos| Some(nanos as f64 / 1e6))
        .ok_or_else(|| row.wrong(field, "must be a time such as 2026-01-01T00:00:00Z"))
}

fn body(step: &mut Step, row: &Row<'_>) -> Result<f64> {
    row.need("messages", Row::list)?;
    step.prompt = given([("payload", row.dict.clone().into())]);
    Ok(0.0)
}
