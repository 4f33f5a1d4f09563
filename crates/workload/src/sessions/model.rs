//! The model that all session formats reduce to: steps, each eligible at the latest of its own time and, per parent,
//! that parent's end plus a pause; a missing number does not constrain.

use std::io;

use tacho_core::dict;
use tacho_core::json::{Codec, Dict, Flat, OrDefault, Value, dumps_indented};

use super::notes::{RareNotes, number};
use super::{error::TraceError, kind::Format};
use crate::sampling::chat::object;

#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The file's name, without its directory.
    pub file: String,
    pub format: Format,
    pub options: Dict,
    /// The steps, session by session in the order of the file.
    pub steps: Vec<Step>,
    /// Entries to draw from, by pool, if the file is not a list of sessions.
    pub pools: Vec<Pool>,
    pub notices: Vec<String>,
}

/// Entries that requests are drawn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Its name: the file name without the extension.
    pub name: String,
    pub entries: Vec<Dict>,
}

/// One step of a session: a request, or a gate that sends nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// The session it belongs to. A sub-agent has its own session in the tree of its root.
    pub session: String,
    pub turn: Turn,
    /// Steps that must have ended, as indices into [`Trace::steps`].
    pub parents: Vec<Edge>,
    /// Earliest time in milliseconds after the start.
    pub at_ms: Option<f64>,
    /// Without parents: the delay after the load model starts the session.
    pub start_delay_ms: Option<f64>,
    /// Minimum milliseconds after the scheduled time of each parent.
    pub gap_ms: Option<f64>,
    /// The step it is sent along with, without waiting for it.
    pub starts_with: Option<usize>,
    pub history: History,
    /// The choice to continue from if the preceding step has several; 0 is the first.
    pub choice: usize,
    /// For a recorded history: whether the file has only the new part of each prompt, so that earlier parts come first.
    pub deltas: bool,
    pub prompt: Prompt,
    /// The response, if the request was completed before the run: it is sent only as part of the history of others.
    pub answered: Option<String>,
    /// Recorded prompt tokens; only of the new part if the options say `delta`.
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// Blocks of the prompt that others may share.
    pub blocks: Option<Blocks>,
    /// The content to send, if a saved workload has it: text or messages, length and further fields of the body.
    pub sent: Option<Dict>,
    /// Whether the load model starts its session, if the format states it.
    pub root: Option<bool>,
    pub notes: RareNotes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Its number, from 0.
    Number(usize),
    Name(String),
}

impl Default for Turn {
    fn default() -> Self {
        Turn::Number(0)
    }
}

/// A step that must have ended, and the pause after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// The parent's index in [`Trace::steps`].
    pub parent: usize,
    pub after_ms: f64,
}

/// The history before a step's own messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum History {
    #[default]
    None,
    /// The session so far, with the server's completions.
    Live,
    /// The session so far as recorded: the prompt is complete.
    Recorded,
    /// The parent session so far, with the server's completions.
    Fork,
    /// For each parent, the part to include.
    Edges(Vec<(usize, Take)>),
}

