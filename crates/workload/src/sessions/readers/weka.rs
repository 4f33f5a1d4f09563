//! Weka's coding-agent traces: whole prompts as blocks, times in seconds, and sub-agents that run in parallel with
//! their parent and are joined by its first request after their end.

mod agents;
mod record;

use super::*;
use record::{Agent, Call, Record};

/// Reads the traces, each an object: a file, one of its lines, or a file of a directory.
pub(crate) fn read(source: &Source, options: &Options) -> Result<Trace> {
    let infer = options.switch("infer_flat_agents", false)?;
    let mut trace = source.trace();
    trace.options.set("infer_flat_agents", infer);
    let rows = source.rows()?;
    let mut known = HashSet::new();
    let mut shared = None;
    let (mut overlaps, mut dropped) = (0, 0);
    for row in &rows {
        let record = Record::read(row)?;
        dropped += record.orphans;
        if !known.insert(record.id.clone()) {
            return Err(row.wrong("id", format!("duplicate session {:?}", record.id)));
        }
        let record = if infer { agents::infer(record) } else { record };
        overlaps += record.overlaps();
        let global = record.global;
        let mut own = Layout::new(record.block);
        let layout = if global { shared.get_or_insert_with(|| Layout::new(record.block)) } else { &mut own };
        Writer { trace: &mut trace, record: &record, layout }.write(row)?;
    }
    if overlaps > 0 {
        trace.notices.push(format!(
            "{overlaps} requests start before the one before them had ended; they are sent after it \
             (--option infer_flat_agents=true makes agents of them)"
        ));
    }
    if dropped > 0 {
        trace.notices.push(format!("{dropped} sub-agents start before any request of their parent and are left out"));
    }
    if shared.is_some() {
        trace.options.set("hash_id_scope", "global");
    }
    blocks::ideal(&mut trace, if shared.is_some() { Scope::File } else { Scope::Tree });
    Ok(trace)
}

struct Writer<'t> {
    trace: &'t mut Trace,
    record: &'t Record,
    layout: &'t mut Layout,
}

impl Writer<'_> {
    fn write(&mut self, row: &Row<'_>) -> Result<()> {
        let (record, id) = (self.record, &self.record.id);
        let main = self.chain(row, id, &record.calls)?;
        for agent in &record.agents {
            let first = self.chain(row, &format!("{id}::{}", agent.name), &agent.calls)?;
            let spawner = &record.calls[agent.after];
            let pause = pause(agent.calls[0].start_ms, spawner.end_ms());
            self.trace.steps[first].parents.push(Edge { parent: main + agent.after, after_ms: pause });
            let last = agent.calls.len() - 1;
            if let Some(joining) = record.joining(agent) {
                let after_ms = pause_between(&agent.calls[last], &record.calls[joining]);
                self.trace.steps[main + joining].parents.push(Edge { parent: first + last, after_ms });
            }
        }
        Ok(())
    }

    /// Adds the calls of one agent, each after the previous one; returns the index of the first.
    fn chain(&mut self, row: &Row<'_>, session: &str, calls: &[Call]) -> Result<usize> {
        let mut last: Option<&Call> = None;
        self.trace.chain(session, &History::Recorded, calls, |step, call| {
            step.input_tokens = Some(call.input);
            // At least one token: a server cannot generate none.
            step.output_tokens = Some(call.output.max(1));
            step.blocks = Some(self.layout.lay(row, &call.field("hash_ids"), &call.ids, call.input)?);
            let (model, recorded_ms) = (call.model.clone(), call.api_s.map(from_s));
            step.notes =
                Notes { model, recorded_start_ms: Some(call.start_ms), recorded_ms, ..Notes::default() }.into();
            Ok(last.replace(call).map_or(0.0, |before| pause_between(before, call)))
        })
    }
}

impl Record {
    /// The first later request of the parent that starts after the agent's end.
    fn joining(&self, agent: &Agent) -> Option<usize> {
        (agent.after + 1..self.calls.len()).find(|&index| self.calls[index].start_ms >= agent.end_ms)
    }

    fn overlaps(&self) -> usize {
        let chains = std::iter::once(&self.calls).chain(self.agents.iter().map(|agent| &agent.calls));
        let overlap = |pair: &&[Call]| pair[1].start_ms < pair[0].end_ms();
        chains.map(|calls| calls.windows(2).filter(overlap).count()).sum()
    }
}

fn pause_between(before: &Call, call: &Call) -> f64 {
    pause(call.start_ms, before.end_ms())
}

fn pause(start_ms: f64, end_ms: f64) -> f64 {
    clean((start_ms - end_ms).max(0.0))
}
