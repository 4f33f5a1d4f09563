//! One request and its response: from the bytes of a connection to the outcome of a row.

use std::{sync::Arc, time::Duration};

use tacho_core::{FailureKind, Observation, Outcome, Timestamp, secret::ServerText};

use super::{bounds::Bounds, input::Input, outgoing::Outgoing};
use crate::backends::{Expected, Flow, ResponseDecoder, Rules, excerpt};
use crate::transport::http1::{Broken, Head, Reader, Sink};
use crate::transport::http2::{Http2, code_name};
use crate::{EndpointSpec, client::Client, transport::inflate::Inflate};

const KEPT_ERROR_BODY: usize = 4 << 10;
/// Bytes of an error body that are read before the connection is closed.
const MAX_ERROR_BODY: u32 = 256 << 10;

const MAX_KEPT_HEADER: usize = 256;

/// Error of a response that may be truncated: its end is indistinguishable from a lost connection.
const OPEN_ENDED: &str =
    "the response ended with the connection, and neither its length nor an end marker shows that it is complete";

const UNHEARD: &str = "the server ended the transcription before all of the audio was sent";

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) request: Outgoing,
    pub(super) written: usize,
    /// Boxed, because few requests have it: input that is sent while the response is received.
    pub(super) input: Option<Box<Input>>,
    pub(super) reader: Reader,
    pub(super) response: ResponseState,
    /// Since when it has waited for a connection that is not open yet.
    pub(super) connecting: Option<Timestamp>,
    /// Whether it was sent again because a reused connection had died.
    pub(super) resent: bool,
    pub(super) redirects: u8,
    /// Whether the server has refused its credential before.
    pub(super) was_refused: bool,
    /// The replica it is sent to, and that of the first attempt.
    pub(super) replica: u16,
    pub(super) first_replica: u16,
    /// When this attempt started; the row has the time of the first attempt.
    pub(super) began: Timestamp,
    /// Delay from sending to cancellation; taken once it is scheduled.
    pub(super) cancel_after: Option<Duration>,
    pub(super) cancel_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct ResponseState {
    pub(super) row: Observation,
    /// Names of the headers to keep as labels.
    kept_headers: Option<Arc<[String]>>,
    rules: Rules,
    decoder: ResponseDecoder,
    /// Boxed, because few responses are compressed and all are in memory.
    inflate: Option<Box<Inflate>>,
    error_body: Vec<u8>,
    error_read: u32,
    /// Whether the status was 200, so that the body is a result.
    accepted: bool,
    bounds: Bounds,
    timestamp: Timestamp,
    /// For a non-streamed response: the timestamp of the read that completed it.
    pub(super) ended: Option<Timestamp>,
    stopped: bool,
    /// Boxed, because few responses have one and all are in memory.
    failure: Option<Box<Outcome>>,
}

/// The next action after some bytes.
#[derive(Debug, PartialEq)]
pub(super) enum Progress {
    More,
    Done(Outcome),
    /// Send the request to another location; whether the method becomes GET.
    Redirect(String, bool),
}

impl Exchange {
    pub(super) fn new(row: Observation, request: Outgoing, expected: &Expected, endpoint: &EndpointSpec) -> Self {
        let began = row.sent;
        Exchange {
            request,
            written: 0,
            input: Input::of(expected),
            reader: Reader::new(),
            response: ResponseState {
                row,
                kept_headers: Some(&endpoint.response_headers).filter(|names| !names.is_empty()).cloned(),
                rules: endpoint.rules,
                decoder: ResponseDecoder::new(endpoint.backend, endpoint.rules, expected),
                inflate: None,
                error_body: Vec::new(),
                error_read: 0,
                accepted: false,
                bounds: Bounds::of(expected.output_len),
                timestamp: Timestamp::ZERO,
                ended: None,
                stopped: false,
                failure: None,
            },
            connecting: None,
            resent: false,
            redirects: 0,
            was_refused: false,
            replica: 0,
            first_replica: 0,
            began,
            cancel_after: expected.cancel_after,
            cancel_at: Timestamp::NEVER,
        }
    }

