//! The replicas of a server: which of them gets a request, and what happens when one fails.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tacho_core::{Content, Labels, Request, Shard, Timestamp, json::dumps};

use crate::transport::connect::{Route, route_headers};
use crate::{EndpointSpec, Error, Headers, Url, transport::http1};

/// The label of a row that names its replica.
pub const REPLICA: &str = "replica";
pub const MAX_REPLICAS: usize = 1024;
/// Failed connections in a row after which a replica is removed.
pub const REMOVED_AFTER: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    #[default]
    RoundRobin,
    /// To the replica with the fewest requests in flight.
    LeastInFlight,
    /// By the session id, so that a session stays on one replica.
    Session,
    /// By this many first bytes of the prompt, so that equal prefixes meet on one replica. A token id counts as 4 bytes.
    Prefix(usize),
    Random,
}

tacho_core::named! {
    #[derive(Default)]
    pub enum OnReplicaFailure {
        #[default]
        Fail = "fail",
        /// Before the first token, they are sent again to another replica.
        RetryElsewhere = "retry-elsewhere",
        /// They fail; after [`REMOVED_AFTER`] failed connections in a row the replica gets no more.
        Remove = "remove",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSpec {
    pub name: String,
    pub url: Url,
    /// The base URL's path, a prefix of control calls.
    pub base_path: String,
    pub proxy: Option<Url>,
    /// The address to connect to, if it is one of several addresses of a name.
    pub address: Option<SocketAddr>,
}

/// The replicas of a server and the distribution of requests over them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicaPlan {
    /// All replicas; empty if the endpoint is the only server.
    pub list: Vec<ReplicaSpec>,
    pub balance: Balance,
    pub on_failure: OnReplicaFailure,
    pub seed: u64,
    /// The first replica of requests that take turns when they are sent: each rank begins with another.
    pub first: usize,
    /// The requests of this process: the replica of a request does not depend on who sends it.
    pub shard: Shard,
}

/// What happened to a replica during a run, apart from its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaHealth {
    pub name: String,
    /// Failed attempts that were repeated at another replica.
    pub moved: u64,
    pub since: Option<Timestamp>,
    pub removed: bool,
}

/// All addresses of a URL's host, for one replica each. Fails if the name cannot be resolved.
pub fn addresses_of(url: &Url) -> Result<Vec<SocketAddr>, Error> {
    let failed = |source| Error::Resolve { host: url.host.clone(), source };
    let mut found: Vec<SocketAddr> = (url.host.as_str(), url.port).to_socket_addrs().map_err(failed)?.collect();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

impl EndpointSpec {
    /// The endpoint of each replica, with the path prefix of control calls; `base_path` is that of an only server.
    pub fn each<'a>(&'a self, base_path: &'a str) -> Vec<(EndpointSpec, &'a str)> {
        let alone = |spec: &'a ReplicaSpec| {
            let ReplicaSpec { url, proxy, address, .. } = spec.clone();
            let one = EndpointSpec { url, proxy, address, replicas: ReplicaPlan::default(), ..self.clone() };
            (one, spec.base_path.as_str())
        };
        match &self.replicas.list[..] {
            [] => vec![(self.clone(), base_path)],
            list => list.iter().map(alone).collect(),
        }
    }
}

/// The place of a request among the replicas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// Orders the replicas for this request.
    key: u64,
    /// The planned replica; `None` if it is chosen when the request is sent.
    planned: Option<u16>,
}

impl Assignment {
    pub(crate) fn encoded_for(self) -> usize {
        self.planned.map_or(0, usize::from)
    }
}

#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) endpoint: EndpointSpec,
    pub(crate) route: Route,
    /// The first two lines of a request: its path and the host.
    head: Box<[u8]>,
    pub(crate) labels: Labels,
    salt: u64,
    /// Only counted if the balance needs it.
    in_flight: AtomicU32,
    /// Failed connections in a row.
    failures: AtomicU32,
    /// Failed attempts that were repeated elsewhere, and the first of them.
    moved: AtomicU64,
    moved_since: AtomicU64,
}

