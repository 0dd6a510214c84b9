//! Brokers and topics as they are, as they should be, and the clients that ask them.
//!
//! - `client`: settings of the clients: what exactly-once needs is pinned.
//! - `admin`: asking and changing.
//! - `ends`: where partitions begin and end.
//! - `topics`: topics as they should be.
//! - `preflight`: the look before a start.
//! - `findings`: what is wrong, and what to set.
//! - `acls`: what each principal needs.
//! - `identity`: which topics offsets speak of.
//! - `embedded`: the broker of the demo.

pub mod acls;
pub mod admin;
pub mod client;
pub mod embedded;
pub mod ends;
pub mod findings;
pub(crate) mod identity;
pub mod preflight;
pub mod topics;
