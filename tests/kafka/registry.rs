//! `reflex registry`: a version and its activation are one transaction, and the topic says what is active.

use std::fs;

use serde_json::Value;

use super::world::{PARTITIONS, Read1, World, text};

const SIGNAL: &str = "[[signal]]\ncode = \"a\"\nowner = \"team\"\nmatch = { node = \"n\" }\n";

struct Folder<'a> {
    world: &'a World,
    path: String,
}

impl<'a> Folder<'a> {
    fn new(world: &'a World, name: &str, toml: &str) -> Self {
        let path = world.folder.path().join(name);
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("a.toml"), toml).expect("written");
        Self { world, path: path.display().to_string() }
    }

    fn reflex(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.world.output(&[&["registry"], arguments, &["--registry", &self.path]].concat());
        (output.status.code(), text(&output))
    }

    fn push(&self) -> Value {
        let (code, said) = self.reflex(&["push", "--reason", "because", "--author", "ann", "-o", "json"]);
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_str(&said).expect("JSON")
    }
}

/// Commands on both topics, by topic.
fn commands(world: &World) -> [Vec<Read1>; 2] {
    [world.read(&world.topics().session_commands), world.read(&world.topics().commands)]
}

fn versions(world: &World) -> Vec<Value> {
    let listed = world.output(&["registry", "list", "-o", "json"]);
    assert_eq!(listed.status.code(), Some(0), "{}", text(&listed));
    serde_json::from_slice::<Vec<Value>>(&listed.stdout).expect("JSON")
}

#[test]
fn a_push_reaches_every_task_once_and_the_last_version_is_active() {
    let world = World::new("registry");
    let first = Folder::new(&world, "first", SIGNAL);
    let second = Folder::new(&world, "second", &SIGNAL.replace("\"n\"", "\"m\""));
    let (code, said) = first.reflex(&["diff"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("+ signal a"), "{said}");

    let pushed = first.push();
    assert_eq!((&pushed["activated"], &pushed["tasks"]), (&Value::Bool(true), &Value::from(2 * PARTITIONS)));
    let hash = pushed["version"].as_str().expect("a version").to_owned();
    for (records, topic) in commands(&world).iter().zip(["session-commands", "commands"]) {
        let partitions: Vec<i32> = records.iter().map(|record| record.partition).collect();
        assert_eq!(partitions, [0, 1, 2], "{topic}: one a task");
        for record in records {
            let command = record.json();
            assert_eq!((&command["verb"], &command["target"]), (&Value::from("activate"), &Value::from(hash.as_str())));
            assert_eq!((&command["author"], &command["reason"]), (&Value::from("ann"), &Value::from("because")));
            assert_eq!(record.key.as_deref(), Some(&b"registry"[..]));
        }
    }
    assert_eq!(first.push()["activated"], false, "it is active already");
    for records in commands(&world) {
        let ids: std::collections::BTreeSet<String> =
            records.iter().map(|record| record.json()["command_id"].to_string()).collect();
        assert_eq!((records.len(), ids.len()), (6, 1), "the same command again: who had it does nothing");
    }
    assert_eq!(first.reflex(&["diff"]).0, Some(0));
    let (code, said) = second.reflex(&["diff"]);
    assert_eq!((code, said.contains("~ signal a: matches.node: \"n\" -> \"m\"")), (Some(1), true), "{said}");

    second.push();
    let (code, said) = first.reflex(&["activate", &hash[..8], "--reason", "back", "--author", "bo"]);
    assert_eq!(code, Some(0), "{said}");
    let listed = versions(&world);
    assert_eq!(listed.len(), 2);
    assert_eq!((&listed[1]["version"], &listed[1]["active"]), (&Value::from(hash.as_str()), &Value::Bool(true)));
    assert_eq!((&listed[1]["author"], &listed[1]["reason"]), (&Value::from("bo"), &Value::from("back")));
    let ids: Vec<String> = commands(&world)[0]
        .iter()
        .filter(|record| record.partition == 0)
        .map(|record| record.json()["command_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 4);
    assert_eq!(ids[0], ids[1], "the same one again");
    assert!(ids[0] != ids[3], "an activation of its own, though of the same version");
    let (code, shown) = first.reflex(&["show", &hash]);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON")["signals"][0]["code"], "a");
}

#[test]
fn bad_input_has_its_exit_code_and_writes_nothing() {
    let world = World::new("registry-bad");
    let folder = Folder::new(&world, "folder", SIGNAL);
    let broken = Folder::new(&world, "broken", "[[signal]]\ncode = 5\n");
    let said = |folder: &Folder<'_>, arguments: &[&str], code: i32| {
        let (ended, said) = folder.reflex(arguments);
        assert_eq!(ended, Some(code), "{arguments:?}: {said}");
        said
    };
    assert!(said(&folder, &["push", "--reason", " "], 64).contains("--reason: it must not be empty"));
    said(&folder, &["push"], 64);
    said(&folder, &["push", "--reason", "r", "--author", ""], 64);
    said(&folder, &["push", "--reason", "r", "--author", "a", "--deny-warnings"], 78);
    said(&broken, &["push", "--reason", "r", "--author", "a"], 78);
    said(&broken, &["diff"], 78);
    said(&broken, &["lint"], 78);
    said(&folder, &["lint"], 0);
    said(&folder, &["lint", "--deny-warnings"], 78);
    for verb in [&["show", "0123456789"][..], &["activate", "0123456789", "--reason", "r", "--author", "a"]] {
        assert!(said(&folder, verb, 66).contains("0123456789: no such version"));
    }
    assert_eq!(commands(&world).concat().len(), 0);
    assert_eq!(versions(&world).len(), 0);

    let bare = World::bare("registry-bare");
    let folder = Folder::new(&bare, "folder", SIGNAL);
    assert!(said(&folder, &["push", "--reason", "r", "--author", "a"], 69).contains("does not exist"));
    let nobody = World::on("127.0.0.1:9", "registry-nobody");
    let folder = Folder::new(&nobody, "folder", SIGNAL);
    for verb in [&["diff"][..], &["list"], &["push", "--reason", "r", "--author", "a"]] {
        let said = said(&folder, &[verb, &["--set", "broker_timeout_ms=2000"]].concat(), 69);
        assert!(said.contains("no broker at 127.0.0.1:9 answered within 2000 ms"), "{said}");
    }
}
