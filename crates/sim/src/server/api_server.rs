//! The API server's time: the delay of a request before it reaches the engine, which grows with concurrent requests.

use std::{future::pending, time::Duration};

use tacho_core::{Clock, Mutex, SystemClock, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::{runtime::Runtime, sync::oneshot};

use tacho_engine::{FifoServer, Front, ProcessorSharing};

/// Longest sleep while requests are in service, so that disconnects are noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A request in service, and where to report its completion.
type Waiting = oneshot::Sender<Timestamp>;

#[derive(Debug)]
pub(crate) struct ApiServer {
    front: Front,
    clock: SystemClock,
    /// To the shared core, if there is one.
    core: Option<UnboundedSender<Waiting>>,
    reader: Mutex<FifoServer>,
}

impl ApiServer {
    /// An idle API server; its core is a task of the runtime.
    pub(crate) fn new(front: Front, runtime: &Runtime) -> Self {
        let (clock, shared) = (SystemClock::start(), front.shared_cpu());
        let core = (!shared.is_zero()).then(|| {
            let (core, arrivals) = unbounded_channel();
            runtime.spawn(work(ProcessorSharing::new(shared, 1), arrivals, clock));
            core
        });
        ApiServer { front, clock, core, reader: Mutex::new(FifoServer::new(1)) }
    }

    /// Waits for the service time of a request with this many prompt tokens.
    pub(crate) async fn pass(&self, tokens: usize) {
        let mut since = self.clock.now();
        if let Some(core) = &self.core {
            let (over, heard) = oneshot::channel();
            // Without the core, the server is stopping.
            let _ = core.send(over);
            since = heard.await.unwrap_or(since);
        }
        // From the planned end, because timers are late.
        let read = self.reader.lock().serve(since, self.front.tokenization(tokens));
        let left = (read + self.front.unshared()).since(self.clock.now());
        if !left.is_zero() {
            tokio::time::sleep(left).await;
        }
    }
}

/// Serves requests until the channel closes.
async fn work(mut queue: ProcessorSharing<Waiting>, mut arrivals: UnboundedReceiver<Waiting>, clock: SystemClock) {
    loop {
        let left = queue.next().map(|next| next.since(clock.now()).min(POLL_INTERVAL));
        tokio::select! {
            one = arrivals.recv() => {
                let Some(one) = one else { return };
                let now = clock.now();
                settle(&mut queue, now);
                queue.enter(one, now);
            }
            () = rest(left) => settle(&mut queue, clock.now()),
        }
    }
}

/// Completes finished requests, and removes those whose clients have disconnected.
fn settle(queue: &mut ProcessorSharing<Waiting>, now: Timestamp) {
    while let Some((one, when)) = queue.leave(now) {
        // The client has disconnected.
        let _ = one.send(when);
    }
    queue.retain(now, |one| !one.is_closed());
}

/// Sleeps; forever without a deadline.
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

    #[test]
    fn disconnected_clients_leave_the_queue() {
        let runtime = runtime();
        let front = Arc::new(ApiServer::new(Front { shared_cpu_ns: 2e8, ..Front::default() }, &runtime));
        let clock = SystemClock::start();
        let leaver = |front: Arc<ApiServer>| runtime.spawn(async move { front.pass(1).await });
        let gone: Vec<_> = (0..50).map(|_| leaver(Arc::clone(&front))).collect();
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(30)).await });
        gone.iter().for_each(|one| one.abort());
        runtime.block_on(front.pass(1));
        let took = clock.now().secs();
        assert!((0.2..5.0).contains(&took), "fifty-one times 0.2 s would be ten: {took}");
    }
}
