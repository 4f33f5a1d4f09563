//! Sessions as a workload: a trace read, made into requests, and told to the load generator.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use tacho_client::BackendKind;
use tacho_core::Request;
use tacho_loadgen::{Graph, Node, OnFailure, ScheduleSpec, Script, SessionPlan};
use tacho_metrics::sessions::SessionStep;
use tacho_pyrand::RandomState;
use tacho_text::Tokenizer;
use tacho_workload::sessions::{self, Format, Options, Replay, ReplaySpec, Scaling, Trace};

use crate::Error;

/// Which sessions, and how they start.
#[derive(Debug, Clone)]
pub struct SessionsPlan {
    /// The file.
    pub path: PathBuf,
    /// What it is; told by its rows without it.
    pub format: Option<Format>,
    /// Settings of the reading.
    pub options: Options,
    /// Which part of it, and how fast.
    pub scaling: Scaling,
    /// When sessions start.
    pub start: SessionStart,
    /// At most this many at once, each from its first request to its last.
    pub max_sessions: Option<usize>,
    /// What a failed request does to its session.
    pub on_failure: OnFailure,
    /// Tokens to generate where the file does not say.
    pub output_len: u64,
}

/// When sessions start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SessionStart {
    /// When the file says; at once where it does not.
    Recorded,
    /// At a mean rate of sessions per second, with the shape of the gaps.
    Rate {
        /// Sessions per second; infinite starts all at once.
        rate: f64,
        /// Shape of the gaps' distribution.
        burstiness: f64,
    },
}

/// Sessions that are ready to be held.
#[derive(Debug)]
pub struct Dialogue {
    /// What the file says.
    pub trace: Trace,
    replay: Replay,
    graph: Graph,
    /// When each session starts, in seconds.
    pub starts: Vec<f64>,
    max_sessions: Option<usize>,
    on_failure: OnFailure,
}

/// Reads the file. Nothing is asked of anybody.
pub(super) fn read(plan: &SessionsPlan) -> Result<Trace, Error> {
    let mut trace = sessions::read(&plan.path, plan.format, &plan.options)?;
    trace.scale(&plan.scaling)?;
    if !trace.pools.is_empty() {
        let problem = format!("{} has entries to draw from and no sessions", trace.file);
        return Err(sessions::TraceError::Setting { flag: "--sessions", problem }.into());
    }
    let dropped = trace.drop_failed();
    if dropped > 0 {
        trace.notices.push(format!("{dropped} calls that had failed when they were recorded are not sent"));
    }
    Ok(trace)
}

impl Dialogue {
    /// Makes the requests and the order in which they may go.
    pub(super) fn new(
        plan: &SessionsPlan,
        trace: Trace,
        backend: BackendKind,
        seed: u32,
        tokenizer: Option<&Tokenizer>,
        random: &mut RandomState,
    ) -> Result<Self, Error> {
        let chat = backend == BackendKind::OpenAiChat;
        let spec = ReplaySpec { chat, output_len: plan.output_len, seed };
        let replay = trace.replay(&spec, tokenizer)?;
        let (trees, count) = trace.trees();
        let begins = begins(&trace, &trees, count);
        let starts = match plan.start {
            SessionStart::Recorded => begins.iter().map(|ms| ms / 1000.0).collect::<Vec<f64>>(),
            SessionStart::Rate { rate, burstiness } => {
                ScheduleSpec::Rate { rate, burstiness }.plan(count, random)?.due().to_vec()
            }
        };
        // Sessions are taken in the order of their starts.
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&left, &right| starts[left].total_cmp(&starts[right]));
        let mut rank = vec![0; count];
        order.iter().enumerate().for_each(|(at, &tree)| rank[tree] = at);
        let graph = graph(&trace, &trees, &begins, &rank);
        let starts = order.iter().map(|&tree| starts[tree]).collect();
        let (max_sessions, on_failure) = (plan.max_sessions, plan.on_failure);
        Ok(Dialogue { trace, replay, graph, starts, max_sessions, on_failure })
    }

    /// The requests as they are before any answer.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.replay.requests.clone()
    }

    /// The earliest due time of each step, in seconds.
    pub(super) fn due(&self) -> Vec<f64> {
        self.trace.earliest_ms().into_iter().map(|ms| ms / 1000.0).collect()
    }

    /// The steps as the metrics want them.
    pub(super) fn steps(&self) -> Vec<SessionStep> {
        let trees = self.trace.trees().0;
        let step = |(step, &session): (&sessions::Step, &usize)| SessionStep {
            session,
            turn: depth(&self.trace, step),
            parents: step.parents.iter().map(|edge| (edge.parent, edge.after_ms / 1000.0)).collect(),
            sends: step.sends(),
        };
        self.trace.steps.iter().zip(&trees).map(step).collect()
    }

    /// What the load generator is told.
    pub(super) fn plan(&self) -> SessionPlan<'_> {
        SessionPlan {
            graph: &self.graph,
            starts: &self.starts,
            max_sessions: self.max_sessions,
            on_failure: self.on_failure,
            script: self,
        }
    }
}

impl Script for Dialogue {
    fn keeps(&self, index: usize) -> bool {
        self.replay.keeps(index)
    }

    fn request(&self, index: usize, answers: &HashMap<usize, Vec<u8>>) -> Option<Request> {
        self.replay.request(index, answers)
    }
}

/// The turn of a step: its number, or how many of its own line came before it.
fn depth(trace: &Trace, step: &sessions::Step) -> usize {
    match &step.turn {
        sessions::Turn::Number(turn) => *turn,
        sessions::Turn::Name(_) => {
            let before = step.parents.iter().map(|edge| depth(trace, &trace.steps[edge.parent]) + 1);
            before.max().unwrap_or(0)
        }
    }
}

/// When each session's first step is due by the file, in milliseconds.
fn begins(trace: &Trace, trees: &[usize], count: usize) -> Vec<f64> {
    let mut begins = vec![f64::INFINITY; count];
    for (step, &tree) in trace.steps.iter().zip(trees).filter(|(step, _)| step.parents.is_empty()) {
        begins[tree] = begins[tree].min(step.at_ms.unwrap_or(0.0));
    }
    begins.into_iter().map(|begin| if begin.is_finite() { begin } else { 0.0 }).collect()
}

/// The steps, their times counted from their session's start.
fn graph(trace: &Trace, trees: &[usize], begins: &[f64], rank: &[usize]) -> Graph {
    let ms = |ms: f64| Duration::from_secs_f64((ms / 1000.0).max(0.0));
    let node = |(step, &tree): (&sessions::Step, &usize)| Node {
        session: rank[tree],
        at: ms(step.at_ms.map_or(0.0, |at| at - begins[tree]) + step.start_delay_ms.unwrap_or(0.0)),
        parents: step.parents.iter().map(|edge| (edge.parent, ms(edge.after_ms))).collect(),
        sends: step.sends(),
    };
    Graph::new(trace.steps.iter().zip(trees).map(node).collect())
}
