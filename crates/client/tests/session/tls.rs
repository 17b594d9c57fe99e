//! Sessions over TLS: a terminator with a certificate of its own stands before a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helenus_client::{ConnectError, RequestError, Session, TlsError, TlsOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::server::{PATIENCE, any_port, block_on, serve};

/// Certificates for 127.0.0.1 and node.test that no authority in use has signed; their keys guard nothing.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/session/tls_files")
        .join(name)
}

fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(file(name))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

async fn terminate(server: SocketAddr, asks_who_calls: bool) -> SocketAddr {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if asks_who_calls {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates("authority.pem"));
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let settings = builder.with_single_cert(certificates("server.pem"), key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                if let Ok(mut client) = acceptor.accept(client).await {
                    let _either_side_may_hang_up =
                        tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    address
}

async fn connect(address: SocketAddr, tls: TlsOptions) -> Result<Session, RequestError> {
    Session::builder()
        .node(address.to_string())
        .only_these_nodes()
        .timeout(PATIENCE)
        .connect_timeout(PATIENCE)
        .tls(tls.build().unwrap())
        .connect()
        .await
}

async fn answers(session: &Session) -> bool {
    let answer = session.query("SELECT key FROM system.local", ()).await.unwrap();
    answer.rows::<(String,)>().unwrap().next().unwrap().unwrap().0 == "local"
}

fn refusal(result: Result<Session, RequestError>) -> String {
    match result {
        Err(RequestError::Unreachable(error)) => match &*error {
            ConnectError::Tls { source, .. } => source.to_string(),
            other => panic!("not a refusal of TLS: {other}"),
        },
        other => panic!("not a refusal of TLS: {:?}", other.map(|_| "a session")),
    }
}

#[test]
fn a_trusted_server_answers_by_address_and_by_name() {
    block_on(async {
        let server = serve(1, any_port());
        let address = terminate(server.address, false).await;
        let trusting = TlsOptions::new().authorities(file("authority.pem"));
        assert!(answers(&connect(address, trusting.clone()).await.unwrap()).await);
        let by_name = connect(address, trusting.server_name("node.test")).await;
        assert!(answers(&by_name.unwrap()).await);
        server.stop().await;
    });
}

#[test]
fn a_server_of_another_name_or_authority_is_refused_unless_the_check_is_off() {
    block_on(async {
        let server = serve(1, any_port());
        let address = terminate(server.address, false).await;
        let of_another = TlsOptions::new().authorities(file("other-authority.pem"));
        assert!(refusal(connect(address, of_another).await).contains("UnknownIssuer"));
        let misnamed = TlsOptions::new()
            .authorities(file("authority.pem"))
            .server_name("elsewhere.test");
        assert!(refusal(connect(address, misnamed).await).contains("not valid for name"));
        let unverified = TlsOptions::new().without_verification();
        assert!(answers(&connect(address, unverified).await.unwrap()).await);
        server.stop().await;
    });
}

#[test]
fn a_server_that_asks_who_calls_is_told() {
    block_on(async {
        let server = serve(1, any_port());
        let address = terminate(server.address, true).await;
        let trusting = TlsOptions::new().authorities(file("authority.pem"));
        let known = trusting.clone().identity(file("client.pem"), file("client.key"));
        assert!(answers(&connect(address, known).await.unwrap()).await);
        assert!(connect(address, trusting).await.is_err());
        server.stop().await;
    });
}

#[test]
fn a_server_without_tls_is_told_from_one_that_is_not_trusted() {
    block_on(async {
        let server = serve(1, any_port());
        let result = Session::builder()
            .node(server.address.to_string())
            .only_these_nodes()
            .connect_timeout(Duration::from_secs(60))
            .tls(TlsOptions::new().without_verification().build().unwrap())
            .connect()
            .await;
        refusal(result);
        server.stop().await;
    });
}

#[test]
fn options_that_trust_nobody_or_name_no_file_are_refused_at_once() {
    assert!(matches!(TlsOptions::new().build(), Err(TlsError::NobodyTrusted)));
    let missing = TlsOptions::new().authorities(file("missing.pem"));
    assert!(matches!(missing.build(), Err(TlsError::File { .. })));
    let no_certificate = TlsOptions::new().authorities(file("server.key"));
    assert!(matches!(no_certificate.build(), Err(TlsError::NoCertificate(_))));
}
