//! Query parameters: each once, none that is not known.

use std::time::Duration;

use axum::extract::{FromRequestParts, Query as Pairs};
use axum::http::request::Parts;

use crate::serve::problem::Problem;

/// The parameters of a request.
#[derive(Debug)]
pub struct Query(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let pairs = Pairs::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let pairs = pairs.map_err(|_| Problem::bad_request("the query is no list of names and values"))?.0;
        for (index, (name, _)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(before, _)| before == name) {
                return Err(Problem::bad_request("a query parameter stands twice"));
            }
        }
        Ok(Self(pairs))
    }
}

impl Query {
    /// Takes the value of a parameter out.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Takes a parameter out that must be there, and not empty.
    ///
    /// # Errors
    /// 400.
    pub fn need(&mut self, name: &str) -> Result<String, Problem> {
        let value = self.take(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| Problem::bad_request(format!("{name}: missing")))
    }

    /// Takes seconds out, at most `max`; absent: none.
    ///
    /// # Errors
    /// 400 where it is no number of seconds.
    pub fn seconds(&mut self, name: &str, max: Duration) -> Result<Duration, Problem> {
        let Some(text) = self.take(name) else { return Ok(Duration::ZERO) };
        let seconds = text.parse::<f64>().ok().filter(|seconds| !seconds.is_nan());
        let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds.min(1e6)).ok());
        seconds
            .map(|wait| wait.min(max))
            .ok_or_else(|| Problem::bad_request(format!("{name}: not a number of seconds")))
    }

    /// Takes all `prefix[NAME]` out.
    pub fn members(&mut self, prefix: &str) -> Vec<(String, String)> {
        let name = |text: &str| Some(text.strip_prefix(prefix)?.strip_prefix('[')?.strip_suffix(']')?.to_owned());
        let (members, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(|(own, _)| name(own).is_some());
        self.0 = rest;
        members.into_iter().filter_map(|(own, value)| Some((name(&own)?, value))).collect()
    }

    /// All are taken.
    ///
    /// # Errors
    /// 400 where one is left that nobody knows.
    pub fn end(&self) -> Result<(), Problem> {
        if self.0.is_empty() { Ok(()) } else { Err(Problem::bad_request("a query parameter that is not known")) }
    }
}
