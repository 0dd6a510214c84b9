//! How the broker of the tests is set up: one node that is broker and controller, short timers, nothing created by accident.
//!
//! `docker-compose.yml` runs the same settings. Invariant: it does (`compose.rs`).

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use super::jars::Kafka;
use super::ports::random;

/// Where nothing else is said. `transaction.abort…` is how soon a transaction of a dead writer ends after its timeout.
pub const DEFAULTS: &[(&str, &str)] = &[
    ("auto.create.topics.enable", "false"),
    ("offsets.topic.num.partitions", "4"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.num.partitions", "4"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"),
    ("share.coordinator.state.topic.num.partitions", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("broker.session.timeout.ms", "2000"),
    ("broker.heartbeat.interval.ms", "300"),
    ("log.cleaner.backoff.ms", "200"),
    ("log.retention.check.interval.ms", "5000"),
];

/// Listeners and places, with the ports filled in: `{port}` for clients, `{controller}`, and `{extra}` for a second
/// client listener (SASL, TLS) that a test may set up; `{folder}` is the broker's own.
const FRAME: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.quorum.voters", "1@127.0.0.1:{controller}"),
    ("controller.listener.names", "CONTROLLER"),
    ("listeners", "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"),
    ("advertised.listeners", "PLAINTEXT://127.0.0.1:{port}"),
    (
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
    ),
    ("log.dirs", "{folder}/data"),
];

/// `server.properties`. What `own` sets wins; its values may hold the placeholders too. `ports`: client, controller, extra.
pub fn render(folder: &Path, ports: [u16; 3], own: &[(&str, &str)]) -> String {
    let [port, controller, extra] = ports.map(|port| port.to_string());
    let mut file = String::new();
    for (key, value) in FRAME.iter().chain(DEFAULTS).chain(own) {
        let value = value.replace("{port}", &port).replace("{controller}", &controller).replace("{extra}", &extra);
        let value = value.replace("{folder}", &folder.display().to_string());
        writeln!(file, "{key}={value}").expect("a string takes everything");
    }
    file
}

/// Gives a new broker formatted storage: what the storage tool once wrote, under ids of its own.
pub fn format(kafka: &Kafka, folder: &Path) -> io::Result<()> {
    let (from, to) = (kafka.formatted().join("data"), folder.join("data"));
    fs::create_dir_all(&to)?;
    fs::copy(from.join("bootstrap.checkpoint"), to.join("bootstrap.checkpoint"))?;
    let (cluster, directory) = (random_id(), random_id());
    let meta = format!("version=1\nnode.id=1\ncluster.id={cluster}\ndirectory.id={directory}\n");
    fs::write(to.join("meta.properties"), meta)
}

/// A UUID in Kafka's spelling, 22 characters of URL-safe Base64. Hexadecimal digits are among them; the last character
/// carries only two bits, `A` is zero.
pub fn random_id() -> String {
    let number = (u128::from(random()) << 64 | u128::from(random())) >> 44;
    format!("{number:021x}A")
}
