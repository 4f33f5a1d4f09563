//! What a run is to do, told by hashes: two runs that agree in them send the same requests at the same moments.

use std::io::{self, Write};

use sha2::{Digest, Sha256};
use tacho_core::Request;
use tacho_workload::write_jsonl;

use super::more::is_endless;
use super::prepare::Prepared;
use super::sessions::Dialogue;
use crate::Error;
use crate::plan::ServePlan;

/// Digits of the hash that a result has.
const DIGITS: usize = 16;

/// A hash of the requests and their due times, as they would be saved but for their ids, which are drawn anew each time.
pub(super) fn workload_hash(prepared: &Prepared) -> Result<String, Error> {
    let mut hash = Hash(Sha256::new());
    let due = prepared.timeline.due();
    prepared.requests.each(|place, request| {
        let unnamed = Request { id: None, ..request.clone() };
        Ok::<_, Error>(write_jsonl(&mut hash, 0, &[unnamed], &due[place..=place])?)
    })?;
    Ok(hash.digits())
}

/// The same of all that is planned, in short: when the run ends, which requests follow the first ones, what those of a
/// session wait for.
pub(super) fn digest(plan: &ServePlan, prepared: &Prepared, workload: &str) -> String {
    let mut hash = Hash(Sha256::new());
    let seed = is_endless(plan, prepared).then_some(plan.seed);
    hash.0.update(format!("{workload} {:?} {seed:?}", plan.traffic.stops.duration));
    for step in prepared.dialogue.as_ref().map(Dialogue::steps).iter().flat_map(|steps| &steps.steps) {
        hash.0.update(format!(" {} {:?} {:?}", step.session, step.parents, step.at));
    }
    hash.digits()[..DIGITS].to_owned()
}

struct Hash(Sha256);

impl Hash {
    fn digits(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
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
