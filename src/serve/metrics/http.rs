//! The HTTP service, and what it read.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::serve::Served;
use crate::serve::board::Board;
use crate::serve::metrics::family::{Family, Labels};

/// Of the service; of the board where there is one.
pub fn families(served: &Served, board: Option<&Board>) -> Vec<Family> {
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
    let answers: Vec<(&str, u64)> = classes.into_iter().zip(served.answers.iter().map(get)).collect();
    let events: Vec<(&str, u64)> =
        ["accepted", "rejected", "failed"].into_iter().zip(served.events.iter().map(get)).collect();
    let refused = [
        ("host", get(&served.hosts_refused)),
        ("origin", get(&served.origins_refused)),
        ("token", get(&served.tokens_refused)),
    ];
    let now = |name, help, count| Family::gauge(name, help).whole(Labels::new(), count);
    let mut families = vec![
        Family::counter("reflex_http_answers", "Answers over HTTP, by class of status.").counts("class", &answers),
        Family::counter("reflex_http_connections", "Connections accepted.")
            .count(Labels::new(), get(&served.connections)),
        now("reflex_http_connections_open", "Connections now.", get(&served.open)),
        now("reflex_http_waiting", "Long polls and streams now.", get(&served.waiting)),
        Family::counter("reflex_http_limit_reached", "How often a client ran into a limit of the service.")
            .counts("limit", &served.limits()),
        Family::counter("reflex_http_refused", "Requests refused for their host, origin or token.")
            .counts("code", &refused),
        Family::counter("reflex_http_events", "Events posted, by what became of them.").counts("outcome", &events),
    ];
    if let Some(board) = board {
        let (overrides, interventions) = board.sizes();
        families.extend([
            now("reflex_board_ready", "Whether the overrides were read to their end once.", board.is_ready().into()),
            now("reflex_board_overrides", "Overrides held to answer from.", overrides as u64),
            now("reflex_board_interventions", "Interventions held to answer from.", interventions as u64),
            Family::counter("reflex_board_unreadable", "Records that could not be read, or contradict what is held.")
                .count(Labels::new(), board.unreadable_count()),
        ]);
    }
    families
}
