//! From an error to its failure shape, by the registry's ordered rules.

use serde::{Deserialize, Serialize};

use crate::record::event::{Cause, ErrorInfo};
use crate::registry::{Defaults, Glob, Registry, ShapePatterns, ShapeRule};
use crate::session::mask;

/// Most bytes of a class or code that take part.
const NAME_BYTES_MAX: usize = 200;
/// Shapes that say more only together with a DETAIL.
const DETAILED: [&str; 2] = ["tool_error", "tool_soft_error"];

/// What of a failure decides its shape, owned: the last failure of a node is kept to be compared with the graph's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Type of the event.
    #[serde(rename = "t")]
    pub event_type: String,
    /// Classes of the chain, outermost first.
    #[serde(rename = "c", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Codes of the chain, outermost first.
    #[serde(rename = "d", skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
    /// Masked message of the innermost entry that has one.
    #[serde(rename = "m", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Facts {
    /// The facts of an event's error.
    #[must_use]
    pub fn of(event_type: &str, error: Option<&ErrorInfo<'_>>) -> Self {
        let chain: Vec<&Cause<'_>> = error
            .into_iter()
            .flat_map(|error| std::iter::once(&error.top).chain(error.causes.iter().flatten()))
            .collect();
        let classes: Vec<String> = chain.iter().filter_map(|cause| named(cause.class.as_deref())).collect();
        let codes: Vec<String> = chain.iter().filter_map(|cause| named(cause.code.as_deref())).collect();
        let line = chain.iter().rev().find_map(|cause| cause.message.as_ref().and_then(|text| mask::first_line(text)));
        let message = line.and_then(|line| mask::mask(without_prefixes(&line, &classes, &codes)));
        Self { event_type: event_type.to_owned(), classes, codes, message }
    }

    /// Whether the error says anything at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.codes.is_empty() && self.message.is_none()
    }

    /// These facts as if the event were of `other`'s type, with what they lack taken from it.
    #[must_use]
    pub fn completed_by(mut self, other: &Self) -> Self {
        self.event_type.clone_from(&other.event_type);
        if self.classes.is_empty() {
            self.classes.clone_from(&other.classes);
        }
        if self.codes.is_empty() {
            self.codes.clone_from(&other.codes);
        }
        if self.message.is_none() {
            self.message.clone_from(&other.message);
        }
        self
    }

    /// Whether this is an interrupt, an approval or a deferral: no failure.
    #[must_use]
    pub fn is_interrupt(&self, defaults: &Defaults) -> bool {
        defaults
            .interrupt_classes
            .iter()
            .any(|glob| self.classes.iter().any(|class| glob.matches(class) || glob.matches(last_segment(class))))
    }

    /// The failure shape: the first rule that matches, else `app_error:DETAIL`.
    #[must_use]
    pub fn shape(&self, registry: &Registry) -> String {
        let names = Matched::of(self);
        match registry.shapes.iter().find(|rule| names.match_rule(rule)) {
            Some(rule) if DETAILED.contains(&rule.name.as_str()) => self.detailed(&rule.name, &registry.defaults),
            Some(rule) => rule.name.clone(),
            None => self.detailed("app_error", &registry.defaults),
        }
    }

    /// `NAME:DETAIL` of class, code and masked message, those that exist; else the event type.
    fn detailed(&self, name: &str, defaults: &Defaults) -> String {
        let class = self.classes.last().map(|class| last_segment(class));
        let class = class.filter(|class| !defaults.generic_classes.iter().any(|generic| generic == class));
        let parts = [class, self.codes.last().map(String::as_str), self.message.as_deref()];
        let detail = parts.into_iter().flatten().collect::<Vec<_>>().join(":");
        if detail.is_empty() { format!("{name}:{}", self.event_type) } else { format!("{name}:{detail}") }
    }
}

/// What of some facts the patterns of rules are held against.
struct Matched<'a> {
    event_type: &'a str,
    /// Whole classes and their last segments.
    classes: Vec<&'a str>,
    codes: &'a [String],
    /// HTTP statuses among the codes, and their classes.
    statuses: Vec<(&'a str, String)>,
}

impl<'a> Matched<'a> {
    fn of(facts: &'a Facts) -> Self {
        let statuses = facts.codes.iter().filter_map(|code| http_status(code));
        Self {
            event_type: &facts.event_type,
            classes: facts.classes.iter().flat_map(|class| [class.as_str(), last_segment(class)]).collect(),
            codes: &facts.codes,
            statuses: statuses.map(|status| (status, http_class(status))).collect(),
        }
    }

    fn match_rule(&self, rule: &ShapeRule) -> bool {
        let any = rule.any.as_ref().is_none_or(|patterns| self.lists(patterns).any(|hit| hit == Some(true)));
        any && rule.all.as_ref().is_none_or(|patterns| self.lists(patterns).all(|hit| hit != Some(false)))
    }

    /// For each list of patterns whether one of it matches; `None` where it was not written.
    fn lists(&self, patterns: &ShapePatterns) -> impl Iterator<Item = Option<bool>> {
        let hit = |list: usize| match list {
            0 => one_of(&patterns.event_type, |glob| glob.matches(self.event_type)),
            1 => one_of(&patterns.class, |glob| self.classes.iter().any(|class| glob.matches(class))),
            2 => one_of(&patterns.code, |glob| self.codes.iter().any(|code| glob.matches(code))),
            _ => one_of(&patterns.http, |glob| {
                self.statuses.iter().any(|(status, class)| glob.matches(status) || glob.matches(class))
            }),
        };
        (0..4).map(hit)
    }
}

fn one_of(list: &[Glob], matches: impl Fn(&Glob) -> bool) -> Option<bool> {
    (!list.is_empty()).then(|| list.iter().any(matches))
}

/// A class or code that says something, cut at [`NAME_BYTES_MAX`].
fn named(text: Option<&str>) -> Option<String> {
    let text = text?.trim();
    let end = (0..=text.len().min(NAME_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    (end > 0).then(|| text[..end].to_owned())
}

/// The last segment of a class path, in the separators of the languages that runtimes are written in.
fn last_segment(class: &str) -> &str {
    class.rsplit(['.', ':', '/', '\\']).next().filter(|segment| !segment.is_empty()).unwrap_or(class)
}

/// The line without leading `CLASS:` or `CODE:` of its own chain, repeatedly.
fn without_prefixes<'a>(line: &'a str, classes: &[String], codes: &[String]) -> &'a str {
    let names = || {
        let classes = classes.iter().flat_map(|class| [class.as_str(), last_segment(class)]);
        classes.chain(codes.iter().map(String::as_str))
    };
    let mut rest = line;
    while let Some(shorter) = names().find_map(|name| rest.strip_prefix(name)?.strip_prefix(':')) {
        rest = shorter.trim_start();
    }
    rest
}

/// The HTTP status in a code such as `429`, `http_429` or `HTTP-429`.
fn http_status(code: &str) -> Option<&str> {
    let has_prefix = code.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("http"));
    let digits = if has_prefix { code[4..].trim_start_matches(['_', '-', ' ']) } else { code };
    let is_status = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_status && ('1'..='5').contains(&char::from(digits.as_bytes()[0]))).then_some(digits)
}

/// `5xx` for `503`.
fn http_class(status: &str) -> String {
    format!("{}xx", &status[..1])
}
