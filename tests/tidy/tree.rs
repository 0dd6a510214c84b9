//! The files of the repository, as far as they are text.

use std::fs;
use std::path::{Path, PathBuf};

use crate::source;

/// Folders that are built or local, never part of the repository.
const LEFT_OUT: [&str; 6] = ["target", ".git", ".reflex", "node_modules", "__pycache__", ".venv"];

/// A text file; `path` is relative to the top of the repository, with `/`.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    /// A file that a test plants.
    pub fn planted(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub fn has_extension(&self, wanted: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == wanted)
    }

    /// The room of a file under `src/`: its folder, or its own name at the top.
    pub fn room(&self) -> Option<&str> {
        let rest = self.path.strip_prefix("src/")?;
        Some(rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs"))
    }

    /// Whether all of the file is test code.
    pub fn is_test(&self) -> bool {
        ["tests/", "benches/"].iter().any(|folder| self.path.starts_with(folder))
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/tests/")
    }

    /// Rust code without comments, text and test modules; lines stay where they are.
    pub fn product_code(&self) -> String {
        if self.is_test() { String::new() } else { source::without_tests(&source::code(&self.text)) }
    }
}

/// The top of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every text file of the repository, by path.
pub fn files() -> Vec<File> {
    let mut paths = tracked().unwrap_or_else(|| {
        let mut paths = Vec::new();
        collect(root(), &mut paths);
        paths
    });
    paths.sort();
    paths.iter().filter_map(|path| read(path)).collect()
}

/// Every Rust file, by path.
pub fn rust_files() -> Vec<File> {
    files().into_iter().filter(|file| file.has_extension("rs")).collect()
}

/// Reads one file of the repository.
pub fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What git tracks here; `None` where this is no checkout. A file somebody tries things out with is not judged.
fn tracked() -> Option<Vec<PathBuf>> {
    let listed = std::process::Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output().ok()?;
    let names = String::from_utf8(listed.stdout).ok().filter(|names| listed.status.success() && !names.is_empty())?;
    Some(names.split_terminator('\0').map(|name| root().join(name)).filter(|path| path.is_file()).collect())
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the repository can be read").flatten() {
        let kind = entry.file_type().expect("the kind of a file is known");
        let left_out = LEFT_OUT.iter().any(|name| entry.file_name() == *name);
        if kind.is_dir() && !left_out {
            collect(&entry.path(), paths);
        } else if kind.is_file() && !left_out {
            paths.push(entry.path());
        }
    }
}

fn read(path: &Path) -> Option<File> {
    let text = String::from_utf8(fs::read(path).ok()?).ok()?;
    let relative = path.strip_prefix(root()).ok()?.to_str()?.replace('\\', "/");
    Some(File { path: relative, text })
}
