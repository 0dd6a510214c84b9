//! TLS on every connection, from a certificate chain and a key in PEM files.

use std::fmt;
use std::io::Error;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::serve::ServeError;

/// What every connection is encrypted with: TLS 1.2 or 1.3.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl fmt::Debug for Tls {
    /// Never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// From files; none where neither is set.
    ///
    /// # Errors
    /// One is missing, or cannot be used.
    pub fn new(certificate: &str, key: &str) -> Result<Option<Self>, ServeError> {
        if certificate.is_empty() && key.is_empty() {
            return Ok(None);
        }
        let refused = |setting, path: &str, error: &dyn fmt::Display| ServeError::Tls {
            setting,
            path: path.to_owned(),
            words: error.to_string(),
        };
        let of_chain = |error: &dyn fmt::Display| refused("http_tls_certificate", certificate, error);
        let of_key = |error: &dyn fmt::Display| refused("http_tls_key", key, error);
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| of_chain(&error))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| of_key(&error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| of_chain(&error))?;
        Ok(Some(Self(TlsAcceptor::from(Arc::new(config)))))
    }

    /// Takes a connection that begins with a handshake.
    pub(in crate::serve) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> Result<TlsStream<S>, Error> {
        self.0.accept(stream).await
    }
}
