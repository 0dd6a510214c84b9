//! What to do about an error of a transaction: repeat the call, abort, or begin anew with another producer.
//!
//! The library's own flags are not enough: some errors that end a producer come without the flag that says so, and the
//! end of a transaction whose outcome is unknown may still be carried out later, in the middle of the next one. So
//! codes decide first, and a commit that timed out always costs the producer.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// The call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `init_transactions`.
    Init,
    /// `begin_transaction`.
    Begin,
    /// A message was not delivered.
    Produce,
    /// `send_offsets_to_transaction`.
    SendOffsets,
    /// `commit_transaction`.
    Commit,
    /// `abort_transaction`.
    Abort,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The same call again, until its time is up; then rebuild.
    Again,
    /// Abort (three times at most), then the same effects in a new transaction; else rebuild.
    Abort,
    /// Destroy the producer, make one with the same id, look at the committed offsets.
    Rebuild,
}

/// What an error says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its code.
    pub code: Code,
    /// The client cannot be used any more.
    pub fatal: bool,
    /// The call may be repeated.
    pub retriable: bool,
    /// The transaction must be aborted.
    pub abort: bool,
}

impl Seen {
    /// Reads an error. Errors other than those of transactions carry no flags.
    #[must_use]
    pub fn of(error: &KafkaError) -> Self {
        let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
        match error {
            KafkaError::Transaction(flags) => Self {
                code,
                fatal: flags.is_fatal(),
                retriable: flags.is_retriable(),
                abort: flags.txn_requires_abort(),
            },
            _ => Self { code, fatal: false, retriable: false, abort: false },
        }
    }

    /// Whether another producer with the same id has taken over.
    #[must_use]
    pub fn is_fencing(self) -> bool {
        matches!(self.code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
    }

    /// Whether the group has moved on without this member: a rebalance will tell, nothing is to be restarted.
    #[must_use]
    pub fn is_group_change(self) -> bool {
        matches!(
            self.code,
            Code::IllegalGeneration | Code::UnknownMemberId | Code::FencedInstanceId | Code::RebalanceInProgress
        )
    }

    /// Whether the broker's permissions are the cause: no repetition helps.
    #[must_use]
    pub fn is_not_permitted(self) -> bool {
        matches!(
            self.code,
            Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::TransactionalIdAuthorizationFailed
                | Code::ClusterAuthorizationFailed
        )
    }

    /// Whether a broker does not take a record as it is.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        matches!(
            self.code,
            Code::MessageSizeTooLarge | Code::InvalidMessage | Code::InvalidRecord | Code::PolicyViolation
        )
    }

    fn ends_the_producer(self) -> bool {
        self.fatal || self.is_fencing() || matches!(self.code, Code::State | Code::InvalidTransactionalState)
    }

    fn timed_out(self) -> bool {
        matches!(self.code, Code::OperationTimedOut | Code::MessageTimedOut | Code::RequestTimedOut)
    }
}

