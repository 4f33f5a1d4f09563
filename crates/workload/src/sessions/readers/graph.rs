//! GuideLLM's graphs: turns that name their parents and what they include from each.

use super::columns::{self, Cells, Kind};
use super::*;

pub(crate) fn read(source: &Source, _: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    for (index, row) in source.rows()?.iter().enumerate() {
        let graph = graph(row)?;
        let graph = row.inner("conversation_turns", &graph);
        let session = graph.name("graph_id")?.unwrap_or_else(|| format!("row{index}"));
        add(&mut trace, &graph, &session)?;
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

/// The graph of a row: an object, or its text.
fn graph(row: &Row<'_>) -> Result<Dict> {
    let field = "conversation_turns";
    match row.get(field).ok_or_else(|| row.missing(field))? {
        Value::Dict(dict) => Ok(dict.clone()),
        Value::Str(text) => match json::parse(text) {
            Ok(Value::Dict(dict)) => Ok(dict),
            Ok(_) => Err(row.wrong(field, "must be an object")),
            Err(error) => Err(row.wrong(field, format!("not JSON: {error}"))),
        },
        _ => Err(row.wrong(field, "must be an object, or the text of one")),
    }
}

fn add(trace: &mut Trace, graph: &Row<'_>, session: &str) -> Result<()> {
    let nodes = graph.need("turns", Row::rows)?;
    if nodes.is_empty() {
        return Err(graph.wrong("turns", "has no turn"));
    }
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut pauses: HashMap<usize, f64> = HashMap::new();
    for node in &nodes {
        let name = node.need("node_id", Row::name)?;
        let columns = node.object("columns")?.cloned().unwrap_or_default();
        let unpacked = unpacked(&columns);
        let columns = node.inner("columns", &unpacked);
        let cells = cells(&columns);
        let mut step = Step { turn: Turn::Name(name.clone()), ..Step::new(session, 0) };
        columns::fill(&columns, &cells, &mut step)?;
        step.notes.agent = Some(node.name("agent_id")?.unwrap_or_else(|| "default".to_owned()));
        let position = trace.push(step);
        pauses.insert(position, columns::seconds(&columns, &cells, Kind::Pause)?.unwrap_or(0.0));
        if positions.insert(name.clone(), position).is_some() {
            return Err(node.wrong("node_id", format!("duplicate node {name:?}")));
        }
    }
    for node in &nodes {
        let position = positions[&node.need("node_id", Row::name)?];
        let mut takes = Vec::new();
        for edge in node.rows("parents")?.unwrap_or_default() {
            let name = edge.need("parent_node_id", Row::name)?;
            let unknown = || edge.wrong("parent_node_id", format!("no node is called {name:?}"));
            let parent = *positions.get(&name).ok_or_else(unknown)?;
            takes.push((parent, take(&edge)?));
        }
        if takes.iter().filter(|(_, take)| *take == Take::Full).count() > 1 {
            return Err(node.wrong("parents", "at most one parent may be taken in full"));
        }
        let edge = |(parent, _): &(usize, Take)| Edge { parent: *parent, after_ms: pauses[parent] };
        trace.steps[position].parents = takes.iter().map(edge).collect();
        if !takes.is_empty() {
            trace.steps[position].history = History::Edges(takes);
        }
    }
    Ok(())
}

fn take(edge: &Row<'_>) -> Result<Take> {
    let Some(name) = edge.text("history_context")? else { return Ok(Take::Full) };
    Take::from_name(name)
        .ok_or_else(|| edge.wrong("history_context", format!("must be full, last or new, not {name:?}")))
}

/// The columns of a node without the suffix of their names, and values out of their single-item lists.
fn unpacked(columns: &Dict) -> Dict {
    let entry = |(name, value): (&str, &Value)| {
        let value = match value {
            Value::List(items) if items.len() == 1 => items[0].clone(),
            other => other.clone(),
        };
        (name.strip_suffix("_column").unwrap_or(name).to_owned(), value)
    };
    columns.iter().map(entry).filter(|(_, value)| *value != Value::Null).collect()
}

fn cells<'d>(columns: &Row<'d>) -> Cells<'d> {
    let known = columns.dict.iter().filter_map(|(field, value)| Some((columns::kind(field)?.0, (field, value))));
    known.collect()
}
