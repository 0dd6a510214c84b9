//! Deterministic ids: uuid v5 over what they follow from, so that the same log gives the same ids.

use serde::Serialize;
use uuid::Uuid;

/// Namespace of every id of this crate; drawn once, never to be changed.
const NAMESPACE: Uuid = Uuid::from_u128(0x7f0f_5c0e_5a0f_5e0b_9d7a_3b1c_4d2e_6f80);

/// The id of a name, given by its canonical JSON (RFC 8785).
#[must_use]
pub fn of(canonical_name: &[u8]) -> Uuid {
    Uuid::new_v5(&NAMESPACE, canonical_name)
}

/// `ovr_…` of a name.
#[must_use]
pub fn override_id<T: Serialize>(name: &T) -> String {
    format!("ovr_{}", of(&crate::record::canonical_json(name)))
}
