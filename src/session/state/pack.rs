//! A tracked session as few bytes as it can be: how it lies in memory between commits, most of its life. Never written
//! anywhere; state entries have their own form.

use crate::record::event::Route;
use crate::record::time::Timestamp;
use crate::session::ids;
use crate::session::intervention::Waiting;
use crate::session::normalise::Facts;
use crate::session::overrides::Live;
use crate::session::state::entry;
use crate::session::state::names::{self, Names};
use crate::session::table::Tracked;
use crate::session::track::{NodeTrack, Previous, Run, ShapeTrack, Sighting};

/// Bytes of the hash in front.
const HASH_BYTES: usize = 16;

const IS_HELD: u8 = 1;
const IS_IRREVERSIBLE: u8 = 2;

/// A packed session: hash of its state entry, what its indexes need, the rest.
#[derive(Debug)]
pub struct Packed(Box<[u8]>);

/// What the indexes need to know of a packed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its tenant.
    pub tenant: Option<&'a str>,
    /// Its id.
    pub session_id: &'a str,
    /// When it may have been idle for too long.
    pub idle_at: Timestamp,
    /// Which nodes its runs track: a bit for each, more than one node to a bit.
    pub nodes: u32,
    /// Whether overrides, proposals or runs past an irreversible node are to be looked for.
    pub has_more: bool,
}

impl Packed {
    /// Packs a session; `hash` is that of its state entry.
    #[must_use]
    pub fn new(tracked: &Tracked, hash: u128, names: &mut Names) -> Self {
        let mut writer = Writer { out: Vec::with_capacity(256), names };
        writer.out.extend(hash.to_le_bytes());
        writer.session(tracked);
        let packed = Self(writer.out.into_boxed_slice());
        debug_assert_eq!(packed.unpack(names), *tracked, "packing loses nothing");
        packed
    }

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    /// Hash of its state entry.
    #[must_use]
    pub fn hash(&self) -> u128 {
        let (hash, _) = self.0.split_first_chunk::<HASH_BYTES>().unwrap_or((&[0; HASH_BYTES], &[]));
        u128::from_le_bytes(*hash)
    }

    /// What the indexes need.
    #[must_use]
    pub fn header<'a>(&'a self, names: &'a Names) -> Header<'a> {
        let mut cursor = Cursor(self.0.get(HASH_BYTES..).unwrap_or_default());
        let has_more = cursor.byte() & (IS_HELD | IS_IRREVERSIBLE) != 0;
        let nodes = u32::from_le_bytes(cursor.array());
        let idle_at = cursor.instant();
        let tenant = cursor.option().map(|number| names.get(number));
        Header { tenant, session_id: cursor.text(), idle_at, nodes, has_more }
    }

    /// The session itself.
    #[must_use]
    pub fn unpack(&self, names: &Names) -> Tracked {
        self.read(&mut |number| names.get(number).into())
    }

    /// Gives its names back.
    pub fn release(&self, names: &mut Names) {
        let _ = self.read(&mut |number| {
            names.release(number);
            Box::default()
        });
    }

    fn read(&self, name: &mut dyn FnMut(u32) -> Box<str>) -> Tracked {
        Reader { cursor: Cursor(self.0.get(HASH_BYTES..).unwrap_or_default()), name }.session()
    }
}

/// The bit of a node in [`Header::nodes`].
#[must_use]
pub fn node_bit(name: Option<&str>) -> u32 {
    1 << (names::hash(name.unwrap_or_default()) >> 59)
}

struct Writer<'a> {
    out: Vec<u8>,
    names: &'a mut Names,
}

impl Writer<'_> {
    fn number(&mut self, number: impl TryInto<u64>) {
        let mut rest = number.try_into().unwrap_or_default();
        loop {
            let [low, ..] = rest.to_le_bytes();
            rest >>= 7;
            if rest == 0 {
                return self.out.push(low & 0x7f);
            }
            self.out.push(low | 0x80);
        }
    }

    fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)).cast_unsigned());
    }

    fn instant(&mut self, at: Timestamp) {
        self.signed(at.as_micros());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    fn name(&mut self, name: &str) {
        let number = self.names.take(name);
        self.number(number);
    }

    fn option(&mut self, name: Option<&str>) {
        let number = name.map_or(0, |name| u64::from(self.names.take(name)) + 1);
        self.number(number);
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.number(items.len());
        for item in items {
            each(self, item);
        }
    }

    fn session(&mut self, tracked: &Tracked) {
        let irreversible = tracked.runs.iter().any(|run| run.irreversible);
        self.out.push(u8::from(tracked.is_held()) * IS_HELD + u8::from(irreversible) * IS_IRREVERSIBLE);
        let nodes = tracked.runs.iter().flat_map(|run| &run.nodes);
        let bits = nodes.fold(0, |bits, node| bits | node_bit(node.name.as_deref()));
        self.out.extend(bits.to_le_bytes());
        self.instant(tracked.idle_at);
        self.option(tracked.tenant.as_deref());
        self.bytes(tracked.session_id.as_bytes());
        self.number(tracked.interventions);
        self.list(&tracked.failure_ids, |writer, id| writer.out.extend(id.to_le_bytes()));
        self.list(&tracked.runs, Self::run);
        self.list(&tracked.overrides, Self::live);
        self.list(&tracked.waiting, |writer, waiting| writer.bytes(&entry::encode(waiting)));
    }

    fn run(&mut self, run: &Run) {
        self.out.push(u8::from(run.shadow) + 2 * u8::from(run.irreversible) + 4 * u8::from(run.run_id.is_some()));
        self.name(&run.graph);
        if let Some(run_id) = &run.run_id {
            self.bytes(run_id.as_bytes());
        }
        self.number(run.sequence);
        self.list(run.previous.as_slice(), |writer, previous| {
            writer.number(previous.node);
            writer.number(previous.shape);
            writer.number(previous.attempt);
        });
        self.list(&run.artifacts, |writer, artifact| writer.name(artifact));
        self.list(&run.nodes, Self::node);
    }

    fn node(&mut self, node: &NodeTrack) {
        self.name(node.route.as_str());
        self.option(node.name.as_deref());
        self.number(node.last_failed);
        self.number(node.last_shape);
        self.option(node.schema.as_deref());
        self.out.push(u8::from(node.failed_since_boundary) + 2 * u8::from(node.ambiguous));
        let Facts { event_type, classes, codes, message } = &node.last_facts;
        self.name(event_type);
        self.list(classes, |writer, class| writer.name(class));
        self.list(codes, |writer, code| writer.name(code));
        self.option(message.as_deref());
        self.list(&node.shapes, Self::shape);
    }

    fn shape(&mut self, shape: &ShapeTrack) {
        self.name(&shape.shape);
        self.number(shape.count);
        self.out.push(u8::from(shape.signed) + 2 * u8::from(shape.rowed));
        self.list(&shape.evidence, |writer, seen| {
            writer.name(&seen.topic);
            writer.signed(seen.partition.into());
            writer.signed(seen.offset);
            writer.bytes(seen.event_id.as_bytes());
        });
    }

    fn live(&mut self, live: &Live) {
        self.out.extend(live.id.as_bytes());
        self.name(&live.graph);
        self.option(live.schema_ref.as_deref());
        self.instant(live.created_at);
        self.instant(live.expires_at);
        self.number(live.attempt);
        self.number(live.revision);
    }
}

