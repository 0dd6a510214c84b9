//! Loopback ports that stay ours from the first start of a broker to its last restart.
//!
//! A port from the kernel's own range could be handed to any client as its local port while the broker is down. So ports
//! are taken from below that range, and a lock file keeps other test processes away.
//!
//! Invariant: two reservations never overlap (`harness_self.rs`, `ports_are_reserved_once`).

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::net::TcpListener;
use std::path::Path;

const CANDIDATES: u16 = 8_192;
const LOWEST_FIRST_PORT: u16 = 16_384;
const USUAL_FIRST_EPHEMERAL_PORT: u16 = 32_768;

/// Free to listen on for as long as this value lives.
pub struct Port {
    pub number: u16,
    _lock: File,
}

/// Reserves `N` different ports; `folder` holds the lock files.
pub fn reserve<const N: usize>(folder: &Path) -> Result<[Port; N], String> {
    let problem = |error| format!("no lock files for ports in {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(problem)?;
    let end = first_ephemeral_port();
    let begin = random() % u64::from(CANDIDATES);
    let mut ports = Vec::with_capacity(N);
    for step in 0..u64::from(CANDIDATES) {
        if ports.len() == N {
            break;
        }
        let below = u16::try_from((begin + step) % u64::from(CANDIDATES)).expect("less than CANDIDATES");
        ports.extend(take(folder, end - 1 - below));
    }
    ports.try_into().map_err(|_| format!("no {N} free loopback ports below {end}"))
}

/// From the system's hash seeds; good enough for names and ports.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn take(folder: &Path, number: u16) -> Option<Port> {
    let lock =
        OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(number.to_string())).ok()?;
    lock.try_lock().ok()?;
    TcpListener::bind(("127.0.0.1", number)).ok()?;
    Some(Port { number, _lock: lock })
}

fn first_ephemeral_port() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    first.filter(|port| *port >= LOWEST_FIRST_PORT).unwrap_or(USUAL_FIRST_EPHEMERAL_PORT)
}
