//! HTTP: what a runtime, a person, a supervisor or a scraper asks this process. On a thread of its own, never on one of a
//! worker.
//!
//! ```text
//!  listener ── bound before anything else starts; its own accept loop, with limits; tls
//!  places ──── of connections; some are kept for health and metrics
//!  guard ───── names under which this process may be addressed; foreign pages
//!  access, rate  who may do what, and how often
//!  operations  /livez /readyz /startupz /metrics
//!  api ─────── /v1/…: what schemas/openapi.json describes
//!    board       what this process knows of the compacted topics, put there by reader
//!  metrics ─── what workers and the service show, as `OpenMetrics` text
//! ```
//!
//! A router is put together from parts: each gives its routes, `compose` puts the guards around all of them.
//!
//! Invariant: whatever a client does or leaves undone, it holds one of `connections_max` places for a bounded time,
//! and health and metrics are answered meanwhile (`tests/serve.rs`).

pub mod access;
pub mod api;
pub mod board;
mod guard;
mod limits;
mod listener;
pub mod metrics;
pub mod operations;
mod places;
pub mod problem;
mod process;
mod rate;
pub mod reader;
mod tls;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware;
use tokio::sync::watch;
use tokio::time::Instant;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;

pub use guard::Hosts;
pub use limits::{Limit, Limits, Served};
pub use listener::{Bound, Server};
use problem::Problem;
pub use tls::Tls;

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
    /// Tokens that cannot be used.
    #[error("http_tokens = {path}: {words}")]
    Tokens {
        /// The file.
        path: String,
        /// What is wrong; never what stands in it.
        words: String,
    },
    /// A certificate or a key that cannot be used.
    #[error("{setting} = {path}: {words}")]
    Tls {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: String,
        /// What is wrong; never what stands in it.
        words: String,
    },
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

/// Routes that belong together, with limits of their own.
#[derive(Clone, Debug)]
pub struct Part {
    router: Router,
    body_bytes_max: usize,
    timeout: Duration,
    is_vital: bool,
}

impl Part {
    /// Routes with the limits of all.
    #[must_use]
    pub fn new(router: Router, limits: &Limits) -> Self {
        Self { router, body_bytes_max: limits.body_bytes_max, timeout: limits.request_timeout, is_vital: false }
    }

    /// Answered in spare places too: it must be quick, and short.
    #[must_use]
    pub fn vital(self) -> Self {
        Self { is_vital: true, ..self }
    }

    /// With another limit for bodies.
    #[must_use]
    pub fn body_bytes_max(self, body_bytes_max: usize) -> Self {
        Self { body_bytes_max, ..self }
    }

    /// With more time for answers.
    #[must_use]
    pub fn longer(self, more: Duration) -> Self {
        Self { timeout: self.timeout + more, ..self }
    }
}

/// One service from the routes of its parts: guarded, bounded, without caches and guesses of browsers. `otherwise` is
/// what any other route is answered.
fn compose(parts: impl IntoIterator<Item = Part>, hosts: Hosts, otherwise: Problem) -> Router {
    let layered = parts.into_iter().map(|part| {
        part.router
            .layer(RequestBodyLimitLayer::new(part.body_bytes_max))
            .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, part.timeout))
    });
    let routes = layered.fold(Router::new(), Router::merge);
    let fixed = |name: HeaderName, value| SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value));
    routes
        .fallback(move || std::future::ready(otherwise.clone()))
        .layer(middleware::from_fn(move |request, next| guard::check(hosts.clone(), request, next)))
        .layer(fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed(header::CACHE_CONTROL, "no-store"))
        .layer(fixed(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"))
}

/// The connection a request came in by.
#[derive(Clone, Debug)]
pub struct Connection {
    local: SocketAddr,
    peer: SocketAddr,
    /// When it has its age: streams end.
    until: Instant,
    /// Changes, or closes, when the service ends.
    stopped: watch::Receiver<()>,
}
