//! Places of those who wait: `waiting_max` of them, and `waiting_per_client_max` for one client, so that who holds all it may
//! leaves room for others.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::serve::problem::Problem;
use crate::serve::rate::Client;
use crate::serve::{Limit, Limits, Served};

/// Who waits.
#[derive(Debug)]
pub struct Waiters {
    waiting_max: usize,
    waiting_per_client_max: usize,
    served: Arc<Served>,
    /// At most `waiting_max` clients, each with its places.
    held: Mutex<HashMap<Client, usize>>,
}

/// A place among those who wait; it is free again when dropped.
#[derive(Debug)]
pub struct Waiting {
    waiters: Arc<Waiters>,
    client: Client,
}

impl Waiters {
    /// By these limits, counted there.
    #[must_use]
    pub fn new(limits: &Limits, served: &Arc<Served>) -> Arc<Self> {
        let Limits { waiting_max, waiting_per_client_max, .. } = *limits;
        Arc::new(Self { waiting_max, waiting_per_client_max, served: Arc::clone(served), held: Mutex::default() })
    }

    /// A place for this client.
    ///
    /// # Errors
    /// 429 where it holds as many as one may, 503 where all are held.
    pub fn admit(self: &Arc<Self>, client: &Client) -> Result<Waiting, Problem> {
        let mut held = self.held();
        let (all, own) = (held.values().sum::<usize>(), held.get(client).copied().unwrap_or(0));
        if own >= self.waiting_per_client_max {
            self.served.reached(Limit::Share);
            return Err(Problem::rate_limited("too many long polls and streams of this client"));
        }
        if all >= self.waiting_max {
            self.served.reached(Limit::Waiting);
            return Err(Problem::busy("too many long polls and streams"));
        }
        held.insert(client.clone(), own + 1);
        drop(held);
        self.served.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(Waiting { waiters: Arc::clone(self), client: client.clone() })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Client, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut held = self.waiters.held();
        if let Some(count) = held.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.client);
            }
        }
        drop(held);
        self.waiters.served.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_room_for_others_and_gets_its_places_back() {
        let limits = Limits { waiting_max: 3, waiting_per_client_max: 2, ..Limits::default() };
        let waiters = Waiters::new(&limits, &Arc::default());
        let [a, b] = ["a", "b"].map(|name| Client::Token(name.into()));
        let of_a = [waiters.admit(&a).expect("a place"), waiters.admit(&a).expect("a place")];
        assert!(waiters.admit(&a).is_err(), "all that one may hold");
        let of_b = waiters.admit(&b).expect("room for another");
        assert!(waiters.admit(&b).is_err(), "all there are");
        drop(of_a);
        assert!(waiters.admit(&a).is_ok());
        drop(of_b);
        assert!(waiters.held().is_empty());
        assert_eq!(waiters.served.waiting.load(Ordering::Relaxed), 0);
    }
}
