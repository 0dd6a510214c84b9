//! `/v1/events`: runtime events to their topic, each checked as the engine checks it, acknowledged once brokers have it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::record::codec::json::event;
use crate::record::codec::{DecodeLimits, Headers, decode};
use crate::record::dead_letter::{Code, Rejection};
use crate::registry;
use crate::serve::Limit;
use crate::serve::access::{Actor, Role};
use crate::serve::api::{Api, Input, media_type};
use crate::serve::problem::Problem;

/// When to send again what brokers did not acknowledge.
const RETRY_AFTER_SECONDS: u64 = 1;
const STRUCTURED: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

/// One record: key and text.
pub type Text = (String, String);

/// POST.
///
/// # Errors
/// 400, 403, 413, 503.
pub async fn publish(
    State(api): State<Arc<Api>>,
    actor: Actor,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    actor.needs(Role::Runtime, "publishing")?;
    let Ok(_place) = Arc::clone(&api.publishing).try_acquire_owned() else {
        api.served.reached(Limit::Publishing);
        return Err(Problem::busy("too many requests with events at once"));
    };
    let outcomes = checked(&api, &headers, &body)?;
    let texts: Vec<Text> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok().cloned()).collect();
    let mut told = if texts.is_empty() { Vec::new() } else { api.publisher.publish(&texts).await }.into_iter();
    let mut items = Vec::new();
    let [mut accepted, mut rejected, mut failed] = [0_u64; 3];
    for (index, outcome) in outcomes.iter().enumerate() {
        let (status, code, message) = match outcome {
            Err(rejection) => {
                rejected += 1;
                ("rejected", rejection.code.to_string(), rejection.message.clone())
            }
            Ok(_) => match told.next() {
                Some(Ok(())) => {
                    accepted += 1;
                    continue;
                }
                problem => {
                    failed += 1;
                    if failed == 1 {
                        tracing::warn!(problem = ?problem, "events over HTTP were not acknowledged");
                    }
                    ("failed", "unavailable".to_owned(), "Kafka did not acknowledge it".to_owned())
                }
            },
        };
        items.push(json!({ "index": index, "status": status, "code": code, "message": message }));
    }
    for (count, more) in api.served.events.iter().zip([accepted, rejected, failed]) {
        count.fetch_add(more, Ordering::Relaxed);
    }
    let status = match (accepted, rejected, failed) {
        (_, _, 1..) => StatusCode::SERVICE_UNAVAILABLE,
        (_, 0, 0) => StatusCode::ACCEPTED,
        (0, _, 0) => StatusCode::BAD_REQUEST,
        _ => StatusCode::MULTI_STATUS,
    };
    let body: Value = json!({ "accepted": accepted, "rejected": rejected, "failed": failed, "items": items });
    let mut response = (status, Json(body)).into_response();
    if failed > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
    }
    Ok(response)
}

type Outcomes = Vec<Result<Text, Rejection>>;

/// What stands in a body, event by event.
fn checked(api: &Api, headers: &HeaderMap, body: &[u8]) -> Result<Outcomes, Problem> {
    let is = |name: &str| media_type(headers).eq_ignore_ascii_case(name);
    let of_list = |list: Vec<&[u8]>, headers: &Headers<'_>| {
        if list.len() > api.limits.events_max {
            return Err(Problem::too_large(format!("more than {} events", api.limits.events_max)));
        }
        Ok(list.into_iter().map(|item| text(&api.input, headers, item)).collect())
    };
    let structured: [(&str, Option<&[u8]>); 1] = [("content-type", Some(STRUCTURED.as_bytes()))];
    let is_cloudevent = headers.contains_key("ce-specversion");
    if is("application/x-ndjson") || is("application/jsonl") {
        let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        return of_list(lines.collect(), &Headers::NONE);
    }
    if is(BATCH) {
        return of_list(items(body)?, &Headers(&structured));
    }
    if is(STRUCTURED) {
        return of_list(vec![body], &Headers(&structured));
    }
    if is("application/json") && !is_cloudevent {
        let is_list = body.trim_ascii_start().first() == Some(&b'[');
        return of_list(if is_list { items(body)? } else { vec![body] }, &Headers::NONE);
    }
    // As on the topic: attributes of a CloudEvent in binary mode, and its content type.
    let named: Vec<(String, &[u8])> = headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.as_str();
            let name = match name.strip_prefix("ce-") {
                Some(attribute) => format!("ce_{attribute}"),
                None if name == "content-type" => name.to_owned(),
                None => return None,
            };
            Some((name, value.as_bytes()))
        })
        .collect();
    let named: Vec<(&str, Option<&[u8]>)> = named.iter().map(|(name, value)| (&**name, Some(*value))).collect();
    of_list(vec![body], &Headers(&named))
}

/// The items of a JSON array, as they are written.
fn items(body: &[u8]) -> Result<Vec<&[u8]>, Problem> {
    let items: Vec<&RawValue> = serde_json::from_slice(body).map_err(|error| {
        Problem::bad_request(format!("no JSON array, at line {} column {}", error.line(), error.column()))
    })?;
    Ok(items.into_iter().map(|item| item.get().as_bytes()).collect())
}

/// One event as text, with its key.
fn text(input: &Input, headers: &Headers<'_>, bytes: &[u8]) -> Result<Text, Rejection> {
    let limits = registry::Limits::default();
    let decode_limits = DecodeLimits {
        event_bytes_max: limits.event_bytes_max as usize,
        field_bytes_max: limits.field_bytes_max as usize,
    };
    let text: Cow<'_, str> = decode(headers, Some(bytes), &input.schemas, decode_limits)?;
    let event = event(&text, decode_limits.field_bytes_max)?;
    let tenant = event.tenant.as_deref();
    if input.tenant.is_some() && input.tenant.as_deref() != tenant {
        return Err(Rejection::new(Code::WrongTenant, "tenant: not the one of this topic"));
    }
    let session_id = event.session_id.as_str().to_owned();
    Ok((session_id, text.into_owned()))
}
