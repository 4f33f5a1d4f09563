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

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::{net::SocketAddr, thread::JoinHandle, time::Instant};
use tacho_core::Mutex;

use hyper::service::service_fn;
use hyper_util::{rt::TokioExecutor, server::conn::auto};
use tokio::net::TcpStream;

use crate::listener::{Listener, Serving};
use crate::{error::Error, spec::SimSpec};
use api_server::ApiServer;
use app::{App, hashed};
use engines::Engines;
use memory::MemoryBudget;
use protocol::info::VERSION;
use response::store::Store;
use tacho_engine::{Engine, Stats, Vocabulary};

use wire::{ResetSwitch, Wire};

/// A simulator that serves until it is stopped or dropped.
pub struct Server {
    app: Arc<App>,
    serving: Serving,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    pub fn start(spec: SimSpec) -> Result<Server, Error> {
        spec.faults.validate()?;
        let tokenizer = &spec.tokenizer;
        let mut special = tokenizer.special_ids();
        special.extend(tokenizer.added_special_ids());
        let vocabulary = Vocabulary::new(&tokenizer.all_ids(), &special, tokenizer.eos_id())?;
        let listener = Listener::bind(SocketAddr::new(spec.host, spec.port), spec.threads)?;
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
            api_server: ApiServer::new(spec.machine.front, &listener.runtime),
            fingerprint: format!("vllm-{}-{:08x}", VERSION, hashed(spec.seed, u64::MAX) as u32),
            started: Instant::now(),
            requests: AtomicU64::new(0),
            ids: AtomicU64::new(0),
            serving: AtomicU64::new(0),
            sleeping: AtomicBool::new(false),
            memory: MemoryBudget::default(),
            responses: Store::default(),
            characters: OnceLock::new(),
            last_output: Mutex::default(),
            spec,
        });
        let shared = Arc::clone(&app);
        let serving = listener.serve(move |socket| serve(socket, Arc::clone(&shared)))?;
        Ok(Server { app, serving, threads })
    }

    pub fn addr(&self) -> SocketAddr {
        self.serving.addr()
    }

    pub fn profile(&self) -> &str {
        &self.app.spec.machine.name
    }

    pub fn stats(&self) -> Stats {
        self.app.engine.stats()
    }

    /// Aborts all streams and joins the threads.
    pub fn stop(&mut self) {
        self.serving.stop();
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
        f.debug_struct("Server").field("addr", &self.addr()).finish_non_exhaustive()
    }
}

async fn serve(socket: TcpStream, app: Arc<App>) {
    let reset = ResetSwitch::default();
    let wire = Wire::new(socket, reset.clone());
    let service = service_fn(move |request| routes::respond(Arc::clone(&app), request, reset.clone()));
    // An error here means that the client disconnected, or an injected fault.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection_with_upgrades(wire, service).await;
}