tacho_core::named! {
    /// The part of a parent to include.
    pub enum Take {
        /// Everything it was sent, and its completion.
        Full = "full",
        /// Its own messages and its completion.
        Last = "last",
        New = "new",
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub enum Prompt {
    /// Nothing: it only gates others.
    Nothing,
    /// Synthetic text of the recorded length.
    #[default]
    Synthetic,
    /// The file's content: `text`, `messages`, `payload`, `tools` and so on.
    Given(Dict),
}

tacho_core::record! {
    /// A prompt as named blocks of tokens; equal names mean equal tokens.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Blocks {
        /// Names and tokens.
        pub named as "blocks": Vec<(u64, u64)>,
        /// Unshared tokens after them.
        pub tail as "tail_tokens": u64 => OrDefault,
        /// Tokens of the leading blocks that an unlimited cache has.
        pub cached_ideal as "cached_tokens_ideal": u64 => OrDefault,
    }
}

impl Prompt {
    pub(crate) fn text(text: impl Into<Value>) -> Self {
        Prompt::Given([("text".to_owned(), text.into())].into_iter().collect())
    }
}

impl Step {
    /// A step without parents, times or content.
    pub(crate) fn new(session: impl Into<String>, turn: usize) -> Self {
        Step { session: session.into(), turn: Turn::Number(turn), ..Step::default() }
    }

    pub fn id(&self) -> String {
        match &self.turn {
            Turn::Number(turn) => format!("{}/{turn}", self.session),
            Turn::Name(turn) => format!("{}/{turn}", self.session),
        }
    }

    pub fn sends(&self) -> bool {
        self.prompt != Prompt::Nothing && self.answered.is_none()
    }
}

impl Trace {
    pub(crate) fn new(file: String, format: Format) -> Self {
        Trace { file, format, options: Dict::new(), steps: Vec::new(), pools: Vec::new(), notices: Vec::new() }
    }

    pub(crate) fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// Appends the turns of a session, each after the one before it and with this history. `fill` completes a step and
    /// returns the pause before it, in milliseconds. Returns the index of the first step.
    pub(crate) fn chain<T>(
        &mut self,
        session: &str,
        history: &History,
        turns: impl IntoIterator<Item = T>,
        mut fill: impl FnMut(&mut Step, T) -> Result<f64, TraceError>,
    ) -> Result<usize, TraceError> {
        let first = self.steps.len();
        for (turn, own) in turns.into_iter().enumerate() {
            let mut step = Step::new(session, turn);
            if turn > 0 {
                step.history = history.clone();
            }
            let pause_ms = fill(&mut step, own)?;
            match turn {
                0 => step.start_delay_ms = Some(pause_ms).filter(|ms| *ms > 0.0),
                _ => step.parents = vec![Edge { parent: self.steps.len() - 1, after_ms: pause_ms }],
            }
            self.push(step);
        }
        Ok(first)
    }

    /// Shifts times so that the earliest is zero.
    pub(crate) fn start_at_the_earliest(&mut self) {
        let earliest = self.steps.iter().filter_map(|step| step.at_ms).fold(f64::INFINITY, f64::min);
        for at in self.steps.iter_mut().filter_map(|step| step.at_ms.as_mut()) {
            *at = clean(*at - earliest);
        }
    }

    /// The index of each step's session tree, and the number of trees. The load model starts a tree as one: a root with
    /// everything that waits for it or is sent along with it.
    pub fn trees(&self) -> (Vec<usize>, usize) {
        let mut leader: Vec<usize> = (0..self.steps.len()).collect();
        let mut first_of = std::collections::HashMap::new();
        for (position, step) in self.steps.iter().enumerate() {
            let kin = *first_of.entry(step.session.as_str()).or_insert(position);
            let others = step.parents.iter().map(|edge| edge.parent).chain(step.starts_with);
            for other in others.chain([kin]) {
                let (left, right) = (find(&mut leader, position), find(&mut leader, other));
                leader[left.max(right)] = left.min(right);
            }
        }
        let mut numbers = std::collections::HashMap::new();
        let trees = (0..self.steps.len()).map(|position| {
            let next = numbers.len();
            *numbers.entry(find(&mut leader, position)).or_insert(next)
        });
        let trees: Vec<usize> = trees.collect();
        (trees, numbers.len())
    }

    pub fn to_json(&self) -> Value {
        let mut dict = self.head();
        if self.format == Format::RandomPool {
            self.pools_to_json(&mut dict);
        } else {
            dict.set("requests", self.steps.iter().map(|step| self.step_to_json(step).into()).collect::<Vec<Value>>());
        }
        dict.into()
    }

    /// Writes the model as JSON, step by step, so that the text of a long trace is never in memory as a whole.
    pub fn write_model(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.format == Format::RandomPool || self.steps.is_empty() {
            return writeln!(out, "{}", dumps_indented(&self.to_json(), 1));
        }
        let head = dumps_indented(&self.head().into(), 1);
        write!(out, "{},\n \"requests\": [", head.trim_end_matches("\n}"))?;
        for (at, step) in self.steps.iter().enumerate() {
            // Line ends in strings are escaped, so these belong to the layout.
            let text = dumps_indented(&self.step_to_json(step).into(), 1).replace('\n', "\n  ");
            write!(out, "{}\n  {text}", if at > 0 { "," } else { "" })?;
        }
        writeln!(out, "\n ]\n}}")
    }

    fn head(&self) -> Dict {
        dict! { "file": self.file.as_str(), "format": self.format.label(), "options": self.options.clone() }
    }

    fn pools_to_json(&self, dict: &mut Dict) {
        let entries = |pool: &Pool| pool.entries.iter().cloned().map(Value::from).collect::<Vec<Value>>();
        match &self.pools[..] {
            [pool] => dict.set("pool", entries(pool)),
            pools => {
                let named = pools.iter().map(|pool| (pool.name.clone(), entries(pool).into()));
                dict.set("pools", named.collect::<Dict>());
            }
        }
        dict.set("note", "entries are drawn independently; no session, no time");
    }

    fn step_to_json(&self, step: &Step) -> Dict {
        let turn: Value = match &step.turn {
            Turn::Number(turn) => (*turn).into(),
            Turn::Name(turn) => turn.as_str().into(),
        };
        let mut dict = dict! {
            "id": step.id(),
            "session": step.session.as_str(),
            "turn": turn,
            "parents": step.parents.iter().map(|edge| self.edge_to_json(edge)).collect::<Vec<Value>>(),
            "at_ms": step.at_ms.map(number),
            "history": self.history_to_json(&step.history),
            "choice"?: (step.choice > 0).then_some(step.choice),
            "deltas"?: step.deltas.then_some(true),
            "start_delay_ms"?: step.start_delay_ms.map(number),
            "gap_ms"?: step.gap_ms.map(number),
            "starts_with"?: step.starts_with.map(|position| self.steps[position].id()),
            "root"?: step.root,
            "request"?: (step.prompt == Prompt::Nothing).then_some(false),
            "answered"?: step.answered.as_deref(),
            "input_tokens"?: step.input_tokens,
            "output_tokens"?: step.output_tokens,
        };
        step.blocks.iter().for_each(|blocks| Flat::set(&mut dict, "", blocks));
        match &step.prompt {
            Prompt::Given(content) => dict.set("content", content.clone()),
            // A Weka trace has no text and omits the field.
            Prompt::Synthetic if self.format != Format::Weka => dict.set("content", "synthetic"),
            _ => {}
        }
        Flat::set(&mut dict, "", &*step.notes);
        dict.update(&dict! { "sent"?: step.sent.clone() });
        dict
    }

    fn edge_to_json(&self, edge: &Edge) -> Value {
        object([("id", self.steps[edge.parent].id().into()), ("after_ms", number(edge.after_ms))])
    }

    fn history_to_json(&self, history: &History) -> Value {
        let edge = |(parent, take): &(usize, Take)| {
            object([("from", self.steps[*parent].id().into()), ("take", take.name().into())])
        };
        match history {
            History::Edges(edges) => Value::List(edges.iter().map(edge).collect()),
            named => History::NAMES.iter().find(|(_, known)| known == named).map_or("", |(name, _)| name).into(),
        }
    }
}

impl History {
    /// The variants without a list, with their names.
    pub(crate) const NAMES: [(&'static str, History); 4] =
        [("none", History::None), ("live", History::Live), ("recorded", History::Recorded), ("fork", History::Fork)];
}

/// Milliseconds rounded to a picosecond, to remove binary noise.
pub(crate) fn clean(ms: f64) -> f64 {
    let scaled = ms * 1e6;
    if scaled.abs() < 9e15 { scaled.round() / 1e6 } else { ms }
}

pub(crate) fn from_s(seconds: f64) -> f64 {
    clean(seconds * 1000.0)
}

fn find(leader: &mut [usize], mut position: usize) -> usize {
    while leader[position] != position {
        leader[position] = leader[leader[position]];
        position = leader[position];
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(steps: Vec<Step>) -> Trace {
        Trace { steps, ..Trace::new("t".into(), Format::Model) }
    }

    fn after(session: &str, turn: usize, parents: &[usize]) -> Step {
        let parents = parents.iter().map(|&parent| Edge { parent, after_ms: 2.5 }).collect();
        Step { parents, ..Step::new(session, turn) }
    }

    #[test]
    fn a_tree_is_a_root_with_all_that_waits_for_it_or_is_sent_along() {
        let along = Step { starts_with: Some(1), ..Step::new("along", 0) };
        let steps = vec![
            Step::new("other", 0),
            Step::new("root", 0),
            after("agent", 0, &[1]),
            along,
            after("root", 1, &[2]),
            after("other", 1, &[]),
        ];
        assert_eq!(trace(steps).trees(), (vec![0, 1, 1, 1, 1, 0], 2));
        assert_eq!(trace(Vec::new()).trees(), (Vec::new(), 0));
    }

    #[test]
    fn the_model_is_written_step_by_step_as_it_is_written_whole() {
        let mut full = after("s", 1, &[0]);
        full.history = History::Edges(vec![(0, Take::Last)]);
        full.blocks = Some(Blocks { named: vec![(7, 16)], tail: 3, cached_ideal: 16 });
        full.notes.model = Some("m\n".into());
        full.at_ms = Some(1.5);
        let join = Step { prompt: Prompt::Nothing, turn: Turn::Name("join".into()), ..after("s", 2, &[1]) };
        let trace = trace(vec![Step::new("s", 0), full, join]);
        let mut out = Vec::new();
        trace.write_model(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), dumps_indented(&trace.to_json(), 1) + "\n");
        let json = trace.to_json();
        let steps = json.get("requests").unwrap().as_list().unwrap();
        assert_eq!(steps[2].get("request"), Some(&Value::Bool(false)));
        assert_eq!(steps[2].get("id").unwrap().as_str(), Some("s/join"));
        let parent = &steps[1].get("parents").unwrap().as_list().unwrap()[0];
        assert_eq!(
            (parent.get("id").unwrap().as_str(), parent.get("after_ms")),
            (Some("s/0"), Some(&Value::Float(2.5)))
        );
        // Missing attributes are not written.
        assert!(steps[0].get("blocks").is_none() && steps[0].get("model").is_none());
    }

    #[test]
    fn times_count_from_the_earliest() {
        let at = |ms| Step { at_ms: Some(ms), ..Step::new("s", 0) };
        let mut trace = trace(vec![at(1000.3), after("s", 1, &[0]), at(1000.1)]);
        trace.start_at_the_earliest();
        let times: Vec<Option<f64>> = trace.steps.iter().map(|step| step.at_ms).collect();
        assert_eq!(times, [Some(0.2), None, Some(0.0)]);
    }
}
