//! `/v1/interventions`: what is being done for a session; the long poll of a runtime whose run has just failed.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, sleep_until};

use crate::record::intervention::InterventionStatus as Status;
use crate::record::time::Timestamp;
use crate::serve::Connection;
use crate::serve::api::Api;
use crate::serve::api::query::Query;
use crate::serve::board::{Board, Kept};
use crate::serve::problem::Problem;
use crate::serve::rate::Client;

/// An intervention and its override are one transaction on two topics: what comes first waits this long for the other,
/// which may have ended already.
const OVERRIDE_WAIT: Duration = Duration::from_millis(500);

/// GET.
///
/// # Errors
/// 400, 429, 503.
pub async fn interventions(
    State(api): State<Arc<Api>>,
    mut connection: Connection,
    client: Client,
    mut query: Query,
) -> Result<Response, Problem> {
    let wait = query.seconds("wait", api.limits.wait_max)?;
    let wanted = Wanted {
        session_id: query.need("session_id")?,
        graph: query.take("graph"),
        run_id: query.take("run_id"),
        after: query.take("after"),
    };
    query.end()?;
    let board = api.board()?;
    if wait.is_zero() {
        return Ok(answer(board, &wanted.found(board)));
    }
    let _place = api.waiters.admit(&client)?;
    let (waker, deadline) = (board.waker(&wanted.session_id), Instant::now() + wait);
    let mut alone_since = None;
    loop {
        let mut told = std::pin::pin!(waker.notify.notified());
        // What comes from here on wakes.
        told.as_mut().enable();
        let found = wanted.found(board);
        let now = Instant::now();
        let mut until = deadline;
        match found.first().map(|newest| state(board, newest)) {
            Some(Stage::Settled) => return Ok(answer(board, &found)),
            Some(Stage::Alone) => {
                let lonely = *alone_since.get_or_insert(now) + OVERRIDE_WAIT;
                if now >= lonely.min(deadline) {
                    return Ok(answer(board, &found));
                }
                until = lonely.min(deadline);
            }
            Some(Stage::Open) | None if now >= deadline => return Ok(StatusCode::NO_CONTENT.into_response()),
            Some(Stage::Open) | None => {}
        }
        tokio::select! {
            () = told => {}
            () = sleep_until(until) => {}
            _ = connection.stopped.changed() => return Ok(StatusCode::NO_CONTENT.into_response()),
        }
    }
}

struct Wanted {
    session_id: String,
    graph: Option<String>,
    run_id: Option<String>,
    after: Option<String>,
}

impl Wanted {
    /// Newest first.
    fn found(&self, board: &Board) -> Vec<Arc<Kept>> {
        let mut found = board.of_session(&self.session_id);
        let known = self.after.as_deref().and_then(|id| board.intervention(id));
        let known: Option<(Timestamp, &str)> = known.as_deref().map(Kept::age);
        found.retain(|kept| {
            self.graph.as_ref().is_none_or(|graph| *graph == kept.graph)
                && (self.run_id.is_none() || self.run_id == kept.run_id)
                && known.is_none_or(|known| kept.age() > known)
        });
        found
    }
}

enum Stage {
    /// Something is still to come.
    Open,
    /// Applied, and its override is not there: not yet, or not any more.
    Alone,
    /// Nothing more is to come.
    Settled,
}

fn state(board: &Board, kept: &Kept) -> Stage {
    match kept.status {
        Status::Applied if override_of(board, kept).is_none() => Stage::Alone,
        Status::Applied | Status::Observed | Status::Rejected | Status::Expired | Status::Failed => Stage::Settled,
        Status::Pending | Status::AwaitingApproval | Status::Provisioning | Status::Unknown(_) => Stage::Open,
    }
}

fn override_of(board: &Board, kept: &Kept) -> Option<Arc<str>> {
    board.override_of(kept.override_id.as_deref()?).map(|(_, json)| json)
}

fn answer(board: &Board, found: &[Arc<Kept>]) -> Response {
    let mut text = String::from("{\"interventions\":[");
    for (index, kept) in found.iter().enumerate() {
        let settled = !matches!(state(board, kept), Stage::Open);
        let record = override_of(board, kept);
        let record = record.as_deref().unwrap_or("null");
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{{\"intervention\":{},\"override\":{record},\"settled\":{settled}}}", kept.json);
    }
    text.push_str("]}");
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
