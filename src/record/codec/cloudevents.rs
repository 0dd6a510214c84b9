//! `CloudEvents` 1.0 on Kafka, binary and structured mode, and the runtime events inside them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::record::codec::headers::{CloudEventsMode, Headers};
use crate::record::codec::{Schemas, base64, json, plain};
use crate::record::dead_letter::{Code, Rejection};
use crate::record::text::Text;

/// One `CloudEvent`. `id`, `source`, `type` and `specversion` are there and not empty; the version is 1.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudEvent<'a> {
    /// Context attributes by name, `datacontenttype` among them; booleans and whole numbers as text.
    pub attributes: BTreeMap<String, String>,
    /// The data: bytes as they came, or the JSON text of a structured event's `data`.
    pub data: Option<Cow<'a, [u8]>>,
}

/// Most attributes of one event, extensions included; over: `bad_cloudevent`.
pub const ATTRIBUTES_MAX: usize = 128;

const HEADER_PREFIX: &str = "ce_";
const REQUIRED: [&str; 3] = ["id", "source", "type"];
const SPEC_VERSION: &str = "1.0";

impl<'a> CloudEvent<'a> {
    /// Reads binary mode: attributes from `ce_` headers, `datacontenttype` from `content-type`, data from the value.
    ///
    /// # Errors
    /// `bad_cloudevent` where a required attribute is missing or empty, the version is not 1.0, or an attribute is not
    /// UTF-8.
    pub fn binary(headers: &Headers<'_>, value: Option<&'a [u8]>) -> Result<Self, Rejection> {
        let mut attributes = BTreeMap::new();
        for (name, value) in headers.0 {
            let name = name.to_ascii_lowercase();
            let attribute = match name.strip_prefix(HEADER_PREFIX) {
                Some(attribute) => attribute,
                None if name == "content-type" => "datacontenttype",
                None => continue,
            };
            // As everywhere, the last header of a name counts, and null means that it is not there.
            attributes.remove(attribute);
            if let Some(value) = value {
                let value = std::str::from_utf8(value).map_err(|_| bad("an attribute is not UTF-8"))?;
                attributes.insert(attribute.to_owned(), value.to_owned());
            }
            if attributes.len() > ATTRIBUTES_MAX {
                return Err(too_many_attributes());
            }
        }
        Self { attributes, data: value.map(Cow::Borrowed) }.checked()
    }

    /// Reads structured mode: one JSON object with the attributes and `data` or `data_base64`.
    ///
    /// # Errors
    /// `not_json` where the text is no JSON, `bad_cloudevent` as [`Self::binary`] and where an attribute is neither text,
    /// boolean nor whole number, stands twice, or `data_base64` is no base64.
    pub fn structured(text: &'a str) -> Result<Self, Rejection> {
        match serde_json::from_str::<Members<'a>>(text) {
            Ok(Members(event)) => event.checked(),
            Err(error) if serde_json::from_str::<IgnoredAny>(text).is_err() => Err(Rejection::new(
                Code::NotJson,
                format_args!("no JSON at line {} column {}", error.line(), error.column()),
            )),
            Err(_) if !json::starts_object(text) => Err(bad("not a JSON object")),
            Err(_) => Err(bad("an attribute that is no text, boolean or whole number, or a member that stands twice")),
        }
    }

    /// Media type of the data.
    #[must_use]
    pub fn datacontenttype(&self) -> Option<&str> {
        self.attributes.get("datacontenttype").map(String::as_str)
    }

    fn checked(self) -> Result<Self, Rejection> {
        if self.attributes.get("specversion").is_none_or(|version| version != SPEC_VERSION) {
            return Err(bad("specversion: not 1.0"));
        }
        match REQUIRED.iter().find(|name| self.attributes.get(**name).is_none_or(String::is_empty)) {
            Some(name) => Err(bad(format_args!("{name}: missing"))),
            None => Ok(self),
        }
    }
}

fn bad(message: impl fmt::Display) -> Rejection {
    Rejection::new(Code::BadCloudEvent, message)
}

fn too_many_attributes() -> Rejection {
    bad(format_args!("more than {ATTRIBUTES_MAX} attributes"))
}

/// The members of a structured event, before the required ones are checked.
struct Members<'a>(CloudEvent<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a CloudEvent in JSON format")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut attributes = BTreeMap::new();
        let mut data = None;
        while let Some(name) = map.next_key::<Text<'de>>()? {
            let raw = map.next_value::<&'de RawValue>()?.get();
            if raw == "null" {
                continue;
            }
            let is_second = match name.as_str() {
                "data" => data.replace(Cow::Borrowed(raw.as_bytes())).is_some(),
                "data_base64" => {
                    let text = serde_json::from_str::<Text<'_>>(raw).map_err(A::Error::custom)?;
                    let bytes = base64::decode(&text).ok_or_else(|| A::Error::custom("no base64"))?;
                    data.replace(Cow::Owned(bytes)).is_some()
                }
                name => attributes.insert(name.to_owned(), attribute_text(raw).map_err(A::Error::custom)?).is_some(),
            };
            if is_second || attributes.len() > ATTRIBUTES_MAX {
                return Err(A::Error::custom("a member that stands twice, or too many"));
            }
        }
        Ok(Members(CloudEvent { attributes, data }))
    }
}

