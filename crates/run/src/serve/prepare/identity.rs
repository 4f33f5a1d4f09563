//! The identity of a run before its first request: workload digest, request table and setup. Two runs with equal
//! digests send the same requests at the same times.

use std::io::{self, Write};

use ring::digest::{Context, SHA256};
use tacho_core::Request;
use tacho_metrics::Setup;
use tacho_workload::write_jsonl;

use crate::Error;
use crate::plan::ServePlan;
use crate::serve::drive::supply::is_endless;
use crate::serve::finish::record;
use crate::serve::prepare::Prepared;
use crate::serve::request_table::RequestTable;
use crate::serve::sessions::SessionWorkload;

/// Hexadecimal digits of the digest.
const DIGITS: usize = 16;

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
        let setup = Setup { workload: Some(workload.clone()), ..record::setup(plan, prepared, requests.len()) };
        Ok(RunIdentity { requests, workload, setup })
    }
}

/// Digest of the requests and their scheduled times as they would be saved, without ids, which differ between runs.
/// It includes everything else that determines what is sent: the duration, the seed of requests generated during the
/// run, the dependencies of session steps, and the file of the backend.
fn workload_digest(plan: &ServePlan, prepared: &Prepared) -> Result<String, Error> {
    let mut hash = Hash::new();
    let due = prepared.timeline.scheduled();
    prepared.requests.each(|place, request| {
        let unnamed = Request { id: None, ..request.clone() };
        Ok::<_, Error>(write_jsonl(&mut hash, 0, &[unnamed], &due[place..=place])?)
    })?;
    let seed = is_endless(plan, prepared).then_some(plan.seed);
    hash.add(&format!(" {:?} {seed:?}", plan.traffic.stops.duration));
    if let Some(file) = plan.endpoint.backend.file_digest() {
        hash.add(&format!(" backend {file}"));
    }
    for step in prepared.sessions.as_ref().map(SessionWorkload::steps).iter().flat_map(|steps| &steps.steps) {
        hash.add(&format!(" {} {:?} {:?}", step.session, step.parents, step.at));
    }
    Ok(hash.digits()[..DIGITS].to_owned())
}

/// A SHA-256 hash as a writer.
pub(in crate::serve) struct Hash(Context);

impl Hash {
    pub(in crate::serve) fn new() -> Hash {
        Hash(Context::new(&SHA256))
    }

    fn add(&mut self, text: &str) {
        self.0.update(text.as_bytes());
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
