//! What runtimes compute: which graph schema to run.
