//! TLS over a connection's socket: whom the client trusts, and who it says it is.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, UnixTime,
};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::ConnectError;

/// Sets up [`Tls`].
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until `build`"]
pub struct TlsOptions {
    authorities: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    server_name: Option<String>,
    is_unverified: bool,
}

/// How every connection of a session is encrypted.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    /// Name that the servers' certificates must have; `None`: the address that was connected to.
    server_name: Option<ServerName<'static>>,
}

/// TLS cannot be set up as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is not PEM with what it is to hold.
    #[error("cannot read {} as PEM: {reason}", file.display())]
    File {
        /// Path of the file, as it was given.
        file: PathBuf,
        /// Error of reading or of parsing, in words.
        reason: String,
    },
    /// A PEM file has no certificate in it.
    #[error("{} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// The name given to [`TlsOptions::server_name`] is neither a DNS name nor an IP address.
    #[error("{name} is no name that a certificate can hold: {source}")]
    ServerName {
        /// Name that was given.
        name: String,
        /// Reason why it is none.
        source: InvalidDnsNameError,
    },
    /// Neither [`TlsOptions::authorities`] nor [`TlsOptions::without_verification`] was called.
    #[error(
        "no certificate could be trusted: name a file with those of your authority, or switch the check off"
    )]
    NobodyTrusted,
    /// rustls refuses the settings: a certificate is malformed, or the key does not belong to the client's.
    #[error(transparent)]
    Settings(#[from] rustls::Error),
}

impl TlsOptions {
    /// Trusts nobody yet: `build` needs [`TlsOptions::authorities`] or [`TlsOptions::without_verification`].
    pub fn new() -> Self {
        TlsOptions::default()
    }

    /// A PEM file with the certificates that those of the servers must lead to.
    pub fn authorities(mut self, file: impl Into<PathBuf>) -> Self {
        self.authorities = Some(file.into());
        self
    }

    /// PEM files with the client's certificates and its key, for servers that want to know who calls.
    pub fn identity(mut self, certificates: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((certificates.into(), key.into()));
        self
    }

    /// Sets the name that the servers' certificates must have instead of the address that was connected to.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Encrypts without asking who answers: whoever can reach the network can read along.
    pub fn without_verification(mut self) -> Self {
        self.is_unverified = true;
        self
    }

    /// # Errors
    ///
    /// A file cannot be read or holds something else; nobody is trusted although the check is on.
    pub fn build(self) -> Result<Tls, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let verifier: Arc<dyn ServerCertVerifier> = match &self.authorities {
            _ if self.is_unverified => Arc::new(AnyServer(provider)),
            None => return Err(TlsError::NobodyTrusted),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots.add(certificate)?;
                }
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|_| TlsError::NobodyTrusted)?
            }
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let settings = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
                builder.with_client_auth_cert(certificates(chain)?, private)?
            }
        };
        let server_name = match self.server_name {
            None => None,
            Some(name) => Some(
                ServerName::try_from(name.clone()).map_err(|source| TlsError::ServerName { name, source })?,
            ),
        };
        Ok(Tls {
            connector: TlsConnector::from(Arc::new(settings)),
            server_name,
        })
    }
}

fn unreadable(file: &Path, error: impl fmt::Display) -> TlsError {
    TlsError::File {
        file: file.to_owned(),
        reason: error.to_string(),
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(file, error))?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(file.to_owned()));
    }
    Ok(certificates)
}

impl Tls {
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, ConnectError> {
        let name = self
            .server_name
            .clone()
            .unwrap_or_else(|| ServerName::from(address.ip()));
        self.connector
            .connect(name, stream)
            .await
            .map_err(|source| ConnectError::Tls { address, source })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tls")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// Takes any certificate; signatures are checked all the same, so that the key is the certificate's.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
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
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
