//! The end of a request: finished, redirected, retried or lost.

use std::{io, time::Duration};

use tacho_core::{Clock, Failure, FailureKind, Observation, Outcome, secret::ServerText};

use super::exchange::{Exchange, Progress};
use super::{ClientWorker, limits::PAUSE, outgoing::Outgoing};
use crate::Url;
use crate::backends::excerpt;

/// Longest pause before a retry that a server can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

impl ClientWorker<'_> {
    pub(super) fn finish(&mut self, exchange: Box<Exchange>, outcome: Outcome) {
        self.client.replicas.leave(usize::from(exchange.replica));
        if self.is_worth_retrying(&exchange.response.row, &outcome) {
            self.retry(*exchange);
            return;
        }
        if self.is_refusal(&exchange, &outcome) {
            self.retry_signed(*exchange);
            return;
        }
        if !self.made.is_empty() {
            self.made.remove(&exchange.response.row.index);
        }
        let done = exchange.response.ended.unwrap_or_else(|| self.client.clock.now());
        let mut row = exchange.response.into_row();
        row.done = done;
        row.outcome = outcome;
        if let Outcome::Failed(failure) = &mut row.outcome {
            failure.message = ServerText::new(&failure.message).into();
            self.explain_refusal(failure);
        }
        if !row.outcome.is_complete() {
            // As upstream does: incomplete text is dropped.
            row.text.clear();
        }
        let events = row.chunks.len() as u64;
        if !row.outcome.is_complete() || row.usage.completion_tokens.is_some_and(|tokens| tokens <= events) {
            // No event contained more than one token, as is nearly always the case: text positions are not needed.
            row.text_ends = Vec::new();
        }
        self.finished.push(row);
    }

    fn is_worth_retrying(&self, row: &Observation, outcome: &Outcome) -> bool {
        let endpoint = &self.client.endpoint;
        let alternatives = if row.chunks.is_empty() { self.client.replicas.alternatives() } else { 0 };
        row.retries < endpoint.retries.max(alternatives)
            && outcome.failure().is_some_and(is_transient)
            && self.client.clock.now().since(row.sent) < endpoint.timeout
    }

    /// Retries a request. Its timestamps are reset, except for the time it was first sent.
    fn retry(&mut self, exchange: Exchange) {
        let (was_refused, now) = (exchange.was_refused, self.client.clock.now());
        let asked = Duration::from_secs(exchange.reader.head().retry_after.into()).min(MAX_RETRY_AFTER);
        // Another replica is not overloaded by what the last one did.
        let elsewhere = exchange.response.row.retries < self.client.replicas.alternatives();
        if elsewhere {
            self.client.replicas.moved(usize::from(exchange.replica), now);
        }
        if let Some(mut exchange) = self.again(exchange) {
            exchange.was_refused = was_refused;
            self.timers.retry_at(now + if elsewhere { Duration::ZERO } else { asked.max(PAUSE) }, exchange);
        }
    }

    /// The same request, before it is sent.
    pub(super) fn again(&mut self, exchange: Exchange) -> Option<Box<Exchange>> {
        let old = exchange.response.row;
        let mut row = Observation {
            sent: old.sent,
            connect_ns: old.connect_ns,
            retries: old.retries + 1,
            ..Observation::dispatched(old.index, old.scheduled, old.dispatched)
        };
        let (client, first) = (self.client, usize::from(exchange.first_replica));
        match self.fetch(row.index) {
            Ok(prepared) => {
                let replica = client.replicas.choose_again(prepared.assignment, first, old.retries);
                row.labels = client.replicas[replica].labels.clone();
                let request = Outgoing::whole(client.bytes_for(prepared, replica));
                let again = Exchange::new(row, request, &prepared.expected, &client.endpoint);
                Some(Box::new(again.to(replica, first)))
            }
            Err(error) => {
                self.fail_unloaded(row, &error);
                None
            }
        }
    }

    /// Handles the end of the request on this connection.
    pub(super) fn settle(&mut self, token: usize, progress: Progress) {
        let slot = self.slots[token].as_mut().expect("settled connections exist");
        let exchange = slot.exchange.take().expect("settled connections carry a request");
        if let Some(input) = &exchange.input {
            input.close(&mut slot.link);
        }
        if slot.is_reusable(&exchange) {
            slot.kept = true;
            self.pools[usize::from(slot.replica)].idle.push(token);
        } else {
            self.close(token);
        }
        match progress {
            Progress::More => unreachable!("only ends are settled"),
            Progress::Done(outcome) => self.finish(exchange, outcome),
            Progress::Redirect(location, as_get) => self.redirect(exchange, &location, as_get),
        }
    }

    /// Follows a redirect to another path of the same server; another server would be another benchmark.
    fn redirect(&mut self, mut exchange: Box<Exchange>, location: &str, as_get: bool) {
        let here = &self.client.replicas[usize::from(exchange.replica)].endpoint.url;
        let there = if location.starts_with('/') { Ok(here.with_path(location)) } else { Url::parse(location) };
        match there {
            Ok(url) if (url.tls, &url.host, url.port) == (here.tls, &here.host, here.port) => {
                exchange.redirects += 1;
                let request = self.rewritten(&exchange, &here.with_path(&url.path), as_get);
                exchange.restart(request);
                self.place(exchange);
            }
            _ => {
                let status = exchange.reader.head().status;
                let there = excerpt(location.as_bytes());
                let message = format!("redirected to another server, {there:?}: pass that one as --base-url");
                self.finish(exchange, Outcome::failed(FailureKind::Http(status), message));
            }
        }
    }

    /// The same request for another path, with all its headers. As GET it loses its body and the body's headers, as in
    /// browsers and aiohttp.
    fn rewritten(&mut self, exchange: &Exchange, url: &Url, as_get: bool) -> Outgoing {
        let replica = usize::from(exchange.replica);
        let (old, route) = (&exchange.request.rest, &self.client.replicas[replica].route);
        let has_line = exchange.request.head.is_none();
        let line_end = memchr::memchr(b'\n', old).filter(|_| has_line).map_or(0, |at| at + 1);
        let head_end = memchr::memmem::find(old, b"\r\n\r\n").map_or(old.len(), |at| at + 2);
        let as_get = as_get && self.client.endpoint.backend.method() != "GET";
        let method = if as_get { "GET" } else { self.client.endpoint.backend.method() };
        let line = if has_line { format!("{method} {} HTTP/1.1\r\n", route.target(url)) } else { String::new() };
        let mut new = line.into_bytes();
        for line in old[line_end..head_end].split_inclusive(|&byte| byte == b'\n') {
            let starts = |name: &[u8]| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
            let about_body = starts(b"content-") || starts(b"x-amz-content-");
            if !(as_get && about_body) {
                new.extend_from_slice(line);
            }
        }
        new.extend_from_slice(if as_get { b"\r\n" } else { &old[head_end..] });
        let endpoint = &self.client.endpoint;
        let new = endpoint.cookies.added_to(&new, url, endpoint.rules).unwrap_or(new);
        let head = self.signers.get_mut(replica).map(|signer| signer.head_for(method, route, url, &new).into());
        Outgoing { head, rest: new.into(), version: exchange.request.version }
    }

    pub(super) fn end_of_input(&mut self, token: usize) {
        let slot = self.slots[token].as_mut().expect("ended connections exist");
        match &mut slot.exchange {
            None => {
                self.close(token);
            }
            Some(exchange) if slot.kept && !exchange.reader.begun() && !exchange.resent => self.resend(token),
            Some(exchange) => {
                let progress = exchange.end_of_input();
                self.settle(token, progress);
            }
        }
    }

    /// Handles a reused connection that died before any response: the server had closed it, which says nothing about
    /// the request.
    pub(super) fn resend(&mut self, token: usize) {
        let Some(mut exchange) = self.close(token) else { return };
        exchange.resent = true;
        let request = exchange.request.clone();
        exchange.restart(request);
        exchange.connecting = Some(self.client.clock.now());
        let replica = usize::from(exchange.replica);
        if let Err((error, Some(exchange))) = self.open(replica, Some(exchange)) {
            self.finish(exchange, Outcome::failed(FailureKind::Connect, self.connect_message(replica, &error)));
        }
    }

    pub(super) fn lost(&mut self, token: usize, error: &io::Error) {
        let slot = self.slots[token].as_ref().expect("lost connections exist");
        let fresh = slot.exchange.as_ref().is_some_and(|exchange| !exchange.reader.begun() && !exchange.resent);
        if slot.kept && fresh {
            self.resend(token);
        } else if let Some(mut exchange) = self.close(token) {
            let broke = || Outcome::failed(FailureKind::ConnectionLost, format!("the connection broke: {error}"));
            let outcome = exchange.salvage().unwrap_or_else(broke);
            self.finish(exchange, outcome);
        }
    }
}

