//! An Avro body to JSON text, in one walk over its bytes.
//!
//! | Avro | JSON |
//! |---|---|
//! | null | null; a record's field whose default is null is left out |
//! | bytes, fixed | text, each byte one character U+0000 to U+00FF (as in Avro's own JSON encoding) |
//! | decimal | text, such as `"12.34"` |
//! | dates and times | ISO 8601 text; instants RFC 3339 in UTC, to the microsecond |
//! | uuid, enum | text |
//! | union | its value, unwrapped |
//!
//! Nothing is allocated for what a length or count promises, only for bytes that are there; work is bounded by
//! [`STEPS_PER_BYTE_MAX`] and nesting by [`DEPTH_MAX`], so that items of no size and schemas that multiply stay cheap.

use crate::record::codec::avro::decimal;
use crate::record::codec::avro::layout::{Field, Layout, Node, NodeId};
use crate::record::codec::avro::times;

/// Deepest nesting of values.
pub(super) const DEPTH_MAX: usize = 100;

/// Most values read for each byte of the body: a field, its union, the record around it.
pub(super) const STEPS_PER_BYTE_MAX: usize = 4;

/// Values that are read beyond [`STEPS_PER_BYTE_MAX`]: nulls and empty records take no bytes.
pub(super) const STEPS_FREE: usize = 1024;

/// Why a body cannot be read, and where.
pub(super) struct Fault {
    /// Bytes of the body before the place.
    pub at: usize,
    pub kind: FaultKind,
}

pub(super) enum FaultKind {
    /// The bytes do not fit the schema, or a limit.
    Bad(&'static str),
    /// A date or time outside the calendar.
    Time,
    /// The text is larger than an event may be.
    TextTooLong,
}

type Step<T = ()> = Result<T, FaultKind>;

const CUT_OFF: FaultKind = FaultKind::Bad("cut off");

/// The JSON text (UTF-8) of a body.
pub(super) fn text(layout: &Layout, body: &[u8], text_bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let mut reader = Reader {
        layout,
        body,
        at: 0,
        steps_left: body.len().saturating_mul(STEPS_PER_BYTE_MAX).saturating_add(STEPS_FREE),
        out: Vec::with_capacity(body.len().saturating_mul(2).min(text_bytes_max)),
        text_bytes_max,
    };
    match reader.value(layout.root(), 0) {
        Ok(()) if reader.at == body.len() => Ok(reader.out),
        Ok(()) => Err(Fault { at: reader.at, kind: FaultKind::Bad("bytes after the end of the record") }),
        Err(kind) => Err(Fault { at: reader.at, kind }),
    }
}

struct Reader<'l> {
    layout: &'l Layout,
    body: &'l [u8],
    at: usize,
    steps_left: usize,
    out: Vec<u8>,
    text_bytes_max: usize,
}

impl<'l> Reader<'l> {
    fn value(&mut self, id: NodeId, depth: usize) -> Step {
        if depth > DEPTH_MAX {
            return Err(FaultKind::Bad("nested too deep"));
        }
        self.steps_left = self.steps_left.checked_sub(1).ok_or(FaultKind::Bad("more values than bytes can hold"))?;
        if self.out.len() > self.text_bytes_max {
            return Err(FaultKind::TextTooLong);
        }
        match self.layout.node(id) {
            Node::Null => self.out.extend_from_slice(b"null"),
            Node::Boolean => {
                let word: &[u8] = match self.take(1)? {
                    [0] => b"false",
                    [1] => b"true",
                    _ => return Err(FaultKind::Bad("a boolean that is neither 0 nor 1")),
                };
                self.out.extend_from_slice(word);
            }
            Node::Int => {
                let number = self.int()?;
                self.json(&number)?;
            }
            Node::Long => {
                let number = self.long()?;
                self.json(&number)?;
            }
            Node::Float => {
                let number = f32::from_le_bytes(self.array()?);
                finite(number.is_finite())?;
                self.json(&number)?;
            }
            Node::Double => {
                let number = f64::from_le_bytes(self.array()?);
                finite(number.is_finite())?;
                self.json(&number)?;
            }
            Node::String => {
                let bytes = self.bytes()?;
                let text = std::str::from_utf8(bytes).map_err(|_| FaultKind::Bad("text that is not UTF-8"))?;
                self.json(text)?;
            }
            Node::Enum(symbols) => {
                let number = self.int()?;
                let symbol = usize::try_from(number).ok().and_then(|at| symbols.get(at));
                self.json(symbol.ok_or(FaultKind::Bad("a symbol that the enum does not have"))?)?;
            }
            Node::Array(item) => self.array_of(*item, depth)?,
            Node::Map(item) => self.map_of(*item, depth)?,
            Node::Union(variants) => {
                let number = self.long()?;
                let variant = usize::try_from(number).ok().and_then(|at| variants.get(at));
                self.value(*variant.ok_or(FaultKind::Bad("a branch that the union does not have"))?, depth + 1)?;
            }
            Node::Record(fields) => self.record(fields, depth)?,
            logical => self.logical(logical)?,
        }
        Ok(())
    }

