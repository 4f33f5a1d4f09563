//! The requests of sessions and their dependencies.

use std::{collections::HashSet, ops::Range, time::Duration};

use tacho_client::{BackendKind, ClientPlan};
use tacho_core::json::{Dict, Value, dumps};
use tacho_core::{Request, bounded::Pause};
use tacho_fleet::Membership;
use tacho_loadgen::{Completion, Completions, Graph, Node, OnFailure, Script, SessionPlan};
use tacho_metrics::sessions::{SessionStep, Steps};
use tacho_pyrand::{RandomState, cpython::Random};
use tacho_text::Tokenizer;
use tacho_workload::sessions::{self, ReceivedResponse, Replay, ReplaySpec, Trace, TraceError};

use super::plan::{SessionsPlan, setting};
use super::source::described;
use crate::{Error, plan::LoraPlan, serve::prepare::identity::Hash, serve::prepare::lora};

/// Seed offset of tool latencies, which keeps other draws unchanged.
const TOOL_SEED: u32 = 0x7001;

#[derive(Debug)]
pub struct SessionWorkload {
    pub trace: Trace,
    replay: Replay,
    graph: Graph,
    /// The contexts to send before the run, and the number of sessions in progress.
    contexts: Option<Contexts>,
    /// Start of each session in seconds, ascending.
    pub starts: Vec<f64>,
    /// The index of each tree in that order.
    rank: Vec<usize>,
    trees: Vec<usize>,
    max_sessions: Option<usize>,
    ramp: Duration,
    warmup: usize,
    on_failure: OnFailure,
    /// This rank's part of the sessions, and the number of parts; `None` if there are more ranks than parts.
    share: Option<(usize, usize)>,
    source: Dict,
    /// Latency of the tools before each step whose results are not recorded.
    tools: Vec<Duration>,
}

