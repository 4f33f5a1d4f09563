//! One request inside the engine: its choices, their tokens, and its cancellation when the client disconnects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::choice::{Choice, Piece};
use super::repeated::Repeated;
use super::usage::Usage;
use super::written::{self, Written};
use crate::faults::Fault;
use crate::server::app::App;
use crate::server::driver::Signal;
use crate::server::request::ask::{Ask, Transfer};
use crate::server::request::problem::Problem;
use crate::server::request::prompt::Prompt;
use crate::server::room::Share;
use tacho_engine::{Draw, Job, LogprobDraws, SeqId};

/// A request whose jobs are in the engine. Dropping it cancels unfinished ones.
pub(crate) struct Generation {
    pub(crate) app: Arc<App>,
    pub(crate) ask: Ask,
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) choices: Vec<Choice>,
    pub(crate) signals: UnboundedReceiver<Signal>,
    pub(crate) fault: Fault,
    prompts: Vec<Arc<Prompt>>,
    sequences: Vec<SeqId>,
    live: usize,
    /// Prompt tokens found in the cache.
    cached: usize,
    _share: Share,
}

impl Generation {
    /// Draws the choices, checks that they fit, and submits them.
    pub(crate) async fn start(
        app: &Arc<App>,
        ask: Ask,
        id: String,
        model: String,
        prompts: Vec<Prompt>,
        fault: Fault,
        session: Option<&str>,
    ) -> Result<Self, Problem> {
        let cut = |mut prompt: Prompt| {
            match ask.truncate {
                // One token is left for the response.
                Some((tokens, true)) => prompt.keep_end(tokens.min(app.spec.engine.max_model_len - 1)),
                Some((tokens, false)) => prompt.truncate(tokens.min(app.spec.engine.max_model_len - 1)),
                None => {}
            }
            Arc::new(prompt)
        };
        let prompts: Vec<Arc<Prompt>> = prompts.into_iter().map(cut).collect();
        let salt = written::salt(app.salt(&model), ask.cache_salt.as_deref());
        let count = prompts.len() * ask.n;
        let share = app.room.take(prompts.iter().map(|prompt| prompt.bytes()).sum(), count)?;
        let mut choices = Vec::new();
        let mut jobs = Vec::new();
        for prompt in &prompts {
            for number in 0..ask.n {
                // Many choices are drawn in turn with other work, and not at all once the client has disconnected.
                tokio::task::consume_budget().await;
                let choice = draw_choice(app, &ask, prompt, number)?;
                let job = Job {
                    salt,
                    priority: ask.priority,
                    remote: ask.transfer == Transfer::Fetched,
                    ..Job::generate(Arc::clone(&prompt.ids), choice.output.clone(), choice.finish)
                };
                app.spec.engine.check(&job).map_err(|refusal| Problem::bad_request(&refusal.to_string()))?;
                choices.push(choice);
                jobs.push(job);
            }
        }
        let (to, signals) = unbounded_channel();
        let rank = app.engine.rank(session);
        let sequences: Vec<SeqId> = jobs
            .into_iter()
            .enumerate()
            .map(|(choice, job)| {
                let sequence = app.engine.next_sequence(rank);
                app.engine.submit(sequence, job, choice, to.clone());
                sequence
            })
            .collect();
        let live = sequences.len();
        app.serving.fetch_add(1, Ordering::Relaxed);
        let created = app.unix_time();
        Ok(Generation {
            app: Arc::clone(app),
            ask,
            id,
            created,
            model,
            choices,
            signals,
            fault,
            prompts,
            sequences,
            live,
            cached: 0,
            _share: share,
        })
    }

    /// Returns whether the fault occurs at this token.
    pub(crate) fn fault_is_due(&self, signal: &Signal) -> bool {
        let (Fault::StreamError(place) | Fault::Disconnect(place) | Fault::Truncate(place) | Fault::Stall(place, _)) =
            self.fault
        else {
            return false;
        };
        let first = &self.choices[0];
        signal.choice == 0 && first.produced == (place * first.output.len() as f64) as usize
    }

    pub(crate) fn advance(&mut self, signal: &Signal) -> Piece {
        if signal.finish.is_some() {
            self.live -= 1;
        }
        if self.choices[signal.choice].produced == 0 && signal.choice.is_multiple_of(self.ask.n) {
            self.cached += signal.cached;
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
    pub(crate) fn repeated(&mut self, choice: usize) -> Option<Repeated> {
        let choice = &mut self.choices[choice];
        if !self.ask.echo || choice.produced > 0 {
            return None;
        }
        let text = choice.prompt.text(&self.app.spec.tokenizer);
        Some(Repeated {
            text,
            logprob_tokens: choice.prompt_logprob_tokens(&self.app.spec.tokenizer, &self.app.vocabulary),
        })
    }

    /// Draws of the log-probabilities of a choice's prompt.
    pub(crate) fn prompt_draws(&self, index: usize) -> LogprobDraws {
        let choice = &self.choices[index];
        let number = index % self.ask.n;
        let (seed, request_seed) = (self.app.spec.seed, self.ask.seed);
        LogprobDraws::new(&Draw { seed, request_seed, prompt: &choice.prompt.ids, choice: number })
    }

    /// Reasoning tokens at the start of a choice.
    pub(crate) fn reasoning(&self) -> usize {
        self.ask.thoughts(&self.app.spec)
    }

    /// Returns whether all choices are complete.
    pub(crate) fn is_done(&self) -> bool {
        self.live == 0
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
        let pairs = self.sequences.iter().zip(&self.choices);
        let open = pairs.filter(|(_, choice)| choice.produced < choice.output.len());
        self.app.engine.cancel(open.map(|(sequence, _)| *sequence).collect());
    }
}

fn draw_choice(app: &App, ask: &Ask, prompt: &Arc<Prompt>, number: usize) -> Result<Choice, Problem> {
    let limits = ask.limits(prompt, &app.spec.engine)?;
    let draw = Draw { seed: app.spec.seed, request_seed: ask.seed, prompt: &prompt.ids, choice: number };
    let thoughts = ask.thoughts(&app.spec).min(limits.max_tokens);
    let output = Written::draw(app, ask, &draw, &limits, thoughts);
    let mut choice = Choice::new(ask, Arc::clone(prompt), &draw, output);
    if choice.call.is_some() {
        choice.call_id = format!("chatcmpl-tool-{}", app.random_id());
    }
    Ok(choice)
}