    /// Bytes, and what has a meaning beyond its layout.
    fn logical(&mut self, node: &Node) -> Step {
        let text = match node {
            Node::Bytes => latin1(self.bytes()?),
            Node::Fixed(size) => latin1(self.take(*size)?),
            Node::Date => times::date(self.int()?).ok_or(FaultKind::Time)?,
            Node::Time(times::Unit::Millis) => {
                times::time_of_day(times::Unit::Millis, self.int()?.into()).ok_or(FaultKind::Time)?
            }
            Node::Time(unit) => times::time_of_day(*unit, self.long()?).ok_or(FaultKind::Time)?,
            Node::Instant(unit) => times::instant(*unit, self.long()?).ok_or(FaultKind::Time)?,
            Node::Local(unit) => times::local(*unit, self.long()?).ok_or(FaultKind::Time)?,
            Node::Duration => times::duration(self.array()?),
            Node::Uuid(size) => {
                let bytes = self.sized(*size)?;
                uuid::Uuid::from_slice(bytes).map_err(|_| FaultKind::Bad("a uuid that has not 16 bytes"))?.to_string()
            }
            Node::Decimal { size, scale } => decimal_text(self.sized(*size)?, *scale)?,
            Node::BigDecimal => {
                let inner = self.bytes()?;
                let mut inner = Reader { body: inner, at: 0, out: Vec::new(), ..*self };
                let unscaled = inner.bytes()?;
                let scale = usize::try_from(inner.long()?).unwrap_or(usize::MAX);
                if inner.at < inner.body.len() {
                    return Err(FaultKind::Bad("bytes after the end of a decimal"));
                }
                decimal_text(unscaled, scale)?
            }
            _ => return Err(FaultKind::Bad("a type that cannot be read")),
        };
        self.json(&text)
    }

    fn record(&mut self, fields: &[Field], depth: usize) -> Step {
        self.out.push(b'{');
        let mut is_first = true;
        for field in fields {
            let start = self.out.len();
            if !is_first {
                self.out.push(b',');
            }
            self.out.extend_from_slice(field.key.as_bytes());
            let value_start = self.out.len();
            self.value(field.node, depth + 1)?;
            if field.is_optional() && self.out[value_start..] == *b"null" {
                self.out.truncate(start);
            } else {
                is_first = false;
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn array_of(&mut self, item: NodeId, depth: usize) -> Step {
        self.out.push(b'[');
        self.blocks(|reader| reader.value(item, depth + 1))?;
        self.out.push(b']');
        Ok(())
    }

    fn map_of(&mut self, item: NodeId, depth: usize) -> Step {
        self.out.push(b'{');
        self.blocks(|reader| {
            let name = std::str::from_utf8(reader.bytes()?).map_err(|_| FaultKind::Bad("a name that is not UTF-8"))?;
            reader.json(name)?;
            reader.out.push(b':');
            reader.value(item, depth + 1)
        })?;
        self.out.push(b'}');
        Ok(())
    }

    /// Items in blocks, each after its count (a negative one is followed by the block's size), until a count of 0.
    fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Step) -> Step {
        let mut is_first = true;
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                if !is_first {
                    self.out.push(b',');
                }
                is_first = false;
                item(self)?;
            }
        }
    }

    fn json<T: serde::Serialize + ?Sized>(&mut self, value: &T) -> Step {
        serde_json::to_writer(&mut self.out, value).map_err(|_| FaultKind::Bad("a value that is no JSON"))
    }

    fn take(&mut self, count: usize) -> Step<&'l [u8]> {
        let (taken, _) = self.body[self.at..].split_at_checked(count).ok_or(CUT_OFF)?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        <[u8; N]>::try_from(self.take(N)?).map_err(|_| CUT_OFF)
    }

    fn sized(&mut self, size: Option<usize>) -> Step<&'l [u8]> {
        match size {
            Some(size) => self.take(size),
            None => self.bytes(),
        }
    }

    fn bytes(&mut self) -> Step<&'l [u8]> {
        let length = self.long()?;
        self.take(usize::try_from(length).map_err(|_| FaultKind::Bad("a negative length"))?)
    }

    fn int(&mut self) -> Step<i32> {
        i32::try_from(self.long()?).map_err(|_| FaultKind::Bad("an int of more than 32 bits"))
    }

    /// Zigzag, little-endian, seven bits a byte.
    fn long(&mut self) -> Step<i64> {
        let mut bits = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.array::<1>()?[0];
            // The tenth byte holds the last bit alone.
            if shift == 63 && byte > 1 {
                break;
            }
            bits |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed());
            }
        }
        Err(FaultKind::Bad("a number of more than 64 bits"))
    }
}

fn finite(is_finite: bool) -> Step {
    if is_finite { Ok(()) } else { Err(FaultKind::Bad("a number that is not finite")) }
}

fn decimal_text(unscaled: &[u8], scale: usize) -> Step<String> {
    decimal::text(unscaled, scale).ok_or(FaultKind::Bad("a decimal of more digits than are read"))
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}
