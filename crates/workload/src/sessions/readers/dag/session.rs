//! One session of the file, with its fields validated.

use super::super::*;

const SESSION: &str = "session_id turns context_mode pre_session_spawns orchestrator spawns rounds think_time_ms \
                       think_time_sigma think_time_min_ms think_time_max_ms type";
const TURN: &str = "messages model max_tokens tools extra delay forks spawns";

#[derive(Debug)]
pub(crate) struct Session<'d> {
    pub(crate) row: Row<'d>,
    pub(crate) id: String,
    /// The history of later turns.
    pub(crate) history: History,
    /// Whether its turns have no history.
    pub(crate) isolated: bool,
    pub(crate) orchestrates: bool,
    pub(crate) varied_think_time: bool,
    /// Children sent along with its first turn.
    pub(crate) before: Vec<String>,
    pub(crate) turns: Vec<Turn<'d>>,
}

/// A turn of a session, or a step of an orchestrator.
#[derive(Debug, Default)]
pub(crate) struct Turn<'d> {
    pub(crate) row: Option<Row<'d>>,
    pub(crate) content: Option<Dict>,
    pub(crate) model: Option<String>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) extra: Option<Dict>,
    pub(crate) delay_ms: Option<f64>,
    pub(crate) forks: Vec<String>,
    pub(crate) spawns: Vec<Spawn>,
    pub(crate) ends: bool,
}

/// Children that start together and are joined together.
#[derive(Debug)]
pub(crate) struct Spawn {
    pub(crate) children: Vec<String>,
    /// The turn that waits for them.
    pub(crate) join_at: Option<usize>,
}

impl<'d> Session<'d> {
    pub(crate) fn read(row: &Row<'d>) -> Result<Self> {
        row.only(SESSION)?;
        let id = row.need("session_id", Row::name)?;
        let orchestrates = row.get("orchestrator").is_some_and(|value| *value == Value::Bool(true));
        let (history, isolated) = match row.text("context_mode")? {
            None | Some("deltas_without_responses") => (History::Live, false),
            Some("deltas_with_responses") => (History::Recorded, false),
            Some("message_array_with_responses") => (History::Recorded, true),
            Some(other) => return Err(row.wrong("context_mode", format!("{other:?} is not known"))),
        };
        let turns = if orchestrates { rounds(row)? } else { turns(row)? };
        let before = names(row, "pre_session_spawns")?;
        let sigma = row.number("think_time_sigma")?;
        if sigma.is_some_and(|sigma| sigma <= 0.0 || sigma > 10.0) {
            return Err(row.wrong("think_time_sigma", "must be above 0 and at most 10"));
        }
        let (varied_think_time, history) = (sigma.is_some(), if orchestrates { History::None } else { history });
        let row = row.clone();
        let session = Session { row, id, history, isolated, orchestrates, varied_think_time, before, turns };
        session.check_forks()?;
        session.check_joins()?;
        Ok(session)
    }

    /// Checks that a fork that does not run in the background ends its session.
    fn check_forks(&self) -> Result<()> {
        let early = self.turns.iter().rev().skip(1).find(|turn| turn.ends);
        match early.and_then(|turn| turn.row.as_ref()) {
            None => Ok(()),
            Some(row) => Err(row
                .wrong("forks", "a fork ends its parent but turns follow; make it {\"child\", \"background\": true}")),
        }
    }

    fn check_joins(&self) -> Result<()> {
        for (number, turn) in self.turns.iter().enumerate() {
            let outside = |join_at: usize| join_at <= number || join_at >= self.turns.len();
            if turn.spawns.iter().filter_map(|group| group.join_at).any(outside) {
                let row = turn.row.as_ref().unwrap_or(&self.row);
                return Err(row.wrong("spawns", "join outside the session: join_at must name a later turn of it"));
            }
        }
        Ok(())
    }
}

fn turns<'d>(row: &Row<'d>) -> Result<Vec<Turn<'d>>> {
    for field in ["spawns", "rounds", "think_time_ms", "think_time_sigma"] {
        if row.has(field) {
            return Err(row.wrong(field, "is for orchestrators only"));
        }
    }
    let rows = row.need("turns", Row::rows)?;
    if rows.is_empty() {
        return Err(row.wrong("turns", "has no turn"));
    }
    let last = rows.len() - 1;
    rows.into_iter().enumerate().map(|(number, row)| turn(row, number, number == last)).collect()
}

