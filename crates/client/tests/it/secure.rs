//! A TLS server with a self-signed certificate.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io::BufReader, path::PathBuf, sync::Arc};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// One connection, as the server's script sees it.
pub(crate) type Secured = BufReader<StreamOwned<ServerConnection, TcpStream>>;

pub(crate) struct Secure {
    pub(crate) address: SocketAddr,
    /// The certificate as PEM.
    pub(crate) certificate: String,
    connections: Arc<AtomicUsize>,
}

impl Secure {
    /// Serves each connection with `script` on its own thread; ends with the test process.
    pub(crate) fn start(alpn: &[&str], script: impl Fn(&mut Secured) + Send + Sync + 'static) -> Secure {
        Secure::listen(WebPkiClientVerifier::no_client_auth(), alpn, script)
    }

    /// Requires the certificate of `other.pem` from clients.
    pub(crate) fn knowing_other(script: impl Fn(&mut Secured) + Send + Sync + 'static) -> Secure {
        let known = CertificateDer::from_pem_slice(tacho_testkit::certificate("other.pem").as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(known).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        Secure::listen(verifier, &["http/1.1"], script)
    }

    fn listen(
        clients: Arc<dyn ClientCertVerifier>,
        alpn: &[&str],
        script: impl Fn(&mut Secured) + Send + Sync + 'static,
    ) -> Secure {
        let certificate = tacho_testkit::certificate("server.pem");
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(tacho_testkit::certificate("server.key").as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_client_cert_verifier(clients).with_single_cert(chain, key).unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (config, script, count) = (Arc::new(config), Arc::new(script), connections.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                stream.set_nodelay(true).unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let tls = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
                let script = script.clone();
                std::thread::spawn(move || script(&mut BufReader::new(tls)));
            }
        });
        Secure { address, certificate, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}/v1/completions", self.address.port())
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Writes the certificate to a file of the given name.
    pub(crate) fn certificate_file(&self, name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tacho-{}-{name}.pem", std::process::id()));
        std::fs::write(&path, &self.certificate).unwrap();
        path
    }
}