/// The canonical text of an attribute: texts as they are, booleans and whole numbers as JSON writes them.
fn attribute_text(raw: &str) -> Result<String, serde_json::Error> {
    match raw.as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw),
        Some(b't' | b'f') => Ok(raw.to_owned()),
        _ => serde_json::from_str::<i64>(raw).map(|number| number.to_string()),
    }
}

/// The JSON text of the runtime event in a `CloudEvent`: its data, completed from the envelope.
pub(super) fn event_text<'a>(
    mode: CloudEventsMode,
    headers: &Headers<'_>,
    bytes: &'a [u8],
    schemas: &Schemas,
    text_bytes_max: usize,
) -> Result<Cow<'a, str>, Rejection> {
    // The headers of a structured event speak of the envelope, so its data is told apart by its own bytes alone.
    let (event, data_headers) = match mode {
        CloudEventsMode::Binary => (CloudEvent::binary(headers, Some(bytes))?, headers),
        CloudEventsMode::Structured => (CloudEvent::structured(json::utf8(bytes)?)?, &Headers::NONE),
    };
    let CloudEvent { attributes, data } = event;
    let data = match data {
        None => return Err(bad("no data")),
        Some(data) if data.is_empty() => return Err(bad("no data")),
        Some(Cow::Borrowed(data)) => plain(data_headers, data, schemas, text_bytes_max),
        Some(Cow::Owned(data)) => {
            plain(data_headers, &data, schemas, text_bytes_max).map(|text| Cow::Owned(text.into_owned()))
        }
    };
    let data = data.map_err(|rejection| match rejection.code {
        Code::NotJson => bad("data: not UTF-8"),
        _ => rejection,
    })?;
    complete(&attributes, data)
}

/// Fields of the event that the envelope can give: (field, attribute).
const FILLED: [(&str, &str); 5] = [
    ("event_id", "id"),
    ("type", "type"),
    ("occurred_at", "time"),
    ("session_id", "partitionkey"),
    ("node", "subject"),
];

/// Prefix of `CloudEvents` types that is not part of an event's type.
const TYPE_PREFIX: &str = "reflex.";

/// Adds the fields that the data lacks, or holds as null, from the envelope. What the data says wins.
fn complete<'a>(attributes: &BTreeMap<String, String>, data: Cow<'a, str>) -> Result<Cow<'a, str>, Rejection> {
    // A derived struct would take an array too.
    if !json::starts_object(&data) {
        return Err(bad("data: not a JSON object"));
    }
    let given = match serde_json::from_str::<Given<'_>>(&data) {
        Ok(given) => given,
        Err(_) if serde_json::from_str::<IgnoredAny>(&data).is_err() => return Err(bad("data: not a JSON object")),
        // A field that stands twice: the reader of the event says so.
        Err(_) => return Ok(data),
    };
    let mut added = String::new();
    let mut nulls = Vec::new();
    for ((field, attribute), raw) in FILLED.into_iter().zip(given.in_order()) {
        let Some(value) = attributes.get(attribute).filter(|_| raw.is_none_or(|raw| raw.get() == "null")) else {
            continue;
        };
        let value = if field == "type" { value.strip_prefix(TYPE_PREFIX).unwrap_or(value) } else { value };
        let value = serde_json::Value::from(value).to_string();
        match raw {
            Some(raw) => nulls.push((raw.get().as_ptr() as usize - data.as_ptr() as usize, value)),
            None => added.extend(["\"", field, "\":", &value, ","]),
        }
    }
    if added.is_empty() && nulls.is_empty() {
        return Ok(data);
    }
    Ok(Cow::Owned(spliced(&data, &added, nulls)))
}

/// `object` with values instead of the nulls at these places, and with members added after its opening brace.
fn spliced(object: &str, added: &str, mut nulls: Vec<(usize, String)>) -> String {
    nulls.sort();
    let opening = object.find('{').map_or(0, |at| at + 1);
    let is_empty = object[opening..].trim_start().starts_with('}');
    let mut text =
        String::with_capacity(object.len() + added.len() + nulls.iter().map(|(_, v)| v.len()).sum::<usize>());
    text.push_str(&object[..opening]);
    text.push_str(if is_empty { added.trim_end_matches(',') } else { added });
    let mut copied = opening;
    for (at, value) in nulls {
        text.push_str(&object[copied..at]);
        text.push_str(&value);
        copied = at + "null".len();
    }
    text.push_str(&object[copied..]);
    text
}

/// What the data itself says of the fields in [`FILLED`]; a null is `Some` here, to be found in the text.
#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow, default, deserialize_with = "as_written")]
    event_id: Option<&'a RawValue>,
    #[serde(rename = "type", borrow, default, deserialize_with = "as_written")]
    event_type: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "as_written")]
    occurred_at: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "as_written")]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "as_written")]
    node: Option<&'a RawValue>,
}

impl<'a> Given<'a> {
    fn in_order(&self) -> [Option<&'a RawValue>; 5] {
        [self.event_id, self.event_type, self.occurred_at, self.session_id, self.node]
    }
}

fn as_written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}
