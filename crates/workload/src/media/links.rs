//! Images behind HTTP links: downloaded with vLLM's timeouts, several at a time, each link once.

use std::sync::{Arc, OnceLock};
use std::{borrow::Cow, collections::HashMap, time::Duration};
use tacho_core::Mutex;

use ureq::{Agent, Error};

use crate::{error::ImageProblem, hub::http};

/// Number of concurrent downloads.
const WIDTH: usize = 16;
/// Maximum attempts of a link that fails temporarily.
const MAX_ATTEMPTS: u32 = 3;
/// Response timeout of the first attempt. Each further one is longer by [`GROWTH`].
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the first failure.
const PAUSE: Duration = Duration::from_secs(1);
/// Growth factor of timeouts and pauses.
const GROWTH: u32 = 4;
/// Time limit of the body, as a multiple of the response timeout.
const BODY: u32 = 12;
const MAX_REDIRECTS: u32 = 30;
const LIMIT: u64 = 256 << 20;

type Fetched = Result<Arc<[u8]>, ImageProblem>;

/// The downloaded files of a dataset's links.
pub(crate) struct Links {
    agent: OnceLock<Agent>,
    pause: Duration,
    known: Mutex<HashMap<String, Arc<OnceLock<Fetched>>>>,
}

impl Default for Links {
    fn default() -> Self {
        Links { agent: OnceLock::new(), pause: PAUSE, known: Mutex::default() }
    }
}

pub(crate) fn is_link(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// A URL for messages, without credentials and without the query, which is secret in signed links.
pub(crate) fn shown(url: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = url.split_once("://").filter(|_| is_link(url)) else {
        return Cow::Borrowed(url);
    };
    let rest = rest.split('?').next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or_default();
    Cow::Owned(format!("{scheme}://{host}{path}"))
}

impl Links {
    /// Runs work that waits for links on more threads than there are cores.
    pub(crate) fn at_once<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match rayon::ThreadPoolBuilder::new().num_threads(WIDTH).build() {
            Ok(pool) => pool.install(work),
            // A machine without free threads is slower, not wrong.
            Err(_) => work(),
        }
    }

    pub(crate) fn fetch(&self, url: &str) -> Fetched {
        let index = {
            let mut known = self.known.lock();
            Arc::clone(known.entry(url.to_owned()).or_default())
        };
        index.get_or_init(|| self.fetch_with_retries(url)).clone()
    }

    fn fetch_with_retries(&self, url: &str) -> Fetched {
        let (mut timeout, mut pause) = (TIMEOUT, self.pause);
        for _ in 1..MAX_ATTEMPTS {
            match self.fetch_once(url, timeout) {
                Err(problem) if is_transient(&problem) => std::thread::sleep(pause),
                outcome => return outcome,
            }
            timeout *= GROWTH;
            pause *= GROWTH;
        }
        self.fetch_once(url, timeout)
    }

    fn fetch_once(&self, url: &str, timeout: Duration) -> Fetched {
        let agent = self.agent.get_or_init(|| http::config(TIMEOUT).max_redirects(MAX_REDIRECTS).build().into());
        let config = agent.get(url).config();
        let config = config.timeout_resolve(Some(timeout)).timeout_connect(Some(timeout));
        let config = config.timeout_recv_response(Some(timeout)).timeout_recv_body(Some(timeout * BODY));
        let mut response = config.build().call().map_err(|error| problem(&error))?;
        if !response.status().is_success() {
            return Err(ImageProblem::Status { status: response.status().as_u16() });
        }
        if response.body().content_length().is_some_and(|length| length > LIMIT) {
            return Err(ImageProblem::TooLarge { limit: LIMIT });
        }
        let body = response.body_mut().with_config().limit(LIMIT).read_to_vec();
        body.map(Arc::from).map_err(|error| problem(&error))
    }
}

fn problem(error: &Error) -> ImageProblem {
    match error {
        Error::BodyExceedsLimit(limit) => ImageProblem::TooLarge { limit: *limit },
        error => ImageProblem::Unreachable { reason: error.to_string() },
    }
}

/// Whether a failure may be temporary: server errors and timeouts.
fn is_transient(problem: &ImageProblem) -> bool {
    match problem {
        ImageProblem::Status { status } => *status >= 500,
        problem => matches!(problem, ImageProblem::Unreachable { .. }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn quick() -> Links {
        Links { pause: Duration::from_millis(1), ..Links::default() }
    }

    /// A server that sends these responses in order, the last one from then on, and counts requests.
    fn serve(answers: &'static [&'static str]) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let count = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&count);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let head = BufReader::new(stream.try_clone().unwrap()).lines();
                head.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
                let at = asked.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
                stream.write_all(answers[at].as_bytes()).unwrap();
            }
        });
        (url, count)
    }

    const FILE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const GONE: &str = "HTTP/1.1 404 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const MOVED: &str = "HTTP/1.1 302 Moved\r\nlocation: /there\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const ENDLESS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\nconnection: close\r\n\r\nok";

    #[test]
    fn each_link_is_fetched_once_past_failures_and_redirects() {
        let (url, count) = serve(&[BUSY, MOVED, FILE]);
        let links = quick();
        let fetched: Vec<Fetched> = links.at_once(|| {
            use rayon::prelude::*;
            (0..8).into_par_iter().map(|_| links.fetch(&url)).collect()
        });
        assert!(fetched.iter().all(|file| file.as_deref() == Ok(b"ok")), "{fetched:?}");
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn what_cannot_pass_is_not_tried_again() {
        let (url, count) = serve(&[GONE]);
        assert_eq!(quick().fetch(&url), Err(ImageProblem::Status { status: 404 }));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let (url, count) = serve(&[BUSY]);
        assert_eq!(quick().fetch(&url), Err(ImageProblem::Status { status: 503 }));
        assert_eq!(count.load(Ordering::Relaxed), 3);
        let (url, _) = serve(&[ENDLESS]);
        assert_eq!(quick().fetch(&url), Err(ImageProblem::TooLarge { limit: LIMIT }));
        let (url, _) = serve(&[MOVED]);
        assert!(matches!(quick().fetch(&url), Err(ImageProblem::Unreachable { .. })));
    }

    #[test]
    fn messages_keep_no_secrets() {
        assert_eq!(shown("https://me:pw@h/a@b.png?sig=1"), "https://h/a@b.png");
        assert_eq!(shown("http://h"), "http://h");
        assert_eq!(shown("file:///a?b.png"), "file:///a?b.png");
    }
}
