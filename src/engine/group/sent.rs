//! What goes with a committed offset as its metadata: which transaction of its task sent it, and who did.

use crate::engine::task::batch::Span;

/// What it begins with.
const SENT: &str = "transaction ";

/// What goes with an offset.
pub fn metadata(span: &Span, writer: &str) -> String {
    format!("{SENT}{}{}", span.seq, owner(span, writer))
}

/// Who sends an offset: a writer, and which of its ownerships.
fn owner(span: &Span, writer: &str) -> String {
    format!(" of {writer}, incarnation {}", span.incarnation)
}

/// Whether an offset was sent by an engine, and not in this ownership.
pub fn is_of_others(sent: &str, span: &Span, writer: &str) -> bool {
    sent.starts_with(SENT) && !sent.ends_with(&owner(span, writer))
}

/// What goes with an offset that no transaction of a task sends.
pub fn number_of_nothing() -> String {
    format!("{SENT}{} of nobody", u64::MAX)
}

/// The number of the transaction that sent an offset; none: no engine sent it, somebody set it.
pub fn number(sent: &str) -> Option<u64> {
    sent.strip_prefix(SENT)?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_with_an_offset_tells_its_transaction_and_its_owner() {
        let span = Span { previous: None, next: 7, seq: 12, incarnation: 3 };
        let sent = metadata(&span, "g/i/worker-0");
        assert_eq!(sent, "transaction 12 of g/i/worker-0, incarnation 3");
        assert_eq!((number(&sent), number(""), number("reset by hand")), (Some(12), None, None));
        assert_eq!(number(&number_of_nothing()), Some(u64::MAX));
        let is_of_others = |span: Span, writer| is_of_others(&sent, &span, writer);
        assert!(!is_of_others(span, "g/i/worker-0"));
        assert!(is_of_others(Span { incarnation: 4, ..span }, "g/i/worker-0"));
        assert!(is_of_others(span, "g/j/worker-0"));
    }
}
