//! A streamed answer: one event per token, as soon as the engine signals it.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame};
use tokio::time::Sleep;

use super::ask::Endpoint;
use super::chunks::{self, Chunks};
use super::driver::Signal;
use super::faults::Fault;
use super::generation::Generation;
use super::problem::Problem;
use super::wire::ResetSwitch;

/// The body of a streamed answer.
pub(super) struct EventStream {
    generation: Generation,
    chunks: Chunks,
    reset: ResetSwitch,
    ready: VecDeque<Bytes>,
    opened: bool,
    end: Option<End>,
    /// A signal that waits for a stall to pass.
    stalled: Option<(Pin<Box<Sleep>>, Signal)>,
}

#[derive(Clone, Copy)]
enum End {
    Clean,
    Cut,
}

impl EventStream {
    pub(super) fn new(generation: Generation, reset: ResetSwitch) -> Self {
        let chunks = Chunks::new(
            &generation.ask,
            &generation.id,
            generation.created,
            &generation.model,
            &generation.app.fingerprint,
            generation.choices.len(),
        );
        EventStream { generation, chunks, reset, ready: VecDeque::new(), opened: false, end: None, stalled: None }
    }

    fn take(&mut self, signal: Signal) {
        if self.generation.fault_is_due(&signal) && self.strike(signal) {
            return;
        }
        self.tell(signal);
    }

    /// Does what the fault says; whether it took the signal's place.
    fn strike(&mut self, signal: Signal) -> bool {
        match std::mem::replace(&mut self.generation.fault, Fault::None) {
            Fault::None | Fault::Error => return false,
            Fault::StreamError(_) => {
                let problem = Problem::internal("the simulator failed this stream on purpose");
                self.ready.extend([chunks::failure(&problem.body), chunks::done()]);
                self.end = Some(End::Clean);
            }
            Fault::Disconnect(_) => {
                self.reset.pull();
                self.end = Some(End::Cut);
            }
            Fault::Truncate(_) => self.end = Some(End::Clean),
            Fault::Stall(_, pause) => self.stalled = Some((Box::pin(tokio::time::sleep(pause)), signal)),
        }
        true
    }

    fn tell(&mut self, signal: Signal) {
        if !self.opened && self.generation.ask.endpoint == Endpoint::Chat {
            let choices = self.generation.choices.iter().enumerate();
            self.ready.extend(choices.map(|(index, choice)| self.chunks.role(index, &choice.prompt.ids)));
        }
        self.opened = true;
        let repeated = self.generation.repeated(signal.choice);
        let piece = self.generation.advance(&signal);
        let choice = &self.generation.choices[signal.choice];
        self.ready.push_back(self.chunks.token(signal.choice, choice, &piece, repeated.as_ref()));
        if self.generation.is_done() {
            if self.generation.ask.include_usage {
                self.ready.push_back(self.chunks.usage(self.generation.usage()));
            }
            self.ready.push_back(chunks::done());
            self.end = Some(End::Clean);
        }
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
                this.tell(signal);
                continue;
            }
            match ready!(this.generation.signals.poll_recv(cx)) {
                Some(signal) => this.take(signal),
                // The engine went away: the stream must not look complete.
                None => this.end = Some(End::Cut),
            }
        }
    }
}
