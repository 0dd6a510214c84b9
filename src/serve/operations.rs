//! What supervisors and scrapers ask: `/livez`, `/readyz`, `/startupz`, `/metrics`.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::engine::shown::watch::{Monitor, ProcessHealth};
use crate::serve::Served;
use crate::serve::board::Board;
use crate::serve::metrics::{CONTENT_TYPE, Metrics};

/// What is asked about: the workers, and the board where there is one.
#[derive(Clone, Debug)]
struct Watched {
    monitor: Arc<Monitor>,
    board: Option<Arc<Board>>,
}

impl Watched {
    /// Why what is read is not there yet.
    fn unread(&self) -> Option<&'static str> {
        self.board.as_ref().filter(|board| !board.is_ready()).map(|_| "reading overrides")
    }
}

/// The routes.
pub fn routes(monitor: Arc<Monitor>, board: Option<Arc<Board>>, served: Arc<Served>) -> Router {
    let metrics = Arc::new(Metrics::new(Arc::clone(&monitor), board.clone(), served));
    let probes = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/startupz", get(startupz))
        .with_state(Watched { monitor, board });
    probes.merge(Router::new().route("/metrics", get(text)).with_state(metrics))
}

/// Whether all workers come round in time; if not, a restart is due.
async fn livez(State(Watched { monitor, .. }): State<Watched>) -> Response {
    let health = monitor.health(Instant::now());
    let reason = (!health.is_live()).then_some("a worker does not come round any more, or gave up");
    answer(&health, reason)
}

/// Whether all tasks of this process go on, and overrides were read.
async fn readyz(State(watched): State<Watched>) -> Response {
    let health = watched.monitor.health(Instant::now());
    answer(&health, health.unready().or_else(|| watched.unread()))
}

/// Whether all workers had their tasks once.
async fn startupz(State(watched): State<Watched>) -> Response {
    let health = watched.monitor.health(Instant::now());
    let reason = (!health.is_started()).then(|| health.unready().unwrap_or("starting")).or_else(|| watched.unread());
    answer(&health, reason)
}

fn answer(health: &ProcessHealth, reason: Option<&'static str>) -> Response {
    let status = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body: Value = json!({ "ok": reason.is_none(), "reason": reason, "workers": health.workers });
    (status, Json(body)).into_response()
}

async fn text(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written\n").into_response(),
    }
}
