//! Keeps the credential of a server current.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, PoisonError};
use std::time::{Duration, Instant};
use tacho_core::Mutex;

use super::aws::{BODY_HASH, body_hash};
use super::{Credential, SignInSpec};
use crate::{Error, Headers};

/// A credential is renewed this fraction of its lifetime before it expires, but not earlier than `MAX_LEAD`.
const LEAD: u32 = 5;
const MAX_LEAD: Duration = Duration::from_secs(60);
/// Minimum time between two renewals by the clock.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
/// A credential that is refused sooner than this was never accepted: renewing it is futile.
const FUTILE: Duration = Duration::from_millis(200);
/// Shortest and longest pause after a futile renewal; it doubles each time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// Pause after a renewal that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The credential of a server, shared by all that call it. It is obtained at the first use.
#[derive(Debug, Clone)]
pub struct SignIn(Arc<Owner>);

/// Ends the background thread when the last handle is dropped.
#[derive(Debug)]
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.state.lock().over = true;
        self.0.changed.notify_all();
    }
}

#[derive(Debug)]
struct Shared {
    spec: SignInSpec,
    /// Number of the current credential: 0 before the first one. Workers compare it for each request.
    version: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    credential: Option<Arc<Credential>>,
    /// When it is renewed by the clock.
    due: Option<Instant>,
    /// Whether it is to be renewed at once.
    is_refused: bool,
    /// Whether it was refused as soon as it was used.
    is_futile: bool,
    since: Option<Instant>,
    /// How long a refusal does not renew it.
    pause: Duration,
    failure: Option<String>,
    over: bool,
}

impl SignIn {
    pub fn new(spec: SignInSpec) -> SignIn {
        let shared = Shared { spec, version: AtomicU64::new(0), state: Mutex::default(), changed: Condvar::new() };
        SignIn(Arc::new(Owner(Arc::new(shared))))
    }

    pub(super) fn spec(&self) -> &SignInSpec {
        &self.0.0.spec
    }

    pub(super) fn version(&self) -> u64 {
        self.0.0.version.load(Ordering::Acquire)
    }

    /// Obtains the first credential, unless there is one. Fails if that fails.
    pub fn start(&self) -> Result<(), Error> {
        self.credential().map(drop)
    }

    pub(super) fn credential(&self) -> Result<(u64, Arc<Credential>), Error> {
        let shared = &self.0.0;
        let mut state = shared.state.lock();
        if state.credential.is_none() {
            let fetched = shared.spec.fetch();
            shared.store(&mut state, fetched);
            if state.credential.is_some() {
                let shared = shared.clone();
                std::thread::spawn(move || shared.keep_current());
            }
        }
        match (&state.credential, &state.failure) {
            (Some(credential), _) => Ok((self.version(), credential.clone())),
            (None, failure) => Err(Error::SignIn { reason: failure.clone().unwrap_or_default() }),
        }
    }

    /// Adds what a signature needs to know of the body to the headers.
    pub(crate) fn describe_body(&self, headers: &mut Headers, body: &[u8]) {
        if matches!(self.spec(), SignInSpec::Aws(_)) {
            headers.set(BODY_HASH, &body_hash(body));
        }
    }

    /// Whether a response with this status means that a renewed credential may be accepted.
    pub(crate) fn is_refusal(&self, status: u16) -> bool {
        self.spec().is_refusal(status)
    }

    /// Renews the credential at once if the refused one is still the current one.
    pub(crate) fn refused(&self, version: u64) {
        let mut state = self.0.0.state.lock();
        let age = state.since.map_or(Duration::MAX, |since| since.elapsed());
        if self.version() == version && !state.is_refused && age >= state.pause {
            (state.is_refused, state.is_futile) = (true, age.saturating_sub(state.pause) < FUTILE);
            self.0.0.changed.notify_all();
        }
    }

    /// Whether this credential was refused and is being renewed.
    pub(crate) fn is_renewing(&self, version: u64) -> bool {
        let state = self.0.0.state.lock();
        state.is_refused && self.version() == version
    }

    /// Why the last renewal failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0.0.state.lock().failure.clone()
    }

    /// Waits until a refused credential is renewed; `false` if that failed.
    pub(crate) fn renew(&self, version: u64) -> bool {
        self.refused(version);
        let mut state = self.0.0.state.lock();
        while state.is_refused && self.version() == version {
            state = self.0.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.version() != version
    }
}

impl Shared {
    /// Renews the credential when it is due or refused, until the last handle is dropped.
    fn keep_current(&self) {
        loop {
            let mut state = self.state.lock();
            loop {
                let left = state.due.map(|due| due.saturating_duration_since(Instant::now()));
                state = match left {
                    _ if state.over => return,
                    _ if state.is_refused => break,
                    Some(Duration::ZERO) => break,
                    Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                    None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                };
            }
            drop(state);
            let fetched = self.spec.fetch();
            self.store(&mut self.state.lock(), fetched);
        }
    }

    /// Stores the result of a renewal and schedules the next one. A failed one leaves the old credential.
    fn store(&self, state: &mut State, fetched: Result<(Credential, Option<Duration>), String>) {
        let now = Instant::now();
        let lead = |lifetime: Duration| (lifetime / LEAD).min(MAX_LEAD);
        let wait = fetched.as_ref().ok().and_then(|(_, lifetime)| lifetime.map(|left| left - lead(left)));
        let is_futile = state.is_refused && (state.is_futile || fetched.is_err());
        state.pause = match is_futile || wait.is_some_and(|wait| wait < MIN_INTERVAL) {
            true => (state.pause * 2).clamp(PAUSES.0, PAUSES.1),
            false => Duration::ZERO,
        };
        state.since = Some(now);
        match fetched {
            Ok((credential, _)) => {
                state.credential = Some(Arc::new(credential));
                state.due = wait.and_then(|wait| now.checked_add(wait.max(MIN_INTERVAL).max(state.pause)));
                state.failure = None;
                self.version.fetch_add(1, Ordering::Release);
            }
            Err(reason) => {
                state.due = state.due.map(|_| now + RETRY_INTERVAL.max(state.pause));
                state.failure = Some(reason);
            }
        }
        state.is_refused = false;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn futile_renewals_come_ever_more_rarely() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display();
        for (token, refuses) in [(r#"{"access_token": "tok", "expires_in": 0}"#, false), ("tok", true)] {
            let command = format!("echo x >> {path}; echo '{token}'");
            let sign_in = SignIn::new(SignInSpec::Command { command, refresh: None });
            sign_in.start().unwrap();
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                if refuses {
                    sign_in.refused(sign_in.version());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(sign_in);
            let runs = std::fs::read_to_string(file.path()).unwrap().lines().count();
            // Six without a stall of the machine, hundreds without pauses.
            assert!((2..=20).contains(&runs), "{token}: {runs} runs in 2 s");
            std::fs::write(file.path(), "").unwrap();
        }
    }
}
