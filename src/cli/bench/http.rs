//! What the HTTP service at `--http` takes: `/v1/resolve` at a steady rate beside `/livez` of the same process, in turns,
//! and the memory of many open streams.
//!
//! Requests are due at fixed times, and times are counted from there: a service that stalls is charged for all that were
//! due meanwhile.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::cli::bench::Args;
use crate::cli::exit::{Exit, Failure};
use crate::cli::failure::unwritable;

/// Connections that requests are spread over.
const CONNECTIONS: u64 = 64;
/// Turns of each path: what else the machine does falls on both.
const TURNS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(10);
const BODY: &str = r#"{"graph":"refund_graph","context":{"session_id":"bench-1","run_id":"r","graph_version":"v1","tenant":"t-7","region":"eu-west","app_version":"6.4.1"}}"#;

type Connection = SendRequest<Body>;

/// Of one path.
#[derive(Default)]
struct Times {
    micros: Vec<u64>,
    failed: u64,
}

impl Times {
    fn at(&mut self, percent: usize) -> u64 {
        self.micros.sort_unstable();
        let place = (self.micros.len() * percent).div_ceil(100).saturating_sub(1);
        self.micros.get(place).copied().unwrap_or(0)
    }
}

/// Measures; false where a request was not answered as it must be.
///
/// # Errors
/// Exit 69 where nobody answers, 78 without an address.
pub fn measure(args: &Args, rate: u32, http: &str, json: bool, out: &mut dyn Write) -> Result<bool, Failure> {
    if http.is_empty() {
        return Err(Failure::new(Exit::Configuration, "http: no address is set, so there is nobody to ask"));
    }
    let failed = |error: std::io::Error| Failure::new(Exit::Unavailable, format_args!("http://{http}: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let asking = Arc::new(Asking { http: http.to_owned(), token: args.token.clone() });
    runtime.block_on(async {
        let turn = Duration::from_secs(u64::from(args.seconds)) / (2 * TURNS);
        let [mut idle, mut resolve] = [Times::default(), Times::default()];
        for _ in 0..TURNS {
            asking.turn("/livez", rate, turn, &mut idle).await.map_err(failed)?;
            asking.turn("/v1/resolve", rate, turn, &mut resolve).await.map_err(failed)?;
        }
        let before = asking.resident_bytes().await.map_err(failed)?;
        let held = asking.streams(args.streams).await.map_err(failed)?;
        let after = asking.resident_bytes().await.map_err(failed)?;
        let is_fine = idle.failed + resolve.failed == 0 && held.len() == args.streams as usize;
        let [livez, resolving] = [&mut idle, &mut resolve].map(|times| {
            json!({ "requests": times.micros.len(), "failed": times.failed, "p50_us": times.at(50), "p99_us": times.at(99) })
        });
        let told = json!({
            "rate_per_s": rate, "livez": livez, "resolve": resolving, "streams": held.len(),
            "resident_bytes_before": before, "resident_bytes_with_streams": after,
        });
        let written = if json { writeln!(out, "{told}") } else { writeln!(out, "{told:#}") };
        written.map_err(unwritable)?;
        Ok(is_fine)
    })
}

struct Asking {
    http: String,
    token: Option<String>,
}

impl Asking {
    /// Asks one path at a rate for so long, over new connections.
    async fn turn(
        self: &Arc<Self>,
        path: &'static str,
        rate: u32,
        turn: Duration,
        times: &mut Times,
    ) -> std::io::Result<()> {
        let (begun, next) = (Instant::now() + Duration::from_millis(100), Arc::new(AtomicU64::new(0)));
        let mut clients = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let mut connection = self.connect().await?;
            let (asking, next) = (Arc::clone(self), Arc::clone(&next));
            clients.spawn(async move {
                let mut own = Times::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let due = Duration::from_secs(1).mul_f64(f64_of(number) / f64::from(rate));
                    if due >= turn {
                        return own;
                    }
                    sleep_until(begun + due).await;
                    match timeout(PATIENCE, asking.ask(&mut connection, path)).await {
                        Ok(Some(_)) => own.micros.push(micros((begun + due).elapsed())),
                        _ => own.failed += 1,
                    }
                }
            });
        }
        while let Some(ended) = clients.join_next().await {
            let own = ended.map_err(std::io::Error::other)?;
            times.micros.extend(own.micros);
            times.failed += own.failed;
        }
        Ok(())
    }

    async fn connect(&self) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(&self.http).await?;
        stream.set_nodelay(true)?;
        let (connection, driving) = handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
        tokio::spawn(driving);
        Ok(connection)
    }

    fn request(&self, path: &str) -> Request<Body> {
        let is_question = path == "/v1/resolve";
        let request = Request::builder().uri(path).header(header::HOST, "localhost");
        let request = match &self.token {
            Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        let (method, body) = if is_question { ("POST", Body::from(BODY)) } else { ("GET", Body::empty()) };
        let request = request.method(method).header(header::CONTENT_TYPE, "application/json");
        request.body(body).unwrap_or_default()
    }

    /// The body of an answer; none where it is not 200.
    async fn ask(&self, connection: &mut Connection, path: &str) -> Option<axum::body::Bytes> {
        connection.ready().await.ok()?;
        let answer = connection.send_request(self.request(path)).await.ok()?;
        let is_fine = answer.status() == StatusCode::OK;
        let body = axum::body::to_bytes(Body::new(answer.into_body()), usize::MAX).await.ok()?;
        is_fine.then_some(body)
    }

    /// Memory of the service, by its metrics.
    async fn resident_bytes(&self) -> std::io::Result<Option<f64>> {
        let mut connection = self.connect().await?;
        let text = self.ask(&mut connection, "/metrics").await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        Ok(line.and_then(|number| number.trim().parse().ok()))
    }

    /// Streams that are open, with what came first.
    async fn streams(
        &self,
        count: u32,
    ) -> std::io::Result<VecDeque<(Connection, hyper::Response<hyper::body::Incoming>)>> {
        let mut held = VecDeque::new();
        for _ in 0..count {
            let mut connection = self.connect().await?;
            let answer = timeout(PATIENCE, connection.send_request(self.request("/v1/overrides/stream"))).await;
            match answer {
                Ok(Ok(answer)) if answer.status() == StatusCode::OK => held.push_back((connection, answer)),
                _ => break,
            }
        }
        Ok(held)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss, reason = "a pace, not a count")]
fn f64_of(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut times = Times { micros: (1..=200).rev().collect(), failed: 0 };
        assert_eq!([50, 99, 100].map(|percent| times.at(percent)), [100, 198, 200]);
        assert_eq!(Times::default().at(99), 0);
    }
}
