//! `/v1/…`: what runtimes and people ask, as `schemas/openapi.json` describes it.
//!
//! ```text
//!  entry ──> who asks, how often ──> resolve, overrides, interventions   from the board, also while Kafka is away
//!                               ├──> events                              through a Publisher, acknowledged by brokers
//!                               └──> commands                            through Orders, answered by the tasks
//! ```
//!
//! Invariant: routes and description agree (`tests/serve/description.rs`).

mod commands;
mod events;
mod interventions;
mod overrides;
mod query;
mod resolve;
mod seams;
mod stream;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{DefaultBodyLimit, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::record::codec::Schemas;
use crate::serve::access::{Access, Actor};
use crate::serve::board::Board;
use crate::serve::problem::Problem;
use crate::serve::rate::{Client, Rates};
use crate::serve::{Connection, Limits, Part, Served};
use commands::Desk;
pub use seams::{Answers, Awaited, KafkaOrders, Orders, Publisher, Told};
use waiting::Waiters;

/// The description of everything that is served.
pub const DESCRIPTION: &str = include_str!("../../../schemas/openapi.json");

/// What the routes work with.
pub struct Api {
    board: Arc<Board>,
    access: Access,
    rates: Rates,
    served: Arc<Served>,
    limits: Limits,
    input: Input,
    publisher: Arc<dyn Publisher>,
    desk: Desk,
    waiters: Arc<Waiters>,
    publishing: Arc<Semaphore>,
}

/// What events are held against, as in the engine.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Avro schemas.
    pub schemas: Schemas,
    /// The only tenant the topic belongs to; none: any.
    pub tenant: Option<String>,
}

impl Api {
    /// Routes over a board, with ways to Kafka.
    #[must_use]
    pub fn new(
        (board, served): (Arc<Board>, Arc<Served>),
        access: Access,
        limits: Limits,
        input: Input,
        (publisher, orders): (Arc<dyn Publisher>, Arc<dyn Orders>),
    ) -> Arc<Self> {
        Arc::new(Self {
            rates: Rates::new(&limits, &served),
            desk: Desk::new(&limits, orders),
            waiters: Waiters::new(&limits, &served),
            publishing: Arc::new(Semaphore::new(limits.publishing_max)),
            board,
            access,
            served,
            limits,
            input,
            publisher,
        })
    }

    /// The routes.
    #[must_use]
    pub fn parts(self: &Arc<Self>) -> Vec<Part> {
        let limits = &self.limits;
        let guarded = |router: Router<Arc<Self>>| {
            let entry = middleware::from_fn_with_state(Arc::clone(self), entry);
            router.layer(entry).with_state(Arc::clone(self))
        };
        let quick = Router::new().route("/v1/resolve", get(resolve::by_query).post(resolve::by_body));
        let waiting = Router::new()
            .route("/v1/overrides", get(overrides::overrides))
            .route("/v1/overrides/stream", get(stream::stream))
            .route("/v1/interventions", get(interventions::interventions));
        // The part has a limit of its own.
        let unlimited = DefaultBodyLimit::disable();
        let events = Router::new().route("/v1/events", post(events::publish)).layer(unlimited);
        let commands = Router::new().route("/v1/commands", post(commands::command));
        let description = Router::new().route("/v1/openapi.json", get(description));
        vec![
            Part::new(guarded(quick), limits),
            Part::new(guarded(waiting), limits).longer(limits.wait_max),
            Part::new(guarded(events), limits).body_bytes_max(limits.events_bytes_max),
            Part::new(guarded(commands), limits).longer(limits.answers_wait_max + limits.request_timeout),
            Part::new(description, limits),
        ]
    }

    /// The board, once it was filled.
    fn board(&self) -> Result<&Arc<Board>, Problem> {
        if self.board.is_ready() { Ok(&self.board) } else { Err(Problem::not_ready()) }
    }
}

/// Who asks, and whether it may ask now.
async fn entry(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let actor = api.access.actor(request.headers());
    let named = actor.as_ref().ok().and_then(|actor| actor.name.clone()).map(Client::Token);
    let address = || request.extensions().get::<Connection>().map(|connection| Client::at(connection.peer.ip()));
    if let Some(client) = named.or_else(address) {
        if !api.rates.admits(&client) {
            return Problem::rate_limited("too many requests of this client").into_response();
        }
        request.extensions_mut().insert(client);
    }
    let response = match actor {
        Err(problem) => problem.into_response(),
        Ok(actor) => {
            request.extensions_mut().insert(actor);
            next.run(request).await
        }
    };
    if matches!(response.status().as_u16(), 401 | 403) {
        api.served.tokens_refused.fetch_add(1, Ordering::Relaxed);
    }
    response
}

impl<S: Send + Sync> FromRequestParts<S> for Actor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Extension::<Self>::from_request_parts(parts, state).await;
        found.map(|found| found.0).map_err(|_| Problem::unauthorized("nobody asks"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Extension::<Self>::from_request_parts(parts, state).await;
        found.map(|found| found.0).map_err(|_| Problem::bad_request("no client"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Connection {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Extension::<Self>::from_request_parts(parts, state).await;
        found.map(|found| found.0).map_err(|_| Problem::bad_request("no connection"))
    }
}

async fn description() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION).into_response()
}

/// A JSON body.
fn json<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    if !media_type(headers).eq_ignore_ascii_case("application/json") {
        return Err(Problem::unsupported("application/json, please"));
    }
    let mut reading = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reading).map_err(|error| {
        let (path, inner) = (error.path().to_string(), error.into_inner());
        // The words of a type error may hold the value.
        let what = if inner.is_data() { "of the wrong type, missing or unknown" } else { "no JSON" };
        Problem::bad_request(format!("{path}: {what}, at line {} column {}", inner.line(), inner.column()))
    })?;
    reading.end().map_err(|_| Problem::bad_request("more than one JSON value"))?;
    Ok(value)
}

/// The media type of a body, without parameters; empty: none is given.
fn media_type(headers: &HeaderMap) -> &str {
    let field = headers.get(header::CONTENT_TYPE).and_then(|field| field.to_str().ok()).unwrap_or_default();
    field.split(';').next().unwrap_or_default().trim()
}
