//! Enumerations that stay readable when a newer writer adds a value.

/// Declares an enum of known words plus `Unknown(String)`, with `as_str`, `Display`, `Serialize` and `Deserialize`.
///
/// Readers must not reject a record because of a word they do not know yet: it is kept as it came.
macro_rules! open_enum {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(
                $(#[$vdoc])*
                #[doc = ""]
                #[doc = concat!("In records: `", $word, "`.")]
                $variant,
            )+
            /// A word this version does not know; kept as it came.
            Unknown(String),
        }

        impl $name {
            /// Every known word, in declaration order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Place of the word in [`Self::WORDS`]; behind the last one for a word this version does not know.
            #[must_use]
            pub fn index(&self) -> usize {
                #[allow(dead_code, reason = "only its numbers are used")]
                enum Place { $($variant),+, Unknown }
                match self {
                    $(Self::$variant => Place::$variant as usize,)+
                    Self::Unknown(_) => Place::Unknown as usize,
                }
            }

            /// The word as it stands in records.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Unknown(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = crate::record::text::Text::deserialize(deserializer)?;
                Ok(Self::from(word.as_str()))
            }
        }
    };
}

pub(crate) use open_enum;
