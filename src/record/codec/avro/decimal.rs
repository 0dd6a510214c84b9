//! Decimal numbers of Avro as decimal text, which loses no digit.

/// Widest unscaled value in bytes: 38 digits, what databases offer.
pub(super) const DECIMAL_BYTES_MAX: usize = 16;

/// Most digits after the point.
const SCALE_MAX: usize = 64;

/// The number with `scale` digits after the point from its unscaled big-endian two's complement; `None` over the limits.
pub(super) fn text(unscaled: &[u8], scale: usize) -> Option<String> {
    if unscaled.len() > DECIMAL_BYTES_MAX || scale > SCALE_MAX {
        return None;
    }
    let is_negative = unscaled.first().is_some_and(|byte| byte & 0x80 != 0);
    let start = if is_negative { -1_i128 } else { 0 };
    let number = unscaled.iter().fold(start, |number, byte| number << 8 | i128::from(*byte));
    let digits = format!("{:0>width$}", number.unsigned_abs().to_string(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if is_negative { "-" } else { "" };
    Some(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn decimals_keep_sign_scale_and_every_digit() {
        assert_eq!(text(&[0x04, 0xD2], 2).as_deref(), Some("12.34"));
        assert_eq!(text(&[0xFF], 2).as_deref(), Some("-0.01"));
        assert_eq!(text(&[], 0).as_deref(), Some("0"));
        assert_eq!(text(&[0x80], 0).as_deref(), Some("-128"));
        let least = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(text(&least, 0), Some(i128::MIN.to_string()));
        assert_eq!(text(&[0; 17], 0), None);
        assert_eq!(text(&[1], 65), None);
    }
}
