//! One test's own corner of the broker: topics under a prefix, a data directory, processes that end with it.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Message, Offset, TopicPartitionList};
use reflex::engine::TopicNames;
use serde_json::{Value, json};

use crate::harness::{Broker, child};

/// Partitions of every topic of a test.
pub const PARTITIONS: i32 = 3;
/// Longest wait for something to happen.
pub const SOON: Duration = Duration::from_mins(1);

/// One record as read back.
#[derive(Clone, Debug)]
pub struct Read1 {
    pub partition: i32,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Read1 {
    pub fn json(&self) -> Value {
        serde_json::from_slice(self.value.as_deref().unwrap_or(b"null")).expect("JSON")
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().rev().find(|(other, _)| other == name)?;
        Some(String::from_utf8_lossy(value.as_deref()?).into_owned())
    }
}

/// Topics, group and folder of one test.
pub struct World {
    pub bootstrap: String,
    pub name: String,
    pub folder: tempfile::TempDir,
}

impl World {
    /// A world on the shared broker, its topics not there yet.
    pub fn bare(name: &str) -> Self {
        Self::on(Broker::shared().bootstrap(), name)
    }

    /// A world on the shared broker, with topics.
    pub fn new(name: &str) -> Self {
        let world = Self::bare(name);
        world.apply();
        world
    }

    /// A world on this broker.
    pub fn on(bootstrap: &str, name: &str) -> Self {
        // A cluster that outlives the test process must not show old topics.
        let name = format!("{name}-{:016x}", crate::harness::ports::random());
        Self { bootstrap: bootstrap.to_owned(), name, folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn apply(&self) {
        let applied = self.output(&["topics", "apply", "--dev", "--partitions", &PARTITIONS.to_string()]);
        assert!(applied.status.success(), "{}", text(&applied));
    }

    pub fn topics(&self) -> TopicNames {
        TopicNames::prefixed(&self.name)
    }

    /// The program with this world's settings; further arguments come after them.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        let topics = self.topics();
        for (name, value) in [
            ("EVENTS", &topics.events),
            ("SESSION_COMMANDS", &topics.session_commands),
            ("INTERVENTIONS", &topics.interventions),
            ("OVERRIDES", &topics.overrides),
            ("ESCALATIONS", &topics.escalations),
            ("AUDIT", &topics.audit),
            ("FLEET", &topics.fleet),
            ("COMMANDS", &topics.commands),
            ("REGISTRY", &topics.registry),
            ("TAPE_SESSION", &topics.tape_session),
            ("TAPE_FLEET", &topics.tape_fleet),
            ("STATE_SESSION", &topics.state_session),
            ("STATE_FLEET", &topics.state_fleet),
        ] {
            command.env(format!("REFLEX_TOPICS_{name}"), value);
        }
        command
            .env("REFLEX_BOOTSTRAP_SERVERS", &self.bootstrap)
            .env("REFLEX_GROUP", &self.name)
            // The broker of the tests is alone.
            .env("REFLEX_DEV", "true")
            .env("REFLEX_DATA_DIR", self.folder.path().join("data"))
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program starts")
    }

    /// Starts `reflex run` and waits until it has its tasks.
    pub fn run(&self, arguments: &[&str]) -> Running {
        let running = Running::start(self.command(&[&["run"], arguments].concat()), self.folder.path());
        running.wait_for_log("assigned");
        running
    }

    pub fn send(&self, topic: &str, key: Option<&[u8]>, value: Option<&[u8]>, headers: Option<OwnedHeaders>) {
        let producer = self.producer();
        send(&producer, topic, key, value, headers);
        producer.flush(SOON).expect("delivered");
    }

    pub fn producer(&self) -> ThreadedProducer<DefaultProducerContext> {
        ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("partitioner", "murmur2_random")
            .set("enable.idempotence", "true")
            // The topic's limit is what is tested, not the client's.
            .set("message.max.bytes", "10000000")
            .create()
            .expect("a producer")
    }

    /// Events under their session ids.
    pub fn send_events(&self, events: &[Value]) {
        let producer = self.producer();
        let topic = self.topics().events;
        for event in events {
            let key = event["session_id"].as_str().expect("a session").to_owned();
            send(&producer, &topic, Some(key.as_bytes()), Some(event.to_string().as_bytes()), None);
        }
        producer.flush(SOON).expect("delivered");
    }

    /// Everything committed on a topic, in order of partition and offset.
    pub fn read(&self, topic: &str) -> Vec<Read1> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", format!("{}-reader", self.name))
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .create()
            .expect("a consumer");
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(topic, partition, Offset::Beginning).expect("a partition");
        }
        consumer.assign(&list).expect("assigned");
        let (mut records, mut open) = (Vec::new(), PARTITIONS);
        let started = Instant::now();
        while open > 0 {
            assert!(started.elapsed() < SOON, "no end of {topic}");
            match consumer.poll(Duration::from_millis(200)) {
                Some(Ok(message)) => records.push((message.partition(), message.offset(), read1(&message))),
                Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
                Some(Err(_)) | None => {}
            }
        }
        records.sort_by_key(|(partition, offset, _)| (*partition, *offset));
        records.into_iter().map(|(_, _, record)| record).collect()
    }