impl SessionWorkload {
    pub(in crate::serve) fn new(
        plan: &SessionsPlan,
        mut trace: Trace,
        backend: BackendKind,
        seed: u32,
        tokenizer: Option<&Tokenizer>,
        random: &mut RandomState,
    ) -> Result<Self, Error> {
        let (trees, count) = trace.trees();
        check(plan, backend, count)?;
        let begins = begins(&trace, &trees, count);
        let turns = turns(&trace, &trees, count);
        let recorded = begins.iter().map(|ms| ms / 1000.0).collect();
        let starts = plan.start.plan(recorded, &turns, plan.ramp, random)?;
        if let Some(gap) = plan.start.gap() {
            keep_distance(&mut trace, gap * 1000.0);
        }
        if plan.start.gap().is_some() && plan.in_progress.is_none() {
            let notice = "users begin at their first turn, so that prompts are shorter at the beginning than later: use \
                          --sessions-in-progress, or leave the beginning out with --warmup-sessions";
            trace.notices.push(notice.to_owned());
        }
        let (server_history, output_len) = (plan.server_history, plan.output_len);
        let spec = ReplaySpec { chat: backend.sends_messages(), server_history, output_len, seed };
        let mut replay = trace.replay(&spec, tokenizer)?;
        // Sessions are taken in the order of their starts.
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&left, &right| starts[left].total_cmp(&starts[right]));
        let mut rank = vec![0; count];
        order.iter().enumerate().for_each(|(at, &tree)| rank[tree] = at);
        let graph = graph(&trace, &trees, &begins, &rank);
        let warm = plan.in_progress.filter(|wanted| wanted.warm);
        let contexts = warm.map(|wanted| Contexts::new(wanted.sessions.min(count), &trace, &trees, &rank));
        for position in contexts.iter().flat_map(|contexts| &contexts.last) {
            replay.requests[*position].output_len = 1;
        }
        let mut tools = RandomState::new(seed.wrapping_add(TOOL_SEED));
        let latency = |_: &sessions::Step| plan.tool_latency.map_or(0.0, |time| time.draw(&mut tools));
        Ok(SessionWorkload {
            source: described(plan, &trace)?,
            tools: trace.steps.iter().map(latency).map(Pause::clamped).collect(),
            starts: order.iter().map(|&tree| starts[tree]).collect(),
            trace,
            replay,
            graph,
            contexts,
            rank,
            trees,
            max_sessions: plan.max_sessions,
            ramp: plan.ramp,
            warmup: plan.warmup,
            on_failure: plan.on_failure,
            share: Some((0, 1)),
        })
    }

    /// A note on the sessions and how they were read.
    pub(in crate::serve) fn headline(&self) -> String {
        let option = |(name, value): (&str, &Value)| match value {
            Value::Str(text) => format!("{name} {text}"),
            other => format!("{name} {}", dumps(other)),
        };
        let options: Vec<String> = self.trace.options.iter().map(option).collect();
        let options = if options.is_empty() { String::new() } else { format!(" ({})", options.join(", ")) };
        let requests = self.trace.steps.iter().filter(|step| step.sends()).count();
        let (sessions, file, format) = (self.starts.len(), &self.trace.file, self.trace.format.label());
        format!("Sessions: {sessions} with {requests} requests, {file}, read as {format}{options}.")
    }

    /// Assigns an adapter to each session, for all of its requests.
    pub(in crate::serve) fn adapt(&mut self, plan: &LoraPlan, py: &mut Random) {
        let mut sessions = vec![Request::text("", 0, 0); self.rank.len()];
        lora::assign(plan, 0, &mut sessions, py);
        for (request, &tree) in self.replay.requests.iter_mut().zip(&self.trees) {
            request.lora.clone_from(&sessions[self.rank[tree]].lora);
        }
    }

    /// The requests as they are before any response.
    pub(in crate::serve) fn requests(&self) -> Vec<Request> {
        self.replay.requests.clone()
    }

    pub(in crate::serve) fn requests_mut(&mut self) -> &mut [Request] {
        &mut self.replay.requests
    }

    /// Returns whether a step is a request of the measured part.
    pub(in crate::serve) fn is_measured(&self, index: usize) -> bool {
        self.trace.steps[index].sends() && self.rank[self.trees[index]] >= self.warmup
    }

    pub(in crate::serve) fn first(&self) -> usize {
        self.trace.steps.iter().position(sessions::Step::sends).unwrap_or(0)
    }

    /// The earliest scheduled time of each step, in seconds.
    pub(in crate::serve) fn due(&self) -> Vec<f64> {
        let begins = begins(&self.trace, &self.trees, self.rank.len());
        let start = |tree: usize| self.starts[self.rank[tree]] - begins[tree] / 1000.0;
        let due = self.trace.earliest_ms().into_iter().zip(&self.trees).map(|(ms, &tree)| ms / 1000.0 + start(tree));
        due.map(|seconds| seconds.max(0.0)).collect()
    }

    /// The measured steps for the metrics, and the index of each among all.
    pub(in crate::serve) fn steps(&self) -> Steps {
        let measured = |position: &usize| self.rank[self.trees[*position]] >= self.warmup;
        let positions: Vec<usize> = (0..self.trace.steps.len()).filter(measured).collect();
        let mut among = vec![usize::MAX; self.trace.steps.len()];
        positions.iter().enumerate().for_each(|(at, &position)| among[position] = at);
        let depths = depths(&self.trace);
        let begins = begins(&self.trace, &self.trees, self.rank.len());
        let lines = first_lines(&self.trace, &self.trees, self.rank.len());
        let step = |&position: &usize| {
            let step = &self.trace.steps[position];
            SessionStep {
                session: self.rank[self.trees[position]] - self.warmup,
                turn: depths[position],
                child: lines[self.trees[position]] != Some(step.session.as_str()),
                at: step.at_ms.map(|at| (at - begins[self.trees[position]]) / 1000.0),
                parents: waits_for(&self.trace, step)
                    .map(|edge| (among[edge.parent], edge.after_ms / 1000.0))
                    .collect(),
                sends: step.sends(),
                warmed: self.contexts.as_ref().is_some_and(|contexts| contexts.last.contains(&position)),
                own: self.replay.pieces(position).to_vec(),
                before: self.replay.before(position).iter().map(|&(before, choice)| (among[before], choice)).collect(),
            }
        };
        Steps { steps: positions.iter().map(step).collect(), indices: positions, source: self.source.clone() }
    }

    /// The measured sessions, for the load generator.
    pub(in crate::serve) fn plan(&self) -> SessionPlan<'_> {
        self.part(self.warmup..self.graph.sessions(), self.share)
    }

    /// The warm-up sessions, for the load generator.
    pub(in crate::serve) fn warmup_plan(&self) -> Option<SessionPlan<'_>> {
        // Rank 0 warms up for all.
        if let Some(Contexts { graph, sessions, .. }) = &self.contexts {
            return Some(SessionPlan { graph, max_sessions: None, ..self.part(0..*sessions, Some((0, 1))) });
        }
        (self.warmup > 0).then(|| self.part(0..self.warmup, Some((0, 1))))
    }

    fn part(&self, range: Range<usize>, share: Option<(usize, usize)>) -> SessionPlan<'_> {
        let (rank, of) = share.unwrap_or((0, 1));
        let from = if range.start == 0 { 0.0 } else { self.starts[range.start] };
        let first = (range.start + rank).min(range.end);
        SessionPlan {
            graph: &self.graph,
            range: if share.is_some() { first..range.end } else { range.end..range.end },
            stride: of,
            starts: &self.starts,
            from,
            max_sessions: self.max_sessions,
            ramp: if self.max_sessions.is_some() { self.ramp } else { Duration::ZERO },
            on_failure: self.on_failure,
            script: self,
        }
    }

    /// Number of measured requests that one of `active` ranks sends.
    pub(in crate::serve) fn requests_of(&self, rank: usize, active: usize) -> usize {
        let owned = |index: &usize| (self.rank[self.trees[*index]] - self.warmup) % active == rank;
        (0..self.trees.len()).filter(|&index| self.is_measured(index)).filter(owned).count()
    }

    /// Keeps one rank's part: every n-th session, and a part of the session limit.
    pub(in crate::serve) fn take_share(&mut self, position: &Membership, max_concurrency: Option<usize>) {
        let max = self.max_sessions.unwrap_or(usize::MAX).min(max_concurrency.unwrap_or(usize::MAX));
        let active = position.ranks.min(max).max(1);
        self.share = (position.rank < active).then_some((position.rank, active));
        self.max_sessions = self.max_sessions.map(|limit| position.limit(limit));
    }

    /// Connections to open in advance: those of the sessions that start at once.
    pub(in crate::serve) fn connections(&self, max_concurrency: Option<usize>, ahead: usize) -> ClientPlan {
        let at_once = self.starts.iter().take_while(|start| **start <= 0.0).count();
        let limit = self.max_sessions.unwrap_or(usize::MAX).min(max_concurrency.unwrap_or(usize::MAX));
        let preconnect = at_once.max(ahead).min(limit).min(self.starts.len());
        ClientPlan { preconnect, spare: true, at_most: max_concurrency.map(|limit| limit.max(preconnect)) }
    }

    /// The sessions with their start times and known requests, for a file.
    pub(in crate::serve) fn saved(&self) -> Trace {
        let mut saved = self.trace.clone();
        for (position, planned) in self.planned_ms().into_iter().enumerate() {
            let step = &mut saved.steps[position];
            step.at_ms = planned;
            if step.prompt != sessions::Prompt::Nothing {
                step.sent = Some(self.replay.sent(position));
            }
        }
        saved
    }

    /// The scheduled time of each step that has one of its own, in milliseconds. Sessions that start as recorded keep
    /// their times exactly.
    fn planned_ms(&self) -> Vec<Option<f64>> {
        let begins = begins(&self.trace, &self.trees, self.rank.len());
        let shift =
            |tree: usize| Some(self.starts[self.rank[tree]] * 1000.0 - begins[tree]).filter(|ms| ms.abs() > 1e-6);
        let planned = |(step, &tree): (&sessions::Step, &usize)| {
            let own = step.at_ms.or(step.parents.is_empty().then_some(begins[tree]))?;
            Some(own + shift(tree).unwrap_or(0.0))
        };
        self.trace.steps.iter().zip(&self.trees).map(planned).collect()
    }

    /// Adds what determines the requests of sessions, in addition to the parts of them that are known before the run.
    pub(in crate::serve) fn add_to(&self, hash: &mut Hash) {
        hash.number(self.warmup);
        for (position, planned) in self.planned_ms().into_iter().enumerate() {
            let step = &self.trace.steps[position];
            let seconds = |ms: Option<f64>| ms.map(|ms| ms / 1000.0);
            hash.number(self.rank[self.trees[position]]);
            hash.number(usize::from(step.sends()));
            hash.times(&[planned, step.start_delay_ms, step.gap_ms].map(seconds));
            hash.times(&[Some(self.tools[position].as_secs_f64())]);
            hash.number(step.parents.len());
            for edge in &step.parents {
                hash.number(edge.parent);
                hash.times(&[seconds(Some(edge.after_ms))]);
            }
            let history = self.replay.before(position);
            hash.number(history.len());
            for &(before, choice) in history {
                hash.number(before);
                hash.number(choice);
            }
            hash.part(step.answered.as_deref().unwrap_or_default().as_bytes());
        }
    }
}

