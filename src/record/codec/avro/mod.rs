//! Avro: schemas by fingerprint and by registry id, bodies to JSON text, records to bytes.
//!
//! Reading is generic: any record, a customer's own included, becomes the JSON text of its fields, written by its own
//! schema; what is added to a schema later is evolved by the reader's optional fields.
//!
//! The crate `apache-avro` parses schemas and checks them. Reading, writing and fingerprints are done here because its
//! generic reader (0.22) takes text, unions and booleans that are cut off as null, allocates 56 bytes for each item of no size,
//! loses the order of maps, and counts the braces around a logical type into fingerprints, which then differ from
//! every other client's. `tests/codec.rs` holds both against each other.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use apache_avro::Schema;

use crate::record::codec::headers::SchemaId;
use crate::record::codec::oversized;
use crate::record::dead_letter::{Code, Rejection};

mod canonical;
mod decimal;
mod decode;
mod encode;
mod layout;
mod times;

pub use encode::{EncodeError, encode};
use layout::Layout;

/// First bytes of single-object encoding.
pub const SINGLE_OBJECT: [u8; 2] = [0xC3, 0x01];

/// CRC-64-AVRO of a schema's parsing canonical form, in the byte order of single-object encoding (little-endian).
pub type Fingerprint = [u8; 8];

/// The records of this crate that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKind {
    /// [`crate::record::event::Event`].
    Event,
    /// [`crate::record::command::Command`].
    Command,
    /// [`crate::record::intervention::Intervention`].
    Intervention,
    /// [`crate::record::overrides::Override`].
    Override,
    /// [`crate::record::escalation::Escalation`].
    Escalation,
    /// [`crate::record::audit::Audit`].
    Audit,
    /// [`crate::record::fleet::FleetRecord`].
    Fleet,
    /// The headers of a dead letter ([`crate::record::dead_letter::headers`]).
    DeadLetter,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Event,
        Self::Command,
        Self::Intervention,
        Self::Override,
        Self::Escalation,
        Self::Audit,
        Self::Fleet,
        Self::DeadLetter,
    ];

    /// The schema as shipped in `schemas/`.
    #[must_use]
    pub fn schema_json(self) -> &'static str {
        match self {
            Self::Event => include_str!("../../../../schemas/event.avsc"),
            Self::Command => include_str!("../../../../schemas/command.avsc"),
            Self::Intervention => include_str!("../../../../schemas/intervention.avsc"),
            Self::Override => include_str!("../../../../schemas/override.avsc"),
            Self::Escalation => include_str!("../../../../schemas/escalation.avsc"),
            Self::Audit => include_str!("../../../../schemas/audit.avsc"),
            Self::Fleet => include_str!("../../../../schemas/fleet.avsc"),
            Self::DeadLetter => include_str!("../../../../schemas/dead_letter.avsc"),
        }
    }

    /// The schema's fingerprint.
    #[must_use]
    pub fn fingerprint(self) -> Fingerprint {
        self.built_in().map(|(fingerprint, _)| *fingerprint).unwrap_or_default()
    }

    /// `None` only for a shipped schema that does not parse, which `tests/schemas.rs` rules out.
    fn built_in(self) -> Option<&'static (Fingerprint, Layout)> {
        static BUILT_IN: LazyLock<BTreeMap<RecordKind, (Fingerprint, Layout)>> = LazyLock::new(|| {
            RecordKind::ALL.into_iter().filter_map(|kind| Some((kind, parse(kind.schema_json()).ok()?))).collect()
        });
        BUILT_IN.get(&self)
    }
}

/// A schema that cannot be used to read events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a usable Avro schema: {0}")]
pub struct InvalidSchema(pub String);

/// The schemas that events may be written with: those of this crate, and those an operator names.
#[derive(Clone, Debug)]
pub struct Schemas {
    layouts: Vec<Layout>,
    by_fingerprint: BTreeMap<Fingerprint, usize>,
    by_id: BTreeMap<u32, usize>,
}

impl Default for Schemas {
    fn default() -> Self {
        let mut schemas = Self { layouts: Vec::new(), by_fingerprint: BTreeMap::new(), by_id: BTreeMap::new() };
        for (fingerprint, layout) in RecordKind::ALL.into_iter().filter_map(RecordKind::built_in) {
            schemas.add(*fingerprint, layout.clone());
        }
        schemas
    }
}

impl Schemas {
    /// These schemas and one more, under its fingerprint and under this id of a schema registry.
    ///
    /// # Errors
    /// [`InvalidSchema`] where it does not parse, names a type it does not define, or is not a record.
    pub fn with_id(mut self, id: u32, schema_json: &str) -> Result<Self, InvalidSchema> {
        let (fingerprint, layout) = parse(schema_json)?;
        let at = self.add(fingerprint, layout);
        self.by_id.insert(id, at);
        Ok(self)
    }

