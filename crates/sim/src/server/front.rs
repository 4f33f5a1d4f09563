//! The front end's time: what a request waits before it reaches the engine, longer in a crowd.

use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tacho_core::{Clock, SystemClock, Timestamp};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use tacho_engine::FifoServer;
use tacho_engine::Front;
use tacho_engine::ProcessorSharing;

/// Slept at a time while somebody is worked on, so that those who leave are noticed.
const NAP: Duration = Duration::from_millis(20);

/// Who waits to be worked on, and is told when that was over.
type Waiting = oneshot::Sender<Timestamp>;

/// The way through the front end.
#[derive(Debug)]
pub(crate) struct FrontEnd {
    front: Front,
    clock: SystemClock,
    /// To the core that all requests share, where there is one.
    core: Option<UnboundedSender<Waiting>>,
    /// Reads their prompts then.
    reader: Mutex<FifoServer>,
}

impl FrontEnd {
    /// An idle front end, whose core is a task of the runtime.
    pub(crate) fn new(front: Front, runtime: &Runtime) -> Self {
        let (clock, shared) = (SystemClock::start(), front.shared_cpu());
        let core = (!shared.is_zero()).then(|| {
            let (core, coming) = unbounded_channel();
            runtime.spawn(work(ProcessorSharing::new(shared, 1), coming, clock));
            core
        });
        FrontEnd { front, clock, core, reader: Mutex::new(FifoServer::new(1)) }
    }

    /// Waits as long as a request of so many prompt tokens takes.
    pub(crate) async fn pass(&self, tokens: usize) {
        let mut since = self.clock.now();
        if let Some(core) = &self.core {
            let (over, heard) = oneshot::channel();
            // Where the core is gone, the server is going too.
            let _ = core.send(over);
            since = heard.await.unwrap_or(since);
        }
        // From when it was over, not from when that was heard: timers are late.
        let read =
            self.reader.lock().unwrap_or_else(PoisonError::into_inner).serve(since, self.front.tokenization(tokens));
        let left = (read + self.front.unshared()).since(self.clock.now());
        if !left.is_zero() {
            tokio::time::sleep(left).await;
        }
    }
}

/// Works on all who come until nobody can come any more.
async fn work(mut crowd: ProcessorSharing<Waiting>, mut coming: UnboundedReceiver<Waiting>, clock: SystemClock) {
    loop {
        let left = crowd.next().map(|next| next.since(clock.now()).min(NAP));
        tokio::select! {
            one = coming.recv() => {
                let Some(one) = one else { return };
                let now = clock.now();
                settle(&mut crowd, now);
                crowd.enter(one, now);
            }
            () = rest(left) => settle(&mut crowd, clock.now()),
        }
    }
}

/// Tells those that are through, and forgets those whose clients have left.
fn settle(crowd: &mut ProcessorSharing<Waiting>, now: Timestamp) {
    while let Some((one, when)) = crowd.leave(now) {
        // Who does not hear it has left.
        let _ = one.send(when);
    }
    crowd.retain(now, |one| !one.is_closed());
}

/// Sleeps, for ever where nothing is to come.
async fn rest(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap()
    }

    /// Milliseconds that each of `count` takes that come together.
    fn taken(front: Front, count: usize) -> Vec<f64> {
        let runtime = runtime();
        let front = Arc::new(FrontEnd::new(front, &runtime));
        let clock = SystemClock::start();
        let one = || {
            let front = Arc::clone(&front);
            runtime.spawn(async move {
                front.pass(10).await;
                clock.now().secs() * 1e3
            })
        };
        let all: Vec<_> = (0..count).map(|_| one()).collect();
        all.into_iter().map(|one| runtime.block_on(one).unwrap()).collect()
    }

    #[test]
    fn a_crowd_waits_for_all_of_it_and_one_alone_for_itself() {
        let front = Front { per_request_ns: 3e7, shared_cpu_ns: 1e7, ..Front::default() };
        let alone = taken(front, 1)[0];
        assert!(alone >= 30.0, "{alone}");
        let last = |took: Vec<f64>| took.into_iter().fold(0.0, f64::max);
        // However far apart they are begun, the core works forty times ten; twenty follow.
        let crowd = last(taken(front, 40));
        assert!(crowd >= 419.0, "{crowd}");
        let apart = last(taken(Front { shared_cpu_ns: 0.0, ..front }, 40));
        assert!((30.0..crowd).contains(&apart), "{apart} {crowd}");
    }

    #[test]
    fn who_leaves_is_not_worked_on() {
        let runtime = runtime();
        let front = Arc::new(FrontEnd::new(Front { shared_cpu_ns: 2e8, ..Front::default() }, &runtime));
        let clock = SystemClock::start();
        let leaver = |front: Arc<FrontEnd>| runtime.spawn(async move { front.pass(1).await });
        let gone: Vec<_> = (0..50).map(|_| leaver(Arc::clone(&front))).collect();
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(30)).await });
        gone.iter().for_each(|one| one.abort());
        runtime.block_on(front.pass(1));
        let took = clock.now().secs();
        assert!((0.2..5.0).contains(&took), "fifty-one times 0.2 s would be ten: {took}");
    }
}
