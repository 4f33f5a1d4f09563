//! The identity of a run before its first request: workload digest, request table and setup. Two runs with equal
//! digests send the same requests at the same times.

use std::io::{self, Write};

use ring::digest::{Context, SHA256};
use tacho_client::RequestIdentity;
use tacho_metrics::Setup;
use tacho_record::WORKLOAD_VERSION;

use crate::plan::{Replayed, ServePlan};
use crate::{
    Error, serve::drive::supply::is_endless, serve::finish::record, serve::prepare::Prepared,
    serve::request_table::RequestTable,
};

/// Hexadecimal digits of the digest.
const DIGITS: usize = 16;

/// What the digest is of; hashed first.
const FORMAT: &str = "tacho workload 2";

/// The identity of a run, known before its first request.
pub(crate) struct RunIdentity {
    pub(crate) requests: RequestTable,
    /// The workload digest, in results, in logs and between ranks.
    pub(crate) workload: String,
    pub(crate) setup: Setup,
}

impl RunIdentity {
    pub(crate) fn of(plan: &ServePlan, prepared: &Prepared) -> Result<Self, Error> {
        let requests = RequestTable::of(plan.endpoint.backend, &prepared.requests)?;
        let workload = workload_digest(plan, prepared)?;
        if let Some(Replayed { path, digest: Some(saved) }) = plan.replayed.as_ref()
            && *saved != workload
        {
            return Err(Error::ReplayDiffers { path: path.clone(), saved: saved.clone(), found: workload });
        }
        let setup = Setup { workload: Some(workload.clone()), ..record::setup(plan, prepared, requests.len()) };
        Ok(RunIdentity { requests, workload, setup })
    }
}

/// Digest of what is sent and when. `docs/reference/result.md` lists what is in it; other content needs another
/// [`WORKLOAD_VERSION`].
pub fn workload_digest(plan: &ServePlan, prepared: &Prepared) -> Result<String, Error> {
    let mut hash = Hash::new();
    hash.part(FORMAT.as_bytes());
    let identity = RequestIdentity::new(plan.endpoint.clone(), &plan.base_path, &prepared.payload(plan));
    // The times of session steps follow from their dependencies.
    let due = if prepared.sessions.is_some() { &[] } else { prepared.timeline.scheduled() };
    prepared.requests.each(|index, request| {
        hash.times(&[due.get(index).copied(), request.cancel_after]);
        Ok::<_, Error>(identity.parts(index, request, |part| hash.part(part))?)
    })?;
    hash.times(&[plan.traffic.stops.duration.map(|time| time.as_secs_f64())]);
    for (start, limit) in prepared.timeline.limits() {
        hash.times(&[Some(start)]);
        hash.number(limit);
    }
    if is_endless(plan, prepared) {
        hash.number(plan.seed as usize);
    }
    if let Some(sessions) = &prepared.sessions {
        sessions.add_to(&mut hash);
    }
    Ok(format!("{WORKLOAD_VERSION}{}", &hash.digits()[..DIGITS]))
}

pub(in crate::serve) struct Hash(Context);

impl Hash {
    pub(in crate::serve) fn new() -> Hash {
        Hash(Context::new(&SHA256))
    }

    /// Adds bytes after their length, so that no two lists of parts are the same bytes.
    pub(in crate::serve) fn part(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.update(bytes);
    }

    pub(in crate::serve) fn number(&mut self, number: usize) {
        self.0.update(&(number as u64).to_le_bytes());
    }

    /// Adds times, in seconds, as whole microseconds.
    pub(in crate::serve) fn times(&mut self, seconds: &[Option<f64>]) {
        for time in seconds {
            let micros = time.map_or(i64::MIN, |seconds| (seconds * 1e6).round() as i64);
            self.0.update(&micros.to_le_bytes());
        }
    }

    pub(in crate::serve) fn digits(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
