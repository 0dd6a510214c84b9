//! What the engine needs to know, from the settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::exit::{Exit, Failure};
use crate::cli::settings::model::Settings;
use crate::engine::state::store;
use crate::engine::{Cluster, Config};
use crate::record::codec::Schemas;

/// Brokers of the settings.
pub fn cluster(settings: &Settings) -> Cluster {
    Cluster { bootstrap_servers: settings.bootstrap_servers.clone(), properties: settings.kafka.0.clone() }
}

/// The engine's configuration.
///
/// # Errors
/// Exit 66 or 78 for a schema of `[avro] schema_ids` that cannot be used.
pub fn config(settings: &Settings, instance: &str) -> Result<Config, Failure> {
    Ok(Config {
        cluster: cluster(settings),
        group: settings.group.clone(),
        instance: instance.to_owned(),
        worker: 0,
        topics: settings.topics.names(),
        tenant: Some(settings.input.tenant.clone()).filter(|tenant| !tenant.is_empty()),
        schemas: schemas(settings)?,
        encoding: settings.encoding,
        commit_interval: Duration::from_millis(settings.commit_interval_ms),
        commit_gap_min: Duration::from_millis(settings.commit_gap_ms_min),
        batch_events_max: settings.batch_events_max as usize,
        broker_timeout: Duration::from_millis(settings.broker_timeout_ms),
        outage_max: Duration::from_millis(settings.broker_outage_ms_max),
        start_at_earliest: settings.start_at_earliest,
        store: stores(settings),
        dev: settings.dev,
        check_topics: true,
        ..Config::default()
    })
}

/// The folder of local stores.
pub fn store_folder(settings: &Settings) -> PathBuf {
    Path::new(&settings.data_dir).join("store")
}

/// Where local stores are; none: there are none.
fn stores(settings: &Settings) -> Option<store::Settings> {
    (settings.store != store::Kind::Memory).then(|| store::Settings {
        kind: settings.store,
        folder: store_folder(settings),
        age_max: Duration::from_millis(settings.store_age_ms_max),
    })
}

/// The shipped schemas and those of `[avro] schema_ids`.
fn schemas(settings: &Settings) -> Result<Schemas, Failure> {
    let mut schemas = Schemas::default();
    for (id, path) in &settings.avro.schema_ids {
        let refuse = |exit, what: &dyn std::fmt::Display| {
            Failure::new(exit, format_args!("avro.schema_ids.{id}: {path}: {what}"))
        };
        let number = id.parse().map_err(|_| refuse(Exit::Configuration, &"the id is not a whole number"))?;
        let text = std::fs::read_to_string(path).map_err(|error| refuse(Exit::NoInput, &error))?;
        schemas = schemas.with_id(number, &text).map_err(|error| refuse(Exit::Configuration, &error))?;
    }
    Ok(schemas)
}