/// Decides what to do about an error of `call`.
#[must_use]
pub fn classify(call: Call, seen: Seen) -> Action {
    if seen.ends_the_producer() {
        return Action::Rebuild;
    }
    match call {
        // The request may be on its way: whatever a later call says, this producer must not begin another transaction.
        Call::Commit if seen.retriable || seen.timed_out() || seen.code == Code::Unknown => Action::Rebuild,
        // Seen after a broker that hung: the client keeps a stale leader and no message gets through; a new one asks.
        Call::Produce if seen.timed_out() => Action::Rebuild,
        Call::Produce => Action::Abort,
        _ if seen.retriable || seen.timed_out() => Action::Again,
        _ if seen.abort => Action::Abort,
        _ => Action::Rebuild,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FATAL: (bool, bool, bool) = (true, false, false);
    const RETRIABLE: (bool, bool, bool) = (false, true, false);
    const ABORT: (bool, bool, bool) = (false, false, true);
    const NONE: (bool, bool, bool) = (false, false, false);

    type Measured = (&'static str, Call, Code, (bool, bool, bool), Action);

    /// What was measured by error injection: injected error, call, code and flags as seen, what to do.
    const MEASURED: &[Measured] = &[
        ("TxnOffsetCommit ILLEGAL_GENERATION", Call::SendOffsets, Code::IllegalGeneration, ABORT, Action::Abort),
        ("TxnOffsetCommit UNKNOWN_MEMBER_ID", Call::SendOffsets, Code::UnknownMemberId, ABORT, Action::Abort),
        ("TxnOffsetCommit FENCED_INSTANCE_ID", Call::SendOffsets, Code::FencedInstanceId, ABORT, Action::Abort),
        ("TxnOffsetCommit REBALANCE_IN_PROGRESS", Call::SendOffsets, Code::RebalanceInProgress, ABORT, Action::Abort),
        ("… then commit", Call::Commit, Code::IllegalGeneration, ABORT, Action::Abort),
        ("TxnOffsetCommit INVALID_PRODUCER_EPOCH", Call::SendOffsets, Code::Fenced, FATAL, Action::Rebuild),
        ("AddOffsetsToTxn PRODUCER_FENCED", Call::SendOffsets, Code::Fenced, ABORT, Action::Rebuild),
        ("… then commit", Call::Commit, Code::Fenced, ABORT, Action::Rebuild),
        (
            "AddOffsetsToTxn INVALID_TXN_STATE",
            Call::SendOffsets,
            Code::InvalidTransactionalState,
            FATAL,
            Action::Rebuild,
        ),
        ("EndTxn INVALID_TXN_STATE", Call::Commit, Code::InvalidTransactionalState, FATAL, Action::Rebuild),
        ("AddPartitionsToTxn TOPIC_AUTH", Call::Commit, Code::TopicAuthorizationFailed, ABORT, Action::Abort),
        (
            "AddPartitionsToTxn INVALID_PRODUCER_ID_MAPPING",
            Call::Commit,
            Code::InvalidProducerIdMapping,
            ABORT,
            Action::Abort,
        ),
        ("EndTxn INVALID_PRODUCER_EPOCH", Call::Commit, Code::InvalidProducerEpoch, FATAL, Action::Rebuild),
        ("EndTxn PRODUCER_FENCED", Call::Commit, Code::Fenced, FATAL, Action::Rebuild),
        ("EndTxn UNKNOWN_SERVER_ERROR", Call::Commit, Code::Unknown, ABORT, Action::Rebuild),
        ("… then abort", Call::Abort, Code::Unknown, ABORT, Action::Abort),
        ("… then begin", Call::Begin, Code::State, NONE, Action::Rebuild),
        ("EndTxn timed out", Call::Commit, Code::OperationTimedOut, RETRIABLE, Action::Rebuild),
        ("all brokers down, message acked", Call::Abort, Code::OperationTimedOut, RETRIABLE, Action::Again),
        ("all brokers down, message not acked", Call::Commit, Code::OperationTimedOut, NONE, Action::Rebuild),
        ("all brokers down, offsets", Call::SendOffsets, Code::OperationTimedOut, RETRIABLE, Action::Again),
        (
            "init_transactions CONCURRENT_TRANSACTIONS",
            Call::Init,
            Code::ConcurrentTransactions,
            RETRIABLE,
            Action::Again,
        ),
        ("Produce MSG_SIZE_TOO_LARGE", Call::Produce, Code::MessageSizeTooLarge, NONE, Action::Abort),
        ("broker hangs, message not acked", Call::Produce, Code::MessageTimedOut, NONE, Action::Rebuild),
        ("Produce UNKNOWN_PRODUCER_ID", Call::Produce, Code::UnknownProducerId, NONE, Action::Abort),
        ("Produce OUT_OF_ORDER_SEQ, then commit", Call::Commit, Code::OutOfOrderSequenceNumber, FATAL, Action::Rebuild),
        ("no flags", Call::SendOffsets, Code::Fail, NONE, Action::Rebuild),
    ];

    #[test]
    fn every_measured_error_has_its_action() {
        for (injected, call, code, (fatal, retriable, abort), action) in MEASURED {
            let seen = Seen { code: *code, fatal: *fatal, retriable: *retriable, abort: *abort };
            assert_eq!(classify(*call, seen), *action, "{injected}: {call:?} {seen:?}");
        }
    }

    #[test]
    fn a_fenced_producer_is_rebuilt_whatever_the_flags_say() {
        for flags in [FATAL, RETRIABLE, ABORT, NONE] {
            for call in [Call::Init, Call::Begin, Call::Produce, Call::SendOffsets, Call::Commit, Call::Abort] {
                let seen = Seen { code: Code::Fenced, fatal: flags.0, retriable: flags.1, abort: flags.2 };
                assert_eq!(classify(call, seen), Action::Rebuild);
                assert!(seen.is_fencing());
            }
        }
    }
}
