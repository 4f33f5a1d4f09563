//! The side of the ranks other than 0: connects to rank 0, agrees with it, and sends it rows.

use std::time::{Duration, Instant};

use tacho_core::json::{Json, Value, dumps};
use tacho_core::{Clock, Observation, SystemClock, Timestamp};
use tacho_rowlog::pack;

use crate::clock::{ClockFit, ClockSample, WallClock};
use crate::message::{Directive, Done, Hello, Ready, Reply};
use crate::{Error, Membership, Progress, client::Client};

/// Clock samples before and after the run.
const CLOCK_SAMPLES: usize = 64;
/// Clock samples per group during the run: the shortest of several round trips is near the best.
const SAMPLES_DURING: usize = 4;
/// Time between two groups.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);
/// Maximum plausible time until the start that rank 0 sets.
const MAX_START_LEAD: Duration = Duration::from_secs(60);

/// A rank other than 0 in a run.
#[derive(Debug)]
pub struct Worker {
    client: Client,
    clock: SystemClock,
    samples: Vec<ClockSample>,
    sampled: Instant,
    log: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// By this rank's clock.
    pub timestamp: Timestamp,
    /// By rank 0's wall clock, in nanoseconds since 1970.
    pub unix_ns: i64,
}

impl Worker {
    pub fn join(
        member: &Membership,
        clock: SystemClock,
        hash: &str,
        version: &str,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Worker, Error> {
        let mut client = Client::connect(member, stopped)?;
        let hello = Hello {
            rank: member.rank,
            ranks: member.ranks,
            run: member.run,
            hash: hash.to_owned(),
            version: version.to_owned(),
            machine: tacho_rowlog::this_host().name,
        };
        let Reply { log, .. } = client.call_until("/v1/join", dumps(&hello.to_json()).as_bytes(), stopped)?;
        let mut worker = Worker { client, clock, samples: Vec::new(), sampled: Instant::now(), log };
        worker.sample_clock(CLOCK_SAMPLES)?;
        Ok(worker)
    }

    pub fn log(&self) -> Option<&str> {
        self.log.as_deref()
    }

    /// Reports that this rank is ready and where its log is, and waits for the start; `None` if the run ends before it.
    /// `stopped` tells whether this rank was interrupted.
    pub fn ready(&mut self, log: Option<&str>, stopped: &dyn Fn() -> bool) -> Result<Option<Start>, Error> {
        let fit = self.fit()?;
        loop {
            let stopping = stopped();
            let message = Ready { clock: Some(fit), log: log.map(str::to_owned), stopping };
            let reply = self.client.call("/v1/ready", dumps(&message.to_json()).as_bytes())?;
            if let Some((start, unix_ns)) = reply.start {
                let timestamp = fit.to_own(Timestamp(start));
                if timestamp > self.clock.now() + MAX_START_LEAD {
                    return Err(self.client.lost("its start is far in the future"));
                }
                return Ok(Some(Start { timestamp, unix_ns }));
            }
            if stopping || reply.stop == Directive::Interrupted {
                return Ok(None);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Sends rows, or none as a heartbeat, with the progress of this rank and whether it was interrupted.
    pub fn send(&mut self, rows: &[Observation], progress: Progress, stopping: bool) -> Result<Directive, Error> {
        // Rank 0 converts rows with the latest estimate of this clock.
        if self.sampled.elapsed() >= SAMPLE_INTERVAL {
            self.sample_clock(SAMPLES_DURING)?;
            let fit = self.fit()?;
            self.client.call("/v1/clock", dumps(&fit.to_json()).as_bytes())?;
        }
        let body = if rows.is_empty() { Ok(Vec::new()) } else { pack(rows) };
        let body = body.map_err(|error| self.client.lost(&error.to_string()))?;
        let [finished, failed, tokens, in_flight] = progress;
        let path = format!("/v1/rows?{},{finished},{failed},{tokens},{in_flight}", u8::from(stopping));
        Ok(self.client.call(&path, &body)?.stop)
    }

    /// The final estimate of this rank's clock.
    pub fn clock(&mut self) -> Result<ClockFit, Error> {
        self.sample_clock(CLOCK_SAMPLES)?;
        self.fit()
    }

    /// Reports that all rows have been sent, with a closing message.
    pub fn done(&mut self, fit: ClockFit, closing: Value) -> Result<(), Error> {
        let done = Done { clock: fit, wall_clock: Some(WallClock::now(self.clock)), closing };
        self.client.call("/v1/done", dumps(&done.to_json()).as_bytes()).map(drop)
    }

    /// Waits until rank 0 has saved the result: some launchers kill all ranks as soon as the first one exits. Once no
    /// rank is running, rank 0 has the rendezvous timeout for that.
    pub fn wait_for_release(&mut self, impatient: &dyn Fn() -> bool) -> Result<(), Error> {
        let timeout = self.client.timeout();
        let mut since = Instant::now();
        while !impatient() {
            let reply = self.client.call("/v1/end", b"")?;
            if reply.over {
                break;
            }
            if reply.running {
                since = Instant::now();
            } else if since.elapsed() > timeout {
                return Err(self.client.lost(&format!("it did not end the run within {} s", timeout.as_secs_f64())));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn fit(&self) -> Result<ClockFit, Error> {
        ClockFit::through(&self.samples).ok_or_else(|| self.client.lost("its clock could not be read"))
    }

    fn sample_clock(&mut self, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            let asked = self.clock.now();
            let reply = self.client.call("/v1/clock", b"")?;
            let answered = self.clock.now();
            let now = reply.now.ok_or_else(|| self.client.lost("it did not report its clock"))?;
            self.samples.push(ClockSample::new(asked, now, answered));
        }
        self.sampled = Instant::now();
        Ok(())
    }
}
