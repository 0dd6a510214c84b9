//! HTTP: what a person, a supervisor or a scraper asks this process. On a thread of its own, never on one of a worker.
//!
//! ```text
//!  listener ── bound before anything else starts; its own accept loop, with limits
//!  guard ───── who may ask: names under which this process may be addressed
//!  operations  /livez /readyz /startupz /metrics
//!  metrics ─── what workers show, as `OpenMetrics` text
//! ```
//!
//! A router is put together from parts: each gives its routes, [`compose`] puts the guards around all of them.
//!
//! Invariant: whatever a client does or leaves undone, it holds one of `connections_max` places for a bounded time
//! (`tests/serve.rs`).

mod guard;
mod listener;
pub mod metrics;
pub mod operations;
mod process;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;

pub use guard::Hosts;
pub use listener::{Bound, Server};

/// Limits of the service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; over: a new one is told 503 and closed.
    pub connections_max: usize,
    /// Until the head of a request is complete, the wait for a next one included; over: the connection is closed.
    pub header_timeout: Duration,
    /// Until a request is answered; over: 408.
    pub request_timeout: Duration,
    /// Life of a connection; over: it is closed after the answer under way, which has `request_timeout` left.
    pub connection_age_max: Duration,
    /// Body of a request; over: 413.
    pub body_bytes_max: usize,
    /// Head of a request; over: 431.
    pub head_bytes_max: usize,
    /// Header fields of a request; over: 431, counted with `head_bytes_max`.
    pub headers_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 256,
            header_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            connection_age_max: Duration::from_mins(10),
            body_bytes_max: 65_536,
            head_bytes_max: 16_384,
            headers_max: 64,
        }
    }
}

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The setting is no address.
    #[error("http = {address:?}: not an address of this machine as HOST:PORT ({words})")]
    BadAddress {
        /// As it was given.
        address: String,
        /// What is wrong.
        words: String,
    },
    /// A name that cannot be in a request.
    #[error("http_hosts: {0:?} is not a host name")]
    BadHost(String),
    /// Another process listens there.
    #[error("http = {0}: the address is in use; give each process its own, or none (http = \"\")")]
    InUse(String),
    /// This process may not.
    #[error("http = {0}: not permitted to listen there; ports below 1024 need a privilege")]
    NotPermitted(String),
    /// Anything else of the system.
    #[error("http = {address}: {words}")]
    System {
        /// The address.
        address: String,
        /// What the system says.
        words: String,
    },
}

/// What the service counts about itself.
#[derive(Debug, Default)]
pub struct Served {
    connections: AtomicU64,
    hosts_refused: AtomicU64,
    /// By the first digit of the status.
    answers: [AtomicU64; 5],
    /// By number of the limit.
    limits: [AtomicU64; Limit::ALL.len()],
}

/// What a client can run into: the fields of [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Connections,
    Header,
    Request,
    Age,
    Body,
    Head,
}

impl Limit {
    const ALL: [(Self, &str); 6] = [
        (Self::Connections, "connections_max"),
        (Self::Header, "header_timeout"),
        (Self::Request, "request_timeout"),
        (Self::Age, "connection_age_max"),
        (Self::Body, "body_bytes_max"),
        (Self::Head, "head_bytes_max"),
    ];
}

impl Served {
    fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
        match status {
            StatusCode::REQUEST_TIMEOUT => self.reached(Limit::Request),
            StatusCode::PAYLOAD_TOO_LARGE => self.reached(Limit::Body),
            _ => {}
        }
    }

    fn reached(&self, limit: Limit) {
        self.limits[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often each limit was reached.
    fn limits(&self) -> Vec<(&'static str, u64)> {
        let counts = self.limits.iter().map(|count| count.load(Ordering::Relaxed));
        Limit::ALL.iter().map(|(_, name)| *name).zip(counts).collect()
    }
}

/// One service from the routes of its parts: guarded, bounded, without caches and guesses of browsers.
pub fn compose(parts: impl IntoIterator<Item = Router>, hosts: Hosts, limits: &Limits) -> Router {
    let routes = parts.into_iter().fold(Router::new(), Router::merge);
    let fixed = |name: HeaderName, value| SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value));
    routes
        .fallback(|| async { (StatusCode::NOT_FOUND, "no such page\n") })
        .layer(RequestBodyLimitLayer::new(limits.body_bytes_max))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, limits.request_timeout))
        .layer(middleware::from_fn(move |request, next| guard::check(hosts.clone(), request, next)))
        .layer(fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed(header::CACHE_CONTROL, "no-store"))
        .layer(fixed(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"))
}

/// Where a request came in.
#[derive(Clone, Copy, Debug)]
struct Local(SocketAddr);
