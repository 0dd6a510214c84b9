//! Base64 as `CloudEvents` write it (RFC 4648 section 4): standard alphabet, padded.

/// Decodes padded base64; `None` where the text is not exactly that.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let (groups, []) = text.as_bytes().as_chunks::<4>() else { return None };
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (at, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|digit| **digit == b'=').count();
        if padding > 2 || (padding > 0 && at + 1 < groups.len()) {
            return None;
        }
        let mut bits = 0_u32;
        for digit in &group[..4 - padding] {
            bits = bits << 6 | value(*digit)?;
        }
        bits <<= 6 * u32::try_from(padding).ok()?;
        let [_, kept @ ..] = bits.to_be_bytes();
        let (kept, cut) = kept.split_at(3 - padding);
        // Bits that say nothing must be zero: two texts never mean the same bytes.
        if cut.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn decodes_the_vectors_of_rfc_4648_and_nothing_sloppy() {
        let vectors =
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob"), ("Zm9vYmFy", "foobar")];
        for (text, bytes) in vectors {
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(decode("+/+/"), Some(vec![0xFB, 0xFF, 0xBF]));
        for text in ["Zg", "Zg=", "Zh==", "Zg==Zg==", "====", "Z===", "Zm9-", "Zm9 ", "Zm9v\n", "Zü=="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
