//! TLS before HTTP: a certificate and its key from PEM texts, with ring, which those who ask providers use as well.
//!
//! What is wrong with a text is said without quoting it: one of them is a secret. Knows nothing of files.

use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, InconsistentKeys, ServerConfig};

/// Why TLS cannot be spoken with these texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate in its text.
    #[error("there is no certificate in it (a part that begins with `-----BEGIN CERTIFICATE-----`)")]
    NoCertificate,
    /// The text of the certificates is broken.
    #[error("a certificate in it cannot be read")]
    Certificate,
    /// There is no key in its text.
    #[error("there is no private key in it (a part that begins with `-----BEGIN PRIVATE KEY-----`)")]
    NoKey,
    /// The text of the key is broken, or it is of a kind that is not known.
    #[error("the private key in it cannot be used; RSA, ECDSA and Ed25519 keys without a password can")]
    Key,
    /// The two do not belong together.
    #[error("it is not the private key of the certificate")]
    Mismatch,
}

impl TlsError {
    /// Whether the text of the key is meant, and not that of the certificates.
    pub fn is_of_key(&self) -> bool {
        matches!(self, Self::NoKey | Self::Key | Self::Mismatch)
    }
}

/// A certificate with its key, ready to be shown to clients.
#[derive(Clone)]
pub struct Tls(pub(crate) TlsAcceptor);

impl Tls {
    /// From the certificate of this server, followed by those that it leans on, and its private key.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>().map_err(|_| TlsError::Certificate)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            PemError::NoItemsFound => TlsError::NoKey,
            _ => TlsError::Key,
        })?;
        let provider = Arc::new(ring::default_provider());
        provider.key_provider.load_private_key(key.clone_key()).map_err(|_| TlsError::Key)?;
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = versions.and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError::Mismatch,
            _ => TlsError::Certificate,
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}
