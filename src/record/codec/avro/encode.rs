//! A record's JSON to Avro single-object bytes, by the schema of its kind.

use serde_json::{Map, Number, Value};

use crate::record::codec::avro::layout::{Field, Layout, Node, NodeId};
use crate::record::codec::avro::times::Unit;
use crate::record::codec::avro::{RecordKind, SINGLE_OBJECT};
use crate::record::time::Timestamp;

/// JSON that does not fit the schema of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct EncodeError {
    /// Names of the fields that lead to the place, joined by `.`.
    pub path: String,
    /// What is wrong there; names kinds, never values.
    pub what: &'static str,
}

impl EncodeError {
    fn new(what: &'static str) -> Self {
        Self { path: String::new(), what }
    }

    fn within(mut self, name: &str) -> Self {
        let separator = if self.path.is_empty() { "" } else { "." };
        self.path = format!("{name}{separator}{}", self.path);
        self
    }
}

type Step = Result<(), EncodeError>;

/// Encodes a record as Avro single-object: `C3 01`, fingerprint, body. The same JSON always gives the same bytes.
///
/// Members that the schema does not have are dropped: Avro has no place for them. A map of texts takes other values as
/// their JSON text and leaves nulls out. Times become microseconds; what is finer, and their offset, is lost.
///
/// # Errors
/// [`EncodeError`] where a field is missing or of another type.
pub fn encode(kind: RecordKind, record: &Value) -> Result<Vec<u8>, EncodeError> {
    let (fingerprint, layout) = kind.built_in().ok_or_else(|| EncodeError::new("no schema"))?;
    let mut writer = Writer { layout, out: Vec::new() };
    writer.out.extend_from_slice(&SINGLE_OBJECT);
    writer.out.extend_from_slice(fingerprint);
    writer.value(layout.root(), record)?;
    Ok(writer.out)
}

struct Writer<'l> {
    layout: &'l Layout,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn value(&mut self, id: NodeId, value: &Value) -> Step {
        match (self.layout.node(id), value) {
            (Node::Null, Value::Null) => {}
            (Node::Boolean, Value::Bool(flag)) => self.out.push(u8::from(*flag)),
            (Node::Int, Value::Number(number)) => self.long(whole::<i32>(number)?.into()),
            (Node::Long, Value::Number(number)) => self.long(whole::<i64>(number)?),
            (Node::Double, Value::Number(number)) => {
                let number = number.as_f64().ok_or_else(|| EncodeError::new("no number of 64 bits"))?;
                self.out.extend_from_slice(&number.to_le_bytes());
            }
            (Node::String, Value::String(text)) => self.text(text),
            (Node::Instant(Unit::Micros), Value::String(text)) => {
                let time: Timestamp = text.parse().map_err(|_| EncodeError::new("not an RFC 3339 time"))?;
                self.long(time.as_micros());
            }
            (Node::Array(item), Value::Array(values)) => {
                self.block(values.len());
                for value in values {
                    self.value(*item, value)?;
                }
                self.out.push(0);
            }
            (Node::Map(item), Value::Object(members)) => self.map(*item, members)?,
            (Node::Record(fields), Value::Object(members)) => self.record(fields, members)?,
            (Node::Union(variants), value) => {
                let fitting = variants.iter().position(|variant| self.fits(*variant, value));
                let at = fitting.ok_or_else(|| EncodeError::new("of a type that the schema does not allow"))?;
                self.length(at);
                self.value(variants[at], value)?;
            }
            _ => return Err(EncodeError::new("of a type that the schema does not allow")),
        }
        Ok(())
    }

    /// Whether the kind of JSON is that of the type; the branch of a union is chosen by it.
    fn fits(&self, id: NodeId, value: &Value) -> bool {
        match self.layout.node(id) {
            Node::Null => value.is_null(),
            Node::Boolean => value.is_boolean(),
            Node::Int | Node::Long => value.is_i64(),
            Node::Double => value.is_number(),
            Node::String | Node::Instant(_) => value.is_string(),
            Node::Array(_) => value.is_array(),
            Node::Map(_) | Node::Record(_) => value.is_object(),
            _ => false,
        }
    }

    fn record(&mut self, fields: &[Field], members: &Map<String, Value>) -> Step {
        for field in fields {
            let given = members.get(&field.name).or(field.default.as_ref());
            let written = match given {
                Some(value) => self.value(field.node, value),
                // A reader that knows no default takes a missing value for null; so does this writer.
                None if self.fits_null(field.node) => self.value(field.node, &Value::Null),
                None => Err(EncodeError::new("missing")),
            };
            written.map_err(|error| error.within(&field.name))?;
        }
        Ok(())
    }

    fn fits_null(&self, id: NodeId) -> bool {
        match self.layout.node(id) {
            Node::Union(variants) => variants.iter().any(|variant| self.fits(*variant, &Value::Null)),
            _ => false,
        }
    }

    fn map(&mut self, item: NodeId, members: &Map<String, Value>) -> Step {
        let is_text = matches!(self.layout.node(item), Node::String);
        let mut entries: Vec<_> = members.iter().filter(|(_, value)| !is_text || !value.is_null()).collect();
        // Whatever order the JSON library keeps: the bytes must not depend on it.
        entries.sort_by_key(|(name, _)| name.as_str());
        self.block(entries.len());
        for (name, value) in &entries {
            self.text(name);
            match value {
                Value::String(_) => self.value(item, value),
                other if is_text => self.value(item, &Value::String(other.to_string())),
                other => self.value(item, other),
            }
            .map_err(|error| error.within(name))?;
        }
        self.out.push(0);
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Opens a block of items, if there are any.
    fn block(&mut self, items: usize) {
        if items > 0 {
            self.length(items);
        }
    }

    fn length(&mut self, length: usize) {
        self.long(i64::try_from(length).unwrap_or(i64::MAX));
    }

    /// Zigzag, little-endian, seven bits a byte.
    fn long(&mut self, number: i64) {
        let mut bits = (number << 1 ^ number >> 63).cast_unsigned();
        loop {
            let [low, ..] = bits.to_le_bytes();
            bits >>= 7;
            if bits == 0 {
                return self.out.push(low & 0x7F);
            }
            self.out.push(low | 0x80);
        }
    }
}

fn whole<T: TryFrom<i64>>(number: &Number) -> Result<T, EncodeError> {
    let number = number.as_i64().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| EncodeError::new("not a whole number in range"))
}
