//! The engine's thread: steps the model on the real clock and passes each token to its connection.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::{sync::Arc, thread::JoinHandle, time::Duration};

use tacho_core::{Clock, Mutex, ServerTimes, SystemClock, Timestamp};
use tokio::{sync::mpsc::UnboundedSender, sync::oneshot};

use tacho_engine::{Engine, Finish, Job, SeqId, Stats, TokenEvent};

/// Lateness of kernel timers; the rest of a wait is spun.
const SPIN: Duration = Duration::from_micros(120);
/// A step starts at the planned end of the previous one, so that delivering tokens costs no model time, unless the
/// thread lags more than this.
const MAX_LAG: Duration = Duration::from_millis(1);
/// Longest sleep within a step, so that a stop is noticed soon. Sleeps are relative: if a library replaces the
/// monotonic clock, an absolute deadline of a channel may never come.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Polling interval while only the passing of time can allow a step; bounds how late a new request is noticed.
const POLL: Duration = Duration::from_micros(200);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Signal {
    pub(crate) choice: usize,
    /// Why the token is its last, if it is.
    pub(crate) finish: Option<Finish>,
    pub(crate) cached: usize,
    /// Times of the whole response, with its last token.
    pub(crate) times: Option<ServerTimes>,
}

enum Command {
    Submit { id: SeqId, job: Job, arrived: Timestamp, choice: usize, to: UnboundedSender<Signal> },
    Cancel(Vec<SeqId>),
    ResetPrefixCache(oneshot::Sender<bool>),
    Stop,
}

#[derive(Debug, Clone)]
pub(crate) struct EngineHandle {
    commands: Sender<Command>,
    stats: Arc<Mutex<Stats>>,
    clock: SystemClock,
}

impl EngineHandle {
    /// Queues a job that [`tacho_engine::EngineSpec::check`] has passed.
    pub(crate) fn submit(&self, id: SeqId, job: Job, choice: usize, to: UnboundedSender<Signal>) {
        // When the thread has ended, the sender is dropped here, which the connection sees as the end of its tokens.
        let _ = self.commands.send(Command::Submit { id, job, arrived: self.clock.now(), choice, to });
    }

    pub(crate) fn cancel(&self, ids: Vec<SeqId>) {
        if !ids.is_empty() {
            let _ = self.commands.send(Command::Cancel(ids));
        }
    }

    pub(crate) async fn reset_prefix_cache(&self) -> bool {
        let (reply, receiver) = oneshot::channel();
        let _ = self.commands.send(Command::ResetPrefixCache(reply));
        receiver.await.unwrap_or(false)
    }

    pub(crate) fn stop(&self) {
        let _ = self.commands.send(Command::Stop);
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats.lock().clone()
    }
}

pub(crate) fn start(engine: Engine) -> std::io::Result<(EngineHandle, JoinHandle<()>)> {
    let (commands, inbox) = channel();
    let handle = EngineHandle { commands, stats: Arc::default(), clock: SystemClock::start() };
    let driver = Driver {
        engine,
        inbox,
        pending: VecDeque::new(),
        streams: HashMap::new(),
        stats: Arc::clone(&handle.stats),
        clock: handle.clock,
    };
    let thread = std::thread::Builder::new().name("sim-engine".into()).spawn(move || driver.run())?;
    Ok((handle, thread))
}

struct Driver {
    engine: Engine,
    inbox: Receiver<Command>,
    pending: VecDeque<Command>,
    streams: HashMap<SeqId, (usize, UnboundedSender<Signal>)>,
    stats: Arc<Mutex<Stats>>,
    clock: SystemClock,
}

struct Stopped;

impl Driver {
    fn run(mut self) {
        let mut events = Vec::new();
        let mut ended: Option<Timestamp> = None;
        loop {
            if self.take_commands().is_err() {
                return;
            }
            let now = self.clock.now();
            let start = ended.filter(|end| now.since(*end) <= MAX_LAG).unwrap_or(now);
            let step = self.engine.begin_step(start);
            self.publish();
            let Some(step) = step else {
                ended = None;
                if self.rest().is_err() {
                    return;
                }
                continue;
            };
            let end = start + step.takes;
            if self.wait_until(end).is_err() {
                return;
            }
            self.engine.end_step(end, &mut events);
            self.deliver(&events);
            events.clear();
            ended = Some(end);
        }
    }

    fn take_commands(&mut self) -> Result<(), Stopped> {
        loop {
            let command = match self.pending.pop_front() {
                Some(command) => command,
                None => match self.inbox.try_recv() {
                    Ok(command) => command,
                    Err(TryRecvError::Empty) => return Ok(()),
                    Err(TryRecvError::Disconnected) => return Err(Stopped),
                },
            };
            self.execute(command)?;
        }
    }

    fn execute(&mut self, command: Command) -> Result<(), Stopped> {
        match command {
            Command::Submit { id, job, arrived, choice, to } => {
                // A refused job drops its sender, which ends the connection's tokens.
                if self.engine.submit(id, job, arrived).is_ok() {
                    self.streams.insert(id, (choice, to));
                }
            }
            Command::Cancel(ids) => {
                self.engine.cancel(&ids);
                ids.iter().for_each(|id| drop(self.streams.remove(id)));
            }
            Command::ResetPrefixCache(reply) => {
                let _ = reply.send(self.engine.reset_prefix_cache());
            }
            Command::Stop => return Err(Stopped),
        }
        Ok(())
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self) -> Result<(), Stopped> {
        match self.engine.wakes() {
            None => self.pending.push_back(self.inbox.recv().map_err(|_| Stopped)?),
            Some(then) => std::thread::sleep(then.since(self.clock.now()).min(POLL)),
        }
        Ok(())
    }

    /// Sleeps, then spins; commands other than stop wait for the step's end, as in a real engine.
    fn wait_until(&mut self, end: Timestamp) -> Result<(), Stopped> {
        loop {
            let left = end.since(self.clock.now());
            if left.is_zero() {
                return Ok(());
            }
            if left <= SPIN {
                std::hint::spin_loop();
                continue;
            }
            std::thread::sleep((left - SPIN).min(POLL_INTERVAL));
            self.receive()?;
        }
    }

    fn receive(&mut self) -> Result<(), Stopped> {
        loop {
            match self.inbox.try_recv() {
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return Err(Stopped),
                Ok(command) => self.pending.push_back(command),
                Err(TryRecvError::Empty) => return Ok(()),
            }
        }
    }

    fn deliver(&mut self, events: &[TokenEvent]) {
        // The counters come first: a client that has a last token must find it counted.
        self.publish();
        for event in events {
            if let Some((choice, to)) = self.streams.get(&event.id) {
                // A closed channel means that the client disconnected; its cancellation will follow.
                let TokenEvent { finish, cached, times, .. } = *event;
                let _ = to.send(Signal { choice: *choice, finish, cached, times });
            }
            if event.finish.is_some() {
                self.streams.remove(&event.id);
            }
        }
    }

    fn publish(&mut self) {
        self.stats.lock().clone_from(self.engine.stats());
    }
}
