//! An OTLP export: spans below resources and scopes, attributes as lists of keys and typed values, times in nanoseconds.

use super::*;

/// The spans of an export, in the form of the other span files.
pub(crate) fn spans(row: &Row<'_>) -> Result<Vec<Dict>> {
    let mut found = Vec::new();
    for resource in row.need("resourceSpans", Row::rows)? {
        for scope in resource.rows("scopeSpans")?.unwrap_or_default() {
            for span in scope.rows("spans")?.unwrap_or_default() {
                found.push(plain(&span)?);
            }
        }
    }
    Ok(found)
}

fn plain(span: &Row<'_>) -> Result<Dict> {
    const NAMES: [(&str, &str); 6] = [
        ("traceId", "trace_id"),
        ("spanId", "span_id"),
        ("parentSpanId", "parent_span_id"),
        ("startTimeUnixNano", "start_time"),
        ("endTimeUnixNano", "end_time"),
        ("status", "status"),
    ];
    let mut dict = Dict::new();
    for (theirs, ours) in NAMES {
        if let Some(value) = span.get(theirs) {
            dict.set(ours, value.clone());
        }
    }
    let mut attributes = Dict::new();
    for entry in span.rows("attributes")?.unwrap_or_default() {
        let key = entry.need("key", Row::text)?;
        attributes.set(key, entry.get("value").map_or(Value::Null, typed));
    }
    dict.set("attributes", attributes);
    Ok(dict)
}

/// The plain value; integers are written as text.
fn typed(value: &Value) -> Value {
    let Some((kind, inner)) = value.as_dict().and_then(|dict| dict.iter().next()) else { return value.clone() };
    let items = || inner.get("values").and_then(Value::as_list).unwrap_or_default().iter();
    match kind {
        "intValue" => inner.as_str().and_then(|text| text.parse().ok()).map_or_else(|| inner.clone(), Value::Int),
        "arrayValue" => Value::List(items().map(typed).collect()),
        "kvlistValue" => {
            let entry = |item: &Value| Some((item.text("key")?.to_owned(), typed(item.get("value")?)));
            Value::Dict(items().filter_map(entry).collect())
        }
        _ => inner.clone(),
    }
}
