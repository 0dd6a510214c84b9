//! A running Kafka: started for one test, or shared by all tests of a process.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::EXTERNAL;
use super::jars::Kafka;
use super::keeper::{self, Keeper};
use super::ports::{self, Port};
use super::probe;
use super::settings;

const READY_WITHIN: Duration = Duration::from_mins(1);
const ASK_EVERY: Duration = Duration::from_millis(40);
const START_ATTEMPTS: usize = 3;
const LOG_LINES_SHOWN: usize = 30;

/// The heap a single node is happy with, and a JVM that starts soon on two cores. `REFLEX_TEST_JAVA_OPTIONS` (separated by
/// white space) comes after it and wins; a benchmark wants `-XX:TieredStopAtLevel=4`.
const JAVA_OPTIONS: [&str; 5] =
    ["-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"];

/// A Kafka to test against. Dropping it ends the process and removes the data; so does the end of the test process.
pub struct Broker {
    bootstrap: String,
    own: Option<Own>,
    shared: bool,
}

struct Own {
    process: Mutex<Process>,
    ports: [Port; 3],
    folder: PathBuf,
}

struct Process {
    keeper: Keeper,
    pid: u32,
}

impl Broker {
    /// Starts a broker of one's own and returns when it answers. `settings` are broker settings that win over the usual ones;
    /// values may hold `{port}`, `{controller}`, `{extra}` and `{folder}`. The client listener at `{port}` stays plaintext.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self, String> {
        let kafka = Kafka::installed()?;
        let mut attempt = 1;
        let own = loop {
            match Own::start(&kafka, settings) {
                Err(problem) if attempt < START_ATTEMPTS && problem.contains("Address already in use") => attempt += 1,
                result => break result?,
            }
        };
        Ok(Self { bootstrap: format!("127.0.0.1:{}", own.ports[0].number), own: Some(own), shared: false })
    }

    /// The broker that all tests of this process use: the cluster that `REFLEX_TEST_BOOTSTRAP_SERVERS` names, else one
    /// started by the first caller. Tests give their topics names of their own and never stop it.
    ///
    /// # Panics
    /// With what to install, or why the broker did not start.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<Broker, String>> = OnceLock::new();
        let broker = SHARED.get_or_init(|| match env::var(EXTERNAL) {
            Ok(bootstrap) if !bootstrap.is_empty() => Ok(Self { bootstrap, own: None, shared: true }),
            _ => Self::start(&[]).map(|broker| Self { shared: true, ..broker }),
        });
        broker.as_ref().unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// For the client setting `bootstrap.servers`.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Where a listener at `{extra}` is reached, if `settings` made one.
    pub fn extra_address(&self) -> String {
        format!("127.0.0.1:{}", self.own("has no extra listener").ports[2].number)
    }

    /// The broker's folder: `server.properties`, `broker.log` (errors only), `data`.
    pub fn folder(&self) -> &Path {
        &self.own("has no folder here").folder
    }

    pub fn pid(&self) -> u32 {
        self.own("has no process here").process().pid
    }

    /// A crash: SIGKILL. Returns when the process is gone.
    pub fn kill9(&self) {
        let own = self.own_alone("be killed");
        own.process().keeper.kill().unwrap_or_else(|problem| panic!("{problem}"));
    }

    /// Starts it again, same ports, same data, after `kill9` or as a crash of its own, and returns when it answers. Takes
    /// two seconds more than a first start: the controller waits until the session of the dead broker is over.
    pub fn restart(&self) {
        let own = self.own_alone("be restarted");
        own.run().unwrap_or_else(|problem| panic!("{problem}"));
    }

    /// Runs a tool class of the distribution with `--bootstrap-server` and `arguments`; its standard output.
    pub fn tool(&self, class: &str, arguments: &[&str]) -> Result<String, String> {
        Kafka::installed()?.tool(class, &[&["--bootstrap-server", self.bootstrap()], arguments].concat())
    }

    fn own_alone(&self, what: &str) -> &Own {
        assert!(
            !self.shared,
            "the shared Kafka at {} must not {what}: start one with harness::broker()",
            self.bootstrap
        );
        self.own(what)
    }

    fn own(&self, why: &str) -> &Own {
        let own = self.own.as_ref();
        own.unwrap_or_else(|| panic!("the Kafka at {} was not started by this test ({why})", self.bootstrap))
    }
}

impl Own {
    fn start(kafka: &Kafka, own_settings: &[(&str, &str)]) -> Result<Self, String> {
        let ports = ports::reserve(&kafka.folder.join("ports"))?;
        let folder = env::temp_dir().join(format!("reflex-kafka-{:016x}", ports::random()));
        let problem = |error| format!("{}: {error}", folder.display());
        let file = folder.join("server.properties");
        let mut command = vec![kafka.java.clone().into_os_string()];
        let more = env::var("REFLEX_TEST_JAVA_OPTIONS").unwrap_or_default();
        let options: Vec<&str> = JAVA_OPTIONS.into_iter().chain(more.split_whitespace()).collect();
        command.extend(kafka.class(&options, "kafka.Kafka"));
        command.push(file.clone().into());
        let keeper = Keeper::new(&folder, &command)?;
        let numbers = [ports[0].number, ports[1].number, ports[2].number];
        fs::write(&file, settings::render(&folder, numbers, own_settings)).map_err(problem)?;
        settings::format(kafka, &folder).map_err(problem)?;
        let own = Self { process: Mutex::new(Process { keeper, pid: 0 }), ports, folder };
        own.run()?;
        Ok(own)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) -> Result<(), String> {
        let mut process = self.process();
        process.pid = process.keeper.start()?;
        let started = Instant::now();
        while !probe::answers(self.ports[0].number) {
            if keeper::has_ended(process.pid) {
                return Err(format!("the broker ended while starting; its log:\n{}", self.end_of_log()));
            }
            if started.elapsed() > READY_WITHIN {
                return Err(format!("no answer within {READY_WITHIN:?}; the broker's log:\n{}", self.end_of_log()));
            }
            std::thread::sleep(ASK_EVERY);
        }
        Ok(())
    }

    fn end_of_log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("broker.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}
