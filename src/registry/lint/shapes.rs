//! Shape rules that can never match.

use crate::record::event::EventType;
use crate::registry::glob::Glob;
use crate::registry::model::{Registry, ShapePatterns, ShapeRule};
use crate::registry::origin::{Origin, Origins};
use crate::registry::problem::Reporter;

pub(super) fn lint(registry: &Registry, origins: &Origins, report: &mut Reporter<'_>) {
    for (index, (rule, origin)) in registry.shapes.iter().zip(&origins.shapes).enumerate() {
        unknown_event_types(rule, origin, report);
        let mut earlier = registry.shapes.iter().zip(&origins.shapes).take(index);
        if let Some((first, place)) = earlier.find(|(first, _)| covers(first, rule)) {
            let at = report.at(&place.place(""));
            let message = format_args!(
                "{}: can never match: `{}` at {at} takes everything that it would",
                origin.path(""),
                first.name
            );
            report.warning(&origin.place(""), "shadowed_shape_rule", &message);
        }
    }
}

fn unknown_event_types(rule: &ShapeRule, origin: &Origin, report: &mut Reporter<'_>) {
    for (field, patterns) in [("match.type", &rule.any), ("when.type", &rule.all)] {
        for pattern in patterns.iter().flat_map(|patterns| &patterns.event_type) {
            let known = if pattern.is_literal() {
                EventType::from(pattern.as_str()).is_known()
            } else {
                EventType::WORDS.iter().any(|word| pattern.matches(word))
            };
            if !known {
                let message = format_args!("{}: no event type is `{}`", origin.path(field), pattern.as_str());
                report.warning(&origin.place(field), "unknown_event_type", &message);
            }
        }
    }
}

/// The kinds of facts of an event that patterns are held against, in a fixed order.
fn lists(patterns: &ShapePatterns) -> [&[Glob]; 4] {
    [&patterns.event_type, &patterns.class, &patterns.code, &patterns.http]
}

/// Whether `first` matches whenever `rule` does. Conservative: true only where it can be seen list by list.
///
/// Every list of `first.when` and `first.match` as a whole must be implied by `rule`: one of their patterns matches
/// whenever `rule` does.
fn covers(first: &ShapeRule, rule: &ShapeRule) -> bool {
    let every_when = first.all.as_ref().is_none_or(|all| {
        (0..4).filter(|kind| !lists(all)[*kind].is_empty()).all(|kind| {
            let mut only: [&[Glob]; 4] = [&[]; 4];
            only[kind] = lists(all)[kind];
            is_implied(only, rule)
        })
    });
    every_when && first.any.as_ref().is_none_or(|any| is_implied(lists(any), rule))
}

/// Whether one of the patterns matches whenever `rule` does: because they take all facts that `rule.match` can match
/// on, or all those of one list of `rule.when`.
fn is_implied(patterns: [&[Glob]; 4], rule: &ShapeRule) -> bool {
    let takes = |kind: usize, narrower: &[Glob]| {
        narrower.iter().all(|narrow| {
            patterns[kind].iter().any(|wide| wide.covers(narrow) || (kind == 3 && is_class_of(wide, narrow)))
        })
    };
    let own =
        |patterns: &Option<ShapePatterns>| patterns.as_ref().map(|patterns| lists(patterns).map(<[Glob]>::to_vec));
    let by_match = own(&rule.any).is_some_and(|own| (0..4).all(|kind| takes(kind, &own[kind])));
    let by_when = own(&rule.all).is_some_and(|own| (0..4).any(|kind| !own[kind].is_empty() && takes(kind, &own[kind])));
    by_match || by_when
}

/// `5xx` and `503`: a status is also its class.
fn is_class_of(wide: &Glob, narrow: &Glob) -> bool {
    let (wide, narrow) = (wide.as_str(), narrow.as_str());
    wide.ends_with("xx") && narrow.get(..1).is_some_and(|digit| wide.starts_with(digit))
}