    /// The same request for one of the replicas; the first attempt went to `first`.
    pub(super) fn to(mut self, replica: usize, first: usize) -> Self {
        (self.replica, self.first_replica) = (replica as u16, first as u16);
        self
    }

    /// Whether no token has arrived `limit` after this attempt started.
    pub(super) fn is_silent(&self, now: Timestamp, limit: Duration) -> bool {
        !self.response.decoder.is_whole() && self.response.row.chunks.is_empty() && now.since(self.began) >= limit
    }

    /// The earliest possible arrival of the next bytes: after the start of this attempt and after the previous bytes.
    pub(super) fn earliest(&self) -> Timestamp {
        self.began.max(self.response.timestamp)
    }

    /// Handles bytes that arrived at `timestamp`; returns the number of token events in them.
    pub(super) fn receive(&mut self, bytes: &[u8], timestamp: Timestamp) -> (Progress, usize) {
        self.response.row.first_byte.get_or_insert(timestamp);
        self.receive_by(timestamp, |reader, response| {
            let used = reader.feed(bytes, response)?;
            // Nothing else was requested on this connection. Some servers send a line end after the body.
            let surplus = reader.ended() && !bytes[used..].iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            if surplus { Err(Broken::Surplus) } else { Ok(()) }
        })
    }

    /// Handles bytes of an HTTP/2 connection, which may not belong to the response.
    pub(super) fn receive_http2(&mut self, http2: &mut Http2, bytes: &[u8], timestamp: Timestamp) -> (Progress, usize) {
        let received = self.receive_by(timestamp, |reader, response| http2.feed(bytes, reader, response));
        if self.reader.begun() {
            self.response.row.first_byte.get_or_insert(timestamp);
        }
        received
    }

    fn receive_by(
        &mut self,
        timestamp: Timestamp,
        feed: impl FnOnce(&mut Reader, &mut ResponseState) -> Result<(), Broken>,
    ) -> (Progress, usize) {
        self.response.timestamp = timestamp;
        let before = self.response.row.chunks.len();
        let used = feed(&mut self.reader, &mut self.response);
        // A response that is too long loses its timestamps.
        let events = self.response.row.chunks.len().saturating_sub(before);
        if events > 1 {
            self.response.row.coalesced += (events - 1) as u32;
        }
        let progress = match used {
            Err(broken) => Progress::Done(self.broken(broken)),
            Ok(()) if self.response.stopped && self.response.accepted => Progress::Done(self.verdict()),
            Ok(()) if self.response.stopped => self.conclude(),
            Ok(()) if self.reader.ended() => {
                self.response.ended = self.response.decoder.is_whole().then_some(timestamp);
                self.conclude()
            }
            Ok(()) => Progress::More,
        };
        (progress, events)
    }

    /// Number of bytes of the request that may be sent now.
    pub(super) fn sendable(&self) -> usize {
        self.request.len() - self.input.as_ref().map_or(0, |input| input.held)
    }

    pub(super) fn wants_write(&self) -> bool {
        self.written < self.sendable() || self.input.as_ref().is_some_and(|input| input.has_pongs())
    }

    /// The outcome of a response that has stopped; one that ended before its input is incomplete.
    fn verdict(&mut self) -> Outcome {
        let outcome = self.response.verdict();
        if outcome.is_complete() && self.input.is_some() && self.written < self.request.len() {
            return Outcome::failed(FailureKind::Truncated, UNHEARD);
        }
        outcome
    }

    /// The server has closed the connection.
    pub(super) fn end_of_input(&mut self) -> Progress {
        match self.reader.end_of_input() {
            Ok(()) => self.conclude(),
            Err(broken) => Progress::Done(self.broken(broken)),
        }
    }

    /// The outcome of a response whose connection or framing failed.
    fn broken(&mut self, broken: Broken) -> Outcome {
        let lost = matches!(broken, Broken::Incomplete | Broken::Reset(_) | Broken::GoneAway(_));
        lost.then(|| self.salvage()).flatten().unwrap_or_else(|| broken_outcome(broken))
    }

