//! HTTP/2 (RFC 9113) with one request at a time per connection: frames, compressed headers, flow control.

mod connection;
mod frame;
mod hpack;
mod huffman;
mod request;
mod static_table;
#[cfg(test)]
mod tests;

pub(crate) use connection::Http2;
pub(crate) use frame::code_name;
