//! What operators write: shapes, signals, responses, policies and graphs, as one validated, versioned [`Registry`].
//!
//! Two stages: tables as written (`settings`) become values that can be relied on (`model`); `load` reads every table
//! of every file and reports all errors at once; `lint` looks for what is valid and still wrong.
//!
//! Invariant: a `Registry` holds no dangling reference and its version is a pure function of its files' meaning
//! (`tests/registry.rs`).

pub mod glob;
pub mod limits;
pub mod model;

pub use glob::Glob;
pub use limits::Limits;
pub use model::{
    Defaults, Graph, Mode, Node, RecoveryPolicy, Registry, Response, ResponseScope, ShapePatterns, ShapeRule, Signal,
    SignalMatch,
};
