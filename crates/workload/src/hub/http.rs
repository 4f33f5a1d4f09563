//! HTTP settings for downloads: certificates, proxies and the user agent.

use std::{sync::Arc, time::Duration};

use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, config::ConfigBuilder, typestate::AgentScope};

/// Client settings with the same timeout for name resolution, connecting and the start of a response. Any status is a
/// valid response.
pub(crate) fn config(patience: Duration) -> ConfigBuilder<AgentScope> {
    let found = rustls_native_certs::load_native_certs();
    let certificates: Vec<Certificate<'static>> =
        found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .user_agent(concat!("tacho/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .timeout_resolve(Some(patience))
        .timeout_connect(Some(patience))
        .timeout_recv_response(Some(patience))
}
