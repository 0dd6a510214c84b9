//! What `run` refuses at the start, and how it says so.

use std::process::Output;
use std::time::{Duration, Instant};

use super::world::{PARTITIONS, World, text};
use crate::harness::Broker;

fn refused(world: &World, arguments: &[&str]) -> (Option<i32>, String) {
    let output: Output = world.output(&[&["run"], arguments].concat());
    (output.status.code(), text(&output))
}

#[test]
fn without_a_broker_it_says_so_in_time() {
    let world = World::on("127.0.0.1:9", "nobody");
    let started = Instant::now();
    let (code, text) = refused(&world, &["--set", "broker_timeout_ms=3000"]);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("error: no broker at 127.0.0.1:9 answered within 3000 ms"), "{text}");
}

#[test]
fn missing_topics_are_named_with_what_creates_them() {
    let world = World::bare("missing");
    let (code, text) = refused(&world, &[]);
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("17 topics do not exist"), "{text}");
    for topic in [world.topics().events, world.topics().registry, world.topics().tape_fleet] {
        assert!(text.contains(&format!(" {topic},")), "{topic}: {text}");
    }
    assert!(text.contains("reflex topics apply"), "{text}");
}

#[test]
fn inputs_that_differ_in_partitions_or_are_not_stamped_by_the_broker_are_refused() {
    let world = World::new("shape");
    let topics = world.topics();
    let tool = |class: &str, arguments: &[&str]| Broker::shared().tool(class, arguments).expect("the tool works");
    let configs = "kafka.admin.ConfigCommand";
    let entity = ["--alter", "--entity-type", "topics", "--entity-name", topics.events.as_str(), "--add-config"];
    tool(configs, &[&entity[..], &["message.timestamp.type=CreateTime"]].concat());
    let (code, said) = refused(&world, &[]);
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains(&format!("topic {} has message.timestamp.type=CreateTime", topics.events)), "{said}");
    let applied = world.output(&["topics", "apply", "--dev"]);
    assert!(applied.status.success(), "{}", text(&applied));

    let more = (PARTITIONS + 1).to_string();
    let grow = ["--alter", "--topic", topics.session_commands.as_str(), "--partitions", &more];
    tool("org.apache.kafka.tools.TopicCommand", &grow);
    let (code, said) = refused(&world, &[]);
    assert_eq!(code, Some(78), "{said}");
    assert!(
        said.contains(&format!("{} has 3 partitions and {} has 4", topics.events, topics.session_commands)),
        "{said}"
    );
}

#[test]
fn pinned_properties_and_unknown_settings_are_configuration_errors() {
    let world = World::bare("pinned");
    let (code, text) = refused(&world, &["--set", "kafka.isolation.level=read_uncommitted"]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("aborted records must never be read"), "{text}");
    let (code, text) = refused(&world, &["--set", "kafka.no.such.property=hunter2"]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("no.such.property") && !text.contains("hunter2"), "{text}");
    assert_eq!(world.output(&["no-such-verb"]).status.code(), Some(64));
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let world = World::new("locked");
    let running = world.run(&[]);
    let (code, text) = refused(&world, &[]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("is in use by another process"), "{text}");
    running.stop();
}
