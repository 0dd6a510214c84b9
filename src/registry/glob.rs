//! Glob patterns of shapes and signals: `*` stands for any characters, everything else for itself.

use std::fmt;

use wildmatch::WildMatchPattern;

/// `?` is no wildcard here: it may stand in messages. The replacement cannot occur in a pattern read from TOML text.
type Matcher = WildMatchPattern<'*', '\u{10FFFF}'>;

/// One compiled pattern, case-sensitive.
#[derive(Clone, PartialEq)]
pub struct Glob {
    text: String,
    matcher: Matcher,
}

impl Glob {
    /// Compiles a pattern.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), matcher: Matcher::new(text) }
    }

    /// Whether the whole of `candidate` matches.
    #[must_use]
    pub fn matches(&self, candidate: &str) -> bool {
        self.matcher.matches(candidate)
    }

    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches one text only.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        !self.text.contains('*')
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
    fn a_star_matches_any_run_of_characters_and_nothing_else_is_special() {
        assert!(Glob::new("*ValidationError").matches("pydantic.ValidationError"));
        assert!(Glob::new("tool_error:*").matches("tool_error:"));
        assert!(Glob::new("a*b*c").matches("a-b-b-c"));
        assert!(!Glob::new("a?c").matches("abc"));
        assert!(Glob::new("a?c").matches("a?c"));
        assert!(!Glob::new("Error").matches("error"));
    }
}
