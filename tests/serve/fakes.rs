//! The whole service without Kafka: a board that the test fills, a publisher and a desk that remember.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reflex::engine::EngineError;
use reflex::engine::operator::orders::{Answer as Told, Owner};
use reflex::engine::shown::health::Bounds;
use reflex::engine::shown::watch::Monitor;
use reflex::record::command::Command;
use reflex::serve::access::Access;
use reflex::serve::api::{Answers, Api, Awaited, Input, Orders, Publisher};
use reflex::serve::board::Board;
use reflex::serve::{Bound, Limits, Part, Server, operations};
use serde_json::{Value, json};

use super::client::{Answer, connect, say};

/// Remembers what was published.
#[derive(Default)]
pub struct FakePublisher {
    pub published: Mutex<Vec<(String, String)>>,
    /// Whether brokers are away.
    pub fails: AtomicBool,
}

impl Publisher for FakePublisher {
    fn publish(
        &self,
        records: &[(String, String)],
    ) -> std::pin::Pin<Box<dyn Future<Output = Vec<Result<(), String>>> + Send>> {
        let fails = self.fails.load(Ordering::Relaxed);
        if !fails {
            self.published.lock().expect("a lock").extend_from_slice(records);
        }
        let told = records.iter().map(|_| if fails { Err("away".to_owned()) } else { Ok(()) }).collect();
        Box::pin(std::future::ready(told))
    }
}

/// Remembers commands; answers as one task.
#[derive(Default)]
pub struct FakeOrders {
    pub sent: Mutex<Vec<(Owner, Command)>>,
    /// So many are being sent at this moment; more than one is a mistake.
    busy: AtomicUsize,
    pub fails: AtomicBool,
    pub refuses: AtomicBool,
    /// Whether tasks say nothing.
    pub silent: AtomicBool,
}

impl Orders for FakeOrders {
    fn send(&self, owner: &Owner, command: &Command) -> Result<Awaited, EngineError> {
        assert_eq!(self.busy.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
        std::thread::sleep(Duration::from_millis(5));
        self.busy.fetch_sub(1, Ordering::SeqCst);
        if self.fails.load(Ordering::Relaxed) {
            return Err(EngineError::Outage("no broker at secret-host:9092".into()));
        }
        self.sent.lock().expect("a lock").push((owner.clone(), command.clone()));
        let is_done = !self.refuses.load(Ordering::Relaxed);
        let reason = (!is_done).then(|| "no_such_override".to_owned());
        let answers = vec![Told { task: "session/0".into(), is_done, reason }];
        let answers = if self.silent.load(Ordering::Relaxed) { Vec::new() } else { answers };
        Ok(Box::new(move |_| Ok(Answers { tasks: 1, answers })))
    }
}

/// Names of tokens: each is its own secret.
pub const ROLES: [&str; 4] = ["runtime", "viewer", "operator", "approver"];

/// A file with a token for each role.
pub fn tokens(folder: &tempfile::TempDir) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.path().join("tokens.toml");
    let entries = ROLES.map(|role| {
        let hash = blake3::hash(role.as_bytes());
        format!("[[token]]\nname = \"{role}\"\nroles = [\"{role}\"]\nblake3 = \"{hash}\"\n")
    });
    std::fs::write(&path, entries.concat()).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    path.display().to_string()
}

pub struct Served {
    pub board: Arc<Board>,
    pub publisher: Arc<FakePublisher>,
    pub orders: Arc<FakeOrders>,
    pub server: Server,
}

