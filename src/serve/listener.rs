//! The listener: bound first, served on a thread of its own by an accept loop that has limits.
//!
//! A loop of our own, because the ready-made one has no timer: without one, a head that never ends keeps its connection
//! for ever.

use std::convert::Infallible;
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_io_timeout::TimeoutStream;

use crate::serve::places::{Lost, Place, Places};
use crate::serve::problem::Problem;
use crate::serve::{Connection, Hosts, Limit, Limits, Part, ServeError, Served, Tls, compose};

/// Pause after the system refused a connection, which happens when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An address that is ours, not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    hosts: Hosts,
    limits: Limits,
    served: Arc<Served>,
    tls: Option<Tls>,
}

impl Bound {
    /// Takes the address. `hosts`: further names of this process, separated by commas.
    ///
    /// # Errors
    /// Where that is not possible.
    pub fn new(address: &str, hosts: &str, limits: Limits) -> Result<Self, ServeError> {
        let served = Arc::default();
        let hosts = Hosts::parse(hosts, &served)?;
        let refused = |error: &Error| match error.kind() {
            ErrorKind::AddrInUse => ServeError::InUse(address.to_owned()),
            ErrorKind::PermissionDenied => ServeError::NotPermitted(address.to_owned()),
            _ => ServeError::BadAddress { address: address.to_owned(), words: error.to_string() },
        };
        let listener = TcpListener::bind(address).map_err(|error| refused(&error))?;
        listener.set_nonblocking(true).map_err(|error| refused(&error))?;
        let address = listener.local_addr().map_err(|error| refused(&error))?;
        Ok(Self { listener, address, hosts, limits, served, tls: None })
    }

    /// With TLS on every connection.
    #[must_use]
    pub fn with_tls(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counts.
    #[must_use]
    pub fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Serves these parts until dropped.
    ///
    /// # Errors
    /// Where the system has no thread, or no runtime, for it.
    pub fn serve(self, parts: impl IntoIterator<Item = Part>) -> Result<Server, ServeError> {
        let address = self.address;
        let failed = |error: Error| ServeError::System { address: address.to_string(), words: error.to_string() };
        let parts: Vec<Part> = parts.into_iter().collect();
        let vital = parts.iter().filter(|part| part.is_vital).cloned();
        let busy = Problem::busy("every place is taken: only health and metrics are answered");
        let spare = compose(vital, self.hosts.clone(), busy);
        let router = compose(parts, self.hosts, Problem::not_found("no such page"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener).map_err(failed)?
        };
        let (stop, stopped) = watch::channel(());
        let accepting = Accepting { router, spare, limits: self.limits, served: self.served, tls: self.tls, stopped };
        let run = move || {
            runtime.block_on(accepting.run(listener));
            // A command under way ends by itself: its outcome is in the log.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("http".into()).spawn(run).map_err(failed)?;
        tracing::info!(%address, "listening for HTTP");
        Ok(Server { address, stop: Some(stop), thread: Some(thread) })
    }
}

/// A service that runs; it ends when dropped, what is under way first.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// How long answers under way may take when it ends.
    const GRACE: Duration = Duration::from_secs(1);

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was told when it happened.
            let _ = thread.join();
        }
    }
}

/// What every connection gets.
#[derive(Clone)]
struct Accepting {
    router: Router,
    /// In spare places.
    spare: Router,
    limits: Limits,
    served: Arc<Served>,
    tls: Option<Tls>,
    stopped: watch::Receiver<()>,
}

impl Accepting {
    async fn run(mut self, listener: tokio::net::TcpListener) {
        let places = Places::new(&self.limits, &self.served);
        // Each connection holds one end: when all are gone, the other one knows.
        let (open, mut closed) = mpsc::channel::<()>(1);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = self.stopped.changed() => break,
            };
            let Ok((stream, peer)) = accepted else {
                tracing::warn!(error = ?accepted.err(), "no connection accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            self.served.connections.fetch_add(1, Ordering::Relaxed);
            let (place, lost) = places.take(Instant::now());
            let (connection, open) = (self.clone().connection(stream, peer, place, lost), open.clone());
            tokio::spawn(async move {
                connection.await;
                drop(open);
            });
        }
        drop((listener, open));
        let _ = timeout(Server::GRACE, closed.recv()).await;
    }

    /// One connection to its end, which always comes.
    async fn connection(self, stream: TcpStream, peer: SocketAddr, place: Place, lost: Lost) {
        let Ok(local) = stream.local_addr() else { return };
        // Answers are small: none waits for the next.
        let _ = stream.set_nodelay(true);
        let (now, is_spare) = (Instant::now(), place.is_spare());
        let until = now + if is_spare { self.limits.header_timeout } else { self.limits.connection_age_max };
        let connection = Connection { local, peer, until, stopped: self.stopped.clone() };
        self.served.open.fetch_add(1, Ordering::Relaxed);
        let served = Arc::clone(&self.served);
        tokio::select! {
            biased;
            _ = lost => {}
            () = sleep_until(until), if is_spare => served.reached(Limit::Header),
            () = self.secured(stream, connection, &place) => {}
        }
        served.open.fetch_sub(1, Ordering::Relaxed);
    }

    async fn secured(self, stream: TcpStream, connection: Connection, place: &Place) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.limits.write_timeout));
        let stream = Box::pin(stream);
        match self.tls.clone() {
            None => self.exchange(stream, connection, place).await,
            Some(tls) => match timeout(self.limits.header_timeout, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.exchange(stream, connection, place).await,
                // It does not speak TLS: there is no language to tell it in.
                Ok(Err(_)) => {}
                Err(_) => self.served.reached(Limit::Header),
            },
        }
    }

    async fn exchange(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        connection: Connection,
        place: &Place,
    ) {
        let (until, is_spare) = (connection.until, place.is_spare());
        let service = TowerToHyperService::new(if is_spare { self.spare } else { self.router });
        let service = service_fn(move |mut request: Request<Incoming>| {
            place.heard();
            request.extensions_mut().insert(connection.clone());
            let answer = service.call(request);
            async move {
                Ok::<_, Infallible>(match answer.await {
                    Ok(answer) => answer,
                    Err(never) => match never {},
                })
            }
        });
        let mut exchange = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.limits.header_timeout)
                .max_buf_size(self.limits.head_bytes_max)
                .max_headers(self.limits.headers_max)
                .keep_alive(!is_spare)
                .serve_connection(TokioIo::new(stream), service)
        );
        // What goes wrong on a connection is the client's doing, or its end; there is nobody to tell.
        tokio::select! {
            ended = exchange.as_mut() => return ended.map_or_else(|error| note(&error, &self.served), |()| ()),
            () = sleep_until(until) => self.served.reached(Limit::Age),
            _ = self.stopped.changed() => {}
        }
        exchange.as_mut().graceful_shutdown();
        if let Ok(Err(error)) = timeout(self.limits.request_timeout + self.limits.wait_max, exchange).await {
            note(&error, &self.served);
        }
    }
}

/// Counts what a connection ended by.
fn note(error: &hyper::Error, served: &Served) {
    let timed_out = |error: &hyper::Error| {
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Error>());
        cause.is_some_and(|cause| cause.kind() == ErrorKind::TimedOut)
    };
    if error.is_timeout() {
        served.reached(Limit::Header);
    } else if error.is_parse_too_large() {
        served.reached(Limit::Head);
    } else if timed_out(error) {
        served.reached(Limit::Write);
    }
}