impl SessionWorkload {
    /// The response to a step: from before the run, or received.
    fn response<'a>(&'a self, position: usize, answers: &'a Completions) -> Option<ReceivedResponse<'a>> {
        if let Some(text) = &self.trace.steps[position].answered {
            return Some(ReceivedResponse { text: text.as_bytes(), reply: None });
        }
        let completion: &Completion = answers.get(&position)?;
        Some(ReceivedResponse { text: &completion.text, reply: completion.reply.as_deref() })
    }
}

impl Script for SessionWorkload {
    fn keeps(&self, index: usize) -> bool {
        self.replay.keeps(index)
    }

    fn request(&self, index: usize, answers: &Completions) -> Option<Request> {
        self.replay.request(index, &|position| self.response(position, answers))
    }

    fn tools(&self, index: usize, answers: &Completions) -> Option<(usize, Duration)> {
        let latency = self.tools[index];
        if latency.is_zero() {
            return None;
        }
        Some((self.replay.simulated_tools(index, &|position| self.response(position, answers))?, latency))
    }
}

/// The steps that a step waits for: those that were not completed before the run.
fn waits_for<'t>(trace: &'t Trace, step: &'t sessions::Step) -> impl Iterator<Item = &'t sessions::Edge> {
    step.parents.iter().filter(|edge| trace.steps[edge.parent].answered.is_none())
}

