//! The text of ids: `dl_` or `op_`, followed by a scrambled number in Crockford's base 32.
//!
//! Stores number their rows. A plain row number lets people guess its neighbours, estimate how much has failed, and
//! confuse the id of a replay with that of a dead letter. The text hides the number and names the kind. It is not a
//! secret, because anybody can compute the number: roles decide what a caller may see, never ids.
//!
//! Numbers from 0 to 2^40 - 1 have 8 characters, all others 13. Each number has exactly one text. Texts are computed in
//! both directions and never stored, and the mapping never changes: audit logs, exports and tickets contain them.

use std::fmt;

/// Digits and lower-case letters without i, l, o and u.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

const SHORT: Width = Width { bits: 40, chars: 8 };
const LONG: Width = Width { bits: 64, chars: 13 };

/// The text is not an id of the expected kind. The error says what such an id looks like, and quotes nothing
/// but ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidId(String);

/// A kind of id: its prefix, and how its numbers are scrambled.
#[derive(Debug)]
pub(crate) struct IdKind {
    prefix: &'static str,
    /// What it identifies, with its article.
    noun: &'static str,
    salt: u64,
    /// Odd, so that multiplying by it can be undone.
    factor: u64,
}

pub(crate) const DEAD_LETTER: IdKind = IdKind {
    prefix: "dl_",
    noun: "a dead letter",
    salt: 0x3c6e_f372_fe94_f82b,
    factor: 0x9e37_79b9_7f4a_7c15,
};

pub(crate) const OPERATION: IdKind = IdKind {
    prefix: "op_",
    noun: "an operation",
    salt: 0xa54f_f53a_5f1d_36f1,
    factor: 0xd134_2543_de82_ef95,
};

const KINDS: [&IdKind; 2] = [&DEAD_LETTER, &OPERATION];

impl IdKind {
    /// Writes the text of a number.
    pub(crate) fn write(&self, number: i64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = Width::of(number);
        let scrambled = width.scramble(number.cast_unsigned(), self);
        let digit = |place: u32| ALPHABET[(scrambled >> (5 * place)) as usize % 32] as char;
        f.write_str(self.prefix)?;
        (0..width.chars).rev().try_for_each(|place| fmt::Write::write_char(f, digit(place)))
    }

    /// Reads the number from a text. Accepts upper case, and letters that are mistaken for digits.
    pub(crate) fn read(&self, text: &str) -> Result<i64, InvalidId> {
        self.number(text).ok_or_else(|| {
            match KINDS.into_iter().find(|other| other.number(text).is_some()) {
                Some(other) => {
                    InvalidId(format!("{text} is the id of {}, not of {}", other.noun, self.noun))
                }
                None => InvalidId(format!(
                    "the id of {} is {} and 8 or 13 letters and digits, such as {}",
                    self.noun,
                    self.prefix,
                    Shown(self, 1)
                )),
            }
        })
    }

    fn number(&self, text: &str) -> Option<i64> {
        let (prefix, digits) = text.split_at_checked(self.prefix.len())?;
        let widths = [SHORT, LONG];
        let width = widths.into_iter().find(|width| digits.len() == width.chars as usize)?;
        let add = |value: u128, digit| Some(value << 5 | u128::from(value_of(digit)?));
        let scrambled = digits.bytes().try_fold(0, add)?;
        // 13 characters have one bit more than a number.
        let scrambled = u64::try_from(scrambled).ok()?;
        let number = width.restore(scrambled, self).cast_signed();
        // A number that fits the short text must not have a long one too.
        let is_ours = prefix.eq_ignore_ascii_case(self.prefix) && Width::of(number) == width;
        is_ours.then_some(number)
    }
}

struct Shown<'a>(&'a IdKind, i64);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(self.1, f)
    }
}

fn value_of(digit: u8) -> Option<u8> {
    let digit = match digit.to_ascii_lowercase() {
        b'o' => b'0',
        b'i' | b'l' => b'1',
        other => other,
    };
    ALPHABET.iter().position(|known| *known == digit).and_then(|place| u8::try_from(place).ok())
}

