//! Hex and decimal digits, as the key layouts write them.

use super::OffloadKey;

/// Longest decimal form of a `u32`.
pub(super) const U32_DIGITS_MAX: usize = 10;

/// The lower-case hex digits of a hash, without a heap allocation.
pub(super) struct Hex {
    digits: [u8; 2 * OffloadKey::HASH_BYTES_MAX],
    len: usize,
}

impl Hex {
    pub(super) fn new(hash: &[u8]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 2 * OffloadKey::HASH_BYTES_MAX];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(hash) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0xF)];
        }
        Self { digits, len: 2 * hash.len() }
    }

    pub(super) fn as_str(&self) -> &str {
        ascii(&self.digits[..self.len])
    }
}

/// The bytes of lower-case hex digits; `None` for anything else.
pub(super) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

/// The decimal digits of a number, without a heap allocation; `to_string` takes as long as the whole name.
pub(super) struct Decimal {
    digits: [u8; U32_DIGITS_MAX],
    first: usize,
}

impl Decimal {
    pub(super) fn new(mut number: u32) -> Self {
        let mut digits = [0; U32_DIGITS_MAX];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Self { digits, first };
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        ascii(&self.digits[self.first..])
    }
}

fn ascii(digits: &[u8]) -> &str {
    match std::str::from_utf8(digits) {
        Ok(digits) => digits,
        Err(_) => unreachable!("digits are ASCII"),
    }
}

/// One string of these parts, allocated once and not a byte too long.
pub(super) fn concat<const N: usize>(parts: [&str; N]) -> String {
    let mut whole = String::with_capacity(parts.iter().map(|part| part.len()).sum());
    for part in parts {
        whole.push_str(part);
    }
    whole
}

/// The number that [`Decimal`] writes like this; `None` for other spellings, such as `01` or `+1`.
pub(super) fn from_decimal(digits: &str) -> Option<u32> {
    let canonical = digits == "0" || digits.starts_with(|first: char| ('1'..='9').contains(&first));
    if canonical { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digits come back as the numbers and bytes they were made from, and other spellings do not.
    #[test]
    fn digits_are_canonical() {
        for number in [0, 7, 10, 4_294_967_295] {
            let digits = Decimal::new(number);
            assert_eq!(digits.as_str(), number.to_string());
            assert_eq!(from_decimal(digits.as_str()), Some(number));
        }
        for bad in ["", "01", "00", "+1", "-1", " 1", "4294967296", "1a"] {
            assert_eq!(from_decimal(bad), None, "{bad}");
        }
        assert_eq!(Hex::new(&[0x0A, 0xFF]).as_str(), "0aff");
        assert_eq!(from_hex("0aff"), Some(vec![0x0A, 0xFF]));
        for bad in ["0", "0A", "0g", "é"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
