//! The properties of each request that its result needs, known before it is sent.

mod compact;

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering};

use tacho_client::BackendKind;
use tacho_core::{Mutex, Request};
use tacho_rowlog::RequestInfo;
use tacho_workload::Requests;

use crate::Error;

pub(crate) use compact::Compact;

/// The properties of each request. The table grows while requests are generated during a run.
#[derive(Debug, Default)]
pub(crate) struct RequestTable {
    all: Mutex<Compact>,
    rounds: AtomicU32,
}

impl RequestTable {
    pub(crate) fn of(backend: BackendKind, requests: &Requests) -> Result<Self, Error> {
        let mut known = Compact::default();
        requests.each(|position, request| {
            known.push(one(backend, position, request)?);
            Ok::<_, Error>(())
        })?;
        Ok(RequestTable { all: Mutex::new(known), rounds: AtomicU32::new(1) })
    }

    /// Adds further requests. Fails when the duration of an audio clip cannot be determined; then nothing is added.
    pub(crate) fn extend(&self, backend: BackendKind, requests: &[Request]) -> Result<(), Error> {
        let before = self.lock().len();
        let more = requests.iter().enumerate().map(|(at, request)| one(backend, before + at, request));
        let more: Vec<RequestInfo> = more.collect::<Result<_, _>>()?;
        self.lock().extend(more);
        self.rounds.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Compact> {
        self.all.lock()
    }

    /// Number of extensions, including the first.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

fn one(backend: BackendKind, index: usize, request: &Request) -> Result<RequestInfo, Error> {
    Ok(RequestInfo {
        prompt_len: request.prompt_len,
        output_len: request.output_len,
        input_sequences: backend.input_sequences(request),
        audio_seconds: audio_seconds(backend, index, request)?,
        lora: request.lora.clone(),
        request_id: request.id.clone(),
        labels: request.labels.clone(),
    })
}

/// Duration of a request's audio; 0 for protocols without audio.
fn audio_seconds(backend: BackendKind, index: usize, request: &Request) -> Result<f64, Error> {
    let unfit = |reason| tacho_client::Error::Unfit { index, backend: backend.name(), reason };
    backend.audio_seconds(request).map_err(|reason| unfit(reason.into()).into())
}
