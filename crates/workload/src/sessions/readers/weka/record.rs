//! One trace of the file, with its fields validated.

use super::super::*;

const TRACE: &str = "id models block_size hash_id_scope tool_tokens system_tokens totals requests";
const CALL: &str = "t type model in out hash_ids input_types output_types stop api_time think_time ttft";
const AGENT: &str = "t type agent_id subagent_type duration_ms total_tokens tool_use_count status requests models \
                     tool_tokens system_tokens";

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) block: u64,
    /// Whether its block names are shared with other traces.
    pub(crate) global: bool,
    pub(crate) calls: Vec<Call>,
    pub(crate) agents: Vec<Agent>,
    /// Sub-agents before any call of their parent.
    pub(crate) orphans: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    prefix: String,
    pub(crate) start_ms: f64,
    pub(crate) api_s: Option<f64>,
    pub(crate) model: Option<String>,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) ids: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct Agent {
    /// Its name, relative to its parent's.
    pub(crate) name: String,
    /// The call of its parent after which it starts.
    pub(crate) after: usize,
    pub(crate) end_ms: f64,
    pub(crate) calls: Vec<Call>,
}

impl Call {
    pub(crate) fn end_ms(&self) -> f64 {
        clean(self.start_ms + self.api_s.map_or(0.0, from_s))
    }

    /// The path of one of its fields.
    pub(crate) fn field(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl Record {
    pub(crate) fn read(row: &Row<'_>) -> Result<Self> {
        row.only(TRACE)?;
        let block = row.need("block_size", Row::positive)?;
        let global = match row.text("hash_id_scope")? {
            None | Some("local") => false,
            Some("global") => true,
            Some(other) => return Err(row.wrong("hash_id_scope", format!("must be local or global, not {other:?}"))),
        };
        let id = row.need("id", Row::name)?;
        let mut record = Record { id, block, global, calls: Vec::new(), agents: Vec::new(), orphans: 0 };
        for request in row.need("requests", Row::rows)? {
            match row_type(&request)? {
                "subagent" => record.add_agent(&request)?,
                _ => record.calls.push(call(&request, None)?),
            }
        }
        Ok(record)
    }

    fn add_agent(&mut self, row: &Row<'_>) -> Result<()> {
        row.only(AGENT)?;
        let name = format!("sa:{}", row.need("agent_id", Row::name)?);
        if self.agents.iter().any(|agent| agent.name == name) {
            return Err(row.wrong("agent_id", "duplicate agent: another one of this trace has this name"));
        }
        let start = row.need("t", Row::number)?;
        let mut calls = Vec::new();
        for inner in row.need("requests", Row::rows)? {
            if row_type(&inner)? == "subagent" {
                return Err(inner.wrong("type", "a sub-agent inside of a sub-agent cannot be read"));
            }
            calls.push(call(&inner, Some(start))?);
        }
        let latest = calls.iter().map(Call::end_ms).fold(from_s(start), f64::max);
        let end_ms = row.span("duration_ms")?.map_or(latest, |duration| clean(from_s(start) + duration));
        match self.calls.len().checked_sub(1) {
            Some(after) if !calls.is_empty() => self.agents.push(Agent { name, after, end_ms, calls }),
            _ => self.orphans += 1,
        }
        Ok(())
    }
}

fn row_type<'d>(row: &Row<'d>) -> Result<&'d str> {
    match row.need("type", Row::text)? {
        known @ ("n" | "s" | "subagent") => Ok(known),
        other => Err(row.wrong("type", format!("must be n, s or subagent, not {other:?}"))),
    }
}

/// A call. Inside a sub-agent, a time before its start is relative to that start.
fn call(row: &Row<'_>, spawned: Option<f64>) -> Result<Call> {
    row.only(CALL)?;
    let time = row.need("t", Row::span)?;
    row.span("think_time")?;
    row.span("ttft")?;
    let start_ms = match spawned {
        Some(spawned) if time < spawned => clean(from_s(spawned) + from_s(time)),
        _ => from_s(time),
    };
    Ok(Call {
        prefix: row.prefix.clone(),
        start_ms,
        api_s: row.span("api_time")?,
        model: row.string("model")?,
        input: row.need("in", Row::count)?,
        output: row.need("out", Row::count)?,
        ids: row.ids("hash_ids")?.unwrap_or_default(),
    })
}
