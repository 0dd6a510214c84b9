//! `/v1/resolve`: which schema to run, from memory.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer};

use crate::engine::shown::watch::wall;
use crate::record::object::Object;
use crate::resolve::{Context, Phase, explain, resolve};
use crate::serve::api::query::Query;
use crate::serve::api::{Api, json};
use crate::serve::problem::Problem;

/// One question.
#[derive(Debug, Deserialize)]
pub struct Question {
    graph: String,
    #[serde(default, deserialize_with = "object")]
    context: Option<Context>,
    #[serde(default)]
    explain: bool,
}

/// A list would be read as the fields in their order, which nobody means.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Context>, D::Error> {
    Option::<Object<Context>>::deserialize(deserializer).map(|context| context.map(|object| object.0))
}

/// POST.
///
/// # Errors
/// 400, 415, 503.
pub async fn by_body(State(api): State<Arc<Api>>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    answer(&api, json(&headers, &body)?)
}

/// GET.
///
/// # Errors
/// 400, 503.
pub async fn by_query(State(api): State<Arc<Api>>, mut query: Query) -> Result<Response, Problem> {
    let graph = query.need("graph")?;
    let explain = match query.take("explain").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::bad_request("explain: neither true nor false")),
    };
    let context = Context {
        session_id: query.take("session_id"),
        run_id: query.take("run_id"),
        phase: match query.take("phase").as_deref() {
            Some("resume") => Phase::Resume,
            Some("failed") => Phase::Failed,
            _ => Phase::Start,
        },
        current_schema_ref: query.take("current_schema_ref"),
        tenant: query.take("tenant"),
        region: query.take("region"),
        app_version: query.take("app_version"),
        graph_version: query.take("graph_version"),
        attributes: query.members("attributes").into_iter().collect(),
    };
    query.end()?;
    answer(&api, Question { graph, context: Some(context), explain })
}

fn answer(api: &Api, question: Question) -> Result<Response, Problem> {
    let Question { graph, context, explain: with_losers } = question;
    if graph.is_empty() {
        return Err(Problem::bad_request("graph: empty"));
    }
    let context = context.unwrap_or_default();
    let text = api.board()?.with_table(|table| {
        let ask = if with_losers { explain } else { resolve };
        serde_json::to_string(&ask(table, &graph, &context, wall()))
    });
    // Words and numbers alone: they always have a JSON form.
    let text = text.map_err(|_| Problem::bad_request("no answer"))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