/// How many bits are scrambled, and how many characters hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Width {
    bits: u32,
    chars: u32,
}

impl Width {
    fn of(number: i64) -> Self {
        if (0..1 << SHORT.bits).contains(&number) { SHORT } else { LONG }
    }

    /// Multiplying carries each bit upwards, folding carries it down again. Twice each, every bit of the number
    /// changes about half of the bits of the result.
    fn scramble(self, number: u64, kind: &IdKind) -> u64 {
        let once = |value| self.cut(self.fold(value).wrapping_mul(kind.factor));
        self.fold(once(once(self.cut(number ^ kind.salt))))
    }

    fn restore(self, scrambled: u64, kind: &IdKind) -> u64 {
        let inverse = inverse(kind.factor);
        let once = |value| self.fold(self.cut(u64::wrapping_mul(value, inverse)));
        self.cut(once(once(self.fold(scrambled))) ^ kind.salt)
    }

    /// Undoes itself, because it folds exactly one half onto the other.
    fn fold(self, value: u64) -> u64 {
        value ^ (value >> (self.bits / 2))
    }

    fn cut(self, value: u64) -> u64 {
        value & (u64::MAX >> (u64::BITS - self.bits))
    }
}

/// The multiplicative inverse of `odd` modulo 2^64, and therefore modulo 2^40 (Newton's method: each step doubles
/// the number of correct bits, and `odd` itself has three).
const fn inverse(odd: u64) -> u64 {
    let (mut inverse, mut step) = (odd, 0);
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// Defines the type for one kind of id.
macro_rules! public_id {
    ($(#[$doc:meta])* $name:ident, $kind:expr) => {
        $(#[$doc])*
        ///
        /// People and programs see its text, which [`Display`](std::fmt::Display) writes and
        /// [`FromStr`](std::str::FromStr) reads. Ids have no order.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Creates an id from its number. For stores and transports, which assign the numbers; all others parse
            /// the text.
            pub const fn from_number(number: i64) -> Self {
                Self(number)
            }

            /// The number of the id. For stores and transports; all others show the text.
            pub const fn number(self) -> i64 {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $kind.write(self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::InvalidId;

            fn from_str(text: &str) -> Result<Self, $crate::InvalidId> {
                $kind.read(text).map(Self)
            }
        }
    };
}

pub(crate) use public_id;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn text(kind: &IdKind, number: i64) -> String {
        Shown(kind, number).to_string()
    }

    fn differences(one: &str, other: &str) -> usize {
        one.bytes().zip(other.bytes()).filter(|(one, other)| one != other).count()
    }

    /// The texts are in audit logs, exports and tickets: if this test fails, the code is wrong, not the
    /// test.
    #[test]
    fn texts_never_change() {
        for (kind, number, expected) in [
            (&DEAD_LETTER, 0, "dl_hwfwfpd9"),
            (&DEAD_LETTER, 1, "dl_g4jmah4z"),
            (&DEAD_LETTER, 2, "dl_ddbhm0jv"),
            (&DEAD_LETTER, (1 << 40) - 1, "dl_j71s5meq"),
            (&DEAD_LETTER, 1 << 40, "dl_1bhs7dpjzy6en"),
            (&DEAD_LETTER, -1, "dl_4mqar0v8kf53r"),
            (&DEAD_LETTER, i64::MAX, "dl_9brzvdf1mxecq"),
            (&DEAD_LETTER, i64::MIN, "dl_4y88wsw4ykc0w"),
            (&OPERATION, 0, "op_tsp060x0"),
            (&OPERATION, 1, "op_209aaw0b"),
            (&OPERATION, 2, "op_yygvnexs"),
            (&OPERATION, 1 << 40, "op_5snbf9c0r7mya"),
            (&OPERATION, i64::MIN, "op_8qc9xp9gfaswf"),
        ] {
            assert_eq!(text(kind, number), expected, "{number}");
            assert_eq!(kind.read(expected), Ok(number));
        }
    }

    #[test]
    fn consecutive_numbers_have_different_texts() {
        for kind in KINDS {
            let texts: Vec<_> = (0..20_000).map(|number| text(kind, number)).collect();
            let pairs = texts.windows(2).map(|pair| differences(&pair[0], &pair[1]));
            assert!(pairs.clone().min() >= Some(3), "{:?}", pairs.min());
            assert!(pairs.clone().sum::<usize>() > 7 * pairs.len(), "most of 8 characters differ");
            assert_eq!(texts.iter().collect::<HashSet<_>>().len(), texts.len());
        }
        let differ = differences(&text(&DEAD_LETTER, 1)[3..], &text(&OPERATION, 1)[3..]);
        assert!(differ >= 4, "a dead letter and an operation of one number: {differ}");
    }

    #[test]
    fn common_typos_are_read_and_everything_else_refused() {
        let (kind, id) = (&DEAD_LETTER, text(&DEAD_LETTER, 77));
        assert_eq!(kind.read(&id.to_uppercase()), Ok(77));
        let ones_and_zeros = (0..).find(|number| {
            let text = text(kind, *number);
            text.contains('0') && text.matches('1').count() > 1
        });
        let number = ones_and_zeros.unwrap();
        let mistyped = text(kind, number).replacen('1', "l", 1).replace('1', "I").replace('0', "o");
        assert_eq!(kind.read(&mistyped), Ok(number), "{mistyped}");
        let looks = format!(
            "the id of a dead letter is dl_ and 8 or 13 letters and digits, such as {}",
            text(kind, 1)
        );
        for bad in ["", "1", "-1", "dl", "dl_", "dl_1234567", "dl_123456789", "dl_1234567u"]
            .into_iter()
            .chain(["dl-12345678", "12345678", "dl_ 2345678", "xx_12345678", "dl_zzzzzzzzzzzzz"])
            .chain(["dl_ä234567", "äl_12345678", " dl_12345678", "dl_12345678 ", "op_1"])
        {
            assert_eq!(kind.read(bad).unwrap_err().to_string(), looks, "{bad}");
        }
    }

    #[test]
    fn an_id_of_another_kind_is_named_in_the_error() {
        let (letter, operation) = (text(&DEAD_LETTER, 5), text(&OPERATION, 5));
        assert_eq!(
            DEAD_LETTER.read(&operation).unwrap_err().to_string(),
            format!("{operation} is the id of an operation, not of a dead letter")
        );
        assert_eq!(
            OPERATION.read(&letter).unwrap_err().to_string(),
            format!("{letter} is the id of a dead letter, not of an operation")
        );
    }

    #[test]
    fn a_number_of_eight_characters_has_no_second_text_of_thirteen() {
        let scrambled = LONG.scramble(5, &DEAD_LETTER);
        let digit = |place: u32| ALPHABET[(scrambled >> (5 * place)) as usize % 32] as char;
        let long: String = (0..LONG.chars).rev().map(digit).collect();
        assert!(DEAD_LETTER.read(&format!("dl_{long}")).is_err());
    }

    proptest! {
        #[test]
        fn every_number_has_one_text(number: i64, short in 0_i64..1 << 40) {
            for kind in KINDS {
                prop_assert_eq!(kind.read(&text(kind, number)), Ok(number));
                prop_assert_eq!(kind.read(&text(kind, short)), Ok(short));
                prop_assert_eq!(text(kind, short).len(), 11);
            }
        }

        #[test]
        fn every_text_has_one_number(digits in "[0-9a-hjkmnp-tv-z]{8}") {
            for kind in KINDS {
                let id = format!("{}{digits}", kind.prefix);
                let number = kind.read(&id).unwrap();
                prop_assert!((0..1 << 40).contains(&number));
                prop_assert_eq!(text(kind, number), id);
            }
        }

        #[test]
        fn no_text_panics(anything: String, after in "(dl|op|DL)_.{0,14}") {
            let _ = (DEAD_LETTER.read(&anything), OPERATION.read(&after));
        }
    }
}
