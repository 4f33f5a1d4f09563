//! Truncates prompts by the server's own tokenizer, as `vllm bench` does for synthetic text.

use std::sync::atomic::{AtomicUsize, Ordering};

use tacho_client::control::TokenizeServer;
use tacho_core::{EventSink, Request, RunEvent};
use tacho_workload::Requests;
use tacho_workload::align::{Alignment, needs_alignment, plan, probe, prompt, replace_prompt};

use crate::{Error, side_call::side_call};

const MAX_CALLS: usize = 64;

/// Checks the first prompt with the server and, if the counts differ, aligns every prompt.
pub(crate) fn with_server(
    server: &TokenizeServer<'_>,
    requests: &mut Requests,
    sink: &dyn EventSink,
) -> Result<(), Error> {
    let first = requests.kept();
    let Some(text) = probe(first) else { return Ok(()) };
    let Some(tokens) = side_call("/tokenize", sink, || server.tokenize(text)) else {
        sink.event(RunEvent::status("WARNING: /tokenize unavailable, skipping alignment."));
        return Ok(());
    };
    if needs_alignment(&first[0], tokens.len()) {
        let (theirs, ours) = (tokens.len() as u64, first[0].prompt_len);
        sink.event(RunEvent::status(format!(
            "WARNING: tokenizer mismatch (server={theirs}, expected={ours}), re-aligning prompts."
        )));
        requests.alter(|_, part| align_all(server, part))?;
    }
    Ok(())
}

/// Aligns all prompts; a prompt whose call fails stays unchanged.
fn align_all(server: &TokenizeServer<'_>, requests: &mut [Request]) {
    let next = AtomicUsize::new(0);
    let jobs: &[Request] = requests;
    let cut: Vec<(usize, String)> = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, || align_some(server, jobs, &next)).ok();
        // This thread works too, so that it finishes even if no other thread can start.
        let threads: Vec<_> = (1..MAX_CALLS.min(jobs.len())).filter_map(spawn).collect();
        let own = align_some(server, jobs, &next);
        own.into_iter()
            .chain(threads.into_iter().flat_map(|thread| thread.join().expect("a tokenize call does not panic")))
            .collect()
    });
    for (index, text) in cut {
        replace_prompt(&mut requests[index], text);
    }
}

fn align_some(server: &TokenizeServer<'_>, jobs: &[Request], next: &AtomicUsize) -> Vec<(usize, String)> {
    let mut cut = Vec::new();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(request) = jobs.get(index) else { return cut };
        let Some(tokens) = prompt(request).and_then(|text| server.tokenize(text)) else { continue };
        if let Alignment::Detokenize(tokens) = plan(request, &tokens) {
            cut.extend(server.detokenize(&tokens).map(|text| (index, text)));
        }
    }
}
