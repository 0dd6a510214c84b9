//! Errors as `application/problem+json`: status, one word for programs, words for people; never a value of the request.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The content type.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    retry_after: Option<u64>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), retry_after: None }
    }

    /// 400: the request is not what it must be.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// 401: no token, or none that is known.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// 403: not allowed.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404: no such record.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// 409: contradicts what was said before.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    /// 413: too much.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    /// 415: another content type, please.
    pub fn unsupported(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_type", detail)
    }

    /// 421: another process is meant.
    pub fn misdirected(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, "bad_host", detail)
    }

    /// 429: too often; come again in a second.
    pub fn rate_limited(detail: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail) }
    }

    /// 503: the topics are not read yet.
    pub fn not_ready() -> Self {
        let detail = "the overrides are not read to their end yet";
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail) }
    }

    /// 503: a limit of the service is reached.
    pub fn busy(detail: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail) }
    }

    /// 503: Kafka does not answer.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self { retry_after: Some(5), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail) }
    }

    /// What a library answered with a bare status.
    fn of(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => ("not_found", "no such page"),
            StatusCode::METHOD_NOT_ALLOWED => ("bad_method", "not with this method"),
            StatusCode::REQUEST_TIMEOUT => ("timeout", "it took too long"),
            StatusCode::PAYLOAD_TOO_LARGE => ("too_large", "the body is too large"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => ("unsupported_type", "not with this content type"),
            status if status.is_client_error() => ("bad_request", "the request is not what it must be"),
            _ => ("internal", "that went wrong here"),
        };
        Self::new(status, code, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({ "status": self.status.as_u16(), "code": self.code, "detail": self.detail });
        let mut response = (self.status, [(header::CONTENT_TYPE, CONTENT_TYPE)], body.to_string()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Gives an error that is a bare status, or plain text, the form of all others.
pub async fn shape(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !(status.is_client_error() || status.is_server_error()) || kind.is_some_and(|kind| kind.contains("json")) {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    let shaped = Problem::of(status).into_response();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(shaped.headers().iter().map(|(name, value)| (name.clone(), value.clone())));
    let body = shaped.into_body();
    Response::from_parts(parts, Body::new(body))
}
