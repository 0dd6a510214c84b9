//! What an override covers: one session, or the sessions that share values of dimensions.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Scope of an intervention or override. On topics: `{"kind":"session","session_id":…}` or
/// `{"kind":"cohort", DIMENSION: VALUE, …}`; a scope without `kind` is a cohort, a graph scope is a cohort of zero
/// dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// One session.
    Session {
        /// Its id.
        session_id: String,
    },
    /// The sessions whose dimensions all have these values.
    Cohort(BTreeMap<String, String>),
    /// A kind this version does not know; it matches nothing.
    Unknown {
        /// The word that stood in `kind`.
        kind: String,
    },
}

/// Dimensions that are fields of an event: every signature is noted with them. Any other is `attributes.NAME`, where a signal
/// names it.
pub const DIMENSIONS: [&str; 4] = ["tenant", "region", "app_version", "graph_version"];

/// Whether a cohort can have a dimension of this name.
#[must_use]
pub fn is_dimension(name: &str) -> bool {
    DIMENSIONS.contains(&name) || name.strip_prefix("attributes.").is_some_and(|attribute| !attribute.is_empty())
}

impl Scope {
    /// The scope of one session.
    #[must_use]
    pub fn session(session_id: &str) -> Self {
        Self::Session { session_id: session_id.to_owned() }
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Session { session_id } => {
                map.serialize_entry("kind", "session")?;
                map.serialize_entry("session_id", session_id)?;
            }
            Self::Cohort(dimensions) => {
                map.serialize_entry("kind", "cohort")?;
                for (dimension, value) in dimensions {
                    map.serialize_entry(dimension, value)?;
                }
            }
            Self::Unknown { kind } => map.serialize_entry("kind", kind)?,
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = BTreeMap::<String, String>::deserialize(deserializer)?;
        match fields.remove("kind").as_deref() {
            Some("session") => {
                let session_id = fields.remove("session_id").ok_or_else(|| D::Error::missing_field("session_id"))?;
                Ok(Self::Session { session_id })
            }
            None | Some("cohort") => Ok(Self::Cohort(fields)),
            Some("graph") if fields.is_empty() => Ok(Self::Cohort(BTreeMap::new())),
            // A graph with dimensions contradicts itself: nobody is meant rather than everybody.
            Some(kind) => Ok(Self::Unknown { kind: kind.to_owned() }),
        }
    }
}