    /// The outcome of a response whose end marker has arrived: it is complete, however its connection ended. Upstream
    /// requires the end of the body too.
    pub(super) fn salvage(&mut self) -> Option<Outcome> {
        let response = &mut self.response;
        if !response.accepted || response.rules == Rules::Vllm || !response.decoder.is_closed() {
            return None;
        }
        response.ended = Some(response.timestamp);
        Some(response.verdict())
    }

    fn conclude(&mut self) -> Progress {
        let head = self.reader.head();
        match (head.status, &head.location) {
            _ if self.response.accepted => Progress::Done(self.response.close(head.open_ended)),
            (301..=303 | 307 | 308, Some(location)) if self.redirects < 10 => {
                Progress::Redirect(location.to_string(), head.status <= 303)
            }
            _ => Progress::Done(http_outcome(head, &self.response)),
        }
    }

    /// Keeps the cookies that the response sets, for the requests after it.
    pub(super) fn keep_cookies(&mut self, client: &Client) {
        if let Some(set) = self.reader.take_cookies() {
            client.endpoint.cookies.keep(&client.replicas[usize::from(self.replica)].endpoint, &set);
        }
    }

    /// Restarts with other bytes, on another connection.
    pub(super) fn restart(&mut self, request: Outgoing) {
        self.request = request;
        self.written = 0;
        self.input = self.input.as_ref().map(|input| input.restarted());
        self.reader = Reader::new();
        self.response.ended = None;
    }
}

fn broken_outcome(broken: Broken) -> Outcome {
    let (kind, message) = match broken {
        Broken::Http2(reason) => return Outcome::failed(FailureKind::Malformed, format!("not HTTP/2: {reason}")),
        Broken::Reset(code) => {
            let message = format!("the server reset the response: {}", code_name(code));
            return Outcome::failed(FailureKind::ConnectionLost, message);
        }
        Broken::GoneAway(code) => {
            let message = format!("the server gave up the connection: {}", code_name(code));
            return Outcome::failed(FailureKind::ConnectionLost, message);
        }
        Broken::Head => {
            (FailureKind::Malformed, "the response's head is not HTTP/1.1, or longer than 64 KiB or 96 lines")
        }
        Broken::Surplus => (FailureKind::Malformed, "the response is longer than its framing states"),
        Broken::Chunk => (FailureKind::Malformed, "the response's chunks are broken"),
        Broken::ChunkLine => (FailureKind::Malformed, "a line between the response's chunks is longer than 16 KiB"),
        Broken::Trailer => (FailureKind::Malformed, "the response's trailers are longer than 64 KiB"),
        Broken::Incomplete => {
            (FailureKind::ConnectionLost, "the server closed the connection before the response was complete")
        }
    };
    Outcome::failed(kind, message)
}

fn http_outcome(head: &Head, response: &ResponseState) -> Outcome {
    let body = excerpt(&response.error_body);
    let message = match (response.rules, head.reason.is_empty()) {
        (Rules::Vllm, _) => head.reason.clone(),
        (Rules::Standard, true) => format!("HTTP {}: {body}", head.status),
        (Rules::Standard, false) => format!("{} ({}): {body}", head.reason, head.status),
    };
    let message = message.strip_suffix(": ").map(str::to_owned).unwrap_or(message);
    Outcome::failed(FailureKind::Http(head.status), message)
}

impl ResponseState {
    /// The body has ended as framed; an open-ended one ended with the connection.
    fn close(&mut self, open_ended: bool) -> Outcome {
        let outcome = self.decoder.finish(self.timestamp, &mut self.row);
        let whole = self.inflate.as_mut().is_none_or(|inflate| inflate.finish());
        if outcome.is_complete() && !whole {
            return Outcome::failed(FailureKind::Truncated, "the response ended inside its compressed data");
        }
        if outcome.is_complete() && open_ended && self.decoder.needs_framed_end() {
            return Outcome::failed(FailureKind::Truncated, OPEN_ENDED);
        }
        self.failure.take().map_or(outcome, |failure| *failure)
    }

