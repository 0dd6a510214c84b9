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
use crate::serve::metrics::{CONTENT_TYPE, Metrics};

/// The routes.
pub fn routes(monitor: Arc<Monitor>, served: Arc<Served>) -> Router {
    let metrics = Arc::new(Metrics::new(Arc::clone(&monitor), served));
    let probes = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/startupz", get(startupz))
        .with_state(monitor);
    probes.merge(Router::new().route("/metrics", get(text)).with_state(metrics))
}

/// Whether all workers come round in time; if not, a restart is due.
async fn livez(State(monitor): State<Arc<Monitor>>) -> Response {
    let health = monitor.health(Instant::now());
    let reason = (!health.is_live()).then_some("a worker does not come round any more, or gave up");
    answer(&health, reason)
}

/// Whether all tasks of this process go on.
async fn readyz(State(monitor): State<Arc<Monitor>>) -> Response {
    let health = monitor.health(Instant::now());
    answer(&health, health.unready())
}

/// Whether all workers had their tasks once.
async fn startupz(State(monitor): State<Arc<Monitor>>) -> Response {
    let health = monitor.health(Instant::now());
    let reason = (!health.is_started()).then(|| health.unready().unwrap_or("starting"));
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
