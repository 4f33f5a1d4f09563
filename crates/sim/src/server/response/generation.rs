//! One request inside the engine: its choices, their tokens, and its cancellation when the client disconnects.

use std::{sync::Arc, sync::atomic::Ordering};

use super::choice::{Choice, Echo, Piece};
use super::written::{self, Written};
use crate::server::request::{Ask, Problem, Prompt};
use crate::{
    faults::Fault, server::app::App, server::driver::Signal, server::engines::Submitted, server::request::ask::Transfer,
};
use tacho_core::ServerTimes;
use tacho_engine::{Draw, Job, LogprobDraws};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) completion: usize,
    pub(crate) reasoning: usize,
    pub(crate) cached: usize,
    pub(crate) reports_cached: bool,
}

/// A request whose jobs are in the engine.
pub(crate) struct Generation {
    pub(crate) app: Arc<App>,
    pub(crate) ask: Ask,
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) choices: Vec<Choice>,
    pub(crate) jobs: Submitted,
    pub(crate) fault: Fault,
    prompts: Vec<Arc<Prompt>>,
    cached: usize,
    times: Option<ServerTimes>,
}

impl Generation {
    /// Draws the choices, checks that they fit, and submits them.
    pub(crate) async fn start(
        app: &Arc<App>,
        ask: Ask,
        id: String,
        model: String,
        mut prompts: Vec<Prompt>,
        fault: Fault,
        session: Option<&str>,
    ) -> Result<Self, Problem> {
        if let Some((tokens, keeps_end)) = ask.truncate {
            // One token is left for the response.
            let limit = tokens.min(app.spec.engine.max_model_len - 1);
            prompts.iter_mut().for_each(|prompt| prompt.truncate(limit, keeps_end));
        }
        let prompts: Vec<Arc<Prompt>> = prompts.into_iter().map(Arc::new).collect();
        let salt = written::salt(app.salt(&model), ask.cache_salt.as_deref());
        let bytes = prompts.iter().map(|prompt| prompt.bytes()).sum();
        let memory = app.memory.reserve(bytes, prompts.len() * ask.n)?;
        let (mut choices, mut jobs) = (Vec::new(), Vec::new());
        for (prompt, number) in prompts.iter().flat_map(|prompt| (0..ask.n).map(move |number| (prompt, number))) {
            // Many choices are drawn in turn with other work, and not at all once the client has disconnected.
            tokio::task::consume_budget().await;
            let choice = draw_choice(app, &ask, app.salt(&model), prompt, number)?;
            jobs.push(Job {
                salt,
                priority: ask.priority,
                remote: ask.transfer == Transfer::Fetched,
                ..Job::generate(Arc::clone(&prompt.ids), choice.output.clone(), choice.finish)
            });
            choices.push(choice);
        }
        let jobs = Submitted::new(app, jobs, session, memory)?;
        app.serving.fetch_add(1, Ordering::Relaxed);
        let (app, created) = (Arc::clone(app), app.unix_time());
        Ok(Generation { app, ask, id, created, model, choices, jobs, fault, prompts, cached: 0, times: None })
    }

    /// Returns whether the fault occurs at this token.
    pub(crate) fn fault_is_due(&self, signal: &Signal) -> bool {
        let first = &self.choices[0];
        let due = self.fault.fraction().map(|fraction| (fraction * first.output.len() as f64) as usize);
        signal.choice == 0 && due == Some(first.produced)
    }

    pub(crate) fn advance(&mut self, signal: &Signal) -> Piece {
        if self.choices[signal.choice].produced == 0 && signal.choice.is_multiple_of(self.ask.n) {
            self.cached += signal.cached;
        }
        self.times = signal.times.or(self.times);
        if self.choices[signal.choice].produced == 0 && !self.app.spec.faults.outputs.is_empty() {
            self.corrupt(signal);
        }
        let thoughts = self.reasoning();
        let choice = &mut self.choices[signal.choice];
        let piece = choice.advance(&self.app.spec.tokenizer, &self.app.vocabulary);
        if choice.produced > thoughts {
            choice.sent += piece.text.len();
        }
        piece
    }

    /// The echoed prompt of a choice, if requested; call before its first token.
    pub(crate) fn echo(&mut self, choice: usize) -> Option<Echo> {
        let choice = &mut self.choices[choice];
        (self.ask.echo && choice.produced == 0).then(|| choice.echo(&self.app.spec.tokenizer, &self.app.vocabulary))
    }

    /// Draws of the log-probabilities of a choice's prompt.
    pub(crate) fn prompt_draws(&self, index: usize) -> LogprobDraws {
        let choice = &self.choices[index];
        let number = index % self.ask.n;
        let (seed, request_seed) = (self.app.spec.seed, self.ask.seed);
        LogprobDraws::new(&Draw { seed, request_seed, prompt: &choice.prompt.ids, choice: number })
    }

    pub(crate) fn reasoning(&self) -> usize {
        self.ask.thoughts(&self.app.spec)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.jobs.is_done()
    }

    /// Its times, if responses have them; they describe one choice.
    pub(crate) fn times(&self) -> Option<ServerTimes> {
        self.times.filter(|_| self.app.spec.per_request_metrics && self.choices.len() == 1)
    }

    /// Token counts of the whole request so far.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            prompt: self.prompts.iter().map(|prompt| prompt.ids.len()).sum(),
            completion: self.choices.iter().map(|choice| choice.produced).sum(),
            reasoning: self.choices.iter().map(|choice| choice.produced.min(self.reasoning())).sum(),
            cached: self.cached,
            reports_cached: self.app.spec.prompt_tokens_details,
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.app.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Draws a choice by the model or an adapter, which is not 0.
pub(super) fn draw_choice(
    app: &App,
    ask: &Ask,
    adapter: u64,
    prompt: &Arc<Prompt>,
    number: usize,
) -> Result<Choice, Problem> {
    let limits = ask.limits(prompt, &app.spec.engine)?;
    let seed = app.spec.seed.wrapping_add(adapter.wrapping_mul(0x9e37_79b9));
    let draw = Draw { seed, request_seed: ask.seed, prompt: &prompt.ids, choice: number };
    let thoughts = ask.thoughts(&app.spec).min(limits.max_tokens);
    let output = Written::draw(app, ask, &draw, &limits, thoughts);
    let mut choice = Choice::new(ask, Arc::clone(prompt), &draw, output);
    if choice.call.is_some() {
        choice.call_id = format!("chatcmpl-tool-{}", app.random_id());
    }
    Ok(choice)
}
