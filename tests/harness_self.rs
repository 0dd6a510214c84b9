//! The harness tested on itself: brokers start, crash, come back, and none outlives its test process.

#![allow(clippy::disallowed_methods, reason = "real processes need the real clock")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests are tests")]

mod harness;

use std::env;
use std::fs;
use std::net::TcpStream;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use harness::keeper::{self, Keeper};
use harness::{Broker, child, jars, ports};

const TOPICS: &str = "org.apache.kafka.tools.TopicCommand";
const CLUSTER: &str = "org.apache.kafka.tools.ClusterTool";
const SOON: Duration = Duration::from_mins(1);

#[test]
fn starts_and_answers() {
    let kafka = Broker::shared();
    let topic = format!("starts-{:016x}", ports::random());
    kafka.tool(TOPICS, &["--create", "--topic", &topic, "--partitions", "3"]).unwrap();
    let described = kafka.tool(TOPICS, &["--describe", "--topic", &topic]).unwrap();
    assert!(described.contains("PartitionCount: 3"), "{described}");
    let refused = kafka.tool(TOPICS, &["--describe", "--topic", "never-made"]).unwrap_err();
    assert!(refused.contains("never-made"), "{refused}");
    let stopped = panic::catch_unwind(AssertUnwindSafe(|| kafka.kill9()));
    assert!(stopped.is_err(), "the shared broker serves other tests too");
}

#[test]
fn crash_and_restart_keep_port_and_data() {
    let kafka = harness::broker();
    kafka.tool(TOPICS, &["--create", "--topic", "kept"]).unwrap();
    let (address, pid, cluster) = (kafka.bootstrap().to_owned(), kafka.pid(), cluster_id(&kafka));
    kafka.kill9();
    assert!(keeper::has_ended(pid));
    assert!(TcpStream::connect(&address).is_err(), "nothing listens after a crash");
    kafka.kill9();
    kafka.restart();
    assert_eq!(kafka.bootstrap(), address);
    assert_ne!(kafka.pid(), pid);
    assert_eq!(kafka.tool(TOPICS, &["--list"]).unwrap().trim(), "kept");
    assert_eq!(cluster_id(&kafka), cluster);
    let second = kafka.pid();
    kafka.restart();
    assert!(keeper::has_ended(second), "restart of a running broker is a crash and a start");
    assert_eq!(kafka.tool(TOPICS, &["--list"]).unwrap().trim(), "kept");
}

#[test]
fn two_brokers_side_by_side() {
    let (one, two) = (harness::broker(), harness::broker());
    assert_ne!(one.bootstrap(), two.bootstrap());
    assert_ne!(cluster_id(&one), cluster_id(&two));
    one.tool(TOPICS, &["--create", "--topic", "only-in-one"]).unwrap();
    assert_eq!(two.tool(TOPICS, &["--list"]).unwrap().trim(), "");
    let (pid, folder) = (one.pid(), one.folder().to_owned());
    drop(one);
    assert!(keeper::has_ended(pid), "drop returns when the broker is gone");
    assert!(!folder.exists(), "and so are its data");
    assert_eq!(two.tool(TOPICS, &["--list"]).unwrap().trim(), "");
}

