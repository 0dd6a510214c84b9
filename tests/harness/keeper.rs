//! Processes that cannot outlive the test process: each runs under a small shell that reads from a pipe held here, and
//! ends its charge when the pipe closes.
//!
//! A process that ends, in whatever way, closes its pipes; a static that is never dropped does too. A parent-death signal
//! would not do: it is tied to the thread that spawned, and test threads end early. `std` opens its pipes close-on-exec, so
//! other children of the test process do not hold them.
//!
//! Invariant: no child is left, also after SIGKILL of the test process (`harness_self.rs`, `killed_*`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

/// One long-running command with a folder of its own, both gone when this value or its process is.
pub struct Keeper {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Keeper {
    /// Makes `folder`; it is removed when the keeper ends. The command is not started yet.
    pub fn new(folder: &Path, command: &[OsString]) -> Result<Self, String> {
        let mut shell = shell(include_str!("keeper.sh"), folder.as_os_str(), command)
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("no shell for the broker: {error}"))?;
        let (orders, answers) = (shell.stdin.take(), shell.stdout.take().expect("piped above"));
        let mut keeper = Self { shell, orders, answers: BufReader::new(answers), folder: folder.to_owned() };
        keeper.answer()?;
        Ok(keeper)
    }

    /// Starts the command (after ending one that still runs) and returns its process id.
    pub fn start(&mut self) -> Result<u32, String> {
        let answer = self.order("start")?;
        answer.parse().map_err(|_| format!("the keeper answered {answer:?} instead of a process id"))
    }

    /// SIGKILL; returns when the process is gone. Nothing to do when none runs.
    pub fn kill(&mut self) -> Result<(), String> {
        self.order("kill").map(drop)
    }

    fn order(&mut self, order: &str) -> Result<String, String> {
        let orders = self.orders.as_mut().expect("closed only by drop");
        writeln!(orders, "{order}").map_err(|error| self.lost(&error))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut answer = String::new();
        match self.answers.read_line(&mut answer) {
            Ok(0) => Err(self.lost(&io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(answer.trim_end().to_owned()),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn lost(&self, error: &io::Error) -> String {
        format!("the keeper of {} is gone: {error}", self.folder.display())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.shell.wait();
    }
}

/// Runs a command to its end, like `Command::output`, but never longer than this process lives.
pub fn output(program: &OsStr, arguments: &[OsString]) -> io::Result<Output> {
    let mut shell = shell(include_str!("leash.sh"), program, arguments).stderr(Stdio::piped()).spawn()?;
    let leash = shell.stdin.take();
    let output = shell.wait_with_output();
    drop(leash);
    output
}

/// A process that has ended but was not yet waited for counts as ended. Without `/proc` nothing is known to have ended.
pub fn has_ended(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return Path::new("/proc/self/stat").exists();
    };
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
}

/// In a process group of its own: a Ctrl-C or a signal to the group of the tests does not reach the shell, which would
/// otherwise die before it has tidied up.
fn shell(script: &str, first: &OsStr, rest: &[OsString]) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg("reflex-harness").arg(first).args(rest);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    command
}
