//! A schema made ready for reading and writing: names resolved, every type a node with a number.

use std::collections::BTreeMap;

use apache_avro::Schema;
use apache_avro::schema::{FixedSchema, InnerDecimalSchema, Name, RecordSchema, UuidSchema};
use serde_json::Value;

use crate::record::codec::avro::InvalidSchema;
use crate::record::codec::avro::times::Unit;

/// A schema as a table of nodes; recursive types point back into it.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    nodes: Vec<Node>,
    root: NodeId,
}

/// Index into the table of a [`Layout`].
pub(super) type NodeId = usize;

/// One type, by how its bytes are laid out and what they mean.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum(Vec<String>),
    Array(NodeId),
    Map(NodeId),
    Union(Vec<NodeId>),
    Record(Vec<Field>),
    /// Days since the epoch.
    Date,
    /// Time of day.
    Time(Unit),
    /// Instant in UTC.
    Instant(Unit),
    /// Date and time of day in no known zone.
    Local(Unit),
    /// Months, days, milliseconds.
    Duration,
    /// Bytes of this size; `None`: with their length before them.
    Uuid(Option<usize>),
    /// Unscaled two's complement of this size; `None`: with its length before it.
    Decimal {
        size: Option<usize>,
        scale: usize,
    },
    /// Unscaled two's complement and scale, in bytes of their own.
    BigDecimal,
}

/// One field of a record.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub name: String,
    /// `"name":`, escaped.
    pub key: String,
    pub node: NodeId,
    pub default: Option<Value>,
}

impl Field {
    /// A field whose default is null is optional: left out of JSON where it is null. Others are always written.
    pub fn is_optional(&self) -> bool {
        self.default == Some(Value::Null)
    }
}

impl Layout {
    /// The layout of a parsed schema.
    pub fn of(schema: &Schema) -> Result<Self, InvalidSchema> {
        let mut builder = Builder::default();
        let root = builder.node(schema, None)?;
        Ok(Self { nodes: builder.nodes, root })
    }

    pub fn root(&self) -> NodeId {
        self.root
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }
}

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    named: BTreeMap<String, NodeId>,
}

impl Builder {
    fn node(&mut self, schema: &Schema, namespace: Option<&str>) -> Result<NodeId, InvalidSchema> {
        let node = match schema {
            Schema::Record(record) => return self.record(record, namespace),
            Schema::Ref { name } => {
                let name = name.fullname(namespace);
                let unknown = || InvalidSchema(format!("type {name} is not defined"));
                return self.named.get(&name).copied().ok_or_else(unknown);
            }
            Schema::Enum(schema) => {
                return Ok(self.define(&schema.name, namespace, Node::Enum(schema.symbols.clone())));
            }
            Schema::Fixed(fixed) => return Ok(self.define(&fixed.name, namespace, Node::Fixed(fixed.size))),
            Schema::Duration(fixed) => {
                sized(fixed, 12)?;
                return Ok(self.define(&fixed.name, namespace, Node::Duration));
            }
            Schema::Uuid(UuidSchema::Fixed(fixed)) => {
                sized(fixed, 16)?;
                return Ok(self.define(&fixed.name, namespace, Node::Uuid(Some(16))));
            }
            Schema::Decimal(decimal) => match &decimal.inner {
                InnerDecimalSchema::Bytes => Node::Decimal { size: None, scale: decimal.scale },
                InnerDecimalSchema::Fixed(fixed) => {
                    let node = Node::Decimal { size: Some(fixed.size), scale: decimal.scale };
                    return Ok(self.define(&fixed.name, namespace, node));
                }
            },
            Schema::Array(array) => Node::Array(self.node(&array.items, namespace)?),
            Schema::Map(map) => Node::Map(self.node(&map.types, namespace)?),
            Schema::Union(union) => {
                let variants = union.variants().iter().map(|variant| self.node(variant, namespace));
                Node::Union(variants.collect::<Result<_, _>>()?)
            }
            simple => simple_node(simple),
        };
        Ok(self.push(node))
    }

    fn record(&mut self, record: &RecordSchema, namespace: Option<&str>) -> Result<NodeId, InvalidSchema> {
        let name = record.name.fully_qualified_name(namespace);
        // Known before its fields are: they may point back at it.
        let id = self.define(&record.name, namespace, Node::Null);
        let mut fields = Vec::with_capacity(record.fields.len());
        for field in &record.fields {
            fields.push(Field {
                name: field.name.clone(),
                key: format!("{}:", Value::from(field.name.as_str())),
                node: self.node(&field.schema, name.namespace())?,
                default: field.default.clone(),
            });
        }
        self.nodes[id] = Node::Record(fields);
        Ok(id)
    }

    fn define(&mut self, name: &Name, namespace: Option<&str>, node: Node) -> NodeId {
        let id = self.push(node);
        self.named.insert(name.fullname(namespace), id);
        id
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}

fn sized(fixed: &FixedSchema, size: usize) -> Result<(), InvalidSchema> {
    if fixed.size == size {
        return Ok(());
    }
    Err(InvalidSchema(format!("{}: {} bytes where its logical type has {size}", fixed.name.name(), fixed.size)))
}

fn simple_node(schema: &Schema) -> Node {
    match schema {
        Schema::Boolean => Node::Boolean,
        Schema::Int => Node::Int,
        Schema::Long => Node::Long,
        Schema::Float => Node::Float,
        Schema::Double => Node::Double,
        Schema::Bytes => Node::Bytes,
        Schema::String | Schema::Uuid(UuidSchema::String) => Node::String,
        Schema::Uuid(_) => Node::Uuid(None),
        Schema::BigDecimal => Node::BigDecimal,
        Schema::Date => Node::Date,
        Schema::TimeMillis => Node::Time(Unit::Millis),
        Schema::TimeMicros => Node::Time(Unit::Micros),
        Schema::TimestampMillis => Node::Instant(Unit::Millis),
        Schema::TimestampMicros => Node::Instant(Unit::Micros),
        Schema::TimestampNanos => Node::Instant(Unit::Nanos),
        Schema::LocalTimestampMillis => Node::Local(Unit::Millis),
        Schema::LocalTimestampMicros => Node::Local(Unit::Micros),
        Schema::LocalTimestampNanos => Node::Local(Unit::Nanos),
        // Null; complex types never come here.
        _ => Node::Null,
    }
}
