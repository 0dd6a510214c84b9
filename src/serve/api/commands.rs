//! `/v1/commands`: decisions of people. The author is who bears the token; a decision is taken once, however often it is
//! sent: its id comes from token and idempotency key, tasks know ids they have seen, and this process its answers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use crate::engine::EngineError;
use crate::engine::operator::orders::Owner;
use crate::record::command::{Command, Order, Verb};
use crate::record::intervention::InterventionStatus;
use crate::serve::access::{Actor, Role};
use crate::serve::api::seams::{Answers, Orders};
use crate::serve::api::{Api, json as body_of};
use crate::serve::problem::Problem;
use crate::serve::{Limit, Limits, Served};

const REASON_CHARS_MAX: usize = 1000;
const KEY_BYTES_MAX: usize = 200;
/// Of command ids.
const NAMESPACE: Uuid = Uuid::from_u128(0x8f2d_3c51_6a0e_4b7d_9e11_52a7_c04d_66b9);

/// A decision as it is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    verb: Verb,
    #[serde(default)]
    target: Option<String>,
    #[serde(default)]
    content_hash: Option<String>,
    #[serde(default, rename = "override")]
    order: Option<Order>,
    reason: String,
    #[serde(default)]
    wait: Option<f64>,
}

/// Where decisions are taken: one at a time, each once.
pub struct Desk {
    orders: Arc<dyn Orders>,
    places: Semaphore,
    sending: tokio::sync::Mutex<()>,
    outcomes: Mutex<Outcomes>,
    outcomes_kept_max: usize,
}

#[derive(Default)]
struct Outcomes {
    by_id: HashMap<String, Slot>,
    order: VecDeque<String>,
}

#[derive(Clone)]
struct Slot {
    /// Of the decision, so that another one under the same key is noticed.
    hash: blake3::Hash,
    outcome: Arc<OnceCell<(StatusCode, Value)>>,
}

impl Desk {
    /// An empty one.
    pub fn new(limits: &Limits, orders: Arc<dyn Orders>) -> Self {
        Self {
            orders,
            places: Semaphore::new(limits.commands_max),
            sending: tokio::sync::Mutex::new(()),
            outcomes: Mutex::default(),
            outcomes_kept_max: limits.outcomes_kept_max,
        }
    }

    fn slot(&self, command_id: &str, hash: blake3::Hash, served: &Served) -> Result<Slot, Problem> {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = outcomes.by_id.get(command_id) {
            if slot.hash != hash {
                return Err(Problem::conflict("Idempotency-Key: used for another command"));
            }
            return Ok(slot.clone());
        }
        let slot = Slot { hash, outcome: Arc::default() };
        outcomes.by_id.insert(command_id.to_owned(), slot.clone());
        outcomes.order.push_back(command_id.to_owned());
        while outcomes.order.len() > self.outcomes_kept_max {
            served.reached(Limit::Outcomes);
            if let Some(oldest) = outcomes.order.pop_front() {
                outcomes.by_id.remove(&oldest);
            }
        }
        Ok(slot)
    }

    /// Nothing was sent under this id: it may be used for something else.
    fn forget(&self, command_id: &str) {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.by_id.remove(command_id);
        outcomes.order.retain(|id| id != command_id);
    }

    async fn send(&self, owner: Owner, command: Command, wait: Duration) -> Result<(StatusCode, Value), Problem> {
        let sent = {
            // All of them use one transactional id.
            let _alone = self.sending.lock().await;
            let (orders, command) = (Arc::clone(&self.orders), command.clone());
            unblocked(move || orders.send(&owner, &command)).await?
        };
        let answers = unblocked(move || sent(wait)).await?;
        Ok(told(&command, &answers))
    }
}

/// POST.
///
/// # Errors
/// 400, 403, 404, 409, 415, 503.
pub async fn command(
    State(api): State<Arc<Api>>,
    actor: Actor,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let Some(author) = actor.name.clone() else {
        return Err(Problem::unauthorized("decisions need a name: a token (http_tokens)"));
    };
    let decision: Decision = body_of(&headers, &body)?;
    match decision.verb {
        Verb::Lift | Verb::Freeze | Verb::Unfreeze | Verb::Force | Verb::Deny => {
            actor.needs(Role::Operator, decision.verb.as_str())?;
        }
        Verb::Approve | Verb::Reject => actor.needs(Role::Approver, decision.verb.as_str())?,
        Verb::Activate => return Err(Problem::bad_request("verb: activate is `reflex registry activate`")),
    }
    let key = idempotency_key(&headers)?;
    let wait = match decision.wait.map(Duration::try_from_secs_f64) {
        None => api.limits.answers_wait_max,
        Some(Ok(wait)) => wait.min(api.limits.answers_wait_max),
        Some(Err(_)) => return Err(Problem::bad_request("wait: not a number of seconds")),
    };
    let command = checked(decision, &author, &key)?;
    let Ok(_place) = api.desk.places.try_acquire() else {
        api.served.reached(Limit::Commands);
        return Err(Problem::busy("too many commands at once"));
    };
    let hash = blake3::hash(&serde_json::to_vec(&command).unwrap_or_default());
    let slot = api.desk.slot(&command.command_id, hash, &api.served)?;
    let outcome = slot.outcome.get_or_try_init(|| async {
        let owner = owner(&api, &command).inspect_err(|_| api.desk.forget(&command.command_id))?;
        api.desk.send(owner, command.clone(), wait).await
    });
    let (status, body) = outcome.await?;
    Ok((*status, Json(body)).into_response())
}

