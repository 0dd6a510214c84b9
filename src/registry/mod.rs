//! What operators write: shapes, signals, responses, policies and graphs, as one validated, versioned [`Registry`].
//!
//! In order: a text is cut into parseable documents (`document`), its tables are deserialised one by one (`read`) into
//! what is written (`settings`), held against each other (`check`) and become values that can be relied on (`model`)
//! with the places they were written at (`origin`); `lint` looks for what is valid and still wrong; `diff` says what changes between two versions. [`load()`] reports
//! all problems at once. Graphs also come from runtimes: `manifest` reads them, `import` merges, `write` makes tables of them. `canonical` gives the byte form and the version; `query` is what the stages ask.
//!
//! Invariant: a `Registry` holds no dangling reference and its version is a pure function of its files' meaning
//! (`tests/registry.rs`).

mod build;
mod canonical;
mod check;
mod check_limits;
pub mod diff;
mod document;
pub mod glob;
pub mod import;
pub mod limits;
pub mod lint;
pub mod load;
pub mod manifest;
pub mod model;
pub mod origin;
pub mod problem;
mod query;
pub mod read;
pub mod set;
pub mod settings;
pub mod write;

pub use diff::diff;
pub use glob::Glob;
pub use limits::Limits;
pub use load::{Loaded, load, load_and_lint};
pub use model::{
    Defaults, Graph, Mode, Node, RecoveryPolicy, Registry, Response, ResponseScope, ShapePatterns, ShapeRule, Signal,
    SignalMatch,
};
pub use problem::{Problem, Severity, SourceFile};