/// The turn of each step: its number, or the length of the longest chain before it.
fn depths(trace: &Trace) -> Vec<usize> {
    let mut depths = vec![0; trace.steps.len()];
    for position in trace.in_order() {
        let step = &trace.steps[position];
        depths[position] = match &step.turn {
            sessions::Turn::Number(turn) => *turn,
            sessions::Turn::Name(_) => step.parents.iter().map(|edge| depths[edge.parent] + 1).max().unwrap_or(0),
        };
    }
    depths
}

/// The root session of each tree; its other sessions are sub-agents.
fn first_lines<'t>(trace: &'t Trace, trees: &[usize], count: usize) -> Vec<Option<&'t str>> {
    let mut lines = vec![None; count];
    for (step, &tree) in trace.steps.iter().zip(trees) {
        lines[tree].get_or_insert(step.session.as_str());
    }
    lines
}

/// Recorded start of each session's first step, in milliseconds.
fn begins(trace: &Trace, trees: &[usize], count: usize) -> Vec<f64> {
    let mut begins = vec![f64::INFINITY; count];
    for (step, &tree) in trace.steps.iter().zip(trees).filter(|(step, _)| step.parents.is_empty()) {
        begins[tree] = begins[tree].min(step.at_ms.unwrap_or(0.0));
    }
    begins.into_iter().map(|begin| if begin.is_finite() { begin } else { 0.0 }).collect()
}

