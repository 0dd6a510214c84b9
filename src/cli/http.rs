//! The HTTP service of `reflex run`, and `reflex serve`: the service alone, which takes no part in deciding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::cli::engine_config::config;
use crate::cli::exit::{Exit, Failure};
use crate::cli::logging;
use crate::cli::run::stop_flag;
use crate::cli::settings::Resolved;
use crate::cli::settings::model::Settings;
use crate::engine::Config;
use crate::engine::publish::Outlet;
use crate::engine::shown::health::Bounds;
use crate::engine::shown::watch::Monitor;
use crate::serve::access::Access;
use crate::serve::api::{Api, Input, KafkaOrders};
use crate::serve::board::Board;
use crate::serve::reader::Reading;
use crate::serve::{Bound, Limits, Part, Server, Tls, operations};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Brokers have this long to acknowledge an event: less than its request has.
const PATIENCE: Duration = Duration::from_secs(8);

/// A service that runs until dropped; it stops to answer before it stops to read.
#[derive(Debug)]
pub struct Service {
    _server: Server,
    _reading: Reading,
}

/// The service, where an address is set.
///
/// # Errors
/// Exit 78 for an address, names, tokens or certificates that cannot be used, 77 where it may not listen.
pub fn start(settings: &Settings, config: Config, monitor: &Arc<Monitor>) -> Result<Option<Service>, Failure> {
    if settings.http.is_empty() {
        return Ok(None);
    }
    let limits = Limits {
        connections_max: settings.http_connections_max as usize,
        waiting_max: settings.http_waiting_max as usize,
        waiting_per_client_max: settings.http_waiting_per_client_max as usize,
        rate_per_second_max: settings.http_rate_per_second_max,
        ..Limits::default()
    };
    let tls = Tls::new(&settings.http_tls_certificate, &settings.http_tls_key)?;
    let bound = Bound::new(&settings.http, &settings.http_hosts, limits)?.with_tls(tls);
    let is_loopback = bound.address().ip().is_loopback();
    let access = Access::new(&settings.http_tokens, settings.http_open, is_loopback)?;
    if matches!(access, Access::Closed) {
        tracing::warn!("/v1 is closed: no tokens are set (http_tokens), and others than this machine can ask");
    }
    let counts = Arc::clone(bound.served());
    let board = Arc::new(Board::new(&limits, &counts));
    let outlet = Outlet::new(&config.cluster, &config.topics.events, PATIENCE)?;
    let input = Input { schemas: config.schemas.clone(), tenant: config.tenant.clone() };
    let ways = (Arc::new(outlet) as Arc<_>, Arc::new(KafkaOrders(config.clone())) as Arc<_>);
    let api = Api::new((Arc::clone(&board), Arc::clone(&counts)), access, limits, input, ways);
    let operations = operations::routes(Arc::clone(monitor), Some(Arc::clone(&board)), counts);
    let parts = std::iter::once(Part::new(operations, &limits).vital()).chain(api.parts());
    let server = bound.serve(parts)?;
    let reading = Reading::start(config, board)?;
    Ok(Some(Service { _server: server, _reading: reading }))
}

/// `reflex serve`: until SIGTERM or SIGINT.
///
/// # Errors
/// As [`start`]; 78 without an address.
pub fn run(resolved: &Resolved) -> Result<Exit, Failure> {
    let settings = &resolved.settings;
    logging::start(&settings.log)?;
    let stop: Arc<AtomicBool> = stop_flag()?;
    let monitor = Arc::new(Monitor::new(0, Bounds::default(), &stop));
    let Some(_service) = start(settings, config(settings, "serve")?, &monitor)? else {
        return Err(Failure::new(Exit::Configuration, "http: no address is set; --http 127.0.0.1:8080 sets one"));
    };
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK_EVERY);
    }
    tracing::info!("stopping");
    Ok(Exit::Done)
}
