//! Verbs that decide: what is sent, to whom, and what is told of it.

use serde_json::Value;

use super::world::{World, story, text};

#[test]
fn a_freeze_is_answered_by_every_task_and_stops_new_automation() {
    let world = World::new("freeze");
    let running = world.run(&[]);
    let frozen = world.output(&["freeze", "--reason", "a bad release", "--author", "ann"]);
    assert_eq!(frozen.status.code(), Some(0), "{}", text(&frozen));
    assert!(text(&frozen).contains("freeze *: done by 6 of 6 tasks"), "{}", text(&frozen));
    world.send_events(&story("sess-1"));
    world.wait_until_processed();
    assert_eq!(world.read(&world.topics().overrides).len(), 0, "frozen tasks publish no overrides");
    let thawed = world.output(&["unfreeze", "--reason", "fixed", "--author", "ann", "-o", "json"]);
    assert_eq!(thawed.status.code(), Some(0), "{}", text(&thawed));
    let told: Value = serde_json::from_slice(&thawed.stdout).expect("JSON");
    assert_eq!(told["answers"].as_array().map(Vec::len), Some(6));
    assert!(told["answers"].as_array().expect("answers").iter().all(|answer| answer["outcome"] == "done"));
    world.send_events(&story("sess-2"));
    world.wait_for_records(&world.topics().overrides, 1);
    running.stop();
    for topic in [world.topics().session_commands, world.topics().commands] {
        let partitions: Vec<i32> = world.read(&topic).iter().map(|record| record.partition).collect();
        // The activation of the registry, a freeze, an unfreeze.
        assert_eq!(partitions, [0, 0, 0, 1, 1, 1, 2, 2, 2], "{topic}");
    }
}

#[test]
fn without_an_engine_a_freeze_is_sent_and_not_answered() {
    let world = World::new("freeze-alone");
    let sent = world.output(&["freeze", "--reason", "r", "--author", "ann", "--no-wait"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent));
    assert!(text(&sent).contains("sent to 6 tasks"), "{}", text(&sent));
    let waited = world.output(&["freeze", "--reason", "r", "--author", "ann", "--wait", "1"]);
    assert_eq!(waited.status.code(), Some(75), "{}", text(&waited));
    assert!(text(&waited).contains("6 of 6 tasks have not answered within 1 s (fleet/0,"), "{}", text(&waited));
    for (arguments, code) in [(&["freeze"][..], 64), (&["freeze", "--reason", "", "--author", "ann"], 64)] {
        assert_eq!(world.output(arguments).status.code(), Some(code), "{arguments:?}");
    }
    let bare = World::bare("freeze-bare");
    assert_eq!(bare.output(&["freeze", "--reason", "r", "--author", "ann"]).status.code(), Some(69));
}

/// The shipped registry, with its signals proposing instead of acting.
pub fn proposing(world: &World) -> String {
    let folder = world.folder.path().join("proposing");
    std::fs::create_dir(&folder).expect("a folder");
    for entry in std::fs::read_dir("config/registry").expect("the registry") {
        let path = entry.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("text").replace("mode = \"act\"", "mode = \"propose\"");
        std::fs::write(folder.join(path.file_name().expect("a name")), text).expect("written");
    }
    folder.display().to_string()
}

