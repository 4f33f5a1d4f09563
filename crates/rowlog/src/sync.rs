//! Syncs the file to disk about once a second on a separate thread, so that a slow disk does not block the run.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::{fs::File, io, sync::Arc, thread::JoinHandle, time::Duration};
use tacho_core::Mutex;

/// Maximum time span of data that is lost if the machine fails.
const PERIOD: Duration = Duration::from_millis(900);

/// The thread; it ends when this is dropped.
pub(crate) struct Syncer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Syncer {
    pub(crate) fn start(file: Arc<File>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let failure = Arc::new(Mutex::new(None));
        let shared = failure.clone();
        let work = move || run(&file, &stopped, &shared);
        let thread = std::thread::Builder::new().name("log-sync".into()).spawn(work)?;
        Ok(Syncer { stop: Some(stop), thread: Some(thread), failure })
    }

    /// The error since the last call, if any.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(file: &File, stopped: &Receiver<()>, failure: &Mutex<Option<io::Error>>) {
    while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        if let Err(error) = file.sync_data() {
            *failure.lock() = Some(error);
            return;
        }
    }
}
