//! A connection's socket that can be closed with a reset.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::{io, pin::Pin, sync::Arc};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::request::{ON_PURPOSE, Outcome, Problem};
use crate::faults::Fault;

/// Makes a connection's socket close with a reset.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResetSwitch(Arc<AtomicBool>);

impl ResetSwitch {
    /// The error that ends a connection whose socket is to be reset.
    pub(crate) fn pull(&self) -> io::Error {
        self.0.store(true, Ordering::Release);
        io::ErrorKind::ConnectionReset.into()
    }

    /// Applies a fault to a response that is not streamed, except for its body.
    pub(crate) async fn apply(&self, fault: Fault) -> Outcome<()> {
        match fault {
            Fault::StreamError(_) => Err(Problem::internal(ON_PURPOSE).into()),
            Fault::Disconnect(_) => Err(self.pull().into()),
            Fault::Stall(_, pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            Fault::None | Fault::Error | Fault::Truncate(_) => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Wire {
    socket: TokioIo<TcpStream>,
    reset: ResetSwitch,
}

impl Wire {
    pub(crate) fn new(socket: TcpStream, reset: ResetSwitch) -> Self {
        Wire { socket: TokioIo::new(socket), reset }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.reset.0.load(Ordering::Acquire) {
            // With zero linger, closing a socket sends a reset.
            let _ = self.socket.inner().set_zero_linger();
        }
    }
}

impl Read for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reset.0.load(Ordering::Acquire) {
            // An orderly shutdown would replace the reset.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }
}
