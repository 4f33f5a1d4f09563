//! Bailian traces: chats that name the preceding chat, times in seconds, whole prompts as blocks of 16 tokens.

use super::mooncake::{Lengths, lay};
use super::*;

const BLOCK: u64 = 16;

/// The predecessor of a later chat of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edges {
    /// The previous one in the order of `turn`.
    Chain,
    Tree,
}

/// Reads the trace. The chats of a tree form a session, in the order of `turn`.
pub(crate) fn read(source: &Source, options: &Options) -> Result<Trace> {
    let rows = source.rows()?;
    let block = options.positive("block_size", BLOCK)?;
    let mut trace = source.trace();
    trace.options.set("block_size", block);
    let unit = timestamp_unit(options, 1000.0, &mut trace)?;
    let edges = options.choice("edges", &[("chain", Edges::Chain), ("tree", Edges::Tree)], Edges::Chain)?;
    let lengths = options.choice("input_length_is", &Lengths::NAMES, None)?.unwrap_or(Lengths::Cumulative);
    trace.options.set("input_length_is", lengths.name());
    let mut layout = Layout::new(block);
    for row in &rows {
        lay(&mut layout, row)?;
    }
    let mut branched = 0;
    for (session, chats) in trees(&rows)? {
        let mut positions: HashMap<i64, usize> = HashMap::new();
        let mut last: Option<usize> = None;
        for (turn, chat) in chats.iter().enumerate() {
            let named = positions.get(&chat.parent).copied();
            branched += usize::from(turn > 0 && named != last);
            let parent = if edges == Edges::Tree { named } else { last };
            let mut step = step(&session, turn, chat.row, unit)?;
            step.parents = after(parent, chat.row.span("after_ms")?.unwrap_or(0.0));
            step.blocks = lay(&mut layout, chat.row)?;
            if turn > 0 {
                step.history = if lengths == Lengths::Cumulative { History::Recorded } else { History::Live };
            }
            last = Some(trace.push(step));
            positions.insert(chat.id, trace.steps.len() - 1);
        }
    }
    if branched > 0 && edges == Edges::Chain {
        trace.notices.push(format!(
            "{branched} chats branch off an earlier one and are sent one after the other; --option edges=tree sends \
             branches side by side"
        ));
    }
    trace.start_at_the_earliest();
    blocks::ideal(&mut trace, Scope::File);
    Ok(trace)
}

struct Chat<'r, 'd> {
    id: i64,
    parent: i64,
    turn: i64,
    row: &'r Row<'d>,
}

fn step(session: &str, turn: usize, row: &Row<'_>, unit: f64) -> Result<Step> {
    let mut step = Step::new(session, turn);
    step.at_ms = Some(clean(row.need("timestamp", Row::number)? * unit));
    step.input_tokens = Some(row.need("input_length", Row::count)?);
    step.output_tokens = Some(row.need("output_length", Row::count)?);
    step.notes.kind = row.string("type")?;
    Ok(step)
}

/// The chats by their root. A chat whose parent is not in the file is a root.
fn trees<'r, 'd>(rows: &'r [Row<'d>]) -> Result<Vec<(String, Vec<Chat<'r, 'd>>)>> {
    let whole = |row: &Row<'_>, name: &str| match row.get(name).map(|value| value.as_i64()) {
        Some(None) => Err(row.wrong(name, "must be a whole number")),
        found => Ok(found.flatten()),
    };
    let mut parents: HashMap<i64, i64> = HashMap::new();
    let mut chats = Vec::with_capacity(rows.len());
    for row in rows {
        let id = row.need("chat_id", whole)?;
        let parent = whole(row, "parent_chat_id")?.unwrap_or(-1);
        if parents.insert(id, parent).is_some() {
            return Err(row.wrong("chat_id", format!("chat {id} is there twice")));
        }
        chats.push(Chat { id, parent, turn: whole(row, "turn")?.unwrap_or(0), row });
    }
    let mut trees = Groups::new();
    for chat in chats {
        trees.add(root(&parents, &chat)?.to_string(), chat);
    }
    for (_, chats) in &mut trees.groups {
        chats.sort_by_key(|chat| chat.turn);
    }
    Ok(trees.groups)
}

fn root(parents: &HashMap<i64, i64>, chat: &Chat<'_, '_>) -> Result<i64> {
    let mut at = chat.id;
    for _ in 0..=parents.len() {
        match parents.get(&at) {
            Some(parent) if parents.contains_key(parent) => at = *parent,
            _ => return Ok(at),
        }
    }
    Err(chat.row.wrong("parent_chat_id", "cycle: a chat comes before itself"))
}
