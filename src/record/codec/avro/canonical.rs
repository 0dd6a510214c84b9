//! Parsing canonical form and its CRC-64-AVRO, as the Avro 1.11 specification writes them.

use std::collections::BTreeSet;

use apache_avro::Schema;
use apache_avro::schema::{FixedSchema, InnerDecimalSchema, Name, UuidSchema};

/// The parsing canonical form: names full, attributes in order, logical types, docs and defaults left out.
pub(super) fn form(schema: &Schema) -> String {
    let mut form = Form::default();
    form.write(schema, None);
    form.text
}

/// CRC-64-AVRO, bit by bit: schemas are few and small.
pub(super) fn rabin(bytes: &[u8]) -> u64 {
    const EMPTY: u64 = 0xC15D_213A_A4D7_A795;
    bytes.iter().fold(EMPTY, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ EMPTY } else { crc >> 1 })
    })
}

#[derive(Default)]
struct Form {
    text: String,
    defined: BTreeSet<String>,
}

impl Form {
    fn write(&mut self, schema: &Schema, namespace: Option<&str>) {
        match schema {
            Schema::Array(array) => self.wrapped(r#"{"type":"array","items":"#, &array.items, namespace),
            Schema::Map(map) => self.wrapped(r#"{"type":"map","values":"#, &map.types, namespace),
            Schema::Union(union) => {
                self.text.push('[');
                self.separated(union.variants(), |form, variant| form.write(variant, namespace));
                self.text.push(']');
            }
            Schema::Record(record) => {
                let own = record.name.fully_qualified_name(namespace);
                if self.opens(&record.name, namespace, "record") {
                    self.text.push_str(r#","fields":["#);
                    self.separated(&record.fields, |form, field| {
                        form.put(&[r#"{"name":""#, &field.name, r#"","type":"#]);
                        form.write(&field.schema, own.namespace());
                        form.text.push('}');
                    });
                    self.text.push_str("]}");
                }
            }
            Schema::Enum(schema) => {
                if self.opens(&schema.name, namespace, "enum") {
                    self.text.push_str(r#","symbols":["#);
                    self.separated(&schema.symbols, |form, symbol| form.put(&["\"", symbol, "\""]));
                    self.text.push_str("]}");
                }
            }
            Schema::Fixed(fixed) | Schema::Duration(fixed) | Schema::Uuid(UuidSchema::Fixed(fixed)) => {
                self.fixed(fixed, namespace);
            }
            Schema::Decimal(decimal) => match &decimal.inner {
                InnerDecimalSchema::Fixed(fixed) => self.fixed(fixed, namespace),
                InnerDecimalSchema::Bytes => self.text.push_str(r#""bytes""#),
            },
            Schema::Ref { name } => self.put(&["\"", &name.fullname(namespace), "\""]),
            simple => self.text.push_str(simple_name(simple)),
        }
    }

    fn put(&mut self, parts: &[&str]) {
        self.text.extend(parts.iter().copied());
    }

    fn wrapped(&mut self, opening: &str, inner: &Schema, namespace: Option<&str>) {
        self.text.push_str(opening);
        self.write(inner, namespace);
        self.text.push('}');
    }

    fn separated<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            write(self, item);
        }
    }

    fn fixed(&mut self, fixed: &FixedSchema, namespace: Option<&str>) {
        if self.opens(&fixed.name, namespace, "fixed") {
            self.put(&[r#","size":"#, &fixed.size.to_string(), "}"]);
        }
    }

    /// Begins a named type; the second time its name alone says everything.
    fn opens(&mut self, name: &Name, namespace: Option<&str>, kind: &str) -> bool {
        let name = name.fullname(namespace);
        let is_new = self.defined.insert(name.clone());
        if is_new {
            self.put(&[r#"{"name":""#, &name, r#"","type":""#, kind, "\""]);
        } else {
            self.put(&["\"", &name, "\""]);
        }
        is_new
    }
}

fn simple_name(schema: &Schema) -> &'static str {
    match schema {
        Schema::Null => r#""null""#,
        Schema::Boolean => r#""boolean""#,
        Schema::Int | Schema::Date | Schema::TimeMillis => r#""int""#,
        Schema::Float => r#""float""#,
        Schema::Double => r#""double""#,
        Schema::Bytes | Schema::BigDecimal | Schema::Uuid(UuidSchema::Bytes) => r#""bytes""#,
        Schema::String | Schema::Uuid(UuidSchema::String) => r#""string""#,
        // Longs and all the times that are longs; complex types never come here.
        _ => r#""long""#,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_those_of_the_specifications_test_suite() {
        let vectors = [
            (r#""null""#, 7_195_948_357_588_979_594_i64),
            (r#""boolean""#, -6_970_731_678_124_411_036),
            (r#"{"name":"foo","type":"fixed","size":15}"#, 1_756_455_273_707_447_556),
        ];
        for (json, expected) in vectors {
            let schema = Schema::parse_str(json).expect("a schema");
            assert_eq!(form(&schema), json);
            assert_eq!(rabin(form(&schema).as_bytes()).cast_signed(), expected, "{json}");
        }
    }

    #[test]
    fn names_are_full_and_logical_types_are_gone() {
        let schema = Schema::parse_str(
            r#"{"type":"record","name":"R","namespace":"n","doc":"d","fields":[
                {"name":"at","type":{"type":"long","logicalType":"timestamp-micros"},"default":0},
                {"name":"e","type":{"type":"enum","name":"E","symbols":["A"]}},
                {"name":"next","type":["null","R",{"type":"array","items":"E"}]},
                {"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}}]}"#,
        );
        let expected = r#"{"name":"n.R","type":"record","fields":[{"name":"at","type":"long"},{"name":"e","type":{"name":"n.E","type":"enum","symbols":["A"]}},{"name":"next","type":["null","n.R",{"type":"array","items":"n.E"}]},{"name":"d","type":"bytes"}]}"#;
        assert_eq!(form(&schema.expect("a schema")), expected);
    }
}
