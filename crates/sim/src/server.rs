//! The engine behind HTTP on the real clock: one thread steps the engine, a few serve connections.

mod api_server;
mod app;
mod driver;
mod engines;
#[cfg(test)]
mod fuzz;
mod guide;
mod memory;
mod protocol;
mod request;
mod response;
mod routes;
mod websocket;
mod wire;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::spec::SimSpec;
use api_server::ApiServer;
use app::{App, hashed};
use engines::Engines;
use memory::MemoryBudget;
use protocol::info::VERSION;
use response::store::Store;
use tacho_engine::{Engine, Stats, Vocabulary};

use wire::{ResetSwitch, Wire};

/// Listen backlog: a burst of clients must not run into the kernel's retries.
const BACKLOG: u32 = 4096;
/// Time that a stop waits for threads that compute.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause after a failed accept (out of file descriptors), which would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A simulator that serves until it is stopped or dropped.
pub struct Server {
    addr: SocketAddr,
    app: Arc<App>,
    shutdown: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Binds the address, starts the threads, and returns.
    pub fn start(spec: SimSpec) -> Result<Server, Error> {
        spec.faults.validate()?;
        let tokenizer = &spec.tokenizer;
        let mut special = tokenizer.special_ids();
        special.extend(tokenizer.added_special_ids());
        let vocabulary = Vocabulary::new(&tokenizer.all_ids(), &special, tokenizer.eos_id())?;
        let runtime = runtime(spec.threads)?;
        let listener = listen(&runtime, SocketAddr::new(spec.host, spec.port))?;
        let addr = listener.local_addr().map_err(|source| Error::Threads { source })?;
        let (mut engines, mut threads) = (Vec::new(), Vec::new());
        for rank in 0..spec.data_parallel_size.max(1) {
            let mut engine = Engine::new(spec.engine.clone(), spec.machine.cost)?;
            engine.set_noise(spec.machine.noise, spec.machine.slowdown.as_ref(), spec.seed.wrapping_add(rank as u64));
            let (handle, thread) = driver::start(engine).map_err(|source| Error::Threads { source })?;
            engines.push(handle);
            threads.push(thread);
        }
        let app = Arc::new(App {
            names: spec.names(),
            vocabulary,
            engine: Engines::new(engines),
            api_server: ApiServer::new(spec.machine.front, &runtime),
            fingerprint: format!("vllm-{}-{:08x}", VERSION, hashed(spec.seed, u64::MAX) as u32),
            started: Instant::now(),
            requests: AtomicU64::new(0),
            ids: AtomicU64::new(0),
            serving: AtomicU64::new(0),
            sleeping: AtomicBool::new(false),
            memory: MemoryBudget::default(),
            responses: Store::default(),
            characters: OnceLock::new(),
            spec,
        });
        let (shutdown, stopped) = oneshot::channel();
        let mut server = Server { addr, app: Arc::clone(&app), shutdown: Some(shutdown), threads };
        let thread = std::thread::Builder::new().name("sim-http".into()).spawn(move || {
            runtime.block_on(accept(listener, app, stopped));
            // Drops connections and streams in flight; does not wait for computations.
            runtime.shutdown_timeout(STOP_TIMEOUT);
        });
        server.threads.push(thread.map_err(|source| Error::Threads { source })?);
        Ok(server)
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The name of the simulated machine.
    pub fn profile(&self) -> &str {
        &self.app.spec.machine.name
    }

    /// The engine's counters as of its last step.
    pub fn stats(&self) -> Stats {
        self.app.engine.stats()
    }

    /// Aborts all streams and joins the threads.
    pub fn stop(&mut self) {
        if let Some(shutdown) = self.shutdown.take() {
            let _ = shutdown.send(());
        }
        self.app.engine.stop();
        for thread in self.threads.drain(..) {
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addr", &self.addr).finish_non_exhaustive()
    }
}

fn runtime(threads: usize) -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .thread_name("sim-http")
        .enable_all()
        .build()
        .map_err(|source| Error::Threads { source })
}

fn listen(runtime: &Runtime, addr: SocketAddr) -> Result<TcpListener, Error> {
    let _context = runtime.enter();
    let bind = || {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    };
    bind().map_err(|source| Error::Bind { addr, source })
}

async fn accept(listener: TcpListener, app: Arc<App>, mut stopped: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => drop(tokio::spawn(serve(socket, Arc::clone(&app)))),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
}

async fn serve(socket: TcpStream, app: Arc<App>) {
    // Without it tokens merely leave later.
    let _ = socket.set_nodelay(true);
    let reset = ResetSwitch::default();
    let wire = Wire::new(socket, reset.clone());
    let service = service_fn(move |request| routes::respond(Arc::clone(&app), request, reset.clone()));
    // An error here means that the client disconnected, or an injected fault.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection_with_upgrades(wire, service).await;
}
