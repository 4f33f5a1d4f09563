//! Outcomes of requests, as types: compared by kind, never by message.

/// The outcome of a request.
///
/// ```
/// use tacho_core::{FailureKind, Outcome};
///
/// let outcome = Outcome::failed(FailureKind::Http(503), "overloaded");
/// assert!(outcome.is_fault() && !outcome.is_complete());
/// assert_eq!(outcome.failure().map(|failure| failure.kind), Some(FailureKind::Http(503)));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The response is complete.
    #[default]
    Complete,
    /// The request failed.
    Failed(Failure),
}

impl Outcome {
    /// Whether the response is complete.
    pub fn is_complete(&self) -> bool {
        matches!(self, Outcome::Complete)
    }

    /// Whether it failed, other than by a planned cancellation.
    pub fn is_fault(&self) -> bool {
        self.failure().is_some_and(|failure| failure.kind != FailureKind::Cancelled)
    }

    /// The failure, if it was one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Outcome::Complete => None,
            Outcome::Failed(failure) => Some(failure),
        }
    }

    /// Returns a failure of `kind` with this message.
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        Outcome::Failed(Failure { kind, message: message.into() })
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// A one-line message; may contain text from the server.
    pub message: String,
}

/// The kinds of failure.
///
/// ```
/// use tacho_core::FailureKind;
///
/// assert_eq!(FailureKind::Http(429).name(), "http_error");
/// assert_eq!(FailureKind::from_name("http_error", 429), Some(FailureKind::Http(429)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// No connection could be made.
    Connect,
    /// The connection was lost before the response was complete.
    ConnectionLost,
    /// A status other than 200.
    Http(u16),
    /// A timeout expired.
    TimedOut,
    /// The stream ended without its end marker.
    Truncated,
    /// The server reported an error inside a stream.
    ErrorInStream,
    /// The response completed without any token.
    Empty,
    /// The response violates the protocol.
    Malformed,
    /// The response is far longer than requested.
    TooLong,
    /// The run was stopped while the request was in flight.
    Aborted,
    /// Cancelled on purpose, as a user would; not a fault.
    Cancelled,
}

impl FailureKind {
    /// The name used in reports and result files.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Connect => "connect_error",
            FailureKind::ConnectionLost => "connection_lost",
            FailureKind::Http(_) => "http_error",
            FailureKind::TimedOut => "timed_out",
            FailureKind::Truncated => "truncated",
            FailureKind::ErrorInStream => "error_in_stream",
            FailureKind::Empty => "empty",
            FailureKind::Malformed => "malformed",
            FailureKind::TooLong => "too_long",
            FailureKind::Aborted => "aborted",
            FailureKind::Cancelled => "cancelled",
        }
    }

    /// The kind with this name; `status` is used for an HTTP error.
    pub fn from_name(name: &str, status: u16) -> Option<Self> {
        let kinds = [
            FailureKind::Connect,
            FailureKind::ConnectionLost,
            FailureKind::Http(status),
            FailureKind::TimedOut,
            FailureKind::Truncated,
            FailureKind::ErrorInStream,
            FailureKind::Empty,
            FailureKind::Malformed,
            FailureKind::TooLong,
            FailureKind::Aborted,
            FailureKind::Cancelled,
        ];
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}
