//! An HTTP server's runtime and socket, and the thread that accepts connections.

use std::{net::SocketAddr, thread::JoinHandle, time::Duration};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::error::Error;

/// Listen backlog: a burst of clients must not run into the kernel's retries.
const BACKLOG: u32 = 4096;
/// Time that a stop waits for threads that compute.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause after a failed accept (out of file descriptors), which would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A bound address that accepts no connections yet.
pub(crate) struct Listener {
    pub(crate) runtime: Runtime,
    pub(crate) addr: SocketAddr,
    socket: TcpListener,
}

impl Listener {
    pub(crate) fn bind(addr: SocketAddr, threads: usize) -> Result<Listener, Error> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads.max(1)).thread_name("sim-http").enable_all();
        let runtime = builder.build().map_err(|source| Error::Threads { source })?;
        let bind = || {
            let _context = runtime.enter();
            let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.set_reuseaddr(true)?;
            socket.bind(addr)?;
            let socket = socket.listen(BACKLOG)?;
            Ok((socket.local_addr()?, socket))
        };
        let (addr, socket) = bind().map_err(|source| Error::Bind { addr, source })?;
        Ok(Listener { runtime, addr, socket })
    }

    /// Serves each connection by a task, until it is stopped.
    pub(crate) fn serve<F>(self, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Result<Serving, Error>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (shutdown, mut stopped) = oneshot::channel();
        let Listener { runtime, addr, socket } = self;
        let accept = async move {
            loop {
                tokio::select! {
                    _ = &mut stopped => return,
                    accepted = socket.accept() => match accepted {
                        Ok((socket, _)) => {
                            // Without it tokens merely leave later.
                            let _ = socket.set_nodelay(true);
                            drop(tokio::spawn(serve(socket)));
                        }
                        Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                    },
                }
            }
        };
        let thread = std::thread::Builder::new().name("sim-http".into()).spawn(move || {
            runtime.block_on(accept);
            // Drops connections and streams in flight; does not wait for computations.
            runtime.shutdown_timeout(STOP_TIMEOUT);
        });
        let thread = thread.map_err(|source| Error::Threads { source })?;
        Ok(Serving { addr, shutdown: Some(shutdown), thread: Some(thread) })
    }
}

/// A server or proxy that serves until it is stopped or dropped.
#[derive(Debug)]
pub struct Serving {
    addr: SocketAddr,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Aborts all streams and joins the thread.
    pub fn stop(&mut self) {
        if let Some(shutdown) = self.shutdown.take() {
            let _ = shutdown.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
    }
}
