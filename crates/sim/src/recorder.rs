//! A pass-through proxy that hands every exchange to its owner when it is over. Between client and server it copies bytes
//! and reads the clock, nothing else.

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::{io, net::SocketAddr, pin::Pin, time::Instant};

use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, header::CONNECTION, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;

use crate::error::Error;
use crate::listener::{Listener, Serving};
use crate::proxy::{MAX_BYTES, bad_gateway, forwarded, resolve};

const THREADS: usize = 2;
/// Most bytes of a response that are kept.
const MAX_KEPT: usize = 64 << 20;
/// Most idle connections to the server.
const MAX_IDLE: usize = 1024;

/// A request and its response, as they passed.
#[derive(Debug)]
pub struct Exchange {
    pub path: String,
    pub request: Bytes,
    pub status: u16,
    /// Pieces of the response, as they arrived.
    pub response: Vec<Bytes>,
    pub arrived: Instant,
    pub ended: Instant,
    /// Whether the response ended by itself, and was kept as a whole.
    pub is_complete: bool,
}

struct Upstream {
    to: SocketAddr,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    finished: mpsc::Sender<Exchange>,
}

/// Listens at an address and forwards to the server at `url`; finished exchanges go to the channel.
pub fn start_recorder(listen: SocketAddr, url: &str, finished: mpsc::Sender<Exchange>) -> Result<Serving, Error> {
    let upstream = Arc::new(Upstream { to: resolve(url)?, idle: Mutex::default(), finished });
    Listener::bind(listen, THREADS)?.serve(move |socket| serve(socket, Arc::clone(&upstream)))
}

async fn serve(socket: TcpStream, upstream: Arc<Upstream>) {
    let service = service_fn(move |request| {
        let upstream = Arc::clone(&upstream);
        async move {
            let response = pass_on(upstream, request).await;
            Ok::<_, io::Error>(response.unwrap_or_else(|error| bad_gateway(&error).map(Either::Left)))
        }
    });
    // An error here means that the client disconnected.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
}

type Body = Either<Full<Bytes>, Observed>;

async fn pass_on(upstream: Arc<Upstream>, request: Request<Incoming>) -> Result<Response<Body>, io::Error> {
    let arrived = Instant::now();
    let (mut head, body) = request.into_parts();
    head.headers.remove(CONNECTION);
    let path = head.uri.path().to_owned();
    let body = Limited::new(body, MAX_BYTES).collect().await.map_err(io::Error::other)?.to_bytes();
    let request = forwarded(upstream.to, head, body.clone())?;
    let mut sender = upstream.connection().await?;
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let exchange = Exchange {
        path,
        request: body,
        status: response.status().as_u16(),
        response: Vec::new(),
        arrived,
        ended: arrived,
        is_complete: false,
    };
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONNECTION);
    let observed = Observed { body, kept: 0, exchange: Some(exchange), sender: Some(sender), upstream };
    Ok(Response::from_parts(head, Either::Right(observed)))
}

impl Upstream {
    /// A connection that waits for a request, or a new one.
    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>, io::Error> {
        while let Some(mut sender) = self.idle.lock().ok().and_then(|mut idle| idle.pop()) {
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let socket = TcpStream::connect(self.to).await?;
        let _ = socket.set_nodelay(true);
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// A response body that keeps what passes.
struct Observed {
    body: Incoming,
    kept: usize,
    exchange: Option<Exchange>,
    sender: Option<SendRequest<Full<Bytes>>>,
    upstream: Arc<Upstream>,
}

impl Observed {
    fn finish(&mut self, is_complete: bool) {
        let Some(mut exchange) = self.exchange.take() else { return };
        exchange.ended = Instant::now();
        exchange.is_complete = is_complete && self.kept <= MAX_KEPT;
        if let (true, Some(sender), Ok(mut idle)) = (is_complete, self.sender.take(), self.upstream.idle.lock())
            && idle.len() < MAX_IDLE
        {
            idle.push(sender);
        }
        // Nobody listens any more at the end of a recording.
        let _ = self.upstream.finished.send(exchange);
    }
}

impl HttpBody for Observed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let Some(data) = frame.data_ref().cloned() else { return polled };
                self.kept += data.len();
                if self.kept <= MAX_KEPT
                    && let Some(exchange) = &mut self.exchange
                {
                    exchange.response.push(data);
                }
                // A body of known length may not be polled again.
                if self.body.is_end_stream() {
                    self.finish(true);
                }
            }
            Poll::Ready(None) => self.finish(true),
            Poll::Ready(Some(Err(_))) => self.finish(false),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.finish(false);
    }
}
