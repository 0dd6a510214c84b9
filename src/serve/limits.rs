//! Limits of the service, and what it counts about itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;

/// Limits of the service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time, and so requests at a time; over: a new one takes the place of the one that is longest
    /// without a whole head, if that is due (`head_patience`), else a spare one (`spare_max`).
    pub connections_max: usize,
    /// Until a connection without a whole head can lose its place; over, and a newcomer finds none: it is closed.
    pub head_patience: Duration,
    /// Connections beyond `connections_max` at a time, each for `header_timeout` at most and one request: health and
    /// metrics are answered, all else is told 503; over: the oldest of them is closed.
    pub spare_max: usize,
    /// Until the head of a request is complete, the wait for a next one and a TLS handshake included; over: the
    /// connection is closed.
    pub header_timeout: Duration,
    /// Until a request is answered; over: 408. A long poll has `wait_max` in addition.
    pub request_timeout: Duration,
    /// Until a client takes more of an answer; over: the connection is closed.
    pub write_timeout: Duration,
    /// Life of a connection; over: it is closed after the answer under way, which has `request_timeout` and `wait_max`
    /// left. A stream ends.
    pub connection_age_max: Duration,
    /// Body of a request; over: 413.
    pub body_bytes_max: usize,
    /// Head of a request; over: 431.
    pub head_bytes_max: usize,
    /// Header fields of a request; over: 431, counted with `head_bytes_max`.
    pub headers_max: usize,
    /// Requests a second of one client (a token, else an address), and as many at once; over: 429.
    pub rate_per_second_max: u32,
    /// Addresses whose rates are told apart; over: all addresses share one rate. Tokens have their own in any case.
    pub clients_max: usize,
    /// Longest wait of a long poll; over: counts as this.
    pub wait_max: Duration,
    /// Long polls and streams at a time; over: 503.
    pub waiting_max: usize,
    /// Long polls and streams at a time of one client (a token, else an address); over: 429.
    pub waiting_per_client_max: usize,
    /// Body of a request with events; over: 413.
    pub events_bytes_max: usize,
    /// Events in a request; over: 413.
    pub events_max: usize,
    /// Requests with events at a time; over: 503.
    pub publishing_max: usize,
    /// Commands that wait or are under way; over: 503.
    pub commands_max: usize,
    /// Longest wait for the answers of tasks; over: 202.
    pub answers_wait_max: Duration,
    /// Outcomes of commands that are kept to answer a repeated one; over: the oldest goes, and the tasks still know it.
    pub outcomes_kept_max: usize,
    /// Changes of overrides that are kept for cursors; over: an older cursor is answered by everything.
    pub changes_kept_max: usize,
    /// Interventions that are kept; over: the oldest goes.
    pub interventions_kept_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 512,
            head_patience: Duration::from_millis(500),
            spare_max: 64,
            header_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            connection_age_max: Duration::from_mins(10),
            body_bytes_max: 65_536,
            head_bytes_max: 16_384,
            headers_max: 64,
            rate_per_second_max: 5000,
            clients_max: 10_000,
            wait_max: Duration::from_secs(25),
            waiting_max: 384,
            waiting_per_client_max: 256,
            events_bytes_max: 2_097_152,
            events_max: 1000,
            publishing_max: 32,
            commands_max: 32,
            answers_wait_max: Duration::from_secs(8),
            outcomes_kept_max: 1000,
            changes_kept_max: 10_000,
            interventions_kept_max: 20_000,
        }
    }
}

/// What the service counts about itself.
#[derive(Debug, Default)]
pub struct Served {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Requests for another name than ours.
    pub hosts_refused: AtomicU64,
    /// Requests of foreign pages.
    pub origins_refused: AtomicU64,
    /// Requests without a token that is known, or without the role.
    pub tokens_refused: AtomicU64,
    /// Events that brokers acknowledged, that are no events, that were not acknowledged.
    pub events: [AtomicU64; 3],
    /// Long polls and streams now.
    pub waiting: AtomicU64,
    /// Connections now.
    pub open: AtomicU64,
    /// By the first digit of the status.
    pub answers: [AtomicU64; 5],
    /// By number of the limit.
    limits: [AtomicU64; Limit::ALL.len()],
}

/// What clients run into: fields of [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `connections_max`.
    Connections,
    /// `head_patience`.
    Patience,
    /// `spare_max`.
    Spare,
    /// `header_timeout`.
    Header,
    /// `request_timeout`.
    Request,
    /// `write_timeout`.
    Write,
    /// `connection_age_max`.
    Age,
    /// `body_bytes_max`, `events_bytes_max`, `events_max`.
    Body,
    /// `head_bytes_max`, `headers_max`.
    Head,
    /// `rate_per_second_max`.
    Rate,
    /// `clients_max`.
    Clients,
    /// `waiting_max`.
    Waiting,
    /// `waiting_per_client_max`.
    Share,
    /// `publishing_max`.
    Publishing,
    /// `commands_max`.
    Commands,
    /// `changes_kept_max`.
    Changes,
    /// `outcomes_kept_max`.
    Outcomes,
    /// `interventions_kept_max`.
    Interventions,
}

impl Limit {
    const ALL: [(Self, &str); 18] = [
        (Self::Connections, "connections_max"),
        (Self::Patience, "head_patience"),
        (Self::Spare, "spare_max"),
        (Self::Header, "header_timeout"),
        (Self::Request, "request_timeout"),
        (Self::Write, "write_timeout"),
        (Self::Age, "connection_age_max"),
        (Self::Body, "body_bytes_max"),
        (Self::Head, "head_bytes_max"),
        (Self::Rate, "rate_per_second_max"),
        (Self::Clients, "clients_max"),
        (Self::Waiting, "waiting_max"),
        (Self::Share, "waiting_per_client_max"),
        (Self::Publishing, "publishing_max"),
        (Self::Commands, "commands_max"),
        (Self::Changes, "changes_kept_max"),
        (Self::Outcomes, "outcomes_kept_max"),
        (Self::Interventions, "interventions_kept_max"),
    ];
}

impl Served {
    /// An answer went out.
    pub fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
        match status {
            StatusCode::REQUEST_TIMEOUT => self.reached(Limit::Request),
            StatusCode::PAYLOAD_TOO_LARGE => self.reached(Limit::Body),
            _ => {}
        }
    }

    /// A client ran into a limit.
    pub fn reached(&self, limit: Limit) {
        self.limits[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often each limit was reached.
    #[must_use]
    pub fn limits(&self) -> Vec<(&'static str, u64)> {
        let counts = self.limits.iter().map(|count| count.load(Ordering::Relaxed));
        Limit::ALL.iter().map(|(_, name)| *name).zip(counts).collect()
    }
}
