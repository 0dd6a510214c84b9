//! Glob patterns of shapes and signals: `*` stands for any characters, everything else for itself.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wildmatch::WildMatchPattern;

/// `?` is no wildcard here: it may stand in messages. The replacement cannot occur in a pattern read from TOML text.
type Matcher = WildMatchPattern<'*', '\u{10FFFF}'>;

/// One compiled pattern, case-sensitive.
#[derive(Clone)]
pub struct Glob {
    text: String,
    kind: Kind,
}

/// What a pattern asks for: nearly all are of the first three kinds, which need no matcher.
#[derive(Clone)]
enum Kind {
    /// No star.
    Literal,
    /// One star, at the end.
    Prefix,
    /// One star, at the beginning.
    Suffix,
    /// Any other.
    General(Matcher),
}

impl Glob {
    /// Compiles a pattern.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let kind = match text.split_once('*') {
            // The matcher's other wildcard; in no pattern read from TOML text.
            _ if text.contains('\u{10FFFF}') => Kind::General(Matcher::new(text)),
            None => Kind::Literal,
            Some((_, "")) => Kind::Prefix,
            Some(("", rest)) if !rest.contains('*') => Kind::Suffix,
            Some(_) => Kind::General(Matcher::new(text)),
        };
        Self { text: text.to_owned(), kind }
    }

    /// Whether the whole of `candidate` matches.
    #[must_use]
    pub fn matches(&self, candidate: &str) -> bool {
        match &self.kind {
            Kind::Literal => candidate == self.text,
            Kind::Prefix => candidate.starts_with(&self.text[..self.text.len() - 1]),
            Kind::Suffix => candidate.ends_with(&self.text[1..]),
            Kind::General(matcher) => matcher.matches(candidate),
        }
    }

    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether every text that `other` matches is matched by this pattern. Never wrongly true; wrongly false where
    /// only the texts a `*` of `other` can stand for would show it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        // A character that stands in no pattern takes the place of any text: only a `*` of this pattern matches it,
        // and what a `*` matches may be replaced by anything.
        const ANY_TEXT: &str = "\u{10FFFE}";
        let ordinary = !self.text.contains(ANY_TEXT) && !other.text.contains(ANY_TEXT);
        self.text == other.text || (ordinary && self.matches(&other.text.replace('*', ANY_TEXT)))
    }

    /// Whether the pattern matches one text only.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        !self.text.contains('*')
    }
}

impl Eq for Glob {}

impl PartialOrd for Glob {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Glob {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Serialize for Glob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::new(&text))
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Glob({:?})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn a_pattern_covers_only_what_it_matches_whatever_stands_for_the_stars() {
        let covers = |pattern: &str, other: &str| Glob::new(pattern).covers(&Glob::new(other));
        for (pattern, other) in
            [("*", "*"), ("*", "a*b"), ("*Error", "RateLimitError"), ("*Error", "a.*Error"), ("a*", "a*b"), ("a", "a")]
        {
            assert!(covers(pattern, other), "{pattern} {other}");
        }
        for (pattern, other) in [("a", "*"), ("a*b", "a*"), ("*Error", "*Errors"), ("a", "b"), ("a*b*", "a*c")] {
            assert!(!covers(pattern, other), "{pattern} {other}");
        }
    }

    #[test]
    fn every_kind_of_pattern_matches_what_the_matcher_does() {
        let texts = ["", "a", "b", "ab", "ba", "aa", "aba", "a*", "*a", "é", "aé", "éa", "a?", "**", "a\u{10FFFF}"];
        let patterns = ["", "*", "**", "a", "a*", "*a", "*a*", "a*b", "é*", "*é", "a?", "a**", "**a", "a\u{10FFFF}"];
        for (pattern, text) in patterns.iter().flat_map(|pattern| texts.iter().map(move |text| (pattern, text))) {
            let expected = super::Matcher::new(pattern).matches(text);
            assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_star_matches_any_run_of_characters_and_nothing_else_is_special() {
        assert!(Glob::new("*ValidationError").matches("pydantic.ValidationError"));
        assert!(Glob::new("tool_error:*").matches("tool_error:"));
        assert!(Glob::new("a*b*c").matches("a-b-b-c"));
        assert!(!Glob::new("a?c").matches("abc"));
        assert!(Glob::new("a?c").matches("a?c"));
        assert!(!Glob::new("Error").matches("error"));
    }
}
