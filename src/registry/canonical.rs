//! The one byte form of a registry, what its version is made of and how it travels on `reflex.registry`.

use serde_json::Value;

use crate::record::canonical_json;
use crate::registry::model::Registry;

impl Registry {
    /// RFC 8785 JSON of everything but the version; fields that are not there are left out, so that a field added
    /// later changes no version that does not use it.
    #[must_use]
    pub fn canonical_json(&self) -> String {
        // A registry holds string keys and finite numbers only (`check`), so neither step can fail.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        drop_nulls(&mut value);
        String::from_utf8_lossy(&canonical_json(&value)).into_owned()
    }

    /// Sets `version` to the hash of everything else: blake3 in hex, first 32 digits.
    #[must_use]
    pub fn with_version(mut self) -> Self {
        self.version = blake3::hash(self.canonical_json().as_bytes()).to_hex().chars().take(32).collect();
        self
    }

    /// The registry of its canonical JSON, version computed anew: compare it with the key it came under.
    ///
    /// # Errors
    /// Text that is no registry of this program's version.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Self>(text).map(Self::with_version)
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Durations as whole milliseconds: in records their names end in `_ms`.
pub mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes whole milliseconds.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).serialize(serializer)
    }

    /// Reads whole milliseconds.
    ///
    /// # Errors
    /// Anything but a whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