/// A password listener beside the plain one, as tests of security settings need it.
#[test]
fn own_settings_win_and_take_an_extra_listener() {
    const JAAS: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    let users = format!(r#"{JAAS} user_reflex="secret";"#);
    let kafka = Broker::start(&[
        ("num.partitions", "7"),
        (
            "listeners",
            "PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{extra},CONTROLLER://127.0.0.1:{controller}",
        ),
        ("advertised.listeners", "PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{extra}"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.sasl_plaintext.plain.sasl.jaas.config", &users),
    ])
    .unwrap();
    kafka.tool(TOPICS, &["--create", "--topic", "seven"]).unwrap();
    for (password, accepted) in [("secret", true), ("wrong", false)] {
        let client = kafka.folder().join("client.properties");
        let login = format!(r#"sasl.jaas.config={JAAS} username="reflex" password="{password}";"#);
        fs::write(&client, format!("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{login}\n")).unwrap();
        let address = kafka.extra_address();
        let arguments = ["--bootstrap-server", &address, "--command-config", client.to_str().unwrap(), "--describe"];
        let described = harness::tool(TOPICS, &arguments);
        assert_eq!(described.is_ok_and(|topics| topics.contains("PartitionCount: 7")), accepted, "{password}");
    }
}

#[test]
fn a_broker_that_does_not_start_says_why() {
    let problem = Broker::start(&[("broker.heartbeat.interval.ms", "soon")]).map(drop).unwrap_err();
    assert!(problem.contains("broker.heartbeat.interval.ms"), "{problem}");
}

#[test]
fn killed_test_process_leaves_no_broker() {
    let mut process = child::Process::spawn("child_with_broker_and_bystander", &[]);
    let [broker, bystander] = process.told();
    assert!(!keeper::has_ended(broker));
    let note = process.file.with_extension("folder");
    let folder = fs::read_to_string(&note).unwrap();
    process.kill9();
    child::wait_until_gone(broker);
    assert!(!keeper::has_ended(bystander), "another child of the dead test process lives and holds no pipe");
    child::wait_for("the end of the data", SOON, || (!Path::new(&folder).exists()).then_some(()));
    Command::new("sh").args(["-c", r#"kill "$0""#]).arg(bystander.to_string()).status().unwrap();
    fs::remove_file(note).unwrap();
}

#[test]
fn killed_test_process_leaves_no_tool() {
    let mut process = child::Process::spawn("child_with_endless_tool", &[]);
    let [broker] = process.told();
    let tool = child::wait_for("the tool", SOON, || child::java_running(&process.file));
    process.kill9();
    child::wait_until_gone(tool);
    child::wait_until_gone(broker);
}

/// The shared broker sits in a static, which Rust never drops.
#[test]
fn ended_test_process_leaves_no_shared_broker() {
    let mut process = child::Process::spawn("child_with_shared_broker", &[]);
    let [broker] = process.told();
    assert!(process.output().unwrap().status.success());
    child::wait_until_gone(broker);
}

#[test]
fn without_java_one_sentence_says_what_to_install() {
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-such-folder");
    let environment = [("PATH", nowhere.to_str().unwrap()), ("JAVA_HOME", "")];
    let output = child::Process::spawn("child_with_shared_broker", &environment).output().unwrap();
    assert!(!output.status.success(), "a missing Java fails the test, it does not skip it");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(jars::MISSING), "{told}");
}

#[test]
fn a_named_cluster_is_used_and_never_stopped() {
    let environment = [(harness::EXTERNAL, "127.0.0.1:9")];
    let output = child::Process::spawn("child_with_named_cluster", &environment).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn java_versions_are_read() {
    assert_eq!(jars::major("openjdk version \"17.0.15\" 2025-04-15"), Some(17));
    assert_eq!(jars::major("openjdk version \"25\" 2025-09-16"), Some(25));
    assert_eq!(jars::major("openjdk version \"26-ea\" 2026-03-17"), Some(26));
    assert_eq!(jars::major("java version \"1.8.0_452\""), Some(1));
    assert_eq!(jars::major("no such thing"), None);
}

#[test]
fn ports_are_reserved_once() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ports-of-a-test");
    let held: Vec<_> = (0..40).map(|_| ports::reserve::<3>(&folder).unwrap()).collect();
    let mut numbers: Vec<u16> = held.iter().flatten().map(|port| port.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 120);
    fs::remove_dir_all(folder).unwrap();
}

/// The keeper must do its work also when the test process died between an order and its answer.
#[test]
fn keeper_ends_its_command_when_nobody_reads_the_answer() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("keeper-{:016x}", ports::random()));
    let script = include_str!("harness/keeper.sh");
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "keeper"]).arg(&folder).args(["sh", "-c", r#"echo $$ >"$0"; exec sleep 300"#]);
    let pid_file = folder.with_extension("pid");
    let mut shell =
        shell.arg(&pid_file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(shell.stdout.take());
    let mut orders = shell.stdin.take().unwrap();
    std::io::Write::write_all(&mut orders, b"start\n").unwrap();
    let told = child::wait_for("the process id", SOON, || {
        fs::read_to_string(&pid_file).ok().filter(|told| told.ends_with('\n'))
    });
    let sleeper = told.trim().parse().unwrap();
    drop(orders);
    shell.wait().unwrap();
    assert!(keeper::has_ended(sleeper));
    assert!(!folder.exists());
    fs::remove_file(pid_file).unwrap();
}

/// The kernel's out-of-memory killer may choose the keeper; `setpriv` (util-linux) makes its command go with it.
#[test]
fn killed_keeper_leaves_no_command() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("keeper-{:016x}", ports::random()));
    let mut keeper = Keeper::new(&folder, &["sleep".into(), "300".into()]).unwrap();
    let sleeper = keeper.start().unwrap();
    let status = child::wait_for("setpriv to become sleep", SOON, || {
        fs::read_to_string(format!("/proc/{sleeper}/status")).ok().filter(|status| status.starts_with("Name:\tsleep"))
    });
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    Command::new("sh").args(["-c", r#"kill -KILL "$0""#, parent.trim()]).status().unwrap();
    child::wait_until_gone(sleeper);
    assert!(keeper.start().unwrap_err().contains("is gone"));
    drop(keeper);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn output_gives_back_outputs_and_exit_code() {
    let arguments = ["-c", "echo told; echo complained >&2; exit 7"].map(Into::into);
    let output = keeper::output("sh".as_ref(), &arguments).unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"told\n"[..], &b"complained\n"[..]));
}

#[test]
fn keeper_starts_and_kills_again_and_again() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("keeper-{:016x}", ports::random()));
    let mut keeper = Keeper::new(&folder, &["sleep".into(), "300".into()]).unwrap();
    for _ in 0..3 {
        let first = keeper.start().unwrap();
        assert!(!keeper::has_ended(first));
        let second = keeper.start().unwrap();
        assert!(keeper::has_ended(first));
        keeper.kill().unwrap();
        assert!(keeper::has_ended(second));
    }
    let last = keeper.start().unwrap();
    drop(keeper);
    assert!(keeper::has_ended(last));
    assert!(!folder.exists());
}