    /// Waits until a topic holds at least so many committed records.
    pub fn wait_for_records(&self, topic: &str, count: usize) -> Vec<Read1> {
        child::wait_for(&format!("{count} records on {topic}"), SOON, || {
            let records = self.read(topic);
            (records.len() >= count).then_some(records)
        })
    }

    /// Audit records of session tasks, without those of the activation of the first registry.
    pub fn decisions(&self) -> Vec<Read1> {
        let mut audit = self.read(&self.topics().audit);
        audit.retain(|record| {
            let record = record.json();
            let task = record["task"].as_str().expect("a task");
            let started = record["author"].as_str().is_some_and(|author| author.starts_with("reflex run "));
            task.starts_with("session/") && !started
        });
        audit
    }

    pub fn wait_for_decisions(&self, count: usize) -> Vec<Read1> {
        child::wait_for(&format!("{count} audit records of sessions"), SOON, || {
            let records = self.decisions();
            (records.len() >= count).then_some(records)
        })
    }

    /// Committed offsets of the group, and the ends, by partition of the events topic.
    pub fn offsets(&self) -> Vec<(i64, i64)> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", &self.name)
            .create()
            .expect("a consumer");
        let topic = self.topics().events;
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&topic, 0, PARTITIONS - 1);
        let committed = consumer.committed_offsets(list, SOON).expect("offsets");
        (0..PARTITIONS)
            .map(|partition| {
                let found = committed.find_partition(&topic, partition).expect("asked for").offset();
                let (_, end) = consumer.fetch_watermarks(&topic, partition, SOON).expect("watermarks");
                (found.to_raw().unwrap_or(-1).max(0), end)
            })
            .collect()
    }

    /// Waits until every event is committed.
    pub fn wait_until_processed(&self) {
        child::wait_for("all events committed", SOON, || {
            self.offsets().iter().all(|(committed, end)| committed == end).then_some(())
        });
    }
}

fn send(
    producer: &ThreadedProducer<DefaultProducerContext>,
    topic: &str,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: Option<OwnedHeaders>,
) {
    let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
    if let Some(key) = key {
        record = record.key(key);
    }
    if let Some(value) = value {
        record = record.payload(value);
    }
    if let Some(headers) = headers {
        record = record.headers(headers);
    }
    producer.send(record).map_err(|(error, _)| error).expect("queued");
}

fn read1(message: &impl Message) -> Read1 {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
    });
    Read1 {
        partition: message.partition(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
    }
}

/// Name and value of a header.
pub fn header<'a>(key: &'a str, value: &'a [u8]) -> Header<'a, &'a [u8]> {
    Header { key, value: Some(value) }
}

/// Standard error and output together.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A running `reflex run`; its log is in a file. It is killed with the value.
pub struct Running {
    child: Child,
    log: std::path::PathBuf,
}

impl Running {
    pub fn start(mut command: Command, folder: &Path) -> Self {
        let log = folder.join(format!("log-{:016x}", crate::harness::ports::random()));
        let file = std::fs::File::create(&log).expect("a log");
        let child = command.stdout(Stdio::null()).stderr(file).spawn().expect("the program starts");
        Self { child, log }
    }

    pub fn log(&self) -> String {
        let mut text = String::new();
        std::fs::File::open(&self.log).expect("a log").read_to_string(&mut text).expect("text");
        text
    }

    pub fn wait_for_log(&self, words: &str) {
        let started = Instant::now();
        while !self.log().contains(words) {
            assert!(started.elapsed() < SOON, "no `{words}` in the log:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    pub fn signal(&self, signal: &str) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        let sent = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
        assert!(sent.success());
    }

    #[allow(dead_code, reason = "for the tests of faults")]
    pub fn has_ended(&self) -> bool {
        crate::harness::keeper::has_ended(self.child.id())
    }

    pub fn kill9(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Waits for the end; exit code and log.
    pub fn wait(mut self, within: Duration) -> (Option<i32>, String) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return (status.code(), self.log());
            }
            assert!(started.elapsed() < within, "still running:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGTERM, then a clean end.
    pub fn stop(self) -> String {
        self.terminate();
        let (code, log) = self.wait(Duration::from_secs(30));
        assert_eq!(code, Some(0), "{log}");
        log
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
        // Already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The three failures of the refund story, of one session.
pub fn story(session: &str) -> Vec<Value> {
    (1..=3)
        .map(|attempt| {
            json!({
                "event_id": format!("{session}-{attempt}"), "type": "node_failed", "session_id": session,
                "run_id": "run-1", "graph": "refund_graph", "graph_version": "v1", "node": "evaluate_evidence",
                "attempt": attempt, "max_attempts": 3, "tenant": "t-7",
                "error": { "class": "pydantic.ValidationError", "message": "no evidence" },
            })
        })
        .collect()
}

/// A producer without anything, for tests that need its transactions.
pub fn transactional(bootstrap: &str, id: &str) -> ThreadedProducer<DefaultProducerContext> {
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("transactional.id", id)
        .set("retry.backoff.ms", "2")
        .create()
        .expect("a producer");
    producer.init_transactions(SOON).expect("transactions");
    producer
}
