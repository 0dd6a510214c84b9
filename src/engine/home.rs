//! The data directory: locked by one process, and the home of the process's name in the group.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::engine::error::{EngineError, capped};

/// A process that was killed may hold the lock for a moment longer.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Longest name of an instance, in bytes.
pub const INSTANCE_BYTES_MAX: usize = 100;

/// A locked data directory; the lock ends with the value, or with the process.
#[derive(Debug)]
pub struct Home {
    _lock: File,
    instance: String,
}

impl Home {
    /// Creates the directory where needed, locks it, and reads the instance's name, or makes one up and keeps it.
    /// `instance` overrides the kept name without replacing it.
    ///
    /// # Errors
    /// Another process holds the lock, or a file cannot be used.
    pub fn open(directory: &Path, instance: Option<&str>) -> Result<Self, EngineError> {
        fs::create_dir_all(directory).map_err(|error| file(directory, &error))?;
        let lock = lock(directory)?;
        let instance = match instance {
            Some(instance) => instance.to_owned(),
            None => kept(&directory.join("instance"))?,
        };
        Ok(Self { _lock: lock, instance })
    }

    /// The process's name in the group.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

/// Whether a name can be part of `group.instance.id` and `transactional.id`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= INSTANCE_BYTES_MAX && text.chars().all(allowed)
}

fn lock(directory: &Path) -> Result<File, EngineError> {
    let path = directory.join("lock");
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let lock = open.map_err(|error| file(&path, &error))?;
    let started = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(TryLockError::WouldBlock) => return Err(EngineError::Locked(directory.to_owned())),
            Err(TryLockError::Error(error)) => return Err(file(&path, &error)),
        }
    }
}

fn kept(path: &Path) -> Result<String, EngineError> {
    match read_capped(path) {
        Ok(text) if is_name(text.trim()) => Ok(text.trim().to_owned()),
        Ok(_) => Err(EngineError::File { path: path.to_owned(), words: "not the name of an instance".into() }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let name = random_name().map_err(|error| file(path, &error))?;
            // Whole or not at all: a half-written name would be another member after a crash.
            let draft = path.with_extension("new");
            let written = File::create(&draft).and_then(|mut file| {
                file.write_all(name.as_bytes())?;
                file.sync_all()
            });
            written.and_then(|()| fs::rename(&draft, path)).map_err(|error| file(path, &error))?;
            Ok(name)
        }
        Err(error) => Err(file(path, &error)),
    }
}

fn read_capped(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(1024).read_to_string(&mut text)?;
    Ok(text)
}

/// A random UUID (version 4).
fn random_name() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

fn file(path: &Path, error: &std::io::Error) -> EngineError {
    EngineError::File { path: PathBuf::from(path), words: capped(&error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_kept_and_the_directory_is_locked() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = Home::open(directory.path(), None).expect("opens");
        let name = home.instance().to_owned();
        assert_eq!(name.len(), 36);
        assert!(matches!(Home::open(directory.path(), None), Err(EngineError::Locked(_))));
        drop(home);
        let other = Home::open(directory.path(), Some("pod-3")).expect("opens");
        assert_eq!(other.instance(), "pod-3");
        drop(other);
        assert_eq!(Home::open(directory.path(), None).expect("opens").instance(), name);
    }

    #[test]
    fn names_are_plain() {
        assert!(is_name("pod-3.a_B"));
        for bad in ["", "a/b", "a b", "ä", &"x".repeat(101)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
