//! A rank that does what rank 0 says: run after run of a sweep, whose points only rank 0 can choose.

use std::time::Duration;

use tacho_core::json::Value;

use crate::call::Caller;
use crate::{Error, Place};

/// Between two questions.
const ASK: Duration = Duration::from_millis(100);

/// A rank that follows.
#[derive(Debug)]
pub struct Follower {
    caller: Caller,
    rank: usize,
    number: u64,
}

/// A run to take part in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub number: u64,
    /// Its command.
    pub words: Vec<String>,
}

impl Follower {
    /// Finds rank 0.
    pub fn join(place: &Place, stopped: &dyn Fn() -> bool) -> Result<Follower, Error> {
        Ok(Follower { caller: Caller::find(place, stopped)?, rank: place.rank, number: 0 })
    }

    /// The next run, once it is known; nothing when there is none any more.
    pub fn next(&mut self, stopped: &dyn Fn() -> bool) -> Result<Option<Order>, Error> {
        loop {
            let answer = self.caller.call(&format!("/v1/next?{},{}", self.rank, self.number), b"")?;
            if answer.get("over").is_some() {
                return Ok(None);
            }
            if let Some(words) = answer.get("words").and_then(Value::as_list) {
                let number = answer.get("number").and_then(Value::as_i64).unwrap_or(0);
                self.number = u64::try_from(number).unwrap_or(0);
                let words = words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect();
                return Ok(Some(Order { number: self.number, words }));
            }
            if stopped() {
                return Err(Error::Stopped);
            }
            std::thread::sleep(ASK);
        }
    }

    /// Whether a run other than the last one is to be taken part in, or none.
    pub fn is_superseded(&mut self) -> bool {
        let answer = self.caller.call(&format!("/v1/next?{},{}", self.rank, self.number), b"");
        answer.map_or(true, |answer| answer.get("over").is_some() || answer.get("words").is_some())
    }
}
