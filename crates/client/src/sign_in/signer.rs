//! Writes the head of a request when it is sent: request line, host and credential.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Credential, SignIn, SignInSpec, aws::AwsSigner};
use crate::{Error, Url, transport::connect::Route};

#[derive(Debug)]
pub(crate) struct Signer {
    sign_in: SignIn,
    version: u64,
    scheme: Scheme,
    /// The target of the request line, and the URL.
    target: String,
    url: Url,
    method: &'static str,
    /// The head of all requests, unless each has its own signature.
    head: Arc<[u8]>,
}

#[derive(Debug)]
enum Scheme {
    Bearer,
    Aws(Box<AwsSigner>),
}

impl Signer {
    /// A signer of requests with this URL and method. Obtains the credential if it is the first one.
    pub(crate) fn new(sign_in: &SignIn, route: &Route, url: &Url, method: &'static str) -> Result<Signer, Error> {
        let (target, url, scheme) = (route.target(url), url.clone(), Scheme::Bearer);
        let mut signer =
            Signer { sign_in: sign_in.clone(), version: 0, scheme, target, url, method, head: Arc::default() };
        signer.reload()?;
        Ok(signer)
    }

    /// Number of the credential of the last head.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The head of a request; `rest` is the request after it. Allocates nothing unless the credential has changed
    /// or each request has its own signature.
    pub(crate) fn head(&mut self, rest: &[u8]) -> Arc<[u8]> {
        if self.sign_in.version() != self.version {
            // The first credential exists, so this cannot fail.
            let _ = self.reload();
        }
        match &mut self.scheme {
            Scheme::Bearer => self.head.clone(),
            Scheme::Aws(signer) => signed_head(signer, self.method, &self.target, &self.url, rest).into(),
        }
    }

    /// The head of a request with another method or another path of the same server.
    pub(crate) fn head_for(&mut self, method: &str, route: &Route, url: &Url, rest: &[u8]) -> Vec<u8> {
        match &mut self.scheme {
            Scheme::Bearer => {
                let line_end = memchr::memchr(b'\n', &self.head).map_or(0, |at| at + 1);
                let line = format!("{method} {} HTTP/1.1\r\n", route.target(url));
                [line.as_bytes(), &self.head[line_end..]].concat()
            }
            Scheme::Aws(signer) => signed_head(signer, method, &route.target(url), url, rest),
        }
    }

    #[cold]
    fn reload(&mut self) -> Result<(), Error> {
        let (version, credential) = self.sign_in.credential()?;
        match (&*credential, self.sign_in.spec()) {
            (Credential::Bearer(token), _) => {
                let host = self.url.host_header();
                let token = token.expose();
                let head = format!(
                    "{} {} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n",
                    self.method, self.target
                );
                self.head = head.into_bytes().into();
            }
            (Credential::Aws(keys), SignInSpec::Aws(spec)) => {
                self.scheme = Scheme::Aws(Box::new(AwsSigner::new(keys.clone(), spec)));
            }
            (Credential::Aws(_), _) => unreachable!("only AWS has such keys"),
        }
        self.version = version;
        Ok(())
    }
}

fn signed_head(signer: &mut AwsSigner, method: &str, target: &str, url: &Url, rest: &[u8]) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let host = url.host_header();
    let lines = signer.header_lines(method, &url.path, &host, rest, now);
    format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{lines}").into_bytes()
}
