//! Bytes and timestamps: connections, TLS, HTTP framing. Knows no JSON and no protocol.

pub(crate) mod addresses;
mod certificate;
pub(crate) mod connect;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod inflate;
pub(crate) mod link;
pub(crate) mod socket;
pub(crate) mod sys;
pub(crate) mod tls;
