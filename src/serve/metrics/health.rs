//! Health and lag of workers.

use std::sync::Arc;

use crate::engine::shown::health::Health;
use crate::engine::shown::lag::{Lag, seconds};
use crate::engine::shown::watch::{ProcessHealth, Snapshot};
use crate::record::time::Timestamp;
use crate::serve::metrics::family::{Family, Labels, float};

/// Health, by worker; `is_read`: overrides were read, where they are.
pub fn families(health: &ProcessHealth, is_read: bool) -> Vec<Family> {
    let each =
        |family: Family, value: fn(&Health) -> f64| {
            health.workers.iter().enumerate().fold(family, |family, (number, worker)| {
                family.number(vec![("worker", number.to_string())], value(worker))
            })
        };
    let yes = |yes: bool| f64::from(u8::from(yes));
    vec![
        Family::gauge("reflex_live", "1 while every worker comes round in time, as /livez says.")
            .number(Labels::new(), yes(health.is_live())),
        Family::gauge("reflex_ready", "1 while every worker has its tasks and gets on with them, as /readyz says.")
            .number(Labels::new(), yes(health.unready().is_none() && is_read)),
        each(Family::gauge("reflex_tasks", "Tasks of the worker."), |worker| float(worker.tasks)),
        each(Family::seconds("reflex_worker_beat_age", "Since the worker came round last."), |worker| {
            float(worker.beat_age_ms) / 1000.0
        }),
    ]
}

/// Lag, by input partition; the clocks, by task.
pub fn lags(workers: &[Arc<Vec<Lag>>], snapshots: &[Arc<Snapshot>], wall: Timestamp) -> Vec<Family> {
    let lags = || workers.iter().flat_map(|lags| lags.iter());
    let labels = |lag: &Lag| vec![("topic", lag.topic.to_string()), ("partition", lag.partition.to_string())];
    let records = Family::gauge("reflex_lag_records", "Committed records of the input that wait.");
    let age = Family::seconds("reflex_lag", "Age of what waits in the input, at most; 0 while nothing waits.");
    let stuck = Family::seconds(
        "reflex_stable_offset_stuck",
        "For how long the same open transaction has been hiding what is behind it in the input; 0 without one.",
    );
    let delay = Family::seconds(
        "reflex_watermark_delay",
        "How far the clock of the task is behind the wall; 0 while nothing waits in its inputs.",
    );
    let tasks = snapshots.iter().flat_map(|snapshot| snapshot.tasks.iter());
    let delay = tasks.fold(delay, |family, task| {
        let waits = lags().any(|lag| task.reads(&lag.topic, lag.partition) && lag.records > 0);
        match (task.watermark, waits) {
            (_, false) => family.number(vec![("task", task.task.to_string())], 0.0),
            (Some(at), true) => family.number(vec![("task", task.task.to_string())], seconds(wall, at)),
            (None, true) => family,
        }
    });
    vec![
        lags().fold(records, |family, lag| family.whole(labels(lag), lag.records)),
        lags()
            .filter_map(|lag| Some((labels(lag), lag.seconds?)))
            .fold(age, |family, (labels, age)| family.number(labels, age)),
        lags().fold(stuck, |family, lag| family.number(labels(lag), lag.stuck.as_secs_f64())),
        delay,
    ]
}
