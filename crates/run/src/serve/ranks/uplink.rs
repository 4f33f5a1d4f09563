//! The connection of a rank to rank 0 during a run.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::{path::PathBuf, sync::Arc, time::Duration};

use tacho_core::{Clock, Counters, Mutex, Observation, SystemClock, Timestamp, json::Json};
use tacho_fleet::{ClockFit, Directive, Error as FleetError, Gather, Membership, OnLost, Start, Worker};
use tacho_loadgen::{StopReason, StopSignal};

use super::RankClosing;
use crate::Error;

/// Time between two messages to rank 0, in addition to those with rows.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// The connection to rank 0. If it is lost during a run, the run continues for its log, unless the policy is to stop.
pub(super) struct Uplink<'a> {
    worker: Mutex<Worker>,
    lost: Mutex<Option<FleetError>>,
    start: Mutex<Option<Start>>,
    member: &'a Membership,
    interrupt: &'a StopSignal,
    stop: &'a StopSignal,
    pub(super) clock: SystemClock,
    counters: Arc<Counters>,
    log: Option<PathBuf>,
}

impl<'a> Uplink<'a> {
    pub(super) fn new(
        worker: Worker,
        member: &'a Membership,
        (interrupt, stop): (&'a StopSignal, &'a StopSignal),
        clock: SystemClock,
        counters: Arc<Counters>,
        log: Option<PathBuf>,
    ) -> Self {
        let (worker, lost, start) = (Mutex::new(worker), Mutex::default(), Mutex::default());
        Uplink { worker, lost, start, member, interrupt, stop, clock, counters, log }
    }

    /// Does some work while another thread tells rank 0 that this rank is alive: the work may block on a disk.
    pub(super) fn with_heartbeat<T>(&self, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let (over, ended) = channel::<()>();
            scope.spawn(move || {
                while ended.recv_timeout(HEARTBEAT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    if self.started().is_some() {
                        self.send(&[]);
                    }
                }
            });
            let result = work();
            drop(over);
            result
        })
    }

    pub(super) fn started(&self) -> Option<Start> {
        *self.start.lock()
    }

    fn lose(&self, error: FleetError) {
        *self.lost.lock() = Some(error);
        if self.member.policy.on_lost == OnLost::Stop {
            self.stop.stop_because(StopReason::Ranks);
        }
    }

    fn is_lost(&self) -> bool {
        self.lost.lock().is_some()
    }

    fn is_stopping(&self) -> bool {
        if self.member.is_orphaned() && !self.interrupt.draining() {
            self.interrupt.request_stop();
        }
        self.interrupt.draining()
    }

    /// The start time; without rank 0 nothing is sent.
    pub(super) fn start(&self) -> Timestamp {
        let log = self.log.as_ref().map(|log| log.to_string_lossy());
        match self.worker.lock().ready(log.as_deref(), &|| self.is_stopping()) {
            Ok(Some(start)) => {
                *self.start.lock() = Some(start);
                return start.timestamp;
            }
            Ok(None) if !self.interrupt.draining() => self.interrupt.request_stop(),
            Ok(None) => {}
            Err(error) => {
                self.lose(error);
                self.stop.stop_because(StopReason::Ranks);
            }
        }
        self.clock.now()
    }

    pub(super) fn send(&self, rows: &[Observation]) {
        // Two threads send; a stop is requested once.
        let mut worker = self.worker.lock();
        let stopping = self.is_stopping();
        if self.is_lost() {
            return;
        }
        let rows = if self.member.policy.gather == Gather::Files { &[] } else { rows };
        let (finished, failed, tokens, in_flight) = self.counters.read();
        match worker.send(rows, [finished, failed, tokens, in_flight], stopping) {
            Ok(Directive::Continue) => {}
            Ok(Directive::Interrupted) if !stopping => self.interrupt.request_stop(),
            Ok(Directive::Interrupted) => {}
            Ok(Directive::Ended) => self.stop.stop_because(StopReason::Ranks),
            Err(error) => self.lose(error),
        }
    }

    /// The final clock estimate; `None` without rank 0.
    pub(super) fn clock(&self) -> Option<ClockFit> {
        if self.is_lost() {
            return None;
        }
        self.worker.lock().clock().map_err(|error| self.lose(error)).ok()
    }

    /// Reports the end to rank 0 and waits until it has saved the result.
    pub(super) fn end(&self, closing: &RankClosing) -> Result<(), Error> {
        let impatient = || self.interrupt.immediate() || self.member.is_orphaned();
        let lost = self.lost.lock().take();
        let ended = match (lost, closing.clock) {
            // Whatever ended it, a run that was interrupted before its start has nothing to report.
            _ if self.started().is_none() && self.interrupt.draining() => return Err(Error::Stopped),
            (Some(error), _) => Err(error),
            (None, Some(fit)) => {
                let mut worker = self.worker.lock();
                worker.done(fit, closing.to_json()).and_then(|()| worker.wait_for_release(&impatient))
            }
            (None, None) => Ok(()),
        };
        let log = self.log.clone().filter(|log| closing.rows > Some(0) && tacho_rowlog::Stored::is_log(log));
        ended.map_err(|error| match (error, log) {
            (source @ (FleetError::CoordinatorLost { .. } | FleetError::Refused { .. }), Some(log)) => {
                Error::Left { log, source }
            }
            (error, _) => error.into(),
        })
    }
}
