//! How often one client may ask: a token by its name, else an address (of version 6 the network, which one host has whole).

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::DefaultClock;
use governor::state::keyed::HashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::serve::{Limit, Limits, Served};

const TIDY_EVERY: Duration = Duration::from_secs(1);

/// Who is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// A token.
    Token(Arc<str>),
    /// An address.
    Address(IpAddr),
}

impl Client {
    /// The client at an address.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
            address @ IpAddr::V4(_) => address,
        })
    }
}

type Keyed<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// Rates of clients, a bounded number of them.
#[derive(Debug)]
pub struct Rates {
    /// As many as there are tokens.
    tokens: Keyed<Arc<str>>,
    addresses: Keyed<IpAddr>,
    /// Of all addresses, once there are too many.
    others: RateLimiter<NotKeyed, InMemoryState, DefaultClock>,
    clients_max: usize,
    tidied: Mutex<Option<Instant>>,
    served: Arc<Served>,
}

impl Rates {
    /// By these limits.
    #[must_use]
    pub fn new(limits: &Limits, served: &Arc<Served>) -> Self {
        let quota = Quota::per_second(NonZeroU32::new(limits.rate_per_second_max).unwrap_or(NonZeroU32::MIN));
        Self {
            tokens: RateLimiter::hashmap(quota),
            addresses: RateLimiter::hashmap(quota),
            others: RateLimiter::direct(quota),
            clients_max: limits.clients_max,
            tidied: Mutex::new(None),
            served: Arc::clone(served),
        }
    }

    /// Whether this client may ask now.
    #[must_use]
    pub fn admits(&self, client: &Client) -> bool {
        let admitted = match client {
            Client::Token(name) => self.tokens.check_key(name).is_ok(),
            Client::Address(address) => self.admits_address(address),
        };
        if !admitted {
            self.served.reached(Limit::Rate);
        }
        admitted
    }

    fn admits_address(&self, address: &IpAddr) -> bool {
        if self.addresses.len() >= self.clients_max {
            self.tidy();
        }
        if self.addresses.len() >= self.clients_max {
            self.served.reached(Limit::Clients);
            return self.others.check().is_ok();
        }
        self.addresses.check_key(address).is_ok()
    }

    /// Those who have been away for long enough are as new ones. It looks at all of them: now and then only.
    fn tidy(&self) {
        let mut tidied = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
        if tidied.is_none_or(|at| at.elapsed() >= TIDY_EVERY) {
            *tidied = Some(Instant::now());
            self.addresses.retain_recent();
            self.addresses.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_over_its_rate_is_refused_and_others_are_not() {
        let limits = Limits { rate_per_second_max: 2, ..Limits::default() };
        let rates = Rates::new(&limits, &Arc::default());
        let (a, b) = (Client::Token("a".into()), Client::at([127, 0, 0, 1].into()));
        assert_eq!([&a, &a, &a, &b].map(|client| rates.admits(client)), [true, true, false, true]);
    }

    #[test]
    fn clients_over_their_number_share_one_rate() {
        let served = Arc::default();
        let limits = Limits { rate_per_second_max: 2, clients_max: 1, ..Limits::default() };
        let rates = Rates::new(&limits, &served);
        let client = |n: u8| Client::at([10, 0, 0, n].into());
        assert_eq!([1, 2, 3, 4].map(|n| rates.admits(&client(n))), [true, true, true, false]);
        assert!(served.limits().iter().any(|(name, count)| *name == "clients_max" && *count == 3));
    }

    #[test]
    fn one_host_has_one_place_whatever_address_of_its_network_it_uses() {
        let at = |text: &str| Client::at(text.parse().expect("an address"));
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
    }
}
