//! Who may ask: a request must name this process by an address or name it is known under.
//!
//! Without that, a page of a foreign site can have its own name point to this machine (DNS rebinding) and ask with the
//! browser of whoever looks at it. Being bound to loopback is no boundary against that. For the same reason a request that
//! a page of another origin makes is refused, whatever it asks.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::serve::problem::{Problem, shape};
use crate::serve::{Connection, ServeError, Served};

/// Names besides `localhost`, loopback addresses and the address a connection came in by.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Arc<[String]>,
    served: Arc<Served>,
}

impl Hosts {
    /// Names separated by commas, without ports.
    ///
    /// # Errors
    /// The first that is not one.
    pub fn parse(list: &str, served: &Arc<Served>) -> Result<Self, ServeError> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(|name| {
            let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            let is_name = name.chars().all(legal) || bare(name).parse::<IpAddr>().is_ok();
            is_name.then(|| name.to_ascii_lowercase()).ok_or_else(|| ServeError::BadHost(name.to_owned()))
        });
        Ok(Self { names: names.collect::<Result<_, _>>()?, served: Arc::clone(served) })
    }

    /// Whether this process may be called so, on a connection that came in by `local`.
    fn knows(&self, host: &str, local: Option<IpAddr>) -> bool {
        if let Ok(address) = bare(host).parse::<IpAddr>() {
            let address = address.to_canonical();
            if address.is_loopback() || local.is_some_and(|local| local.to_canonical() == address) {
                return true;
            }
        }
        host.eq_ignore_ascii_case("localhost") || self.names.iter().any(|name| host.eq_ignore_ascii_case(name))
    }
}

/// An address without the brackets it has in a URL.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// The one host a request names; none: no name, several, or no name at all.
fn named(request: &Request) -> Option<Authority> {
    let mut fields = request.headers().get_all(header::HOST).iter();
    let (field, more) = (fields.next(), fields.next());
    let field = field.map(|value| value.to_str().ok().and_then(|text| text.parse::<Authority>().ok()));
    match (field, more, request.uri().authority()) {
        // A request for a proxy names it twice; the line counts, and the field must not say otherwise.
        (Some(Some(field)), None, Some(line)) if field == *line => Some(field),
        (Some(Some(field)), None, None) => Some(field),
        _ => None,
    }
}

/// Whether a page of another origin made the request. Only browsers send these fields, and no page can leave them out.
fn is_foreign(headers: &HeaderMap, own: &Authority) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return true;
    }
    headers.get_all(header::ORIGIN).iter().any(|origin| {
        let origin = origin.to_str().ok().and_then(|text| text.split_once("://"));
        origin.is_none_or(|(_, authority)| !authority.eq_ignore_ascii_case(own.as_str()))
    })
}

/// Lets a request through, or says why not; counts the answer.
pub async fn check(hosts: Hosts, request: Request, next: Next) -> Response {
    let local = request.extensions().get::<Connection>().map(|connection| connection.local.ip());
    let response = match named(&request) {
        None => Problem::bad_request("one Host, please").into_response(),
        Some(authority) if authority.as_str().contains('@') || !hosts.knows(authority.host(), local) => {
            hosts.served.hosts_refused.fetch_add(1, Ordering::Relaxed);
            Problem::misdirected("this process is not known under that name; the setting http_hosts adds names")
                .into_response()
        }
        Some(authority) if is_foreign(request.headers(), &authority) => {
            hosts.served.origins_refused.fetch_add(1, Ordering::Relaxed);
            Problem::forbidden("pages of other origins may not ask").into_response()
        }
        Some(_) => shape(next.run(request).await).await,
    };
    hosts.served.answered(response.status());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_local_ones_and_those_allowed() {
        let hosts = Hosts::parse("reflex.internal, Reflex", &Arc::default()).expect("names");
        let local = Some("10.1.2.3".parse().expect("an address"));
        for host in
            ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]", "10.1.2.3", "reflex.internal", "reflex"]
        {
            assert!(hosts.knows(host, local), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "10.1.2.4", "[fe80::1]", "reflex.internal.evil.example", ""]
        {
            assert!(!hosts.knows(host, local), "{host}");
        }
        assert!(!hosts.knows("10.1.2.3", None));
        assert!(hosts.knows("10.1.2.3", Some("::ffff:10.1.2.3".parse().expect("an address"))));
        assert!(Hosts::parse("http://a", &Arc::default()).is_err());
        assert!(Hosts::parse("a:80", &Arc::default()).is_err());
    }
}
