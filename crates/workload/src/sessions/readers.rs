//! One reader per format; each knows its fields and units, but not how steps are sent.

pub(crate) mod aiperf;
pub(crate) mod azure;
pub(crate) mod bailian;
pub(crate) mod baseten;
pub(crate) mod burstgpt;
pub(crate) mod columns;
pub(crate) mod conversations;
pub(crate) mod dag;
pub(crate) mod graph;
pub(crate) mod messages;
pub(crate) mod mooncake;
pub(crate) mod otel;
pub(crate) mod otlp;
pub(crate) mod payloads;
pub(crate) mod sglang;
pub(crate) mod sharegpt;
pub(crate) mod synthetic;
pub(crate) mod tracelab;
pub(crate) mod weka;

use std::collections::HashMap;

use tacho_core::json::{Dict, Value};

use super::error::TraceError;
use super::model::{Edge, Prompt};
use super::row::Row;

/// Rows grouped by session, in the order of first appearance. A row without a session is its own session, named by its
/// position.
pub(crate) fn by_session<'r, 'd>(rows: &'r [Row<'d>]) -> Result<Vec<(String, Vec<&'r Row<'d>>)>, TraceError> {
    let mut groups: Vec<(String, Vec<&Row<'d>>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        let Some(session) = row.name("session_id")? else {
            groups.push((format!("row{index}"), vec![row]));
            continue;
        };
        let place = *places.entry(session.clone()).or_insert_with(|| {
            groups.push((session, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(row);
    }
    Ok(groups)
}

/// The edge to the previous turn, if there is one.
pub(crate) fn after(parent: Option<usize>, after_ms: f64) -> Vec<Edge> {
    parent.map(|parent| Edge { parent, after_ms }).into_iter().collect()
}

/// The pause before a session's first turn, if there is one.
pub(crate) fn start_delay(first: bool, delay_ms: Option<f64>) -> Option<f64> {
    delay_ms.filter(|ms| first && *ms > 0.0)
}

/// Content of one field.
pub(crate) fn given(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Prompt {
    Prompt::Given(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Dict>())
}

/// Content of the fields of a row that have a value, under the same names.
pub(crate) fn copied(row: &Row<'_>, fields: &[&str]) -> Dict {
    let value = |field: &&str| Some(((*field).to_owned(), row.get(field)?.clone()));
    fields.iter().filter_map(value).collect()
}
