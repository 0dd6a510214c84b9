//! A test process to be killed: one ignored test of the running test binary, in a process of its own, which ends with
//! the one that spawned it.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::keeper;
use super::ports;

/// Set in such a process: the file in which it tells its process ids.
const FILE: &str = "REFLEX_HARNESS_CHILD";
const TOLD_WITHIN: Duration = Duration::from_mins(3);
const GONE_WITHIN: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Killed when dropped.
pub struct Process {
    child: Option<Child>,
    /// The child ends when this closes.
    _life: Option<ChildStdin>,
    pub file: PathBuf,
}

impl Process {
    /// Starts the ignored test `name`.
    pub fn spawn(name: &str, environment: &[(&str, &str)]) -> Self {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("child-{:016x}", ports::random()));
        let mut command = Command::new(env::current_exe().expect("a test binary"));
        command.args(["--exact", name, "--ignored", "--nocapture"]).env(FILE, &file).env_remove(super::EXTERNAL);
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("this binary runs");
        Self { _life: child.stdin.take(), child: Some(child), file }
    }

    /// Waits for the process ids that the child tells.
    pub fn told<const N: usize>(&mut self) -> [u32; N] {
        let told = wait_for("what the child tells", TOLD_WITHIN, || {
            let told = fs::read_to_string(&self.file).ok();
            let ended = self.child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            assert!(told.is_some() || !ended, "the child told nothing and ended: {:?}", self.output());
            told
        });
        let pids: Vec<u32> = told.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        pids.try_into().unwrap_or_else(|_| panic!("{N} process ids expected in {told:?}"))
    }

    /// SIGKILL; returns when the process is gone.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().and_then(|()| child.wait()).expect("the child is ours");
        }
    }

    /// Waits for its end.
    pub fn output(&mut self) -> Option<Output> {
        self.child.take()?.wait_with_output().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
        let _ = fs::remove_file(&self.file);
    }
}

/// In the child: where to tell; none when somebody ran all ignored tests.
pub fn file() -> Option<PathBuf> {
    let file = env::var_os(FILE)?;
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(1)
    });
    Some(file.into())
}

/// In the child: process ids for `told`, all at once.
pub fn tell(file: &Path, pids: &[u32]) {
    let line: Vec<String> = pids.iter().map(u32::to_string).collect();
    let unfinished = file.with_extension("unfinished");
    fs::write(&unfinished, line.join(" ")).expect("the target directory is writable");
    fs::rename(unfinished, file).expect("the target directory is writable");
}

/// Waits a minute at most until the process has ended.
pub fn wait_until_gone(pid: u32) {
    wait_for(&format!("the end of process {pid}"), GONE_WITHIN, || keeper::has_ended(pid).then_some(()));
}

/// The Java process that has this among its arguments.
pub fn java_running(argument: &Path) -> Option<u32> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let found = words.next()?.ends_with("java") && words.any(|word| word == argument.to_string_lossy());
        if found { process.file_name().to_str()?.parse().ok() } else { None }
    })
}

/// Looks again and again until there is something.
pub fn wait_for<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < within, "waited {within:?} for {what}");
        thread::sleep(LOOK_EVERY);
    }
}
