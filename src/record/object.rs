//! Reading JSON objects strictly: derived structs also take arrays, which no record of this crate means.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::record::text::Text;

/// A value that must be written as an object.
pub(crate) struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OnlyMaps<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyMaps<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(OnlyMaps(PhantomData))
    }
}

/// A list of objects of which the first `N - 1` and the last are kept: the innermost cause is what matters, and a list
/// of a million empty objects must not become a million structs.
pub(crate) struct Innermost<T, const N: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Innermost<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded<T, const N: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Bounded<T, N> {
            type Value = Innermost<T, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Innermost<T, N>, A::Error> {
                let mut kept = Vec::new();
                while let Some(Object(item)) = items.next_element::<Object<T>>()? {
                    if kept.len() == N {
                        kept.pop();
                    }
                    kept.push(item);
                }
                Ok(Innermost(kept))
            }
        }

        deserializer.deserialize_seq(Bounded(PhantomData))
    }
}

/// Finds one member of an object by name, the last one where it stands twice.
pub(crate) struct Member<'n>(pub &'n str);

impl Member<'_> {
    /// The member's raw text, borrowed from the input.
    pub(crate) fn find<'de, D: Deserializer<'de>>(&self, deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
        deserializer.deserialize_map(Member(self.0))
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_wanted) = map.next_key_seed(Wanted(self.0))? {
            if is_wanted {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct Wanted<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        Ok(Text::deserialize(deserializer)?.as_str() == self.0)
    }
}