impl Replica {
    /// The same request for this replica: its path and host, all else as it is.
    pub(crate) fn readdressed(&self, request: &Arc<[u8]>) -> Arc<[u8]> {
        if request.starts_with(&self.head) {
            return request.clone();
        }
        [&self.head, http1::after_host(request)].concat().into()
    }
}

#[derive(Debug)]
pub(crate) struct Replicas {
    list: Vec<Replica>,
    balance: Balance,
    on_failure: OnReplicaFailure,
    seed: u64,
    shard: Shard,
    /// Requests distributed so far, for those that are not planned.
    turn: AtomicUsize,
}

impl std::ops::Index<usize> for Replicas {
    type Output = Replica;

    fn index(&self, at: usize) -> &Replica {
        &self.list[at]
    }
}

impl Replicas {
    pub(crate) fn find(endpoint: &EndpointSpec) -> Result<Self, Error> {
        let ReplicaPlan { list, balance, on_failure, seed, first, shard } = &endpoint.replicas;
        let names = list.iter().map(|spec| Some(spec.name.as_str())).chain(std::iter::repeat(None));
        let replica = |((endpoint, _), name): ((EndpointSpec, &str), Option<&str>)| {
            endpoint.check()?;
            let (route, url) = (Route::find(&endpoint)?, &endpoint.url);
            let head = http1::request(
                endpoint.backend.method(),
                &route.target(url),
                &url.host_header(),
                &Headers::default(),
                None,
            );
            Ok(Replica {
                head: head[..head.len() - http1::after_host(&head).len()].into(),
                route,
                labels: name.map_or(Labels::default(), |name| Labels::default().with(REPLICA, name)),
                salt: hash(name.unwrap_or_default().as_bytes()),
                in_flight: AtomicU32::new(0),
                failures: AtomicU32::new(0),
                moved: AtomicU64::new(0),
                moved_since: AtomicU64::new(Timestamp::NEVER.0),
                endpoint,
            })
        };
        let list: Vec<_> = endpoint.each("").into_iter().zip(names).map(replica).collect::<Result<_, Error>>()?;
        // The headers of a request are the same at all replicas, and credentials must not reach another server.
        let credentials = |replica: &Replica| {
            let mut headers = Headers::default();
            route_headers(&replica.endpoint, &mut headers);
            headers
        };
        if list.windows(2).any(|pair| credentials(&pair[0]) != credentials(&pair[1])) {
            return Err(Error::ReplicaCredentials);
        }
        let (balance, on_failure, seed, turn) = (*balance, *on_failure, *seed, AtomicUsize::new(*first));
        Ok(Replicas { list, balance, on_failure, seed, shard: shard.clone(), turn })
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    #[cfg(test)]
    pub(crate) fn only_mut(&mut self) -> &mut Replica {
        &mut self.list[0]
    }

    /// The place of a request, known before it is sent.
    pub(crate) fn assignment(&self, index: usize, request: &Request) -> Assignment {
        if self.len() == 1 {
            return Assignment { key: 0, planned: Some(0) };
        }
        let index = self.shard.global_index(index);
        let key = match (self.balance, &request.session) {
            (Balance::Session, Some(session)) => hash(session.as_bytes()),
            (Balance::Prefix(bytes), _) => prefix_key(request, bytes),
            _ => mix(self.seed.wrapping_add(mix((index as u64) << 16))),
        };
        let planned = match self.balance {
            // The steps of sessions are not sent in the order of their indices: they take turns when they are sent.
            Balance::LeastInFlight => None,
            Balance::RoundRobin if request.session.is_some() => None,
            Balance::RoundRobin => Some(index % self.len()),
            Balance::Session | Balance::Prefix(_) | Balance::Random => Some(self.by_key(key, |_| true)),
        };
        Assignment { key, planned: planned.map(|at| at as u16) }
    }

    /// The replica that a request goes to now. Counts it there, if the balance needs it.
    pub(crate) fn choose(&self, assignment: Assignment) -> usize {
        if self.len() == 1 {
            return 0;
        }
        let chosen = match assignment.planned {
            Some(planned) => usize::from(planned),
            None => self.by_load(),
        };
        let chosen =
            if self.is_removed(chosen) { self.by_key(assignment.key, |at| !self.is_removed(at)) } else { chosen };
        self.enter(chosen);
        chosen
    }

    /// The replica of the next attempt, after `retries` earlier ones and a first attempt at `first`.
    pub(crate) fn choose_again(&self, assignment: Assignment, first: usize, retries: u32) -> usize {
        if self.on_failure != OnReplicaFailure::RetryElsewhere || self.len() == 1 {
            return self.choose(assignment);
        }
        let others = self.len() - 1;
        let chosen = (first + 1 + (assignment.key as usize % others + retries as usize) % others) % self.len();
        self.enter(chosen);
        chosen
    }

    /// Number of other replicas that a request may be sent to before its first token.
    pub(crate) fn alternatives(&self) -> u32 {
        if self.on_failure == OnReplicaFailure::RetryElsewhere { self.len() as u32 - 1 } else { 0 }
    }

    fn enter(&self, replica: usize) {
        if self.balance == Balance::LeastInFlight {
            self.list[replica].in_flight.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn leave(&self, replica: usize) {
        if self.balance == Balance::LeastInFlight && self.len() > 1 {
            self.list[replica].in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The replica with the fewest requests in flight; equal ones take turns. For other balances, the next in turn.
    fn by_load(&self) -> usize {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = (0..self.len()).map(|step| first.wrapping_add(step) % self.len());
        let there = in_turn.filter(|&at| !self.is_removed(at));
        there.min_by_key(|&at| self.list[at].in_flight.load(Ordering::Relaxed)).unwrap_or(first % self.len())
    }

    /// Rendezvous hashing: the replica with the highest weight for this key. Without a replica, only its keys move.
    fn by_key(&self, key: u64, wanted: impl Fn(usize) -> bool) -> usize {
        let weight = |at: &usize| mix(key ^ self.list[*at].salt);
        let best = (0..self.len()).filter(|&at| wanted(at)).max_by_key(weight);
        best.unwrap_or_else(|| (0..self.len()).max_by_key(weight).unwrap_or(0))
    }

    pub(crate) fn connect_failed(&self, replica: usize) {
        self.list[replica].failures.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection to the replica was opened. A removed replica stays removed.
    pub(crate) fn connected(&self, replica: usize) {
        let failures = &self.list[replica].failures;
        if (1..REMOVED_AFTER).contains(&failures.load(Ordering::Relaxed)) {
            failures.store(0, Ordering::Relaxed);
        }
    }

    fn is_removed(&self, replica: usize) -> bool {
        self.on_failure == OnReplicaFailure::Remove
            && self.list[replica].failures.load(Ordering::Relaxed) >= REMOVED_AFTER
    }

    /// A failed attempt at a replica is repeated at another.
    pub(crate) fn moved(&self, replica: usize, now: Timestamp) {
        self.list[replica].moved.fetch_add(1, Ordering::Relaxed);
        self.list[replica].moved_since.fetch_min(now.0, Ordering::Relaxed);
    }

    /// What happened to each replica; empty if there is one server.
    pub(crate) fn health(&self) -> Vec<ReplicaHealth> {
        let health = |(at, replica): (usize, &Replica)| {
            let name = replica.labels.get(REPLICA)?.to_owned();
            let (moved, since) = (&replica.moved, Timestamp(replica.moved_since.load(Ordering::Relaxed)));
            let since = (since != Timestamp::NEVER).then_some(since);
            Some(ReplicaHealth { name, moved: moved.load(Ordering::Relaxed), since, removed: self.is_removed(at) })
        };
        self.list.iter().enumerate().filter_map(health).collect()
    }
}

/// A hash of the first bytes of a prompt: of its text, its token ids or its chat messages.
fn prefix_key(request: &Request, bytes: usize) -> u64 {
    let head = |text: &str| hash(&text.as_bytes()[..text.len().min(bytes)]);
    match (&request.chat_messages, &request.content) {
        (Some(messages), _) => head(&dumps(messages)),
        (None, Content::Text(text)) => head(text),
        (None, Content::Ids(ids)) => {
            let ids = &ids[..ids.len().min(bytes.div_ceil(4))];
            hash(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>())
        }
        (None, other) => head(&dumps(&other.to_json())),
    }
}

/// FNV-1a: the same in every release, so that a plan can be repeated.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The finalizer of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests;