impl Served {
    /// With tokens, and a board that is ready.
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let access = Access::new(&tokens(&folder), false, true).expect("tokens");
        let served = Self::bare(limits, access, Input::default());
        served.board.load(&std::collections::BTreeMap::new());
        served
    }

    /// With a board that is empty and not ready.
    pub fn bare(limits: Limits, access: Access, input: Input) -> Self {
        let bound = Bound::new("127.0.0.1:0", "reflex.internal", limits).expect("a port");
        let counts = Arc::clone(bound.served());
        let board = Arc::new(Board::new(&limits, &counts));
        let (publisher, orders) = (Arc::<FakePublisher>::default(), Arc::<FakeOrders>::default());
        let ways = (Arc::clone(&publisher) as Arc<dyn Publisher>, Arc::clone(&orders) as Arc<dyn Orders>);
        let api = Api::new((Arc::clone(&board), Arc::clone(&counts)), access, limits, input, ways);
        let monitor = Arc::new(Monitor::new(0, Bounds::default(), &Arc::default()));
        let operations = operations::routes(monitor, Some(Arc::clone(&board)), counts);
        let parts = std::iter::once(Part::new(operations, &limits).vital()).chain(api.parts());
        Self { board, publisher, orders, server: bound.serve(parts).expect("a service") }
    }

    /// One request; the status must be one that the description knows.
    pub fn ask(&self, method: &str, path: &str, head: &str, body: &str) -> Answer {
        let length = body.len();
        let answer = say(
            self.server.address(),
            &format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{head}\r\n{body}"
            ),
        );
        super::description::is_described(method, path, &answer);
        answer
    }

    /// One request of a token's bearer.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &bearer("viewer"), "")
    }

    /// One question or decision in JSON.
    pub fn post(&self, path: &str, token: &str, body: &Value) -> Answer {
        self.ask("POST", path, &format!("{}Content-Type: application/json\r\n", bearer(token)), &body.to_string())
    }

    /// A request whose answer is read later.
    pub fn begin(&self, path: &str, head: &str) -> TcpStream {
        let mut stream = connect(self.server.address());
        let token = bearer("runtime");
        stream
            .write_all(
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}{head}\r\n").as_bytes(),
            )
            .expect("said");
        stream
    }

    /// Waits until so many wait.
    pub fn wait_for_waiting(&self, count: u64) {
        let started = std::time::Instant::now();
        while self.metric("reflex_http_waiting") != count {
            assert!(started.elapsed() < Duration::from_secs(20), "never {count} waiting");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A metric that counts.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.ask("GET", "/metrics", "", "").body;
        super::exposition::Exposition::parse(&text).expect("well formed").get(name).expect("a metric") as u64
    }

    pub fn reached(&self, limit: &str) -> u64 {
        self.metric(&format!("reflex_http_limit_reached_total{{limit=\"{limit}\"}}"))
    }

    /// Puts a session's override on the board; its key.
    pub fn put_override(&self, session: &str, revision: u32) -> String {
        let record = override_of(session, revision);
        let key = format!("key-{session}");
        self.board.put_override(&key, Some(&record.to_string()));
        key
    }

    pub fn put_intervention(&self, session: &str, run: &str, number: u32, status: &str) {
        let record = intervention(session, run, number, status);
        let id = record["intervention_id"].as_str().expect("an id").to_owned();
        self.board.put_intervention(&id, Some(&record.to_string()));
    }
}

pub fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

pub fn override_of(session: &str, revision: u32) -> Value {
    json!({
        "override_id": format!("ovr_{session}"), "graph": "g", "scope": { "kind": "session", "session_id": session },
        "tenant": null, "run_id": "r", "source": "auto", "kind": "replace", "schema_ref": "d:v1", "entry_point": "n",
        "status": "active", "mode": "degraded", "attempt": 0, "revision": revision, "reason": "s",
        "created_at": "2026-01-01T00:00:00Z", "expires_at": "2126-01-01T00:00:00Z",
    })
}

/// The `number`-th of a session; its override is `ovr_SESSION`.
pub fn intervention(session: &str, run: &str, number: u32, status: &str) -> Value {
    let revision =
        ["pending", "provisioning", "awaiting_approval"].iter().position(|word| *word == status).unwrap_or(3) + 1;
    json!({
        "intervention_id": format!("int_{session}_{number}"), "kind": "session", "signal": "s",
        "signature": { "node": "n", "failure_shape": "f", "retry_budget_exhausted": true, "required_artifact_present": null, "scope": "session" },
        "fingerprint": "00", "scope": { "kind": "session", "session_id": session }, "tenant": null, "run_id": run,
        "graph": "g", "status": status, "override_id": (status == "applied").then(|| format!("ovr_{session}")),
        "evidence": [], "revision": revision, "created_at": format!("2026-01-01T00:00:{number:02}Z"),
        "updated_at": "2026-01-01T00:01:00Z", "registry_version": "v",
    })
}
