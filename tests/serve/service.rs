//! A service to ask: real sockets, and a monitor in place of workers.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::Router;
use reflex::engine::shown::health::Bounds;
use reflex::engine::shown::watch::Monitor;
use reflex::serve::{Bound, Limits, Part, Server, operations};

use super::client::{Answer, connect, get, say};

/// A service over a monitor of one worker.
pub struct Service {
    pub monitor: Arc<Monitor>,
    pub stop: Arc<AtomicBool>,
    pub server: Server,
}

impl Service {
    pub fn new(limits: Limits) -> Self {
        Self::with(limits, Router::new())
    }

    /// With further routes beside those of operations.
    pub fn with(limits: Limits, further: Router) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let monitor = Arc::new(Monitor::new(1, Bounds::default(), &stop));
        let bound = Bound::new("127.0.0.1:0", "reflex.internal", limits).expect("a port");
        let operations = operations::routes(Arc::clone(&monitor), None, Arc::clone(bound.served()));
        let parts = [Part::new(operations, &limits).vital(), Part::new(further, &limits)];
        let server = bound.serve(parts).expect("a service");
        Self { monitor, stop, server }
    }

    pub fn get(&self, path: &str) -> Answer {
        get(self.server.address(), path)
    }

    /// Sends this, and reads what comes until the connection ends.
    pub fn say(&self, text: &str) -> Answer {
        say(self.server.address(), text)
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.server.address())
    }
}
