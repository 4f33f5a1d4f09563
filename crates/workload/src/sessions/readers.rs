//! One reader per format; each knows its fields and units, but not how steps are sent.

pub(crate) mod aiperf;
pub(crate) mod bailian;
pub(crate) mod baseten;
pub(crate) mod columns;
pub(crate) mod conversations;
pub(crate) mod dag;
pub(crate) mod graph;
pub(crate) mod lengths;
mod messages;
pub(crate) mod mooncake;
pub(crate) mod otel;
pub(crate) mod otlp;
pub(crate) mod payloads;
pub(crate) mod sglang;
pub(crate) mod tracelab;
pub(crate) mod weka;

use std::collections::{HashMap, HashSet};

use tacho_core::dict;
use tacho_core::json::{self, Dict, Value};

use super::blocks::{self, Layout, Scope};
use super::error::{Location, TraceError};
use super::model::{Blocks, Edge, History, Pool, Prompt, Step, Take, Trace, Turn, clean, from_s};
use super::source::{Document, Source};
use super::{notes::Notes, options::Options, row::Row};

type Result<T> = std::result::Result<T, TraceError>;

/// Items by a key, in the order of its first appearance.
pub(crate) struct Groups<T> {
    groups: Vec<(String, Vec<T>)>,
    positions: HashMap<String, usize>,
}

impl<T> Groups<T> {
    fn new() -> Self {
        Groups { groups: Vec::new(), positions: HashMap::new() }
    }

    fn add(&mut self, key: String, item: T) {
        let position = *self.positions.entry(key.clone()).or_insert_with(|| {
            self.groups.push((key, Vec::new()));
            self.groups.len() - 1
        });
        self.groups[position].1.push(item);
    }
}

/// Rows grouped by session. A row without a session is its own session, named by its position.
fn by_session<'r, 'd>(rows: &'r [Row<'d>]) -> Result<Vec<(String, Vec<&'r Row<'d>>)>> {
    let mut sessions = Groups::new();
    for (index, row) in rows.iter().enumerate() {
        match row.name("session_id")? {
            Some(session) => sessions.add(session, row),
            None => sessions.groups.push((format!("row{index}"), vec![row])),
        }
    }
    Ok(sessions.groups)
}

/// The edge to the previous turn, if there is one.
fn after(parent: Option<usize>, after_ms: f64) -> Vec<Edge> {
    parent.map(|parent| Edge { parent, after_ms }).into_iter().collect()
}

fn given<const N: usize>(entries: [(&str, Value); N]) -> Prompt {
    Prompt::Given(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Content of the fields of a row that have a value, under the same names.
fn copied(row: &Row<'_>, fields: &[&str]) -> Dict {
    let value = |field: &&str| Some(((*field).to_owned(), row.get(field)?.clone()));
    fields.iter().filter_map(value).collect()
}

/// Milliseconds per unit of time, by the option `timestamp_unit`, which is noted in the trace.
fn timestamp_unit(options: &Options, default: f64, trace: &mut Trace) -> Result<f64> {
    let unit = options.choice("timestamp_unit", &[("ms", 1.0), ("s", 1000.0)], default)?;
    trace.options.set("timestamp_unit", if unit == 1.0 { "ms" } else { "s" });
    Ok(unit)
}

/// Parses a time to nanoseconds since 1970. A time without a zone is UTC.
fn nanoseconds(text: &str) -> Option<i128> {
    let text = text.trim();
    if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
        return Some(timestamp.as_nanosecond());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let civil: jiff::civil::DateTime = text.parse().ok()?;
    Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_nanosecond())
}
