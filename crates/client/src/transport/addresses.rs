//! The addresses of a host: resolved once, again when connections fail or the lookup is old, and used round-robin while
//! they work.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{path::PathBuf, sync::Arc};
use tacho_core::Mutex;

use crate::{Error, Url};

const MAX_ADDRESSES: usize = 64;
/// How long a DNS lookup is trusted while connections work.
const ADDRESS_TTL: Duration = Duration::from_secs(60);
/// The minimum time between two lookups while connections fail.
const MIN_LOOKUP_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Addresses {
    /// Name and port; `None` if there is nothing to resolve.
    name: Option<(String, u16)>,
    known: Mutex<CachedAddress>,
    /// Incremented when the addresses change.
    version: AtomicU64,
    resolving: AtomicBool,
}

#[derive(Debug)]
struct CachedAddress {
    list: Arc<[Address]>,
    resolved_at: Instant,
}

impl Addresses {
    pub(crate) fn find(url: &Url) -> Result<Arc<Addresses>, Error> {
        if let Some(path) = &url.socket {
            return Ok(Addresses::fixed(vec![Address::Unix(path.clone())]));
        }
        let name = (url.host.clone(), url.port);
        let list = resolve(&name).map_err(|source| Error::Resolve { host: url.host.clone(), source })?;
        let literal = url.host.parse::<IpAddr>().is_ok();
        Ok(Arc::new(Addresses::new((!literal).then_some(name), list)))
    }

    pub(crate) fn fixed(list: Vec<Address>) -> Arc<Addresses> {
        Arc::new(Addresses::new(None, list.into()))
    }

    fn new(name: Option<(String, u16)>, list: Arc<[Address]>) -> Addresses {
        let known = Mutex::new(CachedAddress { list, resolved_at: Instant::now() });
        Addresses { name, known, version: AtomicU64::new(0), resolving: AtomicBool::new(false) }
    }

    fn list(&self) -> Arc<[Address]> {
        self.known.lock().list.clone()
    }

    /// Resolves the name again in a background thread, because that may be slow, unless it was done recently.
    fn refresh_in_background(self: &Arc<Self>, after: Duration) {
        let old = self.known.lock().resolved_at.elapsed() >= after;
        if self.name.is_none() || !old || self.resolving.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        let started = std::thread::Builder::new().name("tacho-lookup".into()).spawn(move || this.refresh());
        if started.is_err() {
            self.resolving.store(false, Ordering::Release);
        }
    }

    fn refresh(&self) {
        let found = self.name.as_ref().and_then(|name| resolve(name).ok());
        let mut known = self.known.lock();
        known.resolved_at = Instant::now();
        if let Some(list) = found.filter(|list| *list != known.list) {
            known.list = list;
            self.version.fetch_add(1, Ordering::Release);
        }
        drop(known);
        self.resolving.store(false, Ordering::Release);
    }
}

fn resolve((host, port): &(String, u16)) -> std::io::Result<Arc<[Address]>> {
    let list: Vec<_> = (host.as_str(), *port).to_socket_addrs()?.map(Address::Tcp).take(MAX_ADDRESSES).collect();
    if list.is_empty() { Err(std::io::Error::other("the name has no address")) } else { Ok(list.into()) }
}

/// The next address to connect to: round-robin, without those that recently failed.
#[derive(Debug)]
pub(crate) struct AddressRotation {
    shared: Arc<Addresses>,
    version: u64,
    list: Arc<[Address]>,
    next: usize,
    /// Bit set of addresses that recently failed.
    failed_bits: u64,
    resolved_at: Instant,
}

impl AddressRotation {
    pub(crate) fn new(shared: &Arc<Addresses>) -> Self {
        let version = shared.version.load(Ordering::Acquire);
        AddressRotation {
            list: shared.list(),
            shared: shared.clone(),
            version,
            next: 0,
            failed_bits: 0,
            resolved_at: Instant::now(),
        }
    }

    /// The addresses, and the index of the one to try first.
    pub(crate) fn next(&mut self) -> (&Arc<[Address]>, usize) {
        self.keep_up();
        let first = (0..self.list.len())
            .map(|step| (self.next + step) % self.list.len())
            .find(|&at| self.failed_bits & 1 << at == 0)
            .unwrap_or(self.next % self.list.len());
        self.next = (first + 1) % self.list.len();
        (&self.list, first)
    }

    pub(crate) fn has_choice(&self) -> bool {
        self.list.len() > 1
    }

    fn keep_up(&mut self) {
        if self.resolved_at.elapsed() >= ADDRESS_TTL {
            self.resolved_at = Instant::now();
            self.shared.refresh_in_background(ADDRESS_TTL);
        }
        if self.shared.version.load(Ordering::Acquire) != self.version {
            *self = AddressRotation::new(&self.shared);
        }
    }

    /// Records an established connection: `winner` works, `losers` do not.
    pub(crate) fn settled(&mut self, winner: usize, losers: u64) {
        self.failed_bits = (self.failed_bits | losers) & !(1 << winner);
    }

    /// Records that no address works: the name may have moved.
    pub(crate) fn failed(&mut self) {
        self.failed_bits = 0;
        self.shared.refresh_in_background(MIN_LOOKUP_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Arc<Addresses> {
        Addresses::fixed((1..4).map(|port| Address::Tcp(([127, 0, 0, 1], port).into())).collect())
    }

    #[test]
    fn all_take_turns_until_one_fails() {
        let mut turn = AddressRotation::new(&three());
        let take = |turn: &mut AddressRotation, count| (0..count).map(|_| turn.next().1).collect::<Vec<_>>();
        assert_eq!(take(&mut turn, 4), [0, 1, 2, 0]);
        turn.settled(2, 0b010);
        assert_eq!(take(&mut turn, 4), [2, 0, 2, 0]);
        turn.failed();
        assert_eq!(take(&mut turn, 3), [1, 2, 0]);
    }

    #[test]
    fn a_name_that_moves_is_noticed() {
        let url = Url::parse("http://localhost:1/").unwrap();
        let shared = Addresses::find(&url).unwrap();
        let real = shared.list();
        // Simulates a name that had another address when the run started.
        shared.known.lock().list = vec![Address::Tcp(([127, 0, 0, 9], 1).into())].into();
        let mut turn = AddressRotation::new(&shared);
        assert_eq!(turn.next().0[0].to_string(), "127.0.0.9:1");
        shared.known.lock().resolved_at = Instant::now() - MIN_LOOKUP_INTERVAL;
        turn.failed();
        let began = Instant::now();
        while shared.version.load(Ordering::Acquire) == 0 && began.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert_eq!(turn.next().0, &real);
    }
}
