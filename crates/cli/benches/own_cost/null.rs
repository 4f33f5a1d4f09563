//! A target that responds immediately: the upper bound of the dispatch loop itself.

use std::time::Instant;

use tacho_core::{Clock, Counters, Kept, Observation, SystemClock, Timestamp};
use tacho_loadgen::{Drive, ScheduleSpec, StopSignal, Target, Worker, drive};
use tacho_pyrand::RandomState;

struct Null {
    clock: SystemClock,
}

struct NullWorker {
    clock: SystemClock,
    done: Vec<Observation>,
}

impl Target for Null {
    type Worker<'t> = NullWorker;

    fn worker(&self, _id: usize, _of: usize) -> std::io::Result<NullWorker> {
        Ok(NullWorker { clock: self.clock, done: Vec::new() })
    }
}

impl Worker for NullWorker {
    fn issue(&mut self, mut row: Observation) {
        row.sent = self.clock.now();
        row.done = row.sent;
        self.done.push(row);
    }

    fn poll(&mut self, _until: Timestamp, done: &mut Vec<Observation>) {
        done.append(&mut self.done);
    }

    fn abort(&mut self, done: &mut Vec<Observation>) {
        done.append(&mut self.done);
    }
}

pub(crate) fn requests_per_second() -> f64 {
    let count = 1_000_000;
    let at_once = ScheduleSpec::Rate { rate: f64::INFINITY, burstiness: 1.0 };
    let timeline = at_once.plan(count, &mut RandomState::new(0)).unwrap();
    let clock = SystemClock::start();
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let plan = Drive { max_concurrency: Some(64), ..Drive::of(&timeline, &clock, &stop, &counters) };
    let start = Instant::now();
    let mut kept = Kept::default();
    drive(&Null { clock }, &plan, &mut kept).unwrap();
    kept.into_rows().len() as f64 / start.elapsed().as_secs_f64()
}
