//! A credential that the server refuses: it is renewed, and the request is sent again once.

use tacho_core::secret::ServerText;
use tacho_core::{Clock, Failure, FailureKind, Outcome};

use super::ClientWorker;
use super::exchange::Exchange;

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