    fn verdict(&mut self) -> Outcome {
        let outcome = self.decoder.verdict(&mut self.row);
        self.failure.take().map_or(outcome, |failure| *failure)
    }

    /// Handles part of the uncompressed body; returns `false` to stop.
    fn plain(&mut self, bytes: &[u8]) -> bool {
        if self.accepted {
            self.stopped = self.decoder.feed(bytes, self.timestamp, &mut self.row) == Flow::Stop;
            if self.bounds.are_exceeded(bytes.len(), &self.row) && !self.stopped {
                let message = self.bounds.cut(&mut self.row);
                return self.stop(FailureKind::TooLong, &message);
            }
            return !self.stopped;
        }
        let available = KEPT_ERROR_BODY.saturating_sub(self.error_body.len());
        self.error_body.extend_from_slice(&bytes[..bytes.len().min(available)]);
        self.error_read = self.error_read.saturating_add(bytes.len() as u32);
        self.stopped = self.error_read > MAX_ERROR_BODY;
        !self.stopped
    }

    /// Whether the server takes input, and frames that answer its own.
    pub(super) fn answer(&mut self) -> (bool, Vec<u8>) {
        self.decoder.answer()
    }

    /// The row, with the kept headers redacted.
    pub(super) fn into_row(self) -> Observation {
        let mut row = self.row;
        if self.kept_headers.is_some() {
            let texts = row.labels.iter().map(|(name, value)| {
                let is_header = name.starts_with("header:");
                (
                    name,
                    if is_header {
                        ServerText::beginning(value.trim().as_bytes(), MAX_KEPT_HEADER).into()
                    } else {
                        value.to_owned()
                    },
                )
            });
            let texts: Vec<(&str, String)> = texts.collect();
            let labels = texts.iter().map(|(name, value)| (*name, value.as_str())).collect();
            row.labels = labels;
        }
        row
    }

    fn stop(&mut self, kind: FailureKind, message: &str) -> bool {
        self.failure = Some(Box::new(Outcome::failed(kind, message)));
        self.stopped = true;
        false
    }
}

impl Sink for ResponseState {
    fn upgrades(&self) -> bool {
        self.decoder.accepts(101)
    }

    fn wants_headers(&self) -> bool {
        self.kept_headers.is_some()
    }

    fn header(&mut self, name: &str, value: &[u8]) {
        let wanted =
            self.kept_headers.iter().flat_map(|names| names.iter()).find(|wanted| wanted.eq_ignore_ascii_case(name));
        if let Some(wanted) = wanted {
            // It is redacted at the end: nothing that can wait is done before.
            let value = &value[..value.len().min(8 * MAX_KEPT_HEADER)];
            self.row.labels = self.row.labels.with(&format!("header:{wanted}"), &String::from_utf8_lossy(value));
        }
    }

    fn head(&mut self, head: &Head) {
        self.accepted = self.decoder.accepts(head.status);
        self.inflate = head.encoding.as_deref().and_then(Inflate::for_encoding).map(Box::new);
        self.decoder.head(head.content_type.as_deref(), head.metadata.as_deref());
        if self.accepted && !self.decoder.is_whole() {
            // Room for the whole response, so that no event has to allocate.
            let tokens = self.bounds.asked.min(1 << 16) as usize;
            self.row.chunks.reserve(tokens + 2);
            self.row.text.reserve(tokens * 5);
            self.row.text_ends.reserve(tokens + 2);
        }
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        let Some(mut inflate) = self.inflate.take() else { return self.plain(bytes) };
        let fed = inflate.feed(bytes, &mut |plain| self.plain(plain));
        let message = match (&fed, &*inflate) {
            (Ok(_), _) => None,
            (Err(_), Inflate::Unknown) => Some("the response is compressed in a way that was not requested"),
            (Err(_), _) => Some("the response's compression is broken"),
        };
        self.inflate = Some(inflate);
        match message {
            Some(message) => self.stop(FailureKind::Malformed, message),
            None => !self.stopped,
        }
    }
}

#[cfg(test)]
mod tests;
