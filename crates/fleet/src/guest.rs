//! Another rank's side of a run: finds rank 0, agrees with it, and hands it rows.

use std::time::{Duration, Instant};

use tacho_core::json::{Dict, Value, dumps};
use tacho_core::{Clock, Observation, Stamp, SystemClock};
use tacho_rowlog::pack;

use crate::call::Caller;
use crate::clock::{Calendar, ClockFit, Look};
use crate::{Error, Place, Progress};

/// Looks at rank 0's clock before and after the run.
const LOOKS: usize = 64;
/// Between two looks during it.
const BETWEEN: Duration = Duration::from_secs(1);
/// Between two questions whether the start is known.
const ASK: Duration = Duration::from_millis(20);

/// Another rank's side of a run.
#[derive(Debug)]
pub struct Guest {
    caller: Caller,
    clock: SystemClock,
    looks: Vec<Look>,
    looked: Instant,
    log: Option<String>,
}

/// When a run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// By this rank's clock.
    pub stamp: Stamp,
    /// By rank 0's calendar, in nanoseconds since 1970.
    pub unix_ns: i64,
}

/// What rank 0 says to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Go on.
    GoOn,
    /// The run is over by a rule of its own.
    Ended,
    /// Somebody asked for the end.
    Asked,
}

impl Guest {
    /// Joins rank 0, once it is there.
    pub fn join(
        place: &Place,
        clock: SystemClock,
        hash: &str,
        version: &str,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Guest, Error> {
        let mut caller = Caller::find(place, stopped)?;
        let mut hello = Dict::new();
        hello.set("rank", place.rank);
        hello.set("ranks", place.ranks);
        hello.set("order", place.order);
        hello.set("hash", hash);
        hello.set("version", version);
        hello.set("machine", tacho_rowlog::Host::here().name);
        let welcome = caller.call_until("/v1/join", dumps(&hello.into()).as_bytes(), stopped)?;
        let log = welcome.get("log").and_then(Value::as_str).map(str::to_owned);
        let mut guest = Guest { caller, clock, looks: Vec::new(), looked: Instant::now(), log };
        guest.look(LOOKS)?;
        Ok(guest)
    }

    /// What rank 0's log is called.
    pub fn log(&self) -> Option<&str> {
        self.log.as_deref()
    }

    /// Says that this rank is ready, and waits for the moment of the start. Nothing when there is none because the run
    /// is to end; `stopped` says so here.
    pub fn ready(&mut self, stopped: &dyn Fn() -> bool) -> Result<Option<Start>, Error> {
        let fit = ClockFit::through(&self.looks).ok_or_else(|| self.caller.lost("its clock could not be seen"))?;
        loop {
            let mut said = Dict::new();
            said.set("clock", fit.to_json());
            let stopping = stopped();
            said.set("stopping", stopping);
            let answer = self.caller.call("/v1/ready", dumps(&said.into()).as_bytes())?;
            let number = |name: &str| answer.get(name).and_then(Value::as_i64);
            if let (Some(start), Some(unix_ns)) = (number("start"), number("unix_ns")) {
                let start = u64::try_from(start).map_err(|_| self.caller.lost("it named no start"))?;
                return Ok(Some(Start { stamp: fit.to_own(Stamp(start)), unix_ns }));
            }
            if stopping || reply(&answer) == Reply::Asked {
                return Ok(None);
            }
            std::thread::sleep(ASK);
        }
    }

    /// Hands rows over, or none as a sign of life, and tells how far this rank is and whether it was asked to stop.
    pub fn send(&mut self, rows: &[Observation], progress: Progress, stopping: bool) -> Result<Reply, Error> {
        let body = if rows.is_empty() { Ok(Vec::new()) } else { pack(rows) };
        let body = body.map_err(|error| self.caller.lost(&error.to_string()))?;
        let [finished, failed, tokens, under_way] = progress;
        let path = format!("/v1/rows?{},{finished},{failed},{tokens},{under_way}", u8::from(stopping));
        let answer = self.caller.call(&path, &body)?;
        if self.looked.elapsed() >= BETWEEN {
            self.look(1)?;
        }
        Ok(reply(&answer))
    }

    /// How this rank's clock ran, with a last look at it.
    pub fn clock(&mut self) -> Result<ClockFit, Error> {
        self.look(LOOKS)?;
        ClockFit::through(&self.looks).ok_or_else(|| self.caller.lost("its clock could not be seen"))
    }

    /// Says that all rows have been handed over, how the clock ran, and whatever else is to be said.
    pub fn done(mut self, fit: ClockFit, mut said: Dict) -> Result<(), Error> {
        said.set("clock", fit.to_json());
        said.set("calendar", Calendar::now(self.clock).to_json());
        self.caller.call("/v1/done", dumps(&said.into()).as_bytes()).map(drop)
    }

    fn look(&mut self, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            let asked = self.clock.now();
            let answer = self.caller.call("/v1/clock", b"")?;
            let answered = self.clock.now();
            let now = answer.get("now").and_then(Value::as_i64).and_then(|nanos| u64::try_from(nanos).ok());
            let now = now.ok_or_else(|| self.caller.lost("it has no clock"))?;
            self.looks.push(Look::new(asked, now, answered));
        }
        self.looked = Instant::now();
        Ok(())
    }
}

fn reply(answer: &Value) -> Reply {
    match answer.get("stop").and_then(Value::as_str) {
        Some("asked") => Reply::Asked,
        Some(_) => Reply::Ended,
        None => Reply::GoOn,
    }
}
