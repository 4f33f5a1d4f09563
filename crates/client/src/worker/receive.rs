//! Handling of received bytes: timestamp them first, then pass them to their request.

use std::time::Duration;

use tacho_core::{Clock, Timestamp};

use super::{ClientWorker, LATE_THRESHOLD, Slot, exchange::Progress};
use crate::transport::http1::{Head, Reader, Sink};
use crate::{TimestampSource, transport::link::Received};

/// Maximum size of a sample; beyond it, every second value is dropped.
const MAX_SAMPLE: usize = 1 << 16;

/// A systematic sample of a series of unknown length.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    seen: u64,
    /// Every value is kept until the sample is full, then every 2nd, 4th, …
    halvings: u32,
}

impl Sampling {
    fn push(&mut self, sample: &mut Vec<u64>, value: u64) {
        self.seen += 1;
        if !self.seen.is_multiple_of(1 << self.halvings) {
            return;
        }
        if sample.len() == MAX_SAMPLE {
            let mut keep = false;
            sample.retain(|_| {
                keep = !keep;
                keep
            });
            self.halvings += 1;
        }
        sample.push(value);
    }
}

struct Discard;

impl Sink for Discard {
    fn head(&mut self, _head: &Head) {}

    fn body(&mut self, _bytes: &[u8]) -> bool {
        true
    }
}

impl ClientWorker<'_> {
    /// Reads once; the poller reports further bytes.
    pub(super) fn read(&mut self, token: usize) {
        let Some(slot) = self.slots[token].as_mut() else { return };
        match slot.link.read(&mut self.buffer) {
            Ok(None) => {}
            Ok(Some(Received { count: 0, .. })) => self.end_of_input(token),
            Ok(Some(received)) => {
                self.received(token, &received);
                if received.last && self.slots[token].is_some() {
                    self.end_of_input(token);
                }
            }
            Err(error) => self.lost(token, &error),
        }
    }

    fn received(&mut self, token: usize, received: &Received) {
        let now = self.client.clock.now();
        let slot = self.slots[token].as_mut().expect("read connections exist");
        let after = slot.exchange.as_ref().map_or(Timestamp::ZERO, |exchange| exchange.earliest());
        let is_http2 = slot.http2.is_some();
        let timestamp = self.timestamp(received, after, now);
        if is_http2 {
            return self.receive_http2(token, received.count, timestamp, after);
        }
        let Some(exchange) = self.slots[token].as_mut().and_then(|slot| slot.exchange.as_mut()) else {
            // Unrequested bytes: the connection cannot be trusted.
            self.close(token);
            return;
        };
        let (progress, events) = exchange.receive(&self.buffer[..received.count], timestamp);
        exchange.keep_cookies(self.client);
        let is_paced = exchange.input.is_some();
        self.count(events, timestamp, after);
        if progress != Progress::More {
            self.settle(token, progress);
        } else if is_paced {
            self.send_due(token, now);
        }
    }

    /// Counts the token events of one read; the previous event on this connection arrived at `after`.
    fn count(&mut self, events: usize, timestamp: Timestamp, after: Timestamp) {
        self.tokens += events as u64;
        self.stats.events += events as u64;
        if events > 1 {
            self.coalesced(events as u64 - 1, timestamp, after);
        }
    }

    /// Counts events read together with a later one. The server may have sent them together. But if this worker was
    /// busy since its last wait, or off its core in it, they may have arrived separately, and only the last arrival is
    /// known.
    fn coalesced(&mut self, events: u64, timestamp: Timestamp, after: Timestamp) {
        self.stats.coalesced += events;
        let now = self.client.clock.now();
        // Bytes that arrived during the last work end the wait at once: a long wait had none of them.
        let idle = timestamp > self.slept && self.woke.since(self.slept) > LATE_THRESHOLD;
        let work = if idle { Duration::ZERO } else { self.last_work };
        let busy = work + self.absent + now.since(self.woke);
        let lag = now.since(timestamp);
        if busy.max(lag) <= LATE_THRESHOLD {
            return;
        }
        self.stats.late_coalesced += events;
        // What arrived before its last work began was read then.
        let looked = Timestamp(self.slept.0.saturating_sub(self.last_work.as_nanos() as u64));
        let span = busy.max(lag).min(timestamp.since(after.max(looked)));
        self.span_sample.push(&mut self.stats.late_spans_ns, span.as_nanos() as u64);
    }

    /// Handles the first `count` bytes of the buffer as HTTP/2; they may concern the connection only.
    fn receive_http2(&mut self, token: usize, count: usize, timestamp: Timestamp, after: Timestamp) {
        let Some(Slot { exchange, http2: Some(http2), .. }) = &mut self.slots[token] else { return };
        let bytes = &self.buffer[..count];
        let Some(exchange) = exchange else {
            let healthy = http2.feed(bytes, &mut Reader::new(), &mut Discard).is_ok() && !http2.is_going_away();
            if healthy {
                self.flush(token);
            } else {
                self.close(token);
            }
            return;
        };
        let (progress, events) = exchange.receive_http2(http2, bytes, timestamp);
        exchange.keep_cookies(self.client);
        let again = http2.has_refused() && !exchange.resent;
        self.count(events, timestamp, after);
        match progress {
            Progress::More => {}
            _ if again => self.resend(token),
            progress => self.settle(token, progress),
        }
        // The slot may belong to another connection by now, one that is not open yet.
        if self.slots[token].as_ref().is_some_and(|slot| slot.link.is_open()) {
            self.flush(token);
        }
    }

    /// The timestamp of a read: the kernel's, if there is one. It must lie between the previous one on this connection
    /// and now. Otherwise the clocks disagree, and the time of the read is used.
    fn timestamp(&mut self, received: &Received, after: Timestamp, now: Timestamp) -> Timestamp {
        let Some(kernel) = received.kernel else { return now };
        let Some(arrival) = self.wall.timestamp_between(kernel, after, now) else {
            // Times of the client itself do not depend on the kernel's.
            self.stats.timestamp_anomalies += u64::from(self.client.endpoint.timestamps == TimestampSource::Kernel);
            return now;
        };
        self.lag_sample.push(&mut self.stats.wake_lags_ns, now.0 - arrival.0);
        if arrival > self.slept && self.woke.since(arrival) > LATE_THRESHOLD {
            self.absent = self.woke.since(self.slept);
        }
        match self.client.endpoint.timestamps {
            TimestampSource::Kernel => arrival,
            TimestampSource::User => now,
        }
    }
}