/// Reads what a [`Writer`] wrote; beyond the end everything is zero.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0_u32);
        loop {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return number;
            }
        }
    }

    fn small<T: TryFrom<u64> + Default>(&mut self) -> T {
        T::try_from(self.number()).unwrap_or_default()
    }

    fn signed(&mut self) -> i64 {
        let number = self.number();
        (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
    }

    fn instant(&mut self) -> Timestamp {
        Timestamp::from_micros(self.signed())
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap_or([0; N])
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = self.small();
        self.take(length)
    }

    fn text(&mut self) -> &'a str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    fn option(&mut self) -> Option<u32> {
        self.small::<u32>().checked_sub(1)
    }
}

struct Reader<'a, 'n> {
    cursor: Cursor<'a>,
    name: &'n mut dyn FnMut(u32) -> Box<str>,
}

impl Reader<'_, '_> {
    fn name(&mut self) -> Box<str> {
        (self.name)(self.cursor.small())
    }

    fn option(&mut self) -> Option<Box<str>> {
        self.cursor.option().map(&mut *self.name)
    }

    fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.cursor.number()).map(|_| each(self)).collect()
    }

    fn session(mut self) -> Tracked {
        self.cursor.take(1 + 4);
        Tracked {
            idle_at: self.cursor.instant(),
            tenant: self.option(),
            session_id: self.cursor.text().into(),
            interventions: self.cursor.small(),
            failure_ids: self.list(|reader| u64::from_le_bytes(reader.cursor.array())),
            runs: self.list(Self::run),
            overrides: self.list(Self::live),
            waiting: self.list(Self::waiting).into_iter().flatten().collect(),
        }
    }

    fn waiting(&mut self) -> Option<Waiting> {
        entry::decode(self.cursor.bytes()).ok()
    }

    fn run(&mut self) -> Run {
        let flags = self.cursor.byte();
        Run {
            shadow: flags & 1 != 0,
            irreversible: flags & 2 != 0,
            graph: self.name(),
            run_id: (flags & 4 != 0).then(|| self.cursor.text().into()),
            sequence: self.cursor.small(),
            previous: self.list(Self::previous).pop(),
            artifacts: self.list(Self::name),
            nodes: self.list(Self::node),
        }
    }

    fn previous(&mut self) -> Previous {
        Previous { node: self.cursor.small(), shape: self.cursor.small(), attempt: self.cursor.small() }
    }

    fn node(&mut self) -> NodeTrack {
        let (route, name) = (Route::from(&*self.name()), self.option());
        let (last_failed, last_shape) = (self.cursor.small(), self.cursor.small());
        let (schema, flags) = (self.option(), self.cursor.byte());
        NodeTrack {
            route,
            schema,
            ambiguous: flags & 2 != 0,
            name,
            last_failed,
            last_shape,
            failed_since_boundary: flags & 1 != 0,
            last_facts: Facts {
                event_type: self.name().into(),
                classes: self.list(|reader| reader.name().into()),
                codes: self.list(|reader| reader.name().into()),
                message: self.option().map(Into::into),
            },
            shapes: self.list(Self::shape),
        }
    }

    fn shape(&mut self) -> ShapeTrack {
        let (shape, count, flags) = (self.name(), self.cursor.small(), self.cursor.byte());
        ShapeTrack {
            shape,
            count,
            signed: flags & 1 != 0,
            rowed: flags & 2 != 0,
            evidence: self.list(|reader| Sighting {
                topic: reader.name(),
                partition: reader.cursor.signed().try_into().unwrap_or_default(),
                offset: reader.cursor.signed(),
                event_id: reader.cursor.text().into(),
            }),
        }
    }

    fn live(&mut self) -> Live {
        Live {
            id: ids::Key::from_bytes(self.cursor.array()),
            graph: self.name(),
            schema_ref: self.option(),
            created_at: self.cursor.instant(),
            expires_at: self.cursor.instant(),
            attempt: self.cursor.small(),
            revision: self.cursor.small(),
        }
    }
}
