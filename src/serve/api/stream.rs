//! `/v1/overrides/stream`: changes as server-sent events.
//!
//! ```text
//!  no cursor, or an unknown one    resync, override ..., synced, then override as they come
//!  a cursor that is known          override since then, then as they come
//!  read too slowly                 resync (slow_reader), and the end
//! ```
//!
//! A stream has no queue of its own: it reads on in the ring of changes that all share. Who is too slow for that finds its
//! place gone; who does not read at all is cut by `write_timeout`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::serve::api::Api;
use crate::serve::api::overrides::{is_of, write};
use crate::serve::api::query::Query;
use crate::serve::api::waiting::Waiting;
use crate::serve::board::{Board, Change, Since};
use crate::serve::problem::Problem;
use crate::serve::rate::Client;
use crate::serve::{Connection, Limit};

/// A line that says nothing, so that both sides notice when the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// GET.
///
/// # Errors
/// 400, 429, 503.
pub async fn stream(
    State(api): State<Arc<Api>>,
    connection: Connection,
    client: Client,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, Problem> {
    let (after, graph) = (query.take("after"), query.take("graph"));
    query.end()?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let board = Arc::clone(api.board()?);
    let place = api.waiters.admit(&client)?;
    let mut reader = Reader {
        changed: board.watch(),
        board,
        api: Arc::clone(&api),
        connection,
        graph,
        cursor: String::new(),
        next: VecDeque::new(),
        is_over: false,
        _place: place,
    };
    reader.begin(last.or(after).as_deref());
    let events = unfold(reader, |mut reader| async {
        let item = reader.next().await?;
        Some((Ok::<_, Infallible>(item.event(&reader.board)), reader))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

enum Item {
    Resync(&'static str),
    Synced {
        cursor: String,
        overrides: usize,
    },
    /// Part of a resync.
    Record(Arc<Change>),
    Change(Arc<Change>),
}

impl Item {
    fn event(&self, board: &Board) -> Event {
        let data = |change: &Change| {
            let mut text = String::new();
            write(change, &mut text);
            Event::default().event("override").data(text)
        };
        match self {
            Self::Resync(reason) => Event::default().event("resync").data(format!("{{\"reason\":\"{reason}\"}}")),
            Self::Synced { cursor, overrides } => {
                Event::default().event("synced").id(cursor).data(format!("{{\"overrides\":{overrides}}}"))
            }
            Self::Record(change) => data(change),
            Self::Change(change) => data(change).id(board.cursor(change.version)),
        }
    }
}

struct Reader {
    api: Arc<Api>,
    board: Arc<Board>,
    connection: Connection,
    graph: Option<String>,
    changed: watch::Receiver<u64>,
    cursor: String,
    next: VecDeque<Item>,
    is_over: bool,
    _place: Waiting,
}

impl Reader {
    fn begin(&mut self, after: Option<&str>) {
        let reason = match after {
            None => "start",
            Some(after) => match self.board.since(after) {
                (_, Since::Changes(_)) => {
                    after.clone_into(&mut self.cursor);
                    return;
                }
                (_, Since::Unknown) => "unknown_cursor",
            },
        };
        let (cursor, everything) = self.board.everything();
        let graph = self.graph.as_deref();
        let records = everything.into_iter().filter(|change| is_of(change, graph)).map(Item::Record);
        self.next.push_back(Item::Resync(reason));
        self.next.extend(records);
        let overrides = self.next.len() - 1;
        self.next.push_back(Item::Synced { cursor: cursor.clone(), overrides });
        self.cursor = cursor;
    }

    async fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.next.pop_front() {
                return Some(item);
            }
            if self.is_over {
                return None;
            }
            // What comes from here on is seen as a change.
            self.changed.borrow_and_update();
            let (cursor, since) = self.board.since(&self.cursor);
            let Since::Changes(changes) = since else {
                self.api.served.reached(Limit::Changes);
                self.is_over = true;
                return Some(Item::Resync("slow_reader"));
            };
            self.cursor = cursor;
            let graph = self.graph.as_deref();
            self.next.extend(changes.into_iter().filter(|change| is_of(change, graph)).map(Item::Change));
            if self.next.is_empty() {
                tokio::select! {
                    told = self.changed.changed() => self.is_over = told.is_err(),
                    () = sleep_until(self.connection.until) => self.is_over = true,
                    _ = self.connection.stopped.changed() => self.is_over = true,
                }
            }
        }
    }
}
