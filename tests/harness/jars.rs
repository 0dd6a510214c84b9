//! The Kafka distribution of the tests: jars from Maven Central, installed once per target directory.
//!
//! Invariant: without Java or Maven there is one sentence that says what to install, and no skipped test
//! (`harness_self.rs`, `without_java_one_sentence_says_what_to_install`).

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::keeper;
use super::settings;

pub const MISSING: &str = "the tests on real Kafka need JDK 17 or newer and Maven: install them \
    (Debian: apt-get install openjdk-17-jdk-headless maven) or set REFLEX_TEST_BOOTSTRAP_SERVERS";

const POM: &str = include_str!("pom.xml");
const JAVA_MAJOR_MIN: u32 = 17;
const TOOL_HEAP: &str = "-Xmx256m";
const LOG_ERRORS_ONLY: &str = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error";

/// An installed Kafka.
#[derive(Clone)]
pub struct Kafka {
    pub java: PathBuf,
    /// Below the target directory; holds the jars, the lock files of ports and the formatted storage.
    pub folder: PathBuf,
}

impl Kafka {
    /// The one of this target directory; the first caller installs it, others wait, in this process and beside it.
    pub fn installed() -> Result<Self, String> {
        static INSTALLED: OnceLock<Result<Kafka, String>> = OnceLock::new();
        INSTALLED.get_or_init(install).clone()
    }

    /// The command line of a class of the distribution, without the program.
    pub fn class(&self, java_options: &[&str], class: &str) -> Vec<OsString> {
        let mut line: Vec<OsString> = java_options.iter().map(OsString::from).collect();
        line.extend([LOG_ERRORS_ONLY.into(), "-cp".into(), self.folder.join("jars").join("*").into(), class.into()]);
        line
    }

    /// Runs a tool of the distribution; its standard output, or an error that holds both outputs.
    pub fn tool(&self, class: &str, arguments: &[&str]) -> Result<String, String> {
        let mut line = self.class(&[TOOL_HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"], class);
        line.extend(arguments.iter().map(OsString::from));
        run(&self.java, &line).map_err(|problem| format!("{class} {}: {problem}", arguments.join(" ")))
    }

    /// A storage folder as the storage tool formats it; a broker gets a copy with ids of its own.
    pub fn formatted(&self) -> PathBuf {
        self.folder.join("formatted")
    }

    fn format(&self) -> Result<(), String> {
        let folder = self.formatted();
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let file = folder.join("server.properties");
        let written = settings::render(&folder, [9092, 9093, 9094], &[]);
        fs::write(&file, written).map_err(|error| format!("{}: {error}", file.display()))?;
        let id = settings::random_id();
        let arguments = ["format", "-t", &id, "-c", file.to_str().ok_or("the target directory is not UTF-8")?];
        self.tool("kafka.tools.StorageTool", &arguments).map(drop)
    }
}

fn install() -> Result<Kafka, String> {
    let kafka =
        Kafka { java: java().ok_or_else(missing)?, folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("kafka") };
    let problem = |error| format!("cannot install Kafka into {}: {error}", kafka.folder.display());
    fs::create_dir_all(&kafka.folder).map_err(problem)?;
    let lock = File::create(kafka.folder.join("lock")).map_err(problem)?;
    lock.lock().map_err(problem)?;
    let complete = kafka.folder.join(".complete");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == POM) {
        return Ok(kafka);
    }
    let maven = find("mvn", &env::var_os("PATH").unwrap_or_default()).ok_or_else(missing)?;
    let (jars, pom) = (kafka.folder.join("jars"), kafka.folder.join("pom.xml"));
    for left_over in [&jars, &kafka.formatted()] {
        let _ = fs::remove_dir_all(left_over);
    }
    fs::write(&pom, POM).map_err(problem)?;
    let mut line: Vec<OsString> = ["-q", "-B", "-Dstyle.color=never", "-f"].map(OsString::from).into();
    line.extend([pom.into_os_string(), "dependency:copy-dependencies".into(), "-DincludeScope=runtime".into()]);
    let mut target = OsString::from("-DoutputDirectory=");
    target.push(&jars);
    line.push(target);
    run(&maven, &line).map_err(|problem| format!("Maven did not install Kafka: {problem}"))?;
    kafka.format()?;
    fs::write(&complete, POM).map_err(problem)?;
    Ok(kafka)
}

/// Where a cluster was named already, naming one is no advice.
fn missing() -> String {
    match env::var_os(super::EXTERNAL) {
        None => MISSING.to_owned(),
        Some(_) => MISSING.replace(" or set REFLEX_TEST_BOOTSTRAP_SERVERS", ""),
    }
}

/// `JAVA_HOME` before `PATH`, as Maven does it.
fn java() -> Option<PathBuf> {
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let java = home.and_then(|bin| find("java", bin.as_os_str()));
    let java = java.or_else(|| find("java", &env::var_os("PATH").unwrap_or_default()))?;
    let output = keeper::output(java.as_os_str(), &["-version".into()]).ok()?;
    major(&String::from_utf8_lossy(&output.stderr)).filter(|major| *major >= JAVA_MAJOR_MIN).map(|_| java)
}

/// The major version in the output of `java -version`: `"17.0.15"` is 17, `"25"` is 25, `"1.8.0_452"` is 1.
pub fn major(version_output: &str) -> Option<u32> {
    let version = version_output.split('"').nth(1)?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn run(program: &Path, arguments: &[OsString]) -> Result<String, String> {
    let output = keeper::output(program.as_os_str(), arguments).map_err(|error| error.to_string())?;
    let (told, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(told.into_owned()) } else { Err(format!("{}\n{told}{complained}", output.status)) }
}
