//! Lanes: a swap starts afresh, also one from one degraded schema to the next.

use crate::record::event::{Event, Route};

/// The copy of the graph an event speaks of: its route and, where a session may be moved from one schema to another
/// without a change of route, the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane<'a> {
    /// The route.
    pub route: &'a Route,
    /// The running schema, on the degraded route.
    pub schema: Option<&'a str>,
}

impl<'a> Lane<'a> {
    /// The lane of an event.
    #[must_use]
    pub fn of(event: &'a Event<'_>) -> Self {
        let route = event.route();
        let schema = event.schema_ref.as_deref().filter(|_| *route == Route::Degraded);
        Self { route, schema }
    }
}
