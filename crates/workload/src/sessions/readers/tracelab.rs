//! TraceLab's agent traces: one round per row, with the repeated and new parts of its prompt, and the tools that ran
//! after its response.

use super::*;

/// Reads the trace. The pause before a round is the total time of the previous round's tools.
pub(crate) fn read(source: &Source, _: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    let rows = source.rows()?;
    let mut names = 0..;
    for (session, mut rounds) in by_session(&rows)? {
        for row in &rounds {
            row.need("round_index", Row::count)?;
        }
        rounds.sort_by_key(|row| row.count("round_index").ok().flatten());
        let (mut transcript, mut tools) = (Vec::new(), 0.0);
        trace.chain(&session, &History::Recorded, rounds, |step, row| {
            let lengths = Lengths::of(row)?;
            step.input_tokens = Some(lengths.before + lengths.new);
            step.output_tokens = Some(lengths.output);
            let mut named = prefix(&transcript, lengths.before);
            let known: u64 = named.iter().map(|(_, tokens)| tokens).sum();
            // The repeated part that is not from this session, such as instructions, and the new part.
            for tokens in [lengths.before - known, lengths.new] {
                named.extend(names.next().filter(|_| tokens > 0).map(|name| (name, tokens)));
            }
            transcript.clone_from(&named);
            transcript.extend(names.next().map(|name| (name, lengths.output)));
            step.blocks = Some(Blocks { named, ..Blocks::default() });
            Ok(std::mem::replace(&mut tools, waited(row)?))
        })?;
    }
    blocks::ideal(&mut trace, Scope::File);
    trace.notices.push("timing_events are not read: sessions start when the load model says".to_owned());
    Ok(trace)
}

struct Lengths {
    before: u64,
    new: u64,
    output: u64,
}

impl Lengths {
    fn of(row: &Row<'_>) -> Result<Self> {
        let before = row.need("prefix_tokens", Row::count)?;
        let new = row.need("newly_append_tokens", Row::count)?;
        if let Some(total) = row.count("input_tokens_total")?.filter(|total| *total != before + new) {
            let problem = format!("{total} is not prefix_tokens and newly_append_tokens together, {}", before + new);
            return Err(row.wrong("input_tokens_total", problem));
        }
        if before + new == 0 {
            return Err(row.wrong("newly_append_tokens", "leaves a prompt without tokens"));
        }
        Ok(Lengths { before, new, output: row.need("output_tokens", Row::count)? })
    }
}

/// The first `tokens` tokens of the transcript.
fn prefix(transcript: &[(u64, u64)], tokens: u64) -> Vec<(u64, u64)> {
    let mut left = tokens;
    let piece = |&(name, tokens): &(u64, u64)| {
        let taken = tokens.min(left);
        left -= taken;
        (taken > 0).then_some((name, taken))
    };
    transcript.iter().map_while(piece).collect()
}

/// The total time of a round's tools, in milliseconds.
fn waited(row: &Row<'_>) -> Result<f64> {
    let tools = row.rows("tools")?.unwrap_or_default();
    tools.iter().map(|tool| Ok(tool.span("tool_wall_latency_ms")?.unwrap_or(0.0))).sum()
}