/// Whether a retry may succeed after this failure.
fn is_transient(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Http(status) => status >= 500 || matches!(status, 408 | 425 | 429),
        FailureKind::Aborted | FailureKind::Cancelled | FailureKind::TooLong => false,
        _ => true,
    }
}

impl ClientWorker<'_> {
    /// Whether the server refused the credential of a request for the first time.
    pub(super) fn is_refusal(&self, exchange: &Exchange, outcome: &Outcome) -> bool {
        let sign_in = self.client.endpoint.sign_in.as_ref().filter(|_| !exchange.was_refused);
        let status = outcome.failure().and_then(|failure| match failure.kind {
            FailureKind::Http(status) => Some(status),
            _ => None,
        });
        sign_in.zip(status).is_some_and(|(sign_in, status)| sign_in.is_refusal(status))
    }

    /// Has the credential renewed, and sends the request again with the new one.
    #[cold]
    pub(super) fn retry_signed(&mut self, exchange: Exchange) {
        let Some(sign_in) = &self.client.endpoint.sign_in else { return };
        let version = exchange.request.version;
        sign_in.refused(version);
        if let Some(mut exchange) = self.again(exchange) {
            exchange.was_refused = true;
            exchange.request.version = version;
            self.timers.retry_renewed(exchange, self.client.clock.now());
        }
    }

    /// Whether a request waits for a credential that is being renewed.
    pub(super) fn is_renewing(&self, exchange: &Exchange) -> bool {
        let sign_in = self.client.endpoint.sign_in.as_ref().filter(|_| exchange.was_refused);
        sign_in.is_some_and(|sign_in| sign_in.is_renewing(exchange.request.version))
    }

    /// Adds the reason why the credential could not be renewed.
    pub(super) fn explain_refusal(&self, failure: &mut Failure) {
        let FailureKind::Http(status) = failure.kind else { return };
        let sign_in = self.client.endpoint.sign_in.as_ref().filter(|sign_in| sign_in.is_refusal(status));
        if let Some(reason) = sign_in.and_then(|sign_in| sign_in.failure()) {
            failure.message = format!("{}; {}", failure.message, ServerText::new(&reason));
        }
    }
}
