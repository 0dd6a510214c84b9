//! Places of connections. Health and metrics are answered also while somebody holds all of them:
//!
//! ```text
//!  a newcomer ──> a free place                                        asks what it likes
//!            ├──> the place of who is longest without a whole head,
//!            │    where that is longer than head_patience             the same; the other is closed
//!            └──> a spare place: that of the oldest there if need be  one request, of health or metrics; else 503
//! ```
//!
//! A spare place is held for `header_timeout` at most, whatever is done with it, so whoever wants to keep probes out must
//! open `spare_max` connections within the time that one probe takes.
//!
//! Invariant: at most `connections_max` and `spare_max` connections are open (`tests/serve/places.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::serve::{Limit, Limits, Served};

/// All places.
#[derive(Debug)]
pub struct Places {
    limits: Limits,
    served: Arc<Served>,
    taken: Mutex<Taken>,
}

/// Those taken, by the order they were taken in.
#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// Of connections whose first head is not complete: since when, and what tells them that they lost it.
    headless: BTreeMap<u64, (Instant, oneshot::Sender<()>)>,
    /// Of connections that had a whole head.
    heard: usize,
    spare: BTreeMap<u64, oneshot::Sender<()>>,
}

#[derive(Debug)]
enum Kind {
    Headless,
    /// It keeps what would tell of the loss: nobody takes this place.
    Heard(#[allow(dead_code, reason = "held, not used")] oneshot::Sender<()>),
    Spare,
}

/// The place of one connection; free again when dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    number: u64,
    kind: Mutex<Kind>,
}

/// Resolves when the place was given to another.
pub type Lost = oneshot::Receiver<()>;

impl Places {
    /// By these limits, counted there.
    #[must_use]
    pub fn new(limits: &Limits, served: &Arc<Served>) -> Arc<Self> {
        Arc::new(Self { limits: *limits, served: Arc::clone(served), taken: Mutex::default() })
    }

    /// A place for a newcomer; there always is one.
    #[must_use]
    pub fn take(self: &Arc<Self>, now: Instant) -> (Place, Lost) {
        let (keep, lost) = oneshot::channel();
        let mut taken = self.taken();
        let number = taken.next;
        taken.next += 1;
        let is_full = taken.headless.len() + taken.heard >= self.limits.connections_max;
        if is_full {
            self.served.reached(Limit::Connections);
        }
        let kind = if !is_full || self.displaces(&mut taken, now) {
            taken.headless.insert(number, (now, keep));
            Kind::Headless
        } else {
            if taken.spare.len() >= self.limits.spare_max.max(1) {
                self.served.reached(Limit::Spare);
                taken.spare.pop_first();
            }
            taken.spare.insert(number, keep);
            Kind::Spare
        };
        drop(taken);
        (Place { places: Arc::clone(self), number, kind: Mutex::new(kind) }, lost)
    }

    /// Whether somebody had to give a place up.
    fn displaces(&self, taken: &mut Taken, now: Instant) -> bool {
        let Some(longest) = taken.headless.first_entry() else { return false };
        let is_due = now.saturating_duration_since(longest.get().0) >= self.limits.head_patience;
        if is_due {
            self.served.reached(Limit::Patience);
            longest.remove();
        }
        is_due
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Whether only health and metrics are answered there.
    #[must_use]
    pub fn is_spare(&self) -> bool {
        matches!(*self.kind(), Kind::Spare)
    }

    /// A head is complete: it is nobody else's any more.
    pub fn heard(&self) {
        let (mut taken, mut kind) = (self.places.taken(), self.kind());
        if let Kind::Headless = *kind
            && let Some((_, keep)) = taken.headless.remove(&self.number)
        {
            taken.heard += 1;
            *kind = Kind::Heard(keep);
        }
    }

    fn kind(&self) -> MutexGuard<'_, Kind> {
        self.kind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (mut taken, kind) = (self.places.taken(), self.kind());
        // Of one that was lost there is nothing to remove.
        match *kind {
            Kind::Headless => drop(taken.headless.remove(&self.number)),
            Kind::Heard(_) => taken.heard -= 1,
            Kind::Spare => drop(taken.spare.remove(&self.number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn places(connections_max: usize, spare_max: usize) -> Arc<Places> {
        Places::new(&Limits { connections_max, spare_max, ..Limits::default() }, &Arc::default())
    }

    fn is_lost(lost: &mut Lost) -> bool {
        lost.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn who_is_longest_without_a_head_makes_room_and_who_had_one_does_not() {
        let (places, now) = (places(3, 2), Instant::now());
        let later = now + Limits::default().head_patience;
        let (first, mut of_first) = places.take(now);
        let (_second, mut of_second) = places.take(now);
        let (_third, mut of_third) = places.take(now + Duration::from_millis(1));
        first.heard();
        assert!(places.take(now + Duration::from_millis(1)).0.is_spare(), "nobody was patient for long enough");
        assert!(!places.take(later).0.is_spare(), "in place of the second");
        assert!(!is_lost(&mut of_first) && is_lost(&mut of_second) && !is_lost(&mut of_third));
        // The newcomer is gone already: its place is free.
        assert!(!places.take(later).0.is_spare());
        assert!(!is_lost(&mut of_third));
    }

    #[test]
    fn places_come_back_once_each() {
        let (places, now) = (places(2, 2), Instant::now());
        let later = now + Limits::default().head_patience;
        for _ in 0..10 {
            let (a, _lost_a) = places.take(now);
            let (b, mut lost_b) = places.take(now);
            a.heard();
            a.heard();
            let (c, _lost_c) = places.take(later);
            assert!(is_lost(&mut lost_b) && !c.is_spare());
            // Too late: it is another's.
            b.heard();
            let (d, _lost_d) = places.take(now);
            assert!(d.is_spare());
            d.heard();
            assert!(d.is_spare());
            drop((a, b, c, d));
            let taken = places.taken();
            assert_eq!((taken.headless.len(), taken.heard, taken.spare.len()), (0, 0, 0));
        }
    }

    #[test]
    fn the_oldest_in_a_spare_place_makes_room() {
        let (places, now) = (places(1, 2), Instant::now());
        let (ordinary, _lost) = places.take(now);
        ordinary.heard();
        let mut held: Vec<_> = (0..3).map(|_| places.take(now)).collect();
        assert!(held.iter().all(|(place, _)| place.is_spare()));
        assert_eq!(held.iter_mut().map(|(_, lost)| is_lost(lost)).collect::<Vec<_>>(), [true, false, false]);
        let count = |limit: &str| places.served.limits().into_iter().find(|(name, _)| *name == limit).map(|it| it.1);
        assert_eq!((count("connections_max"), count("spare_max"), count("head_patience")), (Some(3), Some(1), Some(0)));
    }
}
