//! A streamed response: one event per token (or per few), as soon as the engine emits it.

use std::task::{Context, Poll, ready};
use std::{collections::VecDeque, io, pin::Pin};

use hyper::body::{Body, Bytes, Frame};
use serde_json::Value;
use tokio::time::Sleep;

use super::choice::{Echo, Piece};
use super::generation::Generation;
use crate::{faults::Fault, server::driver::Signal, server::request::problem::Problem, server::wire::ResetSwitch};

pub(crate) type Events = VecDeque<Bytes>;

pub(crate) trait Script: Send {
    /// Events before the first token.
    fn open(&mut self, _: &Generation, _: &mut Events) {}

    /// Events of one piece; `echo` comes before the first.
    fn token(&mut self, generation: &Generation, index: usize, piece: &Piece, echo: Option<&Echo>, out: &mut Events);

    /// Events after the last token.
    fn close(&mut self, _: &Generation, _: &mut Events) {}

    /// An error in place of the rest.
    fn fail(&mut self, problem: &Problem, out: &mut Events) {
        out.extend([format!("data: {}\n\n", problem.body()).into(), done()]);
    }
}

/// The event that ends a stream of OpenAI's protocols.
pub(crate) fn done() -> Bytes {
    Bytes::from_static(b"data: [DONE]\n\n")
}

pub(crate) fn named_event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

pub(crate) struct EventStream {
    generation: Generation,
    script: Box<dyn Script>,
    reset: ResetSwitch,
    ready: Events,
    opened: bool,
    /// Per choice: a piece that is sent together with later tokens.
    held: Vec<Option<(Piece, Option<Echo>)>>,
    end: Option<End>,
    interval: usize,
    /// A token that waits for a stall to pass.
    stalled: Option<(Pin<Box<Sleep>>, Signal)>,
}

#[derive(Clone, Copy)]
enum End {
    Clean,
    Cut,
}

impl EventStream {
    pub(crate) fn new(generation: Generation, reset: ResetSwitch) -> Self {
        let script = (generation.ask.endpoint.protocol().script)(&generation);
        let held = generation.choices.iter().map(|_| None).collect();
        let interval = generation.app.spec.stream_interval.max(generation.ask.interval);
        let (ready, end) = (VecDeque::new(), None);
        EventStream { generation, script, reset, ready, opened: false, held, end, interval, stalled: None }
    }

    fn take(&mut self, signal: Signal) {
        if self.generation.fault_is_due(&signal) && self.apply_fault(signal) {
            return;
        }
        self.emit(signal);
    }

    /// Applies the fault; returns whether it replaces the token.
    fn apply_fault(&mut self, signal: Signal) -> bool {
        match std::mem::replace(&mut self.generation.fault, Fault::None) {
            Fault::None | Fault::Error => return false,
            Fault::StreamError(_) => {
                let problem = Problem::internal("the simulator failed this stream on purpose");
                self.script.fail(&problem, &mut self.ready);
                self.end = Some(End::Clean);
            }
            Fault::Disconnect(_) => {
                drop(self.reset.pull());
                self.end = Some(End::Cut);
            }
            Fault::Truncate(_) => self.end = Some(End::Clean),
            Fault::Stall(_, pause) => self.stalled = Some((Box::pin(tokio::time::sleep(pause)), signal)),
        }
        true
    }

    fn emit(&mut self, signal: Signal) {
        if !self.opened {
            self.script.open(&self.generation, &mut self.ready);
            self.opened = true;
        }
        let echo = self.generation.echo(signal.choice);
        let piece = self.generation.advance(&signal);
        let (piece, echo) = match self.held[signal.choice].take() {
            Some((before, echo)) => (before.then(piece), echo),
            None => (piece, echo),
        };
        if self.is_due(signal.choice, &piece) {
            self.script.token(&self.generation, signal.choice, &piece, echo.as_ref(), &mut self.ready);
        } else {
            self.held[signal.choice] = Some((piece, echo));
        }
        if self.generation.is_done() {
            self.script.close(&self.generation, &mut self.ready);
            self.end = Some(End::Clean);
        }
    }

    /// Returns whether a piece is sent now: the first token at once, then every `interval` tokens, and the rest at the
    /// end.
    fn is_due(&self, choice: usize, piece: &Piece) -> bool {
        let produced = self.generation.choices[choice].produced;
        // Reasoning and text are not sent in one event.
        let turns = produced == self.generation.reasoning();
        produced == 1 || turns || piece.last || piece.tokens().count() >= self.interval
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(event))));
            }
            match this.end {
                Some(End::Clean) => return Poll::Ready(None),
                Some(End::Cut) => return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
                None => {}
            }
            if let Some((sleep, signal)) = &mut this.stalled {
                ready!(sleep.as_mut().poll(cx));
                let signal = *signal;
                this.stalled = None;
                this.emit(signal);
                continue;
            }
            match ready!(this.generation.jobs.poll_next(cx)) {
                Some(signal) => this.take(signal),
                // The engine stopped: the stream must not look complete.
                None => this.end = Some(End::Cut),
            }
        }
    }
}
