//! The Kafka shell around the stages: poll, step, one transaction.
