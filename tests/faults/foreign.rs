//! What others do to the topics: transactions left open or aborted, records changed, local stores damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde_json::Value;

use super::reading::{Reader, Record};
use super::rig::{PATIENCE, Rig, Run};
use super::world::{PARTITIONS, Running, SOON, World, story, text};
use crate::harness::child;

/// The broker ends the stranger's transaction after this.
const STRANGER_TIMEOUT_MS: &str = "4000";

type Stranger = ThreadedProducer<DefaultProducerContext>;

fn stranger(world: &World, id: &str) -> Stranger {
    let producer: Stranger = ClientConfig::new()
        .set("bootstrap.servers", &world.bootstrap)
        .set("transactional.id", format!("{}-{id}", world.name))
        .set("transaction.timeout.ms", STRANGER_TIMEOUT_MS)
        .set("message.timeout.ms", STRANGER_TIMEOUT_MS)
        .create()
        .expect("a producer");
    producer.init_transactions(SOON).expect("transactions");
    producer
}

fn write(stranger: &Stranger, topic: &str, key: &str, value: &str) {
    stranger.begin_transaction().expect("begun");
    for partition in 0..PARTITIONS {
        let record = BaseRecord::to(topic).partition(partition).key(key).payload(value);
        stranger.send(record).map_err(|(error, _)| error).expect("queued");
    }
    stranger.flush(SOON).expect("delivered");
}

/// A stranger's transactions on an input and on the changelog: aborted ones, one left open that the broker ends; the
/// input ends in their control records.
pub fn transactions(run: &mut Run) {
    let rig = Rig::new(run, "foreign");
    let topics = rig.world.topics();
    let ghost = story("ghost").pop().expect("an event").to_string();
    let last = rig.during(|| {
        let first = rig.start(0);
        run.inject();
        let aborting = stranger(&rig.world, "aborting");
        for topic in [&topics.events, &topics.state_session] {
            write(&aborting, topic, "ghost", &ghost);
            aborting.abort_transaction(SOON).expect("aborted");
        }
        // Nobody ends these: readers wait for the broker.
        let leaving = [stranger(&rig.world, "leaving-events"), stranger(&rig.world, "leaving-state")];
        write(&leaving[0], &topics.events, "ghost", &ghost);
        write(&leaving[1], &topics.state_session, "ghost", "no state");
        first.kill9();
        let mut command = rig.command(0);
        // The whole changelog, with what the stranger left in it.
        command.args(["--set", "store=memory"]);
        let second = Running::start(command, rig.world.folder.path());
        second.wait_for_log("assigned");
        run.fired();
        second
    });
    let aborting = stranger(&rig.world, "ending");
    write(&aborting, &topics.events, "ghost", &ghost);
    aborting.abort_transaction(SOON).expect("aborted");
    last.stop();
    // A start that has nothing but control records to find.
    rig.start(0).stop();
    rig.judge();
}

/// One byte of one event is changed where it stands: the same decisions cannot be made again, and `reflex verify` says
/// where.
pub fn changed_input(run: &mut Run) {
    let rig = Rig::new(run, "tampered");
    let running = rig.during(|| rig.start(0));
    running.stop();
    rig.judge();
    let topic = rig.world.topics().events;
    let mut events = Reader::committed(&rig.world).read(&topic);
    let index = usize::try_from(run.count(7_000, 100..15_000)).expect("an index");
    let changed = events.get_mut(index).expect("that many events");
    let place = (changed.partition, changed.offset);
    let value = changed.value.as_mut().expect("a value");
    let at = value.len() - 3;
    value[at] ^= 1;
    run.inject();
    write_again(&rig.world, &topic, &events);
    let verified = rig.world.output(&["verify", "-o", "json"]);
    assert_eq!(verified.status.code(), Some(1), "{}", text(&verified));
    let told: Vec<Value> = serde_json::from_slice(&verified.stdout).expect("JSON");
    let different: Vec<&Value> = told.iter().filter(|task| !task["difference"].is_null()).collect();
    assert_eq!(different.len(), 1, "{different:?}");
    assert_eq!(different[0]["task"], format!("session/{}", place.0));
    let words = different[0]["difference"]["words"].as_str().expect("words");
    let numbers: Vec<i64> =
        words.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    assert!(matches!(numbers[..], [_, first, last] if first <= place.1 && place.1 <= last), "{place:?}: {words}");
    run.fired();
}

/// The same topic, offsets, times and keys, with these records.
fn write_again(world: &World, topic: &str, records: &[Record]) {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &world.bootstrap).create().expect("an admin client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = AdminOptions::new().operation_timeout(Some(SOON));
    runtime.block_on(admin.delete_topics(&[topic], &options)).expect("deleted");
    let new = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1)).set("message.timestamp.type", "CreateTime");
    child::wait_for("the topic of the same name", SOON, || {
        let made = runtime.block_on(admin.create_topics([&new], &options)).expect("an answer");
        made.iter().all(Result::is_ok).then_some(())
    });
    let producer = world.producer();
    for (number, record) in records.iter().enumerate() {
        // The whole input of a large run is more than a client's queue holds.
        if number % 10_000 == 9_999 {
            producer.flush(SOON).expect("delivered");
        }
        let mut again: BaseRecord<'_, [u8], [u8]> =
            BaseRecord::to(topic).partition(record.partition).timestamp(record.at_ms);
        if let Some(key) = &record.key {
            again = again.key(key);
        }
        if let Some(value) = &record.value {
            again = again.payload(value);
        }
        producer.send(again).map_err(|(error, _)| error).expect("queued");
    }
    producer.flush(SOON).expect("delivered");
    let written = Reader::committed(world).read(topic);
    let places = |records: &[Record]| -> Vec<(i32, i64, i64)> {
        records.iter().map(|record| (record.partition, record.offset, record.at_ms)).collect()
    };
    assert_eq!(places(&written), places(records), "the copy stands elsewhere");
}

/// Bytes of local stores change behind the back of a killed process: they are set aside, and the changelog is read.
pub fn damaged_stores(run: &mut Run) {
    let rig = Rig::new(run, "damaged");
    let second = rig.during(|| {
        let first = rig.start(0);
        rig.wait_for_overrides(rig.load.failing.len() / 3);
        // Stores are behind by a second or so.
        std::thread::sleep(Duration::from_millis(1_500));
        first.kill9();
        run.inject();
        let stores = rig.world.folder.path().join("data-0/store");
        let mut damaged = 0;
        for file in files(&stores) {
            let mut bytes = fs::read(&file).expect("a file of a store");
            if bytes.len() < 64 {
                continue;
            }
            let at = usize::try_from(run.random.within(0..bytes.len() as u64)).expect("an index");
            let end = (at + 512).min(bytes.len());
            for byte in &mut bytes[at..end] {
                *byte ^= 0x5a;
            }
            fs::write(&file, bytes).expect("written");
            damaged += 1;
        }
        assert!(damaged > 0, "no store in {}", stores.display());
        let second = rig.start(0);
        child::wait_for("a store set aside", PATIENCE, || second.log().contains("is set aside").then_some(()));
        run.fired();
        second
    });
    second.stop();
    rig.judge();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}
