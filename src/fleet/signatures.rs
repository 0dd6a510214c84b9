//! Signatures of the last hour: how often, first and last, and in which sessions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::fleet::lru::Lru;
use crate::fleet::window::{Serial, Windows, oldest_kept};
use crate::record::event::Route;
use crate::record::fleet::{RowKey, SignatureRow};
use crate::record::signature::Signature;
use crate::record::task::entry::micros;
use crate::record::task::shelf::Shelf;
use crate::record::time::Timestamp;

/// The override whose shadow a failure happened on: evidence of its recovery, for nothing else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Recurrence {
    /// The override.
    pub override_id: Option<String>,
    /// Its attempt.
    pub override_attempt: Option<u32>,
}

/// What is known of a signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureEntry {
    /// The graph.
    pub graph: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// The signature.
    pub signature: Signature,
    /// Code of the signal that named it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// On a shadow: of which override.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurrence: Option<Recurrence>,
    /// Sightings since it is known.
    pub occurrences: u64,
    /// First sighting.
    #[serde(with = "micros")]
    pub first_at: Timestamp,
    /// Last sighting.
    #[serde(with = "micros")]
    pub last_at: Timestamp,
}

/// A session that failed with a signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEntry {
    /// Its last failure: the bucket.
    pub bucket: i64,
    /// What its run had in common with others.
    pub row: RowKey,
    /// Its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Failures.
    pub occurrences: u64,
}

/// What a signature is found by.
type Key = (String, String, Option<Recurrence>);

/// Sessions are told apart by a hash of tenant and id.
type SessionKey = (Serial, u64);

/// How many were forgotten to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Signatures.
    pub signatures: u64,
    /// Sessions.
    pub sessions: u64,
}

/// The signatures of a task.
#[derive(Debug, Default)]
pub struct Signatures {
    pub(crate) shelf: Shelf<Serial, SignatureEntry>,
    pub(crate) sessions: Shelf<SessionKey, SessionEntry>,
    by_key: BTreeMap<Key, Serial>,
    lru: Lru<Serial>,
    lru_of_sessions: Lru<SessionKey>,
}

impl Signatures {
    /// Counts a sighting; its cells stand in `windows`.
    pub fn add(
        &mut self,
        row: SignatureRow,
        (at, bucket): (Timestamp, i64),
        windows: &mut Windows,
        (signatures_max, sessions_max): (usize, usize),
    ) -> Evicted {
        let mut evicted = Evicted::default();
        let is_shadow = row.route == Route::Shadow;
        let recurrence = is_shadow
            .then(|| Recurrence { override_id: row.override_id.clone(), override_attempt: row.override_attempt });
        let key = (row.graph.clone(), row.fingerprint.clone(), recurrence.clone());
        let serial = self.by_key.get(&key).copied().unwrap_or_else(|| {
            while self.shelf.len() >= signatures_max.max(1) {
                let Some((_, oldest)) = self.lru.oldest() else { break };
                self.forget(oldest, windows);
                evicted.signatures += 1;
            }
            let serial = windows.next_serial();
            self.by_key.insert(key, serial);
            let entry = SignatureEntry {
                graph: row.graph.clone(),
                fingerprint: row.fingerprint.clone(),
                signature: row.signature.clone(),
                signal: None,
                recurrence,
                occurrences: 0,
                first_at: at,
                last_at: at,
            };
            self.shelf.insert(serial, entry);
            serial
        });
        if let Some(entry) = self.shelf.get_mut(&serial) {
            entry.occurrences = entry.occurrences.saturating_add(1);
            entry.signal.clone_from(&row.signal);
            (entry.first_at, entry.last_at) = (entry.first_at.min(at), entry.last_at.max(at));
        }
        let cell = windows.cells.get_or_default(&(bucket, serial));
        cell.occurrences = cell.occurrences.saturating_add(1);
        self.lru.touch(serial, 0, bucket);
        evicted.sessions = self.session(serial, row, bucket, sessions_max);
        evicted
    }

