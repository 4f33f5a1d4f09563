//! A record of what the selectors of a file found, for `tacho backend check`.

use std::sync::atomic::{AtomicBool, Ordering};

use tacho_core::{Mutex, Timestamp, secret::ServerText};

use super::program::{Found, Hit};
use super::spec::Selector;
use crate::backends::row::excerpt;
use crate::backends::scan::{Kind, unescape};

/// What the selectors found in each event, if it is recorded.
#[derive(Debug, Default)]
pub struct Trace {
    on: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    status: Option<u16>,
    events: Vec<TraceEvent>,
}

#[derive(Debug, Clone)]
pub struct TraceEvent {
    pub timestamp: Timestamp,
    pub data: String,
    /// The selectors that found something, by number, and the value.
    pub found: Vec<(usize, String)>,
    pub is_token: bool,
    pub is_end: bool,
}

impl Trace {
    pub fn start(&self) {
        self.on.store(true, Ordering::Relaxed);
        *self.seen.lock() = Seen::default();
    }

    pub fn status(&self) -> Option<u16> {
        self.seen.lock().status
    }

    pub fn events(&self) -> Vec<TraceEvent> {
        self.seen.lock().events.clone()
    }

    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(super) fn note_status(&self, status: u16) {
        if self.is_on() {
            self.seen.lock().status = Some(status);
        }
    }

    #[cold]
    pub(super) fn note(
        &self,
        (data, timestamp): (&[u8], Timestamp),
        found: &Found,
        selectors: &[Selector],
        (is_token, is_end): (bool, bool),
    ) {
        let met = |hit: &&Hit| {
            let needs = selectors[usize::from(hit.selector)].needs;
            found.met & needs == needs && hit.kind != Kind::Null
        };
        let hits = found.hits.iter().filter(met);
        let event = TraceEvent {
            timestamp,
            data: excerpt(data),
            found: hits.map(|hit| (usize::from(hit.selector), shown(hit, data))).collect(),
            is_token,
            is_end,
        };
        self.seen.lock().events.push(event);
    }

    /// Notes an event that only marks the end.
    pub(super) fn note_end(&self, data: &[u8], timestamp: Timestamp) {
        if self.is_on() {
            let (data, found) = (excerpt(data), Vec::new());
            self.seen.lock().events.push(TraceEvent { timestamp, data, found, is_token: false, is_end: true });
        }
    }
}

fn shown(hit: &Hit, data: &[u8]) -> String {
    let bytes = &data[hit.span.clone()];
    if hit.kind != Kind::Text {
        return excerpt(bytes);
    }
    let mut plain = Vec::new();
    unescape(bytes, &mut plain);
    format!("{:?}", &*ServerText::new(&String::from_utf8_lossy(&plain)))
}