    /// These schemas and one more, under its fingerprint alone.
    ///
    /// # Errors
    /// As [`Self::with_id`].
    pub fn with_schema(mut self, schema_json: &str) -> Result<Self, InvalidSchema> {
        let (fingerprint, layout) = parse(schema_json)?;
        self.add(fingerprint, layout);
        Ok(self)
    }

    fn add(&mut self, fingerprint: Fingerprint, layout: Layout) -> usize {
        // Schemas of one fingerprint write the same bytes but may read them as other logical types: keep both.
        self.layouts.push(layout);
        self.by_fingerprint.insert(fingerprint, self.layouts.len() - 1);
        self.layouts.len() - 1
    }

    /// Whether a body under this id can be read.
    #[must_use]
    pub fn has(&self, id: SchemaId) -> bool {
        matches!(id, SchemaId::Number(number) if self.by_id.contains_key(&number))
    }

    /// The JSON text of a single-object message: `C3 01`, 8 bytes of fingerprint, the body.
    ///
    /// # Errors
    /// `unknown_schema`, `bad_avro`, `bad_time`, `oversized` where the text grows over `text_bytes_max` bytes.
    pub fn single_object_text(&self, bytes: &[u8], text_bytes_max: usize) -> Result<String, Rejection> {
        let Some((fingerprint, body)) = bytes.strip_prefix(&SINGLE_OBJECT).and_then(<[u8]>::split_first_chunk::<8>)
        else {
            return Err(Rejection::new(Code::BadAvro, "cut off before the end of the fingerprint"));
        };
        let unknown = || {
            let in_message_order = u64::from_be_bytes(*fingerprint);
            Rejection::new(Code::UnknownSchema, format_args!("no schema with fingerprint {in_message_order:016x}"))
        };
        let at = self.by_fingerprint.get(fingerprint).ok_or_else(unknown)?;
        self.text(*at, body, text_bytes_max)
    }

    /// The JSON text of a message in schema-registry framing: `00`, 4 bytes of id, the body.
    ///
    /// # Errors
    /// As [`Self::single_object_text`].
    pub fn framed_text(&self, bytes: &[u8], text_bytes_max: usize) -> Result<String, Rejection> {
        let Some((id, body)) = bytes.strip_prefix(&[0]).and_then(<[u8]>::split_first_chunk::<4>) else {
            return Err(Rejection::new(Code::BadAvro, "cut off before the end of the schema id"));
        };
        self.body_text(SchemaId::Number(u32::from_be_bytes(*id)), body, text_bytes_max)
    }

    /// The JSON text of an Avro body under a registry id.
    ///
    /// # Errors
    /// As [`Self::single_object_text`].
    pub fn body_text(&self, id: SchemaId, body: &[u8], text_bytes_max: usize) -> Result<String, Rejection> {
        let SchemaId::Number(number) = id else {
            return Err(Rejection::new(Code::UnknownSchema, "__value_schema_id: no number of a schema"));
        };
        let unknown = || Rejection::new(Code::UnknownSchema, format_args!("no schema with id {number}"));
        let at = self.by_id.get(&number).ok_or_else(unknown)?;
        self.text(*at, body, text_bytes_max)
    }

    fn text(&self, at: usize, body: &[u8], text_bytes_max: usize) -> Result<String, Rejection> {
        let bytes = decode::text(&self.layouts[at], body, text_bytes_max).map_err(|fault| match fault.kind {
            decode::FaultKind::TextTooLong => oversized(text_bytes_max),
            decode::FaultKind::Time => {
                Rejection::new(Code::BadTime, format_args!("a time outside the calendar at byte {}", fault.at))
            }
            decode::FaultKind::Bad(what) => Rejection::new(Code::BadAvro, format_args!("{what} at byte {}", fault.at)),
        })?;
        String::from_utf8(bytes).map_err(|_| Rejection::new(Code::BadAvro, "text that is not UTF-8"))
    }
}

/// Parses a schema whose root is a record.
fn parse(schema_json: &str) -> Result<(Fingerprint, Layout), InvalidSchema> {
    let schema = Schema::parse_str(schema_json).map_err(|error| InvalidSchema(error.to_string()))?;
    if !matches!(schema, Schema::Record(_)) {
        return Err(InvalidSchema(String::from("not a record")));
    }
    let fingerprint = canonical::rabin(canonical::form(&schema).as_bytes()).to_le_bytes();
    Ok((fingerprint, Layout::of(&schema)?))
}