    fn session(&mut self, serial: Serial, row: SignatureRow, bucket: i64, sessions_max: usize) -> u64 {
        let name = format!("{}\0{}", row.tenant.as_deref().unwrap_or_default(), row.session_id);
        let key = (serial, XxHash3_64::oneshot(name.as_bytes()));
        let common = RowKey {
            schema_ref: row.schema_ref,
            route: row.route,
            override_id: row.override_id,
            override_attempt: row.override_attempt,
            late: false,
            dimensions: row.dimensions,
        };
        let known = self.sessions.get(&key).map(|known| (known.bucket, known.occurrences));
        let mut evicted = 0;
        while known.is_none() && self.sessions.len() >= sessions_max.max(1) {
            let Some((_, oldest)) = self.lru_of_sessions.oldest() else { break };
            self.forget_session(oldest);
            evicted += 1;
        }
        let (last, occurrences) = known.unwrap_or((bucket, 0));
        let entry = SessionEntry {
            bucket: last.max(bucket),
            row: common,
            tenant: row.tenant,
            occurrences: occurrences.saturating_add(1),
        };
        self.sessions.insert(key, entry);
        self.lru_of_sessions.touch(key, 0, bucket);
        evicted
    }

    fn forget_session(&mut self, key: SessionKey) {
        self.sessions.remove(&key);
        self.lru_of_sessions.remove(key);
    }

    fn forget(&mut self, serial: Serial, windows: &mut Windows) {
        if let Some(entry) = self.shelf.remove(&serial) {
            self.by_key.remove(&(entry.graph, entry.fingerprint, entry.recurrence));
        }
        windows.drop_cells(serial, self.lru.last(&serial));
        self.lru.remove(serial);
        let sessions: Vec<SessionKey> =
            self.sessions.range((serial, 0)..=(serial, u64::MAX)).map(|(k, _)| *k).collect();
        for key in sessions {
            self.forget_session(key);
        }
    }

    /// Forgets what is older than the longest window.
    pub fn expire(&mut self, watermark: Timestamp, windows: &mut Windows) {
        let oldest = oldest_kept(watermark);
        while let Some((_, key)) = self.lru_of_sessions.oldest().filter(|(last, _)| *last < oldest) {
            self.forget_session(key);
        }
        while let Some((_, serial)) = self.lru.oldest().filter(|(last, _)| *last < oldest) {
            self.forget(serial, windows);
        }
    }

    /// The signatures of a graph, in order of fingerprints.
    pub fn of<'a>(&'a self, graph: &str) -> impl Iterator<Item = (Serial, &'a SignatureEntry)> + use<'a> {
        let from = (graph.to_owned(), String::new(), None);
        let graph = graph.to_owned();
        let of_graph = self.by_key.range(from..).take_while(move |(key, _)| key.0 == graph);
        of_graph.filter_map(|(_, serial)| Some((*serial, self.shelf.get(serial)?)))
    }

    /// The sessions that failed with a signature, in no order that means anything.
    pub fn sessions_of(&self, serial: Serial) -> impl Iterator<Item = &SessionEntry> {
        self.sessions.range((serial, 0)..=(serial, u64::MAX)).map(|(_, session)| session)
    }

    /// Builds what follows from the entries.
    pub fn reindex(&mut self, windows: &Windows) {
        let key = |entry: &SignatureEntry| (entry.graph.clone(), entry.fingerprint.clone(), entry.recurrence.clone());
        self.by_key = self.shelf.iter().map(|(serial, entry)| (key(entry), *serial)).collect();
        self.lru.clear();
        for ((bucket, serial), _) in windows.cells.iter() {
            if self.shelf.get(serial).is_some() {
                self.lru.touch(*serial, 0, *bucket);
            }
        }
        self.lru_of_sessions.clear();
        for (key, session) in self.sessions.iter() {
            self.lru_of_sessions.touch(*key, 0, session.bucket);
        }
    }
}
