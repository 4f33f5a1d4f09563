//! A rank that takes part in the runs of a sweep, one after another. Rank 0 chooses them.

use std::time::Duration;

use crate::{Error, Membership, client::Client, message::Reply};

const POLL: Duration = Duration::from_millis(100);

/// A rank other than 0 in a sweep.
#[derive(Debug)]
pub struct SweepWorker {
    client: Client,
    rank: usize,
    number: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub number: u64,
    /// Its command, with secrets redacted: each rank has its own copy of them.
    pub args: Vec<String>,
}

impl SweepWorker {
    pub fn join(member: &Membership, stopped: &dyn Fn() -> bool) -> Result<SweepWorker, Error> {
        Ok(SweepWorker { client: Client::connect(member, stopped)?, rank: member.rank, number: 0 })
    }

    /// The next run, once it is known; `None` if the sweep is over.
    pub fn next(&mut self, stopped: &dyn Fn() -> bool) -> Result<Option<Assignment>, Error> {
        loop {
            let reply = self.poll()?;
            if reply.over {
                return Ok(None);
            }
            if let Some((number, args)) = reply.next {
                self.number = number;
                return Ok(Some(Assignment { number, args }));
            }
            if stopped() {
                return Err(Error::Stopped);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Whether rank 0 has continued with another run, or has ended the sweep.
    pub fn is_superseded(&mut self) -> bool {
        self.poll().map_or(true, |reply| reply.over || reply.next.is_some())
    }

    fn poll(&mut self) -> Result<Reply, Error> {
        self.client.call(&format!("/v1/next?{},{}", self.rank, self.number), b"")
    }
}
