//! TLS: spoken where it is set, and nothing else is; who never finishes a handshake is cut.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use reflex::serve::{Bound, Limits, Part, ServeError, Server, Tls};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::{Answer, connect, rest, say};

/// A certificate of its own for `localhost`, as files.
struct Certified {
    folder: tempfile::TempDir,
    trusted: RootCertStore,
}

impl Certified {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("chain.pem"), made.cert.pem()).expect("written");
        std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).expect("written");
        let mut trusted = RootCertStore::empty();
        trusted.add(made.cert.der().clone()).expect("trusted");
        Self { folder, trusted }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn tls(&self) -> Option<Tls> {
        Tls::new(&self.path("chain.pem"), &self.path("key.pem")).expect("a certificate and its key")
    }
}

fn serve(certified: &Certified, limits: Limits) -> Server {
    let bound = Bound::new("127.0.0.1:0", "", limits).expect("a port").with_tls(certified.tls());
    bound.serve([Part::new(Router::new().route("/", get(|| async { "hello" })), &limits)]).expect("a service")
}

/// Asks by TLS.
fn ask(address: SocketAddr, trusted: &RootCertStore) -> std::io::Result<String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(trusted.clone())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let mut stream = StreamOwned::new(connection, connect(address));
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    // The other side may end without a word of farewell.
    let _ = stream.read_to_string(&mut text);
    Ok(text)
}

#[test]
fn who_trusts_the_certificate_is_answered_and_plain_text_is_not() {
    let certified = Certified::new();
    let server = serve(&certified, Limits::default());
    let answer = Answer::parse(&ask(server.address(), &certified.trusted).expect("answered"));
    assert_eq!((answer.status, answer.body.as_str()), (200, "hello"));
    assert!(ask(server.address(), &Certified::new().trusted).is_err(), "another certificate");
    let plain = say(server.address(), "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(plain.status, 0, "{plain:?}");
}

#[test]
fn a_handshake_that_never_ends_is_cut() {
    let limits = Limits { header_timeout: Duration::from_secs(2), ..Limits::default() };
    let certified = Certified::new();
    let server = serve(&certified, limits);
    let mut silent = connect(server.address());
    silent.write_all(&[22, 3, 1]).expect("said");
    assert_eq!(rest(&mut silent), "");
    assert!(ask(server.address(), &certified.trusted).is_ok());
}

#[test]
fn files_that_cannot_be_used_are_named_by_their_setting() {
    let certified = Certified::new();
    let (chain, key) = (certified.path("chain.pem"), certified.path("key.pem"));
    let setting = |chain: &str, key: &str| match Tls::new(chain, key) {
        Err(ServeError::Tls { setting, .. }) => setting,
        other => panic!("{other:?}"),
    };
    assert_eq!(setting("not/there", &key), "http_tls_certificate");
    assert_eq!(setting(&chain, "not/there"), "http_tls_key");
    assert_eq!(setting(&chain, &chain), "http_tls_key", "no key in it");
    assert_eq!(setting(&key, &key), "http_tls_certificate", "no certificate in it");
    let other = Certified::new();
    assert_eq!(setting(&chain, &other.path("key.pem")), "http_tls_certificate", "not its key");
    assert!(matches!(Tls::new("", ""), Ok(None)));
}
