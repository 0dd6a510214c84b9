//! What a stage publishes: typed records and tombstones, in order.

use serde::Serialize;

use crate::record::audit::Audit;
use crate::record::escalation::Escalation;
use crate::record::fleet::FleetRecord;
use crate::record::intervention::Intervention;
use crate::record::overrides::Override;
use crate::record::time::Timestamp;
use crate::record::topic::Topic;

/// A record of one of the output topics.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Record {
    /// For [`Topic::Interventions`].
    Intervention(Box<Intervention>),
    /// For [`Topic::Overrides`].
    Override(Box<Override>),
    /// For [`Topic::Escalations`].
    Escalation(Box<Escalation>),
    /// For [`Topic::Audit`].
    Audit(Box<Audit>),
    /// For [`Topic::Fleet`].
    Fleet(Box<FleetRecord>),
}

/// One record to publish, or a tombstone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Output {
    /// Clock of the task when it was decided.
    pub at: Timestamp,
    /// Where it goes.
    #[serde(serialize_with = "topic_name")]
    pub topic: Topic,
    /// The record's key.
    pub key: String,
    /// The record; null is a tombstone.
    pub value: Option<Record>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn topic_name<S: serde::Serializer>(topic: &Topic, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(topic.name())
}
