//! TLS settings: trusted certificates (the system's, a file's, any), and explanations of failures.

use std::{path::Path, sync::Arc};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, InvalidMessage, RootCertStore,
    SignatureScheme, client::WebPkiServerVerifier,
};

use tacho_core::files::read_settings;

use super::certificate;
use crate::{ClientCertificate, EndpointSpec};

type Fault = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    /// The name that certificates are checked against.
    pub(crate) name: ServerName<'static>,
    pub(crate) trust: Trust,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    System,
    File,
    Anybody,
}

impl Tls {
    /// Settings for connections to `host`; `protocols` are offered in this order.
    pub(crate) fn new(endpoint: &EndpointSpec, host: &str, protocols: &[&str]) -> Result<Tls, Fault> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let (trust, builder) = match (&endpoint.ca_file, endpoint.insecure) {
            (_, true) => {
                let verifier = Arc::new(Verifier { trusted: None, provider });
                (Trust::Anybody, builder.dangerous().with_custom_certificate_verifier(verifier))
            }
            (Some(path), false) => {
                let verifier = Arc::new(Verifier { trusted: Some(TrustFile::read(path, &provider)?), provider });
                (Trust::File, builder.dangerous().with_custom_certificate_verifier(verifier))
            }
            (None, false) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                (Trust::System, builder.with_root_certificates(roots))
            }
        };
        let mut config = match &endpoint.client_certificate {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let (chain, key) = identity(files)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| unfit_identity(files, &error))?
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Tls { config: Arc::new(config), name: ServerName::try_from(host.to_owned())?, trust })
    }
}

fn identity(files: &ClientCertificate) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Fault> {
    let unfit = |flag: &str, path: &Path, reason: String| format!("{flag} {}: {reason}", path.display());
    let chain =
        read_certificates(&files.certificate).map_err(|reason| unfit("--client-cert", &files.certificate, reason))?;
    let key = read_settings(&files.key).map_err(pem::Error::Io).and_then(|pem| PrivateKeyDer::from_pem_slice(&pem));
    let key = key.map_err(|error| {
        let reason = match error {
            pem::Error::NoItemsFound => "it holds no private key in PEM form; an encrypted one must be decrypted first",
            error => return unfit("--client-key", &files.key, error.to_string()),
        };
        unfit("--client-key", &files.key, reason.to_owned())
    })?;
    Ok((chain, key))
}

fn unfit_identity(files: &ClientCertificate, error: &rustls::Error) -> String {
    let (certificate, key) = (files.certificate.display(), files.key.display());
    match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("--client-key {key} is not the key of the certificate of --client-cert {certificate}")
        }
        error => format!("--client-cert {certificate} and --client-key {key} cannot be used: {error}"),
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read_settings(path).map_err(pem::Error::Io);
    let read = pem.and_then(|pem| CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>());
    match read {
        Ok(none) if none.is_empty() => Err("it holds no certificate in PEM form".to_owned()),
        read => read.map_err(|error| error.to_string()),
    }
}

/// Explains a failure and suggests a remedy that is not already in use.
pub(crate) fn explain(error: &rustls::Error, trust: Trust) -> String {
    use CertificateError as Bad;
    let advice = match (error, trust) {
        (rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType), _) => {
            "the other side does not speak TLS: use http:// if it is a plain server"
        }
        (rustls::Error::AlertReceived(AlertDescription::CertificateRequired), _) => {
            "the server wants a certificate of the client: pass --client-cert and --client-key"
        }
        (rustls::Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::BadCertificate), _) => {
            "the server does not accept the certificate of --client-cert"
        }
        (rustls::Error::InvalidCertificate(_), Trust::Anybody) => "",
        (rustls::Error::InvalidCertificate(Bad::UnknownIssuer), Trust::System) => {
            "name the file of its authority, or of the certificate itself, with --ca-file, or pass --insecure"
        }
        (rustls::Error::InvalidCertificate(Bad::UnknownIssuer), Trust::File) => {
            "no certificate in the file of --ca-file, or SSL_CERT_FILE, has signed it or is it: name another, or pass \
             --insecure"
        }
        (rustls::Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }), _) => {
            "renew it, or pass --insecure"
        }
        (rustls::Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }), _) => {
            "check this machine's clock, or pass --insecure"
        }
        (rustls::Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }), _) => {
            "call the server by a name of its certificate, or pass --insecure"
        }
        // The file may be that of the environment.
        (rustls::Error::InvalidCertificate(_), Trust::System | Trust::File) => {
            "name the file of that certificate with --ca-file, or pass --insecure"
        }
        _ => "",
    };
    let colon = if advice.is_empty() { "" } else { ": " };
    format!("TLS: {error}{colon}{advice}")
}

/// The certificates of a file, trusted as authorities, and each as a server's own (as `openssl req -x509` creates).
#[derive(Debug)]
struct TrustFile {
    named: Vec<CertificateDer<'static>>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl TrustFile {
    fn read(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Self, Fault> {
        let unfit = |reason: String| format!("--ca-file {}: {reason}", path.display());
        let named = read_certificates(path).map_err(unfit)?;
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(named.iter().cloned());
        let authorities = if usable == 0 {
            None
        } else {
            let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
            Some(built.map_err(|error| unfit(error.to_string()))?)
        };
        Ok(TrustFile { named, authorities })
    }
}

/// Accepts the certificates of a file, whose names and dates are checked; without one, for `--insecure`, any. A
/// signature by a certificate that anyone can create proves nothing, so keys too weak to be checked are accepted then.
#[derive(Debug)]
struct Verifier {
    trusted: Option<TrustFile>,
    provider: Arc<CryptoProvider>,
}

/// A check of a signature: the message, the certificate and the signature.
type CheckSignature = fn(
    &[u8],
    &CertificateDer<'_>,
    &DigitallySignedStruct,
    &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, rustls::Error>;

impl Verifier {
    fn signature(
        &self,
        check: CheckSignature,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self.trusted {
            Some(_) => check(message, certificate, signature, &self.provider.signature_verification_algorithms),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(TrustFile { named, authorities }) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        if named.iter().any(|named| named == end_entity) {
            certificate::check(end_entity, server_name, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        match authorities {
            Some(verifier) => verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(verify_tls12_signature, message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(verify_tls13_signature, message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
