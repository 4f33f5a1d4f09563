//! Detects the format of a file from the fields of all its rows. A row's own `type` takes precedence if it names a
//! format.

use std::collections::HashSet;

use tacho_core::json::Value;

use super::error::{Location, TraceError};
use super::readers::{columns, dag};
use super::{kind::Format, source::Source};

pub(crate) fn detect(source: &Source) -> Result<Format, TraceError> {
    if let Some(table) = source.documents.iter().find_map(|document| document.table.as_ref()) {
        return of_header(source, &table.header);
    }
    if let Some(format) = source.documents.first().and_then(|document| document.whole.as_ref()).and_then(of_document) {
        return Ok(format);
    }
    let rows = source.rows()?;
    let named = |name: &str| Format::named(name).ok();
    if let Some(format) = rows.iter().find_map(|row| row.text("type").ok().flatten().and_then(named)) {
        return Ok(format);
    }
    let fields: HashSet<&str> = rows.iter().flat_map(|row| row.dict.iter().map(|(key, _)| key)).collect();
    let has = |name: &str| fields.contains(name);
    let any = |names: &[&str]| names.iter().any(|name| fields.contains(name));
    if has("timestamp_start_unix_ms") {
        Ok(Format::Baseten)
    } else if has("round_index") && any(&["prefix_tokens", "newly_append_tokens"]) {
        Ok(Format::TraceLab)
    } else if has("chat_id") || has("parent_chat_id") {
        Ok(Format::Bailian)
    } else if has("conversation_turns") {
        Ok(Format::Graph)
    } else if any(&["spans", "resourceSpans"]) || (has("span_id") && has("trace_id")) {
        Ok(Format::Otel)
    } else if has("captureData") {
        Ok(Format::Sagemaker)
    } else if has("requests") && any(&["block_size", "hash_id_scope", "models"]) {
        Ok(Format::Weka)
    } else if any(&["turns", "orchestrator"]) {
        Ok(if rows.iter().any(dag::is_dag) { Format::Dag } else { Format::MultiTurn })
    } else if has("input_length") && has("duration") && !any(&["hash_ids", "session_id", "delay"]) {
        // Tool durations are GuideLLM's, whose times are in seconds.
        Ok(Format::TraceSynthetic)
    } else if any(&["input_length", "text_input", "payload", "hash_ids"]) {
        Ok(Format::Mooncake)
    } else if has("messages") {
        if any(&["session_id", "timestamp", "delay", "output_length"]) {
            return Ok(Format::Mooncake);
        }
        Err(ambiguous(source, &[Format::Mooncake, Format::RawPayload, Format::SglangOpenai]))
    } else if any(&["text", "texts", "image", "images", "audio", "audios", "video", "videos"]) {
        Ok(Format::SingleTurn)
    } else if has("conversations") || has("conversation") {
        Ok(Format::ShareGpt)
    } else if fields.iter().any(|field| columns::is_prompt(field)) {
        Ok(Format::Columns)
    } else {
        Err(unknown(source, rows[0].dict.iter().map(|(key, _)| key)))
    }
}

/// Detects documents by their structure rather than by the fields of rows.
fn of_document(whole: &Value) -> Option<Format> {
    let first = |name: &str| whole.as_list()?.first()?.get(name);
    match whole {
        Value::Dict(dict) if dict.get("data").is_some_and(|data| data.as_list().is_some()) => Some(Format::InputsJson),
        Value::Dict(dict) if dict.get("format").is_some() && dict.get("requests").is_some() => Some(Format::Model),
        Value::Dict(dict) => {
            let conversations = dict.get("conversations")?.as_list()?;
            conversations.iter().all(|item| item.as_list().is_some()).then_some(Format::SglangAgentic)
        }
        Value::List(_) if first("messages").is_some() && first("id").is_some() => Some(Format::Conversations),
        _ => None,
    }
}

fn of_header(source: &Source, header: &[String]) -> Result<Format, TraceError> {
    let has = |name: &str| header.iter().any(|column| column.trim() == name);
    if has("ContextTokens") && has("GeneratedTokens") {
        Ok(Format::Azure)
    } else if has("Request tokens") && has("Response tokens") {
        Ok(Format::BurstGpt)
    } else {
        Err(unknown(source, header.iter().map(String::as_str)))
    }
}

fn ambiguous(source: &Source, candidates: &[Format]) -> TraceError {
    let names: Vec<&str> = candidates.iter().map(|format| format.label()).collect();
    TraceError::Ambiguous { location: Location::file(&source.path), candidates: names.join(" or ") }
}

fn unknown<'s>(source: &Source, fields: impl Iterator<Item = &'s str>) -> TraceError {
    let found: Vec<&str> = fields.take(12).collect();
    TraceError::Unknown { location: Location::file(&source.path), found: found.join(", ") }
}
