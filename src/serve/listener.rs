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
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::serve::{Hosts, Limit, Limits, Local, ServeError, Served, compose};

/// What a client over the limit gets. It has not been read, so it is only said, not negotiated.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n";
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
        Ok(Self { listener, address, hosts, limits, served })
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

    /// Serves these parts until dropped.
    ///
    /// # Errors
    /// Where the system has no thread, or no runtime, for it.
    pub fn serve(self, parts: impl IntoIterator<Item = Router>) -> Result<Server, ServeError> {
        let address = self.address;
        let failed = |error: Error| ServeError::System { address: address.to_string(), words: error.to_string() };
        let router = compose(parts, self.hosts.clone(), &self.limits);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener).map_err(failed)?
        };
        let (stop, stopped) = watch::channel(());
        let (limits, served) = (self.limits, self.served);
        let run = move || runtime.block_on(accept(listener, router, limits, served, stopped));
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

async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    limits: Limits,
    served: Arc<Served>,
    mut stopped: watch::Receiver<()>,
) {
    let places = Arc::new(Semaphore::new(limits.connections_max));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => break,
        };
        let Ok((stream, _)) = accepted else {
            tracing::warn!(error = ?accepted.err(), "no connection accepted");
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            served.reached(Limit::Connections);
            // Whether it hears of it is its own matter.
            let _ = stream.try_write(BUSY);
            continue;
        };
        served.connections.fetch_add(1, Ordering::Relaxed);
        let own = Arc::clone(&served);
        tokio::spawn(connection(stream, router.clone(), limits, place, own, stopped.clone()));
    }
    drop(listener);
    // All places free: nobody is served any more.
    let all = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    let _ = timeout(Server::GRACE, places.acquire_many(all)).await;
}

/// One connection to its end, which always comes.
async fn connection(
    stream: TcpStream,
    router: Router,
    limits: Limits,
    place: OwnedSemaphorePermit,
    counts: Arc<Served>,
    mut stopped: watch::Receiver<()>,
) {
    let Ok(local) = stream.local_addr() else { return };
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Local(local));
        let answer = service.call(request);
        async move {
            Ok::<_, Infallible>(match answer.await {
                Ok(answer) => answer,
                Err(never) => match never {},
            })
        }
    });
    let mut served = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(limits.head_bytes_max)
            .max_headers(limits.headers_max)
            .serve_connection(TokioIo::new(stream), service)
    );
    // What goes wrong on a connection is the client's doing, or its end; there is nobody to tell.
    tokio::select! {
        ended = served.as_mut() => {
            match ended {
                Err(error) if error.is_timeout() => counts.reached(Limit::Header),
                Err(error) if error.is_parse_too_large() => counts.reached(Limit::Head),
                _ => {}
            }
            return;
        }
        () = sleep(limits.connection_age_max) => counts.reached(Limit::Age),
        _ = stopped.changed() => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = timeout(limits.request_timeout, served).await;
    drop(place);
}