#[test]
#[ignore = "played by killed_test_process_leaves_no_broker"]
fn child_with_broker_and_bystander() {
    let Some(file) = child::file() else { return };
    // As in a test: the thread that starts the broker ends long before the process does.
    let kafka = thread::spawn(harness::broker).join().unwrap();
    let mut bystander = Command::new("sleep");
    bystander.arg("90").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut bystander = bystander.spawn().unwrap();
    fs::write(file.with_extension("folder"), kafka.folder().to_str().unwrap()).unwrap();
    child::tell(&file, &[kafka.pid(), bystander.id()]);
    bystander.wait().unwrap();
}

#[test]
#[ignore = "played by killed_test_process_leaves_no_tool"]
fn child_with_endless_tool() {
    let Some(file) = child::file() else { return };
    let kafka = harness::broker();
    kafka.tool(TOPICS, &["--create", "--topic", "silent"]).unwrap();
    child::tell(&file, &[kafka.pid()]);
    let endless = ["--topic", "silent", "--group", file.to_str().unwrap()];
    kafka.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &endless).unwrap();
}

#[test]
#[ignore = "played by ended_test_process_leaves_no_shared_broker"]
fn child_with_shared_broker() {
    let Some(file) = child::file() else { return };
    child::tell(&file, &[Broker::shared().pid()]);
}

#[test]
#[ignore = "played by a_named_cluster_is_used_and_never_stopped"]
fn child_with_named_cluster() {
    let Some(_) = child::file() else { return };
    let kafka = Broker::shared();
    assert_eq!(kafka.bootstrap(), "127.0.0.1:9");
    for stop in [Broker::kill9, Broker::restart] {
        let panicked = panic::catch_unwind(AssertUnwindSafe(|| stop(kafka))).unwrap_err();
        let said = panicked.downcast::<String>().unwrap();
        assert!(said.contains("127.0.0.1:9") && said.contains("harness::broker()"), "{said}");
    }
}

fn cluster_id(kafka: &Broker) -> String {
    let arguments = ["cluster-id", "--bootstrap-server", kafka.bootstrap()];
    harness::tool(CLUSTER, &arguments).unwrap()
}
