//! Whether `reflex run` is there, as the group tells.

use crate::cli::decide::operator;
use crate::cli::doctor::Line;
use crate::cli::exit::Exit;
use crate::cli::settings::Resolved;
use crate::engine::operator::group::{Group, group};

const CHECK: &str = "processor";
/// Records behind that are worth a word: a second of a busy fleet.
const BEHIND_MAX: u64 = 10_000;

/// Members and lag of the group.
pub fn check(resolved: &Resolved) -> Vec<Line> {
    let name = &resolved.settings.group;
    match operator(resolved).and_then(|config| Ok(group(&config)?)) {
        Ok(found) => vec![judge(name, &found)],
        Err(failure) => vec![Line::of(CHECK, &failure)],
    }
}

fn judge(name: &str, found: &Group) -> Line {
    let Group { state, members, hosts, behind, unseen, unread } = found;
    let behind_words = if *unseen > 0 {
        "lag not known".to_owned()
    } else {
        format!("{behind} offsets behind (ends of transactions count)")
    };
    if *members == 0 {
        let line = Line::failed(CHECK, Exit::Found, format_args!("nobody is in group {name}, {behind_words}"));
        return line.remedy("start `reflex run`; does it run under another --group?");
    }
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let words = format!("group {name}: {members} workers on {}, {behind_words}", hosts.join(", "));
    if state != "Stable" {
        return Line::warning(CHECK, format_args!("{words}; it is {state}"))
            .remedy("it assigns its tasks at this moment; if that lasts, workers come and go: look at their logs");
    }
    if *behind > BEHIND_MAX || *unread > 0 {
        return Line::warning(CHECK, format_args!("{words}; {unread} partitions never read"))
            .remedy("rising: more processes, or slow brokers; what is older than reaction_age_ms_max is not acted on");
    }
    Line::ok(CHECK, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::State;

    #[test]
    fn a_group_without_members_fails_and_one_far_behind_warns() {
        let found = |state: &str, members, behind, unread| {
            let hosts = ["10.0.0.1".to_owned()].into();
            judge("g", &Group { state: state.into(), members, hosts, behind, unseen: 0, unread }).state
        };
        assert_eq!(found("Stable", 2, 7, 0), State::Ok);
        assert_eq!(found("Empty", 0, 7, 0), State::Failed);
        assert_eq!(found("Dead", 0, 0, 0), State::Failed);
        assert_eq!(found("PreparingRebalance", 2, 7, 0), State::Warning);
        assert_eq!(found("Stable", 2, BEHIND_MAX + 1, 0), State::Warning);
        assert_eq!(found("Stable", 2, 0, 1), State::Warning);
    }
}