#[test]
fn a_proposal_is_found_approved_and_its_override_lifted() {
    let world = World::new("decide");
    let registry = proposing(&world);
    let running = world.run(&["--registry", &registry]);
    world.send_events(&[story("sess-1"), story("sess-2")].concat());
    world.wait_for_records(&world.topics().interventions, 4);
    let ended = |arguments: &[&str], code: i32| {
        let output = world.output(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
        text(&output)
    };
    let waiting = |session: &str| {
        let listed =
            ended(&["interventions", "list", "--status", "awaiting_approval", "--session", session, "-o", "ndjson"], 0);
        let value: Value = serde_json::from_str(listed.trim()).expect("one");
        value["intervention_id"].as_str().expect("an id").to_owned()
    };
    let (first, second) = (waiting("sess-1"), waiting("sess-2"));
    let why = ["--reason", "looks right", "--author", "ann"];
    let approved = ended(&[&["interventions", "approve", &first][..], &why].concat(), 0);
    assert!(approved.contains("done by 1 of 1 tasks"), "{approved}");
    ended(&[&["interventions", "reject", &second][..], &why].concat(), 0);
    let shown: Value = serde_json::from_str(&ended(&["interventions", "show", &second], 0)).expect("JSON");
    assert_eq!(shown["status"], "rejected");
    let twice = ended(&[&["interventions", "approve", &first][..], &why].concat(), 65);
    assert!(twice.contains("is applied: only what is awaiting_approval"), "{twice}");

    let live = ended(&["overrides", "list", "--session", "sess-1", "-o", "json"], 0);
    let live: Value = serde_json::from_str(&live).expect("JSON");
    let id = live[0]["override_id"].as_str().expect("an id").to_owned();
    assert!(ended(&["overrides", "list"], 0).contains("sess-1"));
    assert!(ended(&["overrides", "show", &id], 0).contains(&id));
    ended(&["overrides", "lift", &id, "--author", "ann"], 64);
    ended(&[&["overrides", "lift", &id][..], &why].concat(), 0);
    assert_eq!(ended(&["overrides", "list"], 0), "nothing\n");
    let gone = ended(&[&["overrides", "lift", &id][..], &why].concat(), 66);
    assert!(gone.contains("no such override"), "{gone}");
    running.stop();
}

#[test]
fn an_override_is_ordered_for_a_cohort_survives_a_restart_and_is_lifted() {
    let world = World::new("order");
    let running = world.run(&[]);
    let ended = |arguments: &[&str], code: i32| {
        let output = world.output(&[arguments, &["--reason", "a bad release", "--author", "ann"]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
        text(&output)
    };
    let told =
        ended(&["overrides", "force", "refund_graph", "degraded_refund_graph:v1", "--where", "region=eu-west"], 0);
    assert!(told.contains("force refund_graph: done by 1 of 1 tasks"), "{told}");
    let whole = ended(&["overrides", "deny", "order_graph", "--ttl", "2s"], 0);
    assert!(whole.contains("deny order_graph: done by 1 of 1 tasks"), "{whole}");
    let refused = ended(&["overrides", "force", "refund_graph", "x:v1", "--ttl", "30days"], 1);
    assert!(refused.contains("limit:operator_override_ms_max: at most 604800000 ms = 7days"), "{refused}");
    ended(&["overrides", "force", "refund_graph"], 64);
    ended(&["overrides", "force", "refund_graph", "x:v1", "--where", "session_id=s"], 64);
    running.kill9();

    let running = world.run(&[]);
    let live = || -> Vec<Value> {
        let listed = world.output(&["overrides", "list", "-o", "json"]);
        serde_json::from_slice(&listed.stdout).expect("JSON")
    };
    crate::harness::child::wait_for("the short one to end", std::time::Duration::from_secs(30), || {
        (live().len() == 1).then_some(())
    });
    let one = &live()[0];
    assert_eq!((&one["mode"], &one["source"], &one["author"]), (&"force".into(), &"operator".into(), &"ann".into()));
    assert_eq!(one["scope"], serde_json::json!({"kind": "cohort", "region": "eu-west"}));
    let id = one["override_id"].as_str().expect("an id");
    ended(&["overrides", "lift", id], 0);
    assert_eq!(live().len(), 0);
    running.stop();
    let verified = world.output(&["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified));
}

#[test]
fn the_trail_of_a_session_and_what_a_runtime_would_be_told_are_shown() {
    let world = World::new("trail");
    let running = world.run(&[]);
    world.send_events(&[story("sess-1"), story("sess-2")].concat());
    world.wait_for_records(&world.topics().overrides, 2);
    let json = |arguments: &[&str]| -> Value {
        let output = world.output(&[arguments, &["-o", "json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let states = |trail: &Value| -> Vec<(String, String)> {
        let field = |record: &Value, name: &str| record[name].as_str().expect("a word").to_owned();
        let records = trail.as_array().expect("records").iter();
        records.map(|record| (field(record, "entity"), field(record, "to"))).collect()
    };
    let one = json(&["audit", "list", "--session", "sess-1", "--graph", "refund_graph"]);
    let expected = [
        ("intervention", "pending"),
        ("intervention", "provisioning"),
        ("override", "active"),
        ("intervention", "applied"),
    ];
    assert_eq!(states(&one), expected.map(|(entity, to)| (entity.to_owned(), to.to_owned())));
    assert_eq!(json(&["audit", "list", "--session", "sess-3"]), Value::Array(Vec::new()));
    let all = json(&["audit", "list"]);
    let count = |entity: &str| states(&all).iter().filter(|(found, _)| found == entity).count();
    // Each task activated the registry.
    assert_eq!((count("registry"), count("intervention"), count("override")), (6, 6, 2), "{all}");
    assert_eq!(json(&["audit", "list", "--entity", "override"]).as_array().map(Vec::len), Some(2));
    let latest = json(&["audit", "list", "--session", "sess-1", "--limit", "1"]);
    assert_eq!(states(&latest), [("intervention".to_owned(), "applied".to_owned())]);
    let table = text(&world.output(&["audit", "list", "--session", "sess-2"]));
    assert!(table.contains("sess-2") && !table.contains("sess-1"), "{table}");
    assert_eq!(json(&["escalations", "list", "--graph", "refund_graph"]), Value::Array(Vec::new()));
    assert_eq!(world.output(&["escalations", "show", "esc_none"]).status.code(), Some(66));

    let told = |session: &str| {
        let session = format!("session_id={session}");
        json(&["resolve", "refund_graph", "--context", &session, "tenant=t-7", "graph_version=v1"])
    };
    let tenant = json(&["overrides", "list", "--session", "sess-1"])[0]["tenant"].clone();
    assert!(tenant.is_null() || tenant == "t-7", "{tenant}");
    assert_eq!((&told("sess-1")["route"], &told("sess-3")["route"]), (&"degraded".into(), &"primary".into()));
    assert_eq!(told("sess-3")["schema_ref"], "refund_graph:v1");
    running.stop();
}

#[test]
fn escalations_are_listed_and_shown() {
    let world = World::new("escalations");
    let running = world.run(&[]);
    world.send_events(&story("sess-1"));
    world.wait_for_records(&world.topics().overrides, 1);
    // A failure on the degraded route that nothing answers is a person's.
    let mut failed = story("sess-1").pop().expect("an event");
    for (name, value) in [
        ("event_id", "degraded-1"),
        ("route", "degraded"),
        ("node", "notify_customer"),
        ("schema_ref", "degraded_refund_graph:v1"),
    ] {
        failed[name] = value.into();
    }
    world.send_events(&[failed]);
    let raised = world.wait_for_records(&world.topics().escalations, 1)[0].json();
    let id = raised["escalation_id"].as_str().expect("an id");
    let listed = text(&world.output(&["escalations", "list", "--session", "sess-1"]));
    assert!(listed.contains(id), "{listed}");
    let shown = world.output(&["escalations", "show", id]);
    assert_eq!(serde_json::from_slice::<Value>(&shown.stdout).expect("JSON"), raised);
    let of_nobody = text(&world.output(&["escalations", "list", "--session", "sess-2"]));
    assert!(of_nobody.contains("nothing"), "{of_nobody}");
    let trail = text(&world.output(&["audit", "list", "--id", id]));
    assert!(trail.contains("sess-1"), "{trail}");
    running.stop();
}
