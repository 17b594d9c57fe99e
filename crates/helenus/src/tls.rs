//! The options of commands that connect over TLS.

use std::path::PathBuf;

use helenus_client::{Tls, TlsError, TlsOptions};

#[derive(Debug, clap::Args)]
pub struct TlsArguments {
    /// Encrypt every connection; says whom to trust by --tls-authorities or --tls-unverified.
    #[arg(long)]
    tls: bool,
    /// PEM file with the certificates that those of the servers must lead to.
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_authorities: Option<PathBuf>,
    /// PEM file with the client's own certificates.
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// PEM file with the key of --tls-certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Name in the servers' certificates, if not the address.
    #[arg(long, value_name = "NAME", requires = "tls")]
    tls_server_name: Option<String>,
    /// Encrypt without checking who answers.
    #[arg(long, requires = "tls", conflicts_with = "tls_authorities")]
    tls_unverified: bool,
}

impl TlsArguments {
    pub fn tls(&self) -> Result<Option<Tls>, TlsError> {
        if !self.tls {
            return Ok(None);
        }
        let mut options = TlsOptions::new();
        if let Some(file) = &self.tls_authorities {
            options = options.authorities(file);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            options = options.identity(certificate, key);
        }
        if let Some(name) = &self.tls_server_name {
            options = options.server_name(name);
        }
        if self.tls_unverified {
            options = options.without_verification();
        }
        options.build().map(Some)
    }
}
