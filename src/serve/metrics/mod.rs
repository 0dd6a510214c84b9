//! Metrics as `OpenMetrics` text, made anew for every scrape from what workers show.
//!
//! Labels hold what there are few of: topics, partitions, codes, outcomes. Never a session, a tenant or a graph.

mod family;
mod fleet;
mod health;
mod http;
mod stage;
mod store;
mod system;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use crate::engine::shown::watch::{Monitor, wall};
use crate::serve::Served;
use crate::serve::board::Board;
use crate::serve::metrics::family::Family;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything there is to measure of this process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Of these workers, what was read, and this service.
    #[must_use]
    pub fn new(monitor: Arc<Monitor>, board: Option<Arc<Board>>, served: Arc<Served>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Source { monitor, board, served }));
        Self { registry }
    }

    /// All metrics, now.
    ///
    /// # Errors
    /// Never, as long as there is memory.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut out = String::with_capacity(16_384);
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

#[derive(Debug)]
struct Source {
    monitor: Arc<Monitor>,
    board: Option<Arc<Board>>,
    served: Arc<Served>,
}

impl Source {
    fn families(&self) -> Vec<Family> {
        let workers = self.monitor.workers();
        let snapshots: Vec<_> = workers.iter().map(|worker| worker.snapshot()).collect();
        let is_read = self.board.as_ref().is_none_or(|board| board.is_ready());
        let mut families = health::families(&self.monitor.health(Instant::now()), is_read);
        families.extend(worker::families(&snapshots));
        families.extend(stage::families(&snapshots));
        families.extend(fleet::families(&snapshots));
        let stores: Vec<_> = workers.iter().map(|worker| worker.stores.counts()).collect();
        families.extend(store::families(&stores));
        let lags: Vec<_> = workers.iter().map(|worker| worker.lags()).collect();
        families.extend(health::lags(&lags, &snapshots, wall()));
        families.extend(http::families(&self.served, self.board.as_deref()));
        families.extend(system::families());
        families
    }
}

impl Collector for Source {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.families().iter().try_for_each(|family| family.encode(&mut encoder))
    }
}
