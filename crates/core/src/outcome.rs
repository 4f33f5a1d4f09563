//! How a request ended, as types: compared by kind, never by message.

/// The one verdict on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The answer arrived whole.
    Complete,
    /// It did not, and why.
    Failed(Failure),
}

impl Outcome {
    /// Whether the answer arrived whole.
    pub fn is_complete(&self) -> bool {
        matches!(self, Outcome::Complete)
    }

    /// Returns whether it failed, other than by a planned cancellation.
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

    /// A failure of `kind` with this message.
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        Outcome::Failed(Failure { kind, message: message.into() })
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The class of failure.
    pub kind: FailureKind,
    /// One line for a person; may hold text that the server sent.
    pub message: String,
}

/// The classes of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// No connection could be made.
    Connect,
    /// The connection broke before the answer was whole.
    ConnectionLost,
    /// A status other than 200.
    Http(u16),
    /// A time limit passed.
    TimedOut,
    /// The stream ended without its closing mark.
    Truncated,
    /// The server reported an error inside a stream that began well.
    ErrorInStream,
    /// The answer ended properly but held no token.
    Empty,
    /// Bytes that are not what the protocol says.
    Malformed,
    /// The run was stopped while the request was in flight.
    Aborted,
    /// It was called off on purpose, as users do; no fault of anybody's.
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
            FailureKind::Aborted => "aborted",
            FailureKind::Cancelled => "cancelled",
        }
    }

    /// The kind of that name; `status` is that of an HTTP error.
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
            FailureKind::Aborted,
            FailureKind::Cancelled,
        ];
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}
