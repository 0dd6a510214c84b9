//! Borrowed text: strings of an event that point into its bytes unless they hold an escape.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A string borrowed from the input where that is possible.
///
/// A plain `&str` field rejects strings with escapes, and `Option<Cow<str>>` allocates for every value; this newtype
/// does neither.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

struct TextVisitor {
    /// Whole numbers are taken as their decimal text (error codes such as `429`).
    numbers: bool,
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Text<'de>, E> {
        self.visit_number(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Text<'de>, E> {
        self.visit_number(number)
    }
}

impl TextVisitor {
    fn visit_number<'de, E: Error>(self, number: impl fmt::Display) -> Result<Text<'de>, E> {
        if self.numbers {
            Ok(Text(Cow::Owned(number.to_string())))
        } else {
            Err(E::custom("a number where a string is needed"))
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor { numbers: false })
    }
}

/// Text that may be written as a whole number: codes of errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code<'a>(pub Text<'a>);

impl std::ops::Deref for Code<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        self.0.as_str()
    }
}

impl Serialize for Code<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Code<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor { numbers: true }).map(Code)
    }
}