/// Number of sequential requests of each session that are left to send.
fn turns(trace: &Trace, trees: &[usize], count: usize) -> Vec<usize> {
    let mut turns = vec![(usize::MAX, 0); count];
    for ((depth, &tree), step) in depths(trace).into_iter().zip(trees).zip(&trace.steps) {
        let (first, end) = &mut turns[tree];
        *first = if step.answered.is_none() { depth.min(*first) } else { *first };
        *end = (depth + 1).max(*end);
    }
    turns.into_iter().map(|(first, end)| end.saturating_sub(first)).collect()
}

/// Schedules each turn a fixed time after the previous one, regardless of recorded times and pauses.
fn keep_distance(trace: &mut Trace, gap_ms: f64) {
    for step in trace.steps.iter_mut().filter(|step| !step.parents.is_empty()) {
        step.at_ms = None;
        step.start_delay_ms = None;
        step.gap_ms = Some(gap_ms);
        step.parents.iter_mut().for_each(|edge| edge.after_ms = 0.0);
    }
}

/// The contexts of sessions in progress, which are sent before the run as requests for one token.
#[derive(Debug)]
struct Contexts {
    graph: Graph,
    sessions: usize,
    /// The last completed request of each branch.
    last: HashSet<usize>,
}

impl Contexts {
    fn new(sessions: usize, trace: &Trace, trees: &[usize], rank: &[usize]) -> Self {
        let answered = || trace.steps.iter().enumerate().filter(|(_, step)| step.answered.is_some());
        let parents: HashSet<usize> = answered().flat_map(|(_, step)| &step.parents).map(|edge| edge.parent).collect();
        let last = answered().filter(|(_, step)| step.prompt != sessions::Prompt::Nothing);
        let last: HashSet<usize> =
            last.map(|(position, _)| position).filter(|position| !parents.contains(position)).collect();
        let node = |(position, &tree): (usize, &usize)| Node {
            session: rank[tree],
            sends: last.contains(&position),
            ..Node::default()
        };
        Contexts { graph: Graph::new(trees.iter().enumerate().map(node).collect()), sessions, last }
    }
}

/// The dependency graph of the steps, with times relative to the start of their session.
fn graph(trace: &Trace, trees: &[usize], begins: &[f64], rank: &[usize]) -> Graph {
    let ms = |ms: f64| Pause::clamped(ms / 1000.0);
    let node = |(step, &tree): (&sessions::Step, &usize)| Node {
        session: rank[tree],
        at: ms(step.at_ms.map_or(0.0, |at| at - begins[tree]) + step.start_delay_ms.unwrap_or(0.0)),
        parents: waits_for(trace, step).map(|edge| (edge.parent, ms(edge.after_ms))).collect(),
        gap: ms(step.gap_ms.unwrap_or(0.0)),
        sends: step.sends(),
    };
    Graph::new(trace.steps.iter().zip(trees).map(node).collect())
}
fn check(plan: &SessionsPlan, backend: BackendKind, sessions: usize) -> Result<(), TraceError> {
    if plan.server_history && backend != BackendKind::OpenAiResponses {
        let problem = "needs a server that keeps answers: use --backend openai-responses".to_owned();
        return Err(setting("--server-history", problem));
    }
    if plan.warmup >= sessions {
        let problem = format!("{} sessions of {sessions} leave none to measure", plan.warmup);
        return Err(setting("--warmup-sessions", problem));
    }
    Ok(())
}
