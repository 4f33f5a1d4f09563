//! TLS settings: the system's certificates, a given file's, or none at all.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::EndpointSpec;

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The configuration of all connections of a run.
pub(crate) fn config(endpoint: &EndpointSpec) -> Result<Arc<ClientConfig>, Fault> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let mut config = if endpoint.insecure {
        let verifier = Arc::new(AcceptAll { provider });
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    } else {
        builder.with_root_certificates(roots(endpoint.ca_file.as_deref())?).with_no_client_auth()
    };
    let offered: &[&[u8]] = if endpoint.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let unfit = |reason: String| format!("--ca-file {}: {reason}", path.display());
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unfit(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unfit(error.to_string()))?;
                roots.add(certificate).map_err(|error| unfit(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unfit("it holds no certificate in PEM form".to_owned()).into());
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

/// The name certificates are checked against.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, Fault> {
    Ok(ServerName::try_from(host.to_owned())?)
}

/// Accepts any certificate, as `--insecure` asks; signatures are still checked.
#[derive(Debug)]
struct AcceptAll {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
