//! Bytes to records and back: JSON, CloudEvents, Avro, told apart by first bytes and headers.

pub mod json;
