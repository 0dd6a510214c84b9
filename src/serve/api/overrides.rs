//! `/v1/overrides`: everything with a cursor, or what changed since one.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::time::{Instant, timeout_at};

use crate::serve::Connection;
use crate::serve::api::Api;
use crate::serve::api::query::Query;
use crate::serve::board::{Change, Since};
use crate::serve::problem::Problem;
use crate::serve::rate::Client;

/// Records of one piece of an answer: a large one is never in memory whole.
const PIECE: usize = 256;

/// GET.
///
/// # Errors
/// 400, 429, 503.
pub async fn overrides(
    State(api): State<Arc<Api>>,
    mut connection: Connection,
    client: Client,
    mut query: Query,
) -> Result<Response, Problem> {
    let (after, graph) = (query.take("after"), query.take("graph"));
    let wait = query.seconds("wait", api.limits.wait_max)?;
    query.end()?;
    let board = api.board()?;
    let Some(after) = after else {
        let (cursor, everything) = board.everything();
        return Ok(answer(&cursor, true, everything, graph));
    };
    let _place = (!wait.is_zero()).then(|| api.waiters.admit(&client)).transpose()?;
    let (mut news, deadline) = (board.watch(), Instant::now() + wait);
    loop {
        // What comes from here on is seen as a change.
        news.borrow_and_update();
        let (cursor, since) = board.since(&after);
        let Since::Changes(changes) = since else {
            let (cursor, everything) = board.everything();
            return Ok(answer(&cursor, true, everything, graph));
        };
        let is_none = !changes.iter().any(|change| is_of(change, graph.as_deref()));
        if is_none && Instant::now() < deadline {
            tokio::select! {
                _ = timeout_at(deadline, news.changed()) => continue,
                _ = connection.stopped.changed() => {}
            }
        }
        return Ok(answer(&cursor, false, changes, graph));
    }
}

/// Whether a change is of this graph; none: of any.
pub fn is_of(change: &Change, graph: Option<&str>) -> bool {
    graph.is_none_or(|graph| *change.graph == *graph)
}

/// One record as JSON.
pub fn write(change: &Change, into: &mut String) {
    let key = serde_json::Value::from(&*change.key);
    let record = change.json.as_deref().unwrap_or("null");
    // Writing to a string cannot fail.
    let _ = write!(into, "{{\"key\":{key},\"override\":{record}}}");
}

fn answer(cursor: &str, full: bool, changes: Vec<Arc<Change>>, graph: Option<String>) -> Response {
    let head = format!("{{\"cursor\":\"{cursor}\",\"full\":{full},\"overrides\":[");
    let mut changes = changes.into_iter().filter(move |change| is_of(change, graph.as_deref()));
    let (mut is_first, mut is_over) = (true, false);
    let mut text = head;
    let pieces = std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let mut count = 0;
        for change in changes.by_ref().take(PIECE) {
            if !is_first {
                text.push(',');
            }
            is_first = false;
            write(&change, &mut text);
            count += 1;
        }
        if count < PIECE {
            is_over = true;
            text.push_str("]}");
        }
        Some(Ok::<_, Infallible>(Bytes::from(std::mem::take(&mut text))))
    });
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(stream::iter(pieces))).into_response()
}