fn idempotency_key(headers: &HeaderMap) -> Result<String, Problem> {
    let mut fields = headers.get_all("idempotency-key").iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return Err(Problem::bad_request("one Idempotency-Key, please: the same decision is taken once"));
    };
    let key = field.to_str().ok().filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    key.map(str::to_owned).ok_or_else(|| Problem::bad_request("Idempotency-Key: 1 to 200 visible ASCII characters"))
}

/// The command of a decision.
fn checked(decision: Decision, author: &str, key: &str) -> Result<Command, Problem> {
    let Decision { verb, target, content_hash, order, reason, .. } = decision;
    let reason = reason.trim();
    if !(1..=REASON_CHARS_MAX).contains(&reason.chars().count()) || reason.chars().any(char::is_control) {
        return Err(Problem::bad_request("reason: 1 to 1000 characters, none of them control characters"));
    }
    let is_for_all = matches!(verb, Verb::Freeze | Verb::Unfreeze);
    let target = match target {
        None if is_for_all => "*".to_owned(),
        Some(target) if (target == "*") == is_for_all && !target.is_empty() => target,
        _ => {
            return Err(Problem::bad_request(
                "target: an id for lift, approve and reject; a graph for force and deny; * or none for the others",
            ));
        }
    };
    if content_hash.is_some() != (verb == Verb::Approve) {
        return Err(Problem::bad_request("content_hash: needed for approve, and for nothing else"));
    }
    if order.is_some() != matches!(verb, Verb::Force | Verb::Deny) {
        return Err(Problem::bad_request("override: needed for force and deny, and for nothing else"));
    }
    let command_id = Uuid::new_v5(&NAMESPACE, format!("{author}\n{key}").as_bytes()).to_string();
    Ok(Command { command_id, verb, target, content_hash, order, reason: reason.to_owned(), author: author.to_owned() })
}

/// Whose decision it is, from the record it is about.
fn owner(api: &Api, command: &Command) -> Result<Owner, Problem> {
    match command.verb {
        Verb::Freeze | Verb::Unfreeze | Verb::Activate => Ok(Owner::Everybody),
        Verb::Force | Verb::Deny => Ok(Owner::Graph(command.target.clone())),
        Verb::Lift => {
            let found = api.board()?.override_of(&command.target);
            let (record, _) = found.ok_or_else(|| Problem::not_found("target: no such override is live"))?;
            Ok(Owner::of(&record.scope, &record.graph))
        }
        Verb::Approve | Verb::Reject => {
            let found = api.board()?.intervention(&command.target);
            let kept = found.ok_or_else(|| Problem::not_found("target: no such intervention is held"))?;
            if kept.status != InterventionStatus::AwaitingApproval {
                let words = format!("target: it is {}; only what is awaiting_approval can be decided", kept.status);
                return Err(Problem::conflict(words));
            }
            Ok(Owner::of(&kept.scope, &kept.graph))
        }
    }
}

/// Off the thread of the service.
async fn unblocked<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, Problem> {
    match spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            // Its words name brokers.
            tracing::warn!(%error, "a command over HTTP failed");
            let words = "whether it was sent is not known: send it again with the same Idempotency-Key";
            Err(Problem::unavailable(words))
        }
        Err(_) => Err(Problem::unavailable("the service ends, or a bug ended it")),
    }
}

fn told(command: &Command, answers: &Answers) -> (StatusCode, Value) {
    let refused = answers.answers.iter().any(|answer| !answer.is_done);
    let (status, outcome) = match answers.answers.len() < answers.tasks {
        _ if refused => (StatusCode::CONFLICT, "refused"),
        true => (StatusCode::ACCEPTED, "sent"),
        false => (StatusCode::OK, "done"),
    };
    let each: Vec<Value> = answers
        .answers
        .iter()
        .map(|answer| {
            let outcome = if answer.is_done { "done" } else { "refused" };
            json!({ "task": answer.task, "outcome": outcome, "reason": answer.reason })
        })
        .collect();
    let Command { command_id, verb, target, author, .. } = command;
    let body = json!({
        "command_id": command_id, "verb": verb.as_str(), "target": target, "author": author, "outcome": outcome,
        "tasks": answers.tasks, "answers": each,
    });
    (status, body)
}