fn turn(row: Row<'_>, number: usize, last: bool) -> Result<Turn<'_>> {
    row.only(TURN)?;
    row.need("messages", Row::messages)?;
    row.list("tools")?;
    let (forks, ends) = forks(&row)?;
    let spawns = spawns(&row, (!last).then_some(number + 1))?;
    let mut children: Vec<&String> = forks.iter().chain(spawns.iter().flat_map(|group| &group.children)).collect();
    children.sort();
    if let Some(pair) = children.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(row.wrong("spawns", format!("{:?} is started twice by one turn", pair[0])));
    }
    Ok(Turn {
        content: Some(copied(&row, &["messages", "tools"])),
        model: row.string("model")?,
        max_tokens: row.positive("max_tokens")?,
        extra: row.object("extra")?.cloned(),
        delay_ms: row.span("delay")?,
        forks,
        spawns,
        ends,
        row: Some(row),
    })
}

/// Names of forked children, and whether one of them ends the session.
fn forks(row: &Row<'_>) -> Result<(Vec<String>, bool)> {
    let (mut names, mut ends) = (Vec::new(), false);
    for (index, item) in row.list("forks")?.unwrap_or_default().iter().enumerate() {
        let field = format!("forks[{index}]");
        match item {
            Value::Str(name) => {
                names.push(name.clone());
                ends = true;
            }
            Value::Dict(dict) => {
                let inner = row.inner(&field, dict);
                inner.only("child background")?;
                names.push(inner.need("child", Row::name)?);
                ends |= !dict.get("background").is_some_and(|value| *value == Value::Bool(true));
            }
            _ => return Err(row.wrong(&field, "must be a session's name or an object with child")),
        }
    }
    Ok((names, ends))
}

/// Spawned groups; those without an explicit join are joined by the `next` turn.
fn spawns(row: &Row<'_>, next: Option<usize>) -> Result<Vec<Spawn>> {
    let mut groups = Vec::new();
    for (index, item) in row.list("spawns")?.unwrap_or_default().iter().enumerate() {
        let field = format!("spawns[{index}]");
        match item {
            Value::Str(name) => groups.push(Spawn { children: vec![name.clone()], join_at: next }),
            Value::Dict(dict) => {
                let inner = row.inner(&field, dict);
                inner.only("children join_at")?;
                let children = names(&inner, "children")?;
                if children.is_empty() {
                    return Err(inner.missing("children"));
                }
                let join_at = inner.count("join_at")?.map(|turn| turn as usize).or(next);
                groups.push(Spawn { children, join_at });
            }
            _ => return Err(row.wrong(&field, "must be a session's name or an object with children")),
        }
    }
    Ok(groups)
}

/// The steps of an orchestrator: one per round, and one that waits for the last round.
fn rounds<'d>(row: &Row<'d>) -> Result<Vec<Turn<'d>>> {
    if row.has("turns") {
        return Err(row.wrong("turns", "an orchestrator has no turns"));
    }
    let think = row.span("think_time_ms")?;
    let round = |row: &Row<'d>, number: usize, joined: bool, own: Option<f64>| -> Result<Turn<'d>> {
        let spawns = spawns(row, joined.then_some(number + 1))?;
        if spawns.is_empty() {
            return Err(row.missing("spawns"));
        }
        Ok(Turn { row: Some(row.clone()), delay_ms: own.or(think), spawns, ..Turn::default() })
    };
    let mut steps = Vec::new();
    match row.get("rounds") {
        None => return Ok(vec![round(row, 0, false, None)?]),
        Some(Value::List(_)) => {
            for (number, inner) in row.rows("rounds")?.unwrap_or_default().iter().enumerate() {
                inner.only("spawns think_time_ms")?;
                steps.push(round(inner, number, true, inner.span("think_time_ms")?)?);
            }
        }
        Some(_) => {
            let count = row.need("rounds", Row::positive)?;
            for number in 0..count as usize {
                steps.push(round(row, number, true, None)?);
            }
        }
    }
    if steps.is_empty() {
        return Err(row.wrong("rounds", "has no round"));
    }
    steps.push(Turn::default());
    Ok(steps)
}

fn names(row: &Row<'_>, field: &str) -> Result<Vec<String>> {
    let items = row.list(field)?.unwrap_or_default();
    let names = items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>();
    names.ok_or_else(|| row.wrong(field, "must be names of sessions"))
}
