//! A connection between two ranks: plain, or TLS if a certificate was passed. All ranks pin that certificate, so
//! neither host names nor authorities matter.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::{net::TcpStream, sync::Arc, time::Duration};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection,
    SignatureScheme, StreamOwned,
};

use tacho_core::files::read_settings;

use crate::Error;

/// The files that encrypt the connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, in PEM form; all ranks read it.
    pub file: PathBuf,
    /// Its key; rank 0 reads it.
    pub key: PathBuf,
}

/// A stream whose reads and writes go on after a signal. The kernel does not restart calls on sockets with a timeout:
/// a caught signal, or SIGCONT after a stop, ends them with EINTR.
#[derive(Debug)]
pub(crate) struct Restarted<S>(S);

fn restarted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl<S: Read> Read for Restarted<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        restarted(|| self.0.read(buffer))
    }
}

impl<S: Write> Write for Restarted<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        restarted(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        restarted(|| self.0.flush())
    }
}

type Socket = Restarted<TcpStream>;

#[derive(Debug)]
pub(crate) enum Connection {
    Plain(Socket),
    Client(Box<StreamOwned<ClientConnection, Socket>>),
    Server(Box<StreamOwned<ServerConnection, Socket>>),
}

impl Connection {
    pub(crate) fn limit(&self, limit: Option<Duration>) -> io::Result<()> {
        let socket = match self {
            Connection::Plain(stream) => stream,
            Connection::Client(stream) => &stream.sock,
            Connection::Server(stream) => &stream.sock,
        };
        socket.0.set_read_timeout(limit)?;
        socket.0.set_write_timeout(limit)
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Plain(stream) => stream.read(buffer),
            Connection::Client(stream) => stream.read(buffer),
            Connection::Server(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Plain(stream) => stream.write(bytes),
            Connection::Client(stream) => stream.write(bytes),
            Connection::Server(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Connection::Plain(stream) => stream.flush(),
            Connection::Client(stream) => stream.flush(),
            Connection::Server(stream) => stream.flush(),
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn unusable(path: &Path) -> impl Fn(String) -> Error + '_ {
    move |reason| Error::Certificate { path: path.to_owned(), reason }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = read_settings(path).map_err(pem::Error::Io);
    let read = pem.and_then(|pem| CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>());
    let chain = read.map_err(|error| unusable(path)(error.to_string()))?;
    if chain.is_empty() {
        Err(unusable(path)("it does not hold a certificate in PEM form".to_owned()))
    } else {
        Ok(chain)
    }
}

/// TLS settings of rank 0.
pub(crate) fn server(certificate: &Certificate) -> Result<Arc<ServerConfig>, Error> {
    let chain = read_chain(&certificate.file)?;
    let key = read_settings(&certificate.key).map_err(pem::Error::Io);
    let key = key
        .and_then(|pem| PrivateKeyDer::from_pem_slice(&pem))
        .map_err(|error| unusable(&certificate.key)(error.to_string()))?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let built = builder.and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    built.map(Arc::new).map_err(|error| unusable(&certificate.key)(error.to_string()))
}

pub(crate) fn client(certificate: &Certificate) -> Result<Arc<ClientConfig>, Error> {
    let pinned = Pinned { certificate: read_chain(&certificate.file)?.swap_remove(0), provider: provider() };
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable(&certificate.file)(error.to_string()))?;
    let verified = builder.dangerous().with_custom_certificate_verifier(Arc::new(pinned));
    Ok(Arc::new(verified.with_no_client_auth()))
}

/// Wraps a connection that rank 0 accepted.
pub(crate) fn accepted(stream: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Connection> {
    let stream = Restarted(stream);
    let Some(config) = tls else { return Ok(Connection::Plain(stream)) };
    let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
    Ok(Connection::Server(Box::new(StreamOwned::new(connection, stream))))
}

/// Wraps a connection that another rank opened.
pub(crate) fn connected(stream: TcpStream, tls: Option<&Arc<ClientConfig>>) -> io::Result<Connection> {
    let stream = Restarted(stream);
    let Some(config) = tls else { return Ok(Connection::Plain(stream)) };
    let name = ServerName::try_from("rank-0").map_err(io::Error::other)?;
    let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    Ok(Connection::Client(Box::new(StreamOwned::new(connection, stream))))
}

#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *shown == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::read_response;

    /// A socket on which every second call is interrupted by a signal.
    struct Interrupted<'a>(&'a [u8], bool);

    impl Read for Interrupted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(buffer) }
        }
    }

    #[test]
    fn signals_do_not_break_a_call() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let response = read_response(&mut Restarted(Interrupted(answer, false)), &mut Vec::new());
        assert_eq!(response.unwrap(), (200, b"ok".to_vec()));
    }
}
